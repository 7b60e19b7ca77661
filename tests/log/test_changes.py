"""The changes that hold: held to a transaction's end, or told by reading ahead."""

from __future__ import annotations

import pytest

from tailrace.errors import TailraceError
from tailrace.log.changes import MOST_HELD, Changes, RolledBack
from tailrace.log.reader import Reader
from tailrace.storage import find
from tests.recorded import folders

FOLDERS = folders("encrypted", shop=True)


def places(folder, most_held=MOST_HELD):
    found = []
    for series in find(folder):
        changes = Changes(Reader(series), statements="skip", most_held=most_held)
        try:
            for change in changes:
                event = change.event
                found.append(
                    (event.file, event.offset, event.inner_index, change.first, len(change.rows()))
                )
        except TailraceError as error:
            found.append(type(error))
        found.append((changes.rolled_back, changes.unfinished, changes.skipped_statements))
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_reading_ahead_tells_what_holding_tells(folder):
    assert places(folder, 0) == places(folder)


def items(folder, most_held=MOST_HELD):
    """What consumers of generators see, with the XA transactions at their commit."""
    found = []
    for series in find(folder):
        reader = Reader(series)
        changes = Changes(reader, statements="skip", most_held=most_held)
        try:
            for item in changes.with_rolled_back(iter(reader)):
                of = item.item if isinstance(item, RolledBack) else item
                place = of.event and (of.event.file, of.event.offset, of.event.inner_index)
                found.append((type(item), type(of), place))
        except TailraceError as error:
            found.append(type(error))
        found.append((changes.prepared, changes.unfinished))
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_what_was_rolled_back_is_told_of_large_transactions_too(folder):
    """Also XA transactions over the limit are held until their commit, in a temporary file."""
    assert items(folder, 0) == items(folder)


def test_compressed_xa_and_savepoints(fresh_server):
    """What MySQL does not compress: an XA transaction, and one whose rows were taken back in part."""
    server = fresh_server(
        "mysql-9.7",
        {
            "binlog_transaction_compression": True,
            "gtid_mode": "OFF",
            "enforce_gtid_consistency": "OFF",
        },
    )
    for sql in (
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "CREATE TABLE m (a INT) ENGINE=MyISAM",
        "XA START 'a'", "INSERT INTO t VALUES (1)", "XA END 'a'", "XA PREPARE 'a'", "XA ROLLBACK 'a'",
        "XA START 'b'", "INSERT INTO t VALUES (2)", "XA END 'b'", "XA PREPARE 'b'", "XA COMMIT 'b'",
        "BEGIN", "INSERT INTO t VALUES (3)", "SAVEPOINT s", "INSERT INTO t VALUES (4)",
        "INSERT INTO m VALUES (5)", "ROLLBACK TO s", "COMMIT",
        "BEGIN", "INSERT INTO t VALUES (6)", "INSERT INTO m VALUES (7)", "ROLLBACK",
    ):  # fmt: skip
        server.execute(sql)
    log = server.rotate()
    (series,) = find(log)
    rows = [row.values[0] for change in Changes(Reader(series)) for row in change.rows()]
    assert sorted(rows) == sorted(
        a for table in "tm" for (a,) in server.query(f"SELECT a FROM d.{table}")
    )
