"""The transport of files: a series of logs, one file after the other."""

from __future__ import annotations

from threading import Event as Flag
from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.errors import LogError, TruncatedEvent, UsageError
from tailrace.position import Position
from tailrace.storage import EventReader, LogFile, LogSeries
from tailrace.storage.files import successor
from tailrace.transports.gtids import locate_gtids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.transports.base import Record, Start


_LARGE = 1 << 20


class SeriesTransport:
    """Reads the files of a series.

    ``next_file`` gives the file that follows one by now, None while there is none: a log that is
    followed goes on there.
    """

    def __init__(
        self, series: LogSeries, next_file: Callable[[LogFile], LogFile | None] = successor
    ) -> None:
        self.series = series
        self.name = series.name
        self._next_file = next_file

    def peek(self) -> Record | None:
        """The first event of the first file. Raises BadMagic, TruncatedEvent, ..."""
        file = self.series.files[0]
        reader = EventReader(file)
        first = next(iter(reader), None)
        if first is None:
            raise TruncatedEvent(
                "the file ends inside its first event", file=file.path, offset=len(MAGIC)
            )
        return file.path, *first

    def locate(self, start: Start | None) -> Position:
        """The position of a start. Raises UsageError, GtidError."""
        files = self.series.files
        if start is None:
            return Position(files[0].name, len(MAGIC))
        if isinstance(start, Position):
            self._index(start)
            return start
        return locate_gtids(files, start)

    def _index(self, start: Position) -> int:
        names = [file.name for file in self.series.files]
        if start.file not in names:
            raise UsageError(
                f"{start.file} is not among the logs of {self.name}: {names[0]} to {names[-1]}"
            )
        return names.index(start.file)

    def read(self, start: Start | None, *, follow: bool) -> SeriesStream:
        """Begin to read; nothing is opened before the first event is asked for."""
        begin = self.locate(start)
        files = self.series.files[self._index(begin) :]
        offset = None if start is None else begin.offset
        return SeriesStream(files, offset, self._next_file if follow else None)


class SeriesStream:
    """The events of files, one file after the other; the first from an offset on."""

    def __init__(
        self,
        files: tuple[LogFile, ...],
        offset: int | None,
        next_file: Callable[[LogFile], LogFile | None] | None,
    ) -> None:
        self._files = files
        self._offset = offset
        self._next_file = next_file
        self._closed = Flag()
        self._following: LogFile | None = None
        self.torn_tail: Position | None = None

    def __iter__(self) -> Iterator[Record]:
        offset = self._offset
        for file in self._files[:-1]:
            yield from self._one(EventReader(file, start=offset))
            offset = None
        last: LogFile | None = self._files[-1]
        while last is not None and not self._closed.is_set():
            self._following = None
            more = None if self._next_file is None else self._more_of(last)
            try:
                yield from self._one(EventReader(last, start=offset, more=more))
            except LogError:
                if self._closed.is_set():
                    return  # it ended in the middle of what was being written
                raise
            offset = None
            last = self._following

    def _one(self, reader: EventReader) -> Iterator[Record]:
        name = reader.file.name
        closed = self._closed.is_set
        for offset, raw in reader:
            if len(raw) > _LARGE:  # nothing here holds it while others work on it
                whole = [raw]
                del raw
                yield name, offset, whole.pop()
            else:
                yield name, offset, raw
            if closed():
                return
        if reader.torn_tail_offset is not None:
            self.torn_tail = Position(name, reader.torn_tail_offset)

    def _more_of(self, file: LogFile) -> Callable[[], bool]:
        """Whether to look for more at the end of the last file that there was.

        Where another follows by now, one more look: what its writer put into this one before.
        """

        def more() -> bool:
            if self._closed.is_set() or self._following is not None or self._next_file is None:
                return False
            self._following = self._next_file(file)
            return self._following is not None or not self._closed.wait(file.looks_every)

        return more

    def close(self) -> None:
        """End the reading at the next event, or at once where it waits."""
        self._closed.set()
