"""Names, signs, character sets: from the log, else from a definition, else none."""

import pickle

import pytest

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import SchemaError
from tailrace.values.charsets import charset_of, collation_id, default_collation
from tailrace.values.resolve import resolve_table
from tailrace.values.schema import ColumnDefinition, Logical, TableDefinition
from tests.cases import each_case
from tests.values.made import TableMap, spec

T = ColumnType


def definition(*columns, key=()):
    return TableDefinition("shop", "orders", columns, key)


def resolved(columns, given=None, source="given", key=None):
    return resolve_table(TableMap(columns, key), Flavour.MYSQL, given, source)


def test_nothing_known():
    schema = resolved((spec(T.LONG), spec(T.VARCHAR, 80), spec(T.BLOB, 2)))
    assert [column.name for column in schema.columns] == ["c1", "c2", "c3"]
    assert (schema.names_from, schema.primary_key) == ("none", ())
    assert not schema.columns[0].unsigned
    assert [column.logical for column in schema.columns] == ["plain", "text", "binary"]
    assert schema.columns[1].charset == "utf8mb4"


def test_log_comes_first():
    columns = (
        spec(T.LONG, name="ID", unsigned=False),
        spec(T.VARCHAR, 80, name="v", collation=8),
        spec(T.ENUM, 1, name="e", collation=8, members=(b"\xe9", b"x")),
    )
    given = definition(
        ColumnDefinition("v", "varchar(20)", collation=45),
        ColumnDefinition("id", "int unsigned", unsigned=True),
        ColumnDefinition("e", "enum('a','b')", members=("a", "b")),
        key=("id",),
    )
    schema = resolved(columns, given)
    assert [column.name for column in schema.columns] == ["ID", "v", "e"]
    assert schema.names_from == "log"
    assert not schema.columns[0].unsigned
    assert (schema.columns[1].collation, schema.columns[1].charset) == (8, "latin1")
    assert schema.columns[2].members == ("é", "x")
    assert schema.primary_key == (0,)


def test_definition_fills_what_the_log_leaves_out():
    given = definition(
        ColumnDefinition("id", "bigint unsigned", unsigned=True),
        ColumnDefinition("u", "uuid", logical=Logical.UUID, collation=63),
        ColumnDefinition("b", "binary(4)", collation=63),
        ColumnDefinition("j", "json", logical=Logical.JSON, collation=46),
        ColumnDefinition("d", "datetime(3)"),
        key=("b", "id"),
    )
    columns = (
        spec(T.LONGLONG),
        spec(T.STRING, 16),
        spec(T.STRING, 4),
        spec(T.BLOB, 4),
        spec(T.DATETIME),
    )
    schema = resolved(columns, given, "ddl")
    assert schema.names_from == "ddl"
    assert schema.columns[0].unsigned
    assert [c.logical for c in schema.columns] == ["plain", "uuid", "binary", "json", "plain"]
    assert schema.columns[4].metadata == 3  # MariaDB's old DATETIME(3): the log does not tell
    assert schema.primary_key == (2, 0)
    assert schema.index_of("B") == 2
    assert schema.index_of("none") is None


def test_equal_and_hashable_and_pickles():
    one, two = resolved((spec(T.LONG),)), resolved((spec(T.LONG),))
    assert one == two
    assert len({one, two, pickle.loads(pickle.dumps(one))}) == 1


