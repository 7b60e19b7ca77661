"""A log as an iterable of events: `open`."""

from __future__ import annotations

from collections.abc import Iterable
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tailrace.arguments import checked
from tailrace.closing import Closing, NotPickled
from tailrace.constants import MAGIC, EventFlag
from tailrace.errors import ConnectionLost, StorageError, UsageError
from tailrace.events import (
    DecodeContext,
    Event,
    FormatDescription,
    FormatDescriptionEvent,
    GtidListEvent,
    PreviousGtidsEvent,
    QueryEvent,
    RowsEvent,
    StartEncryptionEvent,
    TransactionPayloadEvent,
    UnknownIgnorableEvent,
)
from tailrace.events.format_description import first_event
from tailrace.gtid import GtidState
from tailrace.handlers import ByTable, Handler, Pipeline
from tailrace.log.results import Results
from tailrace.log.sources import Reading, is_transport, transport_of
from tailrace.position import Position
from tailrace.printable import short_repr
from tailrace.selection import check_follow, start_of, until_of
from tailrace.storage import LogSeries
from tailrace.transaction import Boundary, BoundaryParser, Transaction, TransactionAssembler
from tailrace.transports import END, BackgroundReader, SeriesTransport, check_among
from tailrace.transports.gtids import Awaited, ReadGtids
from tailrace.transports.until import EndFinder
from tailrace.values.row import RowSet

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from tailrace.events import Unknown
    from tailrace.log.sources import Source
    from tailrace.schema.catalogue import Catalogue
    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound, Until
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.transports import Record, Start, Stream, Transport
    from tailrace.values.schema import TableSchema

_NOTED: Final = (UnknownIgnorableEvent, StartEncryptionEvent)
RowsEvent.opened_by = RowSet  # for `RowsEvent.rows`, whose class is below that of rows
_HEAD: Final = (
    FormatDescriptionEvent,
    PreviousGtidsEvent,
    GtidListEvent,
    StartEncryptionEvent,
)
"""What comes at a file's beginning, up to its list of GTIDs."""


