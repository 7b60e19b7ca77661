"""Records of a dump, byte by byte as they stand in the source's file: with TLS and without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.gtid import GtidList
from tailrace.live.stream import RPL_GTID, BinlogStream
from tailrace.wire.commands import DumpFlag
from tailrace.wire.packets import LARGEST
from tailrace.wire.semisync import unwrap
from tests.cases import each_case
from tests.live.dumps import ALL, connect, events_of, is_artificial, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from tools.servers import Server

ID = 4712


def dumped(server: Server, log: Path, position: int = 4, **settings: Any) -> list[bytes]:
    """The records of one file, from the artificial ROTATE before it to its own, that one too."""
    with connect(server, **settings) as connection:
        stream = BinlogStream.open(
            connection, filename=log.name, position=position, server_id=ID, flags=ALL
        )
        found = []
        for record in stream:
            found.append(bytes(record))
            if record[4] == 4 and not is_artificial(record):
                return found
    pytest.fail("no ROTATE at the end")


@each_case("tls", [False, True])
def test_a_dump_of_a_log_is_the_file_event_by_event(server: Server, tls: bool):
    log = write_log(server)
    if tls and server.name == "mariadb-10.11":
        pytest.skip("MariaDB 10.11 has no TLS without a certificate of ours")
    settings = {"ssl": {"verify_mode": "none"}} if tls else {"ssl_disabled": True}
    with connect(server, **settings) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        assert bool(cursor.fetchall()[0][1]) == tls
    rotate, *events = dumped(server, log, **settings)
    assert is_artificial(rotate)
    assert rotate[19:27] == bytes((4, 0, 0, 0, 0, 0, 0, 0))
    assert rotate[27:].startswith(log.name.encode())
    assert events == events_of(log)


def test_a_dump_from_within_a_log(server: Server):
    log = write_log(server)
    events = events_of(log)
    at = len(events) // 2
    begin = 4 + sum(map(len, events[:at]))
    found = dumped(server, log, begin)
    assert [each[4] for each in found[:2]] == [4, 15]
    assert found[0][19:27] == begin.to_bytes(8, "little")
    assert found[1][13:17] == bytes(4)  # the description's position, which does not advance
    assert found[1][:4] == events[0][:4]
    # MariaDB sends an artificial GTID_LIST or START_ENCRYPTION behind it for some replicas
    assert found[-(len(events) - at) :] == events[at:]
    assert len(found) == len(events) - at + 2


def overhead(server: Server) -> int:
    """Bytes of a rows event beside the one large value in it."""
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS streamed")
        cursor.execute("DROP TABLE IF EXISTS streamed.large")
        cursor.execute("CREATE TABLE streamed.large (a INT PRIMARY KEY, b LONGBLOB)")
    log = insert(server, [1000])
    return max(map(len, events_of(log))) - 1000


def insert(server: Server, sizes: list[int]) -> Path:
    """A log with rows events that hold values of these sizes."""
    server.rotate()
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'full'")
        for number, size in enumerate(sizes):
            cursor.execute(
                "INSERT INTO streamed.large VALUES (%s, REPEAT('x', %s))", (number, size)
            )
            cursor.execute("DELETE FROM streamed.large LIMIT 0")
    log = server.rotate()
    server.execute("TRUNCATE TABLE streamed.large")
    return log


def test_records_of_more_than_one_packet(server: Server):
    """A record's packets hold the OK byte and the event: 16 MiB - 1 each but the last."""
    beside = overhead(server)
    payloads = [LARGEST - 1, LARGEST, LARGEST + 1, 2 * LARGEST, 2 * LARGEST + 1, 36 << 20]
    log = insert(server, [payload - 1 - beside for payload in payloads])
    events = events_of(log)
    large = [event for event in events if len(event) > LARGEST // 2]
    assert [len(event) + 1 for event in large] == payloads
    found = dumped(server, log, ssl_disabled=True)
    assert list(map(len, found[1:])) == list(map(len, events))
    assert found[1:] == events


def test_by_gtid_the_log_begins_with_the_file(mysql97: Server):
    log = write_log(mysql97)
    events = events_of(log)
    with connect(mysql97) as connection:
        stream = BinlogStream.open(
            connection, filename=log.name, server_id=ID, flags=RPL_GTID | DumpFlag.NON_BLOCK
        )
        found = [bytes(record) for record in stream]
    assert found[1 : len(events) + 1] == events


def test_heartbeats_are_records_as_well(server: Server):
    log = write_log(server)
    with connect(server) as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET @source_heartbeat_period=50000000, @master_heartbeat_period=50000000"
            )
        server.settle()
        current = server.binlogs()[-1]
        assert current != log
        with BinlogStream.open(connection, filename=current.name, server_id=ID) as stream:
            while stream.fetch()[4] != 27:
                pass
            assert current.name.encode() in bytes(stream.buffer)
            assert int.from_bytes(stream.buffer[13:17], "little") == current.stat().st_size


def test_what_goes_before_an_event_is_part_of_the_record(mariadb118: Server):
    """Of MySQL's semi-synchronous source see tests/replication/semisync."""
    log = write_log(mariadb118)
    mariadb118.execute("SET GLOBAL rpl_semi_sync_master_enabled = 1")
    try:
        with connect(mariadb118) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SET @rpl_semi_sync_slave = 1")
            with BinlogStream.open(
                connection, filename=log.name, server_id=ID, flags=DumpFlag.ANNOTATE_ROWS
            ) as stream:
                events = [unwrap(stream.fetch())[1] for _ in range(len(events_of(log)) + 1)]
    finally:
        mariadb118.execute("SET GLOBAL rpl_semi_sync_master_enabled = 0")
    assert events[1:] == events_of(log)


def test_mariadb_ends_where_it_is_told_to(mariadb118: Server):
    write_log(mariadb118)
    until = mariadb118.query("SELECT @@gtid_binlog_pos")[0][0]
    write_log(mariadb118)
    last = GtidList.parse(until).position[0]
    before = GtidList.parse(until)
    before.add(replace(last, seq_no=last.seq_no - 1))
    with connect(mariadb118) as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET @slave_connect_state = %s, @slave_until_gtid = %s",
                (",".join(map(str, before.position.values())), until),
            )
        stream = BinlogStream.open(connection, server_id=ID)
        found = [each for each in stream if each[4] == 162]
    assert [int.from_bytes(each[19:27], "little") for each in found] == [last.seq_no]
