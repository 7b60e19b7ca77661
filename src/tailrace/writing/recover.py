"""Reads a log that `append` will continue, and finds where its last whole transaction ends.

A writer that is killed leaves a file that ends inside a transaction, perhaps inside an event. That
tail is cut: no reader could have used it. Damage with whole events after it is no such tail, and
nothing is cut then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    ENCRYPTED_MAGIC,
    HEADER_SIZE,
    MAGIC,
    MAX_EVENT_SIZE,
    ChecksumAlgorithm,
    EventFlag,
)
from tailrace.errors import (
    BadEventLength,
    BadMagic,
    ChecksumMismatch,
    LogError,
    StorageError,
    TruncatedEvent,
)
from tailrace.events import (
    DecodeContext,
    Event,
    FormatDescription,
    FormatDescriptionEvent,
    GtidEvent,
    GtidListEvent,
    MariadbGtidEvent,
    PreviousGtidsEvent,
    RotateEvent,
    StartEncryptionEvent,
    StopEvent,
    TableMapEvent,
    XidEvent,
)
from tailrace.events.format_description import check_magic, first_event, is_by_tailrace
from tailrace.events.header import EventHeader, unpack_header
from tailrace.events.walk import walk
from tailrace.gtid import GtidList, GtidSet, GtidState, advanced
from tailrace.transaction import Boundary, BoundaryParser

if TYPE_CHECKING:
    from tailrace.storage.store import WritableStore

_PIECE: Final = 1 << 20
_SERVER_AT: Final = 5
_U32: Final = Struct("<I")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What `tailrace.append` cut from a log that its last writer left inside a transaction.

    ``file`` was cut back from ``size`` bytes to ``kept``; ``kept`` is 0 where the file was taken
    away, because not even its head was whole. ``reason`` says what was found there.
    """

    file: str
    size: int
    kept: int
    reason: str

    @property
    def removed(self) -> int:
        """Bytes taken away."""
        return self.size - self.kept

    def __str__(self) -> str:
        return (
            f"{self.file}: {self.reason}; cut back from {self.size} to {self.kept} bytes"
            f" ({self.removed} removed)"
        )


class LogRecovered(UserWarning):
    """A log was cut back to its last whole transaction when it was opened for appending."""


