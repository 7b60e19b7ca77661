"""A log as an iterable of events: `open`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tailrace.errors import LogError, StorageError, UsageError
from tailrace.events import (
    DecodeContext,
    Event,
    FormatDescription,
    FormatDescriptionEvent,
    TransactionPayloadEvent,
    UnknownIgnorableEvent,
)
from tailrace.position import Position
from tailrace.storage import EventReader, LogSeries, find
from tailrace.transactions import Boundary, BoundaryParser, Transaction, TransactionAssembler

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path
    from types import TracebackType


class Log:
    """The events of a series of log files, in order. Made by `open`.

    Iterating decodes lazily and holds one event at a time; each iteration begins at the start.
    A transaction payload is given as its event and then, with ``expand_payloads``, as the events
    inside. What iterating raises: LogError and its kinds for what is wrong in the log,
    StorageError for what is wrong with a file.

    ``position`` is where to resume: the end of the last transaction that was taken in whole; it
    moves when the next event is asked for, never before. ``ignored`` counts events of unknown type
    that the format lets a reader pass over (they are given, too). ``torn_tail`` is set where a
    live log ended inside an event. ``incomplete`` says whether the log ended inside a transaction.
    """

    def __init__(
        self,
        series: LogSeries,
        *,
        start: Position | None = None,
        verify_checksums: bool = True,
        expand_payloads: bool = True,
    ) -> None:
        self.series = series
        self.verify_checksums = verify_checksums
        self.expand_payloads = expand_payloads
        self._files = series.files
        self._start = start
        if start is not None:
            names = [file.name for file in series.files]
            if start.file not in names:
                raise UsageError(
                    f"{start.file} is not among the logs of {series.name}:"
                    f" {names[0]} to {names[-1]}"
                )
            self._files = series.files[names.index(start.file) :]
        self.format: FormatDescription
        self.created: int
        self._running: Generator[Event] | Generator[Transaction] | None = None
        self._read_format()
        self._reset()

    def _reset(self) -> None:
        self.position = self._start or Position(self._files[0].name, 4)
        self.ignored = 0
        self.torn_tail: Position | None = None
        self.incomplete = False

    def _read_format(self) -> None:
        """The first event, so that what is no log is refused when it is opened."""
        reader = EventReader(self._files[0])
        first = next(iter(reader), None)
        if first is None:
            raise StorageError(f"{reader.file.path}: the file ends inside its first event")
        offset, raw = first
        event = self._decode(DecodeContext(), raw, reader.file.path, offset)
        if not isinstance(event, FormatDescriptionEvent):
            raise event.error("a log begins with a format description event", LogError)
        self.format = event.description
        self.created = event.timestamp

    def _decode(self, context: DecodeContext, raw: bytes, file: str, offset: int) -> Event:
        return context.decode(raw, file=file, offset=offset, verify_checksum=self.verify_checksums)

    def _outer_events(self) -> Iterator[Event]:
        """The events as the files hold them."""
        self._reset()
        context = DecodeContext()
        verify = self.verify_checksums
        for number, file in enumerate(self._files):
            start = self._start.offset if self._start and number == 0 else None
            reader = EventReader(file, start=start)
            for offset, raw in reader:
                event = context.decode(raw, file=file.name, offset=offset, verify_checksum=verify)
                if isinstance(event, UnknownIgnorableEvent):
                    self.ignored += 1
                yield event
            if reader.torn_tail_offset is not None:
                self.torn_tail = Position(file.name, reader.torn_tail_offset)

    def __iter__(self) -> Iterator[Event]:
        self._running = running = self._events()
        return running

    def _events(self) -> Generator[Event]:
        parser = BoundaryParser()
        expand = self.expand_payloads
        for event in self._outer_events():
            boundary = parser.feed(event)
            yield event
            if expand and isinstance(event, TransactionPayloadEvent):
                yield from self._inner_events(event)
            if boundary is Boundary.END or boundary is Boundary.OUTSIDE:
                self._advance(event)
        self.incomplete = parser.inside

    def _inner_events(self, event: TransactionPayloadEvent) -> Iterator[Event]:
        for inner in event:
            if isinstance(inner, UnknownIgnorableEvent):
                self.ignored += 1
            yield inner

    def _advance(self, event: Event) -> None:
        """Past an event that was taken, but not back to the file's first event."""
        file, end = event.file, event.end_offset
        if file is None or end is None:
            return
        if file != self.position.file or end > self.position.offset:
            self.position = Position(file, end)

    def transactions(self) -> Iterator[Transaction]:
        """The transactions, one held at a time; control events between them are left out.

        The last may be incomplete, and one that a crash cut short is given as incomplete.
        """
        self._running = running = self._transactions()
        return running

    def _transactions(self) -> Generator[Transaction]:
        assembler = TransactionAssembler()
        for event in self._outer_events():
            done = assembler.feed(event)
            if done is not None:
                yield done
            boundary = assembler.boundary
            if boundary is Boundary.END or boundary is Boundary.OUTSIDE:
                self._advance(event)
        left = assembler.finish()
        self.incomplete = left is not None
        if left is not None:
            yield left

    def close(self) -> None:
        """End the last iteration, and close its file."""
        if self._running is not None:
            self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open(  # noqa: A001 - it is tailrace.open
    source: str | Path | LogSeries,
    *,
    start: Position | None = None,
    verify_checksums: bool = True,
    expand_payloads: bool = True,
) -> Log:
    """Open a log: a file, a folder of logs, an index, a ``file:`` URL, or a series that was found.

    ``start`` is a position where a transaction ended: reading begins there. Raises StorageError
    where there is no log, BadMagic and other kinds of LogError where it is none that can be read,
    UsageError where the folder holds several series.
    """
    if isinstance(source, LogSeries):
        series = source
    else:
        series, *more = find(source)
        if more:
            names = ", ".join(one.name for one in (series, *more))
            raise UsageError(f"{source}: it holds several logs ({names}); open one of them")
    return Log(
        series, start=start, verify_checksums=verify_checksums, expand_payloads=expand_payloads
    )
