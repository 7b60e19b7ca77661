"""The whole events of a copy's file: a receiver that was killed while writing resumes after them.

A byte copy can resume inside a transaction as well as after one, so all whole events stay, and only
a torn one is cut. Everything after the first event that is not whole is cut, too, whatever it looks
like: after a power cut, later pages may have been written without earlier ones, and the source
still has all of it. Without checksums only an event's header shows whether it is whole: its length
and its end position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    GTID_TYPES,
    HEADER_SIZE,
    LOG_POS_AT,
    MAGIC,
    MAX_FORMAT_SIZE,
    TYPE_AT,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
)
from tailrace.errors import BadEventLength, LogError, StorageError
from tailrace.events import DecodeContext, FormatDescription
from tailrace.events.format_description import check_magic, first_event, marked
from tailrace.events.walk import ends_as_said, event_length, walk
from tailrace.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.store import WritableStore

_PIECE: Final = 1 << 22
_U32: Final = Struct("<I").unpack_from


@dataclass(frozen=True, slots=True)
class Mark:
    """A position between two events up to which the file is synced: a scan can start there.
    ``begun`` and ``last`` are those of `CopiedFile` at that position.
    """

    file: str
    offset: int
    begun: int
    last: int


@dataclass(slots=True)
class CopiedFile:
    """A file of a copy: ``end`` is where its last whole event ends.

    ``reason`` says why the file is longer than that (empty if it is not). ``description`` is its
    format description event as a source sends it, with IN_USE cleared; empty if not even that is
    whole. ``begun`` is where the last transaction in it begins (its GTID event, or the first event
    if there are no GTID events), ``last`` the last whole event's type.
    """

    name: str
    path: str
    size: int
    end: int = 0
    reason: str = ""
    description: bytes = b""
    form: FormatDescription | None = field(default=None, repr=False)
    begun: int = 0
    last: int = EventType.FORMAT_DESCRIPTION

    @property
    def position(self) -> Position:
        """Where the copy resumes."""
        return Position(self.name, self.end)

    @property
    def closed(self) -> bool:
        """Whether the server ended the file: then the log can only continue in the next file."""
        return self.last in {EventType.ROTATE, EventType.STOP}

    def __str__(self) -> str:
        left = self.size - self.end
        return f"{self.path}: {self.reason}; cut back to {self.end} bytes ({left} removed)"


def scan(
    folder: WritableStore, name: str, *, mark: Mark | None = None, whole: bool = False
) -> CopiedFile:
    """Walk through a file, from a mark in it on if an event begins or the file ends at the mark.

    Of a ``whole`` file (an object) only the beginning is read. Raises StorageError if the file
    cannot be read, BadMagic if it is no log.
    """
    found = CopiedFile(name, folder.path(name), folder.size(name))
    head = folder.read(name, 0, MAX_FORMAT_SIZE)
    magic = head[: len(MAGIC)]
    if not MAGIC.startswith(magic):
        check_magic(magic, found.path)
    _describe(found, head)
    if whole and found.form is not None:
        found.end, found.last = found.size, EventType.ROTATE
    elif found.form is not None:
        _walk_from(mark, found, folder)
    if found.end < found.size and not found.reason:
        found.reason = "it ends inside an event"
    return found


def form_of(description: bytes, path: str) -> FormatDescription:
    """Decode a format description event. Raises LogError; StorageError for a relay log's."""
    event = first_event(DecodeContext().decode(description, file=path, offset=len(MAGIC)))
    if event.header.flags & EventFlag.RELAY_LOG:
        raise StorageError(f"{path}: a relay log is its replica's; it cannot be resumed as a copy")
    return event.description


def _describe(found: CopiedFile, head: bytes) -> None:
    """The file's first event."""
    start = len(MAGIC)
    if len(head) < start + HEADER_SIZE:
        return
    length = event_length(head, start)
    if start + length > len(head):
        return
    raw = head[start : start + length]
    try:
        found.form = form_of(raw, found.path)
    except LogError as error:
        found.reason = f"its first event is damaged ({error.message})"
        return
    found.description = bytes(marked(raw, in_use=False))  # as its server sends it
    found.end = found.begun = start + length


def _walk_from(mark: Mark | None, found: CopiedFile, folder: WritableStore) -> None:
    begin = found.end
    if mark is not None and mark.file == found.name and begin <= mark.offset <= found.size:
        found.end, found.begun, found.last = mark.offset, mark.begun, mark.last
        _walk(found, folder)
        if found.end > mark.offset or found.end == found.size:
            return
        found.end = found.begun = begin
        found.last, found.reason = EventType.FORMAT_DESCRIPTION, ""
    _walk(found, folder)


def _walk(found: CopiedFile, folder: WritableStore) -> None:
    """From one whole event to the next, to the end or the first that is not."""
    form = found.form
    checksums = form is not None and form.checksum_algorithm is ChecksumAlgorithm.CRC32
    least = HEADER_SIZE + CHECKSUM_SIZE * checksums
    at, begun, last = found.end, found.begun, found.last
    read = partial(folder.read, found.name)
    try:
        for start, length, event in walk(read, at, found.size, _PIECE):
            if length < least:
                found.reason = f"there is no event at {at}: it would have {length} bytes"
            elif not checksums:
                if not ends_as_said(event, at, length):
                    said = _U32(event, LOG_POS_AT)[0]
                    found.reason = f"the event at {at} says that it ends at {said}"
            elif not _is_whole(read, start, length, event):
                found.reason = f"the event at {at} has a wrong checksum"
            if found.reason:
                break
            last = event[TYPE_AT]
            if last in GTID_TYPES:
                begun = at
            at += length
    except BadEventLength as error:
        found.reason = f"there is no event at {at}: {error.message}"
    found.end, found.begun, found.last = at, begun, last


def _is_whole(read: Callable[[int, int], bytes], at: int, length: int, event: memoryview) -> bool:
    """Whether an event's checksum is right; a large one's other bytes are read in pieces."""
    end = length - CHECKSUM_SIZE
    digest, done = crc32(event[:end]), min(len(event), end)
    while done < end:
        data = read(at + done, min(_PIECE, end - done))
        if not data:
            return False
        digest, done = crc32(data, digest), done + len(data)
    stored = event[end:] if len(event) == length else read(at + end, CHECKSUM_SIZE)
    return stored == digest.to_bytes(CHECKSUM_SIZE, "little")
