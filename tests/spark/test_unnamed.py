"""Tables whose columns the log does not name: the server is asked, and its answer is checked."""

from functools import cache
from unittest import mock

import pytest

from tailrace.cli.mirror.command import mirror as command
from tailrace.errors import ConnectionLost
from tailrace.spark import mirror
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.mirror import batches, unnamed
from tailrace.spark.verify import verify
from tests.spark.following import FLAVOURS, Follow, read, url_of, values
from tests.spark.history.landing import in_this_process
from tests.waiting import purge

BOTH = pytest.mark.parametrize("server", FLAVOURS, indirect=True)
WIDE = (
    "CREATE TABLE {}.wide (region CHAR(3) CHARACTER SET latin1, id BIGINT UNSIGNED, "
    "kind ENUM('ä','b') CHARACTER SET latin1 NOT NULL, tags SET('x','y','z'), "
    "small TINYINT UNSIGNED, price DECIMAL(9,2), note TEXT, data VARBINARY(20), "
    "at DATETIME(3), document JSON, PRIMARY KEY (id, region)) DEFAULT CHARSET utf8mb4"
)
ROWS = (
    "INSERT INTO {}.wide VALUES ('ö', 18446744073709551615, 'ä', 'x,z', 255, -1.50, 'ß', "
    "x'00ff', '2026-11-23 12:00:00.125', '[1, 2]'), ('b', 7, 'b', '', 0, NULL, NULL, NULL, NULL, "
    "NULL)"
)


@pytest.fixture(scope="module")
def running(fresh_server):
    """running(name) gives the server of a name, whose log names no columns, as is its default."""
    return cache(fresh_server)


@pytest.fixture
def server(request, running):
    return running(getattr(request, "param", FLAVOURS[0]))


def minimal(server):
    return "NO_LOG" if server.flavour == "mariadb" else "MINIMAL"


@pytest.fixture
def database(server, request):
    """A database whose tables' statements are in no log any more, but for what a test adds."""
    name = request.node.originalname.removeprefix("test_")[:50]
    server.execute(f"SET GLOBAL binlog_row_metadata = {minimal(server)}")
    for sql in (f"CREATE DATABASE {name}", WIDE.format(name)):
        server.execute(sql)
    server.execute(f"CREATE TABLE {name}.t (a INT UNSIGNED PRIMARY KEY, b VARCHAR(20))")
    server.execute(f"INSERT INTO {name}.t VALUES (1, 'x')")
    server.execute("FLUSH BINARY LOGS")
    purge(server, server.binlogs()[-1].name)
    for table in ("wide", "t"):
        server.execute(f"TRUNCATE TABLE {name}.{table}")
    yield name
    server.execute(f"DROP DATABASE {name}")


def land(server, lake, database, **options):
    source = options.pop("source", None) or url_of(server)
    return mirror(source, lake, tables=f"{database}.*", incomplete="accept", **options)


def landed(*arguments, **options):
    """All is in the lake, and no table is set aside."""
    assert land(*arguments, **options).set_aside == {}


def check(server, lake):
    found = verify(url_of(server), lake)
    assert found.verdict == "equal", found


def not_asked():
    return mock.patch.object(unnamed, "definitions_of", side_effect=AssertionError("asked again"))


@BOTH
def test_the_server_is_asked_once(server, database, lake):
    """What was learned is in the lake, and statements that come later change it."""
    server.execute(ROWS.format(database))
    server.execute(f"INSERT INTO {database}.t VALUES (4294967295, 'y')")
    server.execute(f"ALTER TABLE {database}.t ADD INDEX (b)")  # changes no column
    report = land(server, lake, database)
    assert report.set_aside == {}
    assert {table.name: table.changes for table in report.tables} == {
        f"{database}.t": {"insert": 1},
        f"{database}.wide": {"insert": 2},
    }
    assert {table.names for table in report.tables} == {"server"}
    check(server, lake)
    with not_asked():
        server.execute(f"UPDATE {database}.wide SET kind = 'ä', tags = 'y', small = 200")
        landed(server, lake, database)
        server.execute(f"ALTER TABLE {database}.t CHANGE b c VARCHAR(20), ADD d INT UNSIGNED")
        server.execute(f"INSERT INTO {database}.t VALUES (3, 'z', 4000000000)")
        server.execute("FLUSH BINARY LOGS")
        server.execute(f"INSERT INTO {database}.t VALUES (4, 'z', 4)")
        landed(server, lake, database)
        server.execute(f"INSERT INTO {database}.t VALUES (5, 'z', 5)")
        landed(server, lake, database)
    check(server, lake)
    assert values(lake, f"{database}.t", "d").count(None) == 1


