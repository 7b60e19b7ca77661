"""`mirror` into Delta and Iceberg, against what the servers' own SELECT said of the shop."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tailrace.spark import mirror
from tailrace.spark.lake.open import open_store
from tests.spark.lake.test_tables import READERS
from tests.spark.replay import SHOP, SHOP_TABLES, differences


def with_times(rows, wanted):
    """The rows with durations where the server has TIME: a table has microseconds."""
    for name, declared in zip(wanted["columns"], wanted["types"], strict=True):
        if declared.startswith("time") and not declared.startswith("timestamp"):
            index = rows.schema.get_field_index(name)
            assert rows.schema.field(index).type == pa.int64()
            rows = rows.set_column(index, name, rows.column(index).cast(pa.duration("us")))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_the_shop(spark, tmp_path, name):
    check_shop(tmp_path / "lake", name, spark=spark)


def check_shop(lake, name, *, spark):
    keep = ("changelog", "current", "history")
    report = mirror(SHOP, lake, spark=spark, format=name, keep=keep)
    assert report.changes == 6232
    read = READERS[name]
    for table, wanted in SHOP_TABLES.items():
        assert differences(with_times(read(lake, table), wanted), wanted) == [], table
        history = read(lake, f"{table}_history")
        assert history.filter(history["_is_current"]).num_rows == wanted["count"], table
    seqs = read(lake, "shop.orders_changelog")["_seq"].to_pylist()
    assert len(seqs) == len(set(seqs)) == 1097
    again = mirror(SHOP, lake, spark=spark, format=name, keep=keep)
    assert again.version == 1
    with open_store(lake, name) as store:
        store.refresh()
        assert store.manifest.version == 1
