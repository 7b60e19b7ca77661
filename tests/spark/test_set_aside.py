"""One table fails, and the others go on: it is set aside, told of, and taken up again."""

from __future__ import annotations

import errno
import random
import shutil
from collections import Counter
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tailrace.cli.mirror.command import mirror as command
from tailrace.cli.mirror.progress import _Lines, notes
from tailrace.errors import (
    ConnectionLost,
    EventDecodeError,
    KeyMissing,
    LakeChanged,
    OutOfMemory,
    PipelineError,
    UsageError,
)
from tailrace.spark import mirror
from tailrace.spark.current import jobs
from tailrace.spark.failure import failure, of_one_table
from tailrace.spark.lake.delta import DeltaTables
from tailrace.spark.lake.open import open_store
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.manifest import Manifest, SourceState, TableState
from tailrace.spark.manifest.status import SET_ASIDE, Status
from tailrace.spark.workers import Workers
from tests.spark.following import read, url_of
from tests.spark.history.landing import land, parquet_rows
from tests.spark.lake.making import COLUMNS, batch, changes, made, row, state
from tests.spark.lake.test_killed import crashing, seen
from tests.spark.lake.test_tables import READERS, as_rows, expected
from tests.spark.replay import differences
from tools.campaign.mirrored_aside import run_poisoned
from tools.dumps import dump_databases

DATABASE = "aside"
BAD, GOOD = f"{DATABASE}.bad", f"{DATABASE}.good"


@pytest.fixture(scope="module")
def mysql(fresh_server):
    return fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})


@pytest.mark.parametrize("name", ["parquet", "delta", "iceberg"])
def test_tables_are_poisoned_in_many_ways(mysql, name):
    """The campaign's small size: all other tables are the server's after each batch."""
    report = run_poisoned(mysql, name, random.Random(1), rounds=1, rows=12)
    assert report.failures == []
    assert report.aside >= 12
    assert report.mended >= report.aside - 1
    assert report.equal > 20
    assert report.verified == 4


# --- a story of two tables ------------------------------------------------------------------------


class Story:
    """A server's table that is good, and one in whose folds something goes wrong."""

    def __init__(self, server, logs):
        self.server = server
        self.logs = logs
        server.execute("RESET BINARY LOGS AND GTIDS")
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.execute(f"CREATE DATABASE {DATABASE}")
        for name, column in ((BAD, "a_bad_column"), (GOOD, "n")):
            server.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, {column} INT)")
        self._next = 0
        self.change()

    def change(self):
        """Rows come, change and go in both tables; the files that are closed then are copied."""
        server, first = self.server, self._next
        self._next += 10
        for name in (BAD, GOOD):
            values = ", ".join(f"({number}, {number})" for number in range(first, self._next))
            server.execute(f"INSERT INTO {name} VALUES {values}")
            server.execute(f"UPDATE {name} SET id = id + 1000 WHERE id % 7 = 3 AND id < 1000")
            server.execute(f"DELETE FROM {name} WHERE id % 5 = 1")
        server.connection.commit()
        self.rotate()

    def rotate(self):
        """The file of the log that is closed by that is copied."""
        log = self.server.rotate()
        self.logs.mkdir(exist_ok=True)
        shutil.copy(log, self.logs / log.name)

    def check(self, lake, *names):
        """The tables are what SELECT says."""
        wanted = dump_databases(self.server, DATABASE)
        for name in names:
            assert differences(read(lake, name), wanted[name]) == []


@pytest.fixture
def story(mysql, tmp_path):
    return Story(mysql, tmp_path / "logs")


def failing(error=None, shard=None):
    """Folds of the bad table fail; with a ``shard`` only of that one."""
    real = jobs.fold

    def fold(job, report=None):
        if "a_bad_column" in job.target.columns.names and shard in {None, job.target.shard}:
            raise error or ZeroDivisionError("so it goes")
        return real(job, report)

    return mock.patch.object(jobs, "fold", fold)


