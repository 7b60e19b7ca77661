"""The changes that a log holds, one by one: rows that were committed and not taken back."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tailrace.constants import EventType
from tailrace.errors import BoundaryError, LogError, StatementChange, UnsupportedType
from tailrace.events import QueryEvent, RowsEvent
from tailrace.log import Log
from tailrace.position import Position, file_number
from tailrace.rollbacks import Rollbacks
from tailrace.rows.as_json import Origin, change_json
from tailrace.rows.row import RowSet
from tailrace.schema.classify import StatementKind, classify
from tailrace.transactions import Boundary, BoundaryParser, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.events import Event
    from tailrace.reader import Group, Reader, Step
    from tailrace.rows.schema import TableSchema
    from tailrace.storage import LogSeries

_MOST_HELD: Final = 64 << 20
"""Bytes of a transaction's events that are held until its end is seen."""
_LOADED: Final = frozenset(
    {EventType.EXECUTE_LOAD_QUERY, EventType.LOAD, EventType.NEW_LOAD, EventType.EXEC_LOAD}
)
_OLD_ROWS: Final = frozenset(
    {
        EventType.PRE_GA_WRITE_ROWS,
        EventType.PRE_GA_UPDATE_ROWS,
        EventType.PRE_GA_DELETE_ROWS,
        EventType.PARTIAL_ROW_DATA,
    }
)
_READ_BY_NEXT: Final = frozenset({EventType.INTVAR, EventType.RAND, EventType.USER_VAR})
_LOOKED_AT: Final = _LOADED | _OLD_ROWS | {EventType.INCIDENT}
_SAVEPOINT: Final = re.compile(r"\s*SAVEPOINT\s+(.+?)\s*\Z", re.IGNORECASE | re.DOTALL)
_ROLLBACK: Final = re.compile(
    r"\s*ROLLBACK\b(?:\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?(.+?))?\s*\Z", re.IGNORECASE | re.DOTALL
)


_XA: Final = re.compile(rb"XA (START|COMMIT|ROLLBACK) (X'[0-9a-f]*',X'[0-9a-f]*',\d+)")
"""XA statements as a server logs them."""


@dataclass(frozen=True, slots=True)
class Change:
    """The rows of one event, changed in one way in one table.

    ``first`` is the number of the first row in ``_seq``.
    """

    event: RowsEvent
    schema: TableSchema
    group: Group
    first: int

    def rows(self) -> RowSet:
        """The rows, decoded one by one."""
        return RowSet(self.event, self.schema)

    def json_lines(self) -> Iterator[str]:
        """A change record a row (`tailrace.rows.as_json`), without line ends."""
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
            yield change_json(row, schema, origin, first + row.number)


@dataclass(frozen=True, slots=True)
class Logged:
    """A statement as it was logged.

    ``before`` are the events that stand before it and say what it reads of its session (INTVAR,
    RAND, USER_VAR).
    """

    event: QueryEvent
    group: Group | None
    before: tuple[Event, ...] = ()


