"""What the tests of a stream share: a log with something in it, its events, a replica's session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.wire.commands import DumpFlag

if TYPE_CHECKING:
    from pathlib import Path

    from tools.servers import Server

ALL = DumpFlag.NON_BLOCK | DumpFlag.ANNOTATE_ROWS
"""All of the log, and not to wait at its end; to MySQL, the 2 is for heartbeats, there are none."""
IN_USE_AT = 17


def events_of(path: Path) -> list[bytes]:
    """A file's events, parted by their own lengths; the description as a source sends it."""
    raw = path.read_bytes()
    assert raw[:4] == b"\xfebin"
    events, at = [], 4
    while at < len(raw):
        size = int.from_bytes(raw[at + 9 : at + 13], "little")
        events.append(raw[at : at + size])
        at += size
    first = bytearray(events[0])
    first[IN_USE_AT] &= 0xFE  # cleared by the sender
    return [bytes(first), *events[1:]]


def is_artificial(event: bytes | memoryview) -> bool:
    return bool(event[17] & 0x20)


def connect(server: Server, **settings: Any) -> Any:
    """A connection with what the servers demand of a replica."""
    connection = server.connect(**settings)
    with connection.cursor() as cursor:
        cursor.execute("SET @source_binlog_checksum='CRC32', @master_binlog_checksum='CRC32'")
        if server.flavour == "mariadb":
            cursor.execute("SET @mariadb_slave_capability=4")
    return connection


def write_log(server: Server) -> Path:
    """A log of its own with definitions, transactions and a rollback in it, closed."""
    server.rotate()
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS streamed")
        cursor.execute("DROP TABLE IF EXISTS streamed.t")
        cursor.execute(
            "CREATE TABLE streamed.t (a INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB) ENGINE=InnoDB"
        )
        for size in (0, 1, 200, 70_000):
            cursor.execute("INSERT INTO streamed.t (b) VALUES (REPEAT('x', %s))", (size,))
        connection.begin()
        for each in range(50):
            cursor.execute("INSERT INTO streamed.t (b) VALUES (%s)", (f"row {each}",))
        cursor.execute("UPDATE streamed.t SET b = 'changed' WHERE a % 2 = 0")
        connection.commit()
        connection.begin()
        cursor.execute("DELETE FROM streamed.t")
        connection.rollback()
    return server.rotate()
