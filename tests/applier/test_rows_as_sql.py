"""Rows that are applied as SQL: the account must not use BINLOG, or the target is of the other
flavour.
"""

import functools
import json
import random

import pymysql
import pytest

import tailrace
from tailrace.errors import SchemaError, ServerError
from tests.applier.conftest import Pair
from tools.campaign.columns import Types
from tools.campaign.tables import RandomTable
from tools.dumps import quoted, raw_rows


class WithoutBinlog(Pair):
    """A target to which rows go as SQL."""

    user = "root"

    @property
    def url(self):
        return super().url.replace("root@", f"{self.user}@")


OTHER = [("mysql-9.7", "mariadb-10.11"), ("mariadb-11.8", "mysql-9.7")]
"""A source, and a target of the other flavour."""


@pytest.fixture(scope="module")
def pair_of(fresh_server):
    """An empty pair of these servers, which are started once."""

    @functools.cache
    def started(source, target):
        pair = WithoutBinlog(fresh_server(source), fresh_server(target, server_id=2))
        if source == target:
            pair.user = "applier"
            for sql in (
                "CREATE USER applier@'%'",
                "GRANT ALL ON *.* TO applier@'%'",
                "REVOKE SUPER, BINLOG_ADMIN, REPLICATION_APPLIER ON *.* FROM applier",
            ):
                pair.target.execute(sql)
        return pair

    def emptied(source, target):
        pair = started(source, target)
        pair.empty()
        return pair

    return emptied


@pytest.fixture(params=OTHER, ids="-to-".join)
def other(request, pair_of):
    return pair_of(*request.param)


@pytest.fixture(params=[("mysql-9.7", "mysql-9.7"), *OTHER], ids="-to-".join)
def pair(request, pair_of):
    return pair_of(*request.param)


def rows(server, table):
    return list(map(tuple, server.query(f"SELECT * FROM {table} ORDER BY 1")))


@pytest.fixture
def differing(pair):
    """A target that lacks rows which the source changes, in tables with and without a key."""
    pair.applied(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE d.n (a INT, b INT)",
        "INSERT INTO d.t VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO d.n VALUES (1, 1), (1, 1), (2, 2)",
    )
    return pair


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ("UPDATE d.t SET a = a + 10", "DELETE FROM d.t WHERE id = 2"),
        ("DELETE FROM d.t WHERE id < 3", "DELETE FROM d.t WHERE id = 1"),
        ("UPDATE d.n SET b = 5 WHERE a = 2", "DELETE FROM d.n WHERE a = 2"),
        ("DELETE FROM d.n WHERE a = 2", "UPDATE d.n SET b = 3 WHERE a = 2"),
    ],
)
def test_a_row_that_is_not_there_is_a_conflict(differing, change, gone):
    """``stop`` names it and keeps what was before; ``skip`` leaves it; ``overwrite`` inserts it."""
    source, target = differing.source, differing.target
    before = {name: rows(source, f"d.{name}") for name in "tn"}
    target.execute(gone)
    kept = {name: rows(target, f"d.{name}") for name in "tn"}
    source.execute("INSERT INTO d.t VALUES (4, 4)")
    source.execute(change)
    logs = differing.log()
    what = rf"the row to {change[:6].lower()} in d\.{change.partition('d.')[2][0]} is not there"
    with pytest.raises(ServerError, match=what) as error:
        tailrace.apply(logs, differing.url)
    assert (error.value.code, "--conflicts" in str(error.value)) == (1032, True)
    assert rows(target, "d.t") == [*kept["t"], (4, 4)]
    assert rows(target, "d.n") == kept["n"]
    assert before["t"] != kept["t"] or before["n"] != kept["n"]
    tailrace.apply(logs, differing.url, conflicts="overwrite")
    table = "d.t" if change.partition("d.")[2][0] == "t" else "d.n"
    if table == "d.t" or not change.startswith("DELETE"):
        assert rows(target, table) == rows(source, table)
    else:
        assert rows(target, table) == kept["n"]


def test_conflicts_skip_leaves_a_row_that_is_not_there(differing):
    differing.target.execute("DELETE FROM d.t WHERE id = 2")
    differing.source.execute("UPDATE d.t SET a = a + 10")
    tailrace.apply(differing.log(), differing.url, conflicts="skip")
    assert rows(differing.target, "d.t") == [(1, 11), (3, 13)]


def test_a_trigger_of_the_target_is_named_in_the_error(differing):
    differing.target.execute(
        "CREATE TRIGGER d.tr AFTER INSERT ON d.t FOR EACH ROW INSERT INTO d.n VALUES (0, 0)"
    )
    differing.source.execute("INSERT INTO d.t VALUES (4, 4)")
    with pytest.raises(ServerError, match=r"^[^']*: drop the triggers of d\.t first"):
        tailrace.apply(differing.log(), differing.url)


