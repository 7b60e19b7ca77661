"""Transactions that are partly taken back where a block ends inside them, or several do."""

from __future__ import annotations

import ctypes
import shutil
from itertools import pairwise

import numpy as np
import pyarrow as pa

import tailrace
from tailrace.columns import plan_splits, read_split
from tailrace.columns.frames import plan as k
from tailrace.columns.native import kernel
from tailrace.columns.read import blocks, decoder, walk
from tailrace.storage import find
from tests.cases import each_case
from tests.recorded import CORPUS

SERVERS = ("mysql-9.7", "mariadb-11.8", "mariadb-10.11")
CASES = [f"{server}.{case}" for server in SERVERS for case in ("xa", "savepoints", "ddl")]


def rows(batches):
    found = [row for batch in batches for row in pa.table(batch).to_pylist()]
    return sorted(found, key=lambda row: row["_seq"])


def by_splits(folder):
    """The same by the way that knows from the start what was taken back."""
    (series,) = find(folder)
    return rows(
        batch for split in plan_splits(series) for batch in read_split(split, statements="skip")
    )


@each_case("case", CASES)
def test_blocks_of_any_size(case, monkeypatch):
    """And of some tables alone: blocks may hold rows of the transaction under way of which none is
    wanted. And with little room for plans.
    """
    wanted = by_splits(CORPUS / case)

    def found(**options):
        return rows(tailrace.changes(CORPUS / case, statements="skip", **options))

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


def test_a_transaction_of_several_blocks(flavour_server, tmp_path):
    server = flavour_server
    server.execute("create database straddling")
    server.rotate()
    connection = server.connect(database="straddling")
    with connection.cursor() as cursor:
        cursor.execute("create table t (id int primary key, v longblob)")
        cursor.execute("create table u (id int primary key)")
        cursor.execute("begin")
        cursor.execute("insert into t values (1, repeat('a', 9000000))")
        cursor.execute("insert into u values (1)")
        cursor.execute("savepoint s")
        cursor.execute("insert into t values (2, repeat('b', 9000000))")
        cursor.execute("insert into t values (3, '')")
        cursor.execute("insert into u values (2)")
        cursor.execute("rollback to s")
        cursor.execute("insert into t values (4, repeat('c', 9000000))")
        cursor.execute("insert into u values (3)")
        cursor.execute("commit")
        cursor.execute("select id from t order by id")
        kept = [row[0] for row in cursor.fetchall()]
    connection.close()
    log = server.rotate()
    shutil.copy(log, tmp_path / log.name)
    assert kept == [1, 4]
    assert ids(tmp_path, "t") == kept
    assert ids(tmp_path, "u") == [1, 3]


def ids(folder, table):
    """The keys inserted into a table, alone."""
    return [
        row["after"]["id"]
        for batch in tailrace.changes(folder, tables=[f"straddling.{table}"], columns=["id"])
        for row in batch.select(["after"]).to_pylist()
    ]


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
    assert rows(tailrace.changes(case)) == wanted
    assert any(after < before for before, after in pairwise(cursors))
