"""Rows of the recorded logs and of a server, applied to SQLite and to a real PostgreSQL."""

import datetime as dt
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa

import tailrace
from tailrace.applier import target_of
from tailrace.errors import ConnectionLost, SchemaError, ServerError, StatementChange, UsageError

LOGS = {"mysql": "shop.products", "mariadb": "warehouse.stock"}
"""The examples' logs, and the table of each that an ALTER TABLE changes."""


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
        return f"{Decimal(value).normalize():f}"
    if isinstance(value, str):
        try:
            return f"{Decimal(value).normalize():f}"
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


@contextmanager
def connected(url):
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def rows_of(url, name):
    """The rows of a table or view ``DATABASE.NAME`` by the names of their columns."""
    with connected(url) as connection:
        quoted = f'"{name}"' if connection.dialect.name == "sqlite" else name
        return connection.execute(sa.text(f"SELECT * FROM {quoted}")).mappings().all()


def held(url):
    with connected(url) as connection:
        inspector = sa.inspect(connection)
        if connection.dialect.name == "sqlite":
            names = inspector.get_table_names()
        else:
            names = [
                f"{schema}.{name}"
                for schema in inspector.get_schema_names()
                if schema not in {"public", "information_schema"}
                for name in inspector.get_table_names(schema)
            ]
    return {
        name: sorted((tuple(map(same, row.values())) for row in rows_of(url, name)), key=str)
        for name in names
        if name not in {"tailrace.applied", "tailrace.applied_definitions"}
    }


def rejections(log, url):
    """The errors for the definitions of a log that are rejected: each names where to continue."""
    start, found = None, []
    while True:
        try:
            tailrace.apply(log, url, start=start)
        except SchemaError as error:
            found.append(str(error))
            start = re.search(r"--start (\S+)\)", str(error))[1]
        else:
            return found


def test_all_before_a_definition_that_is_rejected_is_applied_and_the_rest_after_it(url, logged):
    """Also what waited to be applied when it was rejected; the error has the position after it."""
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, n INT)",
        *(f"INSERT INTO d.t VALUES ({number}, 1)" for number in range(200)),
        "SET SESSION sql_mode = ''",
        "ALTER TABLE d.t MODIFY n ENUM('1', 'x', 'y')",
        "SET SESSION sql_mode = DEFAULT",
        "INSERT INTO d.t VALUES (200, 'x'), (201, 'y')",
    )
    with pytest.raises(SchemaError, match="MODIFY n") as rejected:
        tailrace.apply(log, url)
    assert len(held(url)["d.t"]) == 200
    execute(
        url,
        "CREATE TABLE d.changed AS SELECT id, CAST(n AS TEXT) AS n FROM d.t",
        "DROP TABLE d.t",
        "CREATE TABLE d.t AS SELECT * FROM d.changed",
        "DROP TABLE d.changed",
    )
    start = re.search(r"--start (\S+)\)", str(rejected.value))[1]
    assert tailrace.apply(log, url, start=start).transactions == 1
    assert len(held(url)["d.t"]) == 202


CLASHES = {
    "Orders": ["CREATE TABLE d.Orders (id INT)", "CREATE TABLE d.orders (id INT)"],
    "x.y": [
        "CREATE TABLE d.`x.y` (id INT)",
        "CREATE DATABASE IF NOT EXISTS `d.x`",
        "CREATE TABLE `d.x`.y (id INT)",
    ],
}


@pytest.mark.parametrize("clash", CLASHES)
def test_names_that_are_one_in_sqlite_are_rejected(logged, tmp_path, clash):
    """It takes capital letters for small ones, and tables are called DATABASE.TABLE."""
    other = "d.orders" if clash == "Orders" else "`d.x`.y"
    log = logged(
        "DROP DATABASE IF EXISTS `d.x`",
        *CLASHES[clash],
        f"INSERT INTO d.`{clash}` VALUES (1)",
        f"INSERT INTO {other} VALUES (2)",
    )
    url = f"sqlite:///{tmp_path / 'applied.db'}"
    with pytest.raises(SchemaError, match="--exclude"):
        tailrace.apply(log, url)
    assert held(url) == {f"d.{clash}": [("1",)]}
    tailrace.apply(log, url, exclude=other.replace("`", ""))


