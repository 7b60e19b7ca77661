"""`tailrace log` as text."""

import gzip
import re
import subprocess
import sys

import pytest

from tailrace.cli.log.text import value_text
from tailrace.cli.output import numeric
from tailrace.constants import ColumnType
from tailrace.printable import size
from tailrace.times import time_text
from tailrace.values.image import ABSENT
from tailrace.values.jsonb import JsonText
from tailrace.values.schema import Column, Logical
from tests.cases import each_case


def column(kind=ColumnType.VARCHAR):
    return Column(0, "c", kind, 0, True, False, None, None, Logical.PLAIN)


def test_transactions_statements_and_rows(run, shop):
    ran = run("log", shop / "mysql")
    assert ran.status == 0
    assert re.fullmatch(
        r"-- binlog\.000001: mysql 9\.7\.\S+, created 20\d\d-\d\d-\d\d [\d:]+", ran.lines[0]
    )
    assert re.fullmatch(
        r"binlog\.000001:\d+  [0-9a-f-]{36}:1  20\d\d-\d\d-\d\d [\d:.]+", ran.lines[1]
    )
    assert ran.lines[2] == "  shop: CREATE DATABASE shop CHARACTER SET utf8mb4"
    assert any(
        line.startswith(
            "  insert shop.customers  id=1 email='customer1@example.com' name='Aino Andersen'"
        )
        for line in ran.lines
    )
    update = next(line for line in ran.lines if line.startswith("  update shop.orders"))
    assert re.fullmatch(
        r"  update shop\.orders  id=\d+  \w+: '\w+' → '\w+', updated_at: '.*' → '.*'", update
    )
    assert sum(line.startswith("-- continues in ") for line in ran.lines) == 3
    assert ran.lines[-1] == "-- the server was shut down"


@each_case("case", ["image-minimal-full", "image-full-full", "statement-format", "mixed-format"])
def test_every_row_and_statement_of_mysqlbinlog(run, corpus, case):
    """As many rows by kind and table as the server's own tool finds."""
    for folder in corpus.glob(f"*.{case}"):
        text = gzip.decompress((folder / "mysqlbinlog.txt.gz").read_bytes()).decode(
            "utf-8", "replace"
        )
        told = re.findall(
            r"^### (INSERT INTO|UPDATE|DELETE FROM) `(.*)`\.`(.*)`$", text, re.MULTILINE
        )
        words = {"INSERT INTO": "insert", "UPDATE": "update", "DELETE FROM": "delete"}
        ran = run("log", folder)
        assert ran.status == 0
        shown = re.findall(r"^  (insert|update|delete) (\w+)\.(\w+)  ", ran.out, re.MULTILINE)
        assert sorted(shown) == sorted(
            (words[word], database, table) for word, database, table in told
        )


def test_statements_are_shown_with_what_they_need(run, corpus):
    for flavour in ("mysql-9.7", "mariadb-11.8"):
        ran = run("log", corpus / f"{flavour}.statement-format")
        assert re.search(r"^  set insert_id = \d+$", ran.out, re.MULTILINE)
        assert re.search(r"^  corpus: INSERT INTO ", ran.out, re.MULTILINE)


def test_what_was_taken_back_is_said(run, corpus):
    for folder in corpus.glob("*.xa"):
        assert re.search(r"^  XA PREPARE X'[0-9a-f]+'", run("log", folder).out, re.MULTILINE)
    for folder in corpus.glob("*.torn"):
        ran = run("log", folder)
        assert ran.lines[-1] == "  the log ends inside this transaction"
        assert "the log ends inside an event" in ran.err


def test_values():
    assert value_text(None, column()) == "NULL"
    assert value_text(ABSENT, column()) == "?"
    assert value_text("x" * 300, column()) == "'" + "x" * 200 + "'… 100 characters more"
    assert value_text(b"", column()) == "''"
    assert value_text(b"\x00\xff", column()) == "0x00ff"
    assert value_text(b"a" * 1600, column()).endswith("61… 1.5 kB more")
    assert value_text(0.1, column(ColumnType.DOUBLE)) == "0.1"
    assert value_text(0.10000000149011612, column(ColumnType.FLOAT)) == "0.1"
    assert value_text(JsonText('{"a": "\\n"}'), column(ColumnType.JSON)) == '{"a": "\\n"}'
    assert value_text((1.0, 2.5), column(ColumnType.VECTOR)) == "[1.0,2.5]"
    assert value_text((1.0,) * 30, column(ColumnType.VECTOR)).endswith("]… 10 numbers more")
    assert time_text(1795252356876595) == "2026-11-21 09:12:36.876595"
    assert time_text(0) == "1970-01-01 00:00:00"
    assert time_text(1 << 62) == f"{1 << 62} µs"


def test_sizes_and_columns():
    assert [size(count) for count in (0, 999, 1000, 999_949, 1_000_000, 5 * 10**12)] == [
        "0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "5.0 TB",
    ]  # fmt: skip
    assert numeric(("a", "b"), [("x", "1,000"), ("y", "-")]) == [False, True]


def test_colours_on_a_terminal_only(shop):
    command = f"{sys.executable} -m tailrace log {shop / 'mysql' / 'binlog.000004'} | head -2"
    plain = subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout
    assert b"\x1b[" not in plain
    script = f"{sys.executable} -m tailrace log {shop / 'mysql' / 'binlog.000004'}"
    try:
        coloured = subprocess.run(
            ["script", "-qec", script, "/dev/null"], capture_output=True, check=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("no script(1) here to make a terminal")
    assert b"\x1b[1;32minsert\x1b[0m" in coloured
