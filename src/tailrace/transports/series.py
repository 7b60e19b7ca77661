"""The transport for files: a series of logs, one file after the other."""

from __future__ import annotations

from copy import deepcopy
from threading import Event as Flag
from typing import TYPE_CHECKING

from tailrace.constants import LARGE, MAGIC
from tailrace.errors import LogError, StorageError, TruncatedEvent, UsageError
from tailrace.events import DecodeContext
from tailrace.gtid import GtidState
from tailrace.position import Position
from tailrace.storage import EventReader, LogFile, LogSeries
from tailrace.storage.files import successor
from tailrace.storage.search import Beginnings, begin_of, find_time
from tailrace.times import Time
from tailrace.transaction import BoundaryParser
from tailrace.transports.base import check_among
from tailrace.transports.gtids import already_read, locate_gtids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.events import Event
    from tailrace.selection import Start
    from tailrace.transports.base import Record
    from tailrace.transports.gtids import AlreadyRead


class SeriesTransport:
    """Reads the files of a series; a log that is followed continues in the next file (`successor`).

    With ``continues`` the series follows a log that was read before it: then its first file may end
    inside its first event if it is in use, as later files of a series may.
    """

    def __init__(
        self,
        series: LogSeries,
        *,
        continues: bool = False,
    ) -> None:
        self.series = series
        self._continues = continues
        self.name = series.name
        self._read: tuple[GtidState, Position, AlreadyRead] | None = None
        self._begin: tuple[Position, Position] | None = None

    def peek(self) -> Record | None:
        """The first event of the first file; None if a file in use has none yet. Raises
        BadMagic, TruncatedEvent, ...
        """
        file = self.series.files[0]
        reader = EventReader(file)
        first = next(iter(reader), None)
        if first is None:
            if self._continues:
                return None
            raise TruncatedEvent(
                "the file ends inside its first event", file=file.path, offset=len(MAGIC)
            )
        return file.path, *first

    def locate(self, start: Start | None) -> Position:
        """The position of a start. Raises UsageError, GtidError; StorageError for a position at
        which no event begins.
        """
        files = self.series.files
        if start is None or start == "oldest":
            return Position(files[0].name, len(MAGIC))
        if isinstance(start, Position):
            self.begin_of(start)
            return start
        if files[0].joined:
            raise UsageError(
                f"{self.name}: a pipe can only be read once, from its beginning or from a position"
            )
        if start == "now":
            return _end(files[-1])
        if isinstance(start, Time):
            return find_time(files, start.microseconds)
        return self._after(start)[0]

    def _after(self, gtids: GtidState) -> tuple[Position, AlreadyRead]:
        """Where the first transaction begins that is not in a set, and what else was read."""
        if self._read is None or self._read[0] != gtids:
            read = already_read(gtids)
            self._read = gtids.copy(), locate_gtids(self.series.files, read), read
        return self._read[1], deepcopy(self._read[2])

    def begin_of(self, place: Position) -> Position:
        """Where the transaction begins that a position is inside of; else the position itself.

        Raises UsageError for a file that is not of the series, StorageError if no event begins at
        the position.
        """
        file = self.series.files[self._index(place)]
        if place.offset < len(MAGIC) and place.offset != 0:  # 0 is the beginning, as 4
            raise StorageError(f"{file.path}: no event begins at {place.offset}")
        if file.joined or place.offset <= len(MAGIC):  # a pipe is read once, and tells then
            return place
        if self._begin is None or self._begin[0] != place:
            self._begin = place, Position(file.name, begin_of(file, place.offset))
        return self._begin[1]

    def _index(self, start: Position) -> int:
        names = [file.name for file in self.series.files]
        check_among(start, names, self.name)
        return names.index(start.file)

    def read(self, start: Start | None, *, follow: bool) -> SeriesStream:
        """Start to read; nothing is opened before the first event is requested."""
        begin = self.locate(start)
        files = self.series.files[self._index(begin) :]
        offset = None if start is None else begin.offset
        if isinstance(start, Position):
            offset = self.begin_of(start).offset
        read = self._after(start)[1] if isinstance(start, GtidState) else None
        if read is not None and not read.left:
            read = None
        return SeriesStream(files, offset, follow=follow, read=read)


def _end(file: LogFile) -> Position:
    """Where the last whole transaction of a file ends."""
    begins = Beginnings.of([file])
    for _ in begins:
        pass
    return begins.end


class SeriesStream:
    """The events of files, one file after the other; the first file from an offset."""

    def __init__(
        self,
        files: tuple[LogFile, ...],
        offset: int | None,
        *,
        follow: bool,
        read: AlreadyRead | None = None,
    ) -> None:
        self._files = files
        self._offset = offset
        self._follow = follow
        self._closed = Flag()
        self._following: LogFile | None = None
        self._read = read
        self._parser = BoundaryParser()
        self._left_out = False
        self.torn_tail: Position | None = None

    def __iter__(self) -> Iterator[Record]:
        offset = self._offset
        for file in self._files[:-1]:
            yield from self._one(EventReader(file, start=offset))
            offset = None
        last: LogFile | None = self._files[-1]
        while last is not None and not self._closed.is_set():
            self._following = None
            more = self._more_of(last) if self._follow else None
            try:
                yield from self._one(EventReader(last, start=offset, more=more))
            except LogError:
                if self._closed.is_set():
                    return  # the file ended inside an event that was being written
                raise
            offset = None
            last = self._following

    def _one(self, reader: EventReader) -> Iterator[Record]:
        name = reader.file.name
        closed = self._closed.is_set
        context = DecodeContext(unknown="opaque")  # the reader decides on these
        for offset, raw in reader:
            if self._read is not None:
                event = context.decode(raw, file=name, offset=offset, verify_checksum=False)
                if self._leaves_out(self._read, event):
                    continue
                del event
            if len(raw) > LARGE:  # keep no reference while the consumer works on it
                whole = [raw]
                del raw
                yield name, offset, whole.pop()
            else:
                yield name, offset, raw
            if closed():
                return
        if reader.torn_tail_offset is not None:
            self.torn_tail = Position(name, reader.torn_tail_offset)

    def _leaves_out(self, read: AlreadyRead, event: Event) -> bool:
        """Whether an event is of a transaction that was read already."""
        inside = self._parser.inside
        self._parser.feed(event)
        if self._parser.control:
            return False
        if not inside:
            was_left_out, self._left_out = self._left_out, read.holds(event)
            if was_left_out and not self._left_out and not read.left:
                self._read = None  # nothing more is left out
        return self._left_out

    def _more_of(self, file: LogFile) -> Callable[[], bool]:
        """Whether to read again at the end of the file that was the last one.

        If another file follows now, read once more: its writer may have added events to this one
        before.
        """

        def more() -> bool:
            if self._closed.is_set() or self._following is not None:
                return False
            self._following = successor(file)
            return self._following is not None or not self._closed.wait(file.store.looks_every)

        return more

    def close(self) -> None:
        """End the reading at the next event, or at once if it waits."""
        self._closed.set()
