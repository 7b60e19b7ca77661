"""The items of a feed: the beginning of a file, the events that follow in it, and the end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.log_name import LogName

PADDING: Final = 64
"""Bytes after a chunk's data that may be read, at least; the consumer must not write them."""


@dataclass(frozen=True, slots=True)
class FileBegin:
    """The items after this one are of this file, from ``offset`` on.

    ``description`` is the raw FORMAT_DESCRIPTION event in force. If it is not ``artificial``, it is
    the file's event at 4 (except for the IN_USE flag; in GTID mode ``created`` may be zeroed, too),
    ``offset`` is its end, and chunks do not hold it. It is artificial if the file is entered after
    its beginning: then it is the server's copy, with ``log_pos`` and ``created`` zeroed.
    """

    file: LogName
    offset: int
    description: bytes
    artificial: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole, contiguous events, exactly as in the file from ``offset`` on (own count).

    ``starts`` has the offset of each event in ``data``, which ends where the last event does. Both
    are the feed's memory and valid until its next `take`; `PADDING` bytes after ``data`` may be
    read.
    """

    file: str
    offset: int
    data: memoryview
    starts: Sequence[int]

    @property
    def end(self) -> int:
        """The offset in the file after the last event."""
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
    """The source and the file as they were when they were read before; None: unknown.

    ``uuid`` is the server's, ``description`` the raw format description event of the file in which
    reading resumes (as `FileBegin` gave it).
    """

    uuid: str | None = None
    description: bytes | None = None
