"""The semi-synchronous source: a commit returns when enough replicas have stored its events.

It is an observer of transactions, log storage and dumps: the same object is given to the log that
is written (`tailrace.create`) and to what serves it to replicas. Neither knows semi-synchronous
replication.

Facts sheet 5; MySQL ``plugin/semisync/semisync_source*``.
"""

from __future__ import annotations

import heapq
import logging
import selectors
from collections import deque
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import count
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final

from tailrace.constants import CHECKSUM_SIZE, EventFlag, EventType
from tailrace.errors import ConnectionLost, MalformedPacket, UsageError
from tailrace.log_name import file_number
from tailrace.observers import LogStorageObserver, TransactionObserver, TransmitObserver
from tailrace.position import Position
from tailrace.wire.semisync import Acknowledgement, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.observers import (
        LogStorageFlag,
        LogStorageIo,
        ReplicaService,
        TransactionIo,
        TransmitIo,
    )

_log: Final = logging.getLogger("tailrace.semisync")

ASKS: Final = ("rpl_semi_sync_replica", "rpl_semi_sync_slave")
"""The user variables by which a replica asks for semi-synchronous replication: 1."""
_HEADER: Final = wrap(b"", False)
_FLAG_AT: Final = 1
_TYPE_AT: Final = 4
_FLAGS_AT: Final = 17
_ARTIFICIAL: Final = int(EventFlag.ARTIFICIAL)
_HEARTBEATS: Final = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_MAY_END: Final = frozenset(
    {
        EventType.QUERY,
        EventType.QUERY_COMPRESSED,
        EventType.XID,
        EventType.XA_PREPARE,
        EventType.TRANSACTION_PAYLOAD,
    }
)
"""The types of events that transactions usually end with."""
_BEGIN: Final = b"BEGIN"
_BEGIN_SIZE: Final = len(_BEGIN) + CHECKSUM_SIZE
_LOOKS: Final = 0.5
"""Seconds after which bytes are looked for that TLS has decrypted already."""
_QUIT: Final = b"\x01"
_COM_QUIT_OR_NOTHING: Final = frozenset({b"", _QUIT})

_NEAR: Final = 1 << 18
"""Bytes that are sent before an acknowledgement is asked for, if they are there already."""

Place = tuple[int, int]
"""A position that can be compared: the file's number, and the offset."""
_START: Final[Place] = (0, 0)
_LONGEST_WAIT: Final = 4294967.295
"""Seconds; MySQL's limit of ``rpl_semi_sync_source_timeout``."""


class WaitPoint(StrEnum):
    """Where a commit waits (``rpl_semi_sync_source_wait_point``)."""

    AFTER_SYNC = "after_sync"
    """Before any observer is told that the transaction is committed."""
    AFTER_COMMIT = "after_commit"
    """After those that were added before this one were told so."""


@dataclass(slots=True)
class SemisyncStatus:
    """MySQL's status variables ``Rpl_semi_sync_source_*``; times are in microseconds."""

    clients: int = 0
    """Replicas that asked for it and are connected."""
    status: bool = True
    """Whether commits wait: false after a time-out, until a replica has caught up."""
    yes_tx: int = 0
    """Transactions that enough replicas acknowledged in time."""
    no_tx: int = 0
    """Transactions that returned without that."""
    no_times: int = 0
    """How often it was switched off."""
    tx_waits: int = 0
    tx_wait_time: int = 0
    tx_avg_wait_time: int = 0
    """Waits of transactions, their time in total and on average."""
    net_waits: int = 0
    """Acknowledgements that were asked for."""
    net_wait_time: int = 0
    net_avg_wait_time: int = 0
    """Always 0, as in MySQL since 5.7: no dump waits for an acknowledgement."""
    wait_sessions: int = 0
    """Transactions that wait now."""
    wait_pos_backtraverse: int = 0
    """Waits for a position before one that another transaction waited for already."""
    timefunc_failures: int = 0
    """Always 0: the clock does not fail."""

    def variables(self) -> dict[str, int | bool]:
        """By the names that SHOW STATUS has."""
        return {
            f"Rpl_semi_sync_source_{each.name}": getattr(self, each.name) for each in fields(self)
        }


@dataclass(slots=True)
class SemisyncReplicaState:
    """A replica that asked for semi-synchronous replication, and is connected."""

    server_id: int
    user: str
    host: str
    port: int
    acknowledgements: int = 0
    """How many came on this connection."""
    acknowledged: Position | None = None
    """The last one: up to there the replica has stored all events."""


