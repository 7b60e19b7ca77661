"""polars and DuckDB take `tailrace.table` and `tailrace.changes` as they are."""

import json
from decimal import Decimal

import duckdb
import polars as pl
import pytest

import tailrace
from tests.recorded import SHOP

LOGS = SHOP / "mysql"


@pytest.fixture(scope="module")
def orders():
    return tailrace.table(LOGS, "shop.orders")


@pytest.fixture(scope="module")
def selected():
    """What the recorded server's SELECT gave: orders and sums by status."""
    table = json.loads((SHOP / "expected.json").read_text(encoding="utf-8"))["mysql"]["tables"]
    found = table["shop.orders"]
    status, total = (found["columns"].index(name) for name in ("status", "total"))
    sums = {}
    for row in found["rows"]:
        number, amount = sums.get(row[status], (0, Decimal(0)))
        sums[row[status]] = number + 1, amount + Decimal(row[total])
    return sums


def test_polars(orders, selected):
    """The rows that are left, by status: the last change of each key."""
    changes = pl.DataFrame(orders)
    assert changes.shape == (orders.num_rows, orders.num_columns)
    key = pl.coalesce(pl.col(image).struct.field("id") for image in ("after", "before"))
    last = changes.sort("_seq").group_by(key.alias("id")).last()
    left = last.filter(pl.col("_op") != "delete").select(
        pl.col("after").struct.field("status").cast(pl.String),
        pl.col("after").struct.field("total"),
    )
    found = left.group_by("status").agg(pl.len(), pl.col("total").sum())
    assert {status: (number, total) for status, number, total in found.iter_rows()} == selected


def test_duckdb(orders, selected):
    """The same in SQL, which finds the variable `orders` by its name."""
    found = duckdb.sql(
        """
        WITH last AS (
            SELECT DISTINCT ON (coalesce(after.id, before.id)) _op, after.status, after.total
            FROM orders ORDER BY coalesce(after.id, before.id), _seq DESC
        )
        SELECT status, count(*), sum(total) FROM last WHERE _op <> 'delete' GROUP BY status
        """
    )
    assert {status: (number, total) for status, number, total in found.fetchall()} == selected


def test_a_stream_of_changes(orders):
    """`tailrace.changes` is read while it is decoded, by its Arrow stream."""
    changes = tailrace.changes(LOGS, tables="shop.orders")
    assert pl.DataFrame(changes).equals(pl.DataFrame(orders))
    changes = tailrace.changes(LOGS, tables="shop.orders")
    assert duckdb.sql("SELECT count(*) FROM changes").fetchall() == [(orders.num_rows,)]