def test_a_definition_that_is_no_longer_the_same(server, database, lake):
    """A statement between the rows and now: also where the shape is the same, nothing is read."""
    server.execute(ROWS.format(database))
    server.execute(f"INSERT INTO {database}.t VALUES (2, 'y')")
    server.execute(f"ALTER TABLE {database}.wide DROP COLUMN note")
    server.execute(f"ALTER TABLE {database}.t CHANGE b c VARCHAR(20)")
    server.execute(f"INSERT INTO {database}.t VALUES (3, 'z')")
    server.execute(f"CREATE TABLE {database}.good (a INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.good VALUES (1)")
    report = land(server, lake, database)
    assert sorted(report.set_aside) == [f"{database}.t", f"{database}.wide"]
    for status in report.set_aside.values():
        assert "does not name its columns from binlog.0" in status.reason
        assert "as a statement at binlog.0" in status.reason
        assert status.reason.endswith("they cannot be read")
        assert status.needs.endswith("create a new lake that begins after that statement")
    assert values(lake, f"{database}.good", "a") == [1]
    with not_asked():
        assert sorted(land(server, lake, database).set_aside) == sorted(report.set_aside)
    again = land(server, lake, database, retry_tables=f"{database}.*")
    assert sorted(again.set_aside) == sorted(report.set_aside)
    assert read(lake, f"{database}.t", "changelog") is None


@BOTH
def test_taken_up_once_they_are_told(server, database, tmp_path):
    """A user who must not see the definitions: FULL is set, and later rows tell; or a file does."""
    lake, host, wide, t = tmp_path / "lake", "few@'127.0.0.1'", f"{database}.wide", f"{database}.t"
    monitor = "BINLOG MONITOR" if server.flavour == "mariadb" else "REPLICATION CLIENT"
    server.execute(f"CREATE USER {host}")
    server.execute(f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO {host}")
    few = {"source": url_of(server).replace("root@", "few@")}
    try:
        server.execute(ROWS.format(database))
        server.execute(f"INSERT INTO {t} VALUES (4294967295, 'y')")
        report = land(server, lake, database, **few)
        assert sorted(report.set_aside) == [t, wide]
        for status in report.set_aside.values():
            assert "SELECT" in status.reason
            assert "--schema FILE, or set binlog_row_metadata=FULL" in status.reason
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
        server.execute(f"UPDATE {wide} SET small = 1 WHERE id = 7")
        assert sorted(land(server, lake, database, **few).set_aside) == [t, wide]
        report = land(server, lake, database, retry_tables=f"{database}.*", **few)
        assert list(report.set_aside) == [t]
        schema = tmp_path / "t.sql"
        schema.write_text(f"CREATE TABLE {t} (a INT UNSIGNED PRIMARY KEY, b VARCHAR(20))")
        report = land(server, lake, database, retry_tables=t, schema=schema, **few)
        assert report.set_aside == {}
        server.execute(f"SET GLOBAL binlog_row_metadata = {minimal(server)}")
        server.execute(f"INSERT INTO {t} VALUES (2, 'y')")
        server.execute(f"UPDATE {wide} SET small = 2 WHERE id = 7")
        with not_asked():
            assert land(server, lake, database, **few).set_aside == {}
        assert read(lake, wide, "changelog").num_rows == 4
        check(server, lake)
    finally:
        server.execute(f"DROP USER {host}")


def test_killed_before_it_was_asked(server, database, lake, capsys):
    kept = {"format": "delta", "keep": ["changelog", "current", "history"]}
    server.execute(ROWS.format(database))
    dies = mock.patch.object(batches, "take_up_named", side_effect=KeyboardInterrupt)
    with dies, pytest.raises(KeyboardInterrupt):
        land(server, lake, database, **kept)
    status = LakeView.open(lake).manifest.tables[f"{database}.wide"].set_aside
    assert status is not None
    assert status.unnamed
    lost = mock.patch.object(unnamed, "definitions_of", side_effect=ConnectionLost("gone"))
    with lost:  # and told, for the receiver had it before
        assert list(land(server, lake, database).set_aside) == [f"{database}.wide"]
    with in_this_process():
        assert command(url_of(server), into=str(lake)) == 0
    said = "".join(capsys.readouterr())
    assert f"{database}.wide: column names from the server's definition" in said
    assert "set aside" not in said
    check(server, lake)


def test_while_the_log_goes_on(server, database, lake, tmp_path):
    """Rows that come until the server is asked are read before; of a table that follows as well."""
    asked = unnamed.definitions_of

    def late(source, tables):
        server.execute(f"INSERT INTO {database}.t VALUES ({len(calls) + 10}, 'late')")
        calls.append(tables)
        return asked(source, tables)

    calls = []
    server.execute(f"INSERT INTO {database}.t VALUES (2, 'y')")
    with mock.patch.object(unnamed, "definitions_of", late):
        landed(server, lake, database)
    assert calls == [[(database, "t")]]
    check(server, lake)
    follow = Follow(url_of(server), tmp_path / "other", tables=f"{database}.*", incomplete="accept")
    with mock.patch.object(unnamed, "definitions_of", late), follow:
        follow.wait_for(lambda: 11 in values(tmp_path / "other", f"{database}.t", "a"))
        server.execute(ROWS.format(database))
        follow.wait_for(lambda: 7 in values(tmp_path / "other", f"{database}.wide", "id"))
    check(server, tmp_path / "other")
    assert follow.report.set_aside == {}


def test_a_table_that_is_gone(server, database, lake):
    """Nobody can name the columns of its rows any more: they stay as the log has them."""
    server.execute(f"INSERT INTO {database}.t VALUES (2, 'y')")
    server.execute(f"INSERT INTO {database}.wide (region, id, kind) VALUES ('a', 1, 'b')")
    server.execute(f"DROP TABLE {database}.t, {database}.wide")
    server.execute(f"CREATE TABLE {database}.t (k INT UNSIGNED PRIMARY KEY, v VARCHAR(20))")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 'new')")  # the same shape
    landed(server, lake, database)
    assert values(lake, f"{database}.t", "k") == [1]
    names = read(lake, f"{database}.t", "changelog").schema.field("after").type.names
    assert sorted(names) == ["c1", "c2", "k", "v"]
    assert read(lake, f"{database}.wide", "changelog").num_rows == 1


