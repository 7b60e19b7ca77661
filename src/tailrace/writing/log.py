"""A log that is being written: files, positions, GTIDs, and transactions in whole."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tailrace.arguments import check_object
from tailrace.closing import NotPickled
from tailrace.constants import CHECKSUM_SIZE, MAGIC, ChecksumAlgorithm, Flavour
from tailrace.errors import BoundaryError, StorageError, TailraceError, UsageError
from tailrace.events import Event, RotateEvent, StopEvent
from tailrace.log_name import LogName
from tailrace.observers import (
    LogStorageDelegate,
    LogStorageFlag,
    LogStorageIo,
    TransactionDelegate,
    TransactionIo,
    TransmitDelegate,
    TransmitIo,
    add,
)
from tailrace.position import Position
from tailrace.storage.binlog_file import BinlogFile
from tailrace.storage.growth import GrowingFile
from tailrace.writing.cache import EventCache, MadeEvents, stamp
from tailrace.writing.foreign import ForeignEvents
from tailrace.writing.group_commit import GroupCommit, Waiting
from tailrace.writing.options import Sync
from tailrace.writing.recover import check_head
from tailrace.writing.rows import WrittenTable
from tailrace.writing.transaction import TransactionWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from tailrace.gtid import AnyGtid, GtidState
    from tailrace.observers import Observer
    from tailrace.schema.table import Table
    from tailrace.storage.index import LogIndex
    from tailrace.storage.store import WritableStore
    from tailrace.writing.cache import Group
    from tailrace.writing.dialect import Dialect
    from tailrace.writing.gtids import AskedGtid
    from tailrace.writing.options import TransactionOptions, WriterOptions
    from tailrace.writing.recover import Recovery


_LARGE: Final = 1 << 18
"""Bytes of a transaction from which on it is written alone: others are held in memory while they
wait to be written.
"""


def now_us() -> int:
    """Microseconds UTC."""
    return time.time_ns() // 1000


@dataclass(slots=True)
class _Rotation:
    """What a rotation does: ``after`` is created with ``head``, and this file gets ``end``."""

    after: BinlogFile
    name: LogName
    head: bytes
    end: Event


class LogWriter(NotPickled):
    """A log that grows by whole transactions. Made by `create` and `append`.

    Use it as a context manager, or `close` it: only then is its last file marked as closed. Any
    thread may commit; several transactions may be open at a time, and are written in the order of
    their commits. Those that commit at the same time are written and synced together.
    ``recovery`` says what `append` had to cut away. A transaction that could not be written or
    synced is not in the log, not even in part, and neither are those that wait after it: each
    commit raises StorageError. If they cannot be rolled back, either (the disk is gone), everything
    afterwards raises StorageError, and `append` repairs the log. After an interrupt
    (KeyboardInterrupt, whatever a signal handler raises) a transaction is in the log or is not, and
    never in part; the next call repairs what was interrupted.

    ``observers`` are told of its transactions: see `add_observer`.
    """

    def __init__(
        self,
        folder: WritableStore,
        index: LogIndex,
        dialect: Dialect,
        options: WriterOptions,
        *,
        server_id: int,
        now: Callable[[], int] = now_us,
        recovery: Recovery | None = None,
        table_id: int = 0,
        xid: int = 0,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.options = options
        self.dialect = dialect
        self.server_id = server_id
        self.recovery = recovery
        self.now = now
        self._folder = folder
        self._index = index
        self._name: LogName
        self._output: BinlogFile
        self._growing: GrowingFile
        self._end = 0
        """Where the last transaction in the log ends."""
        self._next = 0
        """Where the next one begins: after those that wait to be written."""
        self._lock = RLock()
        self._commits = GroupCommit(
            self._lock, write=self._write, written=self._written, failed=self._roll_back
        )
        self._closed = False
        self._closing = False
        """Closing has started, and has not ended."""
        self._broken = ""
        self._unsettled = False
        """Something has started and has not ended: `_repair` must come first."""
        self._rotation: _Rotation | None = None
        """The rotation that is being carried out."""
        self._ended = False
        """Whether the file has its last event, and is not marked as in use any more."""
        self._last: Group | None = None
        """A transaction that is in the log, until its GTID is noted as logged."""
        self._tables: dict[Table, WrittenTable] = {}
        self._table_id = table_id
        self._xid = xid
        self.made = MadeEvents()
        self._foreign = ForeignEvents(self)
        self._disk_writes = 0
        self._transactions = TransactionDelegate()
        self._storage = LogStorageDelegate()
        self._transmit = TransmitDelegate()
        self._storage_io = LogStorageIo(server_id)
        for observer in observers:
            self.add_observer(observer)

    # --- what it is ------------------------------------------------------------------------------

    @property
    def flavour(self) -> Flavour:
        """Whose log it is."""
        return self.dialect.form.flavour

    @property
    def server_version(self) -> str:
        """The version of the server that the log says it is of."""
        return self.dialect.form.server_version

    @property
    def _algorithm(self) -> ChecksumAlgorithm:
        return self.dialect.form.checksum_algorithm

    @property
    def checksums(self) -> bool:
        """Whether its events carry checksums."""
        return self._algorithm is ChecksumAlgorithm.CRC32

    @property
    def gtids(self) -> GtidState:
        """The GTIDs in the log, of earlier files too (MySQL), or its state (MariaDB); a copy."""
        with self._lock:
            return self.dialect.gtids.logged.copy()

    @property
    def position(self) -> Position:
        """Where the last transaction ends."""
        with self._lock:
            return Position(str(self._name), self._end)

    @property
    def files(self) -> list[str]:
        """The names of the log's files, oldest first, as its index lists them."""
        with self._lock:
            return [*self._index.names]

    @property
    def disk_writes(self) -> int:
        """Writes to its temporary file of the transaction that `write` has started, else of the
        last one that was written. Of one that is being filled, see `TransactionWriter.disk_writes`.
        """
        with self._lock:
            begun = self._foreign.cache
            return self._disk_writes if begun is None else begun.disk_writes

    @property
    def tmp_file_name(self) -> str | None:
        """The path of the temporary file of the transaction that `write` has started, if any.

        See `BinlogCache.tmp_file_name`.
        """
        with self._lock:
            begun = self._foreign.cache
            return None if begun is None else begun.tmp_file_name

    # --- observers -------------------------------------------------------------------------------

    def add_observer(self, observer: Observer) -> None:
        """Have an observer of transactions or log storage, or both, told of what is committed from
        now on; one of dumps is told of `reset`.

        For each transaction, in this order: it is written and synced; ``after_flush``, under the
        log's lock, in the thread that synced it; then, in the thread that commits and without the
        lock, ``after_sync`` and ``after_commit`` (or ``after_rollback``); then the call that
        committed it returns. If an observer raises an error, all others are told nevertheless, and
        the call raises the first error: the transaction is in the log. One that
        did not come into the log (an error, `TransactionWriter.rollback`) is told by
        ``after_rollback`` alone. Nothing is called for a transaction without events.

        Raises UsageError for an observer of other kinds, or that was added already.
        """
        delegates = self._transactions, self._storage, self._transmit
        add([observer], *delegates, to="a log that is written")

    def remove_observer(self, observer: Observer) -> None:
        """Tell an observer nothing more; waits for its calls. Raises UsageError if it was not
        added.
        """
        delegates = [
            each for each in (self._transactions, self._storage, self._transmit) if observer in each
        ]
        for delegate in delegates or [self._transactions]:
            delegate.remove(observer)  # type: ignore[arg-type]

    # --- files -----------------------------------------------------------------------------------

    def begin_file(self, name: LogName, *, created: bool) -> None:
        """Continue in a new file. ``created``: it is the first since the log was opened."""
        output, head = BinlogFile(self._folder, name), self._head(name, created=created)
        try:
            self._create(output, name, head)
        except BaseException as error:
            if output.is_open or not isinstance(error, Exception):
                with suppress(StorageError):
                    self._withdraw(output, name, head)
            raise
        self._continue_in(output, name)
        self.dialect.began()

    def _create(self, output: BinlogFile, name: LogName, head: bytes) -> None:
        """Create a file, and list it, as far as that was not done before."""
        if not output.is_open:
            output.create(head)
        if name not in self._index:
            self._index.add(name)

    def _continue_in(self, output: BinlogFile, name: LogName) -> None:
        end = output.position
        growing = GrowingFile(output.path, end)
        # no call between these: an interrupt finds all of them, or none
        self._output, self._name, self._growing = output, name, growing
        self._end = self._next = end
        self._ended, self._rotation = False, None

    def _head(self, name: LogName, *, created: bool) -> bytes:
        second = self.now() // 1_000_000
        head = self.dialect.head(
            name, self.server_id, created=second if created else 0, second=second
        )
        raw = bytearray(MAGIC)
        for event in head:
            end = len(raw) + len(event.encode(self._algorithm))
            raw += event.encode(self._algorithm, log_pos=end)
        return bytes(raw)

    def _withdraw(self, output: BinlogFile, name: LogName, head: bytes) -> None:
        """Remove a new file, however much of its creation was done. One with another head is not
        ours.
        """
        output.close()
        there = name in self._folder.names()
        if there and self._folder.read(name, 0, len(head) + 1) == head:
            self._index.load()
            if name in self._index:
                self._index.drop(name)
            self._folder.remove(name)

    def resume_file(self, output: BinlogFile, name: LogName, size: int) -> None:
        """Continue an open file from ``size`` on; bytes after that are cut."""
        if output.position != size:
            output.truncate(size)
        output.mark(in_use=True)
        output.sync()
        self._continue_in(output, name)
        if name not in self._index:
            self._index.add(name)

    def rotate(self) -> None:
        """End this file and continue in the next, as FLUSH BINARY LOGS does."""
        with self._lock:
            self._commits.drain()
            self._check_open()
            following = self._name.next
            end = RotateEvent.make(
                timestamp=self.now() // 1_000_000,
                server_id=self.server_id,
                form=self.dialect.form,
                next_file=str(following),
                next_offset=len(MAGIC),
            )
            after, head = BinlogFile(self._folder, following), self._head(following, created=False)
            self._rotation = rotation = _Rotation(after, following, head, end)
            self._unsettled = True
            self._switch(rotation)
            self._unsettled = False

    def _switch(self, rotation: _Rotation) -> None:
        """End this file, and then create the one that follows, and continue in it.

        Not before: if another writer has taken this file over, its end is an error, and the next
        file's head would not have what the other has committed.
        """
        try:
            self._end_file(rotation.end)
        except Exception as error:
            self._broken = str(error) or type(error).__name__
            self._close_file()
            raise
        self._create(rotation.after, rotation.name, rotation.head)
        self._close_file()  # now, as a store may wait for the last file that is open
        self.dialect.began()
        self._continue_in(rotation.after, rotation.name)

    def _end_file(self, event: Event) -> None:
        """Write the file's last event."""
        if not self._ended:
            self._output.write(
                stamp(event.encode(), self._output.position, checksum=self.checksums)
            )
            self._output.mark(in_use=False)
            self._output.sync()
            self._ended = True

    def _close_file(self) -> None:
        try:
            self._output.close()
        finally:
            self._growing.close()

    def _repair(self) -> None:
        """Finish or roll back what was interrupted: nothing is in the files that is not in the log,
        and what is counted is what is there.
        """
        self._commits.drain()
        if self._broken:
            raise StorageError(self._why_broken())
        if self._last is not None:
            self.dialect.wrote(self._last)
            self._last = None
        self.dialect.roll_back()
        rotation = self._rotation
        if rotation is not None and self._ended:
            if not rotation.after.is_open:
                self._withdraw(rotation.after, rotation.name, rotation.head)
            self._index.load()
            self._switch(rotation)
        elif not self._ended:
            try:
                self._output.truncate(self._end)
                self._output.mark(in_use=True)
                self._output.sync()
            except StorageError as error:
                self._broken = str(error)
                raise
            self._rotation = None
        self._next = self._end
        self._growing.reached(self._end)
        self._unsettled = False

    def purge(self, *, to: str | None = None, before: int | None = None) -> list[str]:
        """Delete old files of the log, never the one in use. See `LogIndex.purge`."""
        with self._lock:
            self._check_open()
            return self._index.purge(to=to, before=before)

    def reset(self) -> list[str]:
        """Remove all files of the log, its GTIDs too, and begin it again with number 1, as RESET
        BINARY LOGS AND GTIDS does (before: RESET MASTER). Returns the removed files' names.

        Observers are told (``after_reset_source``). A transaction that `write` has started is
        discarded. Raises StorageError for a file that Tailrace did not write; nothing is removed
        then. After any other error nothing more can be written. After a kill in the middle
        the log is whole up to where it was, without its older files, or gone.
        """
        with self._foreign_locked():
            self._commits.drain()
            self._check_open()
            self._foreign.discard()
            there = self._folder.names()
            for name in self._index.names:
                if name in there:
                    check_head(self._folder, name)
            first = LogName.of(self._name.base, 1, len(self._name) - len(self._name.base) - 1)
            try:
                self._close_file()
                gone = self._index.clear()
                self.dialect.gtids.forget()
                self.begin_file(first, created=True)
            except BaseException as error:
                self._broken = str(error) or type(error).__name__
                raise
        self._transmit.after_reset_source(TransmitIo(self.server_id))
        return gone

    def flush(self) -> None:
        """Return when everything committed would survive a power cut."""
        with self._lock:
            self._commits.drain()
            self._check_open()
            self._output.sync()

    def close(self) -> None:
        """End the last file with STOP, and mark it as closed. A second time does nothing, unless
        the first was interrupted.

        Raises BoundaryError where `write` was left in the middle of a transaction: that one is not
        in the log.
        """
        with self._foreign_locked():
            if self._closed and not self._closing:
                return
            self._closed = self._closing = True
            try:
                unfinished = self._close()
            except Exception:
                self._closing = False
                raise
            self._closing = False
        if unfinished:
            raise BoundaryError(
                "the events that were written last do not make a whole transaction: they are not"
                " in the log",
                file=self._folder.path(str(self._name)),
            )

    def _close(self) -> bool:
        """End the last file; whether `write` was left in the middle of a transaction."""
        self._commits.drain()
        if self._unsettled and not self._broken:
            try:
                self._repair()
            except StorageError:
                self._close_file()
                raise
        unfinished = self._foreign.discard()
        if self._broken:
            self._output.close()
            raise StorageError(self._why_broken())
        self._unsettled = True
        try:
            self._end_file(
                StopEvent.make(
                    timestamp=self.now() // 1_000_000,
                    server_id=self.server_id,
                    form=self.dialect.form,
                )
            )
        except Exception:
            self._close_file()
            raise
        self._close_file()
        return unfinished

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            with self._lock:
                self._foreign.discard()
        self.close()

    # --- transactions ----------------------------------------------------------------------------

    def transaction(
        self,
        gtid: AskedGtid = None,
        **given: Unpack[TransactionOptions],
    ) -> TransactionWriter:
        """A transaction to be filled, as a context manager: its end commits, an error discards it.

        ``gtid`` is the transaction's (text, `Gtid` or `MariadbGtid`); without one it is numbered on
        by the log, in MySQL's with ``tag`` and if the log has a ``server_uuid`` (else it is
        anonymous), in MariaDB's in ``domain_id`` (or the log's). ``server_id`` is the originator's,
        by default the log's. ``timestamp`` is in seconds UTC, by default the present time;
        ``original_commit_timestamp`` in microseconds UTC, where the transaction was first committed
        elsewhere (MySQL). ``thread_id`` is the session's. Without ``foreign_key_checks`` or
        ``unique_checks`` appliers make none for its rows. With ``gtid_at_commit`` its GTID is given
        to its `TransactionWriter.commit`. Raises GtidError for a GTID that the log
        has.
        """
        return TransactionWriter(self, gtid, **given)

    def choose_gtid(self, gtid: AskedGtid, **source: Any) -> AnyGtid | None:
        """The GTID of a transaction that would be committed now, as `transaction` chooses it."""
        with self._lock:
            self._check_open()
            return self.dialect.gtids.choose(gtid, **source)

    def write(self, event: Event) -> None:
        """An event that comes from another log. See `ForeignEvents.write`."""
        check_object("event", event, Event)
        with self._foreign_locked():
            self._check_open()
            self._foreign.write(event)

    def write_transaction(self, events: Iterable[Event]) -> None:
        """One whole transaction that comes from another log. See `ForeignEvents`.

        Raises BoundaryError where the events are not one whole transaction; then nothing of them
        is in the log.
        """
        with self._foreign_locked():
            self._check_open()
            self._foreign.write_transaction(events)

    @contextmanager
    def _foreign_locked(self) -> Iterator[None]:
        """The log's lock; after it, wait for the transactions of another log that ended in it."""
        ended: list[tuple[Group, Waiting | None]] = []
        try:
            with self._lock:
                try:
                    yield
                finally:
                    ended = self._foreign.ended()
        finally:
            failures: list[BaseException] = []
            for group, waiting in ended:
                try:
                    self._finish(group, waiting)
                except BaseException as error:  # noqa: BLE001 - the others wait for their sync, too
                    failures.append(error)
            if failures:
                raise failures[0]

    def _finish(self, group: Group, waiting: Waiting | None) -> None:
        """The second part of what `place` started; ``waiting`` is None if it was dropped."""
        if waiting is not None:
            try:
                self._commits.wait(waiting)
            except BaseException as error:
                if waiting.error is not None:
                    self.rolled_back(error)
                    raise
                group.failure = error  # an interrupt, which does not end the wait
                self._commits.wait(waiting)
        self.announce(group)

    def table(self, table: Table) -> WrittenTable:
        """What is made once for a table; its id is above all that the log had when it was opened.

        Raises EventEncodeError.
        """
        with self._lock:
            known = self._tables.get(table)
            if known is None:
                known = self._tables[table] = WrittenTable.of(
                    table, self._table_id + 1, self.options, self.dialect.form
                )
                self._table_id += 1
            return known

    def cache(self) -> EventCache:
        """An empty cache for a transaction."""
        return EventCache(self.options.cache_limit, self._folder.spill)

    def next_xid(self) -> int:
        """A number for a commit."""
        with self._lock:
            self._xid += 1
            return self._xid

    def commit(self, group: Group, ready: Callable[[Group], None] | None = None) -> Position:
        """Write a transaction, in whole or not at all, and tell observers; where it ends.

        ``ready`` is called first, under the log's lock: the place to choose the GTID. Raises
        StorageError, GtidError, EventEncodeError: the log is then as it was. Raises what observers
        raise: the transaction is then in the log, and ``group.position`` says where.
        """
        try:
            position = self.write_group(group, ready)
        except BaseException as error:
            self.rolled_back(error)
            raise
        self.announce(group)
        return position

    def write_group(self, group: Group, ready: Callable[[Group], None] | None) -> Position:
        """The first part of `commit`: write, sync, and tell log storage observers so; `announce`
        or, after an error, `rolled_back` must follow. The caller does not have the log's lock.
        """
        waiting = self.place(group, ready)
        try:  # here, as an interrupt can come at the beginning of a function
            self._commits.wait(waiting)
        except BaseException as error:
            if waiting.error is not None:
                raise
            group.failure = error  # an interrupt, which does not end the wait
            self._commits.wait(waiting)
        return waiting.end

    def place(self, group: Group, ready: Callable[[Group], None] | None) -> Waiting:
        """Give a transaction its place in the log; `GroupCommit.wait` says when it is there.

        An interrupt of which it has its place nevertheless is noted in ``group.failure``.
        """
        begun: list[Waiting] = []
        try:
            return self._place(group, ready, begun)
        except BaseException as error:
            if not any(group.position is not None or self._commits.has(each) for each in begun):
                raise
            group.failure = error
            return begun[0]

    def _place(
        self, group: Group, ready: Callable[[Group], None] | None, begun: list[Waiting]
    ) -> Waiting:
        """`place`; ``begun`` gets what it returns before it can be in the log."""
        with self._lock:
            tail = CHECKSUM_SIZE if self.checksums else 0
            body = group.cache.size + group.cache.count * tail
            together = body <= _LARGE
            if not together or self._next >= self.options.max_size:
                self._commits.drain()
            self._check_open()
            if self._next >= self.options.max_size:
                self.rotate()
            if ready is not None:
                ready(group)
            group.head = first = self.dialect.gtid_event(group, body, tail=tail, now=self.now())
            pieces = self._stamped(first.encode(ChecksumAlgorithm.NONE, log_pos=0), group)
            data = b"".join(pieces) if together else b""
            self._unsettled = True
            if not together:
                self._write_alone(pieces)
                self._unsettled = True
            self.dialect.placed(group)
            self._disk_writes = group.cache.disk_writes
            end = self._next + len(data) if together else self._output.position
            waiting = Waiting(group, data, Position(str(self._name), end))
            begun.append(waiting)
            self._next = end
            if together:
                self._commits.add(waiting)
            else:
                self._written([waiting])
                waiting.settled = True
            self._unsettled = False
            return waiting

    def _stamped(self, first: bytes, group: Group) -> Iterator[bytes]:
        """The events of a transaction as they stand in the file from the next position on."""
        at = self._next
        for piece in group.cache.pieces():
            raw = stamp(first + piece, at, checksum=self.checksums)
            at += len(raw)
            first = b""
            yield raw

    def _write_alone(self, pieces: Iterable[bytes]) -> None:
        """Write a transaction while none waits to be written."""
        try:
            self._write(pieces)
        except BaseException as error:
            self._undo(error)
            raise

    def _write(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._output.write(piece)
        if self.options.sync is Sync.TRANSACTION:
            self._output.sync()
        else:
            self._output.flush()

    def _written(self, batch: Sequence[Waiting]) -> None:
        """These transactions are in the log."""
        synced = self.options.sync is Sync.TRANSACTION
        flags = LogStorageFlag.SYNCED if synced else LogStorageFlag.NONE
        for waiting in batch:
            group, end = waiting.group, waiting.end
            if group.position is None:
                # no call between these: an interrupt finds it in the log, or not
                self._last, group.position, self._end = group, end, end.offset
            elif self._last is not group:  # from before an interrupt
                continue
            self.dialect.wrote(group)
            self._last = None
            try:
                self._storage.after_flush(self._storage_io, end.file, end.offset, flags)
            except BaseException as error:  # noqa: BLE001 - for the thread that commits it
                group.failure = error
        self._growing.reached(self._end)

    def _roll_back(self, error: BaseException) -> None:
        """None of the transactions that wait can come into the log."""
        self._undo(error)
        self.dialect.roll_back()
        self._next = self._end

    def announce(self, group: Group) -> None:
        """Tell observers of a transaction that was written; returns when all of them did."""
        end = group.position
        if end is None:
            self.rolled_back()
            return
        if self._transactions.is_empty and self._storage.is_empty and group.failure is None:
            return
        io = TransactionIo(
            self.server_id,
            all=group.transactional,
            file=end.file,
            position=end.offset,
            gtid=group.gtid,
        )
        rolled_back, committed = self._transactions.after_rollback, self._transactions.after_commit
        failures = [] if group.failure is None else [group.failure]
        for tell in (
            partial(self._storage.after_sync, self._storage_io, end.file, end.offset),
            partial(rolled_back if group.rolled_back else committed, io),
        ):
            try:
                tell()
            except TailraceError as error:
                failures.append(error)
        if failures:
            first, *others = failures
            for other in others:
                first.add_note(str(other))
            first.add_note(f"the transaction is in the log nevertheless, up to {end}")
            raise first

    def rolled_back(self, error: BaseException | None = None) -> None:
        """Tell observers of a transaction that did not come into the log. What they raise is noted
        on the ``error`` that was the reason.
        """
        try:
            self._transactions.after_rollback(TransactionIo(self.server_id))
        except TailraceError as other:
            if error is None:
                raise
            error.add_note(str(other))

    def write_between(self, event: bytes) -> None:
        """Write one event in cache form that belongs to no transaction."""
        with self._lock:
            self._commits.drain()
            self._check_open()
            self._unsettled = True
            try:
                self._output.write(stamp(event, self._next, checksum=self.checksums))
                self._output.flush()
            except BaseException as error:
                self._undo(error)
                raise
            self._end = self._next = self._output.position
            self._growing.reached(self._end)
            self._unsettled = False

    def _undo(self, error: BaseException) -> None:
        """Cut off what was written of transactions that are not in the log."""
        self._unsettled = True
        try:
            self._output.truncate(self._end)
            self._output.sync()
            self._unsettled = False
        except StorageError:
            self._broken = str(error) or type(error).__name__

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the log is closed")
        if self._broken:
            raise StorageError(self._why_broken())
        if self._unsettled:
            self._repair()

    def _why_broken(self) -> str:
        return (
            f"{self._folder.path(str(self._name))}: writing failed ({self._broken}) and could not"
            " be rolled back; tailrace.append cuts the log back to its last whole transaction"
        )
