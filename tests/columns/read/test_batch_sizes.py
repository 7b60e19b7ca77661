"""Batches of narrow rows are as large as batches may be, block after block."""

import pytest

import tailrace
from tailrace.columns.read import blocks, pool, table

ROWS, BLOCK, MOST = 60_000, 1 << 16, 1_000
"""Rows of some seven bytes: a block has several batches of them."""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("narrow") / "log.000001"
    table = tailrace.Table.parse("create table d.t (id int primary key, n tinyint)")
    with tailrace.create(path, flavour="mysql", server_id=1) as log, log.transaction() as change:
        change.insert(table, [(number, number % 100) for number in range(ROWS)])
    return path


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
