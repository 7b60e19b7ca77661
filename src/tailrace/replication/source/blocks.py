"""Pieces of logs as packets, made once for all replicas that read the same piece.

A block holds the events that begin between two multiples of 256 KiB of a file, so that replicas
that began at different positions soon share blocks. What differs between replicas is the packets'
sequence numbers: they are rewritten in a copy, unless the replica is in step with the first one.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Final

from tailrace.constants import HEADER_SIZE, LARGE, TYPE_AT, EventType
from tailrace.events.gtids import GtidEvent
from tailrace.events.walk import checked_length, event_length, frames, is_event_length
from tailrace.gtid import GtidSet
from tailrace.storage.streams.base import read_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.events import DecodeContext
    from tailrace.replication.source.series import ServedFile
    from tailrace.storage.streams.base import InputFile

BLOCK: Final = 1 << 18
"""Bytes of a file whose events make a block."""
_AHEAD: Final = 1 << 14
"""Bytes that are read after these, for the rest of the last event."""
_CACHED: Final = 32 << 20
"""Bytes of the blocks that are kept for other replicas."""
_PACKET: Final = Struct("<IB").pack
"""A packet's header, and the 00 before an event: the length has 24 bits, the number is above."""
HEAD: Final = 5
_SPECIAL: Final = frozenset(
    {
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.GTID_TAGGED,
        EventType.MARIADB_GTID,
        EventType.ANNOTATE_ROWS,
    }
)
"""Types of events that may keep a block from being sent as it is."""


@dataclass(slots=True, eq=False)
class Block:
    """Events of a file, from ``begin`` to ``end``, as packets that are numbered from ``first`` on.

    ``heads`` are where the packets begin in ``packets``. ``special`` are the numbers of the events
    that some replicas do not get.
    """

    begin: int
    end: int
    first: int
    packets: bytes
    heads: array[int]
    special: array[int]
    _spans: GtidSet | None = field(default=None, repr=False)

    def numbered(self, sequence: int) -> bytes | bytearray:
        """The packets, numbered from ``sequence`` on, modulo 256."""
        if sequence == self.first:
            return self.packets
        changed = bytearray(self.packets)
        for at in self.heads:
            changed[at + 3] = sequence & 0xFF
            sequence += 1
        return changed

    def event(self, number: int) -> memoryview:
        """The bytes of one of its events."""
        begin = self.heads[number] + HEAD
        last = number + 1 == len(self.heads)
        return memoryview(self.packets)[begin : None if last else self.heads[number + 1]]

    def events(self) -> Iterator[tuple[int, memoryview]]:
        """Its events: where each ends in the file, and its bytes."""
        at, view = self.begin, memoryview(self.packets)
        for begin, end in pairwise((*self.heads, len(view))):
            at += end - begin - HEAD
            yield at, view[begin + HEAD : end]

    def kinds(self) -> set[int]:
        """The types of the special events in it."""
        return {self.event(number)[TYPE_AT] for number in self.special}

    def spans(self, context: DecodeContext) -> GtidSet:
        """MySQL: a set that holds all of the GTIDs in it, and those between them."""
        if self._spans is None:
            runs: dict[tuple[str, str], tuple[int, int]] = {}
            for number in self.special:
                event = context.decode(self.event(number), verify_checksum=False)
                gtid = event.gtid if isinstance(event, GtidEvent) else None
                if gtid is not None:
                    low, high = runs.get((gtid.uuid, gtid.tag), (gtid.gno, gtid.gno + 1))
                    span = min(low, gtid.gno), max(high, gtid.gno + 1)
                    runs[gtid.uuid, gtid.tag] = span
            self._spans = GtidSet({tsid: [run] for tsid, run in runs.items()})
        return self._spans


def _framed(data: memoryview, begin: int, until: int, first: int) -> Block:
    """The block of the events in data, which begins at ``begin``, that begin before ``until``."""
    parts: list[bytes | memoryview] = []
    heads, special = array("I"), array("I")
    at = end = 0
    sequence = first
    for start, stop in frames(data):
        if begin + start >= until:
            break
        if data[start + TYPE_AT] in _SPECIAL:
            special.append(len(heads))
        heads.append(at)
        parts += (_PACKET(1 + stop - start | sequence << 24, 0), data[start:stop])
        sequence = sequence + 1 & 0xFF
        at += HEAD + stop - start
        end = stop
    return Block(begin, begin + end, first, b"".join(parts), heads, special)


class BlockCache:
    """The blocks that were made last, for all replicas."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[ServedFile, int], Block] = OrderedDict()
        self._size = 0
        self._lock = Lock()
        self._making: dict[tuple[ServedFile, int], Lock] = {}

    def block(
        self, file: ServedFile, stream: InputFile, begin: int, end: int, sequence: int
    ) -> Block | int:
        """The block of a file from ``begin`` on; ``end`` is up to where the file can be sent.

        A new one is numbered from ``sequence`` on. If an event of more than 1 MiB is there, its
        length. A block without an event means that the file ends inside one. Raises StorageError,
        BadEventLength.
        """
        key = file, begin
        found = self._found(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, Lock())
        try:
            with making:
                made = self._found(key) or _read(stream, begin, end, sequence)
                if isinstance(made, Block) and made.heads:
                    self._keep(key, made)
                return made
        finally:
            with self._lock:
                self._making.pop(key, None)

    def _found(self, key: tuple[ServedFile, int]) -> Block | None:
        with self._lock:
            found = self._blocks.get(key)
            if found is not None:
                self._blocks.move_to_end(key)
            return found

    def _keep(self, key: tuple[ServedFile, int], block: Block) -> None:
        with self._lock:
            if key not in self._blocks:
                self._size += len(block.packets)
                self._blocks[key] = block
            while self._size > _CACHED:
                _, dropped = self._blocks.popitem(last=False)
                self._size -= len(dropped.packets)


def _read(stream: InputFile, begin: int, end: int, sequence: int) -> Block | int:
    until = min((begin // BLOCK + 1) * BLOCK, end)
    data = read_exactly(stream, begin, min(until + _AHEAD, end) - begin)
    block = _framed(memoryview(data), begin, until, sequence)
    left = len(data) - (block.end - begin)
    if block.end >= until or left < HEADER_SIZE:
        return block
    length = event_length(data, block.end - begin)
    if block.heads and (length > LARGE or not is_event_length(length)):
        return block
    checked_length(data, block.end - begin)
    if block.end + length > min(end, stream.size()):
        return block  # no byte of a packet is sent before it is known that there are all
    if length > LARGE:
        return length
    data += read_exactly(stream, begin + len(data), length - left)
    return _framed(memoryview(data), begin, until, sequence)
