"""The relay I/O observer: it observes what reads a source's stream and stores it (WL#4398)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.observers.services import ConnectionService


class RelayFlag(IntFlag):
    """How an event was queued (the worklog's ``Binlog_relay_flags``)."""

    NONE = 0
    SYNCED = 1
    """The log is synced up to and including this event: it survives a power failure."""


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


class RelayIoObserver:
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
