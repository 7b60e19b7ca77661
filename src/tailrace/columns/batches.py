"""Record batches of changes: of a split, or of a whole source."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np

from tailrace.columns.frames.plan import PADDING
from tailrace.columns.live.decoder import decode_feed, open_feed
from tailrace.columns.read.begin import Begin
from tailrace.columns.read.blocks import BLOCK, Blocks
from tailrace.columns.read.decoder import LogDecoder
from tailrace.columns.read.planner import whole_file
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
from tailrace.log.sources import Reading
from tailrace.storage import LogSeries
from tailrace.table_filter import TableFilter
from tailrace.transports import SeriesTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    import pyarrow as pa

    from tailrace.columns.read.split import Inside, Split
    from tailrace.columns.read.walk import Array, Unnamed
    from tailrace.live.feed import Feed
    from tailrace.live.url import Source as Server
    from tailrace.log.sources import Source
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.table_filter import TableName
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
) -> Iterator[pa.RecordBatch]:
    """Decode a split; arguments and batches are those of `changes`.

    ``tables`` may be a filter made of both.
    ``also`` is one more test that a database and a table have to pass. With ``unnamed``, rows of
    tables with unknown column names are reported to it, not decoded. ``no_cascades`` is called with
    updates and deletes that change no other rows below the log: an array of four columns
    (file's number, position, and the rows' first number in ``_seq`` and one past the last).
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
    )
    decoder.no_cascades = no_cascades
    decoder.begin_file(split.file, split.left_out)
    yield from _decode(decoder, split)


