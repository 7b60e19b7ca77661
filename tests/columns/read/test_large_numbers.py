"""Numbers that MariaDB has without sign: as the server itself says them, in both paths."""

import shutil

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


def test_both_paths(fresh_server, tmp_path):
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
    shutil.copy(path, tmp_path / path.name)
    server.stop()
    assert gtids == [f"{DOMAIN}-{SERVER}-{number}" for number in NUMBERS]
    batches = list(tailrace.changes(tmp_path))
    assert [each for batch in batches for each in batch.column("_gtid").to_pylist()] == gtids
    assert {each for b in batches for each in b.column("_server_id").to_pylist()} == {SERVER}
    (series,) = find(tmp_path)
    assert assert_equal_paths(series) == len(NUMBERS)
    with tailrace.open(tmp_path) as log:
        named = [event for event in log if isinstance(event, MariadbGtidEvent)]
    assert [str(event.gtid) for event in named] == gtids
    assert [str(event.replace().gtid) for event in named] == gtids
