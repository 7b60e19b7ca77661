"""One table fails, and the others go on: it is set aside, told of, and taken up again."""

import errno
import random
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tailrace.cli.mirror.command import mirror as command
from tailrace.cli.mirror.progress import _Lines, notes
from tailrace.columns.read.scan import Scan
from tailrace.errors import (
    ConnectionLost,
    EventDecodeError,
    KeyMissing,
    LakeChanged,
    LogPurged,
    LogReset,
    OutOfMemory,
    PipelineError,
    UsageError,
)
from tailrace.schema.alteration import altered
from tailrace.spark import mirror
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.lake.tables import MARK
from tailrace.spark.state.failure import failure, of_one_table
from tests.cases import each_case
from tests.spark.following import read, url_of
from tests.spark.history.landing import (
    FORMATS,
    READERS,
    Logged,
    failing,
    in_this_process,
    land,
    parquet_rows,
)
from tests.spark.lake.test_foreign import two_tables
from tests.spark.lake.test_killed import kills, seen
from tests.spark.lake.test_tables import as_rows, expected
from tests.spark.replay import differences
from tools.campaign import restarted
from tools.campaign.mirrored_aside import run_poisoned
from tools.dumps import dump_databases

DATABASE = "aside"
BAD, GOOD = f"{DATABASE}.bad", f"{DATABASE}.good"


@pytest.mark.parametrize("name", FORMATS)
def test_tables_are_poisoned_in_many_ways(source, name):
    """The campaign's small size: all other tables are the server's after each batch."""
    report = run_poisoned(source, name, random.Random(1), rounds=1, rows=12)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.aside >= 12
    assert report.mended >= report.aside - 2
    assert report.equal > 20
    assert report.verified == 4


# --- a story of two tables ------------------------------------------------------------------------


class Story(Logged):
    """A server's table that is good, and one in whose folds something goes wrong."""

    def __init__(self, server, folder):
        super().__init__(server, folder)
        server.execute("RESET BINARY LOGS AND GTIDS")
        self.begin(DATABASE)
        for name, column in ((BAD, "a_bad_column"), (GOOD, "n")):
            server.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, {column} INT)")
        self._next = 0
        self.change()

    def change(self):
        """Rows come, change and go in both tables; the files that are closed then are copied."""
        first, self._next = self._next, self._next + 10
        for name in (BAD, GOOD):
            values = ", ".join(f"({number}, {number})" for number in range(first, self._next))
            self.say(
                f"INSERT INTO {name} VALUES {values}",
                f"UPDATE {name} SET id = id + 1000 WHERE id % 7 = 3 AND id < 1000",
                f"DELETE FROM {name} WHERE id % 5 = 1",
            )
        self.take()

    def check(self, lake, *names):
        """The tables are what SELECT says."""
        wanted = dump_databases(self.server, DATABASE)
        for name in names:
            assert differences(read(lake, name), wanted[name]) == []


@pytest.fixture
def story(source, tmp_path):
    return Story(source, tmp_path)


def aside(lake):
    manifest = LakeView.open(lake).manifest
    return {name: table.set_aside for name, table in manifest.tables.items() if table.set_aside}


def test_a_mistake_of_ours_stops_one_table(story, lake):
    """Its current state stands still, its changelog goes on; taken up, it is the server's."""
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


def test_what_fails_again_stays_as_it_was(story, lake):
    land(story.logs, lake)
    story.change()
    with failing():
        first = land(story.logs, lake).set_aside[BAD]
    with failing(error=KeyError("other")):
        second = land(story.logs, lake, retry_tables="aside.*").set_aside[BAD]
    assert second.reason == f"{BAD}: KeyError: 'other'"
    assert (second.since, second.parts) == (first.since, first.parts)
    story.check(lake, GOOD)
    with pytest.raises(UsageError, match=f"fits {GOOD} among .* set aside.* {BAD}"):
        land(story.logs, lake, retry_tables=GOOD)


