"""The events of a log file, as bytes."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import (
    ENCRYPTED_MAGIC,
    HEADER_SIZE,
    MAGIC,
    MAX_EVENT_SIZE,
    EventFlag,
    EventType,
)
from tailrace.errors import BadMagic, LogError, StorageError, TruncatedEvent
from tailrace.events.base import event_name
from tailrace.events.header import EventHeader
from tailrace.storage.file import LogFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

_LENGTH: Final = Struct("<I").unpack_from
_PIECE: Final = 1 << 20
_KEY_ID_FIELD: Final = 1


class EventReader:
    """Iterates over ``(offset, bytes)`` of each event in a file; reads in large pieces.

    Checks the magic and each event's length; checksums are the decoder's. With ``start`` the
    format description event comes first (in a relay log all of them), then the events from that
    offset on.

    ``torn_tail_offset`` is set where the file ends inside an event and was open when it was
    read (its server runs, or crashed): reading ends there. Elsewhere such an end raises
    TruncatedEvent. Raises BadMagic too for encrypted files, and StorageError where the file cannot
    be read. Holds a piece (1 MiB), or one event where that is larger.
    """

    def __init__(self, file: LogFile | str | Path, *, start: int | None = None) -> None:
        self.file = file if isinstance(file, LogFile) else LogFile.at(Path(file))
        self.start = start
        self.in_use = False
        self._relay = False
        self.torn_tail_offset: int | None = None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self.torn_tail_offset = None
        try:
            with open(self.file.path, "rb", buffering=0) as stream:  # noqa: PTH123 - a FileIO, unbuffered
                yield from self._read(stream)
        except OSError as error:
            raise StorageError(f"{self.file.path}: {error.strerror or error}") from None

    def _read(self, stream: FileIO) -> Iterator[tuple[int, bytes]]:
        self._check_magic(stream)
        walk = self._walk(stream, len(MAGIC))
        first = next(walk, None)
        if first is None:
            if self.torn_tail_offset is None:
                raise self._error(TruncatedEvent, "the file holds nothing but its magic", 4)
            return
        yield first
        begin = first[0] + len(first[1])
        second = next(walk, None)
        if second is not None:
            if second[1][4] == EventType.START_ENCRYPTION:
                self._refuse_encrypted(*second)
            walk = chain([second], walk)
        if self.start is not None and self.start > len(MAGIC) and self.start != begin:
            if self._relay:
                walk = self._after_formats(walk, self.start)
            else:
                self._check_start(stream, self.start, begin)
                walk = self._walk(stream, self.start)
        yield from walk

    def _after_formats(
        self, walk: Iterator[tuple[int, bytes]], start: int
    ) -> Iterator[tuple[int, bytes]]:
        """A relay log from ``start`` on; before it only the formats of its sources."""
        reached = False
        end = 0
        for offset, raw in walk:
            if not reached and offset >= start:
                if offset > start:
                    break
                reached = True
            if reached or raw[4] == EventType.FORMAT_DESCRIPTION:
                yield offset, raw
            end = offset + len(raw)
        if not reached and end != start:
            raise StorageError(f"{self.file.path}: no event begins at {start}")

    def _walk(self, stream: FileIO, offset: int) -> Iterator[tuple[int, bytes]]:
        """The events from ``offset`` on, where the stream stands."""
        data = b""
        at = 0
        while True:
            have = len(data) - at
            length = 0
            if have >= HEADER_SIZE:
                length = _LENGTH(data, at + 9)[0]
                if not HEADER_SIZE <= length <= MAX_EVENT_SIZE:
                    raise self._error(
                        TruncatedEvent,
                        f"an event has {HEADER_SIZE} to {MAX_EVENT_SIZE} bytes, not {length}",
                        offset,
                        data[at + 4],
                    )
                if have >= length:
                    raw = data[at : at + length]
                    if offset == len(MAGIC):
                        self._note_format(raw)
                    yield offset, raw
                    offset += length
                    at += length
                    continue
            data = self._more(stream, data[at:], length, offset)
            at = 0
            if not data:
                return

    def _more(self, stream: FileIO, held: bytes, length: int, offset: int) -> bytes:
        """What is held and the next piece, or all of an event that is larger; b"" at the end."""
        left = os.fstat(stream.fileno()).st_size - stream.tell()
        wanted = max(length - len(held), HEADER_SIZE - len(held), 1)
        pieces = [held]
        if left >= wanted:
            want = max(wanted, min(_PIECE, left))
            while want and (piece := stream.read(want)):
                pieces.append(piece)
                want -= len(piece)
        data = b"".join(pieces)
        if len(data) >= max(length, HEADER_SIZE):
            return data
        if held or left > 0:
            self._torn(data, left, length, offset)
        return b""

    def _torn(self, data: bytes, left: int, length: int, offset: int) -> None:
        """The file ends inside an event: an error, unless the file was open.

        A length that the header's own end contradicts is damage in an open file, too.
        """
        if offset == len(MAGIC) and length:
            self._note_format(data)
        if self.in_use and (not length or self._fits(EventHeader.parse(data), offset)):
            self.torn_tail_offset = offset
            return
        raise self._error(
            TruncatedEvent,
            f"the event has {length or f'at least {HEADER_SIZE}'} bytes, and the file ends after"
            f" {len(data) + left}",
            offset,
            data[4] if length else None,
        )

    def _note_format(self, raw: bytes) -> None:
        """What the first event's flags say of the file."""
        header = EventHeader.parse(raw)
        if header.type == EventType.FORMAT_DESCRIPTION:
            self.in_use = bool(header.flags & EventFlag.IN_USE)
            self._relay = bool(header.flags & EventFlag.RELAY_LOG)

    def _fits(self, header: EventHeader, offset: int) -> bool:
        """Whether an event may begin here: its end is where its header says, if it says so.

        In relay logs it says where the event ends in its source's file.
        """
        end = (offset + header.length) & 0xFFFFFFFF
        return self._relay or header.log_pos in {0, end}

    def _check_magic(self, stream: FileIO) -> None:
        magic = stream.read(len(MAGIC))
        if magic == MAGIC:
            return
        if magic == ENCRYPTED_MAGIC:
            key = _mysql_key_id(stream.read(512 - len(MAGIC)))
            raise self._error(
                BadMagic,
                f"the file is encrypted{f' with the key {key}' if key else ''}; reading encrypted"
                " logs is not supported: copy it from the server with mysqlbinlog"
                " --read-from-remote-server --raw",
                0,
            )
        if not magic:
            raise self._error(BadMagic, "the file is empty", 0)
        raise self._error(
            BadMagic,
            f"not a binary log: it begins with {magic.hex(' ').upper()}, a log with FE 62 69 6E",
            0,
        )

    def _refuse_encrypted(self, offset: int, raw: bytes) -> None:
        header = EventHeader.parse(raw)
        if header.flags & EventFlag.IGNORABLE:  # came over the wire, and the log is clear
            return
        version = int.from_bytes(raw[HEADER_SIZE + 1 : HEADER_SIZE + 5], "little")
        raise self._error(
            BadMagic,
            f"the file is encrypted with key 1, version {version}; reading encrypted logs is not"
            " supported: copy it from the server with mariadb-binlog"
            " --read-from-remote-server --raw",
            offset,
            header.type,
        )

    def _check_start(self, stream: FileIO, start: int, begin: int) -> None:
        """Go to where reading is to begin in mid-file; a header must fit there."""
        size = os.fstat(stream.fileno()).st_size
        if start > size:
            raise StorageError(f"{self.file.path}: it has {size} bytes and no position {start}")
        stream.seek(start)
        raw = stream.read(HEADER_SIZE)
        fits = start >= begin
        if len(raw) == HEADER_SIZE:
            header = EventHeader.parse(raw)
            fits = fits and header.length >= HEADER_SIZE and self._fits(header, start)
        if not fits:
            raise StorageError(f"{self.file.path}: no event begins at {start}")
        stream.seek(start)

    def _error(
        self,
        kind: type[LogError],
        message: str,
        offset: int | None,
        code: int | None = None,
    ) -> LogError:
        name = None if code is None else event_name(code)
        return kind(message, file=self.file.path, offset=offset, event_type=name)


def _mysql_key_id(header: bytes) -> str:
    """The key's name in an encrypted file's header, "" where it is not found."""
    if len(header) < 3 or header[1] != _KEY_ID_FIELD:
        return ""
    raw = header[3 : 3 + header[2]]
    return raw.decode("ascii") if raw.isascii() and raw.decode("ascii").isprintable() else ""
