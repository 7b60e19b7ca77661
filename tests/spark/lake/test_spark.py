"""Spark with the formats' own jars reads a lake's tables, writes to them, and is gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.spark.lake.open import open_store
from tests.spark.lake.making import COLUMNS, batch, changes, made, row, state
from tests.spark.lake.patching import READERS as PATCHED
from tests.spark.lake.patching import expected as wanted
from tests.spark.lake.patching import names, new, patch
from tests.spark.lake.test_foreign import by_bucket
from tests.spark.lake.test_tables import READERS


def on_spark(*arguments, module="on_spark"):
    """What that module saw, in a process of its own: a session has its jars from the start."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.spark.lake.{module}", *map(str, arguments)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "src:."},
        capture_output=True,
        text=True,
        check=False,
    )
    if "UNRESOLVED DEPENDENCIES" in done.stderr and not os.environ.get("TAILRACE_REQUIRE_SERVERS"):
        pytest.skip("the jars of Delta and Iceberg cannot be had from here")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_spark_reads_and_merges(tmp_path, name):
    lake = tmp_path / "lake"
    with open_store(lake, name) as store:
        store.commit(batch(store, 0))
        wide = COLUMNS.set(0, pa.field("id", pa.int64()))
        wide = wide.set(2, pa.field("price", pa.decimal128(14, 2)))
        wide = wide.set(9, pa.field("ratio", pa.float64()))
        store.commit(batch(store, 1, wide))
    seen = on_spark(name, lake)
    assert [each["id"] for each in seen["current"]] == list(range(20))
    third = seen["current"][3]
    assert third["name"] == row(3)["name"]
    assert third["price"] == 3.25
    assert third["big"] == 2**64 - 4
    assert third["span"] == -800 * 3600 * 10**6 + 3
    assert third["born"] == "2000-01-04"
    assert third["seen"] == "2024-01-01T00:00:03.000Z"
    assert third["at"].startswith("2020-01-01T03:00:00.123")
    assert [each["id"] for each in seen["log"]] == list(range(20))
    assert seen["skipped"] == [{"id": 5}]
    assert seen["merged"] == [{"id": 3, "name": "merged"}, {"id": 1000, "name": "new"}]
    with open_store(lake, name) as store:
        store.refresh()
        assert by_bucket(store) == [*range(20), 1000]
        rows = [row(number, wide) for number in range(21)]
        files = {"shop.orders": [changes(store.staging / "c", rows[20:], wide, 21)]}
        store.commit(made(files, {"shop.orders": state(store.staging / "s", rows, wide)}, 300))
    now = READERS[name](lake, "shop.orders")
    assert sorted(now["id"].to_pylist()) == list(range(21))
    assert READERS[name](lake, "shop.orders_changelog").num_rows == 21


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_spark_and_rows_that_are_beside_their_files(tmp_path, name):
    lake = tmp_path / "lake"
    with open_store(lake, name) as store:
        store.commit(batch(store, 0))
        store.commit(patch(store, new(3, 5, 20), gone=[7]))
        store.commit(patch(store, new(3, 21), gone=[20]))
    rows, renamed = {0, 1, 2, 3, 4, 5, 6, 8, 9, 21}, {3, 5, 21}
    seen = on_spark(name, lake, "patched")
    assert called(seen["current"]) == wanted(rows, renamed)
    assert called(seen["one"]) == [(5, "new")]
    assert seen["count"] == [{"n": 10, "most": 21}]
    rows = rows - {5, 6}
    merged = sorted([*wanted(rows - {4}, renamed), (4, "merged"), (1000, "merged")])
    assert called(seen["merged"]) == merged
    assert called(seen["compacted"]) == merged
    with open_store(lake, name) as store:
        store.refresh()
        assert by_bucket(store) == sorted(rows | {1000})
        store.commit(patch(store, new(4, 1000), gone=[0]))
    found = names(PATCHED[name](lake, "shop.orders"))
    assert found == sorted([*wanted(rows - {0, 4}, renamed), (4, "new"), (1000, "new")])


def called(rows):
    return [(each["id"], each["name"]) for each in rows]
