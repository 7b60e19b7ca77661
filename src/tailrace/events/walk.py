"""Walks over events that stand one after the other, by the lengths in their headers."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import HEADER_SIZE, LOG_POS_AT, MAX_EVENT_SIZE
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


def is_event_length(length: int) -> bool:
    """Whether an event can have this length."""
    return HEADER_SIZE <= length <= MAX_EVENT_SIZE


def checked_length(data: bytes | bytearray | memoryview, at: int = 0) -> int:
    """As `event_length`. Raises BadEventLength for a length that no event can have."""
    length = event_length(data, at)
    if not is_event_length(length):
        raise bad_length(length)
    return length


def ends_as_said(data: bytes | bytearray | memoryview, offset: int, length: int) -> bool:
    """Whether an event of this offset and length ends where its header says, or it says nothing.

    Only the low 32 bits of the end are in the header. They are 0 where the end is unknown (inside
    MariaDB's groups). In relay logs it is the end in the source's file (facts sheet 1).
    """
    said = int.from_bytes(data[LOG_POS_AT : LOG_POS_AT + 4], "little")
    return said in {0, (offset + length) & 0xFFFFFFFF}


def frames(
    data: bytes | bytearray | memoryview, size: int | None = None, at: int = 0
) -> Iterator[tuple[int, int]]:
    """Where each whole event in the first ``size`` bytes begins and ends, from ``at`` on.

    Stops before an event that is not whole, and before a length that no event can have.
    """
    last = len(data) if size is None else size
    while last - at >= HEADER_SIZE:
        length: int = _LENGTH(data, at + LENGTH_AT)[0]
        if not HEADER_SIZE <= length <= last - at:
            return
        yield at, at + length
        at += length


def event_at(read: Callable[[int, int], bytes], at: int, begun: bytes = b"") -> bytes:
    """The event at an offset, or as much of it as ``read`` gives. Raises BadEventLength.

    ``begun`` are the bytes of it that were read before.
    """
    raw = begun
    if len(raw) < HEADER_SIZE:
        raw += read(at + len(raw), HEADER_SIZE - len(raw))
        if len(raw) < HEADER_SIZE:
            return raw
    missing = checked_length(raw) - len(raw)
    return raw + read(at + len(raw), missing) if missing else raw


def walk(
    read: Callable[[int, int], bytes], at: int, size: int, piece: int = 1 << 20
) -> Iterator[tuple[int, int, memoryview]]:
    """The offset, the length and the bytes of each whole event from ``at`` to ``size``.

    ``read`` gives bytes at an offset, fewer than asked only at the end; it is asked for ``piece``
    bytes at a time. Of a larger event only the first bytes are given, with the header at least.
    Ends before an event that is not whole. Raises BadEventLength.
    """
    data, begin = memoryview(b""), at
    while size - at >= HEADER_SIZE:
        if at - begin + HEADER_SIZE > len(data):
            data, begin = memoryview(read(at, piece)), at
            if len(data) < HEADER_SIZE:
                return
        length = checked_length(data, at - begin)
        if length > size - at:
            return
        if at - begin + length > len(data) and begin != at and length <= piece:
            data, begin = memoryview(read(at, piece)), at
        yield at, length, data[at - begin : at - begin + length]
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
