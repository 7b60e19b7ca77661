"""Events made by hand, from the layouts of the format's documentation."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

from tailrace.constants import MAGIC, EventType
from tailrace.events import DecodeContext, Event

if TYPE_CHECKING:
    from pathlib import Path

MYSQL_ARRAY = bytes.fromhex(
    "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
)
"""The post-header lengths that a MySQL 9.7.4 wrote."""
MARIADB_ARRAY = (
    bytes([56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 228, 0, 4, 26, 8])
    + bytes([0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10, 0, 0, 0, 0, 0, 0, 10, 10, 10])
    + bytes(119)
    + bytes([4, 19, 4, 0, 13, 8, 8, 8, 10, 10, 10])
)
"""Those that a MariaDB 11.8 wrote."""


def raw_event(
    code: int,
    body: bytes,
    *,
    checksum: bool = False,
    timestamp: int = 1_700_000_000,
    server_id: int = 1,
    log_pos: int = 0,
    flags: int = 0,
) -> bytes:
    """A whole event."""
    length = 19 + len(body) + 4 * checksum
    head = struct.pack("<IBIIIH", timestamp, code, server_id, length, log_pos, flags)
    raw = head + body
    return raw + struct.pack("<I", zlib.crc32(raw)) if checksum else raw


def raw_format(
    version: str = "9.7.4",
    array: bytes = MYSQL_ARRAY,
    *,
    algorithm: int | None = 0,
    created: int = 0,
    flags: int = 0,
    log_pos: int | None = None,
) -> bytes:
    """A format description event; without an algorithm one of a server that knew no checksums."""
    body = struct.pack("<H50sIB", 4, version.encode(), created, 19) + array
    if log_pos is None:
        log_pos = 4 + 19 + len(body) + (0 if algorithm is None else 5)
    if algorithm is None:
        return raw_event(EventType.FORMAT_DESCRIPTION, body, flags=flags, log_pos=log_pos)
    body += bytes([algorithm])
    raw = raw_event(
        EventType.FORMAT_DESCRIPTION, body, checksum=True, flags=flags & ~1, log_pos=log_pos
    )
    return raw[:17] + struct.pack("<H", flags) + raw[19:]


def context(flavour: str = "mysql", *, checksums: bool = False) -> DecodeContext:
    """A context that has read a format description."""
    made = DecodeContext()
    if flavour == "mysql":
        made.decode(raw_format(algorithm=int(checksums)))
    else:
        version = "11.8.9-MariaDB-log"
        made.decode(raw_format(version, MARIADB_ARRAY, algorithm=int(checksums)))
    return made


def checked(made: DecodeContext, raw: bytes, **place: Any) -> Event:
    """The event of these bytes, all of which is decoded: what is wrong in it is raised."""
    event = made.decode(raw, **place)
    event.check()
    return event


def unread(code: int, body: bytes, flavour: str = "mysql", **header: int) -> Event:
    """An event's object after a format description of the flavour; its body is not decoded yet."""
    return context(flavour).decode(raw_event(code, body, **header), file="binlog.000001", offset=4)


def decode(code: int, body: bytes, flavour: str = "mysql", **header: int) -> Event:
    """The same, all decoded: what is wrong in it is raised."""
    event = unread(code, body, flavour, **header)
    event.check()
    return event


def table_map_body(
    columns: bytes,
    metadata: bytes = b"",
    optional: bytes = b"",
    *,
    table_id: int = 7,
    nullable: bytes | None = None,
    flags: int = 1,
) -> bytes:
    """A table map's body, of shop.orders."""
    bits = bytes((len(columns) + 7) // 8) if nullable is None else nullable
    return (
        table_id.to_bytes(6, "little")
        + struct.pack("<H", flags)
        + b"\x04shop\0\x06orders\0"
        + bytes([len(columns)])
        + columns
        + bytes([len(metadata)])
        + metadata
        + bits
        + optional
    )


def query_body(
    sql: bytes, status: bytes = b"", database: bytes = b"shop", extra: bytes = b""
) -> bytes:
    """A query's body; ``extra`` lies behind its fixed part."""
    fixed = struct.pack("<IIBHH", 9, 3, len(database), 1062, len(status))
    return fixed + extra + status + database + b"\0" + sql


def write(path: Path, *events: bytes, magic: bytes = MAGIC) -> Path:
    """A log file of these events."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(magic + b"".join(events))
    return path


def log(folder: Path, number: int, *events: bytes, base: str = "binlog") -> Path:
    """The numbered log file of these events, after a format description."""
    return write(folder / f"{base}.{number:06}", raw_format(), *events)