@pytest.mark.parametrize("keep", [("changelog", "current"), ("current",)])
def test_a_table_that_is_new_fails(story, lake, keep):
    """Nothing but its changelog is in the lake; it is taken up from the log's begin, also without."""
    with failing():
        assert land(story.logs, lake, keep=keep).set_aside[BAD].since == ""
        assert LakeView.open(lake).manifest.tables[BAD].current is None
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
        story.take()
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
        story.take()
        assert list(land(story.logs, lake, keep=keep).set_aside) == [new]
        found = land(story.logs, lake, keep=keep, retry_tables=new).set_aside
        assert "so it goes" in found[new].reason
    assert land(story.logs, lake, keep=keep, retry_tables=new).set_aside == {}
    story.check(lake, new, GOOD)


def test_the_log_is_no_longer_there(story, lake):
    land(story.logs, lake)
    story.change()
    with failing():
        land(story.logs, lake)
    first, second = sorted(story.logs.iterdir())
    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(LogPurged, match=f"{BAD}: the log of source logs is no longer there"):
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
    with in_this_process():
        return mirror(url, lake, **options)


@pytest.fixture
def shards(story, tmp_path):
    """A function that mirrors the logs as those of two sources."""

    def shards(*, both=True, **more):
        if both:
            shutil.copytree(story.logs, tmp_path / "other", dirs_exist_ok=True)
        return land([story.logs, tmp_path / "other"], tmp_path / "lake", shards=True, **more)

    return shards


def by_source(name, lake, table):
    """How many rows of a table are of each source."""
    return Counter(READERS[name](lake, table)["_source"].to_pylist())


@pytest.mark.parametrize("name", ["parquet", "delta"])
def test_of_shards_one_stands_still(story, shards, tmp_path, name):
    """The rows that the other source has in the same table go on."""
    lake, options = tmp_path / "lake", {"keep": ["changelog", "current", "history"], "format": name}
    shards(**options)
    before = by_source(name, lake, BAD)
    story.change()
    with failing(shard="other"):
        assert list(shards(**options).set_aside) == [f"other/{BAD}"]
    now = by_source(name, lake, BAD)
    assert now["logs"] != before["logs"]
    assert now["other"] == before["other"]
    story.change()
    assert list(shards(both=False, **options).set_aside) == [f"other/{BAD}"]
    assert by_source(name, lake, BAD)["logs"] != now["logs"]
    assert list(shards(**options).set_aside) == [f"other/{BAD}"]
    assert shards(retry_tables=BAD, **options).set_aside == {}
    found = by_source(name, lake, BAD)
    wanted = dump_databases(story.server, DATABASE)[BAD]["rows"]
    assert found["logs"] == found["other"] == len(wanted)


def test_a_table_of_a_shard_is_renamed_while_it_stands_still(story, shards, tmp_path):
    """The tables that it waits for are called as those of the lake, and both are taken up."""
    lake, new = tmp_path / "lake", f"{DATABASE}.renamed"
    shards()
    with failing(shard="other"):
        story.change()
        shards()
        story.server.execute(f"RENAME TABLE {BAD} TO {new}")
        story.take()
        assert sorted(shards().set_aside) == [f"other/{BAD}", f"other/{new}"]
    assert aside(lake)[f"other/{new}"].origins == (f"other/{BAD}",)
    assert shards(retry_tables=f"{DATABASE}.*").set_aside == {}
    found = by_source("parquet", lake, new)
    wanted = dump_databases(story.server, DATABASE)[new]["rows"]
    assert found["logs"] == found["other"] == len(wanted)


def test_what_is_not_one_tables_stops_the_mirror(story, lake):
    """A full disk: nothing is set aside, and the lake is as it was."""
    land(story.logs, lake)
    story.change()
    full = OSError(errno.ENOSPC, "No space left on device")
    with failing(error=full), pytest.raises(OSError, match="No space left"):
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
    LogPurged("x"),
    LogReset("x"),
    LakeChanged("x"),
    KeyboardInterrupt(),
)


def test_the_line():
    assert [each for each in THE_TABLES if not of_one_table(each)] == []
    assert [each for each in THE_MIRRORS if of_one_table(each)] == []
    for error in THE_MIRRORS[:-1]:
        with pytest.raises(type(error)):
            failure(error)


def test_in_tasks_of_spark(story, lake, spark):
    """A file that is cut off: the failure comes back from the task, and the others' results."""
    mirror(story.logs, lake, spark=spark)
    (path,) = (each.resolve() for each in (lake / BAD / "current").glob("part-*"))
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-100])
    story.change()
    report = mirror(story.logs, lake, spark=spark)
    assert path.name in report.set_aside[BAD].reason
    story.check(lake, GOOD)
    path.write_bytes(content)
    assert mirror(story.logs, lake, spark=spark, retry_tables=BAD).set_aside == {}
    story.check(lake, GOOD, BAD)


