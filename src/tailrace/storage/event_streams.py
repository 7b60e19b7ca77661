"""The events of one file, as verified bytes (`EventData`), and as objects (`Events`).

`tailrace.open` reads a whole log; these read a file, from an offset on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.constants import CHECKSUM_SIZE, ChecksumAlgorithm, EventType, event_name
from tailrace.errors import ChecksumMismatch
from tailrace.events import DecodeContext, FormatDescriptionEvent
from tailrace.events.context import verify_event
from tailrace.storage.reader import EventReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.storage.file import LogFile

Allocator = Callable[[int], bytearray | memoryview]
"""Returns memory of at least the given size; it may be the same each time."""

_FORMAT: Final = int(EventType.FORMAT_DESCRIPTION)


class EventData:
    """Iterates over ``(offset, bytes)`` of a file's events, checksums verified if asked.

    ``start`` is where to begin. The format description in force there is read from the file's
    beginning, and given first, unless the caller has it (``format_description``). With ``allocate``
    an event's bytes are a view of the caller's memory, which can be reused when the event is done;
    else each event has its own memory.

    Raises what `EventReader` raises, ChecksumMismatch, and LogError for a format description that
    cannot be decoded.
    """

    def __init__(
        self,
        file: LogFile | str | Path,
        start: int | None = None,
        *,
        format_description: FormatDescriptionEvent | None = None,
        verify_checksums: bool = True,
        allocate: Allocator | None = None,
    ) -> None:
        self.reader = EventReader(file, start=start, format_description=format_description)
        self._format = format_description
        self._verify = verify_checksums
        self._allocate = allocate

    def __iter__(self) -> Iterator[tuple[int, bytes | memoryview]]:
        allocate = self._allocate
        events = self._verified() if self._verify else iter(self.reader)
        if allocate is None:
            yield from events
            return
        for offset, raw in events:
            size = len(raw)
            data = memoryview(allocate(size))[:size]
            data[:] = raw
            yield offset, data

    def _verified(self) -> Iterator[tuple[int, bytes]]:
        file = self.reader.file.path
        context = DecodeContext()
        if self._format is not None:
            self._format.update(context)
        for offset, raw in self.reader:
            if raw[4] == _FORMAT:
                context.decode(raw, file=file, offset=offset)
            elif context.checksum_algorithm is ChecksumAlgorithm.CRC32:
                end = len(raw) - CHECKSUM_SIZE
                try:
                    verify_event(raw, end, raw[4], int.from_bytes(raw[end:], "little"))
                except ChecksumMismatch as error:
                    raise error.at(file, offset, event_name(raw[4])) from None
            yield offset, raw


class Events:
    """Iterates over a file's events as objects; arguments as those of `EventData`.

    ``context`` holds the state from earlier events that later ones need. Raises what `EventData`
    and `DecodeContext.decode` raise.
    """

    def __init__(
        self,
        file: LogFile | str | Path,
        start: int | None = None,
        *,
        format_description: FormatDescriptionEvent | None = None,
        verify_checksums: bool = True,
    ) -> None:
        self.data = EventData(
            file, start, format_description=format_description, verify_checksums=False
        )
        self._format = format_description
        self._verify = verify_checksums
        self.context = DecodeContext()

    def __iter__(self) -> Iterator[Event]:
        context = self.context = DecodeContext()
        if self._format is not None:
            self._format.update(context)
        file = self.data.reader.file
        for offset, raw in self.data:
            yield context.decode(raw, file=file.name, offset=offset, verify_checksum=self._verify)
