"""Record batches of changes: of a split, or of a whole source."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from tailrace.arguments import checked
from tailrace.columns.frames.plan import PADDING
from tailrace.columns.live.decoder import LiveDecoder, decode_feed, open_feed
from tailrace.columns.live.records import RecordFeed
from tailrace.columns.read.begin import Begin
from tailrace.columns.read.blocks import BLOCK, Blocks
from tailrace.columns.read.decoder import LogDecoder
from tailrace.columns.read.planner import whole_file
from tailrace.columns.results import Batches, Marked, Parts
from tailrace.constants import MAGIC
from tailrace.errors import (
    BadEventLength,
    NoSuchColumn,
    NoSuchTable,
    TailraceError,
    TruncatedEvent,
    UsageError,
)
from tailrace.events.walk import frames
from tailrace.live.transport import ServerTransport
from tailrace.log.events import awaited_of
from tailrace.log.sources import Reading
from tailrace.log.until import end_in
from tailrace.position import Position
from tailrace.storage import LogSeries
from tailrace.table_filter import TableFilter
from tailrace.transports import SeriesTransport
from tailrace.transports.until import EndFinder
from tailrace.warn import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    import pyarrow as pa

    from tailrace.columns.read.split import Inside, Split
    from tailrace.columns.read.walk import Array, Unnamed
    from tailrace.columns.results import Batch
    from tailrace.events import Event
    from tailrace.live.feed import Feed
    from tailrace.log.sources import Source
    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound, Start
    from tailrace.storage import LogFile
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.table_name import TableName
    from tailrace.transports import Transport
    from tailrace.values.schema import TableSchema

_MOST_KEPT = 128 << 20
"""The most bytes of log blocks that are kept while their rows wait for larger batches."""


def read_split(
    split: Split,
    *,
    tables: str | Sequence[str] | TableFilter | None = None,
    exclude: str | Sequence[str] | None = None,
    columns: str | Collection[str] | None = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
    notice: Callable[[TableSchema], None] = lambda _schema: None,
    also: Callable[[str, str], bool] = lambda _database, _table: True,
    unnamed: Unnamed | None = None,
    no_cascades: Callable[[Array], None] | None = None,
    skipped: Callable[[Event], None] = lambda _event: None,
) -> Iterator[pa.RecordBatch]:
    """Decode a split; arguments and batches are those of `changes`.

    ``tables`` may be a filter made of both.
    ``also`` is one more test that a database and a table have to pass. With ``unnamed``, rows of
    tables with unknown column names are reported to it, not decoded. ``no_cascades`` is called with
    updates and deletes that change no other rows below the log: an array of four columns
    (file's number, position, and the rows' first number in ``_seq`` and one past the last).
    ``skipped`` is called with each statement that is skipped.
    """
    wanted = TableFilter.of(tables, exclude)
    decoder = LogDecoder(
        split.source,
        wants=lambda database, table: wanted(database, table) and also(database, table),
        columns=[columns] if isinstance(columns, str) else columns,
        catalogue=split.catalogue.copy(),
        verify=verify_checksums,
        statements=statements,
        notice=notice,
        unnamed=unnamed,
        skipped=skipped,
    )
    decoder.no_cascades = no_cascades
    decoder.begin_file(split.file, split.left_out)
    return (batch for batch in _decode(decoder, split) if batch is not None)


def _decode(
    decoder: LogDecoder,
    split: Split,
    ends: Literal["file", "series"] | None = None,
    *,
    threads: Executor | None = None,
    verify: bool = False,
) -> Iterator[pa.RecordBatch | None]:
    """Decode a split. With ``threads`` one reads ahead, and with ``verify`` verifies checksums.

    None comes where all rows of what was decoded have been given.
    """
    try:
        yield from _decode_blocks(decoder, split, ends, threads=threads, verify=verify)
    except BadEventLength as error:
        error.file = split.log.path  # damage of a file names its path, as where events are read
        raise


def _decode_blocks(
    decoder: LogDecoder,
    split: Split,
    ends: Literal["file", "series"] | None,
    *,
    threads: Executor | None,
    verify: bool,
) -> Iterator[pa.RecordBatch | None]:
    with Blocks(split.log, end=split.end, threads=threads, verify=verify) as blocks:
        blocks.check_magic()
        if split.start > blocks.offset:
            _read_format_description(decoder, blocks)
            if split.inside is not None:
                _read_opening(decoder, split.inside)
                decoder.begin_inside()
            blocks.skip(split.start)
        consumed = 0
        while (yield from _next(decoder, blocks, consumed)):
            yield from decoder.decode(
                blocks.data,
                blocks.size,
                blocks.offset,
                split.end,
                ends=ends,
                spent=True,
                may_wait=blocks.kept < _MOST_KEPT,
                verified=blocks.verified,
            )
            consumed = decoder.consumed
            if decoder.gave_all:
                yield None
            if size := blocks.payload_ahead(consumed):
                yield from decoder.rest()  # first, because the payload may raise an error
                offset = blocks.offset + consumed
                if offset + size > split.end:
                    raise _cut_off(split, offset)
                yield from decoder.large_payload(offset, size, blocks.read)
                yield None
                blocks.skip(offset + size)
                consumed = 0
        yield from decoder.rest()
        yield None
        if blocks.offset < split.end:  # what is left are held rows' events, and the torn one
            held = max((end for _, end in frames(blocks.data.data, blocks.size)), default=0)
            raise _cut_off(split, blocks.offset + held)


def _next(
    decoder: LogDecoder, blocks: Blocks, consumed: int
) -> Generator[pa.RecordBatch, None, bool]:
    """Read the next block, and keep those blocks whose rows are not decoded yet.

    If reading fails, the rows that wait are given before the error is raised.
    """
    try:
        return blocks.next(consumed, keep=decoder.waits)
    except TailraceError:
        yield from decoder.rest()
        raise


def _cut_off(split: Split, offset: int) -> TruncatedEvent:
    return TruncatedEvent(
        f"the log ends inside this event, before byte {split.end}",
        file=split.log.path,
        offset=offset,
    )


def _read_format_description(decoder: LogDecoder, blocks: Blocks) -> None:
    """Take in the file's first event, without which no event after it can be read."""
    blocks.block = 1 << 10
    blocks.next(0)
    size = blocks.event_size(0)
    for _ in decoder.decode(blocks.data, min(size, blocks.size), blocks.offset):
        pass
    blocks.block = BLOCK


