"""Histories that a statement stops, begins anew or renames; see test_current_servers.py, too."""

import datetime as dt
import shutil
from itertools import product

import pytest

import tailrace
from tailrace.errors import PipelineError
from tailrace.events import GtidEvent
from tests.spark.following import BOTH, Follow, no_spark, read, url_of
from tests.spark.history.landing import FORMATS, Logged, land
from tests.spark.history.making import EPOCH, Histories
from tests.spark.replay import check_rows, differences, tell
from tests.spark.test_current_servers import DATABASE
from tools.campaign.mirrored_lake import LakeReader
from tools.dumps import dump_databases

STOPPED = {
    "by its new type": ("ALTER TABLE t MODIFY v VARCHAR(20)", [(1, 1.5, 1, 3), (2, 2.5, 2, 3)]),
    "by its statement": (
        "ALTER TABLE t DROP COLUMN id, ADD PRIMARY KEY (v)",
        [(1, 1.5, 1, 3), (2, 2.5, 2, 3)],
    ),
    "at the first row without a key": (
        "ALTER TABLE t DROP PRIMARY KEY",
        [(1, 1.5, 1, 4), (2, 2.5, 2, 4)],
    ),
}


def test_versions_end_where_the_table_is_stopped(mysql97, tmp_path):
    """Whatever the batches; and once it is made anew, somebody says what is missing."""
    for story, (statement, expected) in STOPPED.items():
        columns = "v" if "DROP COLUMN" in statement else "id, v"
        value = "30" if columns == "v" else "3, 30"
        steps = [
            "CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE NOT NULL)",
            "INSERT INTO t VALUES (1, 1.5)",
            "INSERT INTO t VALUES (2, 2.5)",
            statement,
            f"INSERT INTO t ({columns}) VALUES ({value})",
            "DROP TABLE t",
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "INSERT INTO t VALUES (4)",
        ]
        logs = tell(mysql97, DATABASE, ";".join(steps), tmp_path / story)
        times = commits(logs)
        for sizes in (None, [1]):
            made = Histories(tmp_path / f"{story} {sizes}").take_log(logs, sizes=sizes)
            history = made.built[f"{DATABASE}.t"].rows
            assert history.refused is None
            assert len(history.gaps) == 1
            rows = made.versions(f"{DATABASE}.t").sort_by("_seq").to_pylist()
            ends = [[times.get(row[each]) for each in ("_valid_from", "_valid_to")] for row in rows]
            *ended, last = [
                (row["id"], row.get("v"), *end) for row, end in zip(rows, ends, strict=True)
            ]
            assert ended == expected, (story, sizes)
            assert last == (4, None, 7, None), (story, sizes)


def commits(logs):
    """The number of each transaction by the time of its commit; no two have the same."""
    (log,) = logs.iterdir()
    begun = [event for event in tailrace.open(log) if isinstance(event, GtidEvent)]
    found = {
        EPOCH + dt.timedelta(microseconds=event.commit_timestamp): number
        for number, event in enumerate(begun)
    }
    assert len(found) == len(begun)
    return found


def test_a_table_that_was_not_mirrored_under_its_name_before(mysql97, tmp_path):
    statements = """
        CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);
        CREATE TABLE kept (id INT PRIMARY KEY); INSERT INTO kept VALUES (1);
        RENAME TABLE t TO named; RENAME TABLE kept TO away;
        INSERT INTO named VALUES (2); INSERT INTO away VALUES (2)
    """
    logs = tell(mysql97, DATABASE, statements, tmp_path / "logs")
    names = {f"{DATABASE}.named", f"{DATABASE}.kept"}
    made = Histories(tmp_path / "made", wanted=lambda name: name in names)
    made.take_log(logs, sizes=[3])
    assert "which is not mirrored" in made.built[f"{DATABASE}.named"].rows.refused
    (row,) = made.versions(f"{DATABASE}.kept").to_pylist()
    assert row["_valid_to"] is not None


def test_the_key_of_a_table_without_rows_is_replaced(server, tmp_path):
    """There is no row whose new key would have to be told."""
    statements = (
        "CREATE TABLE t (id INT PRIMARY KEY, b INT NOT NULL);"
        "INSERT INTO t VALUES (1, 2); DELETE FROM t;"
        "ALTER TABLE t DROP COLUMN id, ADD PRIMARY KEY (b); INSERT INTO t VALUES (1)"
    )
    logs = tell(server, DATABASE, statements, tmp_path / "logs")
    made = Histories(tmp_path / "made").take_log(logs)
    assert made.built[f"{DATABASE}.t"].rows.refused is None
    rows = made.versions(f"{DATABASE}.t").sort_by("_seq").to_pylist()
    assert [(row["b"], row["_is_current"]) for row in rows] == [(2, False), (1, True)]


