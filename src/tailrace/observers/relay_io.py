"""Relay I/O observers: they observe what reads a source's stream and stores it (WL#4398).

What an observer can do with the connection to the source is the worklog's part B: its
``mysql_net_read``, ``_write`` and ``_flush``, and getters of user variables. In addition, `query`
and `kill` replace what a plugin of the server has from the client library.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tailrace.observers.delegate import Delegate, Observer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RelayFlag(IntFlag):
    """How an event was queued (the worklog's ``Binlog_relay_flags``)."""

    NONE = 0
    SYNCED = 1
    """The log is synced up to and including this event: it survives a power failure."""


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


@dataclass(slots=True)
class RelayIo:
    """The state that observers receive with each call (the worklog's ``Binlog_relay_IO_param``).

    There is one object for the life of a reader, which keeps it up to date; observers only read it.
    """

    server_id: int = 0
    """The server id that the reader uses as a replica."""
    flags: int = 0
    """The flags of the dump command, lower half, as last sent."""
    host: str = ""
    user: str = ""
    port: int = 0
    """The source being read; for a Unix socket, its path is the ``host`` and the port is 0."""
    log_name: str = ""
    """The source's log file, without directory."""
    log_pos: int = 0
    """Offset in that file: our own 64-bit count, never a header's 32-bit field.

    ``before_request_transmit``: where reading will begin (by GTID: 4, and no file name; or the
    reader's last position if it is known). ``after_read_event``: where the event that was read
    begins. ``after_queue_event``: where the event that was queued ends. Artificial events are in no
    file: they are read at the stream's current position, and not queued.
    """
    connection: ConnectionService | None = None
    """The connection to the source. None at ``thread_start``; at ``thread_stop`` the last
    connection, closed, or None if there was none.
    """


class RelayIoObserver(Observer):
    """The base of relay I/O observers: a method for each point; these methods do nothing.

    All are called in the thread that reads. An error that a method raises ends the call and the
    reader (`RelayIoDelegate` has the rule).
    """

    def thread_start(self, io: RelayIo) -> None:
        """A reader starts; it has no connection yet."""

    def thread_stop(self, io: RelayIo) -> None:
        """A reader ends, whatever the reason, after its connection was closed: the last call."""

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:  # noqa: ARG002 - for subclasses
        """Connected and registered, before the dump is requested: called for each connection.

        ``flags`` are the command's; the method returns the flags to send.
        """
        return flags

    def after_read_event(self, io: RelayIo, packet: memoryview) -> memoryview:  # noqa: ARG002
        """A packet of the stream was read: return the part that is the event; the rest is dropped.

        ``packet`` has no ``00`` byte before it. It is the reader's buffer, valid during the call.
        """
        return packet

    def after_queue_event(self, io: RelayIo, event: memoryview, flags: RelayFlag) -> None:
        """An event was written to the log, and synced if ``flags`` say so.

        ``event`` is complete, with header and checksum, and valid during the call.
        """

    def after_reset_replica(self, io: RelayIo) -> None:
        """The reader forgot its source and what it had read from it (`Receiver.reset`)."""


class RelayIoDelegate(Delegate[RelayIoObserver]):
    """Calls relay I/O observers. Each method calls that of every observer, in order.

    The rule for an observer that raises: in ``thread_start``, ``before_request_transmit``,
    ``after_read_event`` and ``after_queue_event`` the first error ends the call. No other observer
    is called, and the reader ends with its state intact. In ``thread_stop`` and
    ``after_reset_replica`` all observers are called. The first error is raised after them, with a
    note for each other one. What is raised is an ObserverError that names the observer and has the
    original error as its cause; a TailraceError (such as SemisyncError, ConnectionLost) is raised
    as it is. Returning a value of the wrong type for the point is also such an error.
    """

    kind = RelayIoObserver
    points: ClassVar[Mapping[str, object]] = {
        point: getattr(RelayIoObserver, point)
        for point in (
            "thread_start",
            "thread_stop",
            "before_request_transmit",
            "after_read_event",
            "after_queue_event",
            "after_reset_replica",
        )
    }

    def thread_start(self, io: RelayIo) -> None:
        """A reader starts, before the first connection."""
        self._first_ends("thread_start", io)

    def thread_stop(self, io: RelayIo) -> None:
        """A reader ends, after its connection was closed."""
        self._all_called("thread_stop", io)

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:
        """Before the dump is requested: the flags; each observer receives the previous one's
        result.
        """
        return self._handed_on("before_request_transmit", io, flags, int, "the flags")

    def after_read_event(self, io: RelayIo, packet: memoryview) -> memoryview:
        """A packet was read: the event in it; each observer receives the previous one's result."""
        return self._handed_on("after_read_event", io, packet, memoryview, "the event")

    def after_queue_event(self, io: RelayIo, event: memoryview, flags: RelayFlag) -> None:
        """An event was written to the log."""
        self._first_ends("after_queue_event", io, event, flags)

    def after_reset_replica(self, io: RelayIo) -> None:
        """The reader forgot its source."""
        self._all_called("after_reset_replica", io)
