"""The semi-synchronous replica: a commit on the source returns when its events are on our disk.

Facts sheet 5; MySQL ``plugin/semisync/semisync_replica*``, MariaDB ``sql/semisync_slave.cc``.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from tailrace.constants import LOG_POS_AT, Flavour
from tailrace.errors import (
    ConnectionLost,
    MalformedPacket,
    SemisyncError,
    ServerError,
)
from tailrace.events.description import flavour_of
from tailrace.live.driver import ServerAnswer
from tailrace.live.server_errors import UNKNOWN_VARIABLE
from tailrace.observers import RelayFlag, RelayIo, RelayIoObserver
from tailrace.position import Position
from tailrace.wire.semisync import Acknowledgement, unwrap

if TYPE_CHECKING:
    from tailrace.observers import ConnectionService

_log: Final = logging.getLogger("tailrace.semisync")

_ENABLED: Final = ("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")
"""The variables of MySQL's plugin, under its current and its old name."""
_SYNCED: Final = int(RelayFlag.SYNCED)
_WRAP: Final = 1 << 32


class SemisyncReplica(RelayIoObserver):
    """Asks each source for semi-synchronous replication and acknowledges what is synced.

    A source without it is read asynchronously, with a warning. Otherwise each packet begins with
    two more bytes, which are removed; a packet without them is a SemisyncError. If the source wants
    an acknowledgement for an event, the event's end position is noted. It is acknowledged when an
    event that ends there or later was queued as synced; one acknowledgement holds for all events
    before it.

    An event's end position is ``io.log_pos`` plus its length in 64 bits; the lower 32 bits are
    replaced by those in the header if it has them (MariaDB has 0 inside a group). The source takes
    what is acknowledged for safe, so the position must agree with its own count.

    `enabled`: whether the current source sends semi-synchronously. `acknowledgements`: how many
    were sent, to all sources; `acknowledged`: the last one. `waiting`: events that wait for their
    acknowledgement.
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
        """The number of events that have to be acknowledged and are not synced yet."""
        return len(self._wanted)

    def thread_start(self, io: RelayIo) -> None:
        """Reset the state: nothing is known of a source yet."""
        del io
        self._forget()

    def thread_stop(self, io: RelayIo) -> None:
        """Kill MariaDB's thread for this connection, as MariaDB's own replica does: it checks the
        connection only when it has something to send, and expects acknowledgements till then.
        """
        if self.enabled and self._mariadb and io.connection is not None:
            try:
                io.connection.kill()
            except (ConnectionLost, ServerError) as error:
                _log.warning("%s: its thread for us could not be killed: %s", _name(io), error)
        self._forget()

    def before_request_transmit(self, io: RelayIo, flags: int) -> int:
        """Ask for semi-synchronous replication, if the source has it. Acknowledgements that the
        last connection did not send are dropped: the source takes the requested position as
        acknowledged.
        """
        self._forget()
        if io.connection is None:
            raise SemisyncError(f"{_name(io)}: there is no connection to ask on")
        asked = "SELECT VERSION()"
        version = ServerAnswer(io.connection.query(asked), 1, server=_name(io), asked=asked).text()
        self._mariadb = flavour_of(version) is Flavour.MARIADB
        if not _offers(io.connection, mariadb=self._mariadb):
            if not self._warned:
                _log.warning(
                    "%s has no semi-synchronous replication: it is read asynchronously, its"
                    " commits do not wait for this replica",
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
        """Remove the two bytes, and note whether the event has to be acknowledged."""
        if not self.enabled:
            return packet
        try:
            wanted, event = unwrap(packet)
        except MalformedPacket as error:
            raise SemisyncError(
                f"{_name(io)} at {io.log_name}:{io.log_pos}: the source ended semi-synchronous"
                f" replication after agreeing to it: {error}"
            ) from error
        if wanted:
            self._wanted.append(Position(io.log_name, _end(io.log_pos, event)))
        return event

    def after_queue_event(self, io: RelayIo, event: memoryview, flags: RelayFlag) -> None:
        """Acknowledge all events that are synced by now."""
        del event
        wanted = self._wanted
        if not wanted or not int(flags) & _SYNCED:
            return
        name, end, last = io.log_name, io.log_pos, None
        while wanted and (
            wanted[0].offset <= end
            if wanted[0].file == name
            else wanted[0] < Position(name, end)  # of another file: slow, and rare
        ):
            last = wanted.popleft()
        if last is not None:
            self._acknowledge(io, last)

    def after_reset_replica(self, io: RelayIo) -> None:
        """Forget what was acknowledged."""
        del io
        self.acknowledgements, self.acknowledged = 0, None

    def _acknowledge(self, io: RelayIo, position: Position) -> None:
        """Send an acknowledgement. The reader handles a lost connection: the position of its next
        request tells the source what is synced.
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
    """Whether a source has semi-synchronous replication, enabled or not, as replicas find out."""
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
    """The end position of an event that begins at ``start``."""
    end = start + len(event)
    low = int.from_bytes(event[LOG_POS_AT : LOG_POS_AT + 4], "little")
    if not low or low == end % _WRAP:
        return end
    true = start - start % _WRAP + low
    return true if true > start else true + _WRAP


def _name(io: RelayIo) -> str:
    return f"{io.user}@{io.host}:{io.port}" if io.port else f"{io.user}@{io.host}"
