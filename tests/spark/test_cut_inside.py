"""Transactions that are cut inside, on their way through a stream and into a lake."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from tailrace.columns.read.planner import SplitPlanner
from tailrace.spark.datasource import Options
from tailrace.spark.inflow import Inflow
from tailrace.spark.shape import JSON_SCHEMA
from tailrace.spark.stream import StreamReader
from tailrace.spark.stream_options import StreamOptions
from tailrace.storage import find
from tests.recorded import CORPUS
from tests.spark.following import Follow, caught_up, check

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop"
CASES = [
    *(CORPUS / f"{server}.savepoints" for server in ("mysql-9.7", "mariadb-11.8")),
    SHOP / "mysql",
    SHOP / "mariadb",
]


@pytest.fixture
def each_statement(monkeypatch):
    """All planners cut at each statement."""
    monkeypatch.setitem(SplitPlanner.__init__.__kwdefaults__, "target_bytes", 1)


def ranges(folder, tmp_path, split):
    """A log's last file by a stream, in one batch: its partitions, and the rows by ``_seq``."""
    given = {"path": str(folder), "statements": "skip", "index": str(tmp_path / f"index-{split}")}
    given |= {"split": str(split), "start": f"{find(folder)[0].files[-1].name}:4"}
    for _ in range(2):  # by an index made now, and by one that was kept
        reader = StreamReader(Options.of(given), StreamOptions.of(given), JSON_SCHEMA)
        start = reader.initialOffset()
        partitions = reader.partitions(start, reader.latestOffset(start))
        rows = [
            row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()
        ]
        yield [each.split for each in partitions], sorted(rows, key=lambda row: int(row["_seq"]))


def test_a_range_of_a_stream(tmp_path):
    for number, folder in enumerate(CASES[:3]):
        whole, expected = next(ranges(folder, tmp_path / f"{number} whole", 1 << 30))
        assert not any(split.inside for split in whole)
        for splits, rows in ranges(folder, tmp_path / f"{number} parts", 1):
            assert rows == expected, folder
            assert any(split.inside for split in splits)
            assert len(splits) > len(whole)


def test_batches_end_where_transactions_do(each_statement):
    for folder, most in product(CASES, (1, 5000, None)):
        (series,) = find(folder)
        inflow = Inflow(series, None, (), hold=True)
        inflow.look(series)
        waiting = list(inflow._waiting)
        assert any(split.inside for split in waiting)
        taken = []
        while (batch := inflow.take(most)) is not None:
            assert batch.splits[0].inside is None, (folder, most)
            taken += batch.splits
        assert taken == waiting, (folder, most)


def test_a_lake_of_them(tmp_path, each_statement):
    lake = tmp_path / "lake"
    with Follow(SHOP / "mariadb", lake, batch_bytes=100_000) as following:
        following.wait_for(lambda: caught_up(following))
    expected = json.loads((SHOP / "expected.json").read_text())["mariadb"]["tables"]
    assert check(lake, following.report, expected) == len(expected)