def aside(lake):
    manifest = LakeView.open(lake).manifest
    return {name: table.set_aside for name, table in manifest.tables.items() if table.set_aside}


def test_a_mistake_of_ours_stops_one_table(story, tmp_path):
    """Its current state stands still, its changelog goes on; taken up, it is the server's."""
    lake = tmp_path / "lake"
    land(story.logs, lake)
    before = LakeView.open(lake).manifest.sources["logs"]
    story.change()
    with failing():
        report = land(story.logs, lake)
        story.change()
        again = land(story.logs, lake)
    status = report.set_aside[BAD]
    assert list(report.set_aside) == list(again.set_aside) == [BAD]
    assert status.reason == f"{BAD}: ZeroDivisionError: so it goes"
    assert status.since == f"{before.file}:{before.offset}"
    assert f"--retry-tables {BAD}" in status.needs
    assert aside(lake)[BAD].since == status.since
    story.check(lake, GOOD)
    log = read(lake, BAD, "changelog")
    assert log.num_rows == read(lake, GOOD, "changelog").num_rows
    assert land(story.logs, lake, retry_tables=BAD).set_aside == {}
    assert aside(lake) == {}
    story.check(lake, GOOD, BAD)
    assert read(lake, BAD, "changelog").num_rows == log.num_rows
    assert LakeView.open(lake).manifest.points == {}
    story.change()
    land(story.logs, lake)
    story.check(lake, GOOD, BAD)


def test_what_fails_again_stays_as_it_was(story, tmp_path):
    lake = tmp_path / "lake"
    land(story.logs, lake)
    story.change()
    with failing():
        first = land(story.logs, lake).set_aside[BAD]
    with failing(KeyError("other")):
        second = land(story.logs, lake, retry_tables="aside.*").set_aside[BAD]
    assert second.reason == f"{BAD}: KeyError: 'other'"
    assert (second.since, second.parts) == (first.since, first.parts)
    story.check(lake, GOOD)
    with pytest.raises(UsageError, match=f"fits {GOOD} among .* set aside.* {BAD}"):
        land(story.logs, lake, retry_tables=GOOD)


def test_a_table_that_is_new_fails(story, tmp_path):
    """Nothing of it but its changelog is in the lake; it is taken up from the log's begin."""
    lake = tmp_path / "lake"
    with failing():
        assert land(story.logs, lake).set_aside[BAD].since == ""
    assert LakeView.open(lake).manifest.tables[BAD].current is None
    story.change()
    land(story.logs, lake)
    land(story.logs, lake, retry_tables=BAD)
    story.check(lake, GOOD, BAD)


def test_a_lake_without_changelogs(story, tmp_path):
    """What came since is read again all the same."""
    lake = tmp_path / "lake"
    with failing():
        land(story.logs, lake, keep=["current"])
        story.change()
        assert list(land(story.logs, lake).set_aside) == [BAD]
    assert land(story.logs, lake, retry_tables=BAD).set_aside == {}
    story.check(lake, GOOD, BAD)
    story.change()
    land(story.logs, lake)
    story.check(lake, GOOD, BAD)


@pytest.mark.parametrize("rename", [True, False])
def test_tables_that_stand_since_different_places(story, tmp_path, rename):
    """RENAME TABLE gives the bad table the good one's name: neither gets rows that it has."""
    lake, whole = tmp_path / "lake", tmp_path / "whole"
    keep = ["changelog", "current", "history"]
    land(story.logs, lake, keep=keep)
    with failing():
        for _ in range(2):
            story.change()
            assert list(land(story.logs, lake).set_aside) == [BAD]
        if rename:
            story.server.execute(f"RENAME TABLE {GOOD} TO {DATABASE}.was, {BAD} TO {GOOD}")
        else:
            story.server.execute(f"DROP TABLE {GOOD}")
            story.server.execute(f"RENAME TABLE {BAD} TO {GOOD}")
        story.rotate()
        found = land(story.logs, lake).set_aside
    assert found[GOOD].origins == (BAD,)
    assert found[GOOD].since != found[BAD].since
    assert land(story.logs, lake, retry_tables=f"{DATABASE}.*").set_aside == {}
    assert LakeView.open(lake).manifest.points == {}
    land(story.logs, whole, keep=keep)
    for name in LakeView.open(whole).manifest.tables:
        for part in keep:
            if (whole / name / part).exists():
                wanted, rows = (parquet_rows(each, name, part) for each in (whole, lake))
                assert rows.num_rows == wanted.num_rows, (name, part)
    story.check(lake, GOOD)


