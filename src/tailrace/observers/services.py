"""What an observer can do with the connection to a source (WL#4398, part B).

Source: the worklog's ``mysql_net_read``, ``_write`` and ``_flush``. In addition, `query` and `kill`
replace what a plugin of the server has from the client library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConnectionService(Protocol):
    """An authenticated connection to a source. Only the thread that reads from it may use it.

    `read` and `query` can be used before the dump is requested (`before_request_transmit`).
    Afterwards everything that arrives on the connection belongs to the stream, and they raise
    LocalProtocolError. `write` and `flush` can be used at any time. All raise ConnectionLost if the
    connection is lost; `query` raises what the server rejects as ServerError.
    """

    def read(self) -> bytes:
        """One packet's payload, without header; several fragments are joined."""

    def write(self, packet: bytes, sequence: int = 0) -> None:
        """Put a packet with this payload into the write buffer; the header is added. `flush` sends
        it; a full buffer is sent first.
        """

    def flush(self) -> None:
        """Send everything in the write buffer."""

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        """Run one statement and return its rows; none if it has no result."""

    def get_user_var_int(self, name: str) -> int | None:
        """A user variable of this connection's session (``@name``) as an integer; None for NULL,
        and if it was not set. Like `query`.
        """

    def get_user_var_real(self, name: str) -> float | None:
        """The same as a double-precision number."""

    def get_user_var_str(self, name: str) -> str | None:
        """The same as text."""

    def kill(self) -> None:
        """Have the server end this connection's thread, requested over a second connection.

        Also works after the connection was closed. A thread that has already ended is no error.
        """