def columns(server, table):
    return dict(
        server.query(
            "SELECT column_name, column_type FROM information_schema.columns"
            " WHERE table_schema = 'd' AND table_name = %s ORDER BY ordinal_position",
            (table,),
        )
    )


def as_text(pair, table):
    """All rows of a table on each server, as they print them; MySQL's documents as such."""
    types = [columns(server, table) for server in (pair.source, pair.target)]
    documents = {name for of in types for name, kind in of.items() if kind == "json"}
    made = []
    for server, of in zip((pair.source, pair.target), types, strict=True):
        texts, _ = raw_rows(server, f"SELECT {', '.join(map(quoted, of))} FROM d.{quoted(table)}")
        made.append(
            sorted(
                (
                    [
                        json.loads(value) if value is not None and name in documents else value
                        for name, value in zip(of, row, strict=True)
                    ]
                    for row in texts
                ),
                key=str,
            )
        )
    return made


def test_random_tables_of_types_that_both_have(other):
    """Definitions and rows, from a log of one flavour to a server of the other."""
    source, target = other.source, other.target
    rng, types = random.Random(21), Types(source)
    source.execute("CREATE DATABASE d")
    target.execute("CREATE DATABASE tried")
    target.execute("USE tried")
    source.execute("USE d")
    made = []
    while len(made) < 12:
        table = RandomTable(rng, types, f"t{len(made)}", plain=True)
        text = table.create()
        try:
            target.execute(text.replace("%", "%%"))
            target.execute(f"DROP TABLE {table.name}")
            source.execute(text.replace("%", "%%"))
        except pymysql.err.Error:
            continue
        made.append(table)
    done = 0
    for _ in range(250):
        table = rng.choice(made)
        pick = rng.random()
        if pick < 0.6:
            text = table.insert()
        else:
            text = table.update(partial_json=False) if pick < 0.85 else table.delete()
        try:
            source.execute(text.replace("%", "%%"))
            done += 1
        except pymysql.err.Error:
            continue
    assert done > 100
    target.execute("DROP DATABASE tried")
    tailrace.apply(other.log(), other.url)
    for table in made:
        one, two = as_text(other, table.name)
        assert one == two, table.create()


def test_statements_are_executed_with_the_settings_that_the_target_has(other):
    """Modes, time stamps that are rounded by one flavour only, collations, user variables."""
    server = other.source
    rounding = "TIME_TRUNCATE_FRACTIONAL" if server.flavour == "mysql" else "TIME_ROUND_FRACTIONAL"
    other.applied(
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(50), at DATETIME) ENGINE=InnoDB",
        "CREATE TABLE u (a VARCHAR(50) CHARACTER SET utf8mb4)",
        "SET SESSION binlog_format = 'STATEMENT'",
        "SET @number = 7, time_zone = '+03:00', timestamp = 1700000000",
        "INSERT INTO t (a, at) VALUES (@number, '2026-01-01 00:00:00.7'), ('now', NOW())",
        f"SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,{rounding}'",
        """INSERT INTO t (a, at) VALUES ('x' || 'y', '2026-01-01 00:00:00.7')""",
        "INSERT INTO u SELECT a FROM t WHERE a = 'XY'",
        "SET SESSION binlog_format = 'ROW', sql_mode = DEFAULT",
    )
    assert rows(other.target, "d.t") == rows(server, "d.t")
    assert rows(other.target, "d.u") == rows(server, "d.u") == [("xy",)]
    seconds = [at.second for _, _, at in rows(server, "d.t")][::2]
    assert seconds == ([1, 0] if server.flavour == "mysql" else [0, 1])


def test_a_mode_that_the_target_does_not_have_is_rejected_by_its_name(other):
    if other.source.flavour == "mysql":
        mode, error = "PAD_CHAR_TO_FULL_LENGTH", None
    else:
        mode, error = "EMPTY_STRING_IS_NULL", "the sql_mode EMPTY_STRING_IS_NULL, which MySQL"
    logs = other.did(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a CHAR(5))",
        f"SET sql_mode = '{mode}', binlog_format = 'STATEMENT'",
        "INSERT INTO d.t VALUES ('')",
        "SET sql_mode = DEFAULT, binlog_format = 'ROW'",
    )
    if error is None:
        tailrace.apply(logs, other.url)
        assert rows(other.target, "d.t") == [("",)]
        return
    with pytest.raises(SchemaError, match=error):
        tailrace.apply(logs, other.url)
    assert rows(other.target, "d.t") == []


