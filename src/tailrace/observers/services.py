"""What an observer may do with the connection to a source (WL#4398, part B).

Source: the worklog's ``mysql_net_read``, ``_write`` and ``_flush``; `query` and `kill` stand for
what a plugin of the server has of the client library beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConnectionService(Protocol):
    """A connection to a source, authenticated. Of the thread that reads from it, no other's.

    `read` and `query` are for the time before the dump was requested (`before_request_transmit`);
    afterwards all that comes on the connection is the stream's, and they raise
    LocalProtocolError. `write` and `flush` are for all the time. All raise ConnectionLost where
    the connection is gone, and what the server refuses as ServerError (`query`).
    """

    def read(self) -> bytes:
        """One packet's payload, without header; one of several fragments is joined."""

    def write(self, packet: bytes, sequence: int = 0) -> None:
        """Put a packet with this payload into the write buffer, the header is added. `flush`
        sends it; a full buffer is sent before.
        """

    def flush(self) -> None:
        """Send what the write buffer holds, all of it."""

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        """Run one statement; its rows, none for one that has no result."""

    def get_user_var_int(self, name: str) -> int | None:
        """A user variable of this connection's session (``@name``) as an integer; None for NULL,
        and where it was not set. As `query`.
        """

    def get_user_var_real(self, name: str) -> float | None:
        """The same as a number of double precision."""

    def get_user_var_str(self, name: str) -> str | None:
        """The same as text."""

    def kill(self) -> None:
        """Have the server end this connection's thread, asked for over a second connection.

        Also after the connection was closed. A thread that is gone already is no error.
        """
