"""What a feed gives: where a file begins, the events that follow in it, and the end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.log_name import LogName

PADDING: Final = 64
"""Bytes behind a chunk's data that may be read, at least; they are not the consumer's to write."""


@dataclass(frozen=True, slots=True)
class FileBegin:
    """What follows is of this file, from ``offset`` on.

    ``description`` is the raw FORMAT_DESCRIPTION event in force. Not ``artificial``: it stands in
    the file at 4 (but for the IN_USE flag; in GTID mode ``created`` may be zeroed, too), ``offset``
    is behind it, and chunks do not hold it. Artificial, where the file is entered behind its begin:
    it is the server's copy, with ``log_pos`` and ``created`` zeroed.
    """

    file: LogName
    offset: int
    description: bytes
    artificial: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole events, contiguous, just as they stand in the file from ``offset`` on (own count).

    ``starts`` says where each begins in ``data``, which ends where the last one does. Both are the
    feed's memory and hold until its next `take`; `PADDING` bytes behind ``data`` may be read.
    """

    file: str
    offset: int
    data: memoryview
    starts: Sequence[int]

    @property
    def end(self) -> int:
        """The offset in the file behind the last event."""
        return self.offset + len(self.data)


class EndOfDump(Enum):
    """The type of `END`, its only value."""

    END = "end"

    def __repr__(self) -> str:
        return "END"


END: Final = EndOfDump.END
"""A dump that does not wait is over, or the feed was closed."""

Item: TypeAlias = FileBegin | Chunk | EndOfDump


@dataclass(frozen=True, slots=True)
class Expected:
    """What the source and the file at hand were when they were read before; None: not known.

    ``uuid`` is the server's, ``description`` the raw format description event of the file that
    reading goes on in (as `FileBegin` gave it).
    """

    uuid: str | None = None
    description: bytes | None = None
