"""A manifest that nobody could read is not written: the batch fails, and the lake stays."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from tailrace.errors import PipelineError
from tailrace.spark.failure import Failure
from tailrace.spark.lake.asides import Asides
from tailrace.spark.lake.open import open_store
from tests.spark.lake.making import batch, made
from tests.spark.lake.test_tables import READERS


def seen(lake, name):
    """The rows of the changelog, and those of the current state."""
    if name == "parquet":
        return [pq.read_table(lake / "shop.orders" / part) for part in ("changelog", "current")]
    return [READERS[name](lake, table) for table in ("shop.orders_changelog", "shop.orders")]


@pytest.mark.parametrize("name", ["parquet", "delta", "iceberg"])
def test_what_does_not_fit_together_is_not_committed(tmp_path, name):
    lake = tmp_path / "lake"
    with open_store(lake, name) as store:
        store.commit(batch(store, 0))
        before = seen(lake, name)
        asides = Asides(store.manifest, store.manifest.keep)
        state = store.manifest.tables["shop.orders"]
        asides.fail_state("shop.orders", state, Failure("so", ("shop.gone",)), all=False)
        wrong = batch(store, 1)
        wrong = made(wrong.files, {}, 200, asides=asides)
        said = r"manifest\.json: .* table 'shop\.orders': a table is 'shop\.gone'; .* report it"
        with pytest.raises(PipelineError, match=said):
            store.commit(wrong)
    assert seen(lake, name) == before
    with open_store(lake, name) as store:
        assert store.manifest.version == 1
        assert store.manifest.tables["shop.orders"].set_aside is None
        assert seen(lake, name) == before
        store.commit(batch(store, 1))
    assert [each.num_rows for each in seen(lake, name)] == [20, 20]
