"""Each statement of docs/surprises.md, on the servers that it is about."""

import json

import pytest

import tailrace
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.storage import find
from tests.spark.replay import current_states, rows_of

DATABASE = "surprises"
FOREVER = {"mariadb1011": "2038-01-19 03:14:07.999999", "mariadb118": "2106-02-07 06:28:15.999999"}


@pytest.fixture
def logged(tmp_path):
    """Runs statements in a database of their own; gives the log's changes by JSON, and the log."""

    def run(server, *statements):
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.execute(f"CREATE DATABASE {DATABASE}")
        server.rotate()
        with (
            server.connect(database=DATABASE, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET time_zone = '+00:00'")
            for statement in statements:
                cursor.execute(statement)
        path = server.rotate()
        (series,) = find(path)
        lines = [line for each in Changes(Reader(series)) for line in each.json_lines()]
        return [json.loads(line) for line in lines], path

    return run


def current(path, table, folder):
    """The rows of a table in a lake's current state."""
    built = current_states(path, folder)[f"{DATABASE}.{table}"]
    assert built.rows.refused is None
    return built, rows_of(built)


def shown(records, table):
    return [(r["_op"], r["before"], r["after"]) for r in records if r["_table"] == table]


@pytest.mark.parametrize("name", list(FOREVER))
def test_versioned_tables_keep_all_versions(request, name, logged, tmp_path):
    server = request.getfixturevalue(name)
    records, path = logged(
        server,
        "CREATE TABLE v (id INT PRIMARY KEY, x INT) WITH SYSTEM VERSIONING",
        "INSERT INTO v VALUES (1, 1), (2, 1)",
        "UPDATE v SET x = 2 WHERE id = 1",
        "DELETE FROM v WHERE id = 1",
    )
    changes = shown(records, "v")
    assert [change[0] for change in changes] == ["insert", "insert", "update", "insert", "update"]
    _, before, after = changes[-1]
    assert before["row_end"] == FOREVER[name]
    assert {key for key in before if before[key] != after[key]} == {"row_end"}, "the DELETE"
    _, table = current(path, "v", tmp_path)
    rows = server.query(
        f"SELECT id, x, row_end > UTC_TIMESTAMP() FROM {DATABASE}.v FOR SYSTEM_TIME ALL"
    )
    assert sorted(zip(*(table[each].to_pylist() for each in ("id", "x")), strict=True)) == sorted(
        row[:2] for row in rows
    )
    assert sorted(row[:2] for row in rows) == [(1, 1), (1, 2), (2, 1)]
    ends = [str(end).removesuffix("+00:00") for end in table["row_end"].to_pylist()]
    valid = [
        id_ for id_, end in zip(table["id"].to_pylist(), ends, strict=True) if end == FOREVER[name]
    ]
    assert valid == [row[0] for row in server.query(f"SELECT id FROM {DATABASE}.v")] == [2]
    server.execute(f"DELETE HISTORY FROM {DATABASE}.v")
    (series,) = find(server.rotate())
    deleted = [json.loads(line) for each in Changes(Reader(series)) for line in each.json_lines()]
    assert [each["_op"] for each in deleted] == ["delete", "delete"]


def test_stored_columns_in_updates(server, mariadb118, logged, tmp_path):
    records, path = logged(
        server,
        "CREATE TABLE g (id INT PRIMARY KEY, a INT, s INT AS (a + 1) STORED)",
        "INSERT INTO g (id, a) VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE g SET a = 10 WHERE id = 1",
        "DELETE FROM g WHERE id = 2",
    )
    leaves_out = server is mariadb118
    *inserts, update, delete = shown(records, "g")
    assert [after for _, _, after in inserts] == [{"id": n, "a": n, "s": n + 1} for n in (1, 2, 3)]
    full = [
        ({"id": 1, "a": 1, "s": 2}, {"id": 1, "a": 10, "s": 11}),
        ({"id": 2, "a": 2, "s": 3}, None),
    ]
    if leaves_out:
        for image in (*full[0], full[1][0]):
            del image["s"]
    assert [update[1:], delete[1:]] == full
    (batch,) = tailrace.changes(path, tables=f"{DATABASE}.g")
    assert batch["after"].field("s").to_pylist() == [2, 3, 4, None if leaves_out else 11, None]
    assert (batch["_present"][3].as_py() is not None) == leaves_out
    built, table = current(path, "g", tmp_path)
    assert sorted(table["a"].to_pylist()) == [3, 10]
    if leaves_out:
        assert "s" not in table.schema.names
        assert built.rows.unlogged == ("s",)
    else:
        assert sorted(table["s"].to_pylist()) == [4, 11]
        assert built.rows.unlogged == ()
    assert server.query(f"SELECT id, s FROM {DATABASE}.g ORDER BY id") == [(1, 11), (3, 4)]


def test_hidden_columns(flavour_server, logged):
    server = flavour_server
    mysql = server.flavour == "mysql"
    made = [
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE h (x INT)",
        "INSERT INTO h VALUES (5)",
    ]
    if not mysql:
        made = ["CREATE TABLE h (x TEXT, UNIQUE (x))", "INSERT INTO h VALUES ('a')"]
    records, _ = logged(
        server,
        "CREATE TABLE i (id INT PRIMARY KEY, x INT INVISIBLE DEFAULT 7)",
        "INSERT INTO i (id) VALUES (1)",
        *made,
    )
    assert shown(records, "i") == [("insert", None, {"id": 1, "x": 7})]
    ((_, _, after),) = shown(records, "h")
    assert set(after) == {"x", "my_row_id" if mysql else "DB_ROW_HASH_1"}
    assert len(server.query(f"SELECT * FROM {DATABASE}.h")[0]) == 1
    assert server.query(f"SELECT * FROM {DATABASE}.i") == [(1,)]


CASCADES = [
    "CREATE TABLE p (id INT PRIMARY KEY)",
    (
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)"
        " ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE n (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)"
        " ON DELETE SET NULL)"
    ),
    "INSERT INTO p VALUES (1), (2)",
    "INSERT INTO c VALUES (1, 1), (2, 2)",
    "INSERT INTO n VALUES (1, 1)",
    "DELETE FROM p WHERE id = 1",
    "UPDATE p SET id = 3 WHERE id = 2",
]


@pytest.fixture(scope="module")
def native(fresh_server):
    return fresh_server("mysql-9.7", {"innodb_native_foreign_keys": "ON"})


@pytest.mark.parametrize("name", ["mysql97", "native", "mariadb118"])
def test_cascades(request, name, logged, tmp_path):
    server = request.getfixturevalue(name)
    records, path = logged(server, *CASCADES)
    changes = [(r["_table"], r["_op"]) for r in records if r["_op"] != "insert"]
    parents = [("p", "delete"), ("p", "update")]
    assert server.query(f"SELECT * FROM {DATABASE}.c") == [(2, 3)]
    assert server.query(f"SELECT * FROM {DATABASE}.n") == [(1, None)]
    _, children = current(path, "c", tmp_path)
    rows = sorted(zip(children["id"].to_pylist(), children["p"].to_pylist(), strict=True))
    if name == "mysql97":
        assert set(changes[:3]) == {("c", "delete"), ("n", "update"), parents[0]}
        assert changes[2] == parents[0]
        assert changes[3:] == [("c", "update"), parents[1]]
        assert rows == [(2, 3)]
    else:
        assert changes == parents
        assert rows == [(1, 1), (2, 2)]


@pytest.mark.parametrize("name", list(FOREVER))
def test_virtual_columns_of_versioned_tables_are_null_in_minimal_images(request, name, logged):
    records, _ = logged(
        request.getfixturevalue(name),
        "SET SESSION binlog_row_image = MINIMAL",
        "CREATE TABLE v (id INT PRIMARY KEY, x INT, g INT AS (x + 1) VIRTUAL) WITH SYSTEM VERSIONING",
        "INSERT INTO v (id, x) VALUES (1, 1)",
    )
    ((_, _, after),) = shown(records, "v")
    assert (after["x"], after["g"]) == (1, None)
