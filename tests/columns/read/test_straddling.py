"""Transactions that are partly taken back where a block ends inside them, or several do."""

import ctypes
from itertools import pairwise

import numpy as np
import pytest

import tailrace
from tailrace.columns import plan_splits, read_split
from tailrace.columns.frames import plan as k
from tailrace.columns.native import kernel
from tailrace.columns.read import blocks, decoder, walk
from tailrace.storage import find
from tests.cases import each_case
from tests.columns.oracle import in_order
from tests.recorded import CORPUS

SERVERS = ("mysql-9.7", "mariadb-11.8", "mariadb-10.11")
CASES = [f"{server}.{case}" for server in SERVERS for case in ("xa", "savepoints", "ddl")]


def by_splits(folder):
    """The same by the way that knows from the start what was taken back."""
    (series,) = find(folder)
    return in_order(
        batch for split in plan_splits(series) for batch in read_split(split, statements="skip")
    )


@each_case("case", CASES)
@pytest.mark.slow
def test_blocks_of_any_size(case, monkeypatch):
    """And of some tables alone: blocks may hold rows of the transaction under way of which none is
    wanted. And with little room for plans.
    """
    wanted = by_splits(CORPUS / case)

    def found(**options):
        return in_order(tailrace.changes(CORPUS / case, statements="skip", **options))

    with monkeypatch.context() as patch:
        patch.setattr(walk, "_ENTRIES", 2)
        patch.setattr(walk, "_KEPT", 100)
        assert found() == wanted
    for size, held_back in (
        (200, 1 << 20),
        (3000, 1 << 20),
        (3000, 0),
        (700, 300),
        (700, 0),
        (200, 0),
    ):
        monkeypatch.setattr(blocks, "BLOCK", size)
        monkeypatch.setattr("tailrace.columns.batches.BLOCK", size)
        monkeypatch.setattr(decoder, "_HELD_BACK", held_back)
        assert found() == wanted, (size, held_back)
    for name in {f"{row['_db']}.{row['_table']}" for row in wanted}:
        of_it = [row for row in wanted if f"{row['_db']}.{row['_table']}" == name]
        assert found(tables=[name]) == of_it, name


def test_no_statement_is_compared_with_one_further_on(monkeypatch):
    """After going back to a transaction's start: what is compared could pass the block's end."""
    case = CORPUS / "mysql-9.7.small-events"
    wanted = by_splits(case)
    cursors = []

    def watched(name, _size=0):
        found = kernel(name)

        def plan(address):
            frame = np.frombuffer((ctypes.c_int64 * k.PLAN_WORDS).from_address(address), np.int64)
            cursors.append(int(frame[k.CURSOR]))
            assert frame[k.SOUND_QUERY] <= cursors[-1]
            return found(address)

        return plan if name == "plan_events" else found

    monkeypatch.setattr(walk, "_ENTRIES", 3)
    monkeypatch.setattr(walk, "reading", watched)
    assert in_order(tailrace.changes(case)) == wanted
    assert any(after < before for before, after in pairwise(cursors))