class _Replica:
    """A dump to such a replica."""

    def __init__(self, state: SemisyncReplicaState, connection: ReplicaService) -> None:
        self.state = state
        self.connection = connection
        self.sent = _START
        """Where the last event of a file ends that was sent to it."""
        self.place = _START
        """Up to where it has stored all events."""
        self.asked = False
        """Whether an acknowledgement was asked for with the current packet."""
        self.until = _START
        """The transaction whose acknowledgement is for those before it, too."""


class SemisyncSource(TransactionObserver, LogStorageObserver, TransmitObserver):
    """Has commits wait for replicas that ask for semi-synchronous replication.

    ``timeout`` is in seconds: a commit that has waited for so long returns, and no further one
    waits (the log is replicated asynchronously) until a replica has acknowledged the newest
    transaction.
    ``replicas`` is the number of replicas, told apart by their server ids, that have to acknowledge
    a transaction. Without ``wait_no_replica``, commits do not wait while fewer are connected.
    Raises UsageError.

    Any thread may read `status` and `replicas`.
    """

    interface_version = 2

    def __init__(
        self,
        *,
        wait_point: WaitPoint | str = WaitPoint.AFTER_SYNC,
        timeout: float = 10.0,
        replicas: int = 1,
        wait_no_replica: bool = True,
    ) -> None:
        try:
            self.wait_point = WaitPoint(wait_point)
        except ValueError:
            known = ", ".join(WaitPoint)
            raise UsageError(f"wait_point: {wait_point!r} is none of {known}") from None
        if not isinstance(timeout, (int, float)) or not 0 < timeout <= _LONGEST_WAIT:
            raise UsageError(f"timeout: {timeout!r} is not a time: give a number of seconds")
        if not isinstance(replicas, int) or replicas < 1:
            raise UsageError(f"replicas: {replicas!r} is no number of replicas")
        if not isinstance(wait_no_replica, bool):
            raise UsageError(f"wait_no_replica: {wait_no_replica!r} is neither True nor False")
        self.timeout = timeout
        self.needed = replicas
        self.wait_no_replica = wait_no_replica
        self._lock = Lock()
        self._status = SemisyncStatus()
        self._newest: Place | None = None
        """The end of the newest transaction."""
        self._acknowledged = _START
        """Up to where enough replicas have stored all events."""
        self._waited_for = _START
        self._ends: deque[Place] = deque()
        self._open: set[Place] = set()
        """The ends of transactions that are not acknowledged yet, in order, and as a set."""
        self._waiting: list[tuple[Place, int, Lock]] = []
        self._number = count()
        self._stored_by: dict[int, Place] = {}
        """Up to where each replica has stored all events, by server id, even if it is gone."""
        self._dumps: dict[int, _Replica] = {}
        self._acknowledgements = _Acknowledgements(self._acknowledge)

    # --- what it is ------------------------------------------------------------------------------

    @property
    def status(self) -> SemisyncStatus:
        """The counters, as they are now: a copy."""
        with self._lock:
            now = self._status
            now.wait_sessions = len(self._waiting)
            now.clients = len(self._dumps)
            now.tx_avg_wait_time = now.tx_wait_time // now.tx_waits if now.tx_waits else 0
            return SemisyncStatus(*(getattr(now, each.name) for each in fields(now)))

    @property
    def replicas(self) -> list[SemisyncReplicaState]:
        """The connected replicas that asked for it; copies."""
        with self._lock:
            found = [each.state for each in self._dumps.values()]
            return [
                SemisyncReplicaState(*(getattr(each, field.name) for field in fields(each)))
                for each in found
            ]

    def system_variables(self) -> dict[str, int | str | bool]:
        """MySQL's and MariaDB's: by them a replica finds out that it may ask."""
        both: dict[str, int | str | bool] = {
            "enabled": True,
            "timeout": int(self.timeout * 1000),
            "wait_point": str(self.wait_point).upper(),
        }
        mysql = {"wait_for_replica_count": self.needed, "wait_no_replica": self.wait_no_replica}
        mariadb = {"wait_no_slave": self.wait_no_replica}
        return {
            **{f"rpl_semi_sync_source_{name}": value for name, value in (both | mysql).items()},
            **{f"rpl_semi_sync_master_{name}": value for name, value in (both | mariadb).items()},
        }

    def status_variables(self) -> dict[str, int | str | bool]:
        """MySQL's ``Rpl_semi_sync_source_*``."""
        return dict(self.status.variables())

    # --- transactions ----------------------------------------------------------------------------

    def after_flush(
        self, io: LogStorageIo, file: str, position: int, flags: LogStorageFlag
    ) -> None:
        """Note the end of a transaction: replicas are asked to acknowledge it."""
        del io, flags
        place = _place(file, position)
        with self._lock:
            self._newest = place
            if self._status.status and place > self._acknowledged:
                self._ends.append(place)
                self._open.add(place)

    def after_sync(self, io: LogStorageIo, file: str, position: int) -> None:
        """Wait, if this is the wait point."""
        del io
        if self.wait_point is WaitPoint.AFTER_SYNC:
            self._wait(file, position)

    def after_commit(self, io: TransactionIo) -> None:
        """Wait, if this is the wait point."""
        if self.wait_point is WaitPoint.AFTER_COMMIT:
            self._wait(io.file, io.position)

    def after_rollback(self, io: TransactionIo) -> None:
        """Wait for a rollback that was logged, if this is the wait point."""
        if self.wait_point is WaitPoint.AFTER_COMMIT and io.file:
            self._wait(io.file, io.position)

    def _wait(self, file: str, position: int) -> None:
        place, begun = _place(file, position), monotonic()
        with self._lock:
            status = self._status
            if place <= self._acknowledged:
                status.yes_tx += 1
                return
            self._check_replicas()
            if not status.status:
                status.no_tx += 1
                return
            if place < self._waited_for:
                status.wait_pos_backtraverse += 1
            self._waited_for = max(self._waited_for, place)
            woken = Lock()
            woken.acquire()
            waiter = (place, next(self._number), woken)
            heapq.heappush(self._waiting, waiter)
        was_woken = False
        try:
            was_woken = woken.acquire(timeout=self.timeout)
        finally:
            with self._lock:
                if not was_woken and waiter in self._waiting:
                    self._waiting.remove(waiter)
                    heapq.heapify(self._waiting)
                else:
                    was_woken = True
                status = self._status
                status.tx_waits += 1
                status.tx_wait_time += int((monotonic() - begun) * 1_000_000)
                if place <= self._acknowledged:
                    status.yes_tx += 1
                else:
                    status.no_tx += 1
                    if not was_woken:
                        self._switch_off(
                            f"no acknowledgement of {file}:{position} in {self.timeout:g} s"
                        )

    def _check_replicas(self) -> None:
        """Switch off while there are too few replicas, if that is asked for."""
        if not self.wait_no_replica and len(self._server_ids()) < self.needed:
            self._switch_off(f"fewer than {self.needed} replicas are connected")

    def _server_ids(self) -> set[int]:
        return {each.state.server_id for each in self._dumps.values()}

    def _switch_off(self, why: str) -> None:
        """Have no commit wait any more, until a replica has caught up."""
        if not self._status.status:
            return
        self._status.status = False
        self._status.no_times += 1
        self._ends.clear()
        self._open.clear()
        _log.warning("semi-synchronous replication is switched off: %s", why)
        waiting, self._waiting = self._waiting, []
        for _, _, woken in waiting:
            woken.release()

    # --- dumps -----------------------------------------------------------------------------------

    def transmit_start(self, io: TransmitIo, file: str, position: int) -> bool:
        """Count the replica, if it asked for semi-synchronous replication. What it asks for begins
        after what it has stored.
        """
        connection = io.connection
        if connection is None or not _asks(connection):
            return False
        state = SemisyncReplicaState(
            io.server_id, connection.user, connection.host, connection.port
        )
        replica = _Replica(state, connection)
        with self._lock:
            self._dumps[id(io)] = replica
            if file and self._newest is not None:
                self._stored(replica, min(_place(file, position), self._newest))
        self._acknowledgements.add(replica)
        _log.info("replica %d at %s:%d is semi-synchronous", io.server_id, state.host, state.port)
        return True

    def transmit_stop(self, io: TransmitIo) -> None:
        """The replica is gone."""
        with self._lock:
            replica = self._dumps.pop(id(io), None)
            self._check_replicas()
        if replica is not None:
            self._acknowledgements.remove(replica)

    def reserve_header(self, io: TransmitIo) -> bytes:
        """Two bytes: EF, and whether an acknowledgement is wanted."""
        del io
        return _HEADER

    def before_send_event(
        self, io: TransmitIo, header: memoryview, event: memoryview, file: str, position: int
    ) -> None:
        """Ask for an acknowledgement at the end of a transaction that has none yet.

        Of transactions that follow one another at once, the last one's is for all of them.

        A dump may be ahead of `after_flush`, as bytes can be read before they are synced: then each
        event that may end a transaction is asked for.
        """
        replica = self._dumps[id(io)]
        code = event[_TYPE_AT]
        if code in _HEARTBEATS or event[_FLAGS_AT] & _ARTIFICIAL:
            replica.asked = False
            return
        place = replica.sent = _place(file, position)
        newest = self._newest
        if newest is None or place > newest:
            wanted = code in _MAY_END and _BEGIN not in bytes(event[-_BEGIN_SIZE:])
        elif self._status.status:
            wanted = place in self._open and place > replica.place
            if wanted:
                if place > replica.until:
                    near = newest[0] == place[0] and newest[1] - place[1] <= _NEAR
                    replica.until = newest if near else place
                wanted = place == replica.until
        else:
            wanted = place == newest
        replica.asked = wanted
        if wanted:
            header[_FLAG_AT] = 1

    def after_send_event(self, io: TransmitIo, event: memoryview) -> None:
        """Send it now, if an acknowledgement is wanted. After it, a replica expects packets to be
        numbered from 1 again.
        """
        del event
        replica = self._dumps[id(io)]
        if replica.asked:
            replica.connection.flush()
            replica.connection.sequence = 1
            with self._lock:
                self._status.net_waits += 1

    def after_reset_source(self, io: TransmitIo) -> None:
        """Forget all positions, and reset the counters."""
        del io
        with self._lock:
            status = self._status.status
            self._status = SemisyncStatus(status=status)
            self._newest, self._acknowledged, self._waited_for = None, _START, _START
            self._ends.clear()
            self._open.clear()
            self._stored_by.clear()
            for replica in self._dumps.values():
                replica.place = replica.sent = replica.until = _START

    # --- acknowledgements ------------------------------------------------------------------------

    def _acknowledge(self, replica: _Replica, acknowledgement: Acknowledgement) -> None:
        state = replica.state
        file, position = acknowledgement.file, acknowledgement.position
        place = _place(file, position)
        with self._lock:
            if place > replica.sent:
                _log.warning(
                    "replica %d acknowledges %s:%d, which was not sent to it: this is ignored",
                    state.server_id,
                    file,
                    position,
                )
                return
            state.acknowledgements += 1
            state.acknowledged = Position(file, position)
            self._stored(replica, place)

    def _stored(self, replica: _Replica, place: Place) -> None:
        """A replica has stored all events up to a place: wake the transactions that wait for it."""
        replica.place = max(replica.place, place)
        server_id, known = replica.state.server_id, self._stored_by
        known[server_id] = max(known.get(server_id, _START), replica.place)
        if len(known) < self.needed:
            return
        enough = heapq.nlargest(self.needed, known.values())[-1]
        if enough <= self._acknowledged:
            return
        self._acknowledged = enough
        while self._ends and self._ends[0] <= enough:
            self._open.discard(self._ends.popleft())
        while self._waiting and self._waiting[0][0] <= enough:
            heapq.heappop(self._waiting)[2].release()
        if not self._status.status and self._newest is not None and enough >= self._newest:
            self._status.status = True
            _log.info("semi-synchronous replication is switched on: its replicas have caught up")


