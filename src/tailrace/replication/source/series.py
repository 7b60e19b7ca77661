"""The logs that are served: which there are, how far each can be sent, and waiting for more.

Only whole transactions are sent. A server's log ends with one whenever it is read: its server
shows others only what was committed, and cuts off an unfinished transaction when it restarts. A
copy may end anywhere in one, and so may a log that a program is writing. What follows the last
whole transaction is therefore held back, and sent when the transaction is complete; where a later
file follows, that is never, and the dump continues in that file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final

from tailrace.constants import (
    GTID_TYPES,
    HEADER_SIZE,
    MAGIC,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    Flavour,
)
from tailrace.errors import (
    EventEncodeError,
    LogError,
    LogReset,
    StorageError,
    TailraceError,
)
from tailrace.events import EventHeader, RotateEvent
from tailrace.events.format_description import check_magic, file_flags
from tailrace.events.walk import event_at, walk
from tailrace.gtid import GtidState, advanced
from tailrace.gtid.state import STATES
from tailrace.position import Position
from tailrace.replication.source.blocks import BlockCache
from tailrace.storage.files import find_one, successor
from tailrace.storage.growth import Readers, growing_at, place_of, tell_growth_to
from tailrace.storage.head import FileHead
from tailrace.storage.identity import edges
from tailrace.storage.search import gtid_events
from tailrace.storage.streams.base import read_exactly
from tailrace.transaction import Boundary, BoundaryParser

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.events import DecodeContext
    from tailrace.gtid import AnyGtid
    from tailrace.storage import LogFile
    from tailrace.storage.growth import GrowingFile
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.base import InputFile
    from tailrace.storage.streams.layer import Layers

_Read = Callable[[int, int], bytes]
_LIST_EVERY: Final = 1.0
"""Seconds for which a folder's list of files is used, unless the last file has ended."""
_CHECK_EVERY: Final = 0.5
"""Seconds after which it is checked that the files are the same ones; for an object store ten
looks.
"""
_FIRST: Final = 512
"""Bytes at a file's beginning by which it is recognized: its server's start and first GTID."""
_LAST: Final = 64
"""Bytes before its end by which it is recognized: its last transaction's commit."""
_BEGINS: Final = 10.0
"""Seconds within which a file that has just been created has its first events."""
_KEPT: Final = 1 << 16
"""Bytes of an event up to which it is kept until it is known whether it has to be decoded."""
_MOST_KEPT: Final = 1 << 20
_LOG: Final = logging.getLogger(__name__)


def _reader(stream: InputFile) -> _Read:
    def read(offset: int, count: int) -> bytes:
        return read_exactly(stream, offset, count)

    return read


def _has_ended(stream: InputFile) -> bool:
    """Whether a file's writer has cleared its IN_USE flag."""
    head = read_exactly(stream, 0, len(MAGIC) + HEADER_SIZE)
    return len(head) == len(MAGIC) + HEADER_SIZE and not file_flags(head) & EventFlag.IN_USE


