"""Which transaction payloads prepare an XA transaction, by their first event.

Only the start of a payload is uncompressed: a scan of headers reads many payloads. The rest is
uncompressed only for an XA transaction's payload, as its last event says whether it was prepared or
committed at once.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import zstandard

from tailrace.constants import HEADER_SIZE, EventType, event_name
from tailrace.errors import EventDecodeError, LogError
from tailrace.events.payload import LARGEST_WINDOW, Compression, PayloadFields, unpack
from tailrace.transaction.committed import prepared_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.columns.read.blocks import Blocks
    from tailrace.events.description import FormatDescription
    from tailrace.events.transaction import XaName

Array = np.ndarray[Any, Any]

_STEP: Final = 1 << 10
"""Compressed bytes at a time: zstd expands none by more than 2**15, so 32 MiB at most."""
_FIELDS: Final = 128
"""More than the bytes before the payload in its event."""
_STATUS_AT: Final = HEADER_SIZE + 11
_DATABASE_AT: Final = HEADER_SIZE + 8
_TEXT_AT: Final = HEADER_SIZE + 13


class PayloadHeads:
    """Reads the starts of one log's payloads."""

    def __init__(self) -> None:
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)

    def prepared_among(
        self, payloads: Array, base: int, tail: int, form: FormatDescription | None, file: str
    ) -> Iterator[tuple[XaName, int, int, int]]:
        """The payload events noted by the scan kernel that prepare an XA transaction.

        They are in memory at ``base`` plus their offset. Gives the transaction's name, the event's
        offset and size, and where the transaction began. Raises what `prepared` raises.
        """
        for offset, size, began, frames in payloads.tolist():
            if frames and not self.may_prepare(base + offset + frames, size - tail - frames):
                continue
            start = base + offset + HEADER_SIZE
            body = ctypes.string_at(start, size - HEADER_SIZE - tail)
            try:
                name = self.prepared(body, form)
            except LogError as error:
                kind = event_name(EventType.TRANSACTION_PAYLOAD)
                raise error.at(file, offset, kind) from None
            if name is not None:
                yield name, offset, size, began

    def may_prepare(self, address: int, size: int) -> bool:
        """Whether zstd frames, ``size`` bytes in memory, may be those of a payload that prepares.

        True as well if one step does not tell, or if they are damaged.
        """
        step = ctypes.string_at(address, min(size, _STEP))
        try:
            plain = self._unpacker.decompressobj().decompress(step)
        except zstandard.ZstdError:
            return True
        return _is_xa(plain) is not False

    def prepared(self, body: bytes, form: FormatDescription | None) -> XaName | None:
        """The XA transaction that a payload event prepares, from the event's body; None if none.

        Raises EventDecodeError, TruncatedEvent.
        """
        fields = PayloadFields.read(body)
        stored = memoryview(body)[fields.payload_at :]
        if self._begins_xa([stored], fields.compression) is False:
            return None
        return prepared_in(unpack([stored], fields.compression), form)

    def prepared_in_file(
        self, blocks: Blocks, offset: int, size: int, form: FormatDescription | None
    ) -> XaName | None:
        """Like `prepared`, for an event of ``size`` bytes at ``offset`` that is not in memory.

        Also raises StorageError.
        """
        begin, end = offset + HEADER_SIZE, offset + size
        try:
            fields = PayloadFields.read(b"".join(blocks.read(begin, min(begin + _FIELDS, end))))
            begin += fields.payload_at
            if self._begins_xa(blocks.read(begin, end), fields.compression) is False:
                return None
            return prepared_in(unpack(blocks.read(begin, end), fields.compression), form)
        except LogError as error:
            kind = event_name(EventType.TRANSACTION_PAYLOAD)
            raise error.at(blocks.path, offset, kind) from None

    def _begins_xa(
        self, pieces: Iterable[bytes | memoryview], compression: Compression
    ) -> bool | None:
        """Whether the first event is an XA statement; None if the first frame does not tell."""
        frame = None if compression is Compression.NONE else self._unpacker.decompressobj()
        held = b""
        for piece in pieces:
            for at in range(0, len(piece), _STEP):
                step = piece[at : at + _STEP]
                try:
                    held += bytes(step) if frame is None else frame.decompress(step)
                except zstandard.ZstdError as error:
                    raise EventDecodeError(f"the compressed payload is damaged ({error})") from None
                if (found := _is_xa(held)) is not None:
                    return found
                if frame is not None and frame.eof:
                    return None
        return None


def _is_xa(plain: bytes) -> bool | None:
    """Whether these bytes begin with an event that is an XA statement; None: too few bytes."""
    if len(plain) < _TEXT_AT:
        return None
    if plain[4] != EventType.QUERY:
        return False
    status = int.from_bytes(plain[_STATUS_AT : _STATUS_AT + 2], "little")
    text = _TEXT_AT + status + plain[_DATABASE_AT] + 1
    return None if len(plain) < text + 3 else plain[text : text + 3].upper() == b"XA "