class Log(NotPickled, Closing):
    """The events of a log, in order: from files, from memory, or from any other transport.

    Iterating decodes lazily and holds one event at a time; each iteration begins at the start (or
    where `seek` said). A transaction payload is given as its event and then, with
    ``expand_payloads``, as the events inside. All events pass through the ``handlers`` first, whose
    output is given. Iterating raises LogError and its kinds for errors in the log, StorageError
    for errors of a file, and whatever handlers raise.

    `connect` connects to the source and starts a thread that reads ahead into a bounded queue; from
    then on iterating and `wait_for_next_event` continue after the last event taken, until `close`.
    A followed log (``follow``) waits at its end for more, also after a torn event of a file in use,
    and continues in the next file; iterating it connects. Other logs are read in the caller's
    thread: reading a file's bytes takes a fourteenth of the time of decoding its events, and Python
    works in one thread at a time, so the queue only costs (a fifth, ``python -m benchmarks
    handlers``).

    >>> import tailrace
    >>> with tailrace.open("examples/shop/mysql") as log:
    ...     first = next(log)
    ...     log.seek("binlog.000002:60823")
    ...     transaction = next(log.transactions())
    >>> first.name, transaction.gtid.gno, str(transaction.end), str(log.position)
    ('FORMAT_DESCRIPTION', 398, 'binlog.000002:91006', 'binlog.000002:60823')

    ``position`` is where to resume: the end of the last transaction that was taken whole, or the
    start; it moves when the next event is requested, never before. Assigning to it is `seek`.
    ``ignored`` counts events of unknown type that the format allows a reader to skip (they are
    given, too). ``torn_tail`` is set if a live log ended inside an event. ``incomplete`` says
    whether the log ended inside a transaction. ``at_end`` says that a connected log has no more
    events.
    """

    def __init__(
        self,
        source: LogSeries | Transport,
        *,
        start: Bound | None = None,
        until: Bound | None = None,
        follow: bool = False,
        schema: Catalogue | None = None,
        verify_checksums: bool = True,
        expand_payloads: bool = True,
        handlers: Iterable[Handler] = (),
        unknown: Unknown = "error",
    ) -> None:
        if unknown not in ("error", "opaque"):
            raise UsageError(f'unknown is "error" or "opaque", not {unknown!r}')
        if not isinstance(source, LogSeries) and not is_transport(source):
            raise UsageError(
                f"a Log is of a LogSeries or a transport, not of {source!r}: tailrace.open takes"
                " paths and URLs"
            )
        if not isinstance(handlers, Iterable):
            raise UsageError(f"handlers are several, and not {short_repr(handlers)}")
        self.unknown = unknown
        self.transport = SeriesTransport(source) if isinstance(source, LogSeries) else source
        self.follow = follow
        self.verify_checksums = verify_checksums
        self.expand_payloads = expand_payloads
        self.handlers = Pipeline(handlers)
        self.lowers_names = schema is not None and bool(schema.lowers_names)
        """Whether the server put names into lower case: see `FormatDescription`."""
        self._context = self._new_context()
        self._format: FormatDescriptionEvent | None = None
        self._running: list[Generator[Any]] = []
        self._stream: Stream | None = None
        self._link: BackgroundReader | None = None
        self._linked: Generator[Event | None] | None = None
        self._deadline: float | None = None
        self._nexts: Iterator[Event] | None = None
        self._taking = RLock()
        self._failure: Exception | None = None
        self.at_end = False
        self._until = until_of(until)
        if follow:
            check_follow(self._until)
        self._check_until()
        self._catalogue = schema
        self._schemas: dict[bytes, TableSchema] = {}
        self._begin(*self._located(start))
        self._read_format()

    def _check_until(self) -> None:
        """Raise UsageError for a position in a file that the log does not have."""
        transport, until = self.transport, self._until
        if isinstance(until, Position) and isinstance(transport, SeriesTransport):
            check_among(until, [file.name for file in transport.series.files], self.transport.name)

    def _end_finder(self) -> EndFinder | None:
        """What finds where reading ends; None if it is the log's end."""
        until, start = self._until, self._start
        if until is None or until == "now":
            return None
        return EndFinder(until, awaited_of(until, start, start, self.transport))

    def _name_columns(self, catalogue: Catalogue, event: Event) -> None:
        """Give rows the schema that the caller's definitions and the log's DDL say."""
        if isinstance(event, QueryEvent):
            if catalogue.apply_event(event, self.format.flavour):
                self._schemas.clear()
        elif isinstance(event, RowsEvent) and not event.is_dummy:
            body = event.table_map.body
            if body not in self._schemas:
                self._schemas[body] = catalogue.resolve(event.table_map, self.format.flavour)
            event.schema = self._schemas[body]

    @property
    def start(self) -> Start | None:
        """Where reading begins, as it was given; a file's or time's position."""
        return self._start

    def _in_current_file(self, start: object) -> object:
        """A start; an offset alone becomes a position in the current file."""
        if not isinstance(start, int) or isinstance(start, bool):
            return start
        file = self._position.file
        if not file:
            raise UsageError(
                f"the offset {start} alone needs a current file, which is known once events came"
                f" from {self.transport.name}: give binlog.000001:{start}"
            )
        return Position(file, start)

    def _located(self, start: object) -> tuple[Start | None, Position]:
        """Where to begin, for the transport and as a position."""
        wanted = start_of(start)
        place = self.transport.locate(wanted)
        if wanted is not None and place is not None and not isinstance(wanted, GtidState):
            wanted = place  # for GTIDs, transactions after that position may have been read
        return wanted, place or Position("", len(MAGIC))

    def _begin(self, start: Start | None, place: Position) -> None:
        self._start = start
        self._place = place
        self._reset()

    def _reset(self) -> None:
        self._closed = False
        self._position = self._place
        self._taken: ReadGtids | None = None
        self.ignored = 0
        self.torn_tail: Position | None = None
        self.incomplete = False
        self._inside_of: Position | None = None

    def _read_format(self) -> None:
        """Read the first event, so that opening a file that is not a log fails at once."""
        first = self.transport.peek()
        if first is not None:
            file, offset, raw = first
            self._note_format(self._decode(self._new_context(), raw, file, offset))

    def _note_format(self, first: Event) -> None:
        self._format = first_event(first)

    @property
    def _first(self) -> FormatDescriptionEvent:
        if self._format is None:
            raise UsageError("the log's format is known only after its first event was read")
        return self._format

    @property
    def format(self) -> FormatDescription:
        """The description of the following events, from the log's first event."""
        return self._first.description

    @property
    def created(self) -> int:
        """When the log was created, in seconds UTC: its first event's timestamp."""
        return self._first.timestamp

    @property
    def position(self) -> Position:
        """Where to resume. Setting it is `seek`."""
        return self._position

    @position.setter
    def position(self, start: Bound | int) -> None:
        self.seek(start)

    @property
    def gtids(self) -> GtidState | None:
        """The GTIDs after which to resume, those at ``position``, there or at another server.

        None if the log does not list them. Of files: the file is read up to the position to find
        them. Of a server: None until the next file if reading did not begin at the start of one,
        unless by GTIDs.
        """
        return resume_gtids(self._taken, self.transport, self._position)

    def seek(self, start: Bound | int) -> None:
        """Start again at a position, closing what runs: the next event requested is the first
        there.

        ``start`` is what `tailrace.selection.start_of` takes, as an object or as text, or an offset
        in the current file. A position (``binlog.000003:1234``) is where an event begins: inside a
        transaction of a file, its table maps are found, but `transactions` cannot begin there (of a
        server, rows whose table map was before it raise MissingTableMap). A GtidSet or, for
        MariaDB, a GtidList means the transactions that are not in it; the lists of GTIDs at the
        start of each file say where the first of these is. A time means the first transaction that
        was committed then or later. None is the log's beginning. Raises UsageError, GtidError,
        StorageError for a position in a file where no event begins, and BoundaryError if the events
        before it are in an order that no transaction has; then it changes nothing.

        The log of a server is asked, on a connection of its own, if this log is connected: then
        what `connect` raises is raised here, too. Else `connect` raises it.
        """
        located = self._located(self._in_current_file(start))
        check = None if self._link is None else getattr(self.transport, "check", None)
        if check is not None:
            check(located[0])
        self.close()
        self._begin(*located)

    def connect(self) -> None:
        """Connect to the source, and start reading ahead in a background thread; does nothing if
        one is already running.

        The login is done here, so that its error is raised here: ConnectionLost, AccessDenied and
        other ServerErrors. A start that the server does not have is one, too, also one inside an
        event: the first event from the start on is waited for (not at the log's end). After it
        ``position``, ``created`` and ``format`` are known, also of a server's log. An attempt ends
        when another thread calls `close`, with ConnectionLost. Iterating and `wait_for_next_event`
        connect by themselves, in the background thread: then errors come with the first event.
        """
        if self._link is not None and not self.at_end and self._failure is None:
            return
        stream = self._new_stream(follow=self.follow)
        connect = getattr(stream, "connect", None)
        if connect is not None:
            try:
                first = connect()
            except BaseException:
                self.close()
                raise
            if self._stream is not stream:
                raise ConnectionLost(f"{self.transport.name}: the log was closed during connect")
            if first is not None:
                self._meet(stream, *first)
        self._read_ahead(stream)

    def _new_stream(self, *, follow: bool) -> Stream:
        self.close()
        self._reset()
        stream = self._stream = self.transport.read(self._start, follow=follow)
        return stream

    def _meet(self, stream: Stream, file: str, offset: int, raw: bytes) -> None:
        """Take from a source's first event what is to be known once it is connected."""
        if self._format is None:
            self._note_format(self._decode(self._new_context(), raw, file, offset))
        self._taken = getattr(stream, "taken", None)
        if self._taken is not None and not self._position.file:
            self._position = self._taken.begin

    def _read_ahead(self, stream: Stream) -> None:
        self._link = link = BackgroundReader(stream)
        self._linked = self._flow(stream, self._queued(link), expand=self.expand_payloads)
        self.handlers.on_injection(link.wake)

    def _queued(self, link: BackgroundReader) -> Iterator[Record | None]:
        """What the thread read; None after the timeout or when something was injected."""
        while (record := link.get(self._deadline)) is not END:
            yield record  # type: ignore[misc]  # END is the only one of its type

    def _take(self) -> Event | None:
        """The next event of the connection; None at the end, and after the timeout."""
        if self._failure is not None:
            raise self._failure
        if self._linked is None or self.at_end:
            return None
        try:
            event = next(self._linked)
        except StopIteration:
            self.at_end = True
            return None
        except Exception as error:
            self._failure = error
            raise
        except BaseException:
            self._failure = StorageError("reading was interrupted: seek(log.position) resumes it")
            raise
        return event

    def wait_for_next_event(self, timeout: float | None = None) -> Event | None:
        """The next event; None if none came in ``timeout`` seconds, and at the log's end.

        ``at_end`` distinguishes the two: it is true only when the log has no more events. Connects
        if the log is not connected; None at once after `close` of a connected one. Without
        ``timeout`` it waits as long as it takes. An error is raised after all events before it, and
        then again at each call, until `seek`, `connect` or `close`.
        """
        if timeout is not None and not isinstance(timeout, (int, float)):
            raise UsageError(f"a timeout is in seconds, or None, and not {short_repr(timeout)}")
        if self._link is None:
            if self._closed:
                return None
            self._read_ahead(self._new_stream(follow=self.follow))
        return self._wait(timeout)

    def _wait(self, timeout: float | None) -> Event | None:
        self._deadline = None if timeout is None else monotonic() + timeout
        while self._link is not None:
            event = self._take()
            if event is not None or self.at_end:
                return event
            if self._deadline is not None and monotonic() >= self._deadline:
                break
        return None

    def __next__(self) -> Event:
        """The next event of one iteration, which `close` and `seek` end. Several threads may call
        it: each event goes to one of them.
        """
        nexts = self._nexts
        with self._taking:
            if nexts is not None and nexts is not self._nexts:  # closed while this thread waited
                raise StopIteration
            if self._nexts is None:
                self._nexts = iter(self)
            return next(self._nexts)

    def __iter__(self) -> Iterator[Event]:
        """A new iteration. Several threads may take from it: each event goes to one of them."""
        return Results(self._events(expand=self.expand_payloads), _nothing)

    def _events(self, *, expand: bool) -> Iterator[Event]:
        if self.follow and self._link is None:
            self._read_ahead(self._new_stream(follow=True))
        if self._link is not None:
            return self._rest()
        stream = self._stream = self.transport.read(self._start, follow=False)
        self._reset()
        running = self._flow(stream, stream, expand=expand)
        self._running = [running]
        return running  # type: ignore[return-value]  # only a queue gives None

    def _rest(self) -> Iterator[Event]:
        link = self._link
        while link is self._link and not self.at_end:
            event = self._wait(None)
            if event is not None:
                yield event

    def lower_names(self) -> None:
        """From here on the log's server is known to put names into lower case."""
        self.lowers_names = True
        self._context.lower_names()

    def _new_context(self, unknown: Unknown = "error") -> DecodeContext:
        return DecodeContext(unknown=unknown, lowers_names=self.lowers_names)

    def _decode(self, context: DecodeContext, raw: bytes, file: str, offset: int) -> Event:
        return context.decode(raw, file=file, offset=offset, verify_checksum=self.verify_checksums)

    def _outer_events(self, records: Iterable[Record | None]) -> Iterator[Event | None]:
        """The events as they are stored."""
        self._context = self._new_context(self.unknown)
        decode = self._context.decode
        verify = self.verify_checksums
        for record in records:
            if record is None:
                yield None
                continue
            file, offset, raw = record
            event = decode(raw, file=file, offset=offset, verify_checksum=verify)
            del record, raw  # the event holds their content, which may be large
            if isinstance(event, _NOTED):
                self._note(event)
            yield event
            del event

    def _note(self, event: Event) -> None:
        """Handle an event that is skipped, or that makes all events after it unreadable."""
        if isinstance(event, UnknownIgnorableEvent):
            self.ignored += 1
        elif not event.header.flags & EventFlag.IGNORABLE:  # otherwise it was decrypted before
            raise event.error("the log is encrypted from here on: give its keyring")

    def _flow(
        self, stream: Stream, records: Iterable[Record | None], *, expand: bool
    ) -> Generator[Event | None]:
        """The output of the handlers; None if a queue gave none in time."""
        parser = BoundaryParser()
        start = self._start if isinstance(self._start, Position) else None
        taken = self._taken = getattr(stream, "taken", None)
        finder, found = self._end_finder(), None
        pipeline = self.handlers
        pipeline.start()
        yield from pipeline.drain()
        for event in self._outer_events(records):
            if event is None:
                yield from pipeline.drain()
                yield None
                continue
            if self._format is None:
                self._note_format(event)
            inside = finder is not None and parser.inside
            boundary = parser.feed(event)
            if self._catalogue is not None:
                self._name_columns(self._catalogue, event)
            if start is not None and not isinstance(event, FormatDescriptionEvent):
                if event.file == start.file and (event.offset or 0) < start.offset:
                    self._inside_of = self._inside_of or Position(start.file, event.offset or 0)
                    del event
                    continue
                start = None
            if taken is not None:
                if parser.discarded:
                    taken.voided()
                taken.feed(event)
                if not self._position.file:
                    self._position = taken.begin
            if finder is not None:
                found = finder.feed(event, not parser.control and not inside, boundary)
                if found is not None and found.offset == event.offset:
                    break
            if pipeline.current:
                yield from pipeline.process(event)
                if any(pipeline.queues):
                    yield from pipeline.drain()
            else:
                yield event
            if expand and isinstance(event, TransactionPayloadEvent):
                yield from self._inner_events(event)
            if boundary is Boundary.END or boundary is Boundary.OUTSIDE:
                self._advance(event)
                if taken is not None:
                    taken.ended()
            del event  # before the next is read: both may be large
            if found is not None:
                break
        if finder is not None and found is None:
            finder.check_met(self.transport.name, self._position.file)
        self.incomplete = parser.inside
        self.torn_tail = stream.torn_tail
        yield from pipeline.finish()

    def _inner_events(self, event: TransactionPayloadEvent) -> Iterator[Event]:
        pipeline = self.handlers
        for inner in event:
            if isinstance(inner, _NOTED):
                self._note(inner)
            if self._catalogue is not None:
                self._name_columns(self._catalogue, inner)
            if pipeline.current:
                yield from pipeline.process(inner)
                yield from pipeline.drain()
            else:
                yield inner
            del inner

    def _advance(self, event: Event) -> None:
        """Move past an event that was taken, but not back to the file's first event."""
        file, end = event.file, event.end_offset
        if file is None or end is None:
            return
        if file != self._position.file or end > self._position.offset:
            self._position = Position(file, end)

    def transactions(self) -> Iterator[Transaction]:
        """The transactions, one held at a time; control events between them are left out.

        They are made from the output of the handlers. The last may be incomplete, and one that a
        crash interrupted is given as incomplete. Iterating raises UsageError if the start is inside
        a transaction.
        """
        running = self._transactions(self._events(expand=False))
        self._running.append(running)
        return Results(running, _nothing)

    def _transactions(self, events: Iterator[Event]) -> Generator[Transaction]:
        assembler = TransactionAssembler()
        for event in events:
            if self._inside_of is not None:
                check_whole(self._place, self._inside_of)
            done = assembler.feed(event)
            if done is not None:
                yield done
        left = assembler.finish()
        self.incomplete = left is not None
        if left is not None:
            yield left

    def close(self) -> None:
        """End the iteration, or the connection and its thread. May be called from any thread, but
        not from a handler. Iterating or `connect` opens the log again.
        """
        link, self._link = self._link, None
        stream, self._stream = self._stream, None
        if link is not None:
            self.handlers.on_injection(None)
            link.close()
        elif stream is not None:
            stream.close()
        self._nexts = None
        running = [*self._running, *([] if self._linked is None else [self._linked])]
        self._running, self._linked = [], None
        for each in running:
            if not getattr(
                each, "gi_running", False
            ):  # otherwise another thread runs it, and ends by itself
                each.close()
        self._failure = None
        self.at_end = False
        self._closed = link is not None


