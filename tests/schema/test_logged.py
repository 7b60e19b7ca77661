"""DDL out of real logs, with all that its query events say: each table map finds its definition."""

from tailrace.constants import Flavour
from tailrace.events.query import QueryEvent
from tailrace.events.table_map import TableMapEvent
from tailrace.log import open as open_log
from tailrace.schema import Catalogue
from tailrace.values.charsets import charset_of
from tests.cases import each_case

BOTH = (
    ("CREATE TABLE plain (id INT UNSIGNED PRIMARY KEY, v VARCHAR(10))", "plain (id) VALUES (1)"),
    ("CREATE TABLE german (`größe` INT, v ENUM('groß','klein'))", "german VALUES (1, 1)"),
    ("CREATE TABLE copy1 LIKE german", "copy1 VALUES (1, 1)"),
    ("CREATE TABLE made AS SELECT * FROM german", "made VALUES (1, 1)"),
    ("ALTER TABLE made ADD first INT FIRST, RENAME COLUMN v TO w", "made VALUES (3, 1, 1)"),
    ("ALTER TABLE plain RENAME TO renamed", "renamed (id) VALUES (2)"),
    ("CREATE OR REPLACE VIEW seen AS SELECT * FROM renamed", "seen (id) VALUES (3)"),
    (
        "CREATE TABLE part (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
        "part VALUES (1)",
    ),
    (
        "CREATE TABLE gen (a INT, b INT AS (a + 1) VIRTUAL, c INT AS (a + 2) STORED)",
        "gen (a) VALUES (1)",
    ),
)
OF = {
    Flavour.MYSQL: (
        ("SET sql_generate_invisible_primary_key = ON", None),
        ("CREATE TABLE gipk (v INT)", "gipk VALUES (1)"),
        ("CREATE TABLE gipk2 AS SELECT v FROM gipk", "gipk2 VALUES (1)"),
        ("SET sql_generate_invisible_primary_key = OFF", None),
        ("CREATE TABLE fun (a INT, j JSON, KEY ((a + 1)), KEY ((CAST(j->'$.x' AS SIGNED ARRAY))))", "fun (a) VALUES (1)"),
        ("CREATE TABLE inv (a INT /*!80023 INVISIBLE */ /*!99999 NOT NULL */, b INT)", "inv (b) VALUES (1)"),
        ("ALTER TABLE inv ADD v VECTOR(2)", "inv (b) VALUES (2)"),
    ),
    Flavour.MARIADB: (
        ("SET system_versioning_alter_history = KEEP", None),
        ("CREATE TABLE ver (a INT PRIMARY KEY) WITH SYSTEM VERSIONING", "ver VALUES (1)"),
        ("ALTER TABLE ver ADD b TEXT UNIQUE", "ver (a) VALUES (2)"),
        ("CREATE TABLE hash (a INT PRIMARY KEY, b BLOB, c VARCHAR(1000) UNIQUE, UNIQUE (b))", "hash (a) VALUES (1)"),
        ("ALTER TABLE hash ADD d INT AFTER a", "hash (a) VALUES (2)"),
        ("CREATE SEQUENCE seq", "plain2 VALUES (NEXTVAL(seq))"),
        ("SET SESSION binlog_alter_two_phase = 1", None),
        ("ALTER TABLE german ADD two_phase INT", "german VALUES (1, 1, 1)"),
        ("SET STATEMENT max_statement_time = 10 FOR ALTER TABLE german ADD again INT", "german VALUES (1, 1, 1, 1)"),
        ("ALTER ONLINE TABLE german DROP again", "german VALUES (1, 1, 2)"),
        ("CREATE TABLE network (u UUID, i INET6, j JSON, c TEXT COMPRESSED)", "network () VALUES ()"),
    ),
}  # fmt: skip
HIDDEN = {
    "ver": ["row_start", "row_end", "DB_ROW_HASH_1"],
    "hash": ["DB_ROW_HASH_1", "DB_ROW_HASH_2"],
}


@each_case("charset", ["utf8mb4", "latin1"])
def test_every_table_map_finds_its_definition(server, charset):
    flavour = Flavour(server.flavour)
    database = f"logged_{charset}"
    connection = server.connect(charset=charset)
    expected = []
    before = len(server.binlogs())
    server.rotate()
    with connection.cursor() as cursor:

        def run(sql):
            cursor.execute(sql)
            return cursor.fetchall()

        run(f"CREATE DATABASE {database} CHARACTER SET cp1251")
        run(f"USE {database}")
        run("CREATE TABLE plain2 (x BIGINT)")
        silent = "MINIMAL" if flavour is Flavour.MYSQL else "NO_LOG"
        run(f"SET GLOBAL binlog_row_metadata = {silent}")
        for ddl, insert in BOTH + OF[flavour]:
            run(ddl)
            if insert is None:
                continue
            run(f"INSERT INTO {insert}")
            table = insert.split()[0]
            table = {"seen": "renamed"}.get(table, table)
            columns = run(
                "SELECT column_name, collation_name, column_type FROM information_schema.columns WHERE "
                f"table_schema = '{database}' AND table_name = '{table}' ORDER BY ordinal_position"
            )
            if expected[-1:] != [(table, columns)]:
                expected.append((table, columns))
        run(f"DROP DATABASE {database}")
    connection.close()
    server.rotate()
    logs = server.binlogs()[before:-1]
    catalogue, found = Catalogue(), []
    for path in logs:
        with open_log(path) as log:
            for event in log:
                if isinstance(event, QueryEvent):
                    catalogue.apply_event(event, flavour)
                elif isinstance(event, TableMapEvent):
                    assert catalogue.lookup(database, event.table) is not None, (
                        event.table,
                        catalogue.reason_unknown(database, event.table),
                    )
                    schema = catalogue.resolve(event, flavour)
                    assert schema.names_from == "ddl", catalogue.notice(schema)
                    entry = (event.table, catalogue.fitting(event).columns)
                    if found[-1:] != [entry]:  # CREATE TABLE ... SELECT fills the table, too
                        found.append(entry)
    assert catalogue.lookup(database, "plain2") is None  # dropped with its database
    shown = [each for each in found if each[0] != "seq"]
    tables = [table for table, _ in shown]
    for table, columns in expected:
        definitions = shown.pop(tables.index(table))[1]
        tables.pop(tables.index(table))
        names = [name for name, _, _ in columns]
        assert [column.name for column in definitions][: len(names)] == names
        for (_, collation, kind), column in zip(columns, definitions, strict=False):
            assert (collation is None) == (column.collation in {None, 63}) or "enum" in kind
            if collation is not None:
                assert charset_of(column.collation) == collation.split("_")[0]
            assert (" unsigned" in kind) == column.unsigned
            if column.members is not None:
                assert kind == "enum(" + ",".join(f"'{name}'" for name in column.members) + ")"
        assert all(name in HIDDEN[table] for name in [c.name for c in definitions][len(names) :])
