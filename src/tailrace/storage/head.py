"""What a log file begins with: its format description event, and the GTIDs before the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import FILE_FLAGS_AT, MAGIC, TYPE_AT, ChecksumAlgorithm, EventType, Flavour
from tailrace.events import (
    DecodeContext,
    FormatDescriptionEvent,
    GtidListEvent,
    PreviousGtidsEvent,
)
from tailrace.events.format_description import first_event
from tailrace.storage.streams.base import read_exactly

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.gtid import GtidState
    from tailrace.storage.file import LogFile
    from tailrace.storage.streams.base import RandomInput

_BEFORE_LIST: Final = frozenset({EventType.START_ENCRYPTION, EventType.ROTATE})
_LISTS: Final = frozenset({EventType.PREVIOUS_GTIDS, EventType.GTID_LIST})
_FLAGS: Final = range(FILE_FLAGS_AT, FILE_FLAGS_AT + 2)


@dataclass(frozen=True, slots=True)
class FileHead:
    """The beginning of a log file.

    ``raw`` are the format description event's bytes as stored. ``before`` are the GTIDs of all
    earlier files; None if the file does not say. ``encryption`` is the START_ENCRYPTION event of a
    file that MariaDB encrypted, else empty.
    """

    raw: bytes
    format: FormatDescriptionEvent
    before: GtidState | None
    encryption: bytes = b""

    @property
    def begin(self) -> int:
        """Where the event after the format description begins."""
        return len(MAGIC) + len(self.raw)

    @property
    def flavour(self) -> Flavour:
        """Whose log it is."""
        return self.format.flavour

    @property
    def checksum(self) -> ChecksumAlgorithm:
        """That of the file's events."""
        return self.format.checksum_algorithm

    def context(self) -> DecodeContext:
        """A context to decode the file's events in."""
        context = DecodeContext(unknown="opaque")
        self.format.update(context)
        return context

    @classmethod
    def read(
        cls, events: Iterable[tuple[int, bytes]], file: LogFile, *, grows: bool = False
    ) -> Self | None:
        """The head, from the events at a file's beginning with their offsets; None without one.

        ``grows``: it is also None as long as its writer has not written all of it. Raises LogError.
        """
        context = DecodeContext(unknown="opaque")
        first: tuple[bytes, FormatDescriptionEvent] | None = None
        before: GtidState | None = None
        encryption = b""
        for offset, raw in events:
            kind = raw[TYPE_AT]
            if first is None or kind in _BEFORE_LIST or kind in _LISTS:
                event = context.decode(raw, file=file.name, offset=offset, verify_checksum=False)
                if first is None:
                    first = raw, first_event(event)
                    continue
                if isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
                    before = event.gtids
                elif kind == EventType.START_ENCRYPTION:
                    encryption = raw
            if kind not in _BEFORE_LIST:
                break
        else:
            if grows:
                return None
        return None if first is None else cls(*first, before, encryption)


def lasting(stream: RandomInput, offset: int, count: int) -> bytes:
    """Bytes of a log file without the flags of its first event, which change when it is closed.

    What the file holds once, it holds for ever: so these tell whether it is still the same file.
    """
    found = bytearray(read_exactly(stream, offset, count))
    for at in _FLAGS:
        if offset <= at < offset + len(found):
            found[at - offset] = 0
    return bytes(found)
