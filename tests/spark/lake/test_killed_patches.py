"""As test_killed.py, with batches that are put beside a table's files."""

from __future__ import annotations

import pytest

from tailrace.spark.lake import vectors
from tailrace.spark.lake.open import open_store
from tailrace.spark.lake.steps import hidden_of
from tests.spark.lake.making import batch
from tests.spark.lake.patching import NAME, READERS, expected, names, new, patch
from tests.spark.lake.test_killed import crashing

ROWS = 12_000
GONE = 300
"""Rows that a batch deletes: after some batches their vectors are too large for the log."""


def work(store, number):
    gone = range(1000 + number * GONE, 1000 + (number + 1) * GONE)
    return patch(store, new(number, ROWS + number), gone, first=ROWS + 10 * number)


def after(version):
    """What is there once so many batches are done."""
    done = range(1, version)
    gone = {key for each in done for key in range(1000 + each * GONE, 1000 + (each + 1) * GONE)}
    fresh = [ROWS + each for each in done]
    return expected({*range(ROWS), *fresh} - gone, {*done, *fresh})


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_killed_at_each_step(tmp_path, name):
    lake = tmp_path / "lake"
    with open_store(lake, name) as store:
        store.commit(batch(store, 0, rows=ROWS))
    done, fatal, undone, finished = 1, 0, 0, 0
    while (steps := crashing(lake, name, fatal, work)) is None:
        with open_store(lake, name) as store:
            now = store.manifest.version
            assert now in {done, done + 1}
            undone += now == done
            finished += now == done + 1
            assert store._tables.deleted(NAME) == hidden_of(store.manifest, NAME)
            store.refresh()
            assert store.manifest.version == now
        assert names(READERS[name](lake, NAME)) == after(now)
        done = now
        fatal += 1
    assert steps == fatal
    assert undone > 5
    assert finished > 5
    assert names(READERS[name](lake, NAME)) == after(done + 1)
    if name == "delta":
        assert len(list((lake / NAME).glob(vectors.ANY_FILE))) > 1
