"""Definitions applied to SQLite and PostgreSQL: rows and views are the source's after them."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import sqlalchemy as sa

import tailrace
from tailrace.errors import SchemaError
from tests.applier.test_databases import (
    LOGS,
    connected,
    expected,
    held,
    log_of,
    rejections,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def source(request, url):
    """A server: of MySQL for SQLite, of MariaDB for PostgreSQL."""
    return request.getfixturevalue("mysql97" if "sqlite" in url else "mariadb118")


@pytest.fixture
def logged(source, tmp_path):
    """The log of some statements on a server."""
    return lambda *statements: log_of(source, tmp_path, statements)


@pytest.fixture(params=["mysql97", "mariadb118"])
def logged_by_each(request, tmp_path):
    server = request.getfixturevalue(request.param)
    return lambda *statements: log_of(server, tmp_path, statements)


COPY = ("CREATE TABLE d.copy LIKE d.t", "INSERT INTO d.copy SELECT * FROM d.t")
"""The rows of the source after the definitions, which the log has as rows."""


def both(url, number=""):
    """The rows of ``d.t`` and ``d.copy`` by the names of their columns, exactly as they are."""
    return [
        sorted((sorted(row.items()) for row in rows_of(url, f"d.{name}{number}")), key=str)
        for name in ("t", "copy")
    ]


def same_as_source(url, log, *definitions, columns, values):
    """The rows after the definitions are the source's, by type and value."""
    case = Case(columns, values, definitions)
    return all_same_as_source(url, log, {"": case})[""]


class Case(NamedTuple):
    """A table, and what is done to it."""

    columns: str
    values: str
    definitions: Sequence[str]

    def statements(self, number):
        for each in (
            f"CREATE TABLE d.t (id INT PRIMARY KEY, {self.columns})",
            f"INSERT INTO d.t VALUES {self.values}",
            *self.definitions,
            *COPY,
        ):
            yield re.sub(r"\bd\.(t|copy)\b", rf"d.\g<1>{number}", each)


def all_same_as_source(url, log, cases):
    """`same_as_source` for several tables of one log; gives the rows of each."""
    numbers = {name: number if name else "" for number, name in enumerate(cases)}
    log_ = log(*(each for name, case in cases.items() for each in case.statements(numbers[name])))
    tailrace.apply(log_, url)
    applied = {}
    for name, number in numbers.items():
        applied[name], source = both(url, number)
        assert applied[name] == source, name
        assert applied[name], name
    return applied


@pytest.mark.parametrize(
    "url", [pytest.param("sqlite", marks=pytest.mark.quick), "postgresql"], indirect=True
)
def test_the_whole_log_of_the_example_is_applied_once(url):
    mysql = ("mysql", "weight_grams")
    flavour, added = mysql if url.startswith("sqlite") else ("mariadb", "locked")
    source, table = f"examples/shop/{flavour}", LOGS[flavour]
    done = tailrace.apply(source, url)
    assert done.transactions > 100
    values = [row[added] for row in rows_of(url, table)]
    assert values
    if flavour == "mariadb":
        assert None not in values
    wanted = {name: rows for name, rows in expected(source, table).items() if rows}
    found = {name: rows for name, rows in held(url).items() if rows and name != table}
    assert found == wanted
    again = tailrace.apply(source, url, start=f"{done.position.file[:-1]}1")
    assert (again.transactions, again.skipped) == (0, done.transactions)
    after = tailrace.apply(source, url, start=str(done.position))
    assert (after.transactions, after.skipped, after.position) == (0, 0, done.position)


