"""The changes that a log holds, one by one: rows that were committed and not rolled back."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from tailrace.constants import EventType
from tailrace.errors import BoundaryError
from tailrace.events import (
    AnnotateRowsEvent,
    FormatDescription,
    LoadBlockEvent,
    MariadbGtidEvent,
    QueryEvent,
    RowsEvent,
    RowsQueryEvent,
)
from tailrace.events.transaction import XaPrepareEvent
from tailrace.log.events import Log
from tailrace.log.prepared import Prepared
from tailrace.log.readable import LOAD_DATA, check_readable, check_statements, rows_not_logged
from tailrace.log.reader import Step, TransactionHead, is_over
from tailrace.log_name import file_number
from tailrace.schema.classify import StatementKind, classify
from tailrace.storage.spill import SpilledObjects
from tailrace.transaction import Boundary, TransactionKind
from tailrace.transaction.committed import (
    Committed,
    Savepoints,
    XaRows,
    check_inside_payload,
)
from tailrace.transaction.statements import (
    BEGIN_AND_COMMIT,
    savepoint_of_rollback,
    savepoint_set,
    xa_name,
)
from tailrace.transports.row_heads import RowHeads
from tailrace.values.change_record import Origin, change_record
from tailrace.values.row import RowSet
from tailrace.values.schema import TableSchema
from tailrace.values.surrogates import Escapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.events import Event
    from tailrace.events.transaction import XaName
    from tailrace.log.reader import Reader
    from tailrace.position import Position

T = TypeVar("T")
MOST_HELD: Final = 64 << 20
"""Bytes of a transaction's events that are held until its end is read."""
_SHARED: Final = (TableSchema, TransactionHead, FormatDescription)
_COMPANIONS: Final = (LoadBlockEvent, RowsQueryEvent, AnnotateRowsEvent)
_OWN_TYPES: Final = frozenset(map(int, EventType))
READ_BY_NEXT: Final = frozenset({EventType.INTVAR, EventType.RAND, EventType.USER_VAR})
"""The events that say what the next statement reads from its session."""


@dataclass(frozen=True, slots=True)
class Change:
    """The rows of one event: one kind of change in one table.

    ``first`` is the number of the first row in ``_seq``; ``escapes`` counts the JSON records whose
    text is not UTF-8 (`tailrace.values.surrogates`).
    """

    event: RowsEvent
    schema: TableSchema
    group: TransactionHead
    first: int
    escapes: Escapes

    def rows(self) -> RowSet:
        """The rows, decoded one by one."""
        return RowSet(self.event, self.schema)

    def json_lines(self) -> Iterator[str]:
        """One change record for each row (`tailrace.values.change_record`), without line ends."""
        for record in self.json_records():
            yield record if isinstance(record, str) else "".join(record)

    def json_records(self) -> Iterator[str | Iterator[str]]:
        """The same, with large values in pieces, which must be read before the next record."""
        event, schema, first = self.event, self.schema, self.first
        origin = Origin(
            file=event.file or "",
            file_number=file_number(event.file or "") or 0,
            offset=event.offset or 0,
            ts=self.group.time_of(event),
            gtid=self.group.gtid,
            server_id=event.header.server_id,
        )
        for row in self.rows():
            yield change_record(row, schema, origin, first + row.number, self.escapes)


