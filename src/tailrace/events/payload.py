"""TRANSACTION_PAYLOAD: a whole transaction's events, compressed (facts sheet 2.7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Self

import zstandard

from tailrace.constants import HEADER_SIZE, MAX_EVENT_SIZE, ChecksumAlgorithm, EventType
from tailrace.errors import EventDecodeError, EventEncodeError, LogError, TruncatedEvent
from tailrace.events.base import Event
from tailrace.events.context import DecodeContext
from tailrace.events.fields import Builder, Cursor, binary, integer, member
from tailrace.events.header import bad_length, unpack_header
from tailrace.events.layout import (
    derived,
    field,
    tagged_fields,
    tail,
    write_tagged_field,
    write_unknown_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tailrace.events.base import LogState, Unknown
    from tailrace.events.description import FormatDescription
    from tailrace.events.header import EventHeader

_STEP: Final = 1 << 10
_SMALL_STEP: Final = 1 << 6
"""Compressed bytes a step: zstd expands none by more than 2**15, so a step gives 32 MiB at most.

After a step that gives more than a piece, the steps are this small, which give 2 MiB at most.
"""
LARGEST_PIECE: Final = 1 << 20
"""The most bytes of a piece of a payload."""
LARGEST_WINDOW: Final = 1 << 27
_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(1, 4)


class Compression(IntEnum):
    """How a payload is compressed."""

    ZSTD = 0
    NONE = 255


@dataclass(frozen=True, slots=True)
class PayloadFields:
    """The fields before the payload; ``payload_at`` is the payload's offset in the event's body.

    Sizes are in bytes, None if they are not given. ``unknown`` has type and bytes of each
    unknown field.
    """

    compression: Compression
    payload_size: int | None
    uncompressed_size: int | None
    payload_at: int
    unknown: tuple[tuple[int, bytes], ...] = ()

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read them from the start of an event's body. Raises EventDecodeError."""
        cursor = Cursor(body)
        fields: dict[int, int] = {}
        unknown: tuple[tuple[int, bytes], ...] = ()
        for kind, value in tagged_fields(cursor):
            if kind <= _UNCOMPRESSED_SIZE:
                fields[kind] = Cursor(value).lenenc("a field's value")
            else:
                unknown += ((kind, value),)
        compression = fields.get(_COMPRESSION)
        if compression not in {Compression.ZSTD, Compression.NONE}:
            raise EventDecodeError(f"payload compression {compression} is not known")
        return cls(
            Compression(compression),
            fields.get(_SIZE),
            fields.get(_UNCOMPRESSED_SIZE),
            cursor.pos,
            unknown,
        )

    def write(self) -> bytes:
        """The bytes of the fields, in the server's order. Raises EventEncodeError."""
        out = Builder()
        for kind, value, what in (
            (_COMPRESSION, member(Compression, self.compression, "compression"), "compression"),
            (_UNCOMPRESSED_SIZE, self.uncompressed_size, "uncompressed_size"),
            (_SIZE, self.payload_size, "payload_size"),
        ):
            if value is not None:
                raw = Builder()
                raw.lenenc(value, what)
                write_tagged_field(out, kind, raw.done(), what)
        write_unknown_fields(out, self.unknown, range(4))
        return out.done()


def _cut(data: bytes | memoryview) -> Iterator[bytes]:
    """Bytes in pieces of 1 MiB at most."""
    if isinstance(data, bytes) and len(data) <= LARGEST_PIECE:
        yield data
        return
    for at in range(0, len(data), LARGEST_PIECE):
        yield bytes(data[at : at + LARGEST_PIECE])


def unpack(pieces: Iterable[bytes | memoryview], compression: Compression) -> Iterator[bytes]:
    """Uncompress a payload that comes in pieces, into pieces of 1 MiB at most.

    Several frames may follow each other. Raises EventDecodeError.
    """
    if compression is Compression.NONE:
        for piece in pieces:
            yield from _cut(piece)
        return
    unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
    frame, step = None, _STEP
    for piece in pieces:
        at = 0
        while at < len(piece):
            rest = piece[at : at + step]
            at += len(rest)
            made = 0
            while rest:
                frame = frame or unpacker.decompressobj()
                try:
                    plain = frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise EventDecodeError(f"the compressed payload is damaged ({error})") from None
                made += len(plain)
                if plain:
                    yield from _cut(plain)
                if not frame.eof:
                    break
                rest = frame.unused_data
                frame = None
            step = _SMALL_STEP if made * _STEP > LARGEST_PIECE * step else _STEP
    if frame is not None:
        raise EventDecodeError("the compressed payload ends too early")


