"""Numbers that MariaDB has without sign: as the server itself says them, in both paths."""

from __future__ import annotations

import shutil

import pytest

import tailrace
from tailrace.events import MariadbGtidEvent
from tailrace.storage import find
from tests.columns.oracle import assert_equal_paths

NUMBERS = [
    1 << 63,
    (1 << 63) + 1,
    (1 << 63) - 1,
    12345678901234567890,
    (1 << 64) - 11,
    (1 << 64) - 2,
]
DOMAIN, SERVER = (1 << 32) - 1, (1 << 32) - 1


@pytest.fixture(scope="module")
def recorded(fresh_server, tmp_path_factory):
    """The log, and the GTIDs as the server gave them."""
    folder = tmp_path_factory.mktemp("numbers")
    server = fresh_server("mariadb-11.8", {"gtid_strict_mode": "OFF"})
    server.execute("create database d")
    server.execute("create table d.t (id int primary key)")
    server.rotate()
    gtids = []
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"set gtid_domain_id = {DOMAIN}, server_id = {SERVER}, autocommit = 1")
        for row, number in enumerate(NUMBERS):
            cursor.execute(f"set gtid_seq_no = {number}")
            cursor.execute(f"insert into d.t values ({row})")
            cursor.execute("select @@last_gtid")
            gtids += [each for (each,) in cursor.fetchall()]
    path = server.rotate()
    shutil.copy(path, folder / path.name)
    server.stop()
    assert gtids == [f"{DOMAIN}-{SERVER}-{number}" for number in NUMBERS]
    return folder, gtids


def test_columns(recorded):
    folder, gtids = recorded
    batches = list(tailrace.changes(folder))
    assert [each for batch in batches for each in batch.column("_gtid").to_pylist()] == gtids
    assert {each for b in batches for each in b.column("_server_id").to_pylist()} == {SERVER}
    (series,) = find(folder)
    assert assert_equal_paths(series) == len(NUMBERS)


def test_objects(recorded):
    folder, gtids = recorded
    with tailrace.open(folder) as log:
        named = [event for event in log if isinstance(event, MariadbGtidEvent)]
    assert [str(event.gtid) for event in named] == gtids
    assert [str(event.replace().gtid) for event in named] == gtids
