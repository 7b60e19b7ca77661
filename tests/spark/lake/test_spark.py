"""Spark with the formats' own jars reads a lake's tables, writes to them, and is gone on with."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.spark.lake.lake import open_store
from tests.spark.history.landing import READERS
from tests.spark.lake.making import COLUMNS, batch, begun, changes, made, reopened, row, state
from tests.spark.lake.on_spark import ROWS
from tests.spark.lake.patching import NAME, iceberg_rows, names, new, patch
from tests.spark.lake.patching import expected as wanted
from tests.spark.lake.test_foreign import by_bucket
from tests.waiting import DEADLINE
from tools.campaign.mirrored_lake import delta_rows


class Spark:
    """A process with a session of a format, whose jars it has from the start: see on_spark.py."""

    def __init__(self, name, folder):
        self.name = name
        self._said = folder / "said"
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.lake.on_spark", name, folder],
                cwd=Path(__file__).parents[3],
                env={**os.environ, "PYTHONPATH": "src:."},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def see(self, what, lake):
        """What Spark saw as it did that with a lake."""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps([what, str(lake)]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        said = self._said.read_text()
        if "UNRESOLVED DEPENDENCIES" in said and not os.environ.get("TAILRACE_REQUIRE_SERVERS"):
            pytest.skip("the jars of Delta and Iceberg cannot be had from here")
        assert answer, said[-3000:]
        found = json.loads(answer)
        assert "seen" in found, found["failed"]
        return found["seen"]

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(DEADLINE)


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def spark_of(request, tmp_path_factory):
    """One session of each format in turn."""
    running = Spark(request.param, tmp_path_factory.mktemp("spark"))
    yield running
    running.end()


@pytest.mark.slow
def test_spark_reads_and_merges(spark_of, tmp_path):
    lake, name = tmp_path / "lake", spark_of.name
    with open_store(lake, name) as store:
        store.commit(batch(store, 0))
        wide = COLUMNS.set(0, pa.field("id", pa.int64()))
        wide = wide.set(2, pa.field("price", pa.decimal128(14, 2)))
        wide = wide.set(9, pa.field("ratio", pa.float64()))
        store.commit(batch(store, 1, wide))
    seen = spark_of.see("merged", lake)
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
    with reopened(lake, name) as store:
        assert by_bucket(store) == [*range(20), 1000]
        rows = [row(number, wide) for number in range(21)]
        files = {"shop.orders": [changes(store.staging / "c", rows[20:], wide, 21)]}
        store.commit(
            made(store, files, {"shop.orders": state(store.staging / "s", rows, wide)}, 300)
        )
    now = READERS[name](lake, "shop.orders")
    assert sorted(now["id"].to_pylist()) == list(range(21))
    assert READERS[name](lake, "shop.orders_changelog").num_rows == 21


@pytest.mark.slow
@pytest.mark.parametrize("spark_of", ["iceberg"], indirect=True)
def test_spark_and_rows_that_are_beside_their_files(spark_of, tmp_path):
    lake = begun(tmp_path, "iceberg")
    with open_store(lake, "iceberg") as store:
        store.commit(patch(store, new(3, 5, 20), gone=[7]))
        store.commit(patch(store, new(3, 21), gone=[20]))
    rows, renamed = {0, 1, 2, 3, 4, 5, 6, 8, 9, 21}, {3, 5, 21}
    seen = spark_of.see("patched", lake)
    assert called(seen["current"]) == wanted(rows, renamed)
    assert called(seen["one"]) == [(5, "new")]
    assert seen["count"] == [{"n": 10, "most": 21}]
    rows = rows - {5, 6}
    merged = sorted([*wanted(rows - {4}, renamed), (4, "merged"), (1000, "merged")])
    assert called(seen["merged"]) == merged
    assert called(seen["compacted"]) == merged
    with reopened(lake, "iceberg") as store:
        assert by_bucket(store) == sorted(rows | {1000})
        store.commit(patch(store, new(4, 1000), gone=[0]))
    found = names(iceberg_rows(lake, "shop.orders"))
    assert found == sorted([*wanted(rows - {0, 4}, renamed), (4, "new"), (1000, "new")])


def called(rows):
    return [(each["id"], each["name"]) for each in rows]


@pytest.mark.slow
@pytest.mark.parametrize("spark_of", ["delta"], indirect=True)
def test_spark_reads_and_writes_vectors(spark_of, lake):
    """Delta's deletion vectors of ours, and we go on behind its own."""
    stages = spark_of.see("vectors", lake)
    ids = {*range(ROWS), ROWS} - {0, 7}
    named = {3: "new", ROWS: "new"}
    expect(stages["inline"], ids, named)
    ids -= set(range(10, 8010, 2))
    named |= {4: "new"}
    expect(stages["file"], ids, named)
    ids |= {20000}
    named |= {3: "merged", 20000: "inserted", 5: "new"}
    expect(stages["after merge"], ids, named)
    ids -= {5, 11}
    named |= {6: "new", 1: "new", 8999: "new"}
    del named[5]
    expect(stages["after delete"], ids, named)
    ids -= {2}
    expect(stages["after optimize"], ids, named)
    assert sorted(delta_rows(lake / NAME)["id"].to_pylist()) == sorted(ids)


def expect(stage, ids, named):
    assert stage["ids"] == sorted(ids)
    assert {int(key): name for key, name in stage["named"].items()} == named
    assert [row[0] for row in stage["few"]] == [each for each in sorted(ids) if each < 5]
