"""Logs, and what breaks them: each mutation is one of a log's bytes and a random source."""

from __future__ import annotations

import functools
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import zstandard

_HEADER: Final = 19
_PAYLOAD: Final = 40
_TABLE_MAP: Final = 19
_COMPRESSED: Final = range(166, 172)
_ROWS: Final = frozenset({23, 24, 25, 30, 31, 32, 39})
_RICH: Final = _ROWS | {_TABLE_MAP}
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_EXTREMES: Final = (0, 1, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_WIDE: Final = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x40000000, 0x3FFFFFFF)


@dataclass
class Parsed:
    """A log cut into its events; ``tail`` is 4 where each ends in a checksum."""

    events: list[bytearray]
    tail: int

    @classmethod
    def of(cls, data: bytes) -> Parsed:
        """Cut a log; what follows an event of an impossible length counts as one."""
        events, at = [], 4
        while at < len(data):
            size = int.from_bytes(data[at + 9 : at + 13], "little")
            size = size if _HEADER <= size <= len(data) - at else len(data) - at
            events.append(bytearray(data[at : at + size]))
            at += size
        return cls(events, 4 if events[0][-5] == 1 else 0)

    def bytes(self) -> bytes:
        """The log again."""
        return b"\xfebin" + b"".join(self.events)

    def seal(self, index: int, *, size: bool = True) -> None:
        """Give an event the length and the checksum of what it is now."""
        event = self.events[index]
        if size and len(event) >= _HEADER:
            event[9:13] = struct.pack("<I", len(event))
        first = event[4:5] == b"\x0f"
        if (self.tail or first) and len(event) >= _HEADER + 4:
            body = bytes(event[:-4])
            if first:  # IN_USE counts as clear
                body = body[:17] + bytes([body[17] & 0xFE]) + body[18:]
            event[-4:] = struct.pack("<I", zlib.crc32(body))


Mutation = Callable[[random.Random, bytes, bytes], bytes]
"""From a random source, a log and another log to a broken one."""
Change = Callable[[random.Random, bytearray, int], None]
"""Of one event, which ends in so many bytes of a checksum."""


def _of_event(
    choose: Callable[[random.Random, Parsed], int], *, size: bool = True
) -> Callable[[Change], Mutation]:
    """A mutation by a change of one event: its checksum follows, and with ``size`` its length."""

    def decorate(change: Change) -> Mutation:
        @functools.wraps(change)
        def mutation(rng: random.Random, log: bytes, _other: bytes) -> bytes:
            parsed = Parsed.of(log)
            index = choose(rng, parsed)
            change(rng, parsed.events[index], parsed.tail)
            parsed.seal(index, size=size)
            return parsed.bytes()

        return mutation

    return decorate


def _some_event(rng: random.Random, parsed: Parsed) -> int:
    """Any event, those with rows and their table maps more often."""
    rich = [n for n, event in enumerate(parsed.events) if event[4] in _RICH]
    if rich and rng.random() < 0.8:
        return rng.choice(rich)
    return _any_event(rng, parsed)


def _any_event(rng: random.Random, parsed: Parsed) -> int:
    return rng.randrange(len(parsed.events))


def _description(_rng: random.Random, _parsed: Parsed) -> int:
    return 0


def truncate(rng: random.Random, log: bytes, _other: bytes) -> bytes:
    """End anywhere."""
    return log[: rng.randrange(len(log))]


def flip(rng: random.Random, log: bytes, _other: bytes) -> bytes:
    """Change one byte; the checksum stays."""
    at = rng.randrange(len(log))
    return log[:at] + bytes([log[at] ^ rng.randint(1, 255)]) + log[at + 1 :]


