"""The events of one file, as verified bytes (`EventData`), and as objects (`Events`).

`tailrace.open` reads a whole log; these read a file, from an offset on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from tailrace.closing import Closing
from tailrace.constants import CHECKSUM_SIZE, ChecksumAlgorithm, EventType, event_name
from tailrace.errors import ChecksumMismatch, UsageError
from tailrace.events import DecodeContext, FormatDescriptionEvent
from tailrace.events.context import verify_event
from tailrace.events.description import checksum_of
from tailrace.storage.file_source import FileSource, file_of
from tailrace.storage.reader import EventReader

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.reader import Allocator
    from tailrace.storage.streams.layer import Layers

_FORMAT: Final = int(EventType.FORMAT_DESCRIPTION)


class EventData(Closing):
    """Iterates over ``(offset, bytes)`` of a file's events, checksums verified if asked.

    ``file`` is a path or a URL of one file (``-`` is standard input, ``memory:name/file``), a
    `LogFile`, or any input stream: an object with the methods of `InputStream`. It is read from its
    beginning, and more than once or from ``start`` on without what is before if it is a
    `RandomInput`; others are read as a pipe, which may hold several files. A stream stays open: who
    opened it closes it. ``keyring`` and ``layers`` are those of `tailrace.storage.find`.

    ``start`` is where to begin. The format description in force there is read from the file's
    beginning, and given first, unless the caller has it (``format_description``): then only the
    events from ``start`` on come. In a relay log, the format descriptions of its sources are in
    force over the one that was given, where they stand before ``start``.

    With ``allocate`` an event is read into the caller's memory, and its bytes are a view of that,
    which can be reused when the event is done; else each event has its own memory. ``allocate`` is
    called with the event's size in bytes, and returns a bytearray or memoryview of at least that
    size, which may be the same each time.

    ``checksum_algorithm`` (a `ChecksumAlgorithm`, or ``crc32`` or ``none``) is used instead of the
    one that the format descriptions say. A subclass may override `read_header`.

    Raises UsageError for arguments of another kind, what `EventReader` raises, ChecksumMismatch,
    OutOfMemory where ``allocate`` gives too little memory, and LogError for a format description
    that cannot be decoded.
    """

    def __init__(
        self,
        file: FileSource,
        start: int | None = None,
        *,
        format_description: FormatDescriptionEvent | None = None,
        verify_checksums: bool = True,
        checksum_algorithm: ChecksumAlgorithm | str | None = None,
        allocate: Allocator | None = None,
        keyring: Keyring | str | Path | None = None,
        layers: Layers | None = None,
    ) -> None:
        overridden = type(self).read_header is not EventData.read_header
        self.reader = EventReader(
            file_of(file, keyring, layers),
            start=start,
            format_description=format_description,
            read_header=self.read_header if overridden else None,
        )
        self.checksum_algorithm = (
            None
            if checksum_algorithm is None
            else checksum_of(checksum_algorithm, "checksum_algorithm")
        )
        self.allocate = allocate
        self._format = format_description
        self._verify = verify_checksums
        self._running: WeakSet[Generator[tuple[int, bytes | memoryview]]] = WeakSet()

    def close(self) -> None:
        """End the iterations, and close the file that they read. Iterating opens it again.

        An iteration that runs in another thread at the moment ends by itself.
        """
        for each in list(self._running):
            if not getattr(each, "gi_running", False):
                each.close()

    def read_header(self, header: bytes, offset: int) -> int:  # noqa: ARG002 - for subclasses
        """How many bytes to skip before an event's header: 0 if it begins at ``offset``.

        ``header`` are the 19 bytes there. Override it for files with other bytes between events; it
        is called again after those that it skips.
        """
        return 0

    def __iter__(self) -> Iterator[tuple[int, bytes | memoryview]]:
        return self._verified() if self._verify else self.within(DecodeContext())

    def within(self, context: DecodeContext) -> Iterator[tuple[int, bytes | memoryview]]:
        """The events, not verified; ``context`` learns the format description in force."""
        running = self._within(context)
        self._running.add(running)
        return running

    def _within(self, context: DecodeContext) -> Generator[tuple[int, bytes | memoryview]]:
        if self._format is not None:
            self._format.update(context)
        reader = self.reader
        events: Iterator[tuple[int, bytes | memoryview]]
        events = iter(reader) if self.allocate is None else reader.into(self.allocate)
        for count, (offset, raw) in enumerate(events):
            if not count and reader.passed_format is not None:
                passed_at, passed = reader.passed_format
                context.decode(passed, file=reader.file.path, offset=passed_at)
            if self.checksum_algorithm is not None:
                context.checksum_algorithm = self.checksum_algorithm
            yield offset, raw

    def _verified(self) -> Iterator[tuple[int, bytes | memoryview]]:
        file = self.reader.file.path
        context = DecodeContext()
        for offset, raw in self.within(context):
            if raw[4] == _FORMAT:
                context.decode(raw, file=file, offset=offset)
            elif context.checksum_algorithm is ChecksumAlgorithm.CRC32:
                end = len(raw) - CHECKSUM_SIZE
                try:
                    verify_event(raw, end, raw[4], int.from_bytes(raw[end:], "little"))
                except ChecksumMismatch as error:
                    raise error.at(file, offset, event_name(raw[4])) from None
            yield offset, raw


class Events(Closing):
    """Iterates over a file's events as objects; arguments as those of `EventData`, or one of these.

    With ``allocate`` an event's body stays in the caller's memory until a field is used: only then
    is it copied. So use an event, or pass over it, before the next is read into the same memory.

    ``verify_checksums`` is the objects' own, also for an `EventData` that is given.
    ``context`` holds the state from earlier events that later ones need. Raises what `EventData`
    and `DecodeContext.decode` raise.
    """

    def __init__(
        self,
        file: FileSource | EventData,
        start: int | None = None,
        *,
        format_description: FormatDescriptionEvent | None = None,
        verify_checksums: bool = True,
        checksum_algorithm: ChecksumAlgorithm | str | None = None,
        allocate: Allocator | None = None,
        keyring: Keyring | str | Path | None = None,
        layers: Layers | None = None,
    ) -> None:
        given = (start, format_description, checksum_algorithm, allocate, keyring, layers)
        if not isinstance(file, EventData):
            file = EventData(
                file,
                start,
                format_description=format_description,
                checksum_algorithm=checksum_algorithm,
                allocate=allocate,
                keyring=keyring,
                layers=layers,
            )
        elif any(each is not None for each in given):
            raise UsageError("give these arguments to the EventData: its events are those")
        self.data = file
        self._verify = verify_checksums
        self.context = DecodeContext()

    def close(self) -> None:
        """As `EventData.close`."""
        self.data.close()

    def __iter__(self) -> Iterator[Event]:
        context = self.context = DecodeContext()
        file = self.data.reader.file.name
        verify, borrowed = self._verify, self.data.allocate is not None
        for offset, raw in self.data.within(context):
            yield context.decode(
                raw, file=file, offset=offset, verify_checksum=verify, borrowed=borrowed
            )