class Changes:
    """Iterates over the changes that a reader meets and that hold, in the log's order.

    Left out are rows of a transaction that was rolled back, in part or later (XA), and those of a
    transaction whose end the log does not have; ``taken_back`` and ``unfinished`` count the rows
    events of both. A transaction is held until its end is seen, up to 64 MiB; for a larger one
    the log is read ahead once.

    ``statements`` says what to do about changes that were logged as statements: ``error`` raises
    `StatementChange`, ``skip`` counts them in ``skipped_statements``. Raises BoundaryError where
    the server says that it lost events, UnsupportedType for rows that cannot be decoded, and what
    `Reader` raises.
    """

    def __init__(self, reader: Reader, *, statements: Literal["error", "skip"] = "error") -> None:
        self.reader = reader
        self.statements = statements
        self.skipped_statements = 0
        self.taken_back = 0
        self.unfinished = 0
        self._keeps = False
        self._before: list[Event] = []
        self._held: list[Change | Logged] = []
        self._size = 0
        self._savepoints: dict[str, int] = {}
        self._ahead: Ahead | None = None
        self._streaming = False
        self._undone_payload = False

    def __iter__(self) -> Iterator[Change]:
        for step in self.reader:
            yield from self.feed(step)
        self.finish()

    def feed(self, step: Step) -> Iterator[Change]:
        """Take in a step of the reader; gives the changes that hold by now."""
        return (item for item in self._take(step) if isinstance(item, Change))

    def with_statements(self) -> Iterator[Change | Logged]:
        """The changes, and in their places all logged statements but those that begin and end
        transactions. Those that change rows are no error then, but LOAD DATA is.
        """
        self._keeps = True
        for step in self.reader:
            yield from self._take(step)
        self.finish()

    def _take(self, step: Step) -> Iterator[Change | Logged]:
        event, boundary, group, kind, schema, first = step
        if schema is not None and group is not None and isinstance(event, RowsEvent):
            change = Change(event, schema, group, first)
            if event.inner_index is not None:
                if self._undone_payload:
                    self.taken_back += 1
                else:
                    yield change  # else a payload is of a transaction that was committed
                return
            self._held.append(change)
            self._size += event.header.length
        elif isinstance(event, QueryEvent):
            if event.inner_index == 0:
                self._undone_payload = self._is_undone(event)
            kept = self._statement(event, group)
            if kept is not None and event.inner_index is None:
                self._held.append(kept)
                self._size += event.header.length
            elif kept is not None and not self._undone_payload:
                yield kept
        elif self._keeps and event.header.type in _READ_BY_NEXT:
            self._before.append(event)
        elif event.header.type in _LOOKED_AT:
            self._refuse(event)
        if boundary is Boundary.END:
            yield from self._end(kind)
        elif boundary is Boundary.OUTSIDE:
            self._forget()
        elif self._streaming or self._size > _MOST_HELD:
            self._streaming = True
            yield from self._release()

    def finish(self) -> None:
        """The log is over: what is held has no end in it."""
        self._forget()

    def _end(self, kind: TransactionKind | None) -> Iterator[Change | Logged]:
        if kind is TransactionKind.ROLLBACK:
            self.taken_back += len(self._held)
        elif kind is TransactionKind.XA_PREPARE or self._streaming:
            yield from self._release()
        else:
            yield from self._held
        self._begin()

    def _begin(self) -> None:
        self._held = []
        self._before = []
        self._size = 0
        self._savepoints.clear()
        self._streaming = False

    def _forget(self) -> None:
        """What is held has no end in the log."""
        self.unfinished += len(self._held)
        self._begin()

    def _is_undone(self, first: QueryEvent) -> bool:
        """Whether a payload, by its first event, is an XA transaction that was rolled back."""
        return _XA.match(first.sql_bytes) is not None and self._read_ahead().takes_back(first)

    def _read_ahead(self) -> Ahead:
        if self._ahead is None:
            self._ahead = Ahead.read(self.reader.series)
        return self._ahead

    def _release(self) -> Iterator[Change | Logged]:
        """Of what is held, that which holds by what stands behind it."""
        ahead = self._read_ahead()
        for change in self._held:
            if ahead.takes_back(change.event):
                self.taken_back += 1
            elif ahead.unfinished(change.event):
                self.unfinished += 1
            else:
                yield change
        self._held = []
        self._size = 0

    def _statement(self, event: QueryEvent, group: Group | None) -> Logged | None:
        """Take in a statement; gives it where statements are to be kept."""
        raw = event.sql_bytes
        if raw in {b"BEGIN", b"COMMIT"}:
            return None
        sql = event.sql
        before, self._before = tuple(self._before), []
        if (found := _ROLLBACK.match(sql)) is not None and found[1] is not None:
            self._roll_back_to(event, found[1].lower())
        elif found := _SAVEPOINT.match(sql):
            self._savepoints[found[1].lower()] = len(self._held)
        elif self._keeps and event.header.type not in _LOADED:
            if classify(sql) is not StatementKind.CONTROL:
                return Logged(event, group, before)
        elif classify(sql).changes_rows:
            self.refuse_statement(event)
        return None

    def refuse_statement(self, event: QueryEvent) -> None:
        """What ``statements`` says to do about a statement that changed rows."""
        self._not_logged(event, f"the statement «{' '.join(event.sql.split())[:60]}»")

    def _roll_back_to(self, event: QueryEvent, name: str) -> None:
        if event.inner_index is not None:
            raise event.error("rows inside a compressed transaction are taken back", BoundaryError)
        if self._streaming:
            return  # reading ahead has told which rows
        kept = self._savepoints.get(name)
        if kept is None:
            raise event.error("no savepoint of that name stands before it", BoundaryError)
        self.taken_back += len(self._held) - kept
        del self._held[kept:]

    def _refuse(self, event: Event) -> None:
        if event.header.type in _LOADED:
            self._not_logged(event, "LOAD DATA")
        elif event.header.type == EventType.INCIDENT:
            raise event.error("the server lost events here: copy the tables anew", BoundaryError)
        else:
            raise event.error("rows in events of this type cannot be decoded", UnsupportedType)

    def _not_logged(self, event: Event, what: str) -> None:
        if self.statements == "skip":
            self.skipped_statements += 1
            return
        error: LogError = event.error(
            f"the log holds {what} and not the rows that it changed (binlog_format is not ROW); "
            "--statements skip passes over such",
            StatementChange,
        )
        raise error


class Ahead:
    """What stands behind rows that are asked about: were they taken back, was their end logged?"""

    def __init__(self, rollbacks: Rollbacks, end: Position) -> None:
        self._ranges = _merged(rollbacks.ranges)
        self._end = end

    @classmethod
    def read(cls, series: LogSeries) -> Ahead:
        """Go through a series; rows are not decoded."""
        rollbacks = Rollbacks()
        parser = BoundaryParser()
        log = Log(series, verify_checksums=False, expand_payloads=False)
        end = Position(series.files[0].name, 0)
        began = 0
        for event in log:
            inside = parser.inside
            boundary = parser.feed(event)
            if not inside:
                began = event.offset or 0
            rollbacks.feed(event, began)
            if boundary is Boundary.END:
                end = Position(event.file or "", event.end_offset or 0)
        return cls(rollbacks, end)

    def takes_back(self, event: Event) -> bool:
        """Whether rows were taken back: those of an event, or of the payload that it is in."""
        file, offset = event.file or "", event.offset or 0
        ranges = self._ranges.get(file, [])
        before = bisect_right(ranges, (offset, sys.maxsize)) - 1
        return before >= 0 and offset < ranges[before][1]

    def unfinished(self, event: Event) -> bool:
        """Whether the rows' transaction has no end in the logs."""
        return Position(event.file or "", event.offset or 0) >= self._end


def _merged(ranges: Iterable[tuple[str, int, int]]) -> dict[str, list[tuple[int, int]]]:
    """The ranges of each file in order, those that overlap as one."""
    files: dict[str, list[tuple[int, int]]] = {}
    for file, start, end in sorted(ranges):
        known = files.setdefault(file, [])
        if known and start <= known[-1][1]:
            known[-1] = known[-1][0], max(known[-1][1], end)
        else:
            known.append((start, end))
    return files
