"""``tailrace stat`` and ``log --verify`` on stretches: counted by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.cli.kernels import parts
from tailrace.errors import TailraceError
from tailrace.events import DecodeContext, GtidEvent, MariadbGtidEvent
from tailrace.log.reader import Step
from tailrace.log.statistics import TransactionCounts
from tailrace.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.columns.text.counts import Counted, CountedTransaction
    from tailrace.columns.text.stretches import Stretch
    from tailrace.log.reader import Reader
    from tailrace.log.statistics import Statistics


def counted_parts(reader: Reader, most: int) -> Iterator[Step | Callable[[Statistics], None]]:
    """A reader's steps, and for each stretch a function that counts it."""
    from tailrace.columns.text.counts import count  # noqa: PLC0415 - it needs pyarrow

    for part in parts(reader):
        if isinstance(part, Step):
            yield part
            continue
        try:
            found = count(part, most)
        except (TailraceError, UnicodeError, MemoryError):
            part.rejected = True
            continue
        yield _adding(found, part, reader)


def _adding(found: Counted, stretch: Stretch, reader: Reader) -> Callable[[Statistics], None]:
    def add(statistics: Statistics) -> None:
        statistics.transactions += found.transactions
        statistics.add_time(found.first, found.last)
        for name, (number, size) in found.events.items():
            statistics.add_events(name, number, size)
        for name, counts in found.tables.items():
            statistics.add_table(name, counts)
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
