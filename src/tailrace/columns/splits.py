"""Cutting logs into parts that can be decoded on their own, at the bounds of transactions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.columns.blocks import Blocks
from tailrace.columns.scan import Scan, TransactionContinues, is_in_use
from tailrace.columns.split import Split, overlapping
from tailrace.constants import HEADER_SIZE, MAGIC, EventFlag
from tailrace.errors import BoundaryError, LogError
from tailrace.events.header import EventHeader
from tailrace.log import Log
from tailrace.position import Position, file_number
from tailrace.schema.catalogue import Catalogue
from tailrace.transactions import State
from tailrace.transactions.rollbacks import TO_THE_END, Range, Rollbacks, TransactionParts

if TYPE_CHECKING:
    from tailrace.storage import LogFile, LogSeries

_FLAGS: Final = 17
"""Offset of the flags' low byte in an event's header."""


def plan_splits(
    series: LogSeries,
    *,
    target_bytes: int = 64 << 20,
    after: Position | None = None,
    catalogue: Catalogue | None = None,
) -> list[Split]:
    """Cut a series into splits of about ``target_bytes`` each; a file has at least one.

    A transaction of more bytes is cut inside, where the rows of a statement begin; what a payload
    holds compressed is not. Only headers and statements are looked at. ``after`` leaves out what
    stands before it (all files are still gone through for their DDL). ``catalogue`` is what is
    known of tables before the first file. What lies behind the last transaction that ended in a
    file is left out: it is still being written, or was cut off. Raises `BoundaryError` where what
    stands before ``after`` was taken back behind it.
    """
    known = catalogue.copy() if catalogue is not None else Catalogue()
    splits: list[Split] = []
    rollbacks = Rollbacks()
    state = int(State.OUTSIDE)
    for log in series.files:
        start = 4
        if after is not None and (number := file_number(log.name)) is not None:
            first = file_number(after.file) or 0
            start = after.offset if number == first else (TO_THE_END if number < first else 4)
        scan = Scan(series.name, log, known, rollbacks, target_bytes, start, state=state)
        splits += scan.run()
        state = scan.state
    rollbacks = with_payloads(rollbacks, series)
    for file, start, _ in rollbacks.ranges:
        if after is not None and Position(file, start) < after:
            raise BoundaryError(
                f"an XA transaction was rolled back whose rows were read up to {after} before: "
                "copy its tables anew",
                file=file,
                offset=start,
            )
    return [replace(split, undone=undone_in(rollbacks, split)) for split in splits]


def undone_in(rollbacks: Rollbacks, split: Split) -> tuple[tuple[int, int], ...]:
    """The ranges of a split that were taken back."""
    here = [(start, end) for file, start, end in rollbacks.ranges if file == split.file]
    return overlapping(here, split.start, split.end)


def find_undone(series: LogSeries) -> list[tuple[str, int, int]]:
    """File, start and end of what the series holds of rows that were taken back, or whose
    transaction has no end: all files are gone through, up to damage that whoever reads them meets.
    """
    rollbacks = Rollbacks()
    unfinished: list[Range] = []
    state = int(State.OUTSIDE)
    try:
        for log in series.files:
            scan = Scan(series.name, log, Catalogue(), rollbacks, TO_THE_END, 4, state=state)
            try:
                scan.run()
            finally:
                if scan.unfinished is not None:
                    unfinished.append((log.name, scan.unfinished, TO_THE_END))
            state = scan.state
    except TransactionContinues:
        return _undone_by_events(series)
    except LogError:  # who reads the log meets it, too; what was found before it is kept
        pass
    if rollbacks.unmatched:
        return _undone_by_events(series)
    return rollbacks.ranges + unfinished


def _undone_by_events(series: LogSeries) -> list[Range]:
    """As `find_undone`, also of transactions that continue in the next file."""
    rollbacks, group = Rollbacks(), TransactionParts()
    unfinished: list[Range] = []
    with suppress(LogError):
        for event in Log(series, verify_checksums=False, expand_payloads=False):
            group.feed(event)
            unfinished += ((file, start, TO_THE_END) for file, start in group.void.items())
            rollbacks.feed(event, group.parts)
    if group.parser.inside:
        unfinished += ((file, start, TO_THE_END) for file, start in group.parts.items())
    return rollbacks.ranges + unfinished


def with_payloads(rollbacks: Rollbacks, series: LogSeries) -> Rollbacks:
    """The scan does not look into payloads; where it might have to, the object path does."""
    if not rollbacks.unmatched:
        return rollbacks
    return Rollbacks.of(Log(series, verify_checksums=False, expand_payloads=False))


def is_written(log: LogFile) -> bool:
    """Whether a file's first event says that it is being written, or was when a server crashed."""
    with Blocks(log) as blocks:
        blocks.check_magic()
        return is_in_use(blocks)


def whole_file(source: str, log: LogFile, catalogue: Catalogue) -> Split:
    """The split that is all of a file. Where that is being written, up to its last whole event."""
    if log.size <= len(MAGIC) + _FLAGS or not is_written(log):
        return Split(source, log, 4, log.size, catalogue)
    scan = Scan(source, log, catalogue.copy(), Rollbacks(), TO_THE_END, 4)
    try:
        scan.run()
    except LogError:  # whoever reads the split meets it, too
        return Split(source, log, 4, log.size, catalogue)
    end = log.size if _is_damaged(log, scan.whole) else scan.whole
    return Split(source, log, 4, end, catalogue)


def _is_damaged(log: LogFile, offset: int) -> bool:
    """Whether the event that is only begun there cannot be one that is being written: its header
    says that it ends elsewhere.
    """
    if log.size - offset < HEADER_SIZE:
        return False
    with Blocks(log) as blocks:
        header = EventHeader.parse(b"".join(blocks.read(offset, offset + HEADER_SIZE)))
        flags = b"".join(blocks.read(len(MAGIC) + _FLAGS, len(MAGIC) + _FLAGS + 1))
    relay = bool(flags[0] & EventFlag.RELAY_LOG)
    return not relay and header.log_pos not in {0, (offset + header.length) & 0xFFFFFFFF}
