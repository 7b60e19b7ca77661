"""An XA transaction inside a compressed payload, prepared and then rolled back, on a real server."""

from __future__ import annotations

import shutil

import pytest

from tailrace.columns import changes, plan_splits, read_split
from tailrace.errors import TruncatedEvent
from tailrace.storage import find


@pytest.fixture(scope="module")
def log(fresh_server, tmp_path_factory):
    """A log with three XA transactions, two of them rolled back, one of these a large one."""
    folder = tmp_path_factory.mktemp("xa")
    options = {"binlog_transaction_compression": "ON", "binlog_row_metadata": "FULL"}
    server = fresh_server("mysql-9.7", options)
    server.execute("create database d")
    server.execute("create table d.t (id int primary key, v varchar(200))")
    server.execute("create table d.many (n int primary key auto_increment, v char(200))")
    for name, end in (("kept", "COMMIT"), ("gone", "ROLLBACK")):
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute(f"xa start '{name}'")
            cursor.execute(f"insert into d.t values ({len(name) + ord(name[0])}, '{name}')")
            cursor.execute(f"xa end '{name}'")
            cursor.execute(f"xa prepare '{name}'")
            cursor.execute(f"xa {end} '{name}'")
        connection.close()
    server.execute("insert into d.t values (1, 'last')")
    rows = server.query("select id, v from d.t order by id")
    file = server.rotate()
    shutil.copy(file, folder / file.name)
    return folder, rows


def test_rows_rolled_back_are_left_out(log):
    folder, rows = log
    found = [row["after"] for batch in changes(folder) for row in batch.to_pylist()]
    assert sorted((row["id"], row["v"]) for row in found) == list(rows)


@pytest.mark.parametrize("target", [1, 1 << 30])
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