def _nothing() -> None:
    """What ends an iteration of a log that stays open."""


def check_whole(start: Position, begin: Position) -> None:
    """Raise UsageError if a start is inside the transaction that begins at ``begin``."""
    if start != begin:
        raise UsageError(
            f"{start} is inside the transaction that begins at {begin}: read from the beginning of"
            " the transaction (the events alone can be read from here)"
        )


def resume_gtids(
    counted: ReadGtids | None, transport: Transport, position: Position
) -> GtidState | None:
    """The GTIDs after which to resume at a position: as they were counted, else those that the
    file lists. None if neither knows them.
    """
    gtids = None if counted is None else counted.gtids
    if gtids is not None:
        return gtids.copy()
    files = isinstance(transport, SeriesTransport) and position.file
    return gtids_at(transport, position) if files else None


def gtids_at(transport: Transport, start: Position) -> GtidState | None:
    """The GTIDs of all transactions that ended before a position: its file's list, and those after
    that list. None if the file has no list, and of a pipe, which can be read only once.
    """
    if isinstance(transport, SeriesTransport) and transport.series.files[0].joined:
        return None
    read, parser = ReadGtids(None), BoundaryParser()
    log = Log(
        transport,
        start=Position(start.file, len(MAGIC)),
        verify_checksums=False,
        expand_payloads=False,
    )
    for event in log:
        at_start = event.file == start.file and (event.offset or 0) >= start.offset
        if at_start and not isinstance(event, _HEAD):
            break
        boundary = parser.feed(event)
        if parser.discarded:
            read.voided()
        read.feed(event)
        if boundary is Boundary.END:
            read.ended()
    log.close()
    return read.gtids