ADDED = {
    "tiny TINYINT NOT NULL DEFAULT 0": 0,
    "flag BOOLEAN NOT NULL DEFAULT TRUE": 1,
    "n INT DEFAULT 5": 5,
    "m INT NOT NULL DEFAULT -7": -7,
    "q INT NOT NULL DEFAULT '12'": 12,
    "r INT NOT NULL DEFAULT 1.5": 2,
    "u BIGINT UNSIGNED NOT NULL DEFAULT 18446744073709551615": None,
    "b BIT(8) NOT NULL DEFAULT b'101'": None,
    "y YEAR NOT NULL DEFAULT 2024": None,
    "d DECIMAL(10,2) NOT NULL DEFAULT 1": None,
    "e DECIMAL(30,20) NOT NULL": None,
    "f FLOAT NOT NULL DEFAULT 0.1": None,
    "g DOUBLE NOT NULL DEFAULT 1e-3": None,
    "c CHAR(5) NOT NULL DEFAULT 'a  '": None,
    "v VARCHAR(20) NOT NULL DEFAULT 'it''s \\\\ %(x)s :y'": "it's \\ %(x)s :y",
    "w VARCHAR(20) CHARACTER SET latin1 NOT NULL DEFAULT 'é'": "é",
    "x TEXT NOT NULL": "",
    "z VARCHAR(9) NOT NULL DEFAULT 0": "0",
    "k ENUM('new','old') NOT NULL": "new",
    "l ENUM('new','old') DEFAULT 'old'": "old",
    "s SET('a','b','c') NOT NULL DEFAULT 'c,a'": "a,c",
    "vb VARBINARY(5) NOT NULL DEFAULT 'ab'": None,
    "bl BLOB NOT NULL": None,
    "da DATE NOT NULL DEFAULT '2024-02-29'": None,
    "dt DATETIME(3) NOT NULL DEFAULT '2024-02-29 01:02:03.5'": None,
    "dd DATETIME NOT NULL DEFAULT '2024-02-29'": None,
    "ti TIME(2) NOT NULL DEFAULT '-101:02:03.4'": None,
    "ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP": None,
    "dn DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP": None,
    "dm DATETIME(6) NOT NULL DEFAULT NOW(6)": None,
    "tm TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)": None,
    "p INT NOT NULL DEFAULT ((7))": None,
    "ex INT NOT NULL DEFAULT (1 + 1)": 2,
    "ey INT NOT NULL DEFAULT ((2) * -3 - (1 + 4) * 2)": -16,
    "bn BINARY(3) NOT NULL": None,
    "bd BINARY(3) NOT NULL DEFAULT 'a'": None,
    "ff FLOAT(7,2) NOT NULL DEFAULT 0": None,
    "`ye %(p)s` YEAR NOT NULL DEFAULT '2001'": None,
    "tn TIMESTAMP NULL": None,
    "nn INT NULL": None,
}


def test_added_columns_have_the_values_of_the_source(url, logged_by_each):
    cases = {
        each: Case("a INT", "(1, 1), (2, 2)", [f"ALTER TABLE d.t ADD COLUMN {each}"])
        for each in ADDED
    }
    for definition, rows in all_same_as_source(url, logged_by_each, cases).items():
        assert len(rows) == 2, definition
        if ADDED[definition] is not None:
            assert (definition.split()[0], ADDED[definition]) in rows[0]


CHANGED = {
    "VARCHAR(20) NOT NULL -> VARCHAR(160) NOT NULL": "('a'), ('b ')",
    "VARCHAR(20) -> VARCHAR(3)": "('abc'), ('b')",
    "VARCHAR(20) -> CHAR(20)": "('a  '), (NULL)",
    "CHAR(5) -> TEXT": "('a  '), (NULL)",
    "INT -> BIGINT": "(1), (-2)",
    "INT -> TINYINT": "(1), (-2)",
    "TINYINT UNSIGNED -> INT": "(255), (NULL)",
    "BIGINT -> BIGINT UNSIGNED": "(9223372036854775807), (0)",
    "BIGINT UNSIGNED -> BIGINT": "(9223372036854775807), (0)",
    "INT -> DECIMAL(12,3)": "(1), (-2), (NULL)",
    "INT -> VARCHAR(20)": "(1), (-2), (NULL)",
    "DECIMAL(10,2) -> DECIMAL(12,4)": "(1.5), (-0.01), (0)",
    "DECIMAL(10,0) -> DECIMAL(12,4)": "(15), (-1), (0)",
    "DECIMAL(10,2) -> VARCHAR(20)": "(1.5), (-0.01), (0)",
    "FLOAT -> DOUBLE": "(0.1), (-2.5e10)",
    "ENUM('a','b') -> ENUM('c','b','a')": "('a'), ('b')",
    "ENUM('a','b') -> VARCHAR(5)": "('a'), (NULL)",
    "SET('a','b') -> SET('a','b','c')": "('a,b'), ('')",
    "DATE -> DATETIME": "('2024-01-01'), (NULL)",
    "DATETIME -> DATETIME(3)": "('2024-01-01 01:02:03'), (NULL)",
    "TIME(1) -> TIME(3)": "('01:02:03.5'), ('-00:00:01')",
    "TIMESTAMP NULL -> TIMESTAMP(6) NULL": "('2024-01-01 01:02:03'), (NULL)",
    "VARBINARY(4) -> BLOB": "('ab'), (NULL)",
    "TEXT -> LONGTEXT": "('ab'), (NULL)",
}


