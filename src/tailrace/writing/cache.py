"""A transaction until it is committed: its events in memory, and past a limit in a temporary file.

In the cache an event has no checksum, and its header says so (length = header and body) and
nothing of its place (``log_pos`` 0). When the transaction is committed, its place is known, and
`stamp` turns its events into those of a file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from importlib.util import find_spec
from struct import Struct
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import zstandard

from tailrace.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAX_EVENT_SIZE,
    TYPE_AT,
    ChecksumAlgorithm,
    RowsFlag,
    event_name,
)
from tailrace.errors import EventEncodeError
from tailrace.events import TransactionPayloadEvent
from tailrace.events.payload import Compression
from tailrace.events.walk import LENGTH_AT, frames
from tailrace.storage.binlog_cache import BinlogCache

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from tailrace.events import Event, GtidEvent, MariadbGtidEvent
    from tailrace.gtid import AnyGtid
    from tailrace.position import Position
    from tailrace.storage.streams.base import SpillOutput


_PIECE: Final = 1 << 22
"""Bytes read at once when the transaction is committed; an event that is larger comes whole."""
_LEVEL: Final = 3
"""Of the compression of a payload (`EventCache.compressed`)."""
_ROOM: Final = 1 << 10
"""Room for the bytes of an event in addition to the payload."""
_FLAGS_AT: Final = HEADER_SIZE + 6
_SERVER_ID_AT: Final = 5
_STMT_END: Final = int(RowsFlag.STMT_END)  # `|` of a flag's own class takes ten times as long
_MADE: Final = 1000
"""Events that are kept to be used again."""
_PLACE: Final = Struct("<II")  # length and log_pos, side by side in the header
_U32: Final = Struct("<I")
_LARGE: Final = 1 << 20
"""Bytes from which on the kernel is worth its start."""


def cached(event: Event) -> bytes:
    """An event in cache form. Raises EventEncodeError where a checksum would make it too large."""
    length = HEADER_SIZE + len(event.body)
    if length + CHECKSUM_SIZE > MAX_EVENT_SIZE:
        raise _too_large(length, event.name).at(event.file, event.offset)
    return event.encode(ChecksumAlgorithm.NONE, log_pos=0)


def _too_large(length: int, name: str) -> EventEncodeError:
    size = length - HEADER_SIZE
    return EventEncodeError(
        f"{size} bytes: no event has more than {MAX_EVENT_SIZE} in all", event_type=name
    )


class MadeEvents:
    """Events in cache form that differ by their time, server and end alone: each is made once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, bytes] = {}

    def get(
        self,
        key: Hashable,
        make: Callable[[], Event],
        timestamp: int,
        server_id: int,
        end: bytes = b"",
        *,
        over: int = 0,
    ) -> bytearray:
        """The event that ``make`` gives, of this time and server, with ``end`` in place of its last
        ``over`` bytes; ``make`` is not called again for the same key.
        """
        known = self._made.get(key)
        if known is None:
            if len(self._made) >= _MADE:
                self._made.clear()
            known = self._made[key] = cached(make())
        event = bytearray(known)
        if end:
            event[len(event) - over :] = end
            length = len(event)
            if length + CHECKSUM_SIZE > MAX_EVENT_SIZE:
                raise _too_large(length, event_name(event[TYPE_AT]))
            _U32.pack_into(event, LENGTH_AT, length)
        try:
            _U32.pack_into(event, 0, timestamp)
            _U32.pack_into(event, _SERVER_ID_AT, server_id)
        except struct.error:
            return bytearray(cached(make()))  # it says what is wrong
        return event


