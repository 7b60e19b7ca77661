"""Rows of the recorded logs and of a server, applied to SQLite and to a real PostgreSQL."""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from decimal import Decimal

import pytest
import sqlalchemy as sa

import tailrace
from tailrace.errors import SchemaError, ServerError, StatementChange
from tools.postgres import Postgres, programs

LOGS = {"mysql": "shop.products", "mariadb": "warehouse.stock"}
"""The examples' logs, and the table of each that an ALTER TABLE changes."""


@pytest.fixture(scope="module")
def postgres():
    if programs() is None:
        pytest.skip("needs PostgreSQL: this machine has none (apt-get install postgresql)")
    with Postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'applied.db'}"
    made = request.getfixturevalue("postgres")
    engine = sa.create_engine(made.url)
    with engine.begin() as connection:
        for schema in ("tailrace", "shop", "warehouse", "d"):
            connection.execute(sa.text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))
    engine.dispose()
    return made.url


def same(value):
    """A value as text, whatever Python class a driver gives it."""
    if isinstance(value, float):
        return f"{value:.5e}"
    if isinstance(value, dt.timedelta):
        value = dt.datetime(1, 1, 1, tzinfo=dt.UTC) + value
        return value.strftime("%H:%M:%S.%f").rstrip("0").rstrip(".")
    if isinstance(value, dt.datetime):
        value = value.astimezone(dt.UTC) if value.tzinfo else value
        return value.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
    if isinstance(value, dt.date):
        return str(value)
    if isinstance(value, (int, Decimal)):
        return str(Decimal(value).normalize())
    if isinstance(value, str):
        try:
            return str(Decimal(value).normalize())
        except ArithmeticError:
            return value if "." not in value or ":" not in value else value.rstrip("0").rstrip(".")
    return None if value is None else bytes(value)


KEYS = {"shop.order_items": ("order_id", "line"), "shop.payments": ("order_id",)}
"""Of tables whose key is not their first column."""


def expected(source, exclude):
    """The rows that a log leaves, by table, from its rows."""
    tables = defaultdict(dict)
    with tailrace.rows(source, exclude=exclude) as rows:
        for row in rows:
            name = f"{row.database}.{row.table}"
            for image in (row.before, row.after):
                if image is not None:
                    key = tuple(str(image[part]) for part in KEYS.get(name, [next(iter(image))]))
                    tables[name].pop(key, None)
            if row.after is not None:
                tables[name][key] = tuple(same(plain(value)) for value in row.after.values())
    return {name: sorted(rows.values(), key=str) for name, rows in tables.items()}


def plain(value):
    return value if value is None or isinstance(value, (int, float, bytes, Decimal)) else str(value)


def held(url):
    engine = sa.create_engine(url)
    found = {}
    with engine.connect() as connection:
        inspector = sa.inspect(connection)
        if engine.dialect.name == "sqlite":
            names = {name: f'"{name}"' for name in inspector.get_table_names()}
        else:
            names = {
                f"{schema}.{name}": f"{schema}.{name}"
                for schema in inspector.get_schema_names()
                if schema not in {"public", "information_schema"}
                for name in inspector.get_table_names(schema)
            }
        for name, quoted in names.items():
            rows = connection.execute(sa.text(f"SELECT * FROM {quoted}")).all()
            found[name] = sorted((tuple(map(same, row)) for row in rows), key=str)
    engine.dispose()
    found.pop("tailrace.applied")
    return found


@pytest.mark.parametrize("flavour", LOGS)
def test_the_rows_are_those_of_the_source_and_applied_once(url, flavour):
    source, exclude = f"examples/shop/{flavour}", LOGS[flavour]
    done = tailrace.apply(source, url, exclude=exclude)
    assert done.transactions > 100
    wanted = {name: rows for name, rows in expected(source, exclude).items() if rows}
    assert {name: rows for name, rows in held(url).items() if rows} == wanted
    again = tailrace.apply(source, url, exclude=exclude, start=f"{done.position.file[:-1]}1")
    assert (again.transactions, again.skipped) == (0, done.transactions)


def test_a_definition_that_rows_do_not_show_is_rejected_by_its_text(url):
    with pytest.raises(SchemaError, match=r"ALTER TABLE warehouse\.stock ADD COLUMN locked"):
        tailrace.apply("examples/shop/mariadb", url)
    assert held(url)["warehouse.suppliers"]