@BOTH
def test_a_table_that_was_renamed(server, database, lake):
    """It is asked for by its new name; the one that took its name is not it."""
    server.execute(ROWS.format(database))
    server.execute(f"INSERT INTO {database}.t VALUES (2, 'y')")
    server.execute(f"CREATE TABLE {database}.fresh (k INT UNSIGNED PRIMARY KEY, v VARCHAR(20))")
    server.execute(f"INSERT INTO {database}.fresh VALUES (9, 'new')")
    server.execute(f"RENAME TABLE {database}.t TO {database}.old, {database}.fresh TO {database}.t")
    server.execute(f"RENAME TABLE {database}.wide TO {database}.w")
    server.execute(f"RENAME TABLE {database}.w TO {database}.later")
    server.execute(f"UPDATE {database}.later SET small = 3 WHERE id = 7")
    landed(server, lake, database)
    check(server, lake)
    with not_asked():
        server.execute(f"INSERT INTO {database}.old VALUES (3, 'z')")
        server.execute(f"ALTER TABLE {database}.later DROP COLUMN note")
        server.execute(f"INSERT INTO {database}.t VALUES (10, 'newer')")
        server.execute(f"UPDATE {database}.later SET small = 4")
        landed(server, lake, database)
    check(server, lake)


@pytest.mark.parametrize("name", ["parquet", "delta"])
def test_renamed_before_its_first_rows(server, database, lake, name):
    """There are no rows of its earlier name: the next runs read the lake, and go on with it."""
    kept = {"format": name, "keep": ["changelog", "current", "history"]}
    server.execute(f"RENAME TABLE {database}.t TO {database}.r")
    server.execute(f"INSERT INTO {database}.r VALUES (2, 'y')")
    report = land(server, lake, database, **kept)
    assert report.set_aside == {}
    assert {table.name: table.names for table in report.tables} == {f"{database}.r": "server"}
    server.execute(f"INSERT INTO {database}.r VALUES (3, 'z')")
    server.execute(f"RENAME TABLE {database}.wide TO {database}.w")
    server.execute(f"INSERT INTO {database}.w (region, id, kind) VALUES ('a', 1, 'b')")
    landed(server, lake, database, **kept)
    server.execute(f"INSERT INTO {database}.r VALUES (4, 'z')")
    landed(server, lake, database, **kept)
    check(server, lake)


