"""Selects the reader that is fastest for a log whose rows become text, counts or SQL.

Kernels take half a second at a process's start, and a few seconds once per machine to be compiled.
So small logs are read as events; so are servers' logs and logs that are followed.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from tailrace.errors import TailraceError
from tailrace.log.reader import Reader
from tailrace.storage import LogSeries

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tailrace.columns.text.lines import Lines
    from tailrace.columns.text.stretches import DecodedRows, Stretch
    from tailrace.log.reader import Step
    from tailrace.log.sources import Reading
    from tailrace.transports import Transport

LEAST: Final = 1 << 20
"""Size of a log in bytes from which kernels are faster."""
LEAST_UNCOMPILED: Final = 64 << 20
"""The same if they must be compiled first: Python cannot run those that print."""
_READING: Final = ("plan_events", "decode_rows", "hash_bytes")
_NEEDED: Final = ("numpy", "pyarrow", "llvmlite", "numba")


JSON: Final = ("record_json", "odd_lines", "gather_lines")
TEXT: Final = ("row_text", "transaction_lines", "list_events", "odd_lines", "gather_lines")
SQL: Final = ("row_sql", "transaction_lines", "json_text", "gather_lines")
COUNT: Final = ("list_events",)
CHECK: Final = ("list_events", "json_text")


def reader_for(log: LogSeries | Transport, kernels: tuple[str, ...]) -> Callable[..., Reader]:
    """The factory of the fastest reader for a log whose output can be made by these kernels."""
    if not isinstance(log, LogSeries) or any(file.joined for file in log.files):
        return Reader
    size = sum(file.size for file in log.files)
    if size < LEAST or not all(map(find_spec, _NEEDED)):
        return Reader
    from tailrace.columns import native  # noqa: PLC0415 - only where it is of use

    if size < LEAST_UNCOMPILED and not native.is_compiled(*_READING, *kernels):
        return Reader
    from tailrace.columns.text.stretches import StretchReader  # noqa: PLC0415 - it needs pyarrow

    if kernels is SQL:
        from tailrace.columns.types import stored_plan_of  # noqa: PLC0415 - as above

        return partial(StretchReader, plan=stored_plan_of)
    return partial(StretchReader, columns=() if kernels is COUNT else None)


def readers(
    reading: Reading, kernels: tuple[str, ...], *, verify_checksums: bool = True
) -> Iterator[Reader]:
    """The fastest reader of each log for output that can be made by these kernels."""
    for log in reading.logs:
        make = Reader if reading.follow else reader_for(log, kernels)
        yield make(
            log,
            follow=reading.follow,
            selection=reading.selection,
            wants=reading.wants,
            catalogue=reading.catalogue,
            verify_checksums=verify_checksums,
        )


def with_kernels(reader: Reader) -> bool:
    """Whether a reader may give stretches."""
    return hasattr(reader, "parts")


def parts(reader: Reader) -> Iterator[Step | Stretch]:
    """What a reader gives: steps, and stretches if it has any."""
    found: Callable[[], Iterator[Step | Stretch]] | None = getattr(reader, "parts", None)
    return iter(reader) if found is None else found()


def written(
    stretch: Stretch, make: Callable[[DecodedRows, str], list[Lines]]
) -> Generator[memoryview, None, int]:
    """A stretch as lines in the log's order: ``make`` gives the lines of a piece, table by table.

    If that fails, the stretch is rejected, and is given again as steps. Returns how many of their
    lines are already written.
    """
    from tailrace.columns.text.lines import in_order  # noqa: PLC0415 - it needs numpy

    count = 0
    pieces = iter(stretch)
    while True:
        try:
            piece = next(pieces, None)
            if piece is None:
                return 0
            runs = make(piece, stretch.file)
        except (TailraceError, UnicodeError, MemoryError):
            stretch.rejected = True
            return count
        count += sum(len(run.offsets) - 1 for run in runs)
        yield from in_order(runs)