class EventCache:
    """Whole events in cache form (no checksum, ``log_pos`` 0), one after the other.

    Holds at most ``limit`` bytes in memory; what is more lies in a temporary file, on which
    ``wrap`` puts its stream (`WritableStore.spill`). ``size`` is in bytes, ``count`` in events.
    Raises StorageError where the temporary file cannot grow.
    """

    def __init__(
        self, limit: int, wrap: Callable[[SpillOutput], SpillOutput] | None = None
    ) -> None:
        self._limit = limit
        self._wrap = wrap
        self._cache = BinlogCache(limit, wrap=wrap)
        self._before = 0
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the events."""
        return len(self._cache)

    @property
    def disk_writes(self) -> int:
        """Writes to its temporary file, also after `close`."""
        return self._before + self._cache.disk_writes

    @property
    def tmp_file_name(self) -> str | None:
        """See `BinlogCache.tmp_file_name`."""
        return self._cache.tmp_file_name

    def append(self, events: bytes | bytearray | memoryview, count: int = 1) -> None:
        """Add ``count`` whole events."""
        self._cache.write(events)
        self.count += count

    def cut(self, size: int, count: int) -> None:
        """Roll back what was added since the cache had this size and count."""
        self._cache.truncate(size)
        self.count = count

    def pieces(self, start: int = 0) -> Iterator[memoryview]:
        """The events from the one at ``start`` on, in pieces of whole events of 4 MiB, or of one.

        A piece is valid until the next is requested.
        """
        return self._cache.whole_events(_PIECE, start)

    def compressed(self, header: dict[str, Any]) -> EventCache:
        """A cache with the one payload event; the same one where no event could hold the payload.

        Holds the compressed bytes in memory: at most 1 GiB.
        """
        packer = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=self.size)
        payload = bytearray()
        for piece in self.pieces():
            payload += packer.compress(piece)
            if len(payload) > MAX_EVENT_SIZE - _ROOM:
                return self
        payload += packer.flush()
        if len(payload) > MAX_EVENT_SIZE - _ROOM:
            return self
        event = TransactionPayloadEvent.make(
            payload=bytes(payload),
            compression=Compression.ZSTD,
            uncompressed_size=self.size,
            **header,
        )
        packed = EventCache(self._limit, self._wrap)
        packed._before = self.disk_writes
        packed.append(cached(event))
        return packed

    def close(self) -> None:
        """Forget the events."""
        self._cache.close()


@dataclass(slots=True)
class RowsChunk:
    """Whole rows events in cache form; ``last`` is where the last of them begins."""

    data: bytearray | memoryview
    count: int
    last: int

    def end_statement(self) -> None:
        """Mark the last event as the statement's last."""
        self.data[self.last + _FLAGS_AT] |= _STMT_END


@dataclass(slots=True)
class Group:
    """Its events but for the GTID event, and what that event is to say.

    ``timestamp`` is in seconds UTC, ``original_timestamp`` (of the commit where it was first made)
    in microseconds, None for now. ``statements``: it holds statements, not rows alone. ``alone``:
    its one statement commits itself; ``ddl``: and is a definition. ``source`` is the GTID event
    that a transaction from another log came with. ``transactional``: it is no statement on
    non-transactional tables; ``rolled_back``: it ends with a rollback.

    ``position`` is where it ends in the log, None until it was written; ``failure`` is what an
    observer raised when it was told so, or what interrupted the wait for it. ``head`` is the GTID
    event that it got, ``sequence`` its number in the file (MySQL's logical clock).
    """

    cache: EventCache
    gtid: AnyGtid | None
    server_id: int
    timestamp: int
    original_timestamp: int | None = None
    statements: bool = False
    alone: bool = False
    ddl: bool = False
    source: GtidEvent | MariadbGtidEvent | None = None
    transactional: bool = True
    rolled_back: bool = False
    position: Position | None = None
    failure: BaseException | None = None
    head: Event | None = None
    sequence: int = 0


def stamp(events: bytes | bytearray | memoryview, position: int, *, checksum: bool) -> bytes:
    """Whole events in cache form, as they stand in a file from the offset ``position`` on.

    Sets each event's length, ``log_pos`` (the low 32 bits of its end's offset: what every replica
    takes, also past 4 GiB and inside MariaDB's groups) and CRC32.
    """
    if len(events) >= _LARGE and find_spec("numba") is not None:
        from tailrace.columns.write.stamp import stamp_events  # noqa: PLC0415 - needs numba

        return stamp_events(events, position, checksum=checksum)
    return stamp_plainly(events, position, checksum=checksum)


def stamp_plainly(
    events: bytes | bytearray | memoryview, position: int, *, checksum: bool
) -> bytes:
    """`stamp` without the kernel: the same bytes."""
    tail = CHECKSUM_SIZE if checksum else 0
    parts: list[bytes | memoryview] = []
    stamped = bytearray(events)
    view = memoryview(stamped)
    for start, end in frames(stamped):
        length = end - start + tail
        position += length
        _PLACE.pack_into(stamped, start + LENGTH_AT, length, position & 0xFFFFFFFF)
        event = view[start:end]
        parts.append(event)
        if tail:
            parts.append(_U32.pack(crc32(event)))
    return b"".join(parts)