@each_case(
    ("column", "declared", "fits"),
    [
        (spec(T.LONG), "int", True),
        (spec(T.LONG), "INTEGER UNSIGNED", True),
        (spec(T.LONG), "bigint", False),
        (spec(T.LONGLONG), "bigint(20)", True),
        (spec(T.NEWDECIMAL, 10 << 8 | 2), "decimal(10,2)", True),
        (spec(T.NEWDECIMAL, 10 << 8 | 2), "decimal(10)", False),
        (spec(T.NEWDECIMAL, 10 << 8), "numeric", True),
        (spec(T.DATETIME2, 3), "datetime(3)", True),
        (spec(T.DATETIME2, 3), "datetime", False),
        (spec(T.DATETIME), "datetime(3)", True),
        (spec(T.BIT, 1), "bit", True),
        (spec(T.BIT, 9), "bit(8)", False),
        (spec(T.VARCHAR, 80), "varchar(20)", True),
        (spec(T.VARCHAR_COMPRESSED, 80), "varchar(20)", True),
        (spec(T.BLOB, 2), "varchar(20)", False),
        (spec(T.BLOB, 4), "json", True),
        (spec(T.JSON, 4), "json", True),
        (spec(T.VARCHAR, 12), "vector(3)", True),
        (spec(T.STRING, 16), "uuid", True),
        (spec(T.GEOMETRY, 4), "multipolygon", True),
        (spec(T.LONG), "no_such_type", False),
        (spec(T.LONG), "", True),
        (spec(T.LONG), "(?)", False),
    ],
)
def test_declared_type_fits_or_is_refused(column, declared, fits):
    given = definition(ColumnDefinition("c", declared))
    if fits:
        assert resolved((column,), given).columns[0].name == "c"
    else:
        with pytest.raises(SchemaError, match=r"shop\.orders\.c is .* the schema given"):
            resolved((column,), given)


@each_case(
    ("kind", "size", "count", "fits"),
    [
        (T.ENUM, 1, 255, True),
        (T.ENUM, 1, 256, False),
        (T.ENUM, 2, 256, True),
        (T.SET, 1, 8, True),
        (T.SET, 1, 9, False),
        (T.SET, 4, 32, True),
        (T.SET, 8, 33, True),
    ],
)
def test_members_fit_their_bytes(kind, size, count, fits):
    members = tuple(f"m{number}" for number in range(count))
    given = definition(ColumnDefinition("c", kind.name, members=members))
    if fits:
        assert resolved((spec(kind, size),), given).columns[0].members == members
    else:
        with pytest.raises(SchemaError, match="bytes"):
            resolved((spec(kind, size),), given)


def test_other_tables_are_refused():
    two = (spec(T.LONG), spec(T.LONG))
    with pytest.raises(SchemaError, match=r"2 columns in the log and 1 in the DDL"):
        resolved(two, definition(ColumnDefinition("a", "int")), "ddl")
    named = (spec(T.LONG, name="a"), spec(T.LONG, name="b"))
    given = definition(ColumnDefinition("a", "int"), ColumnDefinition("z", "int"))
    with pytest.raises(SchemaError, match="'b'"):
        resolved(named, given)
    with pytest.raises(SchemaError, match="primary key"):
        resolved(two, definition(ColumnDefinition("a"), ColumnDefinition("b"), key=("x",)))
    with pytest.raises(SchemaError, match="primary key"):
        resolved(two, key=(2,))
    with pytest.raises(SchemaError, match="not valid gbk"):
        resolved((spec(T.ENUM, 1, collation=28, members=(b"\xff",)),))
    with pytest.raises(SchemaError, match="collation 5000"):
        resolved((spec(T.VARCHAR, 9, collation=5000),)).columns[0].charset  # noqa: B018  # it raises


def test_collations_by_name():
    assert collation_id("utf8mb4_0900_ai_ci", Flavour.MYSQL) == 255
    assert collation_id("UTF8_general_ci", Flavour.MARIADB) == 33
    assert collation_id("utf8mb4_croatian_ci", Flavour.MYSQL) == 245
    assert collation_id("utf8mb4_croatian_ci", Flavour.MARIADB) == 608
    assert collation_id("utf8mb4_uca1400_ai_ci", Flavour.MYSQL) is None
    uca = collation_id("utf8mb4_uca1400_ai_ci", Flavour.MARIADB)
    assert uca is not None
    assert charset_of(uca) == "utf8mb4"
    assert default_collation("latin1", Flavour.MYSQL) == 8
    assert default_collation("utf8", Flavour.MYSQL) == 33
    assert default_collation("klingon", Flavour.MYSQL) is None
