"""A transaction's events in one compressed event, as MySQL writes them with compression on."""

from __future__ import annotations

from typing import Any, Final

import zstandard

from tailrace.constants import MAX_EVENT_SIZE
from tailrace.events import TransactionPayloadEvent
from tailrace.events.payload import Compression
from tailrace.writing.cache import EventCache, cached

_LEVEL: Final = 3
_ROOM: Final = 1 << 10
"""Room for the bytes of an event in addition to the payload."""


def compressed(cache: EventCache, header: dict[str, Any]) -> EventCache:
    """A cache with the one payload event; the same one where no event could hold the payload.

    Holds the compressed bytes in memory: at most 1 GiB.
    """
    packer = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=cache.size)
    payload = bytearray()
    for piece in cache.pieces():
        payload += packer.compress(piece)
        if len(payload) > MAX_EVENT_SIZE - _ROOM:
            return cache
    payload += packer.flush()
    if len(payload) > MAX_EVENT_SIZE - _ROOM:
        return cache
    event = TransactionPayloadEvent.make(
        payload=bytes(payload),
        compression=Compression.ZSTD,
        uncompressed_size=cache.size,
        **header,
    )
    packed = cache.another()
    packed.append(cached(event))
    return packed
