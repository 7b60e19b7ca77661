"""The items of a feed: the beginning of a file, the events that follow in it, and the end.

Also what tells whether a file that is entered again is the one that was read before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.errors import LogReset
from tailrace.events.format_description import stamp
from tailrace.storage.identity import other_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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

    def events(self) -> Iterator[tuple[int, int]]:
        """Where each event begins and ends in ``data``."""
        return zip(self.starts, [*self.starts[1:], len(self.data)], strict=True)

    def records(self) -> Iterator[tuple[str, int, bytes]]:
        """Each event with its file and offset, copied."""
        file, offset, data = self.file, self.offset, bytes(self.data)
        for start, end in self.events():
            yield file, offset + start, data[start:end]

    def begin_of(self, number: int) -> int:
        """Where an event begins in ``data``; its end for the number after the last event's."""
        return self.starts[number] if number < len(self.starts) else len(self.data)

    def number_at(self, offset: int) -> int | None:
        """The number of the event at an offset of the file, the last one's next at the end.

        None if no event begins there.
        """
        number = bisect_left(self.starts, offset - self.offset)
        return number if self.begin_of(number) == offset - self.offset else None

    def part(self, first: int, last: int) -> Chunk:
        """The events from number ``first`` to before ``last``, at least one; not copied."""
        begin, end = self.starts[first], self.begin_of(last)
        starts: Sequence[int] = self.starts[first:last]
        if begin:
            starts = array("q", (start - begin for start in starts))
        return Chunk(self.file, self.offset + begin, self.data[begin:end], starts)


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
    reading resumes (as `FileBegin` gave it). ``reached`` is false for a start that nobody has read
    up to: if the source does not have it, that is no `LogReset`.
    """

    uuid: str | None = None
    description: bytes | None = None
    reached: bool = True

    def check_server(self, uuid: str | None, source: str) -> None:
        """Raise LogReset where another server answers."""
        if self.uuid is not None and uuid is not None and self.uuid != uuid:
            raise LogReset(
                f"{source} has the server UUID {uuid}, but its logs were read from {self.uuid}"
                " before: another server answers, and its positions differ. Resume by GTID, or copy"
                " the data again"
            )

    def check_file(self, begin: FileBegin, source: str) -> None:
        """Raise LogReset where the file is another one of the same name."""
        if self.description is not None and stamp(self.description) != stamp(begin.description):
            raise other_log(
                f"{source}: {begin.file}", "its first event is another", "copy the data again"
            )
