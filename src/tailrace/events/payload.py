"""TRANSACTION_PAYLOAD: a whole transaction's events, compressed (facts sheet 2.7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Self

import zstandard

from tailrace.constants import HEADER_SIZE, MAX_EVENT_SIZE, EventType
from tailrace.errors import EventDecodeError, TruncatedEvent
from tailrace.events.base import Event
from tailrace.events.context import DecodeContext
from tailrace.events.fields import Cursor
from tailrace.events.header import unpack_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.events.format_description import FormatDescription

_PIECE: Final = 1 << 10
"""Compressed bytes a step: zstd expands none by more than 2**15, so a step gives 32 MiB at most."""
_LARGEST_WINDOW: Final = 1 << 27
_END, _SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)


class Compression(IntEnum):
    """How a payload is compressed."""

    ZSTD = 0
    NONE = 255


@dataclass(frozen=True, slots=True)
class PayloadFields:
    """What stands before the payload; ``payload_at`` is where in the event's body that begins.

    Sizes are in bytes, None where they are not said.
    """

    compression: Compression
    payload_size: int | None
    uncompressed_size: int | None
    payload_at: int

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read them from the begin of an event's body. Raises EventDecodeError."""
        cursor = Cursor(body)
        fields: dict[int, int] = {}
        while (kind := cursor.lenenc("a field's type")) != _END:
            value = cursor.lenenc_bytes("a field")
            if kind <= _UNCOMPRESSED_SIZE:
                fields[kind] = Cursor(value).lenenc("a field's value")
        compression = fields.get(_COMPRESSION)
        if compression not in {Compression.ZSTD, Compression.NONE}:
            raise EventDecodeError(f"payload compression {compression} is not known")
        return cls(
            Compression(compression),
            fields.get(_SIZE),
            fields.get(_UNCOMPRESSED_SIZE),
            cursor.pos,
        )


def _steps(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        for at in range(0, len(piece), _PIECE):
            yield piece[at : at + _PIECE]


def unpack(pieces: Iterable[bytes | memoryview], compression: Compression) -> Iterator[bytes]:
    """Uncompress a payload that comes in pieces, into pieces of 32 MiB at most.

    Several frames may follow each other. Raises EventDecodeError.
    """
    if compression is Compression.NONE:
        yield from map(bytes, pieces)
        return
    unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    frame = None
    for step in _steps(pieces):
        rest = step
        while rest:
            frame = frame or unpacker.decompressobj()
            try:
                plain = frame.decompress(rest)
            except zstandard.ZstdError as error:
                raise EventDecodeError(f"the compressed payload is damaged ({error})") from None
            if plain:
                yield plain
            if not frame.eof:
                break
            rest = frame.unused_data
            frame = None
    if frame is not None:
        raise EventDecodeError("the compressed payload ends too early")


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
        fields = PayloadFields.read(self.body)
        self.compression = fields.compression
        self.uncompressed_size = fields.uncompressed_size
        self._payload_at = fields.payload_at
        remaining = len(self.body) - fields.payload_at
        self.payload_size = remaining if fields.payload_size is None else fields.payload_size
        if self.payload_size != remaining:
            raise EventDecodeError(f"a payload of {self.payload_size} bytes, {remaining} are there")
        self._format = context.format

    @property
    def payload(self) -> bytes:
        """The payload as it is stored."""
        return self.body[self._payload_at :]

    def pieces(self) -> Iterator[bytes]:
        """The uncompressed payload, in pieces of 32 MiB at most. Raises EventDecodeError."""
        try:
            yield from unpack([memoryview(self.body)[self._payload_at :]], self.compression)
        except EventDecodeError as error:
            raise error.at(self.file, self.offset, self.name) from None

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