def test_changed_columns_have_the_values_of_the_source(url, logged_by_each):
    cases = {}
    for change, values in CHANGED.items():
        old, new = change.split(" -> ")
        rows = values[1:-1].split("), (")
        for how in ("MODIFY c", "CHANGE c n"):
            cases[f"{how}: {change}"] = Case(
                f"c {old}",
                ", ".join(f"({number}, {row})" for number, row in enumerate(rows)),
                [f"ALTER TABLE d.t {how} {new}"],
            )
    all_same_as_source(url, logged_by_each, cases)


CLAUSES = (
    "RENAME COLUMN a TO z",
    "DROP COLUMN a",
    "DROP COLUMN A, ADD COLUMN a VARCHAR(5) NOT NULL DEFAULT 'x' FIRST",
    "ALTER COLUMN a SET DEFAULT 5",
    "ALTER COLUMN a DROP DEFAULT",
    "ADD INDEX i (a), ADD UNIQUE u (a)",
    "ADD CONSTRAINT c CHECK (a < 100)",
    "ENGINE=InnoDB, COMMENT='no rows', AUTO_INCREMENT=50",
    "CONVERT TO CHARACTER SET utf8mb4",
    "CONVERT TO CHARACTER SET utf8mb3, CHANGE a z BIGINT",
    "ADD COLUMN (e INT DEFAULT 1, f INT NOT NULL), CHANGE a z BIGINT AFTER v, ADD INDEX (v)",
    "MODIFY v VARCHAR(100) COMMENT 'longer' FIRST, ORDER BY a",
)


def test_clauses(url, logged):
    columns = "a INT, v VARCHAR(20) CHARACTER SET latin1"
    values = "(1, 1, 'é'), (2, 2, NULL)"
    cases = {each: Case(columns, values, [f"ALTER TABLE d.t {each}"]) for each in CLAUSES}
    all_same_as_source(url, logged, cases)


def test_a_table_is_renamed_and_its_rows_after_it_follow(url, logged):
    made = logged(
        "CREATE TABLE d.first (id INT PRIMARY KEY, a INT)",
        "INSERT INTO d.first VALUES (1, 1)",
        "ALTER TABLE d.first ADD COLUMN b INT NOT NULL DEFAULT 3, RENAME TO d.t",
        "INSERT INTO d.t VALUES (2, 2, 2)",
        "CREATE INDEX i ON d.t (a)",
        "DROP INDEX i ON d.t",
        *COPY,
    )
    tailrace.apply(made, url)
    applied, source = both(url)
    assert applied == source
    assert "d.first" not in held(url)


REJECTED = {
    "ADD COLUMN n INT AUTO_INCREMENT UNIQUE": "ADD COLUMN n AUTO_INCREMENT",
    "ADD COLUMN n VARCHAR(9) DEFAULT (concat('a', 'b'))": "ADD COLUMN n, whose default is an expr",
    "ADD COLUMN n INT DEFAULT (1 / 1)": "ADD COLUMN n, whose default is an expression",
    "ADD COLUMN n INT DEFAULT (a + 1)": "ADD COLUMN n, whose default is an expression",
    "ADD COLUMN n YEAR DEFAULT 24": "ADD COLUMN n, whose default is 24",
    "ADD COLUMN n INT DEFAULT 25e-1": "ADD COLUMN n, whose default is 25e-1",
    "ADD COLUMN n FLOAT(5,2) DEFAULT 0.126": "ADD COLUMN n, whose default is 0.126",
    "MODIFY b VARCHAR(20)": "MODIFY b from int.* unsigned to varchar.*ZEROFILL",
    "DROP PRIMARY KEY": "PRIMARY KEY",
    "MODIFY a DATE": r"MODIFY a from int to date",
    "MODIFY x DECIMAL(10,1)": r"MODIFY x from decimal\(10,2\) to decimal\(10,1\).*rounded",
    "CHANGE e e ENUM('A','c')": "CHANGE e|MODIFY e",
    "CHANGE a b INT, CHANGE b a INT": "each other's names",
}


