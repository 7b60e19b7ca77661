"""Names on servers with ``lower_case_table_names``."""

import pytest

import tailrace
from tailrace.constants import Flavour
from tailrace.errors import SchemaError, UsageError
from tailrace.schema.ddl import effects
from tailrace.schema.letter_case import lowered, lowers, lowers_names
from tailrace.schema.session import StatementSession
from tailrace.table_filter import TableFilter
from tests.cases import each_case


def test_every_letter_is_as_on_a_server(server):
    """The letters of names, by the collation of names."""
    expected = {}
    with server.connect() as session, session.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4")
        for first in range(0x20, 0x10000, 1 << 10):
            codes = [each for each in range(first, first + (1 << 10)) if each < 0x10000]
            codes = [each for each in codes if not 0xD800 <= each < 0xE000]
            if not codes:
                continue
            names = [f"_ucs2 x'{code:04x}'" for code in codes]
            cursor.execute(
                "SELECT "
                + ", ".join(
                    f"LOWER(CONVERT({name} USING utf8mb3) COLLATE utf8mb3_general_ci)"
                    for name in names
                )
            )
            expected |= dict(zip(map(chr, codes), cursor.fetchone(), strict=True))
    assert {each: lowered(each) for each in expected} == expected


def test_whole_names():
    assert lowered("ÄΟΔΟΣ İx Ω") == "äοδοσ ix ω"
    assert lowers("Orders")
    assert not lowers("orders_é表")


@each_case(
    "sql, names",
    [
        ("CREATE TABLE Shop.A (id INT)", ["shop.a"]),
        ("RENAME TABLE A TO Other.B, `C`.D TO E", ["shop.a", "other.b", "c.d", "shop.e"]),
        ("DROP TABLE A, SHOP.B", ["shop.a", "shop.b"]),
        ("TRUNCATE A", ["shop.a"]),
        ("CREATE TABLE A LIKE B", ["shop.a", "shop.b"]),
        ("DROP DATABASE ShoP", ["shop"]),
        ("CREATE DATABASE ShoP", ["shop"]),
    ],
)
@pytest.mark.parametrize("flavour", Flavour)
def test_the_names_of_statements(sql, names, flavour):
    found = []
    for effect in effects(sql, "Shop", StatementSession(flavour, lowers_names=True)):
        for part in ("name", "old", "new", "source", "database"):
            value = getattr(effect, part, None)
            if value is not None:
                found.append(value if isinstance(value, str) else ".".join(value.key))
    assert found == names


def test_the_table_that_a_foreign_key_refers_to():
    session = StatementSession(lowers_names=True)
    (effect,) = effects(
        "CREATE TABLE A (id INT, FOREIGN KEY (id) REFERENCES Other.P (ID))", "Shop", session
    )
    (key,) = effect.table.define("shop", "a", None, session).foreign_keys
    assert (key.database, key.table, key.referenced) == ("other", "p", ("ID",))


@each_case(
    "sql, lowers_names, clauses",
    [
        ("ALTER TABLE T RENAME TO shop.t", True, 0),
        ("ALTER TABLE t RENAME t, ADD a INT", False, 1),
        ("ALTER TABLE T RENAME TO t", False, 1),
    ],
)
def test_a_table_that_keeps_its_name(sql, lowers_names, clauses):
    (effect,) = effects(sql, "shop", StatementSession(lowers_names=lowers_names))
    assert len(effect.clauses) == clauses


def test_patterns():
    wants = TableFilter.of(["Shop.Ord*", "`A.B`.C"], "OLD*").lowered()
    assert wants("shop", "orders")
    assert wants("a.b", "c")
    assert not wants("shop", "old_orders")


@each_case("value", [3, -1, "1", True])
def test_what_is_no_value(value):
    with pytest.raises(UsageError, match="lower_case_table_names is 0, 1 or 2"):
        lowers_names(value)


BEFORE = (
    "CREATE DATABASE {database}",
    "CREATE TABLE {database}.Orders (id INT PRIMARY KEY, t TEXT)",
    "INSERT INTO {database}.Orders VALUES (1, 'a'), (2, 'b')",
)


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def lowering(request, fresh_server):
    """A server with ``lower_case_table_names=1`` and two logs: of a database whose statement shows
    that, and of one that does not.
    """
    option = {"lower_case_table_names": 1}
    server = fresh_server(
        request.param, {"binlog_row_metadata": "FULL", **option}, init_options=option
    )
    for database in ("Shown", "hidden"):
        for sql in BEFORE:
            server.execute(sql.format(database=database))
        server.connection.commit()
        server.rotate()
    return server


def counted(source, **options):
    rows = [*tailrace.rows(source, **options)]
    return {(row.database, row.table) for row in rows}, len(rows)


def test_a_log_that_shows_it(lowering):
    """By the name of the database in the event of its CREATE DATABASE."""
    assert counted(lowering.data / "binlog.000001") == ({("shown", "orders")}, 2)
    script = "\n".join(tailrace.redo(lowering.data / "binlog.000001", tables="shown.orders"))
    assert "CREATE TABLE Shown.Orders" in script


def test_a_log_that_leaves_it_open(lowering):
    """Rows of a table that statements name in another case are no other table's for certain."""
    log = lowering.data / "binlog.000002"
    for read in (tailrace.rows, tailrace.changes, tailrace.transactions):
        with pytest.raises(SchemaError, match=r"rows hidden.orders.*--lower-case-table-names"):
            [*read(log)]
    for value in (1, 2):  # no server on Linux takes 2
        assert counted(log, tables="Hidden.Orders", lower_case_table_names=value)[1] == 2
    script = "\n".join(tailrace.redo(log, tables="HIDDEN.ORDERS", lower_case_table_names=1))
    assert "CREATE TABLE hidden.Orders" in script
    assert "INSERT INTO `hidden`.`orders`" in script


def test_a_server_is_asked(lowering):
    url = f"mysql://root@127.0.0.1:{lowering.port}/"
    assert counted(url, tables="Hidden.Orders") == ({("hidden", "orders")}, 2)
    assert [*tailrace.stat(url, tables="Hidden.*").tables] == ["hidden.orders"]
