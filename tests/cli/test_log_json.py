"""`tailrace log --as json` beside what servers' SELECT gave, and beside the column path."""

import json

import pytest

import tailrace
from tailrace.columns import changes
from tailrace.storage import find
from tests.cases import each_case
from tests.cli.test_errors import one_error
from tests.recorded import folders, has
from tools.expected import load_expected
from tools.servers import ONE_OF_EACH

CASES = [
    folder
    for folder in folders()
    if folder.name.startswith(ONE_OF_EACH)  # what is printed does not go by the release
]
FIELDS = [
    *("_op", "_db", "_table", "_ts", "_gtid", "_file", "_pos", "_seq", "_server_id"),
    *("before", "after"),
]
PLAIN = (
    *("int", "bigint", "smallint", "tinyint", "mediumint", "varchar", "char", "date"),
    *("decimal", "enum", "text"),
)
BEYOND_ROWS = ("rows-by-ddl", "not-full", "generated")


def records(ran):
    return [json.loads(line) for line in ran.lines]


def replay(found):
    """The tables that change records leave behind: lists of rows, for tables without keys, too."""
    tables = {}
    for record in found:
        rows = tables.setdefault(f"{record['_db']}.{record['_table']}", [])
        before, after = record["before"], record["after"]
        if before is not None:
            index = next(
                number
                for number, row in enumerate(rows)
                if all(row.get(name) == value for name, value in before.items() if name in row)
            )
            if record["_op"] == "delete":
                del rows[index]
            else:
                rows[index] = {**rows[index], **after}
        else:
            rows.append(after)
    return tables


def shown(value):
    return None if value is None else str(value)


def assert_same_tables(found, expected):
    """Rows and values of plain types are SELECT's; the others' values are the rows room's tests."""
    for name, table in expected.items():
        rows = found.get(name, [])
        assert len(rows) == len(table["rows"]), name
        binary = table.get("binary", ())
        plain = [
            index
            for index, (column, kind) in enumerate(
                zip(table["columns"], table["types"], strict=True)
            )
            if kind.startswith(PLAIN) and "zerofill" not in kind and column not in binary
        ]
        columns = [table["columns"][index] for index in plain]
        select = sorted(tuple(map(str, (row[index] for index in plain))) for row in table["rows"])
        ours = sorted(tuple(str(shown(row.get(column))) for column in columns) for row in rows)
        assert ours == select, name


def test_the_shop(run, shop):
    expected = json.loads((shop / "expected.json").read_text())
    for flavour, told in expected.items():
        ran = run("log", shop / flavour, "--as", "json")
        assert ran.status == 0
        found = records(ran)
        assert list(found[0]) == FIELDS
        assert_same_tables(replay(found), told["tables"])


@pytest.mark.slow
@each_case("folder", CASES)
def test_the_corpus(run, folder):
    expected = load_expected(folder)
    if has(folder, "unreadable"):
        ran = run("log", folder, "--as", "json")
        assert ran.status == 2
        return
    ran = run("log", folder, "--as", "json", "--statements", "skip")
    assert ran.status == 0, ran.err
    found = records(ran)
    sequence = [int(record["_seq"]) for record in found]
    assert sequence == sorted(set(sequence))
    if expected.get("rows_complete") and not has(folder, *BEYOND_ROWS):
        assert_same_tables(replay(found), expected["tables"])
    if has(folder, "unknown-documents"):  # what changed (``_diff``), which Arrow has no place for
        assert any("_diff" in record for record in found)
    else:
        assert [place(record) for record in found] == column_path(folder)


def place(record):
    return tuple(record[name] for name in FIELDS[:-2])


def column_path(folder):
    """The same fields by the kernels."""
    found = []
    for series in find(folder):
        for batch in changes(series, statements="skip"):
            columns = [batch.column(name).to_pylist() for name in FIELDS[:-2]]
            for op, db, table, ts, gtid, file, pos, seq, server in zip(*columns, strict=True):
                microseconds = round(ts.timestamp() * 1_000_000) if hasattr(ts, "timestamp") else ts
                found.append((op, db, table, microseconds, gtid, file, pos, str(seq), server))
    return sorted(found, key=lambda record: int(record[7]))


def test_tables(run, shop):
    ran = run("log", shop / "mysql", "--as", "json", "--tables", "shop.orders,shop.p*")
    assert {record["_table"] for record in records(ran)} == {"orders", "payments", "products"}
    ran = run("log", shop / "mysql", "--as", "json", "--tables", "orders", "--tables", "x.*")
    assert {record["_table"] for record in records(ran)} == {"orders"}
    ran = run("log", shop / "mysql", "--as", "json", "--tables", "nothing")
    assert (ran.status, ran.out) == (2, "")
    assert "no table fits nothing in the log" in ran.err


def test_naming_is_said_once(run, shop, tmp_path):
    ran = run("log", shop / "mysql", "--as", "json")
    assert ran.err == (
        "tailrace: 5 tables (shop.reviews, shop.products, shop.orders, ...): column names from the"
        " CREATE TABLE statements in the log\n"
    )
    second = shop / "mysql" / "binlog.000002"  # without the file that has the CREATE TABLEs
    ran = run("log", second, "--as", "json", "--tables", "orders")
    assert ran.err.startswith(
        "tailrace: shop.orders: no column names in the log (its CREATE TABLE is not"
    )
    assert "c1" in records(ran)[0]["after"]
    schema = tmp_path / "schema.sql"
    schema.write_text(
        "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, who INT UNSIGNED, status ENUM('a','b','c','d','e'), "
        "total DECIMAL(12,2), placed DATETIME(6), updated TIMESTAMP(3), note VARCHAR(20))"
    )
    ran = run("log", second, "--as", "json", "--tables", "orders", "--schema", schema)
    assert ran.err == "tailrace: shop.orders: column names from the schema given\n"
    assert "who" in records(ran)[0]["after"]
    schema.write_text("CREATE TABLE orders (id INT)")
    ran = run("log", second, "--as", "json", "--tables", "orders", "--schema", schema)
    assert ran.status == 2
    assert "7 columns in the log and 1 in the schema given" in ran.err


@pytest.mark.slow
def test_all_events(run, corpus):
    for folder in CASES:
        if has(folder, "encrypted"):
            continue
        ran = run("log", folder, "--as", "json", "--events")
        assert ran.status == 0, (folder.name, ran.err)
        for record in records(ran):
            assert record["event"]
            assert record["_pos"] < record["_end"]


def test_statement_format(run, corpus):
    folder = corpus / "mysql-9.7.statement-format"
    ran = run("log", folder, "--as", "json")
    assert ran.status == 2
    said = one_error(ran.err)
    assert said.startswith("tailrace: binlog.000001 at ")
    assert "--statements skip" in said
    ran = run("log", folder, "--as", "json", "--statements", "skip")
    assert ran.status == 0
    assert "changes that were logged as statements were skipped" in ran.err


def test_a_torn_log(run, corpus, tmp_path):
    for folder in corpus.glob("*.torn"):
        ran = run("log", folder, "--as", "json")
        assert ran.status == 0
        assert "the log ends inside an event" in ran.err
    path = corpus / "mysql-9.7.checksum-none" / "binlog.000001"
    *_, end = (event for event in tailrace.open(path) if event.name == "XID")
    (tmp_path / path.name).write_bytes(path.read_bytes()[: end.offset])
    ran = run("log", tmp_path, "--as", "json")
    assert ran.status == 0
    assert "not have a transaction's end: its rows are left out (1 rows events)" in ran.err
