"""Tables declared to us, and the same tables on real servers: the table maps must be the same."""

import random
from dataclasses import replace

import pytest
from pymysql.err import IntegrityError, OperationalError

import tailrace
from tailrace.constants import Flavour
from tailrace.events import QueryEvent, TableMapEvent
from tailrace.log import open as open_log
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.table import Table
from tests.cases import each_case
from tools.applied import by_tool
from tools.campaign.columns import Types
from tools.campaign.tables import RandomTable

TABLES = 30
METADATA = {"mysql": {"full": "FULL", "minimal": "MINIMAL"}}
METADATA["mariadb"] = METADATA["mysql"] | {"none": "NO_LOG"}
OWN = {
    "k0": ("(a varchar(20), b text, c int, primary key (b(7), c, a(20)))", "(1, 2, 3)"),
    "k1": ("(a varchar(20) character set latin1 primary key, b year)", "(1, 2001)"),
    "k2": ("(a varbinary(20), b bit, c float, primary key (a(19)))", "(1, 1, 3)"),
    "k3": ("(a int, b char(200) character set utf8mb4, c bit(9), primary key (b, a))", "(1, 2, 3)"),
    "k4": ("(a int unique, b int not null, unique (a, b), unique (b))", "(1, 2)"),
    "k5": ("(a varchar(9) not null, b int not null unique, unique (a(3)))", "(1, 2)"),
    "k6": (
        "(a serial, b bool, c real, d national varchar(9), e char byte, f long)",
        "(1,1,1,1,1,1)",
    ),
    "k7": ("(a decimal, b dec(9), c numeric(30,30), d float(24), e float(25))", "(1, 1, 0, 1, 1)"),
    "k8": ("(a text(50), b text(300), c blob(70000), d mediumtext, e longblob)", "(1, 1, 1, 1, 1)"),
    "k9": ("(unique (b), a int not null unique, b int not null)", "(1, 2)"),
    "k10": ("(a varchar(500) not null unique, b int not null unique)", "(1, 2)"),
}
OF_MYSQL = {
    "m0": ("(a int not null, b int, unique ((a + 1)), unique (b))", "(1, 2)"),
    "m1": ("(a int not null, b int not null, unique (a, (b + 1)), unique (b))", "(1, 2)"),
    "m2": ("(a int, b int invisible, c int as (a + 1) stored, d json)", "(a, b) VALUES (1, 2)"),
    "m3": (
        "(a vector, b geomcollection, c multipolygon not null srid 0)",
        "VALUES (null, null, ST_GeomFromText('MULTIPOLYGON(((0 0,1 0,1 1,0 0)))'))",
    ),
    "m4": ("(a int not null unique, b int as (a) virtual not null, unique (b))", "(a) VALUES (1)"),
    "m5": ("(b int as (a) stored not null unique, a int not null unique)", "(a) VALUES (1)"),
    "m6": ("(a int not null, unique (a) using hash)", "(1)"),
}
OF_MARIADB = {
    "v0": ("(a int primary key, b text) with system versioning", "(1, 2)"),
    "v1": ("(a int not null unique) with system versioning", "(1)"),
    "v2": (
        """(a int, s timestamp(6) as row start, e timestamp(6) generated always as row end,
        period for system_time (s, e)) with system versioning""",
        "(a) VALUES (1)",
    ),
    "v3": (
        "(a json, b uuid, c inet6, d varchar(9) compressed, e tinytext compressed)",
        "() VALUES ()",
    ),
}


def read(log, database):
    """The log's table maps, and what its DDL tells."""
    found, catalogue = {}, Catalogue()
    for event in open_log(log):
        if isinstance(event, QueryEvent):
            catalogue.apply_event(event, event.form.flavour)
        elif isinstance(event, TableMapEvent) and event.database == database:
            found[event.table] = event
    return found, catalogue


def statements(server, rng):
    """CREATE TABLE and INSERT of each table: those above, and random ones."""
    own = OWN | (OF_MYSQL if server.flavour == "mysql" else OF_MARIADB)
    for name, (body, values) in own.items():
        given = values if "VALUES" in values else f"VALUES {values}"
        yield f"CREATE TABLE {name} {body}", f"INSERT IGNORE INTO {name} {given}"
    types = Types(server)
    for number in range(TABLES):
        table = RandomTable(rng, types, f"t{number}", plain=False)
        yield table.create(), table.insert("INSERT IGNORE")