def _read_opening(decoder: LogDecoder, inside: Inside) -> None:
    """Take in the GTID event of the transaction inside which a split begins."""
    size = len(inside.opening)
    data = np.zeros(size + PADDING, np.uint8)
    data[:size] = np.frombuffer(inside.opening, np.uint8)
    for _ in decoder.decode(data, size, inside.began):
        pass


@checked
def changes(
    source: Source,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    follow: bool = False,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    columns: str | Collection[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
    notice: Callable[[TableSchema], None] | None = None,
    threads: int = 1,
) -> Batches:
    """Iterate over the changes in a log as record batches, each of one table.

    Each is a `tailrace.columns.Batch`: a record batch that also tells its ``table`` and the
    ``position`` to resume from. The result is an iterator and a context manager with ``position``,
    ``gtids`` and ``close()``, which another thread may call. If one table is selected, pandas,
    polars and DuckDB read it as a stream of Arrow (``__arrow_c_stream__``), as in
    ``polars.DataFrame(tailrace.changes(source, tables="shop.orders"))``.

    The rows of one table come in the log's order, except for XA transactions of a server (below).
    Batches of different tables may overlap: a batch may hold rows that come later in the log than
    rows of another table's next batch. ``_seq`` orders all rows.

    ``source`` is a file, a folder, a URL (``memory:name``, ``s3://...``), a `LogSeries`, a running
    server (``mysql://...``, a `tailrace.live.url.Source`), another transport, or several of them:
    first come the files, then the others. ``keyring`` has the keys of
    encrypted logs (a path, or as `tailrace.storage.keyring.open` takes it), ``layers`` are on the
    files as in `tailrace.storage.find` (a file whose name ends in ``.zst`` needs none). ``tables``
    are one or several patterns (``shop.*``) of the wanted tables. ``exclude`` are patterns of the
    tables to leave out, even if ``tables`` wants them: their rows are not decoded. ``columns`` are
    the names of the columns to decode. ``schema`` is an SQL file of CREATE TABLE statements, for
    logs that name no columns. ``statements`` says what to do about changes that were logged as
    statements, whose rows the log does not hold: ``error`` or ``skip``. ``notice`` is called with
    each table when it is first read. If all of the log was read and a pattern matches no table of
    it, a `NoSuchTable` warning lists the tables of the log.

    ``start`` says where to begin, as an object or as text (`tailrace.selection.start_of`): a
    position where a transaction ended, GTIDs that were already read, a time, ``oldest``, ``now``.
    None is the oldest log, or for a server the start in its URL; a different start than the URL's
    is an error. ``until`` says where to end: before the first transaction that begins at a position
    or after it, or was committed at a time or later; once all of some GTIDs were read; ``now``, at
    the present end. In files it is looked for before reading begins, in the first events of the
    transactions. ``follow`` waits at the log's end for more. Rows are given once their transaction
    has ended. From a server, or a followed log, those of an XA transaction come once it was
    committed, with the ``_seq`` of where they were prepared; in-doubt XA transactions at a server's
    end, or where reading ends, come last.

    With ``threads=2``, two other threads help with files: one reads the next block and verifies its
    checksums, one makes a batch of the rows that were decoded last. The batches are the same, in
    the same order.

    Arguments are checked when it is called, and UsageError is raised then; for a name in
    ``columns`` that no table had, at the end. A followed log has no end: there, a `NoSuchColumn`
    warning comes with the first table that lacks such a name.

    The batches have the fields of the change record (``docs/change-record.md``); the metadata of
    their schema names table, source and key. Events after the last whole transaction of a log
    that is being written are left out. Raises LogError and its kinds for errors in the log,
    UnknownEvent for an event of an unknown type, which may hold rows (`tailrace.open` can give
    it), `StatementChange` for a change without rows, StorageError for errors of a file,
    KeyMissing if it is encrypted and the key is missing; ServerError and its kinds for errors of a
    server, ConnectionLost if it is not reached.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    >>> import tailrace
    >>> for batch in tailrace.changes("examples/shop/mysql", tables="shop.re*"):
    ...     print(batch.table, batch.num_rows, batch.position)
    shop.reviews 150 binlog.000002:211450
    shop.reviews 80 binlog.000003:264979
    shop.reviews 25 binlog.000004:51043
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
    return batches_of(
        reading,
        columns=columns,
        verify_checksums=verify_checksums,
        statements=statements,
        notice=notice,
        threads=threads,
        missing=_warn,
    )


def _warn(text: str) -> None:
    warn(text, NoSuchTable)


def batches_of(
    reading: Reading,
    *,
    columns: str | Collection[str] | None,
    verify_checksums: bool,
    statements: Literal["error", "skip"],
    notice: Callable[[TableSchema], None] | None,
    threads: int,
    missing: Callable[[str], None],
) -> Batches:
    """The batches of what `changes` is asked for.

    ``missing`` is called at the end with a sentence about patterns that match no table.
    """
    if not isinstance(threads, int) or threads < 1:
        raise UsageError(f"threads is 1 or more, not {threads!r}")
    follow = reading.follow
    asked = AskedColumns(columns, notice or (lambda _schema: None), follow=follow)
    tally = Counter[str]()
    make = partial(
        LogDecoder,
        wants=reading.wants,
        columns=asked.names,
        verify=verify_checksums,
        statements=statements,
        notice=asked.notice,
        skipped=lambda _event: tally.update(["skipped"]),
    )
    files: list[FilesPart] = []
    servers: list[Marked] = []
    feeds: list[Feed | RecordFeed] = []
    decoders: list[LogDecoder] = []
    for log in reading.logs:
        begin = reading.start_in(log)
        series = log.series if isinstance(log, SeriesTransport) else log
        if isinstance(series, LogSeries) and not follow:
            files.append(FilesPart.of(series, begin, reading))
            continue
        catalogue = reading.catalogue.copy()
        transport = SeriesTransport(log) if isinstance(log, LogSeries) else log
        if isinstance(series, LogSeries):  # what its DDL before the start defines is known, too
            catalogue = Begin.of(series, begin, reading.catalogue).catalogue
        decoder = make(log.name, catalogue=catalogue)
        decoders.append(decoder)
        feed: Feed | RecordFeed = (
            open_feed(transport.source, begin, follow=follow)
            if isinstance(transport, ServerTransport)
            else RecordFeed(transport, begin, follow=follow)
        )
        feeds.append(feed)
        servers.append(_of_feed(decoder, feed, transport, reading))
    pool = ThreadPoolExecutor(threads, "tailrace changes") if threads > 1 and files else None
    parts = [_of_series(part, make, pool, verify=verify_checksums) for part in files]

    def stop() -> None:
        for feed in feeds:
            feed.close()

    def ended(batches: Iterator[Batch]) -> Iterator[Batch]:
        try:
            yield from asked.checked(batches)
        finally:
            if pool is not None:
                pool.shutdown()
        defined = {name for part in files for name in part.defined}
        defined |= {name for decoder in decoders for name in decoder.catalogue.names()}
        text = reading.missing_tables(defined)
        if text is not None:
            missing(text)

    read = Parts([*parts, *servers])
    return Batches(read, ended(iter(read)), stop, lambda: tally["skipped"])


@dataclass
class FilesPart:
    """A series of files from where reading begins to where it ends (None: the present end).

    ``defined`` are the tables that its DDL and the user define, known once it was read.
    """

    begin: Begin
    end: Position | None
    defined: set[TableName] = field(default_factory=set)

    @classmethod
    def of(cls, series: LogSeries, start: Start | None, reading: Reading) -> Self:
        """The part that is asked for. Raises UsageError, GtidError, StorageError."""
        begin = Begin.of(series, start, reading.catalogue)
        until = reading.selection.end
        end = None if until is None else end_in(series, until, start, begin.position)
        return cls(begin, end)

    @property
    def files(self) -> tuple[LogFile, ...]:
        """The files that are read."""
        files, end = self.begin.files, self.end
        if end is None:
            return files
        names = [log.name for log in files]
        return files[: names.index(end.file) + 1] if end.file in names else ()


def _of_feed(
    decoder: LogDecoder,
    feed: Feed | RecordFeed,
    transport: Transport,
    reading: Reading,
) -> Marked:
    """The batches of a log that comes event by event: a server's, or one that is followed."""
    until, start = reading.selection.end, reading.start_in(transport)
    live = LiveDecoder(decoder, of_files=isinstance(feed, RecordFeed))
    end = None
    if until is not None and until != "now":
        end = EndFinder(until, awaited_of(until, start, feed.start, transport))

    begin = transport.locate(start) or Position("", len(MAGIC))
    batches = decode_feed(live, feed, follow=reading.follow, end=end)
    return Marked(batches, lambda: max(begin, live.resume or begin), transport, begin)


def _of_series(
    part: FilesPart, make: Callable[..., LogDecoder], pool: Executor | None, *, verify: bool
) -> Marked:
    """The batches of a series of files."""
    begin, end = part.begin, part.end
    series, start = begin.series, begin.position
    decoder = make(
        series.name, catalogue=begin.catalogue, find_left_out=begin.left_out, threads=pool
    )

    def files() -> Iterator[pa.RecordBatch | None]:
        for log in part.files:
            decoder.begin_file(log.name, begin.left_out(log.name) if begin.read_already else None)
            whole = whole_file(series.name, log, decoder.catalogue)
            _check_first_event(whole, first=log is series.files[0])
            if log.name == start.file:
                whole = replace(whole, start=start.offset)
            if end is not None and log.name == end.file:
                whole = replace(whole, end=max(whole.start, min(whole.end, end.offset)))
            ends: Literal["file", "series"] = "series" if log is series.files[-1] else "file"
            yield from _decode(decoder, whole, ends, threads=pool, verify=verify)

    def batches() -> Generator[pa.RecordBatch | None]:
        try:
            yield from files()
        except Exception:
            yield from decoder.unfinished()
            raise
        part.defined = decoder.catalogue.names()

    def resume() -> Position:
        return max(start, decoder.ended or start)

    return Marked(batches(), resume, SeriesTransport(series), start)


def _check_first_event(whole: Split, *, first: bool) -> None:
    """Raise `TruncatedEvent` for a file without an event; a later one in use may end inside it."""
    begin = len(MAGIC)
    if whole.log.size <= begin:
        text = "the file holds nothing but its magic"
    elif first and whole.end <= begin:
        text = "the file ends inside its first event"
    else:
        return
    raise TruncatedEvent(text, file=whole.log.path, offset=begin)


class AskedColumns:
    """The wanted columns, and whether the tables that come have them."""

    def __init__(
        self,
        columns: str | Collection[str] | None,
        notice: Callable[[TableSchema], None],
        *,
        follow: bool,
    ) -> None:
        self.names = [columns] if isinstance(columns, str) else columns
        self._notice = notice
        self._left = set(self.names or ())
        self._there: dict[str, set[str]] = {}
        self._warns = follow

    def notice(self, schema: TableSchema) -> None:
        """Note the columns of a table that comes."""
        if self.names is not None:
            there = [column.name for column in schema.columns]
            self._left.difference_update(there)
            self._there.setdefault(str(schema.full_name), set()).update(there)
            if self._warns and self._left:
                self._warns = False
                warn(f"{self._missing()} (so far)", NoSuchColumn)
        self._notice(schema)

    def checked(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches; after them UsageError for a name that none of their tables had."""
        yield from batches
        if self._left and self._there:
            raise UsageError(self._missing())

    def _missing(self) -> str:
        tables = "; ".join(
            f"{table} has {', '.join(sorted(names))}" for table, names in self._there.items()
        )
        return f"columns: there is no {', '.join(sorted(self._left))}: {tables}"
