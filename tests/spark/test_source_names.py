"""What sources are called in a lake, while logs come into their folders and leave them."""

import shutil
import threading

import pytest

from tailrace.errors import PipelineError
from tailrace.spark import mirror
from tailrace.spark.lake.reading import LakeView
from tests.spark.following import BOTH, no_spark
from tests.spark.history.landing import land, parquet_rows

TABLE = "names.t"


class Logs:
    """A folder of several servers' logs, which one server has written in turn: each has the table.

    ``rows`` are the server's after each file.
    """

    def __init__(self, server, folder):
        self.server, self.folder, self.lake = server, folder / "logs", folder / "lake"
        self._made = folder / "made"
        self._made.mkdir()
        self.folder.mkdir()
        self.rows = {}
        for name, *values in (
            ("a.000001", 1, 2),
            ("a.000002", 3),
            ("b.000001", 1),
            ("b.000002", 7),
        ):
            if name.endswith("1"):
                server.execute("DROP DATABASE IF EXISTS names")
                server.rotate()
                server.execute("CREATE DATABASE names")
                server.execute(f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, name VARCHAR(20))")
            for each in values:
                server.execute(f"INSERT INTO {TABLE} VALUES ({each}, '{name}')")
            self.rows[name] = sorted(server.query(f"SELECT id, name FROM {TABLE}"))
            shutil.copy(server.rotate(), self._made / name)

    def come(self, *names, into=None):
        for name in names:
            source, _, target = name.partition(" as ")
            shutil.copy(self._made / source, (into or self.folder) / (target or source))

    def go(self, base):
        for each in self.folder.glob(f"{base}.0*"):
            each.unlink()

    def land(self, *sources):
        return land(list(sources) or self.folder, self.lake, shards=True)

    def found(self):
        """The lake's rows of the table, by source."""
        found = {}
        for row in parquet_rows(self.lake, TABLE).to_pylist():
            found.setdefault(row["_source"], []).append((row["id"], row["name"]))
        return {name: sorted(rows) for name, rows in found.items()}


@pytest.fixture
def logs(source, tmp_path):
    return Logs(source, tmp_path)


@BOTH
def test_a_second_log_comes_and_the_first_goes(logs):
    """Each keeps the name that the lake has for it."""
    logs.come("a.000001")
    logs.land()
    assert logs.found() == {"logs": logs.rows["a.000001"]}
    logs.come("a.000002", "b.000001")
    logs.land()
    assert logs.found() == {"logs": logs.rows["a.000002"], "logs/b": logs.rows["b.000001"]}
    logs.go("a")
    logs.come("b.000002")
    logs.land()
    assert logs.found() == {"logs": logs.rows["a.000002"], "logs/b": logs.rows["b.000002"]}
    logs.come("a.000001", "a.000002")
    assert logs.land().log_bytes == 0


def test_one_of_two_logs_goes(logs):
    logs.come("a.000001", "b.000001")
    logs.land()
    logs.go("a")
    logs.come("b.000002")
    logs.land()
    assert logs.found() == {"logs/a": logs.rows["a.000001"], "logs/b": logs.rows["b.000002"]}


def test_two_folders_of_one_name(logs, tmp_path):
    """One has a log, the other has two, of which one is called as that."""
    other = tmp_path / "other" / "logs"
    other.mkdir(parents=True)
    logs.come("a.000001")
    logs.land()
    logs.come("b.000001 as a.000001", "b.000002 as c.000001", into=other)
    logs.land(logs.folder, other)
    logs.come("b.000002 as a.000002", into=other)
    logs.land(other)
    logs.come("a.000002")
    logs.land()
    expected = {"logs": logs.rows["a.000002"], "logs/a": logs.rows["b.000002"]}
    assert {name: logs.found()[name] for name in expected} == expected
    assert sorted(LakeView.open(logs.lake).manifest.sources) == ["logs", "logs/a", "logs/c"]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_second_log_comes_while_the_first_is_followed(logs, is_new):
    logs.come("a.000001")
    if not is_new:
        logs.land()
    stop, steps = threading.Event(), ["a.000002", "b.000001"]

    def on_moment(moment):
        if steps:
            logs.come(steps.pop())
        elif moment.report is None:
            stop.set()

    mirror(
        logs.folder,
        logs.lake,
        spark=no_spark,
        follow=True,
        trigger=0.02,
        stop=stop,
        on_moment=on_moment,
        shards=True,
    )
    assert logs.found() == {"logs": logs.rows["a.000002"], "logs/b": logs.rows["b.000001"]}


def test_a_log_that_is_given_in_another_way_is_no_other_source(logs, tmp_path):
    """Nothing is written. Two servers may have the same log so far, and then both are given."""
    logs.come("a.000001")
    logs.land()
    before = LakeView.open(logs.lake).manifest
    logs.come("a.000002")
    shutil.copytree(logs.folder, tmp_path / "renamed")
    for other in (tmp_path / "renamed", logs.folder / "a.000001"):
        with pytest.raises(PipelineError, match="lake has as source logs: give its folder, file"):
            logs.land(other)
    assert LakeView.open(logs.lake).manifest == before
    logs.land(logs.folder, tmp_path / "renamed")
    assert logs.found() == dict.fromkeys(["logs", "renamed"], logs.rows["a.000002"])
    with pytest.raises(PipelineError, match="has its rows twice, so create a new lake; if"):
        logs.land(tmp_path / "renamed")


def test_logs_of_which_nothing_was_read_are_not_the_same(logs, tmp_path):
    """All begin with the same bytes."""
    empty, other = tmp_path / "empty", tmp_path / "other"
    for folder in (empty, other):
        folder.mkdir()
    shutil.copy(logs.server.binlogs()[-1], empty / "a.000001")
    logs.come("a.000001", into=other)
    logs.land(empty)
    logs.land(other)
    assert logs.found() == {"other": logs.rows["a.000001"]}
