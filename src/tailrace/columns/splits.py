"""Cutting logs into parts that can be decoded on their own, at the bounds of transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.columns.blocks import Blocks
from tailrace.columns.scan import NEVER, Scan, is_in_use
from tailrace.columns.split import Split, overlapping
from tailrace.constants import MAGIC
from tailrace.errors import BoundaryError
from tailrace.log import Log
from tailrace.position import Position, file_number
from tailrace.rollbacks import Rollbacks
from tailrace.schema.catalogue import Catalogue

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
    for log in series.files:
        start = 4
        if after is not None and (number := file_number(log.name)) is not None:
            first = file_number(after.file) or 0
            start = after.offset if number == first else (NEVER if number < first else 4)
        splits += Scan(series.name, log, known, rollbacks, target_bytes, start).run()
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


def find_rollbacks(series: LogSeries) -> Rollbacks:
    """Go through all files of a series for what was taken back."""
    rollbacks = Rollbacks()
    for log in series.files:
        Scan(series.name, log, Catalogue(), rollbacks, NEVER, 4).run()
    return with_payloads(rollbacks, series)


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
    """The split that is all of a file, up to the last transaction that ended in it.

    A file that was closed needs no look at its events for that.
    """
    if log.size > len(MAGIC) + _FLAGS and not is_written(log):
        return Split(source, log, 4, log.size, catalogue)
    (split,) = Scan(source, log, catalogue.copy(), Rollbacks(), NEVER, 4).run() or [
        Split(source, log, 4, 4, catalogue)
    ]
    return split
