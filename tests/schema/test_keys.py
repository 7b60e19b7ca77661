"""The primary key that DDL tells: whole columns that are surely unique, or none."""

import pytest

from tailrace import Table
from tailrace.constants import Flavour
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.schema import Catalogue
from tests.cases import each_case
from tests.values.replay import since
from tools.dumps import quoted

DATABASE = "keyed"
PERIOD = "s DATE, e DATE, PERIOD FOR p (s, e)"
SYSTEM = (
    "s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END,"
    " PERIOD FOR SYSTEM_TIME (s, e)"
)
ON_SERVERS = {
    "overlaps": f"CREATE TABLE t (a INT, {PERIOD}, PRIMARY KEY (a, p WITHOUT OVERLAPS))",
    "overlaps_first": f"CREATE TABLE t (PRIMARY KEY (a DESC, p WITHOUT OVERLAPS), a INT, {PERIOD})",
    "period_in_key": f"CREATE TABLE t (a INT, {PERIOD}, PRIMARY KEY (a, s))",
    "versioned": f"CREATE TABLE t (a INT PRIMARY KEY, {SYSTEM}) WITH SYSTEM VERSIONING",
    "row_start": f"CREATE TABLE t (a INT, {SYSTEM}, PRIMARY KEY (a, s)) WITH SYSTEM VERSIONING",
    "row_end": f"CREATE TABLE t (a INT, {SYSTEM}, PRIMARY KEY (e, a)) WITH SYSTEM VERSIONING",
    "descending": "CREATE TABLE t (a INT, b INT, PRIMARY KEY (b DESC, a))",
    "beginning": "CREATE TABLE t (a VARCHAR(20), b INT, PRIMARY KEY (a(3), b))",
    "hidden": "CREATE TABLE t (a INT PRIMARY KEY) WITH SYSTEM VERSIONING",
}


@each_case("name", ON_SERVERS)
@pytest.mark.parametrize("server", ["mariadb-11.8", "mariadb-10.11"], indirect=True)
def test_the_key_is_the_servers_own(server, name):
    """What the DDL tells is what a server says of itself with full metadata."""
    sql = ON_SERVERS[name]
    before = server.rotate().name
    usual = server.query("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    try:
        server.execute(f"CREATE DATABASE {DATABASE}")
        server.execute(sql.replace("TABLE t", f"TABLE {quoted(DATABASE)}.t"))
        column = "a, b" if " b INT" in sql else "a"
        given = column
        values = ", ".join("1" for _ in column.split(","))
        if "p (s, e)" in sql:
            given, values = f"{column}, s, e", f"{values}, '2024-01-01', '2024-01-02'"
        server.execute(f"INSERT INTO {DATABASE}.t ({given}) VALUES ({values})")
    finally:
        server.execute(f"SET GLOBAL binlog_row_metadata = {usual}")
        server.execute(f"DROP DATABASE {DATABASE}")
    [change] = Changes(Reader(since(server, before)))
    table_map = change.event.table_map
    assert table_map.primary_key
    catalogue = Catalogue()
    catalogue.apply(sql, DATABASE, flavour=Flavour.MARIADB)
    told = catalogue.lookup(DATABASE, "t")
    names = [spec.name for spec in table_map.columns]
    assert list(told.primary_key) == [names[index] for index in table_map.primary_key]
    assert change.schema.key_is_whole == (name != "beginning")
    assert bool(told.key_prefixes) == (name == "beginning")


CREATE = f"CREATE TABLE t (a INT, {PERIOD})"


@each_case(
    "statements",
    [
        (CREATE, "ALTER TABLE t ADD PRIMARY KEY (a, p WITHOUT OVERLAPS)"),
        (
            CREATE,
            "ALTER TABLE t ADD PERIOD FOR q (a, e), ADD CONSTRAINT x PRIMARY KEY (a, q WITHOUT OVERLAPS)",
        ),
        (CREATE, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY ((a + 1))"),
        ("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, gone WITHOUT OVERLAPS))",),
        ("CREATE TABLE t (a INT, b INT, PRIMARY KEY ((a + 1)))",),
        ("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, (b)))",),
    ],
)
def test_a_key_that_is_not_of_columns_is_none(statements):
    catalogue = Catalogue()
    for sql in statements:
        catalogue.apply(sql, "d", flavour=Flavour.MARIADB)
    assert catalogue.lookup("d", "t").primary_key == ()


def test_a_unique_key_that_stands_for_the_primary_one():
    """A writer says the key that a server would; part of one is none."""
    unique = f"CREATE TABLE t (a INT NOT NULL, {PERIOD}, UNIQUE (a, p WITHOUT OVERLAPS))"
    table = Table.parse(unique, flavour="mariadb", database="d")
    assert [table.schema.columns[index].name for index in table.schema.primary_key] == [
        "a",
        "e",
        "s",
    ]