class RecoveredLog:
    """All that a writer must know of a log file to continue it. See `scan`.

    ``end`` is where the last whole transaction ends, ``reason`` why the file is longer than that
    (empty where it is not). ``closed`` says whether a STOP or ROTATE ends it. ``gtids`` holds what
    was in the log up to there, ``sequence``, ``table_id`` and ``xid`` the highest such numbers in
    the file.
    """

    def __init__(self, folder: WritableStore, name: str, *, only_ours: bool) -> None:
        self.folder = folder
        self.name = name
        self._only_ours = only_ours
        self.size = folder.size(name)
        self.end = 0
        self.reason = ""
        self.in_use = False
        self.closed = False
        self.form: FormatDescription | None = None
        self.server_id = 0
        self.previous = False
        self.gtids: GtidState = GtidSet()
        self.sequence = self.table_id = self.xid = 0
        self._servers: set[int] = set()

    @property
    def path(self) -> str:
        """What a person would call the file."""
        return self.folder.path(self.name)

    @property
    def headless(self) -> bool:
        """Whether the file ends before anything could be logged in it."""
        return self.form is None or not (self.previous or self.end > self._head_end)

    def run(self) -> None:
        """Read the whole file. Raises LogError, StorageError for one that cannot be continued.

        That is: an encrypted file, a relay log, a server's log, and one that is damaged elsewhere
        than at its end.
        """
        self._check_magic()
        self._head_end = 0
        if self.reason:
            return
        context = DecodeContext(unknown="opaque")  # what is only kept need not be known
        parser = BoundaryParser()
        pending: list[GtidEvent | MariadbGtidEvent] = []
        end = self.end = len(MAGIC)
        try:
            for at, length, held in walk(self._read, end, self.size):
                self._check_open(at)
                raw = bytes(held) if len(held) == length else self._read(at, length)
                event = context.decode(raw, file=self.path, offset=at)
                boundary = parser.feed(event)
                self._note(event, pending)
                end = at + length
                if boundary is Boundary.END or boundary is Boundary.OUTSIDE:
                    self.end = end
                    for begun in pending:
                        self._add(begun)
                    pending.clear()
        except (TruncatedEvent, BadEventLength, ChecksumMismatch) as error:
            self._check_tail(end, error)
        else:
            if end < self.size:
                self._check_tail(end, TruncatedEvent("it ends inside an event"))
        if self.end < self.size and not self.reason:
            self.reason = "it ends inside a transaction"

    def _check_magic(self) -> None:
        magic = self.folder.read(self.name, 0, len(MAGIC))
        if magic == ENCRYPTED_MAGIC:
            raise BadMagic("an encrypted log: its keyring is needed", file=self.path, offset=0)
        if not MAGIC.startswith(magic):
            check_magic(magic, self.path)
        if magic != MAGIC:
            self.reason = "it ends inside its first bytes"

    def _check_open(self, at: int) -> None:
        """Raise LogError if something follows the event that closed the file."""
        if self.closed:
            raise LogError(
                f"{self.size - at} bytes follow the event that closed the file: no server"
                " leaves that, and nothing is cut",
                file=self.path,
                offset=at,
            )

    def _read(self, at: int, count: int) -> bytes:
        return self.folder.read(self.name, at, count)

    def _note(self, event: Event, pending: list[GtidEvent | MariadbGtidEvent]) -> None:
        """Note the state that a writer continues with."""
        self.closed = isinstance(event, (RotateEvent, StopEvent))
        self._servers.add(event.header.server_id)
        if isinstance(event, (GtidEvent, MariadbGtidEvent)):
            pending.append(event)
        elif isinstance(event, TableMapEvent):
            self.table_id = max(self.table_id, event.table_id)
        elif isinstance(event, XidEvent):
            self.xid = max(self.xid, event.xid)
        elif isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
            self.previous = True
            self.gtids = event.gtids.copy()
        elif isinstance(event, FormatDescriptionEvent):
            self._note_format(event)
        elif isinstance(event, StartEncryptionEvent) and not (
            event.header.flags & EventFlag.IGNORABLE  # else it was decrypted below
        ):
            raise event.error("an encrypted log: its keyring is needed", LogError)

    def _note_format(self, event: FormatDescriptionEvent) -> None:
        if event.header.flags & EventFlag.RELAY_LOG:
            raise StorageError(f"{self.path}: a relay log is its replica's, and not appended to")
        if self._only_ours:
            _check_ours(event, self.path)
        if self.form is not None:
            raise event.error("a second format description event: it is a relay log", LogError)
        self.form = event.description
        self.in_use = event.in_use
        self.server_id = event.header.server_id
        self._head_end = event.end_offset or 0
        if event.flavour == "mariadb":
            self.gtids = GtidList()

    def _add(self, begun: GtidEvent | MariadbGtidEvent) -> None:
        """A transaction that has ended."""
        if isinstance(begun, GtidEvent):
            self.sequence = max(self.sequence, begun.sequence_number or 0)
        self.gtids = advanced(self.gtids, begun.gtid)

    def _check_tail(self, at: int, error: LogError) -> None:
        """Whether what begins at ``at`` is a torn tail; raises the error where it is damage."""
        self._check_open(at)
        behind = self._whole_event_after(at)
        torn = behind is None and (
            at + HEADER_SIZE > self.size or self._length(at) > self.size - at
        )
        why = ""
        if behind is not None:
            why = f"a whole event follows at {behind}, so the file is damaged"
        elif not torn and not self.in_use:
            why = "no crash left that, for the file was not open: it is damaged"
        if why:
            raise type(error)(
                f"{error.message}; {why} and nothing is cut: get the file from its source again",
                file=self.path,
                offset=at,
                event_type=error.event_type,
            ) from None
        self.reason = (
            "it ends inside an event" if torn else f"its last bytes are damaged ({error.message})"
        )

    def _length(self, at: int) -> int:
        return EventHeader.parse(self._read(at, HEADER_SIZE)).length

    def _whole_event_after(self, at: int) -> int | None:
        """Where a whole event of a server in this log begins after a damaged one.

        Without checksums it is recognised by the end position in its header.
        """
        checksums = (
            self.form is not None and self.form.checksum_algorithm is ChecksumAlgorithm.CRC32
        )
        servers = {_U32.pack(server) for server in self._servers}
        servers.add(self._read(at, HEADER_SIZE)[_SERVER_AT : _SERVER_AT + 4])
        window = at + 1
        while window < self.size - HEADER_SIZE:
            data = self._read(window, _PIECE + HEADER_SIZE)
            for wanted in servers:
                found = data.find(wanted, _SERVER_AT)
                while found >= 0:
                    start = found - _SERVER_AT
                    if start < _PIECE and self._is_event(window + start, data[start:], checksums):
                        return window + start
                    found = data.find(wanted, found + 1)
            window += _PIECE
        return None

    def _is_event(self, at: int, begin: bytes, checksums: bool) -> bool:
        if len(begin) < HEADER_SIZE:
            return False
        length, end = unpack_header(begin)[3:5]
        least = HEADER_SIZE + CHECKSUM_SIZE * checksums
        if not least <= length <= min(self.size - at, MAX_EVENT_SIZE):
            return False
        if end != (at + length) & 0xFFFFFFFF and not (end == 0 and checksums):
            return False
        if not checksums:
            return True
        raw = self._read(at, length)
        return _U32.pack(crc32(raw[:-CHECKSUM_SIZE])) == raw[-CHECKSUM_SIZE:]


def scan(folder: WritableStore, name: str, *, only_ours: bool = True) -> RecoveredLog:
    """Read a log file to its end; with ``only_ours`` one that Tailrace wrote. Raises as
    `RecoveredLog.run`.
    """
    found = RecoveredLog(folder, name, only_ours=only_ours)
    found.run()
    return found


def check_head(folder: WritableStore, name: str) -> None:
    """Raise StorageError for a file that Tailrace has not written, by its first event."""
    for at, length, _ in walk(partial(folder.read, name), len(MAGIC), folder.size(name)):
        event = DecodeContext().decode(folder.read(name, at, length), file=folder.path(name))
        _check_ours(first_event(event), folder.path(name))
        break


def _check_ours(event: FormatDescriptionEvent, path: str) -> None:
    if not is_by_tailrace(event.body):
        raise StorageError(
            f"{path}: this log has no mark of Tailrace: a server of version"
            f" {event.server_version!r} or an earlier release of Tailrace wrote it. It cannot"
            " be continued or reset. Create a log of your own (tailrace.create) and copy the"
            " events into it (LogWriter.write)"
        )