@_of_event(_some_event, size=False)
def flip_sealed(rng: random.Random, event: bytearray, tail: int) -> None:
    """Change some bytes of an event and make its checksum anew."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = _place(rng, event, tail)
        event[at] = rng.choice(_EXTREMES) if rng.random() < 0.5 else rng.randrange(256)


@_of_event(_some_event, size=False)
def extreme(rng: random.Random, event: bytearray, tail: int) -> None:
    """Put an extreme number of 2 to 8 bytes into an event."""
    width = rng.choice((2, 3, 4, 6, 8))
    value = rng.choice(_WIDE) if rng.random() < 0.6 else rng.choice((1, -1)) * rng.getrandbits(63)
    at = _place(rng, event, tail)
    piece = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")[: len(event) - at]
    event[at : at + len(piece)] = piece


@_of_event(_some_event)
def resize(rng: random.Random, event: bytearray, tail: int) -> None:
    """Put bytes into an event or take some out; length and checksum follow."""
    at, count = _place(rng, event, tail), rng.choice((1, 2, 4, 40))
    if rng.random() < 0.5:
        event[at:at] = rng.choice((rng.randbytes(count), b"\xff" * count, bytes(count)))
    else:
        del event[at : max(at, min(at + count, len(event) - tail))]


def reorder(rng: random.Random, log: bytes, other: bytes) -> bytes:
    """Leave out, repeat, exchange or take over whole events."""
    parsed = Parsed.of(log)
    events = parsed.events
    first, second = rng.randrange(len(events)), rng.randrange(len(events))
    match rng.randrange(4):
        case 0:
            del events[first]
        case 1:
            events.insert(second, events[first])
        case 2:
            events[first], events[second] = events[second], events[first]
        case _:
            taken = rng.choice(Parsed.of(other).events)
            events.insert(first, bytearray(taken))
            parsed.seal(first)
    return parsed.bytes()


@_of_event(_some_event)
def retype(rng: random.Random, event: bytearray, _tail: int) -> None:
    """Say that an event is of another type."""
    event[4] = rng.choice((*range(44), *range(160, 173), 255))


def map_column(rng: random.Random, log: bytes, _other: bytes) -> bytes:
    """Change a table map's column count, types or metadata."""
    parsed = Parsed.of(log)
    maps = [n for n, event in enumerate(parsed.events) if event[4] == _TABLE_MAP]
    if not maps:
        return extreme(rng, log, _other)
    index = rng.choice(maps)
    event = parsed.events[index]
    at = _HEADER + 8
    at += event[at] + 2
    at += event[at] + 2
    last = min(at + 2 * event[at] + 12, len(event) - parsed.tail)
    types = (*range(21), *range(140, 142), *range(242, 256), *_EXTREMES)
    for _ in range(rng.choice((1, 1, 3))):
        if at < last:
            event[rng.randrange(at, last)] = rng.choice(types)
    parsed.seal(index)
    return parsed.bytes()


def inside(rng: random.Random, log: bytes, other: bytes) -> bytes:
    """Break what is inside a transaction payload, or a compressed rows event, packed soundly."""
    parsed = Parsed.of(log)
    payloads = [n for n, event in enumerate(parsed.events) if event[4] == _PAYLOAD]
    if payloads:
        index = rng.choice(payloads)
        parsed.events[index] = bytearray(_broken_payload(rng, parsed.events[index], parsed.tail))
        parsed.seal(index)
        return parsed.bytes()
    packed = [n for n, event in enumerate(parsed.events) if event[4] in _COMPRESSED]
    if not packed:
        return flip_sealed(rng, log, other)
    index = rng.choice(packed)
    parsed.events[index] = _broken_rows(rng, parsed.events[index], parsed.tail)
    parsed.seal(index)
    return parsed.bytes()


@_of_event(_any_event)
def end(rng: random.Random, event: bytearray, tail: int) -> None:
    """Let an event end some bytes later or earlier; length and checksum follow."""
    last, count = len(event) - tail, rng.choice((1, 1, 2, 3, 4, 8, 17))
    if rng.random() < 0.5:
        event[last:last] = rng.choice((rng.randbytes(count), bytes(count)))
    else:
        del event[max(last - count, _HEADER) : last]


@_of_event(_any_event, size=False)
def field_of_any(rng: random.Random, event: bytearray, tail: int) -> None:
    """Change a byte near the begin of any event's body, where its fixed part is."""
    last = min(len(event) - tail, _HEADER + 60)
    if last > _HEADER:
        at = rng.randrange(_HEADER, last)
        value = rng.choice((rng.choice(_EXTREMES), rng.randrange(256), event[at] ^ 1))
        event[at] = value


@_of_event(_description, size=False)
def form(rng: random.Random, event: bytearray, _tail: int) -> None:
    """Let the format description give a type another fixed part, or the log another version."""
    first = _HEADER + 57
    codes = (
        *(2, 2, 4, 5, 15, 16, 18, 19, 19, *range(23, 27), *range(30, 36)),
        *(39, 40, *range(160, 172)),
    )
    at = first + rng.choice(codes) - 1
    if rng.random() < 0.2 or at >= len(event) - 5:
        at = rng.randrange(_HEADER, len(event) - 4)
    sizes = (
        *(0, 4, 6, 6, 7, 8, 8, 9, 10, 10, 12, 13, 14, 16),
        *(event[at] + 1 & 255, event[at] - 1 & 255),
    )
    event[at] = rng.choice(sizes)