class _Acknowledgements:
    """Reads the acknowledgements of all replicas, in one thread, which runs while there are any."""

    def __init__(self, take: Callable[[_Replica, Acknowledgement], None]) -> None:
        self._take = take
        self._lock = Lock()
        self._replicas: dict[_Replica, int] = {}
        self._selector = selectors.DefaultSelector()
        self._thread: Thread | None = None

    def add(self, replica: _Replica) -> None:
        number = replica.connection.fileno()
        with self._lock:
            self._replicas[replica] = number
            self._selector.register(number, selectors.EVENT_READ, replica)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="semisync-acks", daemon=True)
                self._thread.start()

    def remove(self, replica: _Replica) -> None:
        with self._lock:
            number = self._replicas.pop(replica, None)
            if number is not None:
                self._selector.unregister(number)

    def _run(self) -> None:
        while True:
            ready = [key.data for key, _ in self._selector.select(_LOOKS)]
            with self._lock:
                if not self._replicas:
                    self._thread = None
                    return
                others = [] if ready else [*self._replicas]
            for replica in ready or [each for each in others if _pending(each)]:
                try:
                    while (payload := replica.connection.poll()) is not None:
                        self._read(replica, payload)
                        if not _pending(replica):
                            break  # the selector says when there is more
                except (ConnectionLost, MalformedPacket) as error:
                    _log.info("replica %d: %s", replica.state.server_id, error)
                    self.remove(replica)

    def _read(self, replica: _Replica, payload: bytes) -> None:
        if payload in _COM_QUIT_OR_NOTHING:
            return
        try:
            self._take(replica, Acknowledgement.decode(payload))
        except MalformedPacket as error:
            _log.warning("replica %d: %s", replica.state.server_id, error)


def _pending(replica: _Replica) -> bool:
    return replica.connection.pending()


def _asks(connection: ReplicaService) -> bool:
    variables = connection.variables
    return any(name in variables and variables.get_user_var_int(name) for name in ASKS)


def _place(file: str, position: int) -> Place:
    return file_number(file) or 0, position
