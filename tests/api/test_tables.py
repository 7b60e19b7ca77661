"""`tailrace.Table` by its qualified name; rows as sequences; the signature of `receive`."""

import inspect
import pickle

import pytest

import tailrace
from tailrace import Table
from tailrace.constants import Flavour
from tailrace.errors import SchemaError, UsageError
from tailrace.replication.receiver import Receiver
from tailrace.schema.tokens import quoted_name
from tests.cases import each_case
from tests.recorded import SHOP

SQL = "create table shop.orders (id int primary key, note varchar(9) character set utf8mb4)"


@each_case("flavour", ["mysql", "MySQL", "MARIADB", Flavour.MARIADB])
def test_a_table_by_its_name(flavour):
    columns = {"id": "INT PRIMARY KEY", "note": "VARCHAR(9) CHARACTER SET utf8mb4"}
    table = Table("shop.orders", columns, flavour=flavour)
    assert table == Table.parse(SQL, flavour=flavour) == pickle.loads(pickle.dumps(table))
    assert hash(table) == hash(Table.parse(SQL, flavour=flavour))
    text = "id int, note varchar(9) character set utf8mb4, primary key (id)"
    assert Table("shop.orders", text, flavour=flavour) == table
    assert Table("shop.odd`name", "id int").name == "odd`name"
    for odd in ("`x", "x`", "a``b", "`", "a`"):  # a name in backticks has its own doubled
        assert Table(f"shop.{quoted_name(odd)}", {quoted_name(odd): "int"}).name == odd
        if not odd.startswith("`"):
            assert [c.name for c in Table("shop.t", {odd: "int"}).schema.columns] == [odd]


def test_one_table_whose_name_has_a_wildcard(tmp_path):
    """A pattern that matches one name only is one table, as it is for Spark's source."""
    table = Table("shop.a*b", "id INT PRIMARY KEY")
    with (
        tailrace.create(tmp_path / "binlog.000001", flavour="mysql", server_id=1) as log,
        log.transaction() as transaction,
    ):
        transaction.insert(table, [(1,), (2,)])
    assert tailrace.table(tmp_path, "shop.a[*]b").num_rows == 2
    with pytest.raises(UsageError, match="one table"):
        tailrace.table(tmp_path, "shop.a*b")
    with pytest.raises(UsageError, match=r"no table fits shop\.a\[\*\]c"):
        tailrace.table(tmp_path, "shop.a[*]c")


@each_case("flavour", ["MySQL", "MariaDB"])
def test_a_log_of_a_flavour_in_any_case(flavour, tmp_path):
    with tailrace.create(tmp_path / "binlog.000001", flavour=flavour, server_id=1) as log:
        assert log.flavour is Flavour(flavour.lower())


@each_case(
    ("arguments", "kind", "message"),
    [
        (("orders", "id int"), UsageError, r"a name such as 'shop\.orders', and not 'orders'"),
        ((None, "id int"), UsageError, r"a name such as 'shop\.orders', and not None"),
        (("shop.orders", ["id"]), UsageError, "a mapping of names to their types, and not"),
        (("shop.orders", "id int, ID bigint"), SchemaError, r"shop\.orders: there are two columns"),
        (("shop.orders", "select 1"), SchemaError, "is not understood|one CREATE TABLE"),
    ],
)
def test_what_is_no_table(arguments, kind, message):
    with pytest.raises(kind, match=message):
        Table(*arguments)


def test_a_definition_is_needed():
    with pytest.raises(UsageError, match=r"Table\.of takes a TableDefinition, and not None"):
        Table.of(None)
    with pytest.raises(UsageError, match="flavour: mysql or mariadb, and not 'oracle'"):
        Table.parse(SQL, flavour="oracle")
    with pytest.raises(SchemaError, match="there are two columns 'a'"):
        Table.parse("create table shop.t (a int, b int, a int)")


def test_a_row_is_a_sequence():
    row = next(tailrace.rows(SHOP / "mysql", tables="shop.orders")).row
    assert row.index(row[2]) == 2
    assert row.index(row["status"]) == 2
    for number in (99, -99):
        with pytest.raises(
            IndexError, match=rf"shop\.orders has 7 columns, and none number {number}"
        ):
            row[number]
    with pytest.raises(ValueError, match="not in tuple"):
        row.index("nothing")


def test_receive_lists_its_options():
    """They are those of the class that it runs, but for ``full``, which a mirror's spool needs."""
    own, of_class = inspect.signature(tailrace.receive), inspect.signature(Receiver)
    named = {name: each for name, each in of_class.parameters.items() if name != "full"}
    assert own.parameters == named
