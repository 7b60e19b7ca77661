"""Batches of narrow rows are as large as batches may be, block after block."""

from __future__ import annotations

import shutil

import pytest

import tailrace
from tailrace.columns.read import blocks, pool, table

ROWS, BLOCK, MOST = 60_000, 1 << 16, 1_000
"""Rows of some seven bytes: a block has several batches of them."""


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
    server.execute(
        f"insert into d.t select {number}, c.n from {tables} where a.n < {ROWS // 10_000}"
    )
    path = server.rotate()
    shutil.copy(path, folder / path.name)
    server.stop()
    return folder


def test_few_batches(log, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", BLOCK)
    monkeypatch.setattr("tailrace.columns.batches.BLOCK", BLOCK)
    monkeypatch.setattr(table, "MOST_ROWS", MOST)
    sizes = [batch.num_rows for batch in tailrace.changes(log)]
    assert sum(sizes) == ROWS
    assert max(sizes) == MOST
    assert len(sizes) < 1.5 * ROWS / MOST


def test_what_a_full_batch_leaves(tmp_path, monkeypatch):
    """The batch after one that was full has room for the rest of the block, not for all of it."""
    path = tmp_path / "log.000001"
    defined = "create table d.t (id int primary key, a varchar(9), b varchar(9), c varchar(300))"
    with tailrace.create(path, flavour="mysql", server_id=1) as log, log.transaction() as change:
        change.insert(
            tailrace.Table.parse(defined, flavour="mysql"),
            [(number, "", "", "c" * 250) for number in range(30_000)],
        )
    sizes = []
    take = pool.Pool.take

    def noted(self, size):
        sizes.append(size)
        return take(self, size)

    monkeypatch.setattr(pool.Pool, "take", noted)
    rows = [batch.num_rows for batch in tailrace.changes(path)]
    assert len(rows) == 2
    assert sum(rows) == 30_000
    assert sizes[1] < 1.5 * sizes[0] * rows[1] / rows[0]
