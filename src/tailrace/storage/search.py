"""Finds a GTID or a time in a series of logs.

The file of a GTID is found by binary search in the files' heads: by the PREVIOUS_GTIDS or GTID_LIST
event, which holds the GTIDs of all files before it. Then that one file is read. A time is found by
reading from the beginning, since times need not grow.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import GTID_TYPES, MAGIC, EventType, Flavour
from tailrace.errors import GtidError, LogError
from tailrace.events import (
    DecodeContext,
    GtidEvent,
    MariadbGtidEvent,
)
from tailrace.gtid import parse_gtid
from tailrace.position import Position
from tailrace.storage.file import LogSeries
from tailrace.storage.head import FileHead
from tailrace.storage.reader import EventReader
from tailrace.transaction import Boundary, BoundaryParser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tailrace.events import Event
    from tailrace.gtid import AnyGtid, GtidState
    from tailrace.storage.file import LogFile

_BETWEEN: Final = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.START_ENCRYPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.GTID_LIST,
        EventType.ROTATE,
        EventType.STOP,
        EventType.BINLOG_CHECKPOINT,
    }
)
"""Events that belong to no transaction, in logs in which each one begins with a GTID event."""
_SECOND: Final = 1_000_000


def gtids_before(file: LogFile) -> tuple[Flavour | None, GtidState | None]:
    """A file's flavour, and the GTIDs of all files before it; None for what is unknown."""
    head = FileHead.read(EventReader(file), file)
    return (None, None) if head is None else (head.flavour, head.before)


def gtid_events(
    file: LogFile, head: FileHead | None = None, begin: int | None = None, end: int | None = None
) -> Iterator[GtidEvent | MariadbGtidEvent]:
    """The GTID events of a file; its other events are not decoded.

    With its ``head``, those from an event's beginning up to an offset. Checksums are not verified
    here, but when the events are read.
    """
    context = DecodeContext() if head is None else head.context()
    given = None if head is None else head.format
    for offset, raw in EventReader(file, start=begin, format_description=given):
        after = offset + len(raw)
        if end is not None and after > end:
            return
        if raw[4] == EventType.FORMAT_DESCRIPTION:
            context.decode(raw, file=file.name, offset=offset, verify_checksum=False)
        elif raw[4] in GTID_TYPES:
            event = context.decode(raw, file=file.name, offset=offset, verify_checksum=False)
            if isinstance(event, (GtidEvent, MariadbGtidEvent)):
                yield event
        if after == end:
            return


def commit_time(first: Event) -> int:
    """When the transaction that begins with this event was committed, in microseconds UTC.

    The time of the original commit, if the log has it; else the second of the event.
    """
    time = first.commit_timestamp if isinstance(first, GtidEvent) else None
    return first.timestamp * _SECOND if time is None else time


class Beginnings:
    """Iterates over the first event of each transaction in consecutive files.

    ``records`` are their events: the file's name, the offset, the bytes. ``end`` is a position to
    resume at: the end of the last transaction, or of the events after it that are outside of
    transactions. Events of unknown types are left to whoever reads the log.
    """

    def __init__(self, records: Iterable[tuple[str, int, bytes]], begin: Position) -> None:
        self._records = records
        self.end = begin
        self._parser = BoundaryParser()
        self._context = DecodeContext(unknown="opaque")

    @classmethod
    def of(cls, files: Sequence[LogFile]) -> Self:
        """Those of whole files."""
        records = ((file.name, at, raw) for file in files for at, raw in EventReader(file))
        return cls(records, Position(files[0].name, len(MAGIC)))

    def __iter__(self) -> Iterator[Event]:
        return (event for event, begins in self._walk() if begins)

    def allows(self, place: Position) -> bool:
        """Whether reading may begin at a position in the first file: it is in no transaction."""
        for event, _ in self._walk():
            if self.end >= place or (event.offset or 0) >= place.offset:
                break
        return self.end == place

    def _walk(self) -> Iterator[tuple[Event, bool]]:
        """The events that may begin or end a transaction, and whether one begins with it; then
        ``end`` is its position.
        """
        for record in self._records:
            step = self.step(*record)
            if step is not None:
                event, begins, boundary = step
                yield event, begins
                if boundary in {Boundary.END, Boundary.OUTSIDE}:
                    self.end = Position(record[0], event.end_offset or 0)

    def step(self, file: str, offset: int, raw: bytes) -> tuple[Event, bool, Boundary] | None:
        """Take in one event: it, whether a transaction begins with it, and its role. None if it
        neither begins nor ends one.
        """
        parser = self._parser
        if parser.passes(raw[4]):
            return None
        if raw[4] == EventType.FORMAT_DESCRIPTION:
            self._context = DecodeContext(unknown="opaque")
        event = self._context.decode(raw, file=file, offset=offset, verify_checksum=False)
        inside = parser.inside
        boundary = parser.feed(event)
        return event, not parser.control and not inside, boundary

    def since(self, time: int) -> Position:
        """Where the first begins that was committed at a time or later; the end if none was."""
        for event in self:
            if commit_time(event) >= time:
                return Position(event.file or "", event.offset or 0)
        return self.end