LENIENT = {
    "MODIFY a TINYINT": "values may be cut, without a strict sql_mode",
    "CONVERT TO CHARACTER SET utf8mb3": "which changes v .*without a strict sql_mode",
    "CONVERT TO CHARACTER SET latin1": "which changes v .*without a strict sql_mode",
    "CONVERT TO CHARACTER SET binary": "which changes v .*values would be changed",
}


def test_a_clause_that_cannot_be_carried_out_is_rejected_by_its_name(url, logged):
    """Without a strict mode also what may have been cut: the text has a character that only utf8mb4
    has, and that becomes a question mark elsewhere.
    """
    columns = "id INT PRIMARY KEY, a INT, b INT UNSIGNED, x DECIMAL(10,2), e ENUM('a','c')"
    cases = [
        *((each, "NULL", "DEFAULT") for each in REJECTED),
        *((each, "1000", "''") for each in LENIENT),
    ]
    log = logged(
        *(
            sql
            for number, (clause, a, mode) in enumerate(cases)
            for sql in (
                f"CREATE TABLE d.t{number} ({columns}, v VARCHAR(9)) CHARSET utf8mb4",
                f"INSERT INTO d.t{number} VALUES (1, {a}, 1, 1.2, 'c', 'a\U0001f600')",
                f"SET SESSION sql_mode = {mode}",
                f"ALTER TABLE d.t{number} {clause}",
            )
        )
    )
    wanted = [*REJECTED.values(), *LENIENT.values()]
    for number, (error, what) in enumerate(zip(rejections(log, url), wanted, strict=True)):
        assert re.search(f"(?s)ALTER TABLE d.t{number} .*{what}.*--start", error), error
    assert [len(rows) for rows in held(url).values()] == [1] * len(cases)


def test_the_time_of_the_source_is_known_by_its_time_zone(url, logged):
    add = "ALTER TABLE d.t ADD COLUMN {} DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP"
    zone = "SET SESSION time_zone = '{}'"
    same_as_source(
        url, logged, zone.format("-03:30"), add.format("n"), columns="a INT", values="(1, 1)"
    )
    log = logged(
        "DROP TABLE IF EXISTS d.t",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO d.t VALUES (1, 1)",
        zone.format("SYSTEM"),
        add.format("n"),
    )
    with pytest.raises(SchemaError, match="ADD COLUMN n, whose default is a time in the time zone"):
        tailrace.apply(log, url, channel="second")


NULLS = (
    *("BIGINT", "DECIMAL(9,2)", "DOUBLE", "VARCHAR(9)", "TEXT", "ENUM('x','y')", "SET('x','y')"),
    *("ENUM('y','x') CHARACTER SET latin1", "TIME(2)", "YEAR", "BLOB", "VARBINARY(3)", "BIT(4)"),
)


def test_nulls_become_a_value_without_a_strict_mode(url, logged_by_each):
    lenient = "SET SESSION sql_mode = ''"
    dates = ("DATE", "DATETIME(1)") if "sqlite" in url else ()  # PostgreSQL has no zero dates
    cases = {
        each: Case(f"c {each}", "(1, NULL)", (lenient, f"ALTER TABLE d.t MODIFY c {each} NOT NULL"))
        for each in (*NULLS, *dates)
    }
    all_same_as_source(url, logged_by_each, cases)