@BOTH
def test_a_rename_alone_in_its_batch(source, lake):
    options = {"tables": ["renamed.*", "follow.*"], "keep": ["current", "history"]}
    with Follow(url_of(source), lake, spark=no_spark, **options) as following:
        source.execute("CREATE DATABASE renamed")
        source.execute("CREATE TABLE renamed.t (id INT PRIMARY KEY, v INT)")
        source.execute("INSERT INTO renamed.t VALUES (1, 1), (2, 2)")
        following.wait_for_mark(source)
        source.execute("RENAME TABLE renamed.t TO renamed.u")
        following.wait_for_mark(source)
        assert read(lake, "renamed.u").num_rows == 2
        source.execute("UPDATE renamed.u SET v = 9 WHERE id = 2")
        following.wait_for_mark(source)
    wanted = dump_databases(source, "renamed")["renamed.u"]
    assert differences(read(lake, "renamed.u"), wanted) == []
    found = read(lake, "renamed.u", "history")
    assert differences(found.filter(found.column("_is_current")), wanted) == []
    assert sorted(found.column("v").to_pylist()) == [1, 2, 9]
    ended = read(lake, "renamed.t", "history")
    assert ended.num_rows == 2
    assert not any(ended.column("_is_current").to_pylist())
    (moment,) = set(ended.column("_valid_to").to_pylist())
    begun = found.sort_by("_seq").to_pylist()[:2]  # MariaDB's times are seconds
    assert [(row["_valid_from"], row["_seq"]) for row in begun] == [(moment, begun[0]["_seq"])] * 2


RENAMED = {
    "truncated": ("TRUNCATE t", "RENAME TABLE t TO o"),
    "truncated_dropped": ("TRUNCATE t", "RENAME TABLE t TO o", "DROP TABLE o"),
    "dropped": ("RENAME TABLE t TO o", "DROP TABLE o"),
    "deleted_dropped": ("DELETE FROM t", "RENAME TABLE t TO o", "DROP TABLE o"),
    "replaced": (
        "TRUNCATE t",
        "CREATE TABLE n LIKE t",
        "INSERT INTO n VALUES (5, 'n')",
        "RENAME TABLE t TO o, n TO t",
        "DROP TABLE o",
    ),
}


@pytest.mark.parametrize("keep", [("current",), ("history",), ("current", "history")])
@pytest.mark.parametrize("kind", FORMATS)
def test_empty_tables_are_renamed_in_a_batch(source, tmp_path, kind, keep):
    """Emptied then or before; each in a database of its own, and the lake takes further batches."""
    logged = Logged(source, tmp_path, kind, keep=keep)
    moves = {f"{name}_{rows}": RENAMED[name] for name in RENAMED for rows in (0, 2)}
    logged.begin(*moves)
    for database in moves:
        logged.say(f"USE {database}", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
        logged.say("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        logged.say(*(("DELETE FROM t",) if database.endswith("0") else ()))
    logged.step("CREATE TABLE k (id INT PRIMARY KEY)", "INSERT INTO k VALUES (1)")
    for database, statements in moves.items():
        logged.say(f"USE {database}", *statements)
    for value in (2, 3):
        assert logged.step(f"INSERT INTO k VALUES ({value})").set_aside == {}
        wanted = {each: dump_databases(source, each) for each in moves}
        reader = LakeReader(logged.lake, kind)
        for database, part in product(moves, keep):
            for name in (f"{database}.{table}" for table in "tonk"):
                rows = getattr(reader, part)(name)
                if rows is not None and part == "history":
                    rows = rows.filter(rows.column("_is_current"))
                check_rows(rows, wanted[database].get(name), (name, part, value))


def test_a_table_gets_the_name_of_another_sources_table(mysql97, tmp_path):
    """Neither takes the other's place: the batch is rejected, and the lake is as it was."""
    story = Logged(mysql97, tmp_path)
    story.begin("d", "e")
    story.step("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)")
    other = tmp_path / "other"
    other.mkdir()
    story.say("DROP TABLE d.t")  # in no log of the lake
    mysql97.rotate()
    story.say("CREATE TABLE e.o (id INT PRIMARY KEY, v INT)", "INSERT INTO e.o VALUES (7, 7)")
    shutil.copy(mysql97.rotate(), other)
    land([story.logs, other], story.lake)
    story.say("RENAME TABLE e.o TO d.t")
    shutil.copy(mysql97.rotate(), other)
    with pytest.raises(PipelineError, match=r"table d\.t is in the logs of"):
        land([story.logs, other], story.lake)
    assert story.rows("d.t", "id", "v") == [(1, 1)]
    assert story.rows("e.o", "id", "v") == [(7, 7)]