def begin_of(file: LogFile, offset: int) -> int:
    """Where the transaction begins that an offset of a file is inside of; else the offset itself.

    Raises StorageError if no event begins at the offset (nor the file ends there).
    """
    at_offset = (raw[4] for at, raw in EventReader(file, start=offset) if at >= offset)
    code = next(at_offset, None)
    if code is None or code in GTID_TYPES or code in _BETWEEN:
        return offset
    try:
        gtids = (at for at, raw in _until(file, None, offset) if raw[4] in GTID_TYPES)
        begin = max(gtids, default=len(MAGIC))
        records = ((file.name, at, raw) for at, raw in _until(file, begin, offset))
        begins = Beginnings(records, Position(file.name, begin))
        for _ in begins:
            pass
    except LogError:  # what is before it is damaged: a user may begin after that
        return offset
    return begins.end.offset


def _until(file: LogFile, start: int | None, end: int) -> Iterator[tuple[int, bytes]]:
    """A file's events up to an offset."""
    return takewhile(lambda event: event[0] < end, EventReader(file, start=start))


def file_of_gtid(source: LogSeries | Sequence[LogFile], gtid: AnyGtid | str) -> LogFile:
    """The file that holds a transaction, by the files' lists of GTIDs alone.

    For a transaction that no file holds, it is the newest file. Raises GtidError if the transaction
    was in a file that no longer exists, or the log is of the other flavour.
    """
    files = _files(source)
    return files[_Lists(files, _gtid(gtid)).number()]


def find_gtid(source: LogSeries | Sequence[LogFile], gtid: AnyGtid | str) -> Position:
    """Where a transaction begins.

    Other files than that of `file_of_gtid` are read only where the lists may mislead: if files
    have none (MySQL 5.6), and in MariaDB's logs, where numbers need not grow
    (``gtid_strict_mode``), if the transaction is not in that file. Raises GtidError as that, and
    where the logs do not hold the transaction.
    """
    files, wanted = _files(source), _gtid(gtid)
    lists = _Lists(files, wanted)
    number = lists.number()
    others = [*files[:number], *files[number + 1 :]] if lists.may_mislead else []
    for file in (files[number], *others):
        place = _place(file, wanted)
        if place is not None:
            return place
    raise GtidError(f"{wanted} is in none of the logs, {files[0].name} to {files[-1].name}")


def find_time(source: LogSeries | Sequence[LogFile], time: int) -> Position:
    """Where the first transaction begins that was committed at a time (microseconds UTC) or later.

    The logs' end if there is none. Times are those of `commit_time`. All events before that
    transaction are read, since neither the times of files nor those of transactions need grow: a
    clock may have been set back, and a source's may be ahead of its replica's.
    """
    return Beginnings.of(_files(source)).since(time)


class _Lists:
    """The lists of GTIDs at the beginnings of files, read when they are needed."""

    def __init__(self, files: Sequence[LogFile], gtid: AnyGtid) -> None:
        self._files = files
        self._gtid = gtid
        self.may_mislead = gtid.flavour is Flavour.MARIADB

    def number(self) -> int:
        """The number of the last file that does not list the GTID as being before it."""
        if self._is_before(self._files[0]):
            raise GtidError(
                f"{self._gtid} is no longer in the logs, which begin with {self._files[0].name}"
            )
        return bisect_left(self._files[1:], True, key=self._is_before)

    def _is_before(self, file: LogFile) -> bool:
        flavour, before = gtids_before(file)
        gtid = self._gtid
        if flavour is not None and flavour is not gtid.flavour:
            raise GtidError(f"{file.path} is a log of {flavour}, {gtid} is {gtid.flavour}'s")
        if before is None:
            self.may_mislead = True
            return False
        return before.includes(gtid)


def _place(file: LogFile, gtid: AnyGtid) -> Position | None:
    """Where the transaction begins in this file."""
    for event in gtid_events(file):
        if event.gtid == gtid:
            return Position(file.name, event.offset or 0)
    return None


def _files(source: LogSeries | Sequence[LogFile]) -> Sequence[LogFile]:
    return source.files if isinstance(source, LogSeries) else source


def _gtid(gtid: AnyGtid | str) -> AnyGtid:
    return parse_gtid(gtid) if isinstance(gtid, str) else gtid
