"""Walks over events that stand one after the other, by the lengths in their headers."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import HEADER_SIZE
from tailrace.events.header import bad_length

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LENGTH_AT: Final = 9
"""The offset of an event's length in its header."""
LENGTH_END: Final = 13
_LENGTH: Final = Struct("<I").unpack_from


def event_length(data: bytes | bytearray | memoryview, at: int = 0) -> int:
    """The length of the event that begins at ``at``: 0 if fewer than 10 bytes of it are there."""
    return int.from_bytes(data[at + LENGTH_AT : at + LENGTH_END], "little")


def frames(
    data: bytes | bytearray | memoryview, size: int | None = None
) -> Iterator[tuple[int, int]]:
    """Where each whole event in the first ``size`` bytes begins and ends.

    Stops before an event that is not whole, and before a length that no event can have.
    """
    last = len(data) if size is None else size
    at = 0
    while last - at >= HEADER_SIZE:
        length: int = _LENGTH(data, at + LENGTH_AT)[0]
        if not HEADER_SIZE <= length <= last - at:
            return
        yield at, at + length
        at += length


def whole_events(
    read_into: Callable[[int, memoryview], int], size: int, block: int, padding: int = 0
) -> Iterator[memoryview]:
    """``size`` bytes of events, in pieces of whole events of about ``block`` bytes.

    ``read_into`` reads some bytes at an offset into memory, and returns how many; the pieces end
    early if it returns 0. A piece is valid until the next is requested; ``padding`` bytes after it
    may be read. An event that is larger than a block comes alone. Raises BadEventLength.
    """
    room = min(block, size)
    memory = bytearray(room + padding)
    at = have = 0  # bytes that were read, and those of them that are in memory
    while at < size:
        count = min(room - have, size - at)
        view = memoryview(memory)
        while count and (more := read_into(at, view[have : have + count])):
            at, have, count = at + more, have + more, count - more
        if count:
            return
        end = have if at == size else 0
        if not end:
            end = max((end for _, end in frames(view, have)), default=0)
        if end:
            yield view[:end]
        rest = view[end:have]
        have -= end
        room = max(room, min(event_length(rest), have + size - at))
        if have == room:
            raise bad_length(event_length(rest))
        if room + padding > len(memory):
            memory = bytearray(room + padding)
        memory[:have] = bytes(rest)
