"""The object path through a log: events with their transaction, and rows with their schema.

`Reader` walks over the selected part of a log, as it is logged; `tailrace.log.changes` turns its
steps into the changes that are valid.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
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
    GtidListEvent,
    MariadbGtidEvent,
    PreviousGtidsEvent,
    QueryEvent,
    RowsEvent,
    TransactionPayloadEvent,
)
from tailrace.events.format_description import file_mark
from tailrace.gtid import GtidState
from tailrace.log.events import Log, awaited_of, check_whole
from tailrace.log.sources import agreed_start
from tailrace.log_name import base_and_number
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue
from tailrace.selection import Selection, check_follow
from tailrace.storage import EventReader, LogSeries
from tailrace.storage.search import commit_time
from tailrace.transaction import Boundary, BoundaryParser, Token, TransactionKind, token_of
from tailrace.transports import SeriesTransport, check_among
from tailrace.transports.gtids import (
    AlreadyRead,
    already_read,
    check_all_met,
    locate_gtids,
)
from tailrace.transports.until import EndFinder, check_reached, is_met

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.handlers import GroupFilter
    from tailrace.selection import Start
    from tailrace.transports import Transport
    from tailrace.values.schema import TableSchema

Wants = Callable[[str, str], bool]
Notice = Callable[[str], None]

_CACHED: Final = 4096
_STATEMENTS: Final = frozenset({EventType.QUERY, EventType.QUERY_COMPRESSED})
_FORMAT: Final = int(EventType.FORMAT_DESCRIPTION)
_MICROSECOND: Final = 1_000_000
_LOOKS_EVERY: Final = 0.2
"""Seconds between checks whether a waiting reader should stop."""


@dataclass(frozen=True, slots=True)
class TransactionHead:
    """What a transaction's first event says about it.

    ``gtid`` is its text, None if it has none. ``time`` is its commit time, in microseconds UTC: on
    the server where it was committed first, or its GTID event's second; None in logs without GTID
    events, where each event has a second of its own. ``began`` is its first event's second.
    """

    start: Position
    gtid: str | None
    time: int | None
    began: int

    def time_of(self, event: Event) -> int:
        """The time of a change in it, in microseconds UTC."""
        return event.timestamp * _MICROSECOND if self.time is None else self.time


class Step(NamedTuple):
    """An event, its position, its transaction, and the schema of its rows.

    ``kind`` is set if the event ends its transaction. ``schema`` is set for rows of wanted tables.
    ``first`` is the number of a rows event's first row in ``_seq``.
    """

    event: Event
    boundary: Boundary
    group: TransactionHead | None
    kind: TransactionKind | None = None
    schema: TableSchema | None = None
    first: int = 0


class Reader:
    """Iterates over the selected events of a log, as `Step`.

    ``source`` are files, or the transport of any other log, such as a server's. ``catalogue`` has
    the tables known beforehand (the user's schema). DDL in the log updates it; in files that
    includes DDL before the selected part; of a server, events before a position are not read.
    ``names`` says for each table whose column names do not come from the log where they come from.
    ``notice`` is told what a user should read, and of a log that is followed these names, too. A
    transaction that begins in the selected part is read to its end. Of the selected part, ``picks``
    say which transactions are given; ``picked`` counts those. Without ``gtids`` no transaction is
    reported with a GTID.

    With ``follow`` it waits at the log's end for more, until `stop`. ``on_pause`` may be set to a
    function that is called when all steps of a transaction have been taken, and before it waits,
    ``on_file`` to one that is called with the name of each file and its mark (`file_mark`), before
    its events.
    ``server_id`` is that of the server that wrote the log, 0 before anything was read.

    Raises what `Log` raises; `SchemaError` for a user's schema that does not fit;
    UsageError for a selection that the log does not have.
    """

    def __init__(
        self,
        source: LogSeries | Transport,
        *,
        selection: Selection | None = None,
        wants: Wants = lambda _database, _table: True,
        catalogue: Catalogue | None = None,
        verify_checksums: bool = True,
        notice: Notice = lambda _text: None,
        follow: bool = False,
        picks: Sequence[GroupFilter] = (),
        gtids: bool = True,
    ) -> None:
        self.transport = SeriesTransport(source) if isinstance(source, LogSeries) else source
        self.name = self.transport.name
        self.series = self.transport.series if isinstance(self.transport, SeriesTransport) else None
        self.selection = selection or Selection()
        self.catalogue = Catalogue() if catalogue is None else catalogue.copy()
        self.lowers_names = bool(self.catalogue.lowers_names)
        """Whether the source was known from the first to put names into lower case."""
        self.notice = notice
        self.follow = follow
        self.picks = tuple(picks)
        self.gtids = gtids
        self.picked = 0
        self.on_pause: Callable[[], None] = lambda: None
        self.on_file: Callable[[str, str], None] | None = None
        self.stopped = False
        self._wants = wants
        self.names: dict[str, str] = {}
        self._schemas: dict[bytes, TableSchema | None] = {}
        self._same: dict[TableSchema, TableSchema] = {}
        self.server_id = 0
        self._format: FormatDescription | None = None
        self._last = ""
        self._read: AlreadyRead | None = None
        self._parser = BoundaryParser()
        if follow:
            check_follow(self.selection.end)
        self._begin = self._start()
        self.log = Log(
            self.transport,
            start=self._begin,
            follow=follow,
            verify_checksums=verify_checksums,
        )
        if self.catalogue.lowers_names:
            self.log.lower_names()

    @property
    def format(self) -> FormatDescription:
        """The layout of the events; for a server's log known once its first event came."""
        return self.log.format if self._format is None else self._format

    def stop(self) -> None:
        """Let a following reader end, at a transaction's end; signal handlers may call this as
        well.
        """
        self.stopped = True

    def _start(self) -> Start | None:
        """Where to begin reading; events before the start are read only for their DDL."""
        start = self.selection.start
        if self.series is None:
            return agreed_start(self.transport, start)
        files = self.series.files
        for place in (start, None if self.follow else self.selection.end):
            if isinstance(place, Position):
                check_among(place, [file.name for file in files], self.name)
        if isinstance(start, GtidState):
            self._read = already_read(start)
        if start is None or start == "oldest" or self._looks_for_start:
            return None
        place = (
            self.transport.locate(start) if self._read is None else locate_gtids(files, self._read)
        )
        if isinstance(start, Position) and isinstance(self.transport, SeriesTransport):
            check_whole(start, self.transport.begin_of(start))
        if place is None or place <= Position(files[0].name, len(MAGIC)):
            return None
        read_definitions(self.series, place, self.catalogue)
        return Position(place.file, max(place.offset, len(MAGIC)))

    @property
    def _looks_for_start(self) -> bool:
        """Whether the start is found while reading: in a pipe, which can be read only once."""
        start, series = self.selection.start, self.series
        if series is None or start is None:
            return False
        if start == "now" and series.files[0].joined:
            raise UsageError(f"{self.name}: what comes through a pipe has no present end")
        return series.files[0].joined

    @property
    def inside(self) -> bool:
        """Whether the last event was inside a transaction that has not ended."""
        return self._parser.inside

    def _events(self) -> Iterator[Event]:
        """The log's events; if it is followed, until the reader should stop."""
        try:
            yield from self._followed() if self.follow else self.log
        finally:
            if self.follow or self.series is None:
                self.log.close()

    def _followed(self) -> Iterator[Event]:
        log = self.log
        while True:
            event = log.wait_for_next_event(0)
            if event is None:
                self.on_pause()
            while event is None:
                if log.at_end or self.stopped:
                    return
                event = log.wait_for_next_event(_LOOKS_EVERY)
            if self.stopped and event.inner_index is None and not self.inside:
                return
            yield event

    def __iter__(self) -> Iterator[Step]:
        start, end = self.selection.start, self.selection.end
        finder = None
        if end is not None and end != "now":
            finder = EndFinder(end, awaited_of(end, start, self._begin, self.transport))
        begun = start is None or start == "oldest"
        looks = self._looks_for_start
        read = deepcopy(self._read)
        entering = read if looks else None
        ended = False
        wanted = True
        group: TransactionHead | None = None
        inner = 0
        parser = self._parser = BoundaryParser()
        feed = parser.feed
        for event in self._events():
            kind = None
            if event.inner_index is not None:
                boundary = Boundary.INSIDE
                inner = 0 if event.inner_index == 0 else inner
            else:
                begins = not parser.inside
                boundary = feed(event)
                if boundary is Boundary.OUTSIDE or parser.discarded:
                    begins, group, wanted = False, None, True
                    if self.on_file is not None and isinstance(event, FormatDescriptionEvent):
                        self.on_file(event.file or "", file_mark(event.encode()))
                    if entering is not None and isinstance(
                        event, (PreviousGtidsEvent, GtidListEvent)
                    ):
                        self._enter_pipe(entering, event.gtids)
                        entering = None
                if begins:
                    group = _group(event, gtids=self.gtids)
                    begun = begun or not looks or read is not None or _met(start, event)
                if finder is not None:
                    found = finder.feed(event, begins, boundary)
                    ended = begun and found is not None
                    if ended and found == _begin_of(event):
                        self._parser = BoundaryParser()  # it does not continue what was read
                        break
                if begins:
                    wanted = read is None or not read.holds(event)
                    if wanted and begun and self.picks:
                        wanted = all(each.keeps(event) for each in self.picks)
                        self.picked += wanted
                if boundary is Boundary.END:
                    kind = parser.kind
            first = 0
            if event.inner_index is not None:
                first = inner
                inner += event.header.length
            given = begun and wanted
            schema = self._look_at(event, given)
            over = False
            if given:
                step = Step(event, boundary, group, kind, schema, first)
                over = is_over(step)
                yield step
                del step
                if boundary is Boundary.END or boundary is Boundary.OUTSIDE:
                    self.on_pause()
            del event  # before the next is read: both may be large
            if over and ended:
                break
        if not self.stopped:
            if looks and self.series is not None and read is not None and not ended:
                check_all_met(self.series.files, read)
            self._check_met(begun=begun)
            if finder is not None and not ended:
                finder.check_met(self.name, self._last)

    def _enter_pipe(self, read: AlreadyRead, before: GtidState) -> None:
        """Take in the first list in a pipe, of the transactions before it."""
        if not read.covers(before):
            raise GtidError(f"{self.name}: {read.refusal(before)} not in it, and was not read")
        read.enter(before)

    def _look_at(self, event: Event, begun: bool) -> TableSchema | None:
        """Take in what later events need of an event; returns the schema of wanted rows."""
        code = event.header.type
        if code in _STATEMENTS:
            self._take_definition(event)
        elif code == _FORMAT and isinstance(event, FormatDescriptionEvent):
            self._format = event.description
            self._schemas.clear()
            if event.created:
                self.catalogue.restarted()
            self._enter(event)
        elif begun and isinstance(event, RowsEvent) and not event.is_dummy:
            return self._schema(event)
        return None

    def _enter(self, first: FormatDescriptionEvent) -> None:
        """A file of the log begins; a requested position must be one of such a log."""
        self._last = file = first.file or ""
        self.server_id = self.server_id or first.header.server_id
        for bound in (self.selection.start, self.selection.end):
            place = bound if isinstance(bound, Position) else None
            if place is None or place.number is None:
                continue
            if base_and_number(place.file)[0] != base_and_number(file)[0]:
                raise UsageError(f"{place.file} is not a log of {self.name}, {file} is")

    def _take_definition(self, event: Event) -> None:
        if isinstance(event, QueryEvent):
            changed = self.catalogue.apply_event(event, self.format.flavour)
            if self.catalogue.lowers_names and not self.log.lowers_names:  # the event shows it
                self.log.lower_names()
            if changed:
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
        table = str(schema.full_name)
        if table not in self.names and (text := self.catalogue.notice(schema)) is not None:
            self.names[table] = text
            if self.follow:
                self.notice(f"{table}: {text}")

    def _check_met(self, *, begun: bool) -> None:
        """Raise an error if the requested start is not there, instead of giving nothing."""
        start, end = self.selection.start, self.log.position
        if not begun and isinstance(start, Position) and self._looks_for_start and start > end:
            raise UsageError(f"{start} is past the end of {self.name}: it ends at {end}")
        if self.series is None and not begun:
            check_reached(start, self.name, self._last)


def _begin_of(event: Event) -> Position:
    return Position(event.file or "", event.offset or 0)


def _met(start: object, first: Event) -> bool:
    """Whether a transaction begins at or after a position or time; False for GTIDs."""
    return is_met(start, _begin_of(first), commit_time(first))


def is_over(step: Step) -> bool:
    """Whether a transaction is complete; a payload event ends one, but its inner events follow."""
    event = step.event
    if event.inner_index is None:
        return step.boundary is Boundary.END and not isinstance(event, TransactionPayloadEvent)
    return token_of(event) in {Token.COMMIT, Token.PREPARE}


def _group(event: Event, *, gtids: bool) -> TransactionHead:
    gtid: str | None = None
    time: int | None = None
    if isinstance(event, (GtidEvent, MariadbGtidEvent)):
        gtid = None if event.gtid is None or not gtids else str(event.gtid)
        time = commit_time(event)
    return TransactionHead(_begin_of(event), gtid, time, event.timestamp)


def read_definitions(series: LogSeries, end: Position, catalogue: Catalogue) -> None:
    """Take in the DDL of a series before a position, and read nothing else."""
    for file in series.files:
        context = DecodeContext(lowers_names=bool(catalogue.lowers_names))
        last = end.offset if file.name == end.file else None
        for offset, raw in EventReader(file):
            if last is not None and offset >= last:
                break
            code = raw[4]
            if code == _FORMAT or code in _STATEMENTS:
                event = context.decode(raw, file=file.name, offset=offset)
                if isinstance(event, QueryEvent):
                    catalogue.apply_event(event, context.flavour)
        if last is not None:
            return
