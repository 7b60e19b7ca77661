"""Generated columns in a lake, of servers that do not log them in every update."""

from unittest import mock

import pytest

from tailrace.spark import mirror
from tailrace.spark.mirror import unnamed
from tailrace.spark.verify import verify
from tests.spark.following import url_of
from tests.spark.history.landing import Logged, parquet_rows
from tests.waiting import purge

DATABASE = "computed"
TABLES = {
    "v": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g INT AS (b + 1) VIRTUAL",
    "vi": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g INT AS (b + 1) VIRTUAL, KEY (g)",
    "vt": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g TEXT AS (CONCAT(a, 'x')) VIRTUAL",
    "s": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g INT AS (b + 1) STORED",
    "st": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g TEXT AS (CONCAT(a, 'x')) STORED",
    "sb": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g BLOB AS (CONCAT(a, 'x')) STORED",
    "sj": "id INT PRIMARY KEY, a VARCHAR(9), b INT, g JSON AS (JSON_ARRAY(a)) STORED",
    "k": "id INT, b INT, a VARCHAR(9), g INT AS (id + b) STORED, PRIMARY KEY (id, b, a)",
}
LACKING = {
    "mysql-9.7": {"FULL": "", "MINIMAL": "", "NOBLOB": ""},
    "mariadb-10.11": {"FULL": "", "MINIMAL": "v vt", "NOBLOB": "vt"},
    "mariadb-11.8": dict.fromkeys(("FULL", "FULL_NODUP", "MINIMAL", "NOBLOB"), " ".join(TABLES)),
}
"""The tables of which updates lack the generated column."""


@pytest.mark.parametrize(("name", "image"), [(n, i) for n, all_ in LACKING.items() for i in all_])
def test_a_generated_column_is_right_or_left_out(running, tmp_path, name, image):
    server = running(name)
    logged = Logged(server, tmp_path, keep=("current", "history"))
    logged.begin(DATABASE)
    logged.say(f"USE {DATABASE}")
    for table, columns in TABLES.items():
        logged.say(
            f"CREATE TABLE {table} ({columns})",
            f"INSERT INTO {table} (id, a, b) VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)",
        )
    logged.take()
    assert not logged.land().set_aside
    logged.say(f"SET SESSION binlog_row_image = {image}")
    for table in TABLES:
        logged.say(
            f"UPDATE {table} SET a = 'ONE', b = 10 WHERE id = 1",
            f"UPDATE {table} SET a = 'II' WHERE id = 2",
            f"UPDATE {table} SET b = 30 WHERE id = 3",
        )
    logged.say("SET SESSION binlog_row_image = FULL")
    logged.take()
    assert not logged.land().set_aside
    lacking = set()
    for table in TABLES:
        rows = parquet_rows(logged.lake, f"{DATABASE}.{table}")
        versions = parquet_rows(logged.lake, f"{DATABASE}.{table}", "history")
        versions = versions.filter(versions["_is_current"])
        names = [each for each in ("id", "a", "b", "g") if each in rows.schema.names]
        if "g" not in names:
            lacking.add(table)
        select = f"SELECT {', '.join(names)} FROM {DATABASE}.{table} ORDER BY id"
        wanted = [tuple(map(text, row)) for row in server.query(select)]
        for found in (rows, versions):
            shown = found.select(names).sort_by("id").to_pylist()
            assert [tuple(map(text, row.values())) for row in shown] == wanted, table
        if "g" not in names and "g" in versions.schema.names:  # of versions that ended before
            assert versions["g"].null_count == versions.num_rows
    assert lacking == set(LACKING[name][image].split())


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


IMAGES = [("mariadb-10.11", "MINIMAL"), ("mariadb-11.8", "FULL"), ("mariadb-11.8", "MINIMAL")]


@pytest.fixture
def undefined(request, running, tmp_path):
    """A function that lands a database: its log names the tables' columns, and defines no table."""
    name, image = getattr(request, "param", IMAGES[1])
    server = running(name)
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    server.execute(f"CREATE DATABASE {DATABASE}")
    for table, columns in TABLES.items():
        server.execute(f"CREATE TABLE {DATABASE}.{table} ({columns})")
    server.rotate()
    purge(server, server.binlogs()[-1].name)
    for table in TABLES:
        rows = "(1, 'one', 1), (2, 'two', 2), (3, 'three', 3)"
        server.execute(f"TRUNCATE TABLE {DATABASE}.{table}")  # so its rows are all in the log
        server.execute(f"INSERT INTO {DATABASE}.{table} (id, a, b) VALUES {rows}")
    server.execute(f"SET SESSION binlog_row_image = {image}")
    for table in TABLES:
        server.execute(f"UPDATE {DATABASE}.{table} SET a = 'ONE', b = 10 WHERE id = 1")
    server.execute("SET SESSION binlog_row_image = FULL")

    def land(source=None, lake="lake", **options):
        options |= {"tables": f"{DATABASE}.*", "incomplete": "accept"}
        return mirror(source or url_of(server), tmp_path / lake, **options)

    return server, image, land