def test_a_table_that_took_over_rows_of_the_lake(story, tmp_path):
    """Its rows from before are not read again where it is taken up: it is made from nothing."""
    lake, new = tmp_path / "lake", f"{DATABASE}.renamed"
    keep = ["changelog", "current", "history"]
    land(story.logs, lake, keep=keep)
    with failing():
        story.server.execute(f"RENAME TABLE {BAD} TO {new}")
        story.server.execute(f"INSERT INTO {new} VALUES (5000, 1)")
        story.rotate()
        assert list(land(story.logs, lake, keep=keep).set_aside) == [new]
        found = land(story.logs, lake, keep=keep, retry_tables=new).set_aside
        assert "so it goes" in found[new].reason
    assert land(story.logs, lake, keep=keep, retry_tables=new).set_aside == {}
    story.check(lake, new, GOOD)


def test_the_log_is_no_longer_there(story, tmp_path):
    lake = tmp_path / "lake"
    land(story.logs, lake)
    story.change()
    with failing():
        land(story.logs, lake)
    first, second = sorted(story.logs.iterdir())
    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(PipelineError, match=f"{BAD}: the log of source logs is no longer there"):
        land(story.logs, lake, retry_tables=BAD)
    assert land(story.logs, lake).set_aside.keys() == {BAD}
    first.write_bytes(kept)
    land(story.logs, lake, retry_tables=BAD)
    story.check(lake, GOOD, BAD)
    assert second.exists()


def test_a_server_is_asked_for_its_log_again(story, tmp_path):
    """The lake's copy of the files before was deleted meanwhile."""
    lake, url = tmp_path / "lake", url_of(story.server)
    options = {"tables": f"{DATABASE}.*"}
    run(url, lake, **options)
    story.change()
    with failing():
        run(url, lake, **options)
    for _ in range(2):
        story.change()
        run(url, lake, **options)
    (sources,) = (lake / "_tailrace" / "sources").iterdir()
    name = aside(lake)[BAD].since.partition(":")[0]
    assert not (sources / name).exists()
    left = shutil.copytree(sources, f"{sources}.again")  # by a run that was killed
    run(url, lake, **options)
    assert not Path(left).exists()
    assert run(url, lake, retry_tables=BAD, **options).set_aside == {}
    story.check(lake, GOOD, BAD)
    assert [each.name for each in sources.parent.iterdir()] == [sources.name]


def test_a_lake_that_begins_in_the_middle(story, tmp_path):
    """What was before is not read when a table is taken up from the begin."""
    lake, server = tmp_path / "lake", story.server
    for name in (BAD, GOOD):
        server.execute(f"DELETE FROM {name} WHERE id > 1")
    server.connection.commit()
    end = server.binlogs()[-1]
    place = f"{end.name}:{end.stat().st_size}"
    story.change()
    url = url_of(server, f"ssl_mode=DISABLED&position={place}")
    options = {"tables": f"{DATABASE}.*", "incomplete": "accept"}
    with failing():
        assert run(url, lake, **options).set_aside.keys() == {BAD}
    report = run(url_of(server), lake, retry_tables=BAD, **options)
    assert report.set_aside == {}
    kinds = {table.name: [each.kind for each in table.states] for table in report.tables}
    assert kinds == {BAD: ["incomplete"], GOOD: ["incomplete"]}
    good, bad = read(lake, GOOD), read(lake, BAD)
    assert sorted(bad["id"].to_pylist()) == sorted(good["id"].to_pylist())
    assert read(lake, BAD, "changelog").num_rows == read(lake, GOOD, "changelog").num_rows


