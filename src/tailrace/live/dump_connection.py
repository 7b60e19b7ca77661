"""A PyMySQL connection that a dump has taken over, with the private parts of PyMySQL it needs.

All commands and answers go through a few methods of the connection. From `DumpConnection.take` on
these raise an error, so that nothing else writes into a dump or reads its packets.
``connection.close()`` works as before, and also ends a read that waits in another thread.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tailrace.constants import MAX_EVENT_SIZE, Flavour
from tailrace.errors import ConnectionLost, LocalProtocolError, MalformedPacket, UsageError
from tailrace.events.description import flavour_of
from tailrace.live.driver import Connection, translated
from tailrace.live.sockets import read_exactly
from tailrace.wire.packets import HEADER_SIZE, LARGEST, frame

if TYPE_CHECKING:
    from tailrace.live.sockets import Socket

_LONGEST: Final = MAX_EVENT_SIZE + 16
"""The most bytes of a record: an event, and what a server puts before it."""
_ANNOUNCE: Final = "SET " + ", ".join(
    f"@{name}_binlog_checksum = COALESCE(@source_binlog_checksum, @master_binlog_checksum,"
    " @@GLOBAL.binlog_checksum)"
    for name in ("source", "master")
)
_GUARDED: Final = (
    "_execute_command",
    "_read_packet",
    "_write_bytes",  # its `close` would write while another thread reads, and suppresses this
    "connect",
    "next_result",
    "write_packet",
)


class _Guard:
    """Replaces the guarded methods; it holds no reference to the connection."""

    def __init__(self) -> None:
        self.reason = "a binary log dump runs on this connection: it takes no other command"

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise LocalProtocolError(self.reason)


class _Reader:
    """Replaces the connection's reader, which only the dump may read.

    PyMySQL closes the reader first, and a reader's own `close` waits for a read that is running.
    """

    def __init__(self, reader: Any, sock: Socket) -> None:
        self._reader = reader
        self._sock = sock

    def close(self) -> None:
        """End a read that waits in another thread, then close the reader."""
        _shut_down(self._sock)
        self._reader.close()


def _shut_down(sock: Socket) -> None:
    """End both directions of a socket, which wakes a thread that reads from it."""
    below: Any = getattr(sock, "below", sock)  # under a compressed one
    with suppress(OSError):  # the other side was first, or the socket is closed
        socket.socket.shutdown(below, socket.SHUT_RDWR)  # with TLS, the socket below it


class DumpConnection:
    """A connection as a dump needs it: it sends the command and reads packets.

    Raises LocalProtocolError if the connection is not in the state for a dump; UsageError if it is
    not a connection of PyMySQL.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        if not isinstance(connection, Connection):
            raise UsageError(
                f"a dump needs a connection of PyMySQL, not a {type(connection).__name__}"
            )
        self.connection: Any = connection  # its type hints lack what is used here
        host = f"{connection.host}:{connection.port}"
        self.name = str(self.connection.unix_socket or host)
        """The server's name in errors: host and port, or the socket's path."""
        self._guard = _Guard()
        self._reader: Any = None

    @property
    def version(self) -> str:
        """The server's version, as its greeting says; MariaDB's older ones put 5.5.5- before it."""
        return str(self.connection.server_version).removeprefix("5.5.5-")

    @property
    def is_mariadb(self) -> bool:
        """Whether it is a MariaDB server, by its version."""
        return flavour_of(self.version) is Flavour.MARIADB

    @property
    def is_open(self) -> bool:
        """Whether the connection has its socket."""
        return bool(self.connection.open)

    def check(self) -> None:
        """Raise LocalProtocolError where a command cannot be sent now."""
        if isinstance(taken := vars(self.connection).get(_GUARDED[0]), _Guard):
            raise LocalProtocolError(taken.reason)
        if not self.is_open:
            raise LocalProtocolError(
                f"the connection to {self.name} is not open: connect and authenticate first"
            )
        result = self.connection._result  # noqa: SLF001 - see the file's docstring
        if result is not None and (result.unbuffered_active or result.has_next):
            raise LocalProtocolError(
                "results of the last statement have not been read: read them, or close the cursor"
            )

    def announce_checksum(self) -> None:
        """Tell the server that checksums are understood, if the session has not done so.

        Raises ConnectionLost, and what `server_error` makes of a server's error.
        """
        with translated(self.name):
            self.connection.query(_ANNOUNCE)

    def take(self, payload: bytes) -> None:
        """Send this command, and block all other use of the connection from now on.

        Raises ConnectionLost.
        """
        write, self._reader = self.connection._write_bytes, self.connection._rfile  # noqa: SLF001
        for method in _GUARDED:
            setattr(self.connection, method, self._guard)
        self.connection._rfile = _Reader(self._reader, self.connection._sock)  # noqa: SLF001
        try:
            write(frame(payload))
        except self.connection.OperationalError as error:
            raise ConnectionLost(
                f"{self.name}: the request for the dump was not sent: {error.args[-1]}"
            ) from error

    def release(self, reason: str) -> None:
        """Set the error text for any later use of the connection but closing it."""
        self._guard.reason = reason

    @property
    def socket(self) -> Socket:
        """The connection's outermost socket layer (TLS, compression), with the reader's timeout.

        Raises LocalProtocolError where the connection was closed.
        """
        found: Socket | None = self.connection._sock  # noqa: SLF001 - PyMySQL has no other way
        if found is None:
            raise self._closed()
        timeout = self.connection._read_timeout  # noqa: SLF001
        if found.gettimeout() != timeout:
            found.settimeout(timeout)
            self.connection._current_timeout = timeout  # noqa: SLF001 - newer versions keep it
        return found

    def read(self) -> bytes | bytearray:
        """The next payload, joined from its packets.

        Raises ConnectionLost, after which the connection has no socket any more; MalformedPacket;
        LocalProtocolError where the connection was closed.
        """
        number, size = self._header()
        if size < LARGEST:
            return self._bytes(size)
        whole = bytearray(self._bytes(size))
        while size == LARGEST:
            after, size = self._header()
            if after != (number + 1) & 0xFF:
                self.drop()
                raise MalformedPacket(
                    f"{self.name}: packet {after} does not continue packet {number}, after "
                    f"{len(whole)} bytes of a record"
                )
            number = after
            whole += self._bytes(size)
            if len(whole) > _LONGEST:
                self.drop()
                raise MalformedPacket(f"{self.name}: a record of more than {MAX_EVENT_SIZE} bytes")
        return whole

    def _header(self) -> tuple[int, int]:
        """Sequence number and size of the next packet."""
        head = self._bytes(HEADER_SIZE)
        return head[3], int.from_bytes(head[:3], "little")

    def _bytes(self, size: int) -> bytes:
        try:
            data = read_exactly(self._reader, size, self.name, self.socket.gettimeout())
        except Exception as error:
            if self._was_closed:
                raise self._closed() from error
            self.drop()
            raise
        except BaseException:
            self.drop()  # inside a packet: what follows cannot be parsed
            raise
        if self._was_closed:  # a TLS socket gives bytes that it has not decrypted meanwhile
            raise self._closed()
        return data

    @property
    def _was_closed(self) -> bool:
        """Whether the connection was closed, maybe by another thread just now."""
        return not self.is_open or bool(self.connection._closed)  # noqa: SLF001 - as above

    def _closed(self) -> LocalProtocolError:
        return LocalProtocolError(f"the connection to {self.name} was closed")

    def shut_down(self) -> None:
        """End both directions of the socket, which wakes a thread that reads from it."""
        found = self.connection._sock  # noqa: SLF001
        if found is not None:
            _shut_down(found)

    def drop(self) -> None:
        """Close the socket; the connection itself can still be closed."""
        self.connection._force_close()  # noqa: SLF001
