"""A server that sends a log of ours under any names that it is told to."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self
from zlib import crc32

from tailrace.closing import Closing
from tailrace.constants import EventFlag, EventType

if TYPE_CHECKING:
    from collections.abc import Sequence

_OK: Final = b"\x00\x00\x00\x02\x00\x00\x00"
_EOF: Final = b"\xfe\x00\x00\x02\x00"
_CAPABILITIES: Final = 0x000FA20D
"""Protocol 4.1, plugins of authentication, and what every server has."""
_DESCRIPTION_FLAGS: Final = 17


@dataclass
class Names:
    """What the server calls its log, each in its place: bytes, as they go over the wire.

    ``rotate`` is what a ROTATE at the log's end names (None: there is none), ``heartbeat`` what a
    heartbeat of type 27 names behind the description (None: none comes), ``listed`` what SHOW
    BINARY LOGS and SHOW BINARY LOG STATUS say.
    """

    first: bytes = b"binlog.000001"
    rotate: bytes | None = None
    heartbeat: bytes | None = None
    listed: bytes = b"binlog.000001"


@dataclass
class NamingServer(Closing):
    """Listens on a port of the loopback, as MySQL 9.7 without passwords; a context manager."""

    events: Sequence[bytes]
    """A log's, with CRC32, the format description first."""
    names: Names = field(default_factory=Names)
    port: int = 0

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    @property
    def url(self) -> str:
        """For `receive` and its like."""
        return f"mysql://root@127.0.0.1:{self.port}/?ssl-mode=DISABLED"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, EOFError):
            _Link(connection, self).run()


class _Link:
    """One connection."""

    def __init__(self, connection: socket.socket, server: NamingServer) -> None:
        self._socket = connection
        self._server = server
        self._number = 0

    def run(self) -> None:
        """Greet, let anybody in, and answer until the other side goes."""
        greeting = struct.pack("<B6sI", 10, b"9.7.0\0", 7) + b"12345678\0"
        greeting += struct.pack("<HBHHB", _CAPABILITIES & 0xFFFF, 45, 2, _CAPABILITIES >> 16, 21)
        self._send(greeting + bytes(10) + b"123456789012\0mysql_native_password\0")
        self._read()
        self._send(_OK)
        while True:
            command = self._read()
            if command[0] == 3:
                self._query(command[1:].decode("utf-8", "replace"))
            elif command[0] in {0x12, 0x1E}:
                self._dump()
            elif command[0] == 1:
                return
            else:
                self._send(_OK)

    def _query(self, sql: str) -> None:
        listed = self._server.names.listed
        if "VERSION()" in sql:
            self._rows([b"9.7.0", b"1700000000.000000", b"77"])
        elif "server_uuid" in sql and sql.startswith("SELECT"):
            self._rows([b"11111111-2222-3333-4444-555555555555"])
        elif "gtid_mode" in sql:
            self._rows([b"OFF"])
        elif "STATUS" in sql:
            self._rows([listed, b"400", b"", b"", b""])
        elif "SHOW BINARY LOGS" in sql:
            self._rows([listed, b"400", b"No"])
        elif "SHOW REPLICAS" in sql:
            self._rows([b"1", b"h", b"3306", b"77", b"u"], rows=0)
        elif "binlog_checksum" in sql and sql.startswith("SELECT"):
            self._rows([b"CRC32"])
        elif sql.startswith("SELECT"):
            self._rows([b""])
        else:
            self._send(_OK)

    def _rows(self, row: list[bytes], rows: int = 1) -> None:
        self._send(bytes([len(row)]))
        for _ in row:
            names = _text(b"def") + _text(b"") * 3 + _text(b"c") * 2
            self._send(names + struct.pack("<BHIBHBH", 12, 45, 1024, 0xFD, 0, 0, 0))
        self._send(_EOF)
        for _ in range(rows):
            self._send(b"".join(map(_text, row)))
        self._send(_EOF)

    def _dump(self) -> None:
        names, events = self._server.names, self._server.events
        start = struct.pack("<Q", 4)
        self._event(EventType.ROTATE, start + names.first, flags=EventFlag.ARTIFICIAL)
        at = 4
        for number, event in enumerate(events):
            at += len(event)
            self._send(b"\0" + event)
            if number == 0 and names.heartbeat is not None:
                self._event(EventType.HEARTBEAT, names.heartbeat, log_pos=at)
        if names.rotate is not None:
            body = start + names.rotate
            self._event(EventType.ROTATE, body, log_pos=at + 23 + len(body))
            self._event(EventType.ROTATE, body, flags=EventFlag.ARTIFICIAL)
            self._send(b"\0" + events[0])
        self._send(_EOF)

    def _event(self, kind: int, body: bytes, *, log_pos: int = 0, flags: int = 0) -> None:
        size = 19 + len(body) + 4
        raw = struct.pack("<IBIIIH", 0, kind, 77, size, log_pos, flags) + body
        self._send(b"\0" + raw + struct.pack("<I", crc32(raw)))

    def _send(self, payload: bytes) -> None:
        head = len(payload).to_bytes(3, "little") + bytes([self._number & 255])
        self._socket.sendall(head + payload)
        self._number += 1

    def _read(self) -> bytes:
        head = self._exactly(4)
        self._number = head[3] + 1
        return self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self._socket.recv(count - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found


def _text(value: bytes) -> bytes:
    """Behind its length, below 65536."""
    if len(value) < 251:
        return bytes([len(value)]) + value
    return b"\xfc" + len(value).to_bytes(2, "little") + value


def events_of(log: bytes) -> list[bytes]:
    """The events of a log file as its server sends them: IN_USE cleared."""
    events, at = [], 4
    while at < len(log):
        size = int.from_bytes(log[at + 9 : at + 13], "little")
        events.append(log[at : at + size])
        at += size
    first = bytearray(events[0])
    first[_DESCRIPTION_FLAGS] &= ~EventFlag.IN_USE & 0xFF
    return [bytes(first), *events[1:]]
