"""The object path through a log: events with their transaction, and rows with their schema.

`Reader` walks over what is selected, as it stands in the log; `tailrace.records` makes of it the
changes that hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.constants import MAGIC, EventType
from tailrace.errors import GtidError, LogError, UsageError
from tailrace.events import (
    DecodeContext,
    Event,
    FormatDescription,
    FormatDescriptionEvent,
    GtidEvent,
    MariadbGtidEvent,
    QueryEvent,
    RowsEvent,
)
from tailrace.log import Log
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.classify import classify
from tailrace.selection import Selection
from tailrace.storage import EventReader
from tailrace.storage.search import commit_time, find_gtid
from tailrace.transactions import Boundary, BoundaryParser, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.rows.schema import TableSchema
    from tailrace.storage import LogSeries

Wants = Callable[[str, str], bool]
Notice = Callable[[str], None]

_CACHED: Final = 4096
_STATEMENTS: Final = frozenset({EventType.QUERY, EventType.QUERY_COMPRESSED})
_FORMAT: Final = int(EventType.FORMAT_DESCRIPTION)
_MICROSECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Group:
    """A transaction, as far as its first event tells.

    ``gtid`` is its text, None where it has none. ``time`` is when it was committed, in
    microseconds UTC: where it was committed first, or its GTID event's second; None in logs
    without GTID events, where each event has a second of its own. ``began`` is its first event's.
    """

    start: Position
    gtid: str | None
    time: int | None
    began: int

    def time_of(self, event: Event) -> int:
        """Microseconds UTC of a change in it."""
        return event.timestamp * _MICROSECOND if self.time is None else self.time


class Step(NamedTuple):
    """An event, where it stands, the transaction that it is part of, and its rows' schema.

    ``kind`` is set where the event ends its transaction. ``schema`` is set for rows of the tables
    that are wanted. ``first`` is the number that a rows event's first row has in ``_seq``.
    """

    event: Event
    boundary: Boundary
    group: Group | None
    kind: TransactionKind | None = None
    schema: TableSchema | None = None
    first: int = 0


class Reader:
    """Iterates over the selected events of a series of logs, as `Step`.

    ``catalogue`` is what is known of tables beforehand (the user's schema); DDL in the logs is
    taken in on the way, also that before the selected part. ``notice`` is told, once a table,
    where its column names come from if that is not the log. A transaction that begins in the
    selected part is read to its end.

    Raises what `Log` raises; `SchemaError` for a schema of the user's that does not fit;
    UsageError for a selection that the logs do not have.
    """

    def __init__(
        self,
        series: LogSeries,
        *,
        selection: Selection | None = None,
        wants: Wants = lambda _database, _table: True,
        catalogue: Catalogue | None = None,
        verify_checksums: bool = True,
        notice: Notice = lambda _text: None,
    ) -> None:
        self.series = series
        self.selection = selection or Selection()
        self.catalogue = Catalogue() if catalogue is None else catalogue.copy()
        self._wants = wants
        self._notice = notice
        self._noticed: set[tuple[str, str]] = set()
        self._schemas: dict[bytes, TableSchema | None] = {}
        self._same: dict[TableSchema, TableSchema] = {}
        self.log = Log(series, start=self._start(), verify_checksums=verify_checksums)
        self.format: FormatDescription = self.log.format
        self._parser = BoundaryParser()

    def _start(self) -> Position | None:
        """Where to begin reading; what stands before is only looked at for its DDL."""
        names = [file.name for file in self.series.files]
        for bound in (self.selection.start, self.selection.end):
            place = None if bound is None else bound.position
            if place is not None and place.file not in names:
                raise UsageError(
                    f"{place.file} is not among the logs of {self.series.name}: "
                    f"{names[0]} to {names[-1]}"
                )
        bound = self.selection.start
        if bound is None or self.series.files[0].joined:  # a pipe is gone through, once
            return None
        start = bound.position if bound.gtid is None else self._place_of(bound.gtid)
        if start is None or start <= Position(names[0], len(MAGIC)):
            return None
        read_definitions(self.series, start, self.catalogue)
        return Position(start.file, max(start.offset, len(MAGIC)))

    def _place_of(self, gtid: str) -> Position:
        try:
            return find_gtid(self.series, gtid)
        except GtidError as error:
            raise UsageError(
                f"no transaction {gtid} in the logs of {self.series.name}: {error}"
            ) from None

    @property
    def inside(self) -> bool:
        """Whether the last event stood inside a transaction that has not ended."""
        return self._parser.inside

    def __iter__(self) -> Iterator[Step]:
        start, end = self.selection.start, self.selection.end
        begun = start is None
        ended = False
        group: Group | None = None
        inner = 0
        parser = self._parser = BoundaryParser()
        feed = parser.feed
        for event in self.log:
            kind = None
            if event.inner_index is not None:
                boundary = Boundary.INSIDE
                inner = 0 if event.inner_index == 0 else inner
            else:
                inside = parser.inside
                boundary = feed(event)
                if boundary is Boundary.OUTSIDE or parser.discarded:
                    group = None
                elif not inside:
                    group = _group(event)
                    time = group.time_of(event)
                    begun = begun or (
                        start is not None and start.met(group.start, group.gtid, time)
                    )
                    ended = begun and end is not None and end.met(group.start, group.gtid, time)
                    if ended:
                        break
                if boundary is Boundary.END:
                    kind = parser.kind
            first = 0
            if event.inner_index is not None:
                first = inner
                inner += event.header.length
            schema = self._look_at(event, begun)
            if begun:
                yield Step(event, boundary, group, kind, schema, first)
        self._check_met(begun=begun, ended=ended)

    def _look_at(self, event: Event, begun: bool) -> TableSchema | None:
        """Take in what an event says for those behind it; the schema of rows that are wanted."""
        code = event.header.type
        if code in _STATEMENTS:
            self._take_definition(event)
        elif code == _FORMAT and isinstance(event, FormatDescriptionEvent):
            self.format = event.description
        elif begun and isinstance(event, RowsEvent) and not event.is_dummy:
            return self._schema(event)
        return None

    def _take_definition(self, event: Event) -> None:
        if isinstance(event, QueryEvent) and defines(event):
            self.catalogue.apply_event(event, self.format.flavour)
            self._schemas.clear()

    def _schema(self, event: RowsEvent) -> TableSchema | None:
        table_map = event.table_map
        key = table_map.body
        try:
            return self._schemas[key]
        except KeyError:
            pass
        schema: TableSchema | None = None
        if self._wants(table_map.database, table_map.table):
            try:
                schema = self.catalogue.resolve(table_map, self.format.flavour)
            except LogError as error:
                raise error.at(event.file, event.offset, event.name) from None
            schema = self._same.setdefault(schema, schema)
            self._say(schema)
        if len(self._schemas) >= _CACHED:
            self._schemas.clear()
            self._same.clear()
        self._schemas[key] = schema
        return schema

    def _say(self, schema: TableSchema) -> None:
        table = (schema.database, schema.table)
        if table not in self._noticed and (text := self.catalogue.notice(schema)) is not None:
            self._noticed.add(table)
            self._notice(text)

    def _check_met(self, *, begun: bool, ended: bool) -> None:
        """A GTID that was asked for and is not there is a mistake, not an empty answer."""
        for bound, met in ((self.selection.start, begun), (self.selection.end, ended)):
            if bound is not None and bound.gtid is not None and not met:
                raise UsageError(f"no transaction {bound.gtid} in the logs of {self.series.name}")


def _group(event: Event) -> Group:
    gtid: str | None = None
    time: int | None = None
    if isinstance(event, (GtidEvent, MariadbGtidEvent)):
        gtid = None if event.gtid is None else str(event.gtid)
        time = commit_time(event)
    return Group(Position(event.file or "", event.offset or 0), gtid, time, event.timestamp)


def defines(event: QueryEvent) -> bool:
    """Whether a statement must be shown to a catalogue."""
    raw = event.sql_bytes
    return raw not in {b"BEGIN", b"COMMIT"} and classify(event.sql).changes_schema


def read_definitions(series: LogSeries, end: Position, catalogue: Catalogue) -> None:
    """Take in the DDL of a series that stands before a position, and look at nothing else."""
    for file in series.files:
        if Position(file.name, len(MAGIC)) >= end:
            return
        context = DecodeContext()
        for offset, raw in EventReader(file):
            if Position(file.name, offset) >= end:
                break
            code = raw[4]
            if code == _FORMAT:
                context.decode(raw, file=file.name, offset=offset)
            elif code in _STATEMENTS and b"BEGIN" not in raw[-9:]:
                event = context.decode(raw, file=file.name, offset=offset)
                if isinstance(event, QueryEvent) and defines(event):
                    catalogue.apply_event(event, context.flavour)