def test_a_name_that_is_too_long_for_postgresql_is_an_error(logged, request):
    """It has 63 bytes, MySQL 64 characters."""
    url = request.getfixturevalue("postgres").url
    name = "a" * 64
    log = logged(f"CREATE TABLE d.{name} (id INT)", f"INSERT INTO d.{name} VALUES (1)")
    with pytest.raises(ServerError, match=name):
        tailrace.apply(log, url, channel="long names")


def log_of(server, tmp_path, statements):
    """The log of some statements on a server, without what came before."""
    server.execute("DROP DATABASE IF EXISTS d")
    server.rotate()
    for sql in ("CREATE DATABASE d", *statements):
        server.execute(sql)
    file = tmp_path / f"{len(list(tmp_path.iterdir()))}.000001"
    file.write_bytes(server.rotate().read_bytes())
    server.execute("DROP DATABASE d")
    return str(file)


@pytest.fixture
def logged(mysql97, tmp_path):
    """The log of some statements on MySQL."""
    return lambda *statements: log_of(mysql97, tmp_path, statements)


@pytest.fixture
def logged_by_mariadb(mariadb118, tmp_path):
    return lambda *statements: log_of(mariadb118, tmp_path, statements)


def execute(url, *statements):
    """Statements on a target; ``{d}`` is what the tables of ``d`` are called before their names."""
    with connected(url) as connection:
        sqlite = connection.dialect.name == "sqlite"
        if not sqlite:
            connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS d"))
        for sql in statements:
            text = re.sub(r"\bd\.(\w+)", r'"d.\1"' if sqlite else r"d.\1", sql)
            connection.execute(sa.text(text))


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


CHECKED = "CREATE TABLE d.t (id INT PRIMARY KEY, u INT UNIQUE, a INT CHECK (a < 10))"


def test_a_violation_that_is_no_conflict_is_an_error_and_nothing_of_it_stays(url, logged):
    """A CHECK of the target: the rows of its transaction that came before are not applied."""
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, u INT, a INT)",
        "INSERT INTO d.t VALUES (1, 1, 1)",
        "BEGIN",
        "INSERT INTO d.t VALUES (2, 2, 2)",
        "INSERT INTO d.t VALUES (3, 3, 30)",
        "COMMIT",
        "INSERT INTO d.t VALUES (4, 4, 4)",
    )
    execute(url, CHECKED)
    for conflicts in ("stop", "skip", "overwrite"):
        with pytest.raises(ServerError, match=r"(?i)check") as error:
            tailrace.apply(log, url, conflicts=conflicts)
        assert "--conflicts" not in str(error.value)
        assert held(url)["d.t"] == [("1", "1", "1")], conflicts


def test_overwrite_puts_a_row_in_place_of_all_that_have_one_of_its_keys(url, logged):
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, u INT, a INT)",
        "INSERT INTO d.t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)",
        "UPDATE d.t SET u = 20 WHERE id = 2",
        "UPDATE d.t SET id = 30 WHERE id = 3",
        "DELETE FROM d.t WHERE id = 1",
        "INSERT INTO d.t VALUES (1, 50, 5)",
    )
    execute(
        url,
        CHECKED,
        "INSERT INTO d.t VALUES (7, 1, 7), (8, 20, 8), (30, 9, 9), (2, 99, 0), (6, 50, 6)",
    )
    with pytest.raises(ServerError, match="--conflicts"):
        tailrace.apply(log, url)
    tailrace.apply(log, url, conflicts="overwrite")
    assert held(url)["d.t"] == [("1", "50", "5"), ("2", "20", "2"), ("30", "3", "3")]