@dataclass(slots=True, eq=False)
class ServedFile:
    """A log file that is served. Its attributes change under the lock of its `ServedLogs`.

    ``end`` is up to where it can be sent: the end of its last whole transaction, in bytes.
    ``closed`` says that another file follows, and ``final`` that ``end`` is the last that it has.
    ``replaced`` says that its name is another log's by now.
    """

    log: LogFile
    closed: bool = False
    final: bool = False
    end: int = 0
    head: FileHead | None = None
    replaced: bool = False
    _place: str = ""
    _growing: GrowingFile | None = None
    _seen: tuple[int, tuple[bytes, bytes]] = (0, (b"", b""))
    _size: int = 0
    _walked: int = 0
    _stream: InputFile | None = field(default=None, repr=False)
    _parser: BoundaryParser = field(default_factory=BoundaryParser, repr=False)
    _gtids: GtidState | None = None
    _gtids_end: int = 0

    @property
    def name(self) -> str:
        """The file's name."""
        return self.log.name

    @property
    def size(self) -> int:
        """The file's bytes at the last look, an unfinished transaction's included."""
        return self._size

    def look(self) -> bool:
        """Read what was added; whether ``end`` has moved. Raises LogError, StorageError."""
        if self.final:
            return False
        before, closed = self.end, self.closed
        self._place = self._place or place_of(self.log.path)
        growing = growing_at(self._place)
        if growing is not None and growing is self._growing:  # it has whole transactions only
            self.end = self._walked = self._size = growing.end
            return self.end != before
        stream = self._stream = self._stream or self.log.open()
        ended = not self._walked and _has_ended(stream)
        size = stream.size()  # after the flag: what has ended does not grow
        if growing is not None:  # what this process has not synced is not sent
            size = min(size, growing.end)
        if self.head is None:
            self.head = self._read_head(stream, size, grows=not closed)
        if self.head is not None and size != self._size and size >= self.end:
            if ended:  # nothing in it is unfinished
                self.end = self._walked = size
            else:
                self._grow(stream, size, self.head)
            self._size = size
            if self.end != before:
                _, (head, _) = self._seen  # which is read once: the file may be compressed
                new = edges(stream, self.end, _FIRST if len(head) < _FIRST else 0, _LAST)
                self._seen = self.end, (new[0] or head, new[1])
            if self.end == size >= _FIRST:
                self._growing = growing
        if closed and growing is None:
            self.final = True
            self.release()
        return self.end != before

    def is_written_here(self) -> bool:
        """Whether this process adds to it: then no other follows it yet."""
        return growing_at(self._place) is not None

    def _read_head(self, stream: InputFile, size: int, *, grows: bool) -> FileHead | None:
        read = _reader(stream)
        if not grows or size >= len(MAGIC):
            check_magic(read(0, len(MAGIC)), self.log.path)
        events = (
            (at, bytes(piece) if len(piece) == length else event_at(read, at))
            for at, length, piece in walk(read, len(MAGIC), size)
        )
        return FileHead.read(events, self.log, grows=grows)

    def is_same(self) -> bool:
        """Whether the file of its name has what was seen of it: its beginning, and its end where
        that was.

        Raises StorageError, LogError.
        """
        stream = self.log.open()
        try:
            long = self.final or stream.size() >= self.end
            at, seen = self._seen
            same = long and edges(stream, at, _FIRST, _LAST) == seen
            if same and not self.final:  # a longer copy may have been put in its place
                self._stream, stream = stream, self._stream or stream
        finally:
            if stream is not self._stream:
                stream.close()
        return same

    def _grow(self, stream: InputFile, size: int, head: FileHead) -> None:
        if size < self._walked:  # its writer rolled a transaction back
            self._walked, self._parser = self.end, BoundaryParser()
        read, context = _reader(stream), head.context()
        self._walked = max(self._walked, len(MAGIC))
        waiting: list[tuple[int, int, bytes]] = []
        kept = 0
        for offset, length, piece in walk(read, self._walked, size):
            if piece[4] in GTID_TYPES:  # a transaction begins, so that the ones before it are whole
                self.end, self._parser = offset, BoundaryParser()
                waiting, kept = [], 0
            known = bytes(piece if len(piece) == length <= _KEPT else piece[:HEADER_SIZE])
            waiting.append((offset, length, known))
            kept += len(known)
            if kept > _MOST_KEPT:
                self._feed(read, context, waiting)
                waiting, kept = [], 0
            self._walked = offset + length
        self._feed(read, context, waiting)

    def _feed(
        self, read: _Read, context: DecodeContext, events: Sequence[tuple[int, int, bytes]]
    ) -> None:
        """Take the grammar's steps with these events: each with its offset and its length, and its
        bytes or the first of them.
        """
        for offset, length, known in events:
            if self._parser.passes(known[4]):
                continue
            raw = known if len(known) == length else event_at(read, offset)
            event = context.decode(raw, file=self.name, offset=offset, verify_checksum=False)
            if self._parser.feed(event) in {Boundary.END, Boundary.OUTSIDE}:
                self.end = offset + length

    def gtids(self, end: int) -> GtidState | None:
        """The GTIDs up to an offset of the file, with those of earlier files; None if it has none.

        Of consecutive calls each reads what was added since the one before.
        """
        head = self.head
        if head is None:
            return None
        if not self._gtids_end or end < self._gtids_end:
            self._gtids = None if head.before is None else head.before.copy()
            self._gtids_end = head.begin
        if self._gtids_end < end:  # else the file need not be there
            for event in gtid_events(self.log, head, self._gtids_end, end):
                self._gtids = advanced(self._gtids, event.gtid)
                self._gtids_end = event.end_offset or 0
            self._gtids_end = end
        return self._gtids

    def first_gtid(self) -> AnyGtid | None:
        """The GTID of its first transaction; None if it has none."""
        if self.head is None or self.end <= self.head.begin:
            return None
        first = next(gtid_events(self.log, self.head, self.head.begin, self.end), None)
        return None if first is None else first.gtid

    def announces(self, name: str) -> bool:
        """Whether its last event is a ROTATE to this file. Raises StorageError, LogError."""
        if self.head is None:
            return False
        try:
            wanted = RotateEvent.make(next_file=name)
        except EventEncodeError:
            return False  # no file has such a name
        length = HEADER_SIZE + len(wanted.body) + self.head.checksum.size
        stream = self.log.open()
        try:
            at = stream.size() - length
            raw = read_exactly(stream, at, length) if at >= self.head.begin else b""
        finally:
            stream.close()
        if len(raw) < length:
            return False
        header = EventHeader.parse(raw)
        if (header.type, header.length) != (EventType.ROTATE, length):
            return False
        return self.head.context().decode(raw, file=self.name, offset=at).body == wanted.body

    def release(self) -> None:
        """Close the file; the next look opens it again."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _is_later(file: LogFile, than: LogFile) -> bool:
    """Whether a file can be a later one of the same series."""
    return file.base == than.base and (file.number or 0) > (than.number or 0)


def _still_served(file: ServedFile) -> None:
    """Raises LogReset if the file was replaced."""
    if file.replaced:
        raise LogReset(f"{file.log.path}: it was replaced by another log, or cut off")


class ServedLogs:
    """The logs of one server, or of one program, that are served to replicas.

    ``source`` is a folder, an index, a file, or the URL of a folder in an object store or in memory
    (as for `tailrace.storage.find`), with one series of logs; ``keyring`` has the keys of encrypted
    ones, ``layers`` are on the files. The last file may grow, and others may follow it, while they
    are served: a receiver copies them, or a program writes them. What a writer in this process adds
    (`tailrace.create`, `tailrace.receive`) is noticed at once. Other writers' files are looked at
    while a replica waits: on disk every 20 ms, an object store as often as it says
    (`Store.looks_every`).

    Any thread may call. Raises StorageError if there is no log, or an only one that has no event
    after ten seconds; UsageError if there are several series.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        keyring: Keyring | str | Path | None = None,
        layers: Layers | None = None,
    ) -> None:
        self.source = source
        self._keyring = keyring
        self._layers = layers
        self.blocks = BlockCache()
        """Pieces of the files as packets, which the dumps share."""
        self._changed = Condition()
        self._files: list[ServedFile] = []
        self._listed = 0.0
        self._checked = 0.0
        self._grown = Event()
        self._waiting = 0
        self._watcher: Thread | None = None
        self._error: TailraceError | None = None
        self._closed = False
        tell_growth_to(self._grown)
        self._readers = Readers(self._changed, self._grown)
        with self._changed:
            self._list()
            first = self._files[0]
            deadline = monotonic() + _BEGINS
            while not (self._look(first) or first.head is not None):
                if monotonic() > deadline:
                    raise StorageError(f"{first.log.path}: it has no whole event yet to be served")
                self._grown.wait(first.log.store.looks_every)

    def close(self) -> None:
        """Close the files, and end all waits. A second time does nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for file in self._files:
                file.release()
        self._grown.set()

    # --- which files ------------------------------------------------------------------------------

    def _list(self) -> None:
        """Find the files. Raises StorageError, UsageError."""
        why = "serve the folder or the index of one server"
        logs = find_one(self.source, self._keyring, self._layers, why=why).files
        known = {file.name: file for file in self._files}
        there = [known[log.name] for log in logs if log.name in known]
        if self._files and not self._files[-1].replaced:
            if there:
                self._compare(there)
            elif not _is_later(logs[0], self._files[-1].log):
                self._drop(self._files[-1])
        if self._files and self._files[-1].replaced:
            known = {}
        files = [known.get(log.name) or ServedFile(log) for log in logs]
        for file in self._files:
            if file not in files:
                file.release()
        for file in files[:-1]:
            file.closed = True
        self._files = files
        self._listed = monotonic()

    def _compare(self, files: Sequence[ServedFile]) -> None:
        """Notice if the first or the last of these files is another one than before.

        What cannot be read now is compared later.
        """
        self._checked = monotonic()
        for file in {files[0], files[-1]}:
            with suppress(StorageError, LogError):
                if not file.is_same():
                    self._drop(file)
                    return

    def _drop(self, file: ServedFile) -> None:
        """Forget all files: another log is in the place of this one."""
        _LOG.warning(
            "%s: it was replaced or cut off: the dumps of the logs that were here end, and those"
            " that are here now are served",
            file.log.path,
        )
        for each in self._files:
            each.replaced = True
            each.release()
        self.blocks = BlockCache()
        self._changed.notify_all()

    def _check(self) -> None:
        """From time to time, notice if the files are others than before."""
        every = max(_CHECK_EVERY, 10 * self._files[-1].log.store.looks_every)
        if monotonic() - self._checked > every and not self._files[-1].replaced:
            self._compare(self._files)

    def _current(self) -> list[ServedFile]:
        """The present files, as they were listed. Raises StorageError."""
        self._check()
        if self._files[-1].replaced:
            self._list()
        return self._files

    def _fresh(self) -> list[ServedFile]:
        """As `_current`, after a look at the newest file. Raises StorageError, LogError."""
        with suppress(LogReset):
            self._look(self._current()[-1])
        return self._current()

    def check(self, file: ServedFile) -> None:
        """Check that a file is the one that it was. Raises LogReset, StorageError, LogError."""
        with self._changed:
            self._compare([file])
            self._look(file)

    def files(self) -> list[ServedFile]:
        """The files, oldest first. Raises StorageError."""
        with self._changed:
            if monotonic() - self._listed > _LIST_EVERY:
                self._list()
            return [*self._current()]

    def file(self, name: str) -> ServedFile | None:
        """The file of a name, or the oldest for an empty one; None if there is none."""
        files = self.files()
        if not name:
            return files[0]
        found = next((file for file in files if file.name == name), None)
        if found is None:  # it may have been made a moment ago
            with self._changed:
                self._list()
                found = next((file for file in self._files if file.name == name), None)
        return found

    def is_announced(self, name: str) -> bool:
        """Whether a file that is not there yet is the next, as the last one says at its end.

        Raises StorageError, LogError.
        """
        with self._changed:
            last = self._current()[-1]
            self._look(last)
            return last.announces(name)

    def following(self, file: ServedFile) -> ServedFile | None:
        """The file after this one; None as long as there is none. Raises StorageError, LogReset."""
        with self._changed:
            _still_served(file)
            return self._following(file)

    def has_purged(self, file: ServedFile) -> bool:
        """Whether a file is no longer among the logs, as far as that can be found out."""
        try:
            return file not in self.files() and not file.replaced
        except StorageError:
            return False

    def _following(self, file: ServedFile) -> ServedFile | None:
        if file in self._files[:-1]:
            return self._files[self._files.index(file) + 1]
        if self._files and file is self._files[-1]:
            if file.is_written_here():
                return None
            log = successor(file.log)
            if log is None:
                return None
            after = ServedFile(log)
            file.closed = True
            self._files.append(after)
            self._changed.notify_all()
            return after
        number = file.log.number or 0  # it was purged while it was sent
        return next((each for each in self._files if (each.log.number or 0) > number), None)

    # --- how far ----------------------------------------------------------------------------------

    def look(self, file: ServedFile) -> int:
        """Up to where a file can be sent now, in bytes. Raises StorageError, LogError."""
        with self._changed:
            self._look(file)
            return file.end

    def _look(self, file: ServedFile) -> bool:
        self._check()
        _still_served(file)
        try:
            grown = file.look()
        except LogError:
            self._compare([file])
            _still_served(file)
            raise
        if grown:
            self._changed.notify_all()
        return grown

    def head(self, file: ServedFile) -> FileHead | None:
        """A file's head; None if it is not there yet. Raises StorageError, LogError."""
        with self._changed:
            if file.head is None:
                self._look(file)
            return file.head

    def wait(self, file: ServedFile, offset: int, seconds: float) -> bool:
        """Wait until a file can be sent beyond an offset, or another follows it.

        False if that is not so after ``seconds``, or after `wake` or `close`. Raises StorageError,
        LogError.
        """
        deadline = monotonic() + seconds
        with self._changed:
            self._waiting += 1
            try:
                if self._watcher is None:
                    self._error = None
                    self._watcher = Thread(
                        target=self._watch, name="tailrace-served-logs", daemon=True
                    )
                    self._watcher.start()
                self._look(file)
                if file.end <= offset and not file.closed and not self._closed:
                    self._changed.wait(deadline - monotonic())
                    _still_served(file)
                    if self._error is not None:
                        raise self._error
                    if not self._closed:
                        self._look(file)
                return file.end > offset or file.closed
            finally:
                self._waiting -= 1

    def wake(self) -> None:
        """End the waits of all threads: each looks whether it has to stop."""
        with self._changed:
            self._changed.notify_all()

    def _watch(self) -> None:
        """Look at the last file as long as somebody waits for it."""
        while True:
            with self._changed:
                if self._closed or not self._waiting:
                    self._watcher = None
                    return
                every = self._files[-1].log.store.looks_every
                self._grown.clear()
                try:
                    file = self._current()[-1]
                    if self._look(file):
                        continue
                    if self._following(file) is not None:
                        continue
                    self._error = None
                except LogReset:
                    pass  # whoever waits was told
                except TailraceError as error:
                    self._error = error
                    self._changed.notify_all()
            self._grown.wait(every)

    # --- what is in them --------------------------------------------------------------------------

    @property
    def newest(self) -> FileHead:
        """The head of the newest file that has one: flavour, server version, checksums."""
        with self._changed:
            with suppress(StorageError):
                self._current()
            for file in reversed(self._files):
                if file.head is None:
                    self._look(file)
                if file.head is not None:
                    return file.head
        raise StorageError(f"{self.source}: none of its logs has a whole event")

    @property
    def flavour(self) -> Flavour:
        """Whose logs they are."""
        return self.newest.flavour

    @property
    def server_version(self) -> str:
        """The version of the server that wrote the newest file."""
        return self.newest.format.server_version

    @property
    def checksum(self) -> ChecksumAlgorithm:
        """The checksums of the newest file's events (``@@global.binlog_checksum``)."""
        return self.newest.checksum

    @property
    def position(self) -> Position:
        """Where the last whole transaction ends."""
        with self._changed:
            file = self._fresh()[-1]
            self._look(file)
            return Position(file.name, max(file.end, len(MAGIC)))

    @property
    def gtids(self) -> GtidState:
        """The GTIDs of all transactions in the logs, and of those before them; a copy.

        MySQL's ``@@gtid_executed``, MariaDB's ``@@gtid_binlog_state``. The first call reads the
        newest file, later ones what was added.
        """
        with self._changed:
            for file in reversed(self._fresh()):
                self._look(file)
                if file.head is not None:
                    found = file.gtids(file.end)
                    return STATES[file.head.flavour]() if found is None else found.copy()
        return STATES[self.flavour]()

    def first_gtid(self, file: ServedFile) -> AnyGtid | None:
        """The GTID of a file's first transaction; None if it has none."""
        with self._changed:
            self._look(file)
            return file.first_gtid()

    @property
    def purged(self) -> GtidState:
        """The GTIDs of the transactions before the oldest file; a copy."""
        first = self.files()[0]
        head = self.head(first)
        if head is None or head.before is None:
            return STATES[self.flavour]()
        return head.before.copy()

    def gtids_at(self, name: str, offset: int) -> GtidState | None:
        """The GTIDs before a position (MariaDB's ``binlog_gtid_pos``); None if it is not there."""
        file = self.file(name)
        if file is None or self.head(file) is None:
            return None
        fresh = ServedFile(file.log, head=file.head)
        return fresh.gtids(min(offset, self.look(file)))