def test_all_before_a_definition_that_is_rejected_is_applied_and_the_rest_after_it(url, logged):
    """Also what waited to be applied when it was rejected; the error has the position after it."""
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, n INT)",
        *(f"INSERT INTO d.t VALUES ({number}, 1)" for number in range(200)),
        "ALTER TABLE d.t MODIFY n VARCHAR(20)",
        "INSERT INTO d.t VALUES (200, 'x'), (201, 'y')",
    )
    with pytest.raises(SchemaError, match="MODIFY n") as rejected:
        tailrace.apply(log, url)
    assert len(held(url)["d.t"]) == 200
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        name = '"d.t"' if engine.dialect.name == "sqlite" else "d.t"
        connection.execute(sa.text(f"ALTER TABLE {name} RENAME TO changed"))
        to = {"sqlite": f"{name} AS SELECT id, n", "postgresql": f"{name} AS SELECT id, n::text"}
        of = {"sqlite": "changed", "postgresql": "d.changed"}
        dialect = engine.dialect.name
        connection.execute(sa.text(f"CREATE TABLE {to[dialect]} FROM {of[dialect]}"))
        connection.execute(sa.text(f"DROP TABLE {of[dialect]}"))
    engine.dispose()
    start = re.search(r"--start (\S+)\)", str(rejected.value))[1]
    assert tailrace.apply(log, url, start=start).transactions == 1
    assert len(held(url)["d.t"]) == 202


@pytest.fixture
def logged(mysql97, tmp_path):
    """The log of some statements on a server, without what came before."""

    def made(*statements):
        mysql97.execute("DROP DATABASE IF EXISTS d")
        mysql97.rotate()
        for sql in ("CREATE DATABASE d", *statements):
            mysql97.execute(sql)
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.000001"
        file.write_bytes(mysql97.rotate().read_bytes())
        mysql97.execute("DROP DATABASE d")
        return str(file)

    yield made
    mysql97.disconnect()


def test_definitions_are_followed_and_a_table_without_key_has_its_rows_one_by_one(url, logged):
    log = logged(
        "CREATE TABLE d.a (n INT, t VARCHAR(20))",
        "INSERT INTO d.a VALUES (1, 'same'), (1, 'same'), (2, NULL)",
        "ALTER TABLE d.a ADD COLUMN more INT",
        "DELETE FROM d.a WHERE n = 1 LIMIT 1",
        "UPDATE d.a SET more = 7 WHERE n = 2",
        "CREATE TABLE d.gone (n INT)",
        "INSERT INTO d.gone VALUES (1)",
        "DROP TABLE d.gone",
        "CREATE TABLE d.short (n INT)",
        "INSERT INTO d.short VALUES (1)",
        "TRUNCATE d.short",
        "RENAME TABLE d.a TO d.b",
        "INSERT INTO d.b VALUES (3, 'new', 3)",
    )
    tailrace.apply(log, url)
    assert held(url) == {
        "d.b": [("1", "same", None), ("2", None, "7"), ("3", "new", "3")],
        "d.short": [],
    }


def test_conflicts_stop_skip_or_overwrite(url, logged):
    first = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, a TEXT)",
        "INSERT INTO d.t VALUES (1, 'one'), (2, 'other')",
    )
    second = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, a TEXT)",
        "INSERT INTO d.t VALUES (2, 'two'), (3, 'three'), (4, 'four')",
        "UPDATE d.t SET a = 'changed' WHERE id = 4",
        "DELETE FROM d.t WHERE id = 3",
    )
    tailrace.apply(first, url, channel="first")
    with pytest.raises(ServerError, match=r"--conflicts"):
        tailrace.apply(second, url, channel="second")
    tailrace.apply(second, url, channel="second", conflicts="skip")
    assert held(url)["d.t"] == [("1", "one"), ("2", "other"), ("4", "changed")]
    tailrace.apply(second, url, channel="third", conflicts="overwrite")
    assert held(url)["d.t"] == [("1", "one"), ("2", "two"), ("4", "changed")]


def test_a_change_that_was_logged_as_its_statement_is_rejected(url, logged):
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "SET SESSION binlog_format = 'STATEMENT'",
        "INSERT INTO d.t VALUES (1)",
        "SET SESSION binlog_format = 'ROW'",
    )
    with pytest.raises(StatementChange, match=r"INSERT INTO d\.t"):
        tailrace.apply(log, url)
