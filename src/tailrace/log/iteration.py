"""The way through the logs of a source, and how far what was committed has been taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tailrace.log.changes import Changes
from tailrace.log.events import resume_gtids
from tailrace.log.reader import Reader, Step
from tailrace.position import Position
from tailrace.transports.gtids import ReadGtids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.gtid import GtidState
    from tailrace.log.sources import Reading
    from tailrace.schema.catalogue import Catalogue


class Iteration:
    """Goes through the logs of a source, and knows how far what was committed has been taken."""

    def __init__(
        self,
        reading: Reading,
        *,
        verify_checksums: bool,
        statements: Literal["error", "skip"],
    ) -> None:
        self._reading = reading
        self._readers = [
            Reader(
                log,
                follow=reading.follow,
                selection=reading.selection,
                wants=reading.wants,
                catalogue=reading.catalogue,
                verify_checksums=verify_checksums,
            )
            for log in reading.logs
        ]
        self.stopped = False
        self._statements: Literal["error", "skip"] = statements
        self._enter(self._readers[0])

    def _enter(self, reader: Reader) -> None:
        self._reader = reader
        self.changes = Changes(reader, statements=self._statements)
        self.position = reader.log.position
        self.gtids = ReadGtids(reader.log.start)

    def all(self) -> Iterator[Any]:
        for number, reader in enumerate(self._readers):
            if self.stopped:
                return
            if number:
                self._enter(reader)
            yield from self._of_log()
        if not self.stopped:
            self._reading.warn_of_missing(reader.catalogue for reader in self._readers)

    def _of_log(self) -> Iterator[Any]:
        """What one of the logs gives: `changes` is of that one."""
        raise NotImplementedError

    def on_file(self, told: Callable[[str, str], None]) -> None:
        """Have a function called with each file's name and mark (`Reader`)."""
        for reader in self._readers:
            reader.on_file = told

    def stop(self) -> None:
        """Let it end after the transaction that is being read; signal handlers may call this."""
        self.stopped = True
        for reader in self._readers:
            reader.stop()

    def end(self) -> None:
        """End the reading, from any thread."""
        for reader in self._readers:
            reader.stop()
            reader.log.close()

    @property
    def known_position(self) -> Position:
        """``position``; of a server it is known once the first event came."""
        return self.position if self.position.file else self._reader.log.position

    @property
    def known_gtids(self) -> GtidState | None:
        """The GTIDs at `known_position`."""
        return resume_gtids(self.gtids, self._reader.transport, self.known_position)

    @property
    def definitions(self) -> Catalogue:
        """The tables as they are defined where reading is."""
        return self._reader.catalogue

    def _feed(self, step: Step) -> None:
        """Take in a step before its rows are given."""
        self.position = self.known_position
        if step.event.inner_index is None:
            self.gtids.feed(step.event)

    def _resume_after(self, step: Step) -> Position:
        """Where to resume after the transaction that a step ends.

        Rows of a prepared XA transaction may wait for its commit: then, where that one begins.
        """
        end, waits = end_of(step), self.changes.waits_from
        return end if waits is None else min(waits, end)

    def _advance(self, position: Position, *, ended: bool = True) -> None:
        """All up to a position was taken, but that of a file's first event is no way back."""
        if position.file != self.position.file or position > self.position:
            self.position = position
        if ended:
            self.gtids.ended()


def end_of(step: Step) -> Position:
    """Where a step's event ends."""
    return Position(step.event.file or "", step.event.end_offset or 0)