VIEWED = (
    "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, `B b` VARCHAR(9), u BIGINT UNSIGNED)",
    "INSERT INTO d.t VALUES (1, 1, 'x', 5), (2, NULL, 'y', 6), (3, -1, NULL, 7)",
    "CREATE TABLE d.o (id INT PRIMARY KEY, `t` INT)",
    "INSERT INTO d.o VALUES (1, 1), (2, 1), (3, 2)",
    "CREATE TABLE d.empty (id INT PRIMARY KEY, g INT AS (id + 1) STORED, n VARCHAR(9))",
)
VIEWS = {
    "SELECT id, `B b` FROM d.t": [(1, "x"), (2, "y"), (3, None)],
    "SELECT x.Id n FROM d.t AS x WHERE NOT (a > 0 AND x.id <> 5) OR a IS NULL": [(2,), (3,)],
    "SELECT id, u FROM d.t WHERE id IN (1, 3) AND a BETWEEN -1 AND 0": [(3, "7")],
    "SELECT t.id, o.id AS o FROM d.t LEFT JOIN d.o ON o.t = t.id AND o.id < 3": [
        (1, 1),
        (1, 2),
        (2, None),
        (3, None),
    ],
    "SELECT t, COUNT(*) AS n, MAX(id) AS m FROM d.o GROUP BY t": [(1, 2, 2), (2, 1, 3)],
    "SELECT id, n FROM d.empty": [],
    "SELECT * FROM d.t": "a view with *",
    "SELECT id FROM d.t WHERE `B b` = 'X'": "a view with the condition .* which is varchar",
    "SELECT id / 2 AS h FROM d.t": "a view with .*id / 2",
    "SELECT DISTINCT id FROM d.t": "a view with DISTINCT",
    "SELECT id FROM d.t ORDER BY id LIMIT 1": "a view with (ORDER|LIMIT)",
    "SELECT id FROM d.t WHERE a": "a view with the condition",
    "SELECT concat(id, 'x') AS c FROM d.t": "a view with",
    "SELECT id FROM d.t UNION SELECT id FROM d.o": "no plain SELECT .UNION.",
    "SELECT id FROM d.t WHERE EXISTS (SELECT 1 FROM d.o)": "a view with the condition EXISTS",
}


def test_a_view_has_the_rows_of_the_source_or_is_rejected_by_the_part(url, logged):
    log = logged(*VIEWED, *(f"CREATE VIEW d.v{n} AS {query}" for n, query in enumerate(VIEWS)))
    wanted = [each for each in VIEWS.values() if isinstance(each, str)]
    for error, what in zip(rejections(log, url), wanted, strict=True):
        assert re.search(f"(?s)VIEW .*{what}.*--start", error), error
    for number, (query, rows) in enumerate(VIEWS.items()):
        if not isinstance(rows, str):
            found = [row.values() for row in rows_of(url, f"d.v{number}")]
            plain = [tuple(str(v) if v == 7 else v for v in row) for row in found]
            assert sorted(plain, key=str) == sorted(rows, key=str), query


def test_a_view_that_is_rejected_can_be_left_out(url, logged):
    log = logged(*VIEWED, "CREATE VIEW d.v AS SELECT * FROM d.t", "INSERT INTO d.o VALUES (9, 9)")
    with pytest.raises(SchemaError, match=r"or leave all views out \(--exclude VIEW\)"):
        tailrace.apply(log, url)
    assert len(held(url)["d.o"]) == 3
    tailrace.apply(log, url, exclude="d.v")
    assert len(held(url)["d.o"]) == 4


def test_a_view_is_replaced_and_dropped(url, logged):
    head = "ALGORITHM=MERGE DEFINER=`root`@`localhost` SQL SECURITY INVOKER VIEW"
    log = logged(
        *VIEWED,
        "CREATE VIEW d.gone AS SELECT id FROM d.t",
        "CREATE VIEW d.v AS SELECT id FROM d.t",
        f"CREATE OR REPLACE {head} d.v (x, y) AS SELECT id, a FROM d.t WHERE a > 0"
        " WITH CASCADED CHECK OPTION",
        "DROP VIEW d.gone",
        "DROP VIEW IF EXISTS d.never, d.none",
    )
    tailrace.apply(log, url)
    assert [dict(row) for row in rows_of(url, "d.v")] == [{"x": 1, "y": 1}]
    sqlite = url.startswith("sqlite")
    with connected(url) as connection:
        views = sa.inspect(connection).get_view_names(None if sqlite else "d")
    assert views == ["d.v" if sqlite else "v"]


