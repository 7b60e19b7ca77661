"""An XA transaction inside a compressed payload, prepared and then rolled back, on a real server."""

from __future__ import annotations

import shutil

import pytest

from tailrace.columns import changes, plan_splits, read_split
from tailrace.errors import TruncatedEvent
from tailrace.storage import find
from tests.cases import each_case


@pytest.fixture(scope="module")
def log(mysql97, tmp_path_factory):
    """A log with two XA transactions, one of them rolled back, and one row after them."""
    folder = tmp_path_factory.mktemp("xa")
    server = mysql97
    server.execute("set global binlog_row_metadata = FULL")
    server.execute("create database xa_payload")
    server.execute("create table xa_payload.t (id int primary key, v varchar(200))")
    server.rotate()
    with server.connect(database="xa_payload", autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("set binlog_transaction_compression = ON")
        for name, end in (("kept", "COMMIT"), ("gone", "ROLLBACK")):
            cursor.execute(f"xa start '{name}'")
            cursor.execute(f"insert into t values ({len(name) + ord(name[0])}, '{name}')")
            cursor.execute(f"xa end '{name}'")
            cursor.execute(f"xa prepare '{name}'")
            cursor.execute(f"xa {end} '{name}'")
        cursor.execute("insert into t values (1, 'last')")
    rows = server.query("select id, v from xa_payload.t order by id")
    file = server.rotate()
    shutil.copy(file, folder / file.name)
    return folder, rows


def test_rows_rolled_back_are_left_out(log):
    folder, rows = log
    found = [row["after"] for batch in changes(folder) for row in batch.to_pylist()]
    assert sorted((row["id"], row["v"]) for row in found) == list(rows)


@each_case("target", [1, 1 << 30])
def test_in_splits_too(log, target):
    folder, rows = log
    (series,) = find(folder)
    splits = plan_splits(series, target_bytes=target)
    found = [
        row["after"] for split in splits for batch in read_split(split) for row in batch.to_pylist()
    ]
    assert sorted((row["id"], row["v"]) for row in found) == list(rows)


def test_damage_after_the_rollback(log, tmp_path):
    """What stands before damage holds: the rows are left out all the same."""
    folder, rows = log
    (file,) = folder.iterdir()
    (tmp_path / file.name).write_bytes(file.read_bytes()[:-10])
    found = []

    def read():
        for batch in changes(tmp_path):
            found.extend(row["after"] for row in batch.to_pylist())

    with pytest.raises(TruncatedEvent):
        read()
    assert sorted((row["id"], row["v"]) for row in found) == list(rows)