# --- what a person sees ---------------------------------------------------------------------------


def test_the_command_line(story, lake, capsys):
    def ran(**options):
        with in_this_process():
            return command(str(story.logs), into=str(lake), **options), capsys.readouterr().out

    with failing():
        status, out = ran()
    assert status == 1
    line = next(line for line in out.splitlines() if "set aside" in line)
    assert line.startswith(f"{BAD}: set aside since the log's begin: ZeroDivisionError")
    status, out = ran(fail_on_set_aside=False)
    assert (status, "set aside" in out) == (0, True)
    assert ran()[0] == 1
    status, out = ran(retry_tables=(BAD,))
    assert (status, "set aside" in out) == (0, False)
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


def test_it_is_said_at_every_trigger(story, tmp_path, capsys):
    lake, moments = tmp_path / "lake", []
    with failing():
        land(story.logs, lake)
    land(story.logs, lake, moments)
    assert [list(moment.set_aside) for moment in moments] == [[BAD]] * len(moments)
    shown = _Lines()
    for moment in moments * 2:
        shown._next = 0.0
        shown.moment(moment)
    lines = capsys.readouterr().err.splitlines()
    assert sum(f"{BAD}: set aside since" in line for line in lines) == 1
    assert sum(line.endswith(f"1 table is set aside: {BAD}") for line in lines) == 2 * len(moments)


# --- commits that are killed ----------------------------------------------------------------------


def test_killed_while_a_table_is_set_aside(tmp_path, monkeypatch):
    """At each step of a commit: the other table has each batch once; the bad one has it to come."""
    lake, bad = tmp_path / "lake", "shop.sales"
    with open_store(lake, "delta") as store:
        store.commit(two_tables(store, 0))
    real = DeltaTables.commit

    def commit(self, step, number, *, overrule):
        if step.table == bad:
            raise RuntimeError("not this one")
        return real(self, step, number, overrule=overrule)

    monkeypatch.setattr(DeltaTables, "commit", commit)
    for now in kills(lake, "delta", two_tables):
        with open_store(lake, "delta") as store:
            status = store.manifest.tables[bad].set_aside
        assert (status is not None) == (now > 1)
        if status is not None:
            assert status.batch == 2
            assert "not this one" in status.reason
        log, rows = seen(lake, "delta")
        assert log == list(range(1, 10 * now + 1))
        assert rows == expected(range(10 * now))
    monkeypatch.undo()
    with open_store(lake, "delta") as store:
        for _ in range(2):
            assert store.take_rest([bad]) == {}
    there = READERS["delta"](lake, f"{bad}_changelog")["_seq"].to_pylist()
    assert sorted(map(int, there)) == list(range(1, 21))
    assert as_rows(READERS["delta"](lake, bad)) == expected(range(20))


# --- statements that end a table's state, and that bring a table back -----------------------------

ENDS = {
    "a type": "ALTER TABLE {t} MODIFY v VARCHAR(30); INSERT INTO {t} VALUES (7, 'x')",
    "the key": "ALTER TABLE {t} DROP PRIMARY KEY; INSERT INTO {t} VALUES (7, NULL);"
    " ALTER TABLE {t} ADD PRIMARY KEY (id)",
    "other rows": "RENAME TABLE {t} TO {t}_old, other.{n} TO {t}; INSERT INTO {t} VALUES (7, NULL)",
}
RESTARTS = {
    "emptied": "TRUNCATE {t}; ALTER TABLE {t} DROP COLUMN v; ALTER TABLE {t} ADD v DATETIME",
    "recreated": "DROP TABLE {t}; CREATE TABLE {t} (id INT PRIMARY KEY, v DATETIME)",
    "renamed": "CREATE TABLE {t}_new (id INT PRIMARY KEY, v DATETIME);"
    " INSERT INTO {t}_new VALUES (8, NOW()); DROP TABLE {t}; RENAME TABLE {t}_new TO {t}",
}
KEPT = ["changelog", "current", "history"]