@pytest.mark.parametrize("undefined", IMAGES, indirect=True)
def test_the_server_is_asked_which_columns_it_generates(undefined, tmp_path):
    server, image, land = undefined
    assert land().set_aside == {}
    with mock.patch.object(unnamed, "definitions_of", side_effect=AssertionError("asked again")):
        server.execute(f"UPDATE {DATABASE}.v SET b = 30 WHERE id = 3")
        assert land().set_aside == {}
    assert verify(url_of(server), tmp_path / "lake").verdict == "equal"
    lacking = set()
    for table in TABLES:
        rows = parquet_rows(tmp_path / "lake", f"{DATABASE}.{table}")
        names = [each for each in ("id", "a", "b", "g") if each in rows.schema.names]
        if "g" not in names:
            lacking.add(table)
        shown = rows.select(names).sort_by("id").to_pylist()
        select = f"SELECT {', '.join(names)} FROM {DATABASE}.{table} ORDER BY id"
        wanted = [tuple(map(text, row)) for row in server.query(select)]
        assert [tuple(map(text, row.values())) for row in shown] == wanted, table
    assert lacking == set(LACKING[server.name][image].split())


def test_a_definition_that_may_not_be_that_of_the_rows(undefined):
    """A statement changed a table since, or dropped it; the others are taken up."""
    server, _, land = undefined
    server.execute(f"ALTER TABLE {DATABASE}.st DROP COLUMN g, ADD COLUMN g TEXT")
    server.execute(f"DROP TABLE {DATABASE}.sb")
    ((name, status),) = land().set_aside.items()
    assert name == f"{DATABASE}.st"
    assert "on lack columns, which the server may generate, and its CREATE TABLE" in status.reason
    assert "as a statement at binlog.0" in status.reason
    assert status.needs == "create a new lake that begins after that statement"


def test_a_server_that_does_not_show_definitions(undefined, tmp_path):
    """The user's file has them then. A lake of changelogs alone needs none."""
    server, _, land = undefined
    server.execute("CREATE OR REPLACE USER sends_logs IDENTIFIED BY ''")
    server.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO sends_logs")
    url = url_of(server).replace("root@", "sends_logs@")
    assert land(source=url, lake="changes", keep=["changelog"]).set_aside == {}
    found = land(source=url).set_aside
    assert len(found) == len(TABLES)
    for status in found.values():
        assert "; the server does not tell them: " in status.reason
        assert status.reason.endswith("Give --schema FILE")
    made = (f"CREATE TABLE {DATABASE}.{name} ({columns});" for name, columns in TABLES.items())
    (tmp_path / "made.sql").write_text("\n".join(made))
    given = {"schema": tmp_path / "made.sql", "retry_tables": f"{DATABASE}.*"}
    assert land(source=url, **given).set_aside == {}
    assert verify(url_of(server), tmp_path / "lake").verdict == "equal"


GENERATED = "id INT {}, a VARCHAR(9) DEFAULT 'x', b INT, g INT AS (b + 1) VIRTUAL"


@pytest.fixture
def lands(running, tmp_path):
    """A function that lands a database of MariaDB's: its log defines none of the tables given."""

    def begin(name, *tables, key="PRIMARY KEY"):
        server = running(name)
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.execute(f"CREATE DATABASE {DATABASE}")
        for table in tables:
            server.execute(f"CREATE TABLE {DATABASE}.{table} ({GENERATED.format(key)})")
        server.rotate()
        purge(server, server.binlogs()[-1].name)
        for table in tables:
            server.execute(f"INSERT INTO {DATABASE}.{table} (id, b) VALUES (1, 1)")

        def land(source=None, **options):
            options |= {"tables": f"{DATABASE}.*", "incomplete": "accept"}
            return mirror(source or url_of(server), tmp_path / "lake", **options).set_aside

        return server, land

    return begin


def changes(lake, table):
    rows = parquet_rows(lake, f"{DATABASE}.{table}", "changelog").to_pylist()
    return sorted((str(row["_op"]), (row["after"] or row["before"])["id"]) for row in rows)


def test_the_changelog_goes_on_where_states_stand_still(lands, tmp_path):
    """Updates lack columns of a table without a definition: also if its states stood still."""
    server, land = lands("mariadb-11.8", "t")
    server.execute("SET SESSION binlog_row_image = MINIMAL")
    server.execute(f"INSERT INTO {DATABASE}.t (id, b) VALUES (2, 2)")  # a is left to its default
    server.execute("SET SESSION binlog_row_image = FULL")
    (status,) = land().values()
    assert "left columns to their defaults" in status.reason
    wanted = [("insert", 1), ("insert", 2)]
    for number in (3, 4):
        server.execute(f"UPDATE {DATABASE}.t SET b = 10 * {number} WHERE id = 1")
        server.execute(f"INSERT INTO {DATABASE}.t (id, b) VALUES ({number}, 0)")
        (status,) = land().values()
        assert sorted(status.parts) == ["current"]
        wanted += [("update", 1), ("insert", number)]
        assert changes(tmp_path / "lake", "t") == sorted(wanted)


