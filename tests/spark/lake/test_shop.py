"""`mirror` into Delta and Iceberg, against what the servers' own SELECT said of the shop."""

import pytest

from tailrace.spark import mirror
from tests.spark.history.landing import READERS
from tests.spark.lake.making import reopened
from tests.spark.replay import differences
from tools.shop import SHOP, SHOP_TABLES


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
        assert differences(read(lake, table), wanted) == [], table
        history = read(lake, f"{table}_history")
        assert history.filter(history["_is_current"]).num_rows == len(wanted["rows"]), table
    seqs = read(lake, "shop.orders_changelog")["_seq"].to_pylist()
    assert len(seqs) == len(set(seqs)) == 1097
    again = mirror(SHOP, lake, spark=spark, format=name, keep=keep)
    assert again.version == 1
    with reopened(lake, name) as store:
        assert store.manifest.version == 1