def awaited_of(
    until: Until | None, start: Start | None, begin: Start | None, transport: Transport
) -> Awaited | None:
    """What must still be read up to the requested end, if GTIDs define it.

    ``start`` is as it was requested, ``begin`` where reading begins.
    """
    if not isinstance(until, GtidState):
        return None
    awaited = Awaited(until)
    if isinstance(start, GtidState):
        awaited.without(start)
    elif isinstance(begin, Position):
        awaited.without(gtids_at(transport, begin))
    return awaited


@checked
def open(  # noqa: A001 - it is tailrace.open
    source: Source,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    follow: bool = False,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    schema: str | Path | None = None,
    verify_checksums: bool = True,
    expand_payloads: bool = True,
    handlers: Iterable[Handler] = (),
    keyring: Keyring | str | Path | None = None,
    unknown: Unknown = "error",
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
) -> Log:
    """Open a log: a file, a folder of logs, an index, several files of one series (in any order),
    a URL (``mysql://…`` or ``mariadb://…`` of a server, ``file:///…``, ``memory:name``, ``s3://…``,
    and what `tailrace.transports.register` adds), ``-`` for standard input, a `LogSeries`, or a
    transport.

    ``start`` is where reading begins (see `Log.seek`; for a server, None is the start in its URL,
    and a different one is an error); ``until`` is where it ends, as in `tailrace.rows`; ``follow``
    waits at the log's end for more. ``tables`` and ``exclude`` choose the tables whose row events
    are given (`tailrace.handlers.ByTable`); all other events are given, too. ``event.rows`` are the
    rows of a row event, also of one that was rolled back later. Their columns have names if the log
    has them (``binlog_row_metadata=FULL``); with ``schema``, an SQL file of CREATE TABLE
    statements, if that file or DDL that was read since the start defines the table; else they are
    ``c1``, ``c2``, … (`tailrace.rows` takes names from the log's DDL without a file, too).
    ``keyring`` has the keys of encrypted logs: a path, or as `tailrace.storage.keyring.open` takes
    it; a `LogSeries` has its own. ``layers`` are on the files, as in `tailrace.storage.find`; a
    file whose name ends in ``.zst`` needs none. ``unknown`` is what becomes of events whose type
    has no class and that are not marked ignorable, such as a program's own: with "error" they raise
    UnknownEvent, with "opaque" they are given as `OpaqueEvent`, which handlers and
    `LogWriter.write` take as they are.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    >>> import tailrace
    >>> with tailrace.open("examples/shop/mysql", until="binlog.000001:365") as log:
    ...     print(*[event.name for event in log])
    FORMAT_DESCRIPTION PREVIOUS_GTIDS GTID QUERY

    Raises StorageError if there is no log, KeyMissing if it is encrypted and the key is not there,
    BadMagic and other kinds of LogError if it cannot be read as a log, UsageError
    if the folder holds several series, for a URL scheme that no transport reads, and for a start
    that is not in the log, GtidError for GTIDs that it no longer holds, StorageError for a start in
    a file where no event begins.
    """
    reading = Reading.of(
        source,
        start=start,
        until=until,
        follow=follow,
        tables=tables,
        exclude=exclude,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers,
    )
    transport = transport_of(reading.logs)
    wants = reading.wants
    if not isinstance(handlers, Iterable):
        raise UsageError(f"handlers are several, and not {short_repr(handlers)}")
    return Log(
        transport,
        start=reading.start_in(transport),
        until=reading.selection.end,
        follow=follow,
        schema=None if schema is None else reading.catalogue,
        verify_checksums=verify_checksums,
        expand_payloads=expand_payloads,
        handlers=handlers if wants.takes_all else [ByTable(wants), *handlers],
        unknown=unknown,
    )