@each_case("metadata", ["full", "minimal", "none"])
def test_declared_tables_are_logged_as_the_server_does(server, metadata):
    setting = METADATA[server.flavour].get(metadata)
    if setting is None:
        return  # this flavour has no such setting
    database = f"declared_{metadata}"
    rng = random.Random(f"{server.name} {metadata}")
    (before,) = server.query("SELECT @@GLOBAL.binlog_row_metadata")[0]
    made = {}
    server.rotate()
    try:
        server.execute(f"SET GLOBAL binlog_row_metadata = {setting}")
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute(f"DROP DATABASE IF EXISTS {database}")
            cursor.execute(f"CREATE DATABASE {database}")
            cursor.execute(f"USE {database}")
            for sql, filled in statements(server, rng):
                try:
                    cursor.execute(sql)
                    cursor.execute(filled)
                except OperationalError:  # a row too long, a default that is none, ...
                    assert sql.startswith("CREATE TABLE `"), sql
                    continue
                table = Table.parse(
                    sql, flavour=server.flavour, database=database, server_version=server.version
                )
                made[table.name] = table
    finally:
        server.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    logged, catalogue = read(server.rotate(), database)
    assert len(made) > TABLES // 2
    assert set(made) <= set(logged)
    for name, table in made.items():
        event = logged[name]
        mine = table.table_map(event.table_id, metadata=metadata, form=event.form)
        assert mine.columns == event.columns, name
        assert mine.body == event.body, name
        found = Table.of_map(event)
        again = found.table_map(event.table_id, metadata=metadata, form=event.form)
        assert again.body == event.body, name
        if catalogue.lookup(database, name).primary_key == () != table.primary_key:
            continue  # a unique key for a primary key is not in the catalogue
        known = Table.of_map(event, catalogue.lookup(database, name))
        whole = table.table_map(event.table_id, form=event.form)
        assert known.table_map(event.table_id, form=event.form).body == whole.body, name
        assert known.primary_key == table.primary_key, name
        if metadata == "full":
            assert known.schema == table.schema, name
        schema = catalogue.resolve(event, table.flavour)
        by_schema = Table.of_map(event, schema=schema).table_map(event.table_id, form=event.form)
        for mine, theirs in zip(by_schema.columns, whole.columns, strict=True):
            unsaid = {"geometry_type": None, "dimensions": None, "visible": None}
            assert replace(mine, **unsaid) == replace(theirs, **unsaid), name


ALTERS = (
    "ALTER COLUMN b SET INVISIBLE, ALTER c SET DEFAULT 5, ALTER COLUMN d SET VISIBLE",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (c, b(3)), ADD e INT AS (a) VIRTUAL INVISIBLE",
    "CHANGE b bb VARCHAR(9) CHARACTER SET latin1 NOT NULL, ALTER INDEX i INVISIBLE",
)


def test_altered_tables_are_logged_as_the_server_does(mysql97):
    server = mysql97
    (before,) = server.query("SELECT @@GLOBAL.binlog_row_metadata")[0]
    server.rotate()
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    for sql in ("DROP DATABASE IF EXISTS altered", "CREATE DATABASE altered"):
        server.execute(sql)
    columns = "a INT, b VARCHAR(9) NOT NULL, c INT NOT NULL, d INT INVISIBLE, KEY i (a)"
    server.execute(f"CREATE TABLE altered.t ({columns}, PRIMARY KEY (b(2)))")
    for clauses in ALTERS:
        server.execute(f"ALTER TABLE altered.t {clauses}")
        name = "bb" if "bb" in clauses else "b"
        server.execute(f"INSERT INTO altered.t (a, {name}, c) VALUES (1, 'x', 3)")
        server.execute("DELETE FROM altered.t")
    server.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    catalogue, found = Catalogue(), []
    for event in open_log(server.rotate()):
        if isinstance(event, QueryEvent):
            catalogue.apply_event(event, Flavour.MYSQL)
        elif isinstance(event, TableMapEvent):
            definition = catalogue.lookup("altered", "t")
            made = Table.of(definition).table_map(event.table_id, form=event.form)
            assert made.body == event.body, definition
            found.append(event.layout)
    assert len(set(found)) == len(ALTERS)


@each_case("name", ["mariadb118", "mariadb1011"])
def test_columns_of_long_unique_keys_are_found(name, request):
    """MariaDB's hash columns, which hold NULL or not as the key's columns do."""
    server = request.getfixturevalue(name)
    server.rotate()
    server.execute("CREATE OR REPLACE DATABASE hashed")
    server.execute("CREATE TABLE hashed.t (a TEXT NOT NULL, b TEXT, UNIQUE (a), UNIQUE (b))")
    server.execute("INSERT INTO hashed.t VALUES ('x', NULL)")
    maps, catalogue = read(server.rotate(), "hashed")
    schema = catalogue.resolve(maps["t"], Flavour.MARIADB)
    assert schema.names_from == "ddl"
    names = ["a", "b", "DB_ROW_HASH_1", "DB_ROW_HASH_2"]
    assert [(c.name, c.nullable) for c in schema.columns] == [
        *zip(names, [False, True, False, True], strict=True)
    ]


def test_rows_without_the_columns_of_long_unique_keys(mariadb118, tmp_path):
    """What `Table.parse` leaves out: MariaDB computes it, and the key holds."""
    server, sql = mariadb118, "CREATE TABLE hashed.t (id INT PRIMARY KEY, a TEXT NOT NULL UNIQUE)"
    server.execute("CREATE OR REPLACE DATABASE hashed")
    server.execute(sql)
    table = Table.parse(sql, flavour="mariadb", server_version=server.version)
    file = tmp_path / "binlog.000001"
    with tailrace.create(str(file), flavour="mariadb", server_id=77, domain_id=77) as log:
        with log.transaction() as transaction:
            transaction.insert(table, [(1, "x"), (2, "y")])
        with log.transaction() as transaction:
            transaction.update(table, [(1, "x")], [(1, "z")])
            transaction.delete(table, [(2, "y")])
    by_tool(server, [file])
    server.execute("INSERT INTO hashed.t VALUES (2, 'x')")
    with pytest.raises(IntegrityError, match="Duplicate entry 'z'"):
        server.execute("INSERT INTO hashed.t VALUES (3, 'z')")
    assert server.query("SELECT * FROM hashed.t") == [(1, "z"), (2, "x")]
    assert server.query("CHECK TABLE hashed.t EXTENDED")[0][-1] == "OK"