def test_renamed_while_its_server_is_not_to_be_asked(server, database, lake):
    """Rows under both names, in different batches: the later ones wait for the earlier ones."""
    kept = {"keep": ["changelog", "current", "history"]}
    lost = mock.patch.object(unnamed, "definitions_of", side_effect=ConnectionLost("gone"))
    with lost:
        server.execute(f"INSERT INTO {database}.t VALUES (2, 'y')")
        assert list(land(server, lake, database, **kept).set_aside) == [f"{database}.t"]
        server.execute(f"RENAME TABLE {database}.t TO {database}.r")
        server.execute(f"INSERT INTO {database}.r VALUES (3, 'z')")
        found = land(server, lake, database, **kept).set_aside
        assert sorted(found) == [f"{database}.r", f"{database}.t"]
    landed(server, lake, database, **kept)
    check(server, lake)


def test_another_table_has_the_name_when_its_server_is_asked(server, database, lake):
    """Rows are read up to the RENAME TABLE first, and what the server has by then is not theirs."""
    kept = {"keep": ["changelog", "current", "history"]}
    lost = mock.patch.object(unnamed, "definitions_of", side_effect=ConnectionLost("gone"))
    with lost:
        server.execute(f"INSERT INTO {database}.t VALUES (2, 'y')")
        land(server, lake, database, **kept)
        server.execute(f"RENAME TABLE {database}.t TO {database}.r")
        server.execute(f"CREATE TABLE {database}.t (k INT UNSIGNED PRIMARY KEY, v VARCHAR(20))")
        found = land(server, lake, database, **kept).set_aside
        assert found[f"{database}.r"].origins == (f"{database}.t",)
    landed(server, lake, database, **kept)
    server.execute(f"INSERT INTO {database}.t VALUES (9, 'new')")  # the same shape
    landed(server, lake, database, **kept)
    assert values(lake, f"{database}.r", "a") == [2]
    assert values(lake, f"{database}.t", "k") == [9]
    check(server, lake)


def test_rows_without_names_of_a_table_whose_states_stand_still(server, database, lake):
    """Its changelog stands still as well: rows are missing nowhere without a word."""
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    server.execute("SET SESSION binlog_row_image = MINIMAL")
    server.execute(f"INSERT INTO {database}.t (a) VALUES (1)")  # b is left to its default
    server.execute("SET SESSION binlog_row_image = FULL")
    (status,) = land(server, lake, database).set_aside.values()
    assert sorted(status.parts) == ["current"]
    server.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    server.execute(f"INSERT INTO {database}.t VALUES (2, 'y')")
    (status,) = land(server, lake, database).set_aside.values()
    assert sorted(status.parts) == ["changelog", "current"]


@BOTH
def test_a_statement_before_the_first_rows_without_names(server, database, lake):
    """Images of updates before it are not full: of MariaDB's, it is unknown what they lack."""
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    server.execute("SET SESSION binlog_row_image = MINIMAL")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 'x'), (2, 'y')")
    server.execute(f"UPDATE {database}.t SET b = 'z' WHERE a = 1")
    server.execute("SET SESSION binlog_row_image = FULL")
    server.execute(f"ALTER TABLE {database}.t ADD COLUMN c INT")
    server.execute(f"SET GLOBAL binlog_row_metadata = {minimal(server)}")
    server.execute(f"INSERT INTO {database}.t VALUES (3, 'z', 3)")
    found = land(server, lake, database).set_aside
    if server.flavour == "mariadb":
        (status,) = found.values()
        assert "on lack columns, which the server may generate" in status.reason
        assert "as a statement at binlog.0" in status.reason
    else:
        assert found == {}
        check(server, lake)


def test_files_cannot_be_asked(server, database, tmp_path):
    server.execute(f"INSERT INTO {database}.t VALUES (2, 'y')")
    report = land(server, tmp_path / "lake", database, source=server.data)
    assert report.set_aside == {}
    (table,) = (each for each in report.tables if each.name == f"{database}.t")
    assert "--schema FILE, or of the server itself" in table.refused