def test_skip_leaves_the_row_that_has_the_key_and_takes_the_others(url, logged):
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, u INT, a INT)",
        "INSERT INTO d.t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)",
        "UPDATE d.t SET u = 9 WHERE id IN (1, 3) ORDER BY id LIMIT 1",
    )
    execute(url, CHECKED, "INSERT INTO d.t VALUES (7, 2, 7), (8, 9, 8)")
    tailrace.apply(log, url, conflicts="skip")
    rows = [("1", "1", "1"), ("3", "3", "3"), ("7", "2", "7"), ("8", "9", "8")]
    assert held(url)["d.t"] == rows


def test_partial_json_is_applied_to_the_document_of_the_target(url, logged):
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, j JSON)",
        """INSERT INTO d.t VALUES (1, '{"a": 1, "b": "long enough", "c": [1.5, null]}')""",
        "SET SESSION binlog_row_image = 'MINIMAL', binlog_row_value_options = 'PARTIAL_JSON'",
        "UPDATE d.t SET j = JSON_SET(j, '$.a', 5)",
        "UPDATE d.t SET j = JSON_REMOVE(j, '$.c[0]')",
        "SET SESSION binlog_row_image = 'FULL', binlog_row_value_options = ''",
    )
    tailrace.apply(log, url)
    assert held(url)["d.t"] == [("1", '{"a": 5, "b": "long enough", "c": [null]}')]
    with tailrace.rows(log) as rows:
        inserted = next(rows).position
    for gone in ("UPDATE d.t SET j = '[]'", "DELETE FROM d.t"):
        execute(url, gone)
        with pytest.raises(ServerError, match=r"the row to update is not in d\.t.* that ends at"):
            tailrace.apply(log, url, channel="again", start=inserted)
        with pytest.raises(SchemaError, match="lacks the values of j"):
            tailrace.apply(log, url, channel="again", start=inserted, conflicts="overwrite")


def test_a_row_image_that_lacks_columns_cannot_be_inserted(url, logged):
    """Their defaults are not in the log. Updates and deletes need only what they change."""
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, n INT DEFAULT 5, a VARCHAR(9))",
        "INSERT INTO d.t VALUES (1, 1, 'a'), (2, 2, 'b')",
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE d.t SET a = 'changed' WHERE id = 1",
        "DELETE FROM d.t WHERE id = 2",
        "INSERT INTO d.t (id, a) VALUES (3, 'c')",
        "SET SESSION binlog_row_image = 'FULL'",
    )
    with pytest.raises(SchemaError, match=r"image lacks the values of n, .* that ends at"):
        tailrace.apply(log, url)
    assert held(url)["d.t"] == [("1", "1", "changed")]


def test_partitions_that_take_their_rows_with_them_are_rejected_by_their_text(url, logged):
    parts = "PARTITION BY LIST (id) (PARTITION p VALUES IN (1), PARTITION q VALUES IN (2))"
    clauses = "EXCHANGE PARTITION p WITH TABLE d.o", "TRUNCATE PARTITION p", "DROP PARTITION p"
    log = logged(
        f"CREATE TABLE d.t (id INT PRIMARY KEY) {parts}",
        "CREATE TABLE d.o (id INT PRIMARY KEY)",
        "INSERT INTO d.t VALUES (1), (2)",
        "ALTER TABLE d.t REBUILD PARTITION p",
        *(f"ALTER TABLE d.t {clause}" for clause in clauses),
    )
    for error, clause in zip(rejections(log, url), clauses, strict=True):
        assert clause in error


def test_a_vector_is_a_text_of_its_numbers(url, logged):
    log = logged(
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VECTOR(3))",
        "INSERT INTO d.t VALUES (1, TO_VECTOR('[1, 2.5, -0.1]')), (2, NULL)",
    )
    tailrace.apply(log, url)
    assert held(url)["d.t"] == [("1", "[1.0, 2.5, -0.1]"), ("2", None)]


GENERATED = (
    "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, s INT AS (n + 1) STORED, v INT AS (n + 2))",
    "INSERT INTO d.t (id, n) VALUES (1, 10), (2, 20), (3, 30)",
    "UPDATE d.t SET n = 11 WHERE id = 1",
    "DELETE FROM d.t WHERE id = 2",
)
COMPUTED = (
    "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, s INT GENERATED ALWAYS AS (n + 1) STORED,"
    " v INT GENERATED ALWAYS AS (n + 2) STORED)"
)