def test_what_the_database_itself_rejects_is_told_by_the_statement(url, logged):
    """A table that a view reads in PostgreSQL; the type of a key's column in SQLite."""
    log = logged(
        "CREATE TABLE d.k (id INT PRIMARY KEY)",
        "INSERT INTO d.k VALUES (1)",
        *VIEWED,
        "CREATE VIEW d.v AS SELECT id FROM d.t",
        "ALTER TABLE d.k MODIFY id VARCHAR(9)",
        "INSERT INTO d.k VALUES ('a')",
        "DROP TABLE d.t",
    )
    rejected = (
        "ALTER TABLE d.k MODIFY id .*SQLite cannot change" if "sqlite" in url else "DROP TABLE"
    )
    with pytest.raises(SchemaError, match=f"(?s){rejected}.*--start"):
        tailrace.apply(log, url)


def test_triggers_routines_and_users_are_left_out(url, logged):
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, a INT)",
        "CREATE TRIGGER d.r BEFORE INSERT ON d.t FOR EACH ROW SET NEW.a = NEW.a + 1",
        "CREATE PROCEDURE d.p() SELECT 'VIEW'",
        "INSERT INTO d.t VALUES (1, 1)",
    )
    tailrace.apply(log, url)
    assert held(url)["d.t"] == [("1", "2")]


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_a_call_that_continues_knows_the_tables_of_the_source(url, source, metadata):
    """Of a server: it reads nothing before the place where it continues."""
    server = source
    server.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")

    def applied(*statements):
        for sql in statements:
            server.execute(sql)
        source = f"mysql://root@127.0.0.1:{server.port}/"
        tailrace.apply(source, url, start=start, until="now")

    server.execute("DROP DATABASE IF EXISTS d")
    server.rotate()
    start = f"{server.binlogs()[-1].name}:4"
    applied(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, `A a` INT, v VARCHAR(9))",
        "INSERT INTO d.t VALUES (1, 7, 'x')",
    )
    start = None
    applied("INSERT INTO d.t VALUES (2, 8, 'y')")
    applied("ALTER TABLE d.t MODIFY `A a` BIGINT, MODIFY v TEXT")
    applied("CREATE VIEW d.v AS SELECT id FROM d.t")
    applied("DROP VIEW d.v")
    applied("ALTER TABLE d.t MODIFY `A a` DECIMAL(20,1)")
    applied("ALTER TABLE d.t MODIFY `A a` VARCHAR(30), RENAME TO d.u")
    applied("RENAME TABLE d.u TO d.t", *COPY)
    found, wanted = both(url)
    assert found == wanted
    assert ("A a", "7.0") in found[0]


def test_rows_without_names_of_columns_are_rejected(url, mysql97, tmp_path):
    """No table is created, or changed, to have the columns c1 and c2."""
    made = ("SET GLOBAL binlog_row_metadata = MINIMAL", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    log = log_of(mysql97, tmp_path, [*made, "FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (1)"])
    with pytest.raises(SchemaError, match=r"d\.t: the names of its columns are unknown.*--schema"):
        tailrace.apply(log, url)
    assert held(url) == {}
    (schema := tmp_path / "schema.sql").write_text(f"{made[1]};")
    tailrace.apply(log, url, schema=schema)
    assert held(url) == {"d.t": [("1",)]}


def test_a_call_that_continues_reads_again_what_it_has_applied(url, mysql97):
    """An XA transaction is in doubt, so it begins before statements that it has applied: their
    tables have other columns by now, whose names the log lacks.
    """
    mysql97.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    mysql97.execute("DROP DATABASE IF EXISTS d")
    mysql97.rotate()
    source, start = f"mysql://root@127.0.0.1:{mysql97.port}/", f"{mysql97.binlogs()[-1].name}:4"
    for sql in (
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, gone INT, a INT)",
        "CREATE TABLE d.other (id INT PRIMARY KEY)",
        "XA START 'x'",
        "INSERT INTO d.other VALUES (1)",
        "XA END 'x'",
        "XA PREPARE 'x'",
    ):
        mysql97.execute(sql)
    mysql97.disconnect()
    for sql in (
        "INSERT INTO d.t VALUES (1, 5, 2)",
        "CREATE VIEW d.v AS SELECT id, a FROM d.t",
        "DROP VIEW d.v",
        "ALTER TABLE d.t DROP COLUMN gone, MODIFY a BIGINT",
        "INSERT INTO d.t VALUES (2, 3)",
    ):
        mysql97.execute(sql)
    tailrace.apply(source, url, start=start, until="now")
    mysql97.execute("XA COMMIT 'x'")
    mysql97.execute("ALTER TABLE d.t MODIFY a VARCHAR(20)")
    mysql97.execute("INSERT INTO d.t VALUES (3, 'x')")
    done = tailrace.apply(source, url, until="now")
    assert (done.transactions, done.skipped > 3) == (3, True)
    assert held(url) == {"d.t": [("1", "2"), ("2", "3"), ("3", "x")], "d.other": [("1",)]}