def run(url, lake, **options):
    """One run, in this process."""
    real = Workers.__init__

    def here(self, spark, **more):
        real(self, spark, **{**more, "here": True})

    with (
        mock.patch.object(Workers, "__init__", here),
        mock.patch.object(Workers, "session", return_value=None),
        mock.patch.object(Workers, "start", return_value=None),
    ):
        return mirror(url, lake, **options)


@pytest.mark.parametrize("name", ["parquet", "delta"])
def test_of_shards_one_stands_still(story, tmp_path, name):
    """The rows that the other source has in the same table go on."""
    lake, other = tmp_path / "lake", tmp_path / "other"
    options = {"shards": True, "keep": ["changelog", "current", "history"], "format": name}

    def run_both(**more):
        shutil.copytree(story.logs, other, dirs_exist_ok=True)
        return land([story.logs, other], lake, **options, **more)

    def counts():
        rows = parquet_rows(lake, BAD, "current") if name == "parquet" else delta(lake)
        return Counter(rows["_source"].to_pylist())

    run_both()
    before = counts()
    story.change()
    with failing(shard="other"):
        assert list(run_both().set_aside) == [f"other/{BAD}"]
    now = counts()
    assert now["logs"] != before["logs"]
    assert now["other"] == before["other"]
    story.change()
    assert list(run_both().set_aside) == [f"other/{BAD}"]
    assert run_both(retry_tables=BAD).set_aside == {}
    found = counts()
    assert found["logs"] == found["other"] == dump_databases(story.server, DATABASE)[BAD]["count"]


def test_a_table_of_a_shard_is_renamed_while_it_stands_still(story, tmp_path):
    """The tables that it waits for are called as those of the lake, and both are taken up."""
    lake, other, new = tmp_path / "lake", tmp_path / "other", f"{DATABASE}.renamed"

    def run_both(**more):
        shutil.copytree(story.logs, other, dirs_exist_ok=True)
        return land([story.logs, other], lake, shards=True, **more)

    run_both()
    with failing(shard="other"):
        story.change()
        run_both()
        story.server.execute(f"RENAME TABLE {BAD} TO {new}")
        story.rotate()
        assert sorted(run_both().set_aside) == [f"other/{BAD}", f"other/{new}"]
    assert aside(lake)[f"other/{new}"].origins == (f"other/{BAD}",)
    assert run_both(retry_tables=f"{DATABASE}.*").set_aside == {}
    counts = Counter(parquet_rows(lake, new, "current")["_source"].to_pylist())
    assert counts["logs"] == counts["other"]
    assert counts["logs"] == dump_databases(story.server, DATABASE)[new]["count"]


def delta(lake):
    return pa.table(DeltaTable(str(lake / BAD)).to_pyarrow_table())


def test_what_is_not_one_tables_stops_the_mirror(story, tmp_path):
    """A full disk: nothing is set aside, and the lake is as it was."""
    lake = tmp_path / "lake"
    land(story.logs, lake)
    story.change()
    full = OSError(errno.ENOSPC, "No space left on device")
    with failing(full), pytest.raises(OSError, match="No space left"):
        land(story.logs, lake)
    assert aside(lake) == {}
    assert LakeView.open(lake).manifest.version == 1
    land(story.logs, lake)
    story.check(lake, GOOD, BAD)


def caused(error, cause):
    error.__cause__ = cause
    return error


