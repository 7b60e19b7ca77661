"""TRANSACTION_PAYLOAD: a whole transaction's events, compressed (facts sheet 2.7)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import zstandard

from tailrace.constants import HEADER_SIZE, MAX_EVENT_SIZE, EventType
from tailrace.errors import EventDecodeError, TruncatedEvent
from tailrace.events.base import Event
from tailrace.events.context import DecodeContext
from tailrace.events.fields import Cursor
from tailrace.events.header import unpack_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.events.format_description import FormatDescription

_PIECE: Final = 1 << 10
"""Compressed bytes a step: zstd expands none by more than 2**15, so a step gives 32 MiB at most."""
_LARGEST_WINDOW: Final = 1 << 27
_END, _SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)


class Compression(IntEnum):
    """How a payload is compressed."""

    ZSTD = 0
    NONE = 255


class TransactionPayloadEvent(Event, types=(EventType.TRANSACTION_PAYLOAD,)):
    """TRANSACTION_PAYLOAD (40): the events of one transaction, all but its GTID event.

    ``payload_size`` and ``uncompressed_size`` are in bytes; the second is only what the event
    claims (None where it does not).
    """

    __slots__ = (
        "_format",
        "_payload_at",
        "compression",
        "payload_size",
        "uncompressed_size",
    )

    FIELDS = ("compression", "payload_size", "uncompressed_size")

    compression: Compression
    payload_size: int
    uncompressed_size: int | None
    _payload_at: int
    _format: FormatDescription | None

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: fields (type, length, value; values are length-encoded too), 0, the payload."""
        cursor = Cursor(self.body)
        fields: dict[int, int] = {}
        while (kind := cursor.lenenc("a field's type")) != _END:
            value = cursor.lenenc_bytes("a field")
            if kind <= _UNCOMPRESSED_SIZE:
                fields[kind] = Cursor(value).lenenc("a field's value")
        compression = fields.get(_COMPRESSION)
        if compression not in {Compression.ZSTD, Compression.NONE}:
            raise EventDecodeError(f"payload compression {compression} is not known")
        self.compression = Compression(compression)
        self.payload_size = fields.get(_SIZE, cursor.remaining)
        self.uncompressed_size = fields.get(_UNCOMPRESSED_SIZE)
        if self.payload_size != cursor.remaining:
            raise EventDecodeError(
                f"a payload of {self.payload_size} bytes, {cursor.remaining} are there"
            )
        self._payload_at = cursor.pos
        self._format = context.format

    @property
    def payload(self) -> bytes:
        """The payload as it is stored."""
        return self.body[self._payload_at :]

    def pieces(self) -> Iterator[bytes]:
        """The uncompressed payload, in pieces of 32 MiB at most. Raises EventDecodeError."""
        if self.compression is Compression.NONE:
            yield self.payload
            return
        rest = memoryview(self.body)[self._payload_at :]
        unpack = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        while rest:
            frame = unpack.decompressobj()
            while not frame.eof:
                if not rest:
                    raise self.error("the compressed payload ends too early")
                piece, rest = rest[:_PIECE], rest[_PIECE:]
                try:
                    plain = frame.decompress(piece)
                except zstandard.ZstdError as error:
                    raise self.error(f"the compressed payload is damaged ({error})") from None
                if plain:
                    yield plain
            unused = len(frame.unused_data)
            if unused:
                rest = memoryview(self.body)[len(self.body) - len(rest) - unused :]

    def raw_events(self) -> Iterator[bytes]:
        """The bytes of each event inside; never more than one and a piece in memory.

        Raises TruncatedEvent, EventDecodeError.
        """
        held = bytearray()
        at = seen = 0
        for piece in self.pieces():
            del held[:at]
            at = 0
            held += piece
            while len(held) - at >= HEADER_SIZE:
                length = unpack_header(held, at)[3]
                if not HEADER_SIZE <= length <= MAX_EVENT_SIZE:
                    raise self.error(f"the payload holds an event of {length} bytes")
                if len(held) - at < length:
                    break
                yield bytes(memoryview(held)[at : at + length])
                at += length
                seen += 1
        if at != len(held):
            raise self.error("the payload ends inside an event", TruncatedEvent)
        if not seen:
            raise self.error("the payload holds no event")

    def events(self) -> Iterator[Event]:
        """The events inside, decoded; their place is this event's.

        Raises EventDecodeError, UnknownEvent, MissingTableMap, ...
        """
        context = DecodeContext(self._format)
        for index, raw in enumerate(self.raw_events()):
            if raw[4] in _NOT_INSIDE:
                raise self.error(f"the payload holds an event of type {raw[4]}")
            event = context.decode(raw, file=self.file, offset=self.offset)
            event.inner_index = index
            event.outer_length = self.header.length
            yield event

    __iter__ = events


_NOT_INSIDE: Final = frozenset({EventType.TRANSACTION_PAYLOAD, EventType.FORMAT_DESCRIPTION})
