"""A table whose shape changes to and fro: its rows come in the log's order all the same."""

from __future__ import annotations

import pytest

import tailrace
from tailrace import Table
from tailrace.columns import batches as reading
from tailrace.columns.read import blocks, walk

NARROW = "create table shop.t (id int primary key)"
WIDE = "create table shop.t (id int primary key, v varchar(9))"
OTHER = "create table shop.u (id int primary key)"


def write(folder, rounds, *, statements):
    """One table in two shapes by turns, another in between; gives t's keys in order."""
    narrow, wide, other = (Table.parse(sql, flavour="mysql") for sql in (NARROW, WIDE, OTHER))
    folder.mkdir()
    with tailrace.create(folder / "binlog.000001", flavour="mysql", server_id=7) as log:
        for number in range(rounds):
            table, sql = (wide, WIDE) if number % 2 else (narrow, NARROW)
            if statements:
                for each in ("drop table if exists t", sql.replace("shop.t", "t")):
                    with log.transaction() as trx:
                        trx.query(each, database="shop")
            with log.transaction() as trx:
                trx.insert(table, [(number, "x")] if number % 2 else [(number,)])
                trx.insert(other, [(number,)])
    return list(range(rounds))


@pytest.mark.parametrize("statements", [False, True])
@pytest.mark.parametrize("block", [300, 1000, 8 << 20])
def test_rows_stay_in_order(block, statements, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", block)
    monkeypatch.setattr(blocks, "BLOCK", block)
    wanted = write(tmp_path / "log", 9, statements=statements)
    found = [
        row["id"]
        for batch in tailrace.changes(tmp_path / "log", tables="shop.t")
        for row in batch.column("after").to_pylist()
    ]
    assert found == wanted


@pytest.mark.parametrize("statements", [False, True])
def test_shapes_that_come_back_hold_no_more(statements, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 500)
    monkeypatch.setattr(blocks, "BLOCK", 500)
    write(tmp_path / "log", 60, statements=statements)
    decoders = []
    monkeypatch.setattr(walk.Walker, "begin_file", _kept(walk.Walker.begin_file, decoders))
    rows = sum(batch.num_rows for batch in tailrace.changes(tmp_path / "log"))
    assert rows == 120
    (decoder,) = decoders
    assert len(decoder._tables) <= 12  # of those in a block


def _kept(begin, found):
    def call(self, *arguments, **more):
        found.append(self)
        return begin(self, *arguments, **more)

    return call
