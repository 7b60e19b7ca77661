"""A position in a series of logs: file and offset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering
from typing import TYPE_CHECKING, Self

from tailrace.arguments import check_type
from tailrace.errors import UsageError
from tailrace.log_name import file_number

if TYPE_CHECKING:
    from collections.abc import Iterable


@total_ordering
@dataclass(frozen=True, slots=True)
class Position:
    """A log file's name and a 64-bit byte offset into it.

    Ordered by the file's numeric suffix, then its name, then the offset; so ``binlog.1000000``
    comes after ``binlog.999999``. Its text is ``binlog.000003:1234``, which JSON carries, `parse`
    reads, and every ``start`` and ``until`` takes.

    >>> import tailrace
    >>> place = tailrace.Position("binlog.000003", 1234)
    >>> str(place)
    'binlog.000003:1234'
    >>> tailrace.Position.parse(str(place)) == place < tailrace.Position("binlog.000010", 4)
    True
    """

    file: str
    offset: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``file:offset``; the file may hold colons itself. Raises UsageError."""
        check_type("text", text, "str")
        file, colon, offset = text.strip().rpartition(":")
        if not colon or not file or not (offset.isascii() and offset.isdigit()):
            raise UsageError(f"not a position: {text!r} (a position looks like binlog.000003:1234)")
        if len(offset) > 20 or int(offset) >= 1 << 63:
            raise UsageError(f"not a position: {text!r} (the offset is past 2**63)")
        return cls(file, int(offset))

    @property
    def number(self) -> int | None:
        """The file's numeric suffix, or None without one."""
        return file_number(self.file)

    def _key(self) -> tuple[int, str, int]:
        number = self.number
        return (-1 if number is None else number, self.file, self.offset)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return self._key() < other._key()

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


def bytes_after(
    files: Iterable[tuple[str, int]], place: Position | None, end: Position | None = None
) -> int:
    """The bytes that a log's files have after a place, up to an ``end``.

    ``files`` are names and sizes. Without a place all count, without an end those up to the log's.
    The sum is negative if the log ends before the place.
    """
    total = 0
    for name, size in files:
        first = place if place is not None and place.file == name else Position(name, 0)
        last = end if end is not None and end.file == name else Position(name, size)
        if (place is None or first >= place) and (end is None or last <= end):
            total += last.offset - first.offset
    return total


def sequence(number: int, offset: int, row: int) -> int:
    """The change record's ``_seq``: total order over a source's changes, below 10 ** 38.

    ``number`` is the log file's, ``offset`` the rows event's (44 bits), ``row`` the row's number in
    it; inside a transaction payload, the payload event's offset, and the row's number counted from
    the inner event's offset in the uncompressed payload (48 bits).
    """
    return number << 92 | offset << 48 | row


def parts_of(seq: int) -> tuple[int, int, int]:
    """The parts of a `sequence` number: the file's number, the offset, the row."""
    return seq >> 92, seq >> 48 & ((1 << 44) - 1), seq & ((1 << 48) - 1)


def sequence_at(place: Position) -> int:
    """The `sequence` of the first row at a position."""
    return sequence(file_number(place.file) or 0, place.offset, 0)