THE_TABLES = (
    ZeroDivisionError(),
    EventDecodeError("x"),
    PipelineError("x"),
    OSError(errno.ENOENT, "gone"),
    OSError("Couldn't deserialize thrift"),
    pa.ArrowInvalid("x"),
)
THE_MIRRORS = (
    MemoryError(),
    pa.ArrowMemoryError("x"),
    OutOfMemory("x"),
    OSError(errno.ENOSPC, "full"),
    OSError(errno.EIO, "broken"),
    caused(PipelineError("cannot write"), OSError(errno.EROFS, "read-only")),
    ImportError("numba"),
    ConnectionLost("x"),
    KeyMissing("x", key_id="1"),
    LakeChanged("x"),
    KeyboardInterrupt(),
)


def test_the_line():
    assert [each for each in THE_TABLES if not of_one_table(each)] == []
    assert [each for each in THE_MIRRORS if of_one_table(each)] == []
    for error in THE_MIRRORS[:-1]:
        with pytest.raises(type(error)):
            failure(error)


def test_in_tasks_of_spark(story, tmp_path, spark):
    """A file that is cut off: the failure comes back from the task, and the others' results."""
    lake = tmp_path / "lake"
    mirror(story.logs, lake, spark=spark)
    (path,) = (lake / BAD / "current").resolve().glob("part-*")
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-100])
    story.change()
    report = mirror(story.logs, lake, spark=spark)
    assert path.name in report.set_aside[BAD].reason
    story.check(lake, GOOD)
    path = (lake / BAD / "current").resolve() / path.name
    path.unlink()
    path.write_bytes(content)
    assert mirror(story.logs, lake, spark=spark, retry_tables=BAD).set_aside == {}
    story.check(lake, GOOD, BAD)


# --- what a person sees ---------------------------------------------------------------------------


def test_the_command_line(story, tmp_path, capsys, monkeypatch):
    lake = tmp_path / "lake"
    monkeypatch.setattr("tailrace.spark.mirror", run_as)
    with failing():
        assert command(str(story.logs), into=str(lake)) == 0
    out, _ = capsys.readouterr()
    line = next(line for line in out.splitlines() if "set aside" in line)
    assert line.startswith(f"{BAD}: set aside since the log's begin: ZeroDivisionError")
    assert command(str(story.logs), into=str(lake)) == 0
    assert "set aside" in capsys.readouterr().out
    assert command(str(story.logs), into=str(lake), fail_on_set_aside=True) == 1
    capsys.readouterr()
    assert (
        command(str(story.logs), into=str(lake), fail_on_set_aside=True, retry_tables=(BAD,)) == 0
    )
    assert "set aside" not in capsys.readouterr().out
    story.check(lake, GOOD, BAD)


def test_rows_that_are_not_read_are_not_counted_which_is_said(story, tmp_path):
    """Nothing is read of a table whose changelog stands still; where it goes on, it is counted."""
    lake, server, table = tmp_path / "lake", story.server, f"{DATABASE}.doc"
    server.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, doc JSON)")
    document = "JSON_OBJECT('a', 1, 'b', REPEAT('x', 200))"
    server.execute(f"INSERT INTO {table} VALUES (1, {document})")
    story.change()
    land(story.logs, lake)
    server.execute("SET binlog_row_image = 'MINIMAL', binlog_row_value_options = 'PARTIAL_JSON'")
    server.execute(f"UPDATE {table} SET doc = JSON_SET(doc, '$.a', 7)")
    server.execute("SET binlog_row_image = 'FULL', binlog_row_value_options = ''")
    for _ in range(2):
        server.execute(f"INSERT INTO {table} SELECT MAX(id) + 1, '[]' FROM {table}")
        story.change()
        with failing():
            tables = {each.name: each for each in land(story.logs, lake).tables}
        assert (tables[table].unread, tables[table].changes) == (True, {})
        assert (tables[BAD].unread, tables[GOOD].unread) == (False, False)
        assert tables[BAD].changes == tables[GOOD].changes != {}
        said = "; its rows since then are not read, and not counted here"
        assert notes(tables[table])[0].endswith(said)
        assert not notes(tables[BAD])[0].endswith(said)


def run_as(sources, into, *, spark=None, **more):
    del spark
    return run(sources, into, **more)


