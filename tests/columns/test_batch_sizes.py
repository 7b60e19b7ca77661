"""Batches of narrow rows are as large as batches may be, block after block."""

from __future__ import annotations

import shutil

import pytest

import tailrace
from tailrace.columns.table import MOST_ROWS

ROWS = 1_500_000
"""Of some ten bytes: more than a block of 8 MiB has, each of which is several batches."""


@pytest.fixture(scope="module")
def log(fresh_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("narrow")
    server = fresh_server("mysql-9.7", {"binlog_row_metadata": "FULL"})
    server.execute("create database d")
    server.execute("create table d.digit (n int primary key)")
    server.execute("insert into d.digit values " + ", ".join(f"({n})" for n in range(100)))
    server.execute("create table d.t (id int primary key, n tinyint)")
    server.rotate()
    number = "(a.n * 10000 + b.n * 100 + c.n)"
    tables = "d.digit a cross join d.digit b cross join d.digit c"
    for first in range(0, ROWS, 1_000_000):
        here = min(ROWS - first, 1_000_000)
        select = f"select {first} + {number}, c.n from {tables} where {number} < {here}"
        server.execute(f"insert into d.t {select}")
    path = server.rotate()
    shutil.copy(path, folder / path.name)
    server.stop()
    return folder


def test_few_batches(log):
    sizes = [batch.num_rows for batch in tailrace.changes(log)]
    assert sum(sizes) == ROWS
    assert sizes.count(MOST_ROWS) >= ROWS // MOST_ROWS - 2
    assert len(sizes) <= ROWS // MOST_ROWS + 4
