"""The connection service of observers on a PyMySQL connection, also while a stream reads it."""

from __future__ import annotations

import copy
from contextlib import suppress
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any, Final, cast

from tailrace.errors import ConnectionLost, LocalProtocolError, MalformedPacket, ServerError
from tailrace.live.driver import translated
from tailrace.live.sockets import Patience, send
from tailrace.schema.tokens import quoted_name
from tailrace.wire.packets import frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.live.driver import Connection
    from tailrace.live.sockets import Socket

_BUFFER: Final = 16 << 10
"""Bytes that are buffered before a flush sends them."""
_PATIENCE: Final = 30.0
"""Seconds for which a source may leave the bytes that were sent to it unread."""
_NO_SUCH_THREAD: Final = 1094


class NetService:
    """`tailrace.observers.ConnectionService`, created before the connection's dump is requested.

    ``name`` is the source's name in errors. The socket may be blocking, with its own timeout, or
    non-blocking: then a flush waits ``patience`` seconds in total. Nothing else may write to it
    meanwhile, and no other thread may read from it during a write (OpenSSL's rule). A connection
    that cannot be written to is shut down, so that its reader gets to its end.
    """

    def __init__(
        self, connection: Connection[Any], name: str, *, patience: float = _PATIENCE
    ) -> None:
        self._connection = cast("Any", connection)  # its type hints lack what is used here
        if not self._connection.open:
            raise LocalProtocolError(f"the connection to {name} is closed")
        self._socket: Socket = self._connection._sock  # noqa: SLF001 - there is no other way
        self._name = name
        self._patience = patience
        self._buffer = bytearray()
        self._thread = int(self._connection.thread_id())
        self._other = copy.copy(self._connection)
        """A copy to connect again with the same settings; a stream changes the original."""
        self._other._sock = self._other._rfile = None  # noqa: SLF001 - they are the original's

    def read(self) -> bytes:
        """One packet's payload. Raises ServerError for one that is an error."""
        with translated(self._name):
            packet = self._connection._read_packet()  # noqa: SLF001 - as above
        return bytes(packet.get_all_data())

    def write(self, packet: bytes, sequence: int = 0) -> None:
        """Put a packet into the buffer."""
        if len(self._buffer) >= _BUFFER:
            self.flush()
        self._buffer += frame(packet, sequence)

    def flush(self) -> None:
        """Send the buffer. Raises ConnectionLost if the source is gone, or reads nothing."""
        data = bytes(self._buffer)
        self._buffer.clear()
        try:
            patience = Patience()
            patience.allow(self._patience)
            send(self._socket, data, patience)
        except OSError as error:
            with suppress(OSError):
                self._socket.shutdown(SHUT_RDWR)
            raise ConnectionLost(f"{self._name}: cannot be written to: {error}") from error

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        """One statement's rows. Raises ServerError, ConnectionLost."""
        return _rows(self._connection, sql, self._name)

    def get_user_var_int(self, name: str) -> int | None:
        """A session's user variable as an integer."""
        value = self._user_variable(f"CAST(@{quoted_name(name)} AS SIGNED)")
        return None if value is None else int(value)

    def get_user_var_real(self, name: str) -> float | None:
        """A session's user variable as a number of double precision."""
        value = self._user_variable(f"@{quoted_name(name)} + 0e0")
        return None if value is None else float(value)

    def get_user_var_str(self, name: str) -> str | None:
        """A session's user variable as text."""
        value = self._user_variable(f"CAST(@{quoted_name(name)} AS CHAR)")
        return None if value is None else str(value)

    def _user_variable(self, expression: str) -> Any:
        asked = f"SELECT {expression}"
        rows = self.query(asked)
        if len(rows) != 1 or len(rows[0]) != 1:
            raise MalformedPacket(f"{self._name}: {asked} was not answered with one value")
        return rows[0][0]

    def kill(self) -> None:
        """End the server's thread of this connection, over another one."""
        with translated(self._name):
            self._other.connect()
        try:
            _rows(self._other, f"KILL {self._thread}", self._name)
        except ServerError as error:
            if error.code != _NO_SUCH_THREAD:
                raise
        finally:
            self._other.close()


def _rows(connection: Connection[Any], sql: str, name: str) -> Sequence[Sequence[Any]]:
    with translated(name), connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