def events_in(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of each event in an uncompressed payload that comes in pieces.

    Never more than one event and one piece in memory. Raises TruncatedEvent, EventDecodeError.
    """
    data = b""
    large: BytesIO | None = None  # an event longer than a piece: it grows without a copy
    length = seen = 0
    for each in pieces:
        piece = each
        if large is not None:
            missing = length - large.tell()
            large.write(memoryview(piece)[:missing])
            if large.tell() < length:
                continue
            whole = [large.getvalue()]
            large = None
            yield whole.pop()  # only the caller holds it
            seen += 1
            piece = piece[missing:]
        data += piece
        at = 0
        while len(data) - at >= HEADER_SIZE:
            length = unpack_header(data, at)[3]
            if not HEADER_SIZE <= length <= MAX_EVENT_SIZE:
                raise bad_length(length)
            if len(data) - at < length:
                if length > LARGEST_PIECE:
                    large = BytesIO()
                    large.write(memoryview(data)[at:])
                    at = len(data)
                break
            yield data[at : at + length]
            at += length
            seen += 1
        data = data[at:]
    if data or large is not None:
        raise TruncatedEvent("the payload ends inside an event")
    if not seen:
        raise EventDecodeError("the payload holds no event")


class TransactionPayloadEvent(Event, types=(EventType.TRANSACTION_PAYLOAD,)):
    """TRANSACTION_PAYLOAD (40): the events of one transaction, all but its GTID event.

    ``payload_size`` and ``uncompressed_size`` are in bytes; the second is only what the event
    states (None if it does not). ``unknown_fields`` has type and bytes of each field that a
    newer server added. ``unknown`` is that of the log (`LogState`), for the events inside. For
    `make`, ``payload`` holds the bytes as they are stored; `of` makes an event from the events
    inside.
    """

    FIELDS = ("compression", "payload_size", "uncompressed_size")
    CHANGES_CONTEXT = True
    FROM_CONTEXT = ("unknown",)

    compression: Compression = field(default=Compression.ZSTD)
    payload_size: int = derived()
    uncompressed_size: int | None = field(default=None)
    unknown_fields: tuple[tuple[int, bytes], ...] = field(default=())
    payload: bytes = tail()
    unknown: Unknown = derived()

    def __init__(self, header: EventHeader, body: bytes) -> None:
        super().__init__(header, body)
        self.unknown = "error"

    def update(self, context: LogState) -> None:
        """Note what happens to unknown events inside."""
        self.unknown = context.unknown

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: fields (type, length, value; values are length-encoded too), 0, the payload."""
        fields = PayloadFields.read(self.body)
        self.compression = fields.compression
        self.uncompressed_size = fields.uncompressed_size
        self.unknown_fields = fields.unknown
        self._payload_at = fields.payload_at
        remaining = len(self.body) - fields.payload_at
        self.payload_size = remaining if fields.payload_size is None else fields.payload_size
        if self.payload_size != remaining:
            raise EventDecodeError(f"a payload of {self.payload_size} bytes, {remaining} are there")

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """All fields; another payload has another size."""
        fields = super().carried(changes)
        if "payload" in changes:
            fields.pop("uncompressed_size", None)
        return fields

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        payload = binary(self.payload, "payload")
        fields = PayloadFields(
            self.compression, len(payload), self.uncompressed_size, 0, self.unknown_fields
        )
        return fields.write() + payload

    @classmethod
    def of(
        cls,
        events: Iterable[Event],
        *,
        compression: Compression = Compression.ZSTD,
        level: int = 3,
        **header: Any,
    ) -> Self:
        """The event that holds these events: all of one transaction except its GTID event.

        They are stored without checksum and with ``log_pos`` 0, as the server does; ``level`` is
        Zstandard's. ``header`` is as in `make`; ``timestamp``, ``server_id`` and ``form`` are by
        default the first event's. Raises EventEncodeError.
        """
        inside = [_checked_inner(event) for event in events]
        if not inside:
            raise EventEncodeError("events: a payload holds at least one")
        first = inside[0]
        said = {"timestamp": first.timestamp, "server_id": first.header.server_id}
        plain = b"".join(event.encode(ChecksumAlgorithm.NONE, log_pos=0) for event in inside)
        return cls.make(
            payload=_pack(plain, member(Compression, compression, "compression"), level),
            compression=compression,
            uncompressed_size=len(plain),
            **{**said, "form": first.form, **header},
        )

    def pieces(self) -> Iterator[bytes]:
        """The uncompressed payload, in pieces of 1 MiB at most. Raises EventDecodeError."""
        try:
            yield from unpack([memoryview(self.body)[self._payload_at :]], self.compression)
        except EventDecodeError as error:
            raise error.at(self.file, self.offset, self.name) from None

    def raw_events(self) -> Iterator[bytes]:
        """The bytes of each event inside; never more than one event and one piece in memory.

        Raises TruncatedEvent, EventDecodeError.
        """
        try:
            yield from events_in(self.pieces())
        except LogError as error:
            raise error.at(self.file, self.offset, self.name) from None

    def check(self) -> None:
        """Decode all fields, and uncompress and decode all events inside."""
        super().check()
        for event in self.events():
            event.check()
            del event  # before the next is made: it may be large

    def events(self, unknown: Unknown | None = None) -> Iterator[Event]:
        """The events inside, decoded; their position is this event's. ``unknown`` is by default the
        event's.

        Raises EventDecodeError, UnknownEvent, MissingTableMap, ...
        """
        context = DecodeContext(self.form, unknown=unknown or self.unknown)
        index = 0
        for raw in self.raw_events():
            if raw[4] in NOT_INSIDE:
                raise self.error(f"the payload holds an event of type {raw[4]}")
            event = context.decode(raw, file=self.file, offset=self.offset)
            del raw  # it may be large, and the event holds it
            event.inner_index = index
            event.outer_length = self.header.length
            index += 1  # noqa: SIM113 - `enumerate` keeps what it gave last
            yield event
            del event

    def __iter__(self) -> Iterator[Event]:
        return self.events()


NOT_INSIDE: Final = frozenset({EventType.TRANSACTION_PAYLOAD, EventType.FORMAT_DESCRIPTION})
"""Types of events that cannot be in a payload."""


def _checked_inner(event: Event) -> Event:
    if not isinstance(event, Event):
        raise EventEncodeError(f"events: {event!r} is no event")
    if event.type in NOT_INSIDE:
        raise EventEncodeError(f"events: a {event.name} cannot be in a payload")
    return event


def _pack(plain: bytes, compression: Compression, level: int) -> bytes:
    if compression is Compression.NONE:
        return plain
    integer(level, "level", -(1 << 17), zstandard.MAX_COMPRESSION_LEVEL)
    return zstandard.ZstdCompressor(level=level).compress(plain)
