"""The events of a log file, as bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from io import BytesIO
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from tailrace.constants import (
    HEADER_SIZE,
    MAGIC,
    EventFlag,
    EventType,
    event_name,
)
from tailrace.errors import (
    BadEventLength,
    LogError,
    OutOfMemory,
    ReadFailed,
    StorageError,
    TruncatedEvent,
    UsageError,
)
from tailrace.events.format_description import FormatDescriptionEvent, check_magic
from tailrace.events.header import EventHeader
from tailrace.events.walk import checked_length, ends_as_said, event_length, frames
from tailrace.storage.file import LogFile
from tailrace.storage.joined import JoinedInput
from tailrace.storage.streams.base import check_offset, read_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage.streams.base import RandomInput

Raw: TypeAlias = bytes | memoryview
Allocator = Callable[[int], bytearray | memoryview]
"""Returns memory of at least the given size; it may be the same each time."""

ReadHeader = Callable[[bytes, int], int]

_PIECE: Final = 1 << 20


class EventReader:
    """Iterates over ``(offset, bytes)`` of each event in a file; reads in large pieces.

    Checks the magic and each event's length; checksums are the decoder's. With ``start`` the
    format description event comes first (in a relay log all of them), then the events from that
    offset on. With ``format_description``, for callers that have it already, only those events
    come. A pipe may have several files, one after the other: their magic is skipped.

    ``torn_tail_offset`` is set where the file ends inside an event and was open when it was
    read (its server runs, or crashed): reading ends there. In other files such an end raises
    TruncatedEvent. Also raises BadMagic, StorageError if the file cannot be read, and KeyMissing if
    it is encrypted and its keyring does not have the key. It holds one piece (1 MiB) in memory, or
    one event if that is larger.

    ``read_header`` sees the 19 bytes where each event should begin, and their offset, and returns
    how many of them come before the event and are skipped: 0 for a header. It is called again
    after them. Raises UsageError if it returns other than 0 to 19.

    ``more`` follows a file that grows: it is called at the file's end, also at a torn one, waits as
    it likes, and returns whether to look for more or to end.
    """

    def __init__(
        self,
        file: LogFile | str | Path,
        *,
        start: int | None = None,
        more: Callable[[], bool] | None = None,
        format_description: FormatDescriptionEvent | None = None,
        read_header: ReadHeader | None = None,
    ) -> None:
        self.file = file if isinstance(file, LogFile) else LogFile.at(Path(file))
        if start is not None:
            check_offset(start)
        if not isinstance(format_description, FormatDescriptionEvent | None):
            raise UsageError(
                f"format_description: {format_description!r} is no FormatDescriptionEvent"
            )
        self.start = start
        self._follow = more
        self._format = format_description
        self._read_header = read_header
        self.in_use = False
        self._relay = False
        self._file_at = 0  # where the file begins in a pipe
        self.torn_tail_offset: int | None = None
        self.passed_format: tuple[int, bytes] | None = None
        self._allocate: Allocator | None = None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self._allocate = None
        return cast("Iterator[tuple[int, bytes]]", self._events())

    def into(self, allocate: Allocator) -> Iterator[tuple[int, memoryview]]:
        """Iterate over ``(offset, view)``: each event is read into the memory of ``allocate``.

        It is asked for as many bytes as the event has, and may give the same memory each time. A
        large event is read directly into it, others are copied there once, from the piece that was
        read. Raises OutOfMemory if it gives fewer bytes, or none that can be written, or raises
        MemoryError.
        """
        self._allocate = allocate
        for offset, raw in self._events():
            view = cast("memoryview", raw)
            if view.readonly:  # in a piece; a large event is in its place already
                there = self._memory(len(view), offset, view[4])
                there[:] = view
                view = there
            yield offset, view

    def _memory(self, size: int, offset: int, code: int) -> memoryview:
        """``size`` bytes of the caller's memory. Raises OutOfMemory."""
        allocate = cast("Allocator", self._allocate)
        try:
            memory = allocate(size)
        except MemoryError:
            message = f"there is no memory for the {size} bytes of this event"
            raise self._error(OutOfMemory, message, offset, code) from None
        try:
            view = memoryview(memory).cast("B")
        except TypeError:
            raise UsageError(
                f"allocate returned a {type(memory).__name__} that is no memory in one piece: it"
                " returns a bytearray or a memoryview"
            ) from None
        if view.nbytes < size or view.readonly:
            what = "memory that is read-only" if view.readonly else f"{view.nbytes} bytes of memory"
            raise self._error(
                OutOfMemory,
                f"allocate gave {what} for the {size} bytes of this event",
                offset,
                code,
            )
        return view[:size]

    def _events(self) -> Iterator[tuple[int, Raw]]:
        self.torn_tail_offset = None
        self.passed_format = None
        self._file_at = 0
        try:
            with closing(self.file.open()) as stream:
                yield from self._read(stream)
        except OSError as error:
            raise ReadFailed(error.strerror or str(error), file=self.file.path) from None

    def _read(self, stream: RandomInput) -> Iterator[tuple[int, Raw]]:
        self._check_magic(stream)
        if self._format is not None and self.start is not None and self.start > len(MAGIC):
            self._note_flags(self._format.header)
            head = read_exactly(stream, len(MAGIC), HEADER_SIZE)
            if len(head) == HEADER_SIZE:  # the one that was given may be of another file
                self._note_format(head)
            if not self._relay and not self.file.joined:
                self._check_start(stream, self.start, len(MAGIC))
                yield from self._walk(stream, self.start)
                return
            stream.seek(len(MAGIC))
        walk = self._walk(stream, len(MAGIC))
        first = next(walk, None)
        if first is None:
            return
        if self._format is None or self.start is None or self.start <= len(MAGIC):
            yield first
        begin = first[0] + len(first[1])
        second = next(walk, None)
        if second is not None:
            if _begins_encryption(second[1]):  # which was not there when the file was opened
                with closing(self.file.open()) as decrypted:
                    decrypted.seek(begin)
                    yield from self._from_start(decrypted, self._walk(decrypted, begin), begin)
                return
            walk = chain([second], walk)
        yield from self._from_start(stream, walk, begin)

    def _from_start(
        self, stream: RandomInput, walk: Iterator[tuple[int, Raw]], begin: int
    ) -> Iterator[tuple[int, Raw]]:
        """The requested events after the first one; ``walk`` gives them."""
        if self.start is None or self.start <= len(MAGIC) or self.start == begin:
            return walk
        if self._relay or self.file.joined:
            return self._after_formats(walk, self.start)
        self._check_start(stream, self.start, begin)
        return self._walk(stream, self.start)

    def _after_formats(
        self, walk: Iterator[tuple[int, Raw]], start: int
    ) -> Iterator[tuple[int, Raw]]:
        """A relay log from ``start`` on; before it only the formats of its sources, of which
        the last is noted instead if the caller gave one.
        """
        reached = False
        end = 0
        for offset, raw in walk:
            if not reached and offset >= start:
                if offset > start:
                    break
                reached = True
            if not reached and raw[4] == EventType.FORMAT_DESCRIPTION and self._format is not None:
                self.passed_format = offset, bytes(raw)
            elif reached or raw[4] == EventType.FORMAT_DESCRIPTION:
                yield offset, raw
            end = offset + len(raw)
        if not reached and end != start:
            raise StorageError(f"{self.file.path}: no event begins at {start}")

    def _walk(self, stream: RandomInput, offset: int) -> Iterator[tuple[int, Raw]]:
        """The events from ``offset`` on, where the stream stands: for `into` as read-only views,
        or where a large one lies in the caller's memory.
        """
        data = b""
        begin = len(MAGIC)
        while True:
            end = 0
            size = min(len(data), _next_file(stream, offset) - offset)
            shown = data if self._allocate is None else memoryview(data)
            for start, end in self._frames(data, size, offset):
                raw = shown[start:end]
                if offset + start == begin:
                    self._note_format(raw)
                yield offset + start, raw
            offset += end
            held = data[end:]
            if _file_begins(stream, held, offset):
                begin, self._file_at = offset + len(MAGIC), offset
                offset, data = begin, held[len(MAGIC) :]
                continue
            if passed := self._before_header(held, offset):
                begin = offset = offset + passed
                data = held[passed:]
                continue
            length = self._length(held, offset)
            more = self._more(stream, held, length, offset, begin)
            if not more:
                if offset == begin and self.torn_tail_offset is None:
                    raise self._error(
                        TruncatedEvent, "the file holds nothing but its magic", offset
                    )
                return
            if length > _PIECE:  # nothing here holds it while others work on it
                if offset == begin:
                    self._note_format(more)
                shown = more if self._allocate is None else memoryview(more)
                whole, data = [shown[:length]], bytes(more[length:])
                more = shown = held = b""
                yield offset, whole.pop()
                offset += length
            else:
                data = bytes(more)

    def _frames(self, data: bytes, size: int, offset: int) -> Iterator[tuple[int, int]]:
        """As `frames`, up to where something stands before a header."""
        if self._read_header is None:
            return frames(data, size)
        return takewhile(
            lambda frame: not self._before_header(data[frame[0] : frame[1]], offset + frame[0]),
            frames(data, size),
        )

    def _before_header(self, data: bytes, offset: int) -> int:
        """How many bytes are passed over before the header of the event at ``offset``."""
        if self._read_header is None or len(data) < HEADER_SIZE:
            return 0
        passed = self._read_header(data[:HEADER_SIZE], offset)
        if not 0 <= passed <= HEADER_SIZE:
            raise UsageError(f"read_header returned {passed}: it is shown {HEADER_SIZE} bytes")
        return passed

    def _length(self, held: bytes, offset: int) -> int:
        """The length of the event that has started, 0 if it is not known yet."""
        if len(held) < HEADER_SIZE:
            return 0
        try:
            return checked_length(held)
        except BadEventLength as error:
            raise error.at(self.file.path, offset, event_name(held[4])) from None

    def _more(self, stream: RandomInput, held: bytes, length: int, offset: int, begin: int) -> Raw:
        """The held bytes and the next piece, or the whole of a larger event; b"" at the end.

        What can be read may end before the file does: of a torn event, MariaDB's encryption may
        give nothing.
        """
        data: Raw = held
        wanted = max(length - len(held), HEADER_SIZE - len(held), 1)
        while True:
            left = self._left_in(stream, wanted)
            if left >= wanted:
                have = len(data)
                data = self._read_on(stream, data, wanted, left, length, offset)
                wanted -= len(data) - have
                if data and (wanted <= 0 or _file_begins(stream, data, offset)):
                    return data
                left = stream.size() - stream.tell()
            if not self._comes_more(data, left, length, offset):
                break
        if data or left > 0:
            self._torn(data, left, length, offset, begin)
        return b""

    def _read_on(
        self, stream: RandomInput, held: Raw, wanted: int, left: int, length: int, offset: int
    ) -> Raw:
        """The held bytes and those after them, ``wanted`` of them or more."""
        if wanted > _PIECE and self._allocate is not None and offset >= (self.start or 0):
            view = self._memory(length, offset, held[4])
            have = len(held)
            view[:have] = held
            while have < length and (count := stream.readinto(view[have : have + _PIECE])):
                have += count
            return view[:have]
        gathered = BytesIO()  # which gives what was written to it without copying it
        try:
            gathered.write(held)
            ahead = 0 if wanted > _PIECE else min(_PIECE, left)  # a large one is read alone
            while wanted > 0 and (piece := stream.read(min(max(wanted, ahead), _PIECE))):
                gathered.write(piece)
                wanted -= len(piece)
            return gathered.getvalue()
        except MemoryError:
            raise self._error(
                OutOfMemory, f"there is no memory for the {length} bytes of this event", offset
            ) from None

    def _left_in(self, stream: RandomInput, wanted: int) -> int:
        """Bytes to the file's current end; for a pipe, only reading shows how many are left."""
        if self.file.joined:
            return max(wanted, _PIECE)
        return stream.size() - stream.tell()

    def _torn(self, data: Raw, left: int, length: int, offset: int, begin: int) -> None:
        """The file ends inside an event: an error, unless the file was open.

        A length that the header's own end contradicts is damage in an open file, too.
        """
        if offset == begin and len(data) >= HEADER_SIZE:
            self._note_format(data)
        if self._may_be_torn(data, length, offset):
            self.torn_tail_offset = offset
            return
        there = len(data) + max(left, 0)
        raise self._error(
            TruncatedEvent,
            f"the event has {length or f'at least {max(HEADER_SIZE, there + 1)}'} bytes, and the"
            f" file ends after {there}",
            offset,
            data[4] if length else None,
        )

    def _may_be_torn(self, data: Raw, length: int, offset: int) -> bool:
        return self.in_use and (not length or self._fits(data, offset))

    def _comes_more(self, held: Raw, left: int, length: int, offset: int) -> bool:
        """Whether to look again at the end of a file that is followed. Not at damage."""
        if self._follow is None:
            return False
        if left < 0:
            raise StorageError(
                f"{self.file.path}: it became shorter while it was read; read it again, from the"
                " end of a transaction"
            )
        torn = bool(held) or left > 0
        if torn and offset != len(MAGIC) and not self._may_be_torn(held, length, offset):
            return False
        return self._follow()

    def _note_format(self, raw: Raw) -> None:
        """Note the flags of a file's first event."""
        header = EventHeader.parse(raw)
        if header.type == EventType.FORMAT_DESCRIPTION:
            self._note_flags(header)

    def _note_flags(self, header: EventHeader) -> None:
        self.in_use = bool(header.flags & EventFlag.IN_USE)
        self._relay = bool(header.flags & EventFlag.RELAY_LOG)

    def _fits(self, raw: Raw, offset: int) -> bool:
        """Whether an event may begin here: its end is where its header says, if it says so.

        In relay logs it says where the event ends in its source's file.
        """
        return self._relay or ends_as_said(raw, offset - self._file_at, event_length(raw))

    def _check_magic(self, stream: RandomInput) -> None:
        check_magic(read_exactly(stream, 0, len(MAGIC)), self.file.path)

    def _check_start(self, stream: RandomInput, start: int, begin: int) -> None:
        """Go to the start inside the file; there must be a valid header."""
        size = stream.size()
        if start > size:
            raise StorageError(f"{self.file.path}: it has {size} bytes and no position {start}")
        raw = read_exactly(stream, start, HEADER_SIZE)
        fits = start >= begin
        if len(raw) == HEADER_SIZE:
            header = EventHeader.parse(raw)
            fits = fits and header.length >= HEADER_SIZE and self._fits(raw, start)
            if fits and not header.log_pos:  # as inside a transaction of MariaDB: no evidence
                fits = self._is_reached(stream, start, begin)
        elif raw:  # the end of the last event, or the beginning of one that is being written
            fits = fits and self._last_end() == start
        if not fits:
            raise StorageError(f"{self.file.path}: no event begins at {start}")
        stream.seek(start)

    def _last_end(self) -> int:
        """Where the last whole event ends."""
        end = len(MAGIC)
        for offset, raw in EventReader(self.file):
            end = offset + len(raw)
        return end

    def _is_reached(self, stream: RandomInput, start: int, begin: int) -> bool:
        """Whether an event begins at ``start``, by all events from ``begin`` on."""
        stream.seek(begin)
        reached = (offset for offset, _ in self._walk(stream, begin) if offset >= start)
        return next(reached, None) == start

    def _error(
        self,
        kind: type[LogError],
        message: str,
        offset: int | None,
        code: int | None = None,
    ) -> LogError:
        name = None if code is None else event_name(code)
        return kind(message, file=self.file.path, offset=offset, event_type=name)


def _next_file(stream: RandomInput, offset: int) -> int:
    """Where the magic of a pipe's next file is, as far as that is known."""
    return stream.next_begin(offset) if isinstance(stream, JoinedInput) else sys.maxsize


def _file_begins(stream: RandomInput, data: Raw, offset: int) -> bool:
    """Whether the magic of a pipe's next file is here, in place of a header."""
    return data[: len(MAGIC)] == MAGIC and _next_file(stream, offset) == offset


def _begins_encryption(raw: Raw) -> bool:
    """Whether the events after this one are encrypted by MariaDB.

    In a log that a server sent, which is not encrypted, the event is marked ignorable.
    """
    header = EventHeader.parse(raw)
    return header.type == EventType.START_ENCRYPTION and not header.flags & EventFlag.IGNORABLE