@dataclass(frozen=True, slots=True)
class Logged:
    """A statement as it was logged.

    ``before`` are the events before it that say what it reads from its session (INTVAR,
    RAND, USER_VAR).
    """

    event: QueryEvent
    group: TransactionHead | None
    before: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Companion:
    """An event that belongs to the changes after it: a block of the file of a LOAD DATA that was
    logged as its statement, the text of a statement that was logged as rows; or an event of a class
    that another package added.
    """

    event: Event
    group: TransactionHead | None


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What a transaction rolled back, in whole or to a savepoint; its statement that rolls back to
    the savepoint is the last.
    """

    item: Change | Logged | Companion


@dataclass(frozen=True, slots=True)
class Ended:
    """All of a transaction was given. Only of one that is in doubt at the log's end, the rest is
    unknown.

    ``event`` is its last, ``kind`` how it ended. ``prepared`` is the head of the transaction that
    prepared it, of an XA transaction that waited for its commit.
    """

    event: Event | None = None
    group: TransactionHead | None = None
    kind: TransactionKind | None = None
    prepared: TransactionHead | None = None


_Item = Change | Logged | Companion | RolledBack


class Changes:
    """Iterates over a reader's committed changes that were not rolled back, in the log's order.

    Left out are rows of a transaction that was rolled back, in part or later (XA), and those of a
    transaction whose end the log does not have; ``rolled_back`` and ``unfinished`` count the rows
    events of both. A transaction is held until its end is read, up to ``most_held`` bytes. For a
    larger one, files are read ahead once; for pipes, servers and followed logs, the rest is held in
    a temporary file.

    Reading ahead also finds whether a prepared XA transaction was rolled back later. A server's log
    and a followed one cannot be read ahead: there, its changes are given when it is committed
    (`XaRows`), or at the log's end if it is then still prepared; a followed log has no end, and
    ``prepared`` counts those that wait when it is stopped.

    ``statements`` says what to do about changes that were logged as statements: ``error`` raises
    `StatementChange`, ``skip`` counts them in ``skipped_statements``. Raises BoundaryError if
    the server logged that it lost events, UnsupportedType for rows that cannot be decoded, and what
    `Reader` raises.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        statements: Literal["error", "skip"] = "error",
        most_held: int = MOST_HELD,
    ) -> None:
        self.reader = reader
        self._most_held = most_held
        check_statements(statements)
        self.statements = statements
        self.skipped_statements = 0
        self.escapes = Escapes()
        self.rolled_back = 0
        self.unfinished = 0
        self.prepared = 0
        self._keeps = False
        self._before: list[Event] = []
        self._xa_rows = XaRows.of(of_files=reader.series is not None, follow=reader.follow)
        files = () if reader.series is None else reader.series.files
        self._reads_ahead = bool(files) and not files[0].joined and not reader.follow
        self._held = self._hold(spill=not self._reads_ahead)
        self._waits_whole = False
        self._savepoints: Savepoints[int] = Savepoints()
        self._ahead: Committed | None = None
        self._streaming = False
        self._payload_rolled_back = False
        self._prepared: Prepared[_Item] = Prepared(most_held, shared=_SHARED)
        self._prepares: SpilledObjects[_Item] | None = None
        self._given: set[XaName] = set()
        self._group: TransactionHead | None = None
        self._heads: dict[XaName, TransactionHead] = {}
        self._completed: TransactionHead | None = None
        self._all = False
        self._gives_in_doubt = not reader.follow
        self._undone: list[tuple[int, int]] = []

    @property
    def waits_from(self) -> Position | None:
        """Where the first prepared XA transaction begins whose rows wait; None if none do."""
        if not self._prepared:
            return None
        return min(
            (head.start for name, head in self._heads.items() if name in self._prepared),
            default=None,
        )

    def _wait(self, name: XaName) -> SpilledObjects[_Item]:
        """Where the rows of a prepared XA transaction wait."""
        if self._group is not None:
            self._heads[name] = self._group
        return self._prepared.begin(name)

    def _hold(self, *, spill: bool) -> SpilledObjects[_Item]:
        return SpilledObjects(self._most_held if spill else sys.maxsize, shared=_SHARED)

    def __iter__(self) -> Iterator[Change]:
        for step in self.reader:
            yield from self.feed(step)
            del step  # before the next is read: its event may be large
        yield from self.finish()

    def feed(self, step: Step) -> Iterator[Change]:
        """Take in a step of the reader; gives the changes that can be given now."""
        return (item for item in self._take(step) if isinstance(item, Change))

    def with_statements(self) -> Iterator[Change | Logged | Ended]:
        """The changes, among them all logged statements except those that begin and end
        transactions, and where each transaction ends. Statements that change rows are then not an
        error, but LOAD DATA is.
        """
        parts: Iterator[Step] = iter(self.reader)
        return self.with_others(parts)

    def with_others(self, parts: Iterable[Step | T]) -> Iterator[Change | Logged | Ended | T]:
        """The same for a reader's steps, with the other items among them passed through."""
        for item in self._with(parts):
            if not isinstance(item, (Companion, RolledBack)):
                yield item

    def with_rolled_back(
        self, parts: Iterable[Step | T]
    ) -> Iterator[Change | Logged | Companion | RolledBack | Ended | T]:
        """The same, with LOAD DATA, with `Companion` events, and with what was rolled back.

        XA transactions are given as after `leave_out_in_doubt`.
        """
        self._all = True
        self.leave_out_in_doubt()
        yield from self._with(parts)

    def leave_out_in_doubt(self) -> None:
        """Give the changes of an XA transaction when it is committed, whatever the source; those of
        one that is in doubt at the log's end are not given, and ``prepared`` counts them.
        """
        self._xa_rows, self._gives_in_doubt = XaRows.AT_COMMIT, False

    def _with(self, parts: Iterable[Step | T]) -> Iterator[_Item | Ended | T]:
        self._keeps = True
        for step in parts:
            if not isinstance(step, Step):
                yield step
                continue
            yield from self._take(step)
            ended = None
            if is_over(step):
                kind = step.kind or TransactionKind.COMMIT
                ended = Ended(step.event, step.group, kind, self._completed)
                self._completed = None
            del step  # before the next is read: its event may be large
            if ended is not None:
                yield ended
        yield from self._finish()

    def _take(self, step: Step) -> Iterator[_Item]:
        event, boundary, group, kind, schema, first = step
        self._group = group
        if schema is not None and group is not None and isinstance(event, RowsEvent):
            change = Change(event, schema, group, first, self.escapes)
            if event.inner_index is not None:
                yield from self._inside(change)
                return
            self._held.append(change, event.header.length)
        elif isinstance(event, QueryEvent):
            if event.inner_index == 0:
                self._enter_payload(event)
            kept = self._statement(event, group)
            if kept is not None:
                yield from self._keep(kept)
        elif self._keeps and event.header.type in READ_BY_NEXT:
            self._before.append(event)
        elif isinstance(event, XaPrepareEvent) and event.one_phase:
            yield from self._at_once(event)
        elif isinstance(event, MariadbGtidEvent) and event.xid is not None:
            self._wait_whole()
        elif self._all and is_companion(event):
            yield from self._keep(Companion(event, group))
        elif event.header.type in LOAD_DATA:
            self.rows_not_logged(event)
        else:
            check_readable(event)
        if boundary is Boundary.END:
            yield from self._end(event, kind)
        elif boundary is Boundary.OUTSIDE:
            self._forget()
        elif not self._reads_ahead or self._waits_whole:
            return
        elif self._streaming or self._held.in_memory > self._most_held:
            self._streaming = True
            yield from self._release()

    def _wait_whole(self) -> None:
        """An XA transaction begins. Where its changes are given when it is committed, all of them
        are held until its end, of a file, too.
        """
        if self._reads_ahead and self._xa_rows is XaRows.AT_COMMIT and not self._held:
            self._held, self._waits_whole = self._hold(spill=True), True

    def _keep(self, item: Logged | Companion) -> Iterator[_Item]:
        """Hold an item until its transaction's end, if it is not in a payload."""
        if item.event.inner_index is not None:
            yield from self._inside(item)
            return
        self._held.append(item, item.event.header.length)

    def _inside(self, item: Change | Logged | Companion) -> Iterator[_Item]:
        """Handle a change of a payload, whose transaction was committed or prepared."""
        if self._prepares is not None:
            self._prepares.append(item, item.event.header.length)
        elif not self._payload_rolled_back:
            yield item
        elif isinstance(item, Change):
            self.rolled_back += 1

    def finish(self) -> Iterator[Change]:
        """The log is over: held transactions have no end in it, and those that are only prepared
        are given, unless the log was followed.
        """
        return (item for item in self._finish() if isinstance(item, Change))

    def _finish(self) -> Iterator[_Item | Ended]:
        self._forget()
        if not self._gives_in_doubt:
            self.prepared = len(self._prepared)
            self._prepared.close()
        for name in self._prepared:
            yield from self._prepared.take(name)
            yield Ended()

    def _end(self, event: Event, kind: TransactionKind | None) -> Iterator[_Item]:
        if kind is TransactionKind.ROLLBACK:
            self.rolled_back += len(self._held)
            if self._all:
                yield from map(_as_rolled_back, self._held)
        elif kind is TransactionKind.XA_PREPARE and self._xa_rows is XaRows.AT_COMMIT:
            self._set_aside(event)
        elif kind is TransactionKind.XA_PREPARE or self._streaming:
            yield from self._release()
            if (ended := xa_name(event)) is not None:
                self._given.add(ended[1])
        else:
            yield from self._kept()
        if (ended := xa_name(event)) is not None and ended[0] != "PREPARE":
            yield from self._end_prepared(event, *ended)
        self._begin()

    def _set_aside(self, event: Event) -> None:
        """An XA transaction was prepared: it is held until it is committed or rolled back."""
        if (prepared := xa_name(event)) is not None:
            held = self._wait(prepared[1])
            for item in self._kept():
                held.append(item, _size(item))

    def _kept(self) -> Iterator[_Item]:
        """The held items, those after a savepoint that was rolled back to as `RolledBack`."""
        for number, item in enumerate(self._held):
            undone = any(start <= number < end for start, end in self._undone)
            yield _as_rolled_back(item) if undone else item

    def _end_prepared(self, event: Event, how: str, name: XaName) -> Iterator[_Item]:
        """An earlier prepared XA transaction is committed or rolled back."""
        self._completed = self._heads.pop(name, None)
        if self._xa_rows is XaRows.AT_PREPARE:
            if how == "ROLLBACK" and name in self._given and self._is_news(event):
                raise event.error(
                    "an XA transaction was rolled back while the log was read, after its rows had"
                    " been given: read it again",
                    BoundaryError,
                )
            return
        if how == "ROLLBACK":
            if self._all and name in self._prepared:
                yield from map(_as_rolled_back, self._prepared.take(name))
            self.rolled_back += self._prepared.drop(name)
        elif name in self._prepared:
            yield from self._prepared.take(name)
        else:
            self.reader.notice(
                f"{event.file}:{event.offset}: the rows of the XA transaction that ends here come"
                " before the part of the log that is read: they are left out"
            )

    def _is_news(self, event: Event) -> bool:
        """Whether an event comes after the part that was read ahead."""
        return self._ahead is not None and self._ahead.is_later(event)

    def _begin(self) -> None:
        self._held.clear()
        if self._waits_whole:
            self._held, self._waits_whole = self._hold(spill=False), False
        self._before = []
        self._undone = []
        self._savepoints.clear()
        self._streaming = False

    def _forget(self) -> None:
        """The held transaction has no end in the log."""
        self.unfinished += len(self._held)
        self._begin()

    def _enter_payload(self, first: QueryEvent) -> None:
        """A payload begins; its first event shows whether it is an XA transaction."""
        self._payload_rolled_back, self._prepares = False, None
        begun = xa_name(first)
        if begun is None or begun[0] != "START":
            return
        if self._xa_rows is XaRows.AT_COMMIT:
            self._prepares = self._wait(begun[1])
        else:
            self._payload_rolled_back = self._read_ahead().rolled_back(first)

    def _at_once(self, event: XaPrepareEvent) -> Iterator[_Item]:
        """An XA transaction is committed in one phase: give the held changes of its payload."""
        if self._prepares is not None:
            self._prepares = None
            yield from self._prepared.take(event.xid)

    def _read_ahead(self) -> Committed:
        """Find what later events roll back."""
        if self._ahead is None:
            heads = RowHeads(self.reader.transport)
            self._ahead = Committed.of(Log(heads, verify_checksums=False, expand_payloads=False))
        return self._ahead

    def _release(self) -> Iterator[_Item]:
        """Give the held changes that later events do not roll back."""
        for item in self._held:
            ahead = self._read_ahead()
            if isinstance(item, RolledBack):
                yield item
            elif ahead.rolled_back(item.event):
                self.rolled_back += 1
                if self._all:
                    yield RolledBack(item)
            elif ahead.has_no_end(item.event):
                self.unfinished += 1
            else:
                yield item
        self._held.clear()

    def _statement(self, event: QueryEvent, group: TransactionHead | None) -> Logged | None:
        """Take in a statement; returns it if statements are wanted."""
        raw = event.sql_bytes
        if raw in BEGIN_AND_COMMIT:
            return None
        if event.inner_index is not None:
            check_inside_payload(event)
        begun = xa_name(event)  # raises if the name is not understood
        if begun is not None and begun[0] == "START":
            self._wait_whole()
        sql = event.sql
        before, self._before = tuple(self._before), []
        if (name := savepoint_set(sql)) is not None:
            self._savepoints.set(name, len(self._held))
            return None
        if (name := savepoint_of_rollback(sql)) is not None:
            try:
                kept = self._savepoints.back_to(name)
            except BoundaryError as error:
                raise error.at(event.file, event.offset, event.name) from None
            self._roll_back_to(kept)
            if self._all:
                self._undo(kept, Logged(event, group))
        elif self._keeps and (self._all or event.header.type not in LOAD_DATA):
            if classify(sql) is not StatementKind.CONTROL:
                return Logged(event, group, before)
        elif classify(sql).changes_rows:
            self.rows_not_logged(event)
        return None

    def rows_not_logged(self, event: Event) -> None:
        """Apply ``statements`` to an event that changed rows which the log does not hold."""
        if self.statements != "skip":
            raise rows_not_logged(event)
        self.skipped_statements += 1

    def _roll_back_to(self, kept: int) -> None:
        if self._streaming:
            return  # reading ahead has found which rows
        self.rolled_back += len(self._held) - kept
        if not self._all:
            self._held.truncate(kept)

    def _undo(self, kept: int, statement: Logged) -> None:
        """The held items after the first ``kept`` were rolled back, by this statement."""
        if not self._streaming:
            self._undone.append((kept, len(self._held)))
        self._held.append(RolledBack(statement), statement.event.header.length)


def is_companion(event: Event) -> bool:
    """Whether it is an event of which a `Companion` is made."""
    return isinstance(event, _COMPANIONS) or event.header.type not in _OWN_TYPES


def _as_rolled_back(item: _Item) -> RolledBack:
    return item if isinstance(item, RolledBack) else RolledBack(item)


def _size(item: _Item) -> int:
    event = item.item.event if isinstance(item, RolledBack) else item.event
    return event.header.length