def test_it_is_said_at_every_trigger(story, tmp_path, capsys):
    lake, moments = tmp_path / "lake", []
    with failing():
        land(story.logs, lake)
    with mock.patch("tests.spark.history.landing.mirror", lambda *a, **k: collect(moments, a, k)):
        land(story.logs, lake)
    assert [list(moment.set_aside) for moment in moments] == [[BAD]] * len(moments)
    shown = _Lines()
    for moment in moments * 2:
        shown._next = 0.0
        shown.moment(moment)
    lines = capsys.readouterr().err.splitlines()
    assert sum(f"{BAD}: set aside since" in line for line in lines) == 1
    assert sum(line.endswith(f"1 table is set aside: {BAD}") for line in lines) == 2 * len(moments)


def collect(moments, arguments, options):
    told = options["on_moment"]

    def on_moment(moment):
        moments.append(moment)
        told(moment)

    return mirror(*arguments, **{**options, "on_moment": on_moment})


# --- commits that are killed ----------------------------------------------------------------------


def with_a_bad_one(store, number):
    """A batch of two tables that are alike."""
    work = batch(store, number)
    other = batch_of(store, number)
    return made(
        {**work.files, "shop.bad": other.files["shop.bad"]},
        {**work.built, "shop.bad": other.built["shop.bad"]},
        100 * (number + 1),
    )


def batch_of(store, number):

    new = [row(each) for each in range(number * 10, (number + 1) * 10)]
    every = [row(each) for each in range((number + 1) * 10)]
    return made(
        {
            "shop.bad": [
                changes(store.staging / "c", new, COLUMNS, number * 10 + 1, name="shop.bad")
            ]
        },
        {"shop.bad": state(store.staging / "s", every, COLUMNS, prefix="bad")},
        100 * (number + 1),
    )


def test_killed_while_a_table_is_set_aside(tmp_path, monkeypatch):
    """At each step of a commit: the other table has each batch once; the bad one has it to come."""
    lake = tmp_path / "lake"
    with open_store(lake, "delta") as store:
        store.commit(with_a_bad_one(store, 0))
    real = DeltaTables.commit

    def commit(self, step, number):
        if step.table == "shop.bad":
            raise RuntimeError("not this one")
        real(self, step, number)

    monkeypatch.setattr(DeltaTables, "commit", commit)
    done, fatal, waited = 1, 0, 0
    while crashing(lake, "delta", fatal, with_a_bad_one) is None:
        with open_store(lake, "delta") as store:
            now = store.manifest.version
            status = store.manifest.tables["shop.bad"].set_aside
        assert now in {done, done + 1}
        assert (status is not None) == (now > 1)
        if status is not None:
            assert status.batch == 2
            assert "not this one" in status.reason
            waited += 1
        log, rows = seen(lake, "delta")
        assert log == list(range(1, 10 * now + 1))
        assert rows == expected(range(10 * now))
        done = now
        fatal += 1
    assert waited > 5
    monkeypatch.undo()
    with open_store(lake, "delta") as store:
        for _ in range(2):
            assert store.take_rest(["shop.bad"]) == {}
    there = READERS["delta"](lake, "shop.bad_changelog")["_seq"].to_pylist()
    assert sorted(map(int, there)) == list(range(1, 21))
    assert as_rows(READERS["delta"](lake, "shop.bad")) == expected(range(20))


def test_a_status_is_kept(tmp_path):
    point = SourceState("b.000001", 7, {}, "h", "t", {"version": 1})
    status = Status(SET_ASIDE, "why", "b.000001:7", "what", {"current": "b.000001:7"}, (), 3)
    table = TableState("d", "t", "s", "log", pa.schema([]), folder="d.t", states=(status,))
    manifest = Manifest(
        4, None, ("current",), {"s": point}, {"d.t": table}, points={"s": {"b.000001:7": point}}
    )
    manifest.write(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    assert Path(tmp_path, "manifest.json").is_file()