KILLED = """
import os, signal, sys
import sqlalchemy as sa
import tailrace

def kill(_connection, _cursor, statement, *_):
    if statement.startswith(begins) and part in statement:
        os.kill(os.getpid(), signal.SIGKILL)

sa.event.listen(sa.Engine, "after_cursor_execute", kill)
log, *given = sys.argv[1:]
for url, begins, part in zip(given[::3], given[1::3], given[2::3]):
    if (child := os.fork()) == 0:
        tailrace.apply(log, url)
        os._exit(0)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""


def test_a_column_that_the_target_lacks_cannot_be_renamed(tmp_path):
    url = f"sqlite:///{tmp_path / 'target.db'}"
    create = "CREATE TABLE d.t (id INT PRIMARY KEY, b INT)"
    with tailrace.create(tmp_path / "log.000001", flavour="mysql", server_id=1) as log:
        with log.transaction() as change:
            change.query(create, database="d")
        with log.transaction() as change:
            change.insert(tailrace.Table.parse(create, flavour="mysql"), [(1, 2)])
        there = str(log.position)
        with log.transaction() as change:
            change.query("ALTER TABLE d.t CHANGE b a INT", database="d")
    tailrace.apply(tmp_path, url, until=there)
    with connected(url) as connection:
        connection.exec_driver_sql('ALTER TABLE "d.t" RENAME COLUMN b TO other')
    with pytest.raises(SchemaError, match="column b is not in"):
        tailrace.apply(tmp_path, url)


KILLS = (
    ("ALTER TABLE", "ADD COLUMN"),
    ("UPDATE", ' as TEXT" = '),
    ("ALTER TABLE", "DROP COLUMN"),
    ("ALTER TABLE", "RENAME COLUMN"),
    ("UPDATE", "tailrace.applied"),
)


def test_a_kill_while_a_table_of_sqlite_is_rewritten(tmp_path, mysql97):
    """MWL#120 the applier, after SIGKILL each change is applied once: of a type that changes, in a
    table that is larger than what SQLite holds in memory, so that its file is half rewritten.
    """
    many = ", ".join(f"({number}, {number}, REPEAT('x', 4000))" for number in range(1500))
    log = log_of(
        mysql97,
        tmp_path,
        [
            "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, c TEXT)",
            f"INSERT INTO d.t VALUES {many}",
            "ALTER TABLE d.t MODIFY a VARCHAR(20)",
            "UPDATE d.t SET a = CONCAT(a, 'b')",
            *COPY,
        ],
    )
    with tailrace.open(log) as events:
        logged = list(events)
    at = next(n for n, each in enumerate(logged) if "MODIFY" in str(getattr(each, "sql", "")))
    begun = tmp_path / "begun.db"
    tailrace.apply(log, f"sqlite:///{begun}", until=f"{Path(log).name}:{logged[at - 1].offset}")
    before = held(f"sqlite:///{begun}")["d.t"]
    targets = [str(shutil.copy(begun, tmp_path / f"{number}.db")) for number in range(len(KILLS))]
    urls = [f"sqlite:///{each}" for each in targets]
    given = [each for url, kill in zip(urls, KILLS, strict=True) for each in (url, *kill)]
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, log, *given], check=True, capture_output=True, text=True
    )
    assert ran.stdout.split() == [str(int(signal.SIGKILL))] * len(KILLS), ran.stderr
    for url, kill in zip(urls, KILLS, strict=True):
        assert held(url)["d.t"] == before, kill
        tailrace.apply(log, url)
        applied, source = both(url)
        assert applied == source, kill
        assert ("a", "0b") in applied[0]
