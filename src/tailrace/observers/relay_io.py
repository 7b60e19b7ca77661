"""The relay I/O observer: what reads a source's stream and keeps it, observed (WL#4398)."""

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
    """The log is synced, up to and including this event: power may fail."""


@dataclass(slots=True)
class RelayIo:
    """What observers are told with each call (the worklog's ``Binlog_relay_IO_param``).

    One object for the life of a reader, kept up to date by it; observers only read it.
    """

    server_id: int = 0
    """The id under which the reader asks, as a replica."""
    flags: int = 0
    """The flags of the dump command, lower half, as they were last sent."""
    host: str = ""
    user: str = ""
    port: int = 0
    """Of the source that is read now; a socket's path is the ``host``, with port 0."""
    log_name: str = ""
    """The source's log file, without folder."""
    log_pos: int = 0
    """Offset in that file, our own 64-bit count and never a header's 32-bit field.

    ``before_request_transmit``: where reading is to begin (by GTID: 4, and no file name; where the
    reader knows where it was, that). ``after_read_event``: where the event begins that was read.
    ``after_queue_event``: where the event ends that was queued. Artificial events, which lie in
    no file, are read at the place where the stream stands, and not queued.
    """
    connection: ConnectionService | None = None
    """The connection to the source. None at ``thread_start``; at ``thread_stop`` that which was
    last, closed, or None where there was none.
    """


class RelayIoObserver:
    """The base of relay I/O observers: a method for each point; these do nothing.

    All are called in the thread that reads. What a method raises ends the call and the reader
    (`RelayIoDelegate` has the rule).
    """

    def thread_start(self, io: RelayIo) -> None:
        """A reader begins; it has no connection yet."""

    def thread_stop(self, io: RelayIo) -> None:
        """A reader ends, whatever the reason, after its connection was closed: the last call."""

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:  # noqa: ARG002 - for subclasses
        """Connected and registered, before the dump is requested: at each connection anew.

        ``flags`` are those of the command; those to be sent are returned.
        """
        return flags

    def after_read_event(self, io: RelayIo, packet: memoryview) -> memoryview:  # noqa: ARG002
        """A packet of the stream was read: what of it is the event, the rest is to be dropped.

        ``packet`` has no ``00`` byte before it; it is the reader's buffer, valid during the call.
        """
        return packet

    def after_queue_event(self, io: RelayIo, event: memoryview, flags: RelayFlag) -> None:
        """An event was written to the log, and synced where ``flags`` say so.

        ``event`` is whole, header and checksum included, and valid during the call.
        """

    def after_reset_replica(self, io: RelayIo) -> None:
        """The reader forgot its source and what it had read of it (`Receiver.reset`)."""