def test_generated_columns(url, logged, logged_by_mariadb):
    """Those of MySQL are columns; MariaDB's log does not have them in updates: they are left out.
    Columns that the target generates are not written.
    """
    plain, computed = [("1", "11"), ("3", "30")], [("1", "11", "12", "13"), ("3", "30", "31", "32")]
    for log, left in ((logged(*GENERATED), computed), (logged_by_mariadb(*GENERATED), plain)):
        for definition, wanted in ((None, left), (COMPUTED, computed)):
            if definition is not None:
                execute(url, definition)
            tailrace.apply(log, url, channel=f"{Path(log).name} {definition is None}")
            assert held(url)["d.t"] == wanted
            execute(url, "DROP TABLE d.t")


PLAIN = "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, s INT, v INT)"
INSERTED = [("1", "10", "11", "12"), ("2", "20", "21", "22"), ("3", "30", "31", "32")]


def test_a_plain_column_for_a_generated_one(url, logged_by_mariadb, mariadb1011, tmp_path):
    """MariaDB 11.8 logs its values in inserts only. Its own replica keeps the old value in updates;
    the applier stops.
    """
    execute(url, PLAIN)
    log = logged_by_mariadb(*GENERATED)
    for _ in "stopped", "resumed":
        with pytest.raises(SchemaError, match="lacks the values of s, v, which MariaDB generates"):
            tailrace.apply(log, url)
        assert held(url)["d.t"] == INSERTED
    execute(url, "ALTER TABLE d.t DROP COLUMN s", "ALTER TABLE d.t DROP COLUMN v")
    tailrace.apply(log, url)
    assert held(url)["d.t"] == [("1", "11"), ("3", "30")]
    execute(url, "DROP TABLE d.t", PLAIN)
    tailrace.apply(log_of(mariadb1011, tmp_path, GENERATED), url, channel="10.11")
    assert held(url)["d.t"] == [("1", "11", "12", "13"), ("3", "30", "31", "32")]


