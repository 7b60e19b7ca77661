"""Tables to write to: what is refused, what the defaults are, and that they travel."""

import pickle

import pytest

from tailrace.constants import ColumnType as T
from tailrace.constants import Flavour
from tailrace.errors import EventEncodeError, SchemaError, UsageError
from tailrace.events import TableMapEvent
from tailrace.log import open as open_log
from tailrace.schema.session import StatementSession
from tailrace.schema.table import Table
from tailrace.schema.tokens import SqlMode
from tailrace.values.schema import ColumnDefinition, Logical, TableDefinition
from tests.cases import each_case
from tests.values.replay import cases


def of(*columns, key=(), prefixes=(), flavour="mysql"):
    return Table.of(TableDefinition("shop", "t", columns, key, prefixes), flavour)


def test_a_parsed_table_says_what_it_is():
    table = Table.parse(
        "CREATE TABLE shop.orders (id INT UNSIGNED, v VARCHAR(20), PRIMARY KEY (id))"
    )
    assert (table.database, table.name, table.flavour) == ("shop", "orders", Flavour.MYSQL)
    assert table.primary_key == (0,)
    number, text = table.schema.columns
    assert (number.name, number.type, number.unsigned, number.nullable) == (
        "id",
        T.LONG,
        True,
        False,
    )
    assert (text.type, text.metadata, text.collation, text.logical) == (
        T.VARCHAR,
        80,
        255,
        Logical.TEXT,
    )
    assert table.schema.names_from == "log"


def test_tables_pickle_and_compare():
    sql = "CREATE TABLE t (a INT, e ENUM('x','y') CHARACTER SET utf16)"
    table = Table.parse(sql, database="shop")
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert hash(again) == hash(table)
    assert again.table_map(7).body == table.table_map(7).body
    assert Table.parse(sql, database="other") != table


@each_case(
    ("flavour", "version", "collation"),
    [
        ("mysql", "", 255),
        ("mysql", "5.7.44", 8),
        ("mariadb", "11.8.2-MariaDB", 2304),
        ("mariadb", "5.5.5-10.11.13-MariaDB-log", 8),
        ("mariadb", "10.11.13-MariaDB", 8),
    ],
)
def test_the_default_character_set_is_the_servers(flavour, version, collation):
    table = Table.parse(
        "CREATE TABLE t (v TEXT)", database="d", flavour=flavour, server_version=version
    )
    assert table.schema.columns[0].collation == collation


def test_a_session_says_how_to_read():
    session = StatementSession(Flavour.MYSQL, 8, SqlMode.ANSI_QUOTES)
    table = Table.parse('CREATE TABLE "t" ("v" CHAR(3))', database="d", session=session)
    assert table.schema.columns[0].metadata == 3


@each_case(
    ("sql", "said"),
    [
        ("CREATE TABLE t (a INT)", "in which database"),
        ("SELECT 1", "one CREATE TABLE is expected"),
        ("DROP TABLE d.t", "one CREATE TABLE is expected"),
        ("CREATE TABLE d.t AS SELECT 1", "not understood"),
        ("CREATE TABLE d.t (a NOSUCH)", "not understood"),
        ("CREATE TABLE d.t (a INT, PRIMARY KEY (b))", "a column 'b' that is not there"),
        ("CREATE TABLE d.t (a UUID)", "mysql has no type 'uuid'"),
        ("CREATE TABLE d.t (a VARCHAR(16384))", "is longer than a column holds"),
        ("CREATE TABLE d.t (a DATETIME(7))", "7 is not between 0 and 6"),
        ("CREATE TABLE d.t (a DECIMAL(66,2))", "66 is not between 1 and 65"),
        ("CREATE TABLE d.t (a DECIMAL(10,11))", "11 is not between 0 and 10"),
        ("CREATE TABLE d.t (a BIT(65))", "65 is not between 1 and 64"),
        ("CREATE TABLE d.t (a CHAR(256))", "256 is not between 0 and 255"),
        ("CREATE TABLE d.t (a VARCHAR)", "how many characters"),
        (f"CREATE TABLE d.t (a SET({','.join(f'{n!r}' for n in map(str, range(65)))}))", "64"),
        ("CREATE TABLE d.t (a VECTOR(16384))", "16384 is not between"),
    ],
)
def test_what_no_server_has_is_refused(sql, said):
    with pytest.raises(SchemaError, match=said):
        Table.parse(sql)


@each_case(
    ("column", "said"),
    [
        (ColumnDefinition("a"), "mysql has no type ''"),
        (ColumnDefinition("a", "enum('x')"), "its names are not known"),
        (ColumnDefinition("a", "varchar(9)", compressed=True), "only MariaDB compresses"),
        (ColumnDefinition("a", "int; drop"), "'; drop' is no part of a type"),
        (ColumnDefinition("a", "char(3) charset latin1"), "'charset latin1' is no part of a type"),
    ],
)
def test_definitions_that_do_not_say_enough(column, said):
    with pytest.raises(SchemaError, match=rf"shop\.t: column a: .*{said}"):
        of(column)