def test_partial_json_is_a_document_in_mariadb(other):
    server = other.source
    if server.flavour == "mariadb":
        document = '\'{"a": [1, 2.5, null], "b": "é"}\''
        partial = ()
    else:
        document = "JSON_OBJECT('a', CAST('2026-01-01' AS DATE), 'b', CAST(1.5 AS DECIMAL(9, 3)))"
        partial = ("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",)
    other.applied(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, j JSON)",
        "CREATE TABLE d.n (j JSON)",
        *partial,
        f"INSERT INTO d.t VALUES (1, {document}), (2, NULL)",
        "INSERT INTO d.n SELECT j FROM d.t",
        "UPDATE d.t SET j = JSON_SET(j, '$.a', 5, '$.c', 'new')",
        "DELETE FROM d.n WHERE j IS NOT NULL",
    )
    found = [(key, text and json.loads(text)) for key, text in rows(other.target, "d.t")]
    assert found == [(key, text and json.loads(text)) for key, text in rows(server, "d.t")]
    assert rows(other.target, "d.n") == [(None,)]


def test_rows_that_are_sent_in_several_packets_are_found(other):
    """A change and the statement that looks whether it found its row are in one packet."""
    values = ", ".join(f"({number}, '')" for number in range(3000))
    other.applied(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(100) NOT NULL)",
        f"INSERT INTO d.t VALUES {values}",
        "UPDATE d.t SET a = REPEAT('u', 100)",
        "DELETE FROM d.t WHERE id > 0",
    )
    assert rows(other.target, "d.t") == [(0, "u" * 100)]


def test_user_variables_of_statements_have_collations_of_the_target(other):
    """As the session's, a variable's collation becomes the one of the same order."""
    mysql = other.source.flavour == "mysql"
    other.applied(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET utf8mb4)",
        "SET SESSION binlog_format = 'STATEMENT'",
        f"SET @name = _utf8mb4 'müde' COLLATE utf8mb4_{'0900' if mysql else 'uca1400'}_as_ci",
        "INSERT INTO d.t VALUES (1, @name), (2, CONCAT(@name, '!'))",
    )
    assert rows(other.target, "d.t") == [(1, "müde"), (2, "müde!")]


KEYLESS = {
    "doc JSON": ("""'{"b":1, "a":2}'""", "'[1.0, \"é\", null]'", "NULL"),
    "t VARCHAR(20)": ("'é'", "'e '", "''"),
    "t TEXT CHARACTER SET latin1": ("'é'", "'E'"),
    "t CHAR(5) CHARACTER SET gbk": ("'中'", "'a'"),
    "f FLOAT": ("1.1", "16777217"),
    "f DOUBLE": ("0.1", "1e300"),
    "e ENUM('x', 'é')": ("'é'", "'x'"),
    "s SET('x', 'é')": ("'x,é'", "''"),
    "b BIT(9)": ("b'101010101'", "0"),
    "b BINARY(4)": ("x'4100'", "x'00'"),
    "b BLOB": ("x'C3A9FF'", "''"),
    "g GEOMETRY": ("ST_GeomFromText('POINT(1 2)')",),
    "d DATETIME(3)": ("'2026-11-29 01:02:03.456'", "'2026-11-29'"),
    "y YEAR": ("2026", "0"),
}
"""Columns, and values that rows without a key are found by."""


def keyless(server):
    names = [f"t{n}" for n in range(len(KEYLESS))]
    return [sorted(server.query(f"SELECT n, i FROM d.{name}")) for name in names]


@pytest.mark.parametrize("by_hand", [False, True], ids=["applied", "another character set"])
def test_rows_without_a_key_are_found_by_their_values(other, by_hand):
    """As the server of the other flavour has them, also in a table with another character set."""
    source, target = other.source, other.target
    source.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    start = None
    for number, column in enumerate(KEYLESS):
        create = f"CREATE TABLE d.t{number} ({column}, n INT, i INT)"
        source.execute(create)
        if by_hand:
            charset = "gbk" if "gbk" in column else "latin1"
            target.execute(f"CREATE DATABASE IF NOT EXISTS d CHARACTER SET {charset}")
            target.execute(create.replace("CHARACTER SET latin1", "CHARACTER SET utf8mb4"))
    if by_hand:
        source.rotate()
        start = source.query("SHOW BINARY LOGS")[-1][0]
    for number, values in enumerate(KEYLESS.values()):
        for i, value in enumerate(values):
            source.execute(f"INSERT INTO d.t{number} VALUES ({value}, 1, {i})")
            source.execute(f"INSERT INTO d.t{number} VALUES ({value}, 1, {i + 10})")
        source.execute(f"UPDATE d.t{number} SET n = 2 WHERE i < 10")
        source.execute(f"DELETE FROM d.t{number} WHERE i = 10")
    tailrace.apply(other.log(), other.url, start=start)
    assert keyless(target) == keyless(source)
    assert all(len(found) >= 1 for found in keyless(target))
