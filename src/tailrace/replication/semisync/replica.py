"""The semi-synchronous replica: a commit on the source returns when its events are on our disk.

Facts sheet 5; MySQL ``plugin/semisync/semisync_replica*``, MariaDB ``sql/semisync_slave.cc``.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from tailrace.errors import (
    ConnectionLost,
    MalformedPacket,
    SemisyncError,
    ServerError,
)
from tailrace.live.answers import ServerAnswer
from tailrace.live.refusals import UNKNOWN_VARIABLE
from tailrace.observers import RelayFlag, RelayIo, RelayIoObserver
from tailrace.position import Position
from tailrace.wire.semisync import Acknowledgement, unwrap

if TYPE_CHECKING:
    from tailrace.observers import ConnectionService

_log: Final = logging.getLogger("tailrace.semisync")

_ENABLED: Final = ("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")
"""The variables of MySQL's plugin, of the present and of the old name."""
_LOG_POS_AT: Final = 13
_SYNCED: Final = int(RelayFlag.SYNCED)
_WRAP: Final = 1 << 32


class SemisyncReplica(RelayIoObserver):
    """Asks each source for semi-synchronous replication and acknowledges what is synced.

    A source without it is read as ever, with a warning. Otherwise each packet comes with two
    bytes, which are taken off; a packet without them is a SemisyncError. An event with which the
    source wants an acknowledgement is noted with the place where it ends, and acknowledged once
    an event there or behind was queued as synced; one acknowledgement stands for all before it.

    Where an event ends is ``io.log_pos`` and its length in 64 bits, the lower 32 set right by the
    header's own where it has one (MariaDB has 0 inside a group): the source takes what is
    acknowledged for safe, so this must be its own count.

    `enabled`: whether the source of now sends semi-synchronously. `acknowledgements`: how many
    were sent, to all sources; `acknowledged`: the last. `waiting`: events that wait for theirs.
    """

    def __init__(self) -> None:
        self.enabled = False
        self.acknowledgements = 0
        self.acknowledged: Position | None = None
        self._mariadb = False
        self._warned = False
        self._wanted: deque[Position] = deque()

    @property
    def waiting(self) -> int:
        """How many events were read that are to be acknowledged and are not yet synced."""
        return len(self._wanted)

    def thread_start(self, io: RelayIo) -> None:
        """Nothing is known of a source yet."""
        del io
        self._forget()

    def thread_stop(self, io: RelayIo) -> None:
        """MariaDB's source looks at a connection only when it has something to send, and counts on
        its acknowledgements till then: its thread is killed, as MariaDB's own replica does.
        """
        if self.enabled and self._mariadb and io.connection is not None:
            try:
                io.connection.kill()
            except (ConnectionLost, ServerError) as error:
                _log.warning("%s: its thread for us could not be ended: %s", _name(io), error)
        self._forget()

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:
        """Ask for it, where the source has it. What the last connection left unsaid is void: the
        source takes the place from which it is asked for events as acknowledged.
        """
        self._forget()
        if io.connection is None:
            raise SemisyncError(f"{_name(io)}: there is no connection to ask on")
        asked = "SELECT VERSION()"
        version = ServerAnswer(io.connection.query(asked), 1, server=_name(io), asked=asked).text()
        self._mariadb = "mariadb" in version.lower()
        if not _offers(io.connection, mariadb=self._mariadb):
            if not self._warned:
                _log.warning(
                    "%s has no semi-synchronous replication: it is read asynchronously, its"
                    " commits do not wait for us",
                    _name(io),
                )
            self._warned = True
            return flags
        io.connection.query(
            "SET @rpl_semi_sync_slave = 1"
            if self._mariadb
            else "SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1"
        )
        self.enabled, self._warned = True, False
        _log.info("%s is read semi-synchronously", _name(io))
        return flags

    def after_read_event(self, io: RelayIo, packet: memoryview) -> memoryview:
        """Take the two bytes off, and note what is to be acknowledged."""
        if not self.enabled:
            return packet
        try:
            wanted, event = unwrap(packet)
        except MalformedPacket as error:
            raise SemisyncError(
                f"{_name(io)} at {io.log_name}:{io.log_pos}: semi-synchronous replication was"
                f" agreed on, and broken off by the source: {error}"
            ) from error
        if wanted:
            self._wanted.append(Position(io.log_name, _end(io.log_pos, event)))
        return event

    def after_queue_event(self, io: RelayIo, event: memoryview, flags: RelayFlag) -> None:
        """Acknowledge what is synced by now."""
        del event
        wanted = self._wanted
        if not wanted or not int(flags) & _SYNCED:
            return
        name, end, last = io.log_name, io.log_pos, None
        while wanted and (
            wanted[0].offset <= end
            if wanted[0].file == name
            else wanted[0] < Position(name, end)  # of another file: dear, and seldom
        ):
            last = wanted.popleft()
        if last is not None:
            self._acknowledge(io, last)

    def after_reset_replica(self, io: RelayIo) -> None:
        """What was acknowledged is forgotten."""
        del io
        self.acknowledgements, self.acknowledged = 0, None

    def _acknowledge(self, io: RelayIo, position: Position) -> None:
        """A connection that is gone is the reader's to find out and to mend: what is synced is
        known to the source by the place from which it is asked next.
        """
        if io.connection is None:
            raise SemisyncError(f"{_name(io)}: there is no connection to acknowledge on")
        try:
            io.connection.write(Acknowledgement(position.file, position.offset).encode())
            io.connection.flush()
        except ConnectionLost as error:
            _log.warning("%s was not acknowledged: %s", position, error)
            return
        self.acknowledgements += 1
        self.acknowledged = position

    def _forget(self) -> None:
        self.enabled = False
        self._wanted.clear()


def _offers(connection: ConnectionService, *, mariadb: bool) -> bool:
    """Whether a source has semi-synchronous replication, enabled or not: as replicas ask."""
    if mariadb:
        return bool(connection.query(f"SHOW VARIABLES LIKE '{_ENABLED[1]}'"))
    for name in _ENABLED:
        try:
            connection.query(f"SELECT @@global.{name}")
        except ServerError as error:
            if error.code != UNKNOWN_VARIABLE:
                raise
        else:
            return True
    return False


def _end(start: int, event: memoryview) -> int:
    """Where an event ends that begins at ``start``."""
    end = start + len(event)
    low = int.from_bytes(event[_LOG_POS_AT : _LOG_POS_AT + 4], "little")
    if not low or low == end % _WRAP:
        return end
    true = start - start % _WRAP + low
    return true if true > start else true + _WRAP


def _name(io: RelayIo) -> str:
    return f"{io.user}@{io.host}:{io.port}" if io.port else f"{io.user}@{io.host}"
