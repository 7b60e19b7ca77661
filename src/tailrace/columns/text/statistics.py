"""What logs hold, counted: `stat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.arguments import checked
from tailrace.columns.text.readers import COUNT, parts, readers, with_kernels
from tailrace.errors import TailraceError
from tailrace.events import DecodeContext, GtidEvent, MariadbGtidEvent
from tailrace.log.reader import Step
from tailrace.log.sources import Reading
from tailrace.log.statistics import Statistics, TransactionCounts
from tailrace.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tailrace.columns.text.counts import Counted, CountedTransaction
    from tailrace.columns.text.stretches import Stretch
    from tailrace.log.reader import Reader
    from tailrace.log.sources import Source
    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers


@checked
def stat(
    source: Source,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
) -> Statistics:
    """Count what logs hold: committed rows by table, events by type, the largest transactions.

    The arguments are those of `tailrace.rows`. All of a source's logs are counted together, and
    read before this returns. The counts are in `Statistics`: ``tables`` by ``database.table``, each
    with ``insert``, ``update`` and ``delete`` in rows and ``bytes``; ``events`` by type;
    ``transactions``; ``first`` and ``last`` in seconds UTC; ``largest`` transactions; and
    ``definitions``, the log's DDL.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    Raises UsageError for wrong arguments, StorageError if there is no log, LogError and its kinds
    for errors in a log, ServerError and ConnectionLost for a server's.

    >>> import tailrace
    >>> found = tailrace.stat("examples/shop/mysql")
    >>> found.transactions, found.tables["shop.orders"].insert
    (1168, 560)
    >>> str(found.largest[0].start), found.largest[0].rows
    ('binlog.000002:60823', 80)
    """
    reading = Reading.of(
        source,
        start=start,
        until=until,
        tables=tables,
        exclude=exclude,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers,
    )
    found = Statistics()
    read = []
    for reader in readers(reading, COUNT, verify_checksums=verify_checksums):
        count(reader, found)
        read.append(reader)
    reading.warn_of_missing(reader.catalogue for reader in read)
    return found


def count(reader: Reader, statistics: Statistics) -> None:
    """Count what a reader gives, by kernels if it is one that gives stretches."""
    steps = _counted_parts(reader, statistics.most) if with_kernels(reader) else None
    statistics.read(reader, steps)


def _counted_parts(reader: Reader, most: int) -> Iterator[Step | Callable[[Statistics], None]]:
    """A reader's steps, and for each stretch a function that counts it."""
    from tailrace.columns.text.counts import count as count_stretch  # noqa: PLC0415 - it needs pyarrow

    for part in parts(reader):
        if isinstance(part, Step):
            yield part
            continue
        try:
            found = count_stretch(part, most)
        except (TailraceError, UnicodeError, MemoryError):
            part.rejected = True
            continue
        yield _adding(found, part, reader)


def _adding(found: Counted, stretch: Stretch, reader: Reader) -> Callable[[Statistics], None]:
    def add(statistics: Statistics) -> None:
        statistics.transactions += found.transactions
        statistics.add_time(found.first, found.last)
        for name, (number, bytes_) in found.events.items():
            statistics.add_events(name, number, bytes_)
        for name, counts in found.tables.items():
            statistics.add_table(name, counts)
        statistics.timeline.merge(found.timeline)
        statistics.sizes.merge(found.sizes)
        for each in found.largest:
            statistics.add_transaction(_transaction(each, stretch, reader))

    return add


def _transaction(found: CountedTransaction, stretch: Stretch, reader: Reader) -> TransactionCounts:
    form = reader.format
    context = DecodeContext(form, form.checksum_algorithm)
    event = context.decode(found.opening, verify_checksum=False)
    gtid = None
    last = found.last
    if isinstance(event, (GtidEvent, MariadbGtidEvent)):
        gtid = None if event.gtid is None else str(event.gtid)
        last = max(last, (found.stamp if found.stamp >= 0 else event.timestamp * 10**6) // 10**6)
    start = Position(stretch.file, found.start)
    return TransactionCounts(start, gtid, found.rows, found.bytes, found.first, last)