@pytest.mark.parametrize(
    ("name", "batches"), [("parquet", "one batch"), *((name, "several") for name in FORMATS)]
)
def test_statements_end_states_and_bring_tables_back(source, tmp_path, name, batches):
    """Until then the rows stay that SELECT gave before; readers find the reason at the table."""
    story = Logged(source, tmp_path, name, keep=KEPT, tables=f"{DATABASE}.*", incomplete="accept")
    lake, columns = story.lake, "(id INT PRIMARY KEY, v DATETIME)"
    tables = {
        f"{DATABASE}.t{a}{b}": (end.replace("{n}", f"t{a}{b}"), restart)
        for a, end in enumerate(ENDS.values())
        for b, restart in enumerate(RESTARTS.values())
    }
    story.begin("other")
    for table in tables:
        source.execute(f"CREATE TABLE other.{table.partition('.')[2]} {columns}")
    story.begin(DATABASE)

    def say(choose):
        for table, each in tables.items():
            story.say(*choose(each).format(t=table).split("; "))

    def take(*, whole=False):
        story.take()
        if batches == "several" or whole:
            story.land()

    def selected():
        return {each: sorted(source.query(f"SELECT id, v FROM {each}")) for each in tables}

    def compare(wanted, ended):
        for table in tables:
            assert story.rows(table, "id", "v") == sorted(wanted[table], key=str)
            history = READERS[name](lake, table, "history")
            assert history["_valid_to"].null_count == history.num_rows - ended
        found = story.states()
        return {table: found[table] for table in tables}

    for table in tables:
        source.execute(f"CREATE TABLE {table} {columns}")
        source.execute(f"INSERT INTO {table} VALUES (1, '2020-01-02 03:04:05'), (2, NULL)")
    before = selected()
    take()
    say(lambda story: story[0])
    say(lambda _: "INSERT INTO {t} (id) VALUES (9)")
    take(whole=True)
    states = compare(before, 0)
    for table, (end, _) in tables.items():
        status = states[table].set_aside
        assert end.partition(";")[0].format(t=table) in status.reason
        assert "truncates or recreates it" in status.needs
        assert marks(name, lake, table) == {
            f"since {status.since}: {status.reason}; {status.needs}"
        }
    say(lambda story: story[1])
    take()
    say(lambda _: "INSERT INTO {t} (id) VALUES (10)")
    take(whole=True)
    states = compare(selected(), 2)
    assert [each.set_aside for each in states.values()] == [None] * len(states)
    assert [marks(name, lake, table) for table in tables] == [set()] * len(tables)


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_that_stands_still_is_renamed(source, tmp_path, name):
    """Its last state goes with it; its old name is another table's, or nobody's."""
    story = Logged(source, tmp_path, name, keep=KEPT)
    story.begin("osc")
    for table in ("swapped", "plain"):
        source.execute(f"CREATE TABLE osc.{table} (id INT PRIMARY KEY, c VARCHAR(9))")
        source.execute(f"INSERT INTO osc.{table} VALUES (1, '1'), (2, '2')")
    source.execute("CREATE TABLE osc.new (id INT PRIMARY KEY, c INT)")
    source.execute("INSERT INTO osc.new VALUES (50, 5)")

    def rows():
        return {each: story.rows(each, "id", "c") for each in story.states()}

    story.step(*(f"ALTER TABLE osc.{table} MODIFY c INT" for table in ("swapped", "plain")))
    last = rows()["osc.plain"]
    story.step(
        "RENAME TABLE osc.swapped TO osc.old, osc.new TO osc.swapped, osc.plain TO osc.moved",
        "INSERT INTO osc.old VALUES (3, 3)",
        "INSERT INTO osc.swapped VALUES (51, 1)",
    )
    assert rows() == {"osc.old": last, "osc.moved": last, "osc.swapped": [(50, 5), (51, 1)]}
    for table, old in (("osc.old", "osc.swapped"), ("osc.moved", "osc.plain")):
        status = story.states()[table].set_aside
        assert f"it has rows of {old}, which is set aside" in status.reason
        assert "RENAME TABLE" in status.reason
        assert "truncates or recreates it" in status.needs
    story.step("TRUNCATE osc.old", "INSERT INTO osc.old VALUES (9, 9)", "DROP TABLE osc.moved")
    assert [each.set_aside for each in story.states().values()] == [None, None]
    assert rows() == {"osc.old": [(9, 9)], "osc.swapped": [(50, 5), (51, 1)]}
    versions = READERS[name](story.lake, "osc.plain", "history")
    assert sorted(versions["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("both", [False, True], ids=["one", "both"])
@pytest.mark.parametrize("name", FORMATS)
def test_tables_of_which_one_stands_still_change_their_names(source, tmp_path, name, both):
    """Its last state is under the other's name, with the position up to which it has all."""
    story = Logged(source, tmp_path, name, keep=["current"])
    story.begin("osc")
    for table, number in (("a", 1), ("b", 7)):
        source.execute(f"CREATE TABLE osc.{table} (id INT PRIMARY KEY, c VARCHAR(9))")
        source.execute(f"INSERT INTO osc.{table} VALUES ({number}, '{number}')")
    story.step(*(f"ALTER TABLE osc.{each} MODIFY c INT" for each in ("a", "b")[: 1 + both]))
    before = story.states()["osc.a"].set_aside
    story.step("INSERT INTO osc.a VALUES (2, 2)")
    story.step("RENAME TABLE osc.a TO osc.t, osc.b TO osc.a, osc.t TO osc.b")
    states = story.states()
    assert {each: story.rows(each, "id", "c") for each in states} == {
        "osc.a": [(7, "7")],
        "osc.b": [(1, "1")],
    }
    assert states["osc.b"].set_aside.since == before.since
    assert (states["osc.a"].set_aside is not None) == both


PARTS = "(id INT PRIMARY KEY) PARTITION BY RANGE(id) (PARTITION p0 VALUES LESS THAN (10))"
QUIET = {
    "a table of the default database": (
        {"tables": ["osc.*", "other.*"], "keep": ["current", "history"]},
        [f"CREATE TABLE osc.p {PARTS}", "INSERT INTO osc.p VALUES (1)"],
        ["osc.t", "other.t"],
        ["USE other", "ALTER TABLE osc.p EXCHANGE PARTITION p0 WITH TABLE t"],
        {"osc.p", "other.t"},
    ),
    "of a table that is not selected": (
        {"tables": ["osc.t"]},
        [f"CREATE TABLE osc.p {PARTS}", "INSERT INTO osc.p VALUES (1)"],
        ["osc.t"],
        ["ALTER TABLE osc.p EXCHANGE PARTITION p0 WITH TABLE osc.t"],
        {"osc.t"},
    ),
    "a key of NULL": (
        {"tables": ["osc.n", "osc.t"], "keep": ["current", "history"], "incomplete": "accept"},
        ["CREATE TABLE osc.n (id INT NOT NULL, v INT, PRIMARY KEY (id))", "FLUSH BINARY LOGS", "INSERT INTO osc.n VALUES (1, NULL), (2, 2)"],
        ["osc.t"],
        ["SET sql_mode = ''", "ALTER TABLE osc.n DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "UPDATE osc.n SET v = 3 WHERE id = 1"],
        {"osc.n"},
    ),
}  # fmt: skip


@each_case("story", QUIET)
def test_statements_that_name_other_tables_or_fewer_columns_than_they_change(
    source, tmp_path, story
):
    """What they may have changed stands still with its last rows; the rest is the server's."""
    options, made, tables, then, aside = QUIET[story]
    logged = Logged(source, tmp_path, **options)
    logged.begin("osc", "other")
    logged.say(*made)
    for number, table in enumerate(tables):
        source.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
        source.execute(f"INSERT INTO {table} VALUES ({5 + number})")

    def selected():
        names = {*tables, *(each for each in aside if each != "osc.t")}
        return {each: sorted(source.query(f"SELECT * FROM {each}"), key=str) for each in names}

    before = selected()
    logged.say(*then, "INSERT INTO osc.t VALUES (99)")
    now = selected()
    logged.take()
    source.disconnect()
    logged.land()
    states = logged.states()
    assert {name for name, each in states.items() if each.set_aside is not None} == aside
    for name in states:
        columns = ("id", "v") if name == "osc.n" else ("id",)
        assert logged.rows(name, *columns) == (before if name in aside else now)[name], name
        assert not any(sql in str(states[name].set_aside) for sql in made)


def test_a_mistake_about_an_alter_table_stops_its_table(source, tmp_path, monkeypatch):
    """It keeps the rows from before the statement; taken up without the mistake, it has all."""
    logged = Logged(source, tmp_path, keep=KEPT)
    logged.begin("osc")
    for table in ("osc.a", "osc.b"):
        logged.say(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    added = [f"ALTER TABLE osc.{name} ADD v INT DEFAULT 7" for name in "ab"]
    logged.say(*added, *(f"INSERT INTO osc.{name} VALUES (2, 3)" for name in "ab"))
    logged.take()
    rows = sorted(source.query("SELECT id, v FROM osc.a"))
    source.disconnect()

    def mistaken(*arguments):
        if any(added[0] in str(each) for each in arguments):
            raise KeyError("osc.a")
        return altered(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr("tailrace.columns.read.scan.altered", mistaken)
        logged.land()
    states = logged.states()
    assert f"KeyError: 'osc.a': «{added[0]}»" in states["osc.a"].set_aside.reason
    assert states["osc.b"].set_aside is None
    assert logged.rows("osc.a", "id") == [(1,)]
    assert logged.rows("osc.b", "id", "v") == rows
    logged.land(retry_tables="osc.a")
    assert logged.states()["osc.a"].set_aside is None
    assert logged.rows("osc.a", "id", "v") == rows


@pytest.mark.parametrize("source", ["mariadb-11.8"], indirect=True)
def test_a_partition_becomes_a_table(source, tmp_path):
    """A new lake has it set aside: the log has none of its rows, and no CREATE TABLE."""
    logged = Logged(source, tmp_path)
    logged.begin("osc")
    source.connection.select_db("osc")
    parts = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES LESS THAN (9))"
    logged.step(
        f"CREATE TABLE osc.t (id INT PRIMARY KEY) {parts}",
        "INSERT INTO osc.t VALUES (1), (6)",
        "ALTER TABLE osc.t CONVERT PARTITION p TO TABLE u",
        "CREATE TABLE osc.other (id INT PRIMARY KEY)",
        *("INSERT INTO osc.other VALUES (7)", "INSERT INTO osc.u VALUES (3)"),
    )
    source.disconnect()
    aside = {name for name, each in logged.states().items() if each.set_aside is not None}
    assert aside == {"osc.t", "osc.u"}
    assert logged.rows("osc.other", "id") == [(7,)]


def marks(name, lake, table):
    """What the properties of a table's current state and history say of it."""
    parts = (table, f"{table}_history")
    if name == "delta":
        found = [DeltaTable(str(lake / part)).metadata().configuration for part in parts]
    elif name == "iceberg":
        found = [own_catalog(lake).load_table(part).properties for part in parts]
    else:
        status = LakeView.open(lake).manifest.tables[table].set_aside
        return (
            set() if status is None else {f"since {status.since}: {status.reason}; {status.needs}"}
        )
    return {each[MARK] for each in found if MARK in each}


@pytest.mark.parametrize("source", ["mariadb-11.8"], indirect=True)
def test_random_statements_in_one_batch_and_in_several(source):
    """The campaign's small size, of one format."""
    report = restarted.run(source, "delta", restarted.SIZES["small"], 2)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.equal > restarted.SIZES["small"]


def test_a_cut_reads_few_later_files_and_knows_what_they_roll_back(source, tmp_path, monkeypatch):
    scanned = []
    real = Scan.scan
    monkeypatch.setattr(Scan, "scan", lambda scan: (scanned.append(scan.log.name), real(scan))[1])
    logged = Logged(source, tmp_path)
    logged.begin("osc")
    logged.say(
        "CREATE TABLE osc.t (id INT PRIMARY KEY)",
        "CREATE TABLE osc.two (id INT PRIMARY KEY, e ENUM('1'))",
        "INSERT INTO osc.two VALUES (1, 1)",
        *("XA START 'x'", "INSERT INTO osc.t VALUES (66)", "XA END 'x'", "XA PREPARE 'x'"),
    )
    source.disconnect()
    source.execute("ALTER TABLE osc.two MODIFY e INT")
    for number in range(13):
        logged.say("XA ROLLBACK 'x'" if number == 12 else f"INSERT INTO osc.t VALUES ({number})")
        logged.take()
    logged.land(batch_bytes=1000)
    assert logged.states()["osc.two"].set_aside is not None
    assert logged.rows("osc.t", "id") == sorted(source.query("SELECT * FROM osc.t"), key=str)
    assert len(scanned) < 2 * 13 + 4


def test_a_batch_is_cut_between_prepare_and_rollback(source, tmp_path):
    """It had seen the ROLLBACK, and left the rows out: the next part goes on behind the PREPARE."""
    (tmp_path / "logs").mkdir()
    source.execute("DROP DATABASE IF EXISTS osc")
    source.execute("CREATE DATABASE osc")
    source.rotate()
    prepared = ("XA START 'x'", "INSERT INTO osc.t VALUES (66)", "XA END 'x'", "XA PREPARE 'x'")
    for statements in (
        [
            "CREATE TABLE osc.t (id INT PRIMARY KEY)",
            *("CREATE TABLE osc.a (id INT PRIMARY KEY)", "CREATE TABLE osc.b LIKE osc.a"),
            *("INSERT INTO osc.a VALUES (1)", "INSERT INTO osc.b VALUES (1)"),
            *(f"ALTER TABLE osc.{name} ADD n DOUBLE DEFAULT (PI())" for name in "ab"),
            *("UPDATE osc.a SET n = 1", "UPDATE osc.b SET n = 1"),
        ],
        [*prepared, None, "TRUNCATE osc.a", "TRUNCATE osc.b", "XA ROLLBACK 'x'"],
        ["INSERT INTO osc.t VALUES (1)", "INSERT INTO osc.a VALUES (2, 2)"],
    ):
        for each in statements:
            source.disconnect() if each is None else source.execute(each)
        source.connection.commit()
        shutil.copy(source.rotate(), tmp_path / "logs")
        land(tmp_path / "logs", tmp_path / "lake")
    for name in "tab":
        rows = READERS["parquet"](tmp_path / "lake", f"osc.{name}")
        there = source.query(f"SELECT id FROM osc.{name}")
        assert sorted(rows["id"].to_pylist()) == [row[0] for row in there], name


ENDED = "ALTER TABLE {0}.x MODIFY v INT"
UNKNOWN = "ALTER TABLE {0}.x ADD e DOUBLE DEFAULT (PI())"
LOST = [(1, "012"), (2, "13")]
RENAMED = {
    "away and back": ([ENDED, "RENAME TABLE {0}.x TO {0}.o", "RENAME TABLE {0}.o TO {0}.x"], "x"),
    "away and back at once": ([ENDED, "RENAME TABLE {0}.x TO {0}.o, {0}.o TO {0}.x"], "x"),
    "by the ALTER": (["ALTER TABLE {0}.x MODIFY v INT, RENAME TO {0}.w"], "w"),
    "before the row that ends it": (
        [UNKNOWN, "RENAME TABLE {0}.x TO {0}.w", "DELETE FROM {0}.w WHERE id = 2"],
        "w",
    ),
    "before and after it": (
        [
            *(UNKNOWN, "RENAME TABLE {0}.x TO {0}.w", "DELETE FROM {0}.w WHERE id = 2"),
            "RENAME TABLE {0}.w TO {0}.q",
        ],
        "q",
    ),
}


@pytest.mark.parametrize("several", [False, True], ids=["one batch", "several"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_table_is_renamed_around_what_ends_its_state(source, tmp_path, name, several):
    """Its last state is under the name that it has at the end, and its report, too."""
    logged = Logged(source, tmp_path, name, keep=["current"])
    databases = [f"r{number}" for number in range(len(RENAMED))]
    logged.begin(*databases)
    for database in databases:
        source.execute(f"CREATE TABLE {database}.x (id INT PRIMARY KEY, v VARCHAR(9))")
        source.execute(f"INSERT INTO {database}.x VALUES (1, '012'), (2, '13')")
    stories = [story for story, _ in RENAMED.values()]
    for step in range(max(map(len, stories))):
        if several:
            logged.step()
        for database, story in zip(databases, stories, strict=True):
            if step < len(story):
                logged.say(story[step].format(database))
    logged.step()
    states = logged.states()
    ends = [end for _, end in RENAMED.values()]
    wanted = {f"{database}.{end}" for database, end in zip(databases, ends, strict=True)}
    assert {each for each in states if each.partition(".")[0] in databases} == wanted
    for table in wanted:
        assert logged.rows(table, "id", "v") == LOST, table
        assert states[table].set_aside is not None, table
    for database in databases:
        source.execute(f"DROP DATABASE {database}")