def test_a_definition_made_by_hand_is_completed():
    table = of(
        ColumnDefinition("n", "BIGINT UNSIGNED"),
        ColumnDefinition("u", "uuid"),
        ColumnDefinition("j", "json"),
        ColumnDefinition("v", "vector(2)"),
        ColumnDefinition("t", "text"),
        ColumnDefinition("b", "blob"),
        ColumnDefinition("y", "year"),
        ColumnDefinition("c", "varchar(9) /*M!100301 COMPRESSED*/", collation=8),
        flavour="mariadb",
    )
    number, uuid, document, vector, text, blob, year, packed = table.schema.columns
    assert (packed.type, packed.metadata) == (T.VARCHAR_COMPRESSED, 10)
    assert number.unsigned
    assert (uuid.type, uuid.metadata, uuid.logical, uuid.collation) == (
        T.STRING,
        16,
        Logical.UUID,
        63,
    )
    assert (document.type, document.logical, document.collation) == (T.BLOB, Logical.JSON, 46)
    assert (vector.type, vector.metadata, vector.logical) == (T.VARCHAR, 8, Logical.VECTOR)
    assert (text.logical, text.charset) == (Logical.TEXT, "utf8mb4")
    assert blob.logical is Logical.BINARY
    assert year.unsigned


def test_a_key_of_prefixes():
    columns = (ColumnDefinition("a", "varchar(9)"), ColumnDefinition("b", "text"))
    table = of(*columns, key=("B", "a"), prefixes=(3, 9))
    assert (table.primary_key, table.key_prefixes) == ((1, 0), (3, 0))
    with pytest.raises(SchemaError, match="1 prefixes for the 2 columns"):
        of(*columns, key=("b", "a"), prefixes=(3,))


def test_metadata_says_more_or_less():
    table = Table.parse("CREATE TABLE d.t (a INT UNSIGNED PRIMARY KEY, e ENUM('x'), v CHAR(3))")
    full, minimal, none = (
        table.table_map(5, metadata=metadata) for metadata in ("full", "minimal", "none")
    )
    assert [spec.name for spec in full.columns] == ["a", "e", "v"]
    assert full.primary_key == (0,)
    assert [spec.name for spec in minimal.columns] == [None] * 3
    assert [spec.collation for spec in minimal.columns] == [None, None, 255]
    assert minimal.columns[0].unsigned is True
    assert minimal.primary_key is None
    assert all(spec.unsigned is spec.collation is None for spec in none.columns)
    assert {event.flags for event in (full, minimal, none)} == {1}
    assert full.table_id == 5


def test_a_name_that_is_too_long_is_refused():
    table = Table.parse(f"CREATE TABLE d.`{'x' * 300}` (a INT)")
    with pytest.raises(EventEncodeError, match="table"):
        table.table_map(1)
    with pytest.raises(EventEncodeError, match="table_id"):
        Table.parse("CREATE TABLE d.t (a INT)").table_map(1 << 48)


def test_a_table_out_of_a_log_says_no_more_than_is_known():
    declared = Table.parse("CREATE TABLE d.t (a INT UNSIGNED PRIMARY KEY, e ENUM('x'), v CHAR(3))")
    logged = declared.table_map(5, metadata="none")
    found = Table.of_map(logged)
    assert [column.name for column in found.schema.columns] == ["c1", "c2", "c3"]
    assert [spec.name for spec in found.table_map(6).columns] == [None] * 3
    definition = TableDefinition(
        "d",
        "t",
        (
            ColumnDefinition("a", "int unsigned", nullable=False),
            ColumnDefinition("e", "enum('x')", members=("x",)),
            ColumnDefinition("v", "char(3)"),
        ),
        ("a",),
    )
    known = Table.of_map(logged, definition)
    assert known.table_map(5).body == declared.table_map(5).body
    other = TableDefinition("d", "t", definition.columns[:2])
    with pytest.raises(SchemaError, match="3 columns in the log and 2"):
        Table.of_map(logged, other)


def test_generated_and_invisible_columns_are_known():
    table = Table.parse(
        "CREATE TABLE d.t (a INT INVISIBLE, b INT GENERATED ALWAYS AS (a + 1), c INT AS (a) STORED)"
    )
    assert [column.generated for column in table.schema.columns] == [False, True, True]
    assert [spec.visible for spec in table.specs] == [False, True, True]


@each_case("case", cases(), ids=lambda case: case.folder.name)
def test_tables_out_of_the_corpus_are_written_as_they_were(case):
    """By one of the three amounts of metadata, which the log's folder may switch between."""
    seen = set()
    for event in open_log(case.folder):
        if not isinstance(event, TableMapEvent) or event.layout in seen:
            continue
        seen.add(event.layout)
        bodies = [
            Table.of_map(event).table_map(event.table_id, metadata=metadata, form=event.form).body
            for metadata in ("full", "minimal", "none")
        ]
        assert event.body in bodies, event


def test_mariadbs_default_character_set_is_not_assumed():
    """WL#3283: it should be difficult to use the interface in the wrong way."""
    for sql in ("CREATE TABLE d.t (a INT, v TEXT)", "CREATE TABLE d.t (a INT, v ENUM('x'))"):
        with pytest.raises(UsageError, match=r"^d\.t\.v has no character set, .* server_version"):
            Table.parse(sql, flavour="mariadb")
        for version, charset in (("10.11.8-MariaDB", "latin1"), ("11.8.3-MariaDB", "utf8mb4")):
            table = Table.parse(sql, flavour="mariadb", server_version=version)
            assert table.schema.columns[1].charset == charset
    for sql in (
        "CREATE TABLE d.t (v TEXT CHARACTER SET utf8mb4)",
        "CREATE TABLE d.t (v TEXT) COLLATE utf8mb4_bin",
        "CREATE TABLE d.t (v BLOB, n INT, j JSON)",
    ):
        assert len(Table.parse(sql, flavour="mariadb").schema.columns) in {1, 3}
    assert Table.parse("CREATE TABLE d.t (v TEXT)").schema.columns[0].charset == "utf8mb4"