def _decode(
    decoder: LogDecoder,
    split: Split,
    ends: Literal["file", "series"] | None = None,
    *,
    threads: Executor | None = None,
    verify: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Decode a split. With ``threads`` one reads ahead, and with ``verify`` verifies checksums."""
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
) -> Iterator[pa.RecordBatch]:
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
            if size := blocks.payload_ahead(consumed):
                yield from decoder.rest()  # first, because the payload may raise an error
                offset = blocks.offset + consumed
                if offset + size > split.end:
                    raise _cut_off(split, offset)
                yield from decoder.large_payload(offset, size, blocks.read)
                blocks.skip(offset + size)
                consumed = 0
        yield from decoder.rest()
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


def changes(
    source: Source,
    *,
    start: object = None,
    follow: bool = False,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    columns: str | Collection[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
    notice: Callable[[TableSchema], None] = lambda _schema: None,
    threads: int = 1,
) -> Iterator[pa.RecordBatch]:
    """Iterate over the changes in a log as record batches, each of one table.

    The rows of one table come in the log's order, except for XA transactions of a server (below).
    Batches of different tables may overlap: a batch may hold rows that come later in the log than
    rows of another table's next batch. ``_seq`` orders all rows.

    ``source`` is a file, a folder, a URL (``memory:name``, ``s3://...``), a `LogSeries`, a running
    server (``mysql://...``, a `tailrace.live.url.Source`), a transport of one of these, or several
    of them: first come the files, then the servers. ``keyring`` has the keys of
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
    is an error. ``follow`` waits at the end of a server's log for more. Rows are given once their
    transaction has ended. From a server, those of an XA transaction come once it was committed,
    with the ``_seq`` of where they were prepared; in-doubt XA transactions at the log's end come
    last.

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
    KeyMissing where it is encrypted and the key is not there; ServerError and its kinds for what a
    server refuses, ConnectionLost where it is not reached.
    """
    if threads < 1:
        raise UsageError(f"threads: {threads} is less than 1")
    reading = Reading.of(
        source,
        start=start,
        follow=follow,
        tables=tables,
        exclude=exclude,
        schema=schema,
        keyring=keyring,
        layers=layers,
    )
    asked = AskedColumns(columns, notice, follow=follow)
    make = partial(
        LogDecoder,
        wants=reading.wants,
        columns=asked.names,
        verify=verify_checksums,
        statements=statements,
        notice=asked.notice,
    )
    parts: list[Iterator[pa.RecordBatch]] = []
    begins: list[Begin] = []
    for log in reading.logs:
        begin = reading.start_in(log)
        series = log.series if isinstance(log, SeriesTransport) else log
        if isinstance(series, LogSeries):
            if follow:
                raise UsageError(
                    "only a server's log is followed as batches: tailrace.open follows files"
                )
            begins.append(Begin.of(series, begin, reading.catalogue))
        elif isinstance(log, ServerTransport):
            decoder = make(log.name, catalogue=reading.catalogue.copy())
            feed = open_feed(log.source, begin, follow=follow)
            parts.append(_of_server(decoder, feed, reading.wants, follow=follow))
        else:
            raise UsageError(
                f"{log.name}: batches are made of files and of servers' logs: tailrace.open and"
                " tailrace.rows read other transports"
            )
    if begins:
        parts.insert(0, _of_files(begins, make, reading.wants, threads, verify=verify_checksums))
    return asked.checked(chain.from_iterable(parts))


def _of_server(
    decoder: LogDecoder, feed: Feed, wants: TableFilter, *, follow: bool
) -> Iterator[pa.RecordBatch]:
    """The batches of a server's log."""
    yield from decode_feed(decoder, feed, follow=follow)
    if feed.start == "oldest" and not follow:
        _warn(wants, decoder.catalogue.names(), feed.source)


def _of_files(
    begins: Sequence[Begin],
    make: Callable[..., LogDecoder],
    wants: TableFilter,
    threads: int,
    *,
    verify: bool,
) -> Iterator[pa.RecordBatch]:
    """The batches of series of files, one after the other."""
    defined: set[TableName] = set()
    with ThreadPoolExecutor(threads, "tailrace changes") as pool:
        helpers = pool if threads > 1 else None
        decode = partial(_decode, threads=helpers, verify=verify)
        for begin in begins:
            decoder = make(
                begin.series.name,
                catalogue=begin.catalogue,
                find_left_out=begin.left_out,
                threads=helpers,
            )
            try:
                yield from _of_series(begin, decoder, decode)
            except Exception:
                yield from decoder.unfinished()
                raise
            defined |= decoder.catalogue.names()
    if all(begin.is_whole for begin in begins):
        _warn(wants, defined)


def _of_series(
    begin: Begin, decoder: LogDecoder, decode: Callable[..., Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """The batches of a series of files."""
    series, start = begin.series, begin.position
    for log in begin.files:
        decoder.begin_file(log.name, begin.left_out(log.name) if begin.read_already else None)
        whole = whole_file(series.name, log, decoder.catalogue)
        _check_begun(whole, first=log is series.files[0])
        if log.name == start.file:
            whole = replace(whole, start=start.offset)
        yield from decode(decoder, whole, "series" if log is series.files[-1] else "file")


def _check_begun(whole: Split, *, first: bool) -> None:
    """Raise `TruncatedEvent` for a file without an event; a later one in use may end inside it."""
    begin = len(MAGIC)
    if whole.log.size <= begin:
        text = "the file holds nothing but its magic"
    elif first and whole.end <= begin:
        text = "the file ends inside its first event"
    else:
        return
    raise TruncatedEvent(text, file=whole.log.path, offset=begin)


def _warn(wants: TableFilter, defined: set[TableName], server: Server | None = None) -> None:
    """Warn about patterns that match none of the tables of a log that was read to its end."""
    if wants.only is None:
        return
    there = defined | (wants.met or set())
    missing = wants.unmatched(there).missing("in the log")
    if missing is not None and server is not None:
        from tailrace.live.tables import connected, tables_of  # noqa: PLC0415 - it needs PyMySQL

        with connected(server) as connection:
            there |= tables_of(connection)
        missing = wants.unmatched(there).missing("in the log and on the server")
    if missing is not None:
        warnings.warn(missing, NoSuchTable, stacklevel=4)  # past the two generators


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
            self._there.setdefault(f"{schema.database}.{schema.table}", set()).update(there)
            if self._warns and self._left:
                self._warns = False
                warnings.warn(f"{self._missing()} (so far)", NoSuchColumn, stacklevel=2)
        self._notice(schema)

    def checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches; after them UsageError for a name that none of their tables had."""
        yield from batches
        if self._left and self._there:
            raise UsageError(self._missing())

    def _missing(self) -> str:
        tables = "; ".join(
            f"{table} has {', '.join(sorted(names))}" for table, names in self._there.items()
        )
        return f"columns: there is no {', '.join(sorted(self._left))}: {tables}"