def test_the_changelog_needs_no_definition(lands, tmp_path):
    """The server does not tell it: *current* alone waits, and of a table without a key nothing."""
    server, land = lands("mariadb-11.8", "t")
    server.execute(f"CREATE TABLE {DATABASE}.n ({GENERATED.format('')})")
    server.rotate()
    purge(server, server.binlogs()[-1].name)
    server.execute("CREATE OR REPLACE USER sends_logs IDENTIFIED BY ''")
    server.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO sends_logs")
    few = url_of(server).replace("root@", "sends_logs@")
    for table in ("t", "n"):
        server.execute(f"INSERT INTO {DATABASE}.{table} (id, b) VALUES (2, 2)")
        server.execute(f"UPDATE {DATABASE}.{table} SET b = 20 WHERE id = 2")
    found = land(few)
    assert list(found) == [f"{DATABASE}.t"]
    assert sorted(found[f"{DATABASE}.t"].parts) == ["current"]
    server.execute(f"DELETE FROM {DATABASE}.t WHERE id = 2")
    assert list(land(few)) == [f"{DATABASE}.t"]
    assert changes(tmp_path / "lake", "n") == [("insert", 2), ("update", 2)]
    wanted = [("delete", 2), ("insert", 2), ("update", 2)]
    assert changes(tmp_path / "lake", "t") == wanted
    assert land(retry_tables=f"{DATABASE}.t") == {}
    assert changes(tmp_path / "lake", "t") == wanted
    keyed = {"keys": {f"{DATABASE}.n": "id"}}
    found = mirror(few, tmp_path / "keyed", tables=f"{DATABASE}.n", incomplete="accept", **keyed)
    assert list(found.set_aside) == [f"{DATABASE}.n"]


def test_a_table_that_is_gone_or_replaced(lands, tmp_path):
    """Nobody tells which columns were generated: those that updates lack are left out."""
    server, land = lands("mariadb-10.11", "gone", "t")
    server.execute("SET SESSION binlog_row_image = MINIMAL")
    for table in ("gone", "t"):
        server.execute(f"UPDATE {DATABASE}.{table} SET b = 10 WHERE id = 1")
    server.execute("SET SESSION binlog_row_image = FULL")
    gone = server.query(f"SELECT id, b FROM {DATABASE}.gone")
    server.execute(f"DROP TABLE {DATABASE}.gone")
    server.execute(f"CREATE TABLE {DATABASE}.new LIKE {DATABASE}.t")
    server.execute(f"INSERT INTO {DATABASE}.new (id, b) SELECT id, b FROM {DATABASE}.t")
    server.execute(f"RENAME TABLE {DATABASE}.t TO {DATABASE}.old, {DATABASE}.new TO {DATABASE}.t")
    server.execute("SET SESSION binlog_row_image = MINIMAL")
    server.execute(f"UPDATE {DATABASE}.t SET b = 100 WHERE id = 1")
    server.execute("SET SESSION binlog_row_image = FULL")
    server.execute(f"DROP TABLE {DATABASE}.old")
    assert land(keep=["changelog", "current", "history"]) == {}
    select = f"SELECT id, b FROM {DATABASE}.t"
    wanted = {"t": server.query(select), "gone": gone}
    for table, rows in wanted.items():
        versions = parquet_rows(tmp_path / "lake", f"{DATABASE}.{table}", "history")
        last = max(versions.to_pylist(), key=lambda row: row["_seq"])
        assert [(last["id"], last["b"])] == rows
        assert last.get("g") is None
    current = parquet_rows(tmp_path / "lake", f"{DATABASE}.t")
    assert current.select(["id", "b"]).to_pylist() == [{"id": 1, "b": 100}]
    assert "g" not in current.schema.names
    assert verify(url_of(server), tmp_path / "lake").verdict == "equal"


def test_statements_before_the_updates_that_lack_columns(lands, tmp_path):
    """The server's definition is that of the updates: no table is set aside."""
    alters = {
        "wide": "MODIFY a VARCHAR(30)",
        "note": "MODIFY b INT COMMENT 'x'",
        "column": "ADD COLUMN z INT",
    }
    server, land = lands("mariadb-11.8", *(f"`{table}`" for table in alters))
    for table, how in alters.items():
        server.execute(f"ALTER TABLE {DATABASE}.`{table}` {how}")
        server.execute(f"UPDATE {DATABASE}.`{table}` SET b = 10 WHERE id = 1")
    assert land() == {}
    for table in alters:
        rows = parquet_rows(tmp_path / "lake", f"{DATABASE}.{table}")
        assert "g" not in rows.schema.names
        wanted = server.query(f"SELECT id, a, b FROM {DATABASE}.`{table}`")
        shown = rows.select(["id", "a", "b"]).to_pylist()
        assert [tuple(map(text, row.values())) for row in shown] == [
            tuple(map(text, row)) for row in wanted
        ]
