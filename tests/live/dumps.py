"""What the tests of a stream share: a log with something in it, its events, a replica's session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.wire.commands import DumpFlag
from tests.live import feeding

if TYPE_CHECKING:
    from pathlib import Path

    from tools.servers import Server

ALL = DumpFlag.NON_BLOCK | DumpFlag.ANNOTATE_ROWS
"""All of the log, and not to wait at its end; to MySQL, the 2 is for heartbeats, there are none."""


def events_of(path: Path) -> list[bytes]:
    """A file's events; the description as a source sends it."""
    return [raw for _, _, raw in feeding.events_of(feeding.plain(path.read_bytes()))]


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
    feeding.fill(server)
    return server.rotate()
