"""What a server's log files hold, read without Tailrace: a length and the bytes, event by event."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_HEADER: Final = 19
_IN_USE: Final = 17
"""The offset of the flag in a format description event that the server clears as it sends it."""
_DESCRIPTION: Final = 15
_GTIDS: Final = frozenset({33, 34, 42, 162})
_CONTROL: Final = frozenset({3, 4, 15, 27, 35, 41, 161, 163, 164})
"""What belongs to no transaction: STOP, ROTATE, descriptions, heartbeats, lists of GTIDs, ..."""
_ENDS: Final = frozenset({2, 16, 26, 38, 40, 165})
"""What a transaction may end with: QUERY, XID, INCIDENT, XA_PREPARE, payloads."""


class Seen(NamedTuple):
    """An event: where it begins, and a hash of its bytes that holds in this process."""

    file: str
    offset: int
    type: int
    digest: int


def description(raw: bytes) -> bytes:
    """A format description event, and what may follow it, without its IN_USE flag."""
    if len(raw) <= _IN_USE:
        return raw
    return raw[:_IN_USE] + bytes((raw[_IN_USE] & 0xFE,)) + raw[_IN_USE + 1 :]


def seen(file: str, offset: int, raw: bytes) -> Seen:
    """Note an event; a format description without its IN_USE flag."""
    if raw[4] == _DESCRIPTION:
        raw = description(raw)
    return Seen(file, offset, raw[4], hash(raw))


def events(path: Path) -> Iterator[Seen]:
    """The events of a file, to its end or to an event that a crash has cut off."""
    for offset, raw in _whole(path):
        yield seen(path.name, offset, raw)


def size(path: Path) -> int:
    """How many bytes a file has, without an event that a crash has cut off."""
    return max((offset + len(raw) for offset, raw in _whole(path)), default=4)


def _whole(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as log:
        log.seek(4)
        offset = 4
        while len(header := log.read(_HEADER)) == _HEADER:
            length = struct.unpack_from("<I", header, 9)[0]
            raw = header + log.read(length - _HEADER)
            if len(raw) < length:
                return
            yield offset, raw
            offset += length


def transactions(found: Iterable[Seen]) -> list[tuple[int, ...]]:
    """The events' digests, a tuple from each GTID event to the next; control events left out.

    So is a transaction that a crash has cut off: a file begins before its end.
    """
    groups: list[list[Seen]] = []
    for event in found:
        if event.type == _DESCRIPTION and groups and groups[-1][-1].type not in _ENDS:
            groups.pop()
        if event.type in _GTIDS:
            groups.append([])
        if groups and event.type not in _CONTROL:
            groups[-1].append(event)
    return [tuple(event.digest for event in group) for group in groups]


def difference(what: str, found: list[Seen], wanted: list[Seen]) -> str | None:
    """Where two sequences of events part, in words; None where they do not."""
    for number, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            return f"{what}: event {number} is {one[:3]}, the files have {other[:3]}" + (
                " with other bytes" if one[:3] == other[:3] else ""
            )
    if len(found) != len(wanted):
        rest = (found if len(found) > len(wanted) else wanted)[min(len(found), len(wanted))]
        return f"{what}: {len(found)} events, the files have {len(wanted)}; they part at {rest[:3]}"
    return None