@_of_event(_any_event, size=False)
def flags(rng: random.Random, event: bytearray, tail: int) -> None:
    """Change an event's flags, in its header, or those of a rows event or GTID."""
    at = rng.choice((17, 17, 18, 25, 25, 31, 19))
    if at < len(event) - tail:
        event[at] ^= 1 << rng.randrange(8)


def row_image(rng: random.Random, log: bytes, other: bytes) -> bytes:
    """Change bytes of row images alone, put some in or take some out."""
    parsed = Parsed.of(log)
    rows = [n for n, event in enumerate(parsed.events) if event[4] in _ROWS]
    if not rows:
        return inside(rng, log, other)
    index = rng.choice(rows)
    event = parsed.events[index]
    at = _HEADER + 8
    if event[4] >= 30:
        at += int.from_bytes(event[at : at + 2], "little")
    at += 1 + (event[at] + 7) // 8 * (2 if event[4] in {24, 31, 39} else 1)
    end = len(event) - parsed.tail
    if at < end:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            place = rng.randrange(at, end)
            event[place] = rng.choice((rng.choice(_EXTREMES), rng.randrange(256)))
        place, count = rng.randrange(at, end), rng.choice((1, 2, 4))
        match rng.randrange(6):
            case 0:
                event[place:place] = rng.randbytes(count)
            case 1:
                del event[place : min(place + count, end)]
    parsed.seal(index)
    return parsed.bytes()


def twice(rng: random.Random, log: bytes, other: bytes) -> bytes:
    """Two mutations, one after the other."""
    first = rng.choice((end, field_of_any, flags, row_image, reorder, map_column, flip_sealed))
    second = rng.choice((end, field_of_any, flags, row_image, reorder, truncate, flip))
    return second(rng, first(rng, log, other), other)


def _broken_payload(rng: random.Random, event: bytearray, tail: int) -> bytes:
    start = event.find(_ZSTD)
    if start < 0:
        return bytes(event)
    packed = bytes(event[start : len(event) - tail])
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    parsed = Parsed.of(b"\xfebin" + plain)
    parsed.tail = 0
    change = rng.choice(
        (flip_sealed, extreme, resize, reorder, retype, map_column, truncate, end, field_of_any)
    )
    try:
        broken = change(rng, parsed.bytes(), parsed.bytes())[4:]
    except (ValueError, IndexError):  # too small a payload for that
        broken = plain[: len(plain) // 2]
    packed = zstandard.ZstdCompressor().compress(broken)
    said = len(broken) if rng.random() < 0.8 else rng.choice(_WIDE)
    fields = bytes([2, 1, 0, 3, 9, 0xFE]) + struct.pack("<Q", said)
    fields += bytes([1, 9, 0xFE]) + struct.pack("<Q", len(packed)) + b"\0"
    return bytes(event[:_HEADER]) + fields + packed + bytes(tail)


def _broken_rows(rng: random.Random, event: bytearray, tail: int) -> bytearray:
    """Rows of MariaDB's compressed rows event: V1 has 8 bytes, then width and bitmaps."""
    at = _HEADER + 8
    width = event[at]
    at += 1 + (width + 7) // 8 * (2 if event[4] == 167 else 1)
    size = event[at] & 7
    plain = bytearray(zlib.decompress(bytes(event[at + 1 + size : len(event) - tail])))
    for _ in range(rng.choice((1, 2, 6))):
        if plain:
            plain[rng.randrange(len(plain))] = rng.choice((*_EXTREMES, rng.randrange(256)))
    if rng.random() < 0.3:
        plain = plain[: rng.randrange(len(plain) + 1)]
    said = len(plain) if rng.random() < 0.8 else rng.choice(_WIDE)
    block = b"\x84" + struct.pack(">I", said) + zlib.compress(bytes(plain))
    return event[:at] + block + bytes(tail)


def _place(rng: random.Random, event: bytearray, tail: int) -> int:
    """A place in an event's body, in its header at times."""
    last = max(len(event) - tail, 1)
    if rng.random() < 0.1 or last <= _HEADER:
        return rng.randrange(last)
    return rng.randrange(_HEADER, last)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    truncate,
    flip,
    flip_sealed,
    flip_sealed,
    flip_sealed,
    extreme,
    extreme,
    resize,
    resize,
    reorder,
    retype,
    map_column,
    map_column,
    inside,
    inside,
)

AIMED: Final[tuple[Mutation, ...]] = (
    *MUTATIONS,
    end,
    end,
    field_of_any,
    field_of_any,
    field_of_any,
    form,
    flags,
    row_image,
    row_image,
    row_image,
    reorder,
    reorder,
    twice,
)
"""For small logs: aimed at each event's fields, order and row images, too."""