def test_a_column_that_mariadb_may_generate(url, mariadb118, tmp_path):
    """Its CREATE TABLE is not in the log: the update is applied once the schema is given."""
    create, *changes = GENERATED
    unlogged = ("SET SESSION sql_log_bin = 0", create, "SET SESSION sql_log_bin = 1")
    metadata = mariadb118.query("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    mariadb118.execute("SET GLOBAL binlog_row_metadata = FULL")
    try:
        log = log_of(mariadb118, tmp_path, (*unlogged, *changes))
    finally:
        mariadb118.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    for _ in "stopped", "resumed":
        with pytest.raises(SchemaError, match="lacks the values of s, v, which MariaDB may gen"):
            tailrace.apply(log, url)
        assert held(url)["d.t"] == INSERTED
    schema = tmp_path / "schema.sql"
    schema.write_text(f"{create};")
    with pytest.raises(SchemaError, match="lacks the values of s, v, which MariaDB generates"):
        tailrace.apply(log, url, schema=schema)
    execute(url, "ALTER TABLE d.t DROP COLUMN s", "ALTER TABLE d.t DROP COLUMN v")
    tailrace.apply(log, url, schema=schema)
    assert held(url)["d.t"] == [("1", "11"), ("3", "30")]


def test_foreign_keys_of_the_target_do_what_mariadb_does_not_log(url, logged_by_mariadb):
    children = "id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE"
    log = logged_by_mariadb(
        "CREATE TABLE d.p (id INT PRIMARY KEY) ENGINE=InnoDB",
        f"CREATE TABLE d.c ({children}) ENGINE=InnoDB",
        "INSERT INTO d.p VALUES (1), (2)",
        "INSERT INTO d.c VALUES (1, 1), (2, 2)",
        "DELETE FROM d.p WHERE id = 1",
    )
    execute(url, "CREATE TABLE d.p (id INT PRIMARY KEY)", f"CREATE TABLE d.c ({children})")
    tailrace.apply(log, url)
    assert held(url) == {"d.p": [("2",)], "d.c": [("2", "2")]}


def test_a_channel_has_one_applier_at_a_time_and_channels_are_told_apart(url, monkeypatch):
    """By their whole names; a killed process has none."""
    monkeypatch.setattr("tailrace.applier.database.LOCK_SECONDS", 1)
    with (
        target_of(url, channel="replica-1", conflicts="stop"),
        target_of(url, channel="replica-2", conflicts="stop"),
        pytest.raises(UsageError, match="another applier has the channel 'replica-1'"),
    ):
        target_of(url, channel="replica-1", conflicts="stop")
    target_of(url, channel="replica-1", conflicts="stop").close()


def test_names_that_are_none():
    for given, error in (
        ({"table": "applied"}, "the table of positions is DATABASE.NAME, and not 'applied'"),
        ({"table": "tailrace."}, "the table of positions is DATABASE.NAME"),
        ({"channel": ""}, "a channel has a name of 1 to 40 characters"),
        ({"channel": "x\U0001d4b3"}, "no characters after U.FFFF"),  # error 3057 of MySQL
        ({"to": "mysql+pymysql://root@127.0.0.1:1/d"}, "and not to mysql"),
    ):
        with pytest.raises(UsageError, match=error):
            target_of(**{"to": "sqlite://", "conflicts": "stop"} | given)


@pytest.mark.slow
def test_apply_reads_a_log_with_a_wrong_checksum_if_it_is_told_to(tmp_path, capsys):
    with tailrace.open("examples/shop/mysql") as events:
        event = next(each for each in events if each.name == "GTID")
    data = bytearray(Path("examples/shop/mysql", event.file).read_bytes())
    data[event.offset + event.header.length - 1] ^= 1
    log = tmp_path / "binlog.000001"
    log.write_bytes(data)
    line = [sys.executable, "-m", "tailrace", "apply", log, "--exclude", LOGS["mysql"]]
    line += ["--to", f"sqlite:///{tmp_path / 'applied.db'}"]
    failed = subprocess.run(line, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert "applying to sqlite\n" in failed.stderr
    assert "checksum" in failed.stderr
    done = subprocess.run([*line, "--skip-checksums"], capture_output=True, text=True, check=True)
    assert "transactions applied" in done.stdout


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_connection_that_ends_in_a_commit_ends_the_applier(url, tmp_path):
    """It does not know what was committed, and another one may have its channel."""
    source = "896e7882-18fe-11ef-ab88-22222d34d411"
    table = tailrace.Table("d.t", "id INT")
    log = tailrace.create(tmp_path / "log.000001", flavour="mysql", server_id=1, server_uuid=source)
    with log:
        for number in range(3):
            with log.transaction(f"{source}:{number + 1}") as transaction:
                transaction.insert(table, [(number,)])
    tailrace.apply(tmp_path, url, until=f"{source}:1")
    with connected(url) as connection:
        for statement in (
            "CREATE SEQUENCE d.calls",
            (
                "CREATE FUNCTION d.ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF nextval('d.calls') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid());"
                " END IF; RETURN NULL; END $$"
            ),
            (
                "CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON d.t DEFERRABLE INITIALLY DEFERRED"
                " FOR EACH ROW EXECUTE FUNCTION d.ends()"
            ),
        ):
            connection.execute(sa.text(statement))
    with pytest.raises(ConnectionLost):
        tailrace.apply(tmp_path, url)
    assert tailrace.apply(tmp_path, url).transactions == 2
    assert held(url)["d.t"] == [("0",), ("1",), ("2",)]


def test_the_gtids_that_were_applied_are_one_line(url, tmp_path):
    sources = ("896e7882-18fe-11ef-ab88-22222d34d411", "996e7882-18fe-11ef-ab88-22222d34d411")
    table = tailrace.Table("d.t", "id INT PRIMARY KEY")
    new = {"flavour": "mysql", "server_id": 1, "server_uuid": sources[0]}
    with tailrace.create(tmp_path / "log.000001", **new) as log:
        for number, source in enumerate(sources):
            with log.transaction(f"{source}:1") as transaction:
                transaction.insert(table, [(number,)])
    done = tailrace.apply(tmp_path, url)
    assert done.gtids == f"{sources[0]}:1,{sources[1]}:1"


def test_a_table_that_is_replaced_loses_its_rows(url, logged_by_mariadb):
    """CREATE OR REPLACE is DROP and CREATE."""
    columns = "(id INT PRIMARY KEY, zz VARCHAR(3))"
    replaced = (
        ("CREATE OR REPLACE DATABASE d", f"CREATE TABLE d.t0 {columns}"),
        (f"CREATE OR REPLACE TABLE d.t1 {columns}",),
        ("CREATE OR REPLACE TABLE d.t2 LIKE d.other",),
        (
            "CREATE OR REPLACE TABLE d.t3 (PRIMARY KEY (id)) SELECT id, zz FROM d.other WHERE id > 9",
        ),
    )
    log = logged_by_mariadb(
        *(
            sql
            for number, definitions in enumerate(replaced)
            for sql in (
                f"CREATE TABLE d.t{number} (id INT PRIMARY KEY, a INT)",
                f"INSERT INTO d.t{number} VALUES (1, 1), (2, 2)",
                f"CREATE OR REPLACE TABLE d.other {columns}",
                *definitions,
                f"INSERT INTO d.t{number} VALUES (3, 'zz')",
            )
        )
    )
    tailrace.apply(log, url)
    assert held(url) == {f"d.t{number}": [("3", "zz")] for number in range(4)}


def test_a_column_whose_name_changes_its_case_only(url, logged):
    log = logged(
        *(
            sql
            for number, clause in enumerate(
                ("CHANGE id Id INT", "RENAME COLUMN id TO Id", "MODIFY Id INT")
            )
            for sql in (
                f"CREATE TABLE d.t{number} (id INT PRIMARY KEY, a INT)",
                f"INSERT INTO d.t{number} VALUES (1, 1), (2, 2)",
                f"ALTER TABLE d.t{number} {clause}",
                f"UPDATE d.t{number} SET a = 5 WHERE id = 2",
                f"INSERT INTO d.t{number} VALUES (3, 3)",
                f"ALTER TABLE d.t{number} CHANGE ID ID INT",
                f"UPDATE d.t{number} SET a = 6 WHERE id = 3",
            )
        )
    )
    tailrace.apply(log, url)
    wanted = [("1", "1"), ("2", "5"), ("3", "6")]
    assert held(url) == {f"d.t{number}": wanted for number in range(3)}


def test_where_a_call_starts_is_noted_though_nothing_was_applied(url, logged):
    """The next call continues there, and not at the oldest log."""
    log = logged("CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    end = tailrace.apply(log, url, channel="other").position
    execute(url, "DELETE FROM d.t")
    assert tailrace.apply(log, url, start=str(end)).transactions == 0
    assert tailrace.apply(log, url).transactions == 0
    assert held(url)["d.t"] == []


def test_definitions_of_the_table_of_positions_are_not_for_the_target(url, logged):
    """As its rows: a source that was a target, too, may drop its own."""
    log = logged(
        "CREATE DATABASE IF NOT EXISTS tailrace",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
        "CREATE TABLE tailrace.applied (id INT PRIMARY KEY)",
        "INSERT INTO tailrace.applied VALUES (1)",
        "INSERT INTO d.t VALUES (1)",
        "DROP TABLE tailrace.applied",
        "DROP DATABASE tailrace",
        "INSERT INTO d.t VALUES (2)",
    )
    done = tailrace.apply(log, url)
    assert held(url)["d.t"] == [("1",), ("2",)]
    again = tailrace.apply(log, url, start=f"{done.position.file[:-1]}1")
    assert (again.transactions, again.skipped) == (0, done.transactions)
