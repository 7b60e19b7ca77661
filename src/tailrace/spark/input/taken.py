"""What a batch takes from a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.position import Position
from tailrace.schema.catalogue_json import to_json
from tailrace.spark.manifest.manifest import SourceState
from tailrace.storage.identity import digests

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tailrace.columns import Split
    from tailrace.storage import LogSeries


@dataclass(frozen=True)
class Taken:
    """What a batch takes from a source: consecutive splits, and the files they are in."""

    series: LogSeries
    splits: Sequence[Split]
    begun: SourceState | None = None
    """Where the lake begins in it, as a state; None: with the first file, or it has some of it.

    Where tables are taken up again, what is known where the splits begin. Without splits, of a
    source of which a new lake has nothing yet, always said.
    """
    seen: Position | None = None
    """Up to where the log was known when the splits were planned; None only without splits."""

    @property
    def begin(self) -> Position:
        """Where it begins."""
        if self.splits:
            return Position(self.splits[0].file, self.splits[0].start)
        return self._empty.position

    @property
    def end(self) -> Position:
        """Where it ends."""
        if self.splits:
            return Position(self.splits[-1].file, self.splits[-1].end)
        return self._empty.position

    @property
    def whole(self) -> Collection[tuple[str, str]]:
        """The tables whose rows are all in the log that was read by then."""
        return self.splits[-1].whole if self.splits else ()

    def state(self, before: SourceState | None) -> SourceState | None:
        """How far a source is read once all of it is in a lake that had it up to ``before``.

        It holds the sizes of files that are present, by which the log is known again, and the name
        of the first that was ever read: a log's files come and go.
        """
        if not self.splits:
            return before
        last = self.splits[-1]
        files = self.series.files
        number = [log.name for log in files].index(last.file)
        earlier = {} if before is None else before.files
        present = {*[log.name for log in files], *[*earlier][:1]}
        sizes = {name: size for name, size in earlier.items() if name in present}
        sizes.update((log.name, log.size) for log in files[:number])
        first = next((one for one in self.splits if (one.file, one.start) == (last.file, 4)), None)
        known = before.tables if first is None and before is not None else None
        if known is None:
            known = to_json((first or last).catalogue)
        head, tail = digests(files[number], last.end)
        return SourceState(last.file, last.end, sizes, head, tail, known, seen=self.seen)

    @property
    def _empty(self) -> SourceState:
        if self.begun is None:
            raise ValueError("neither splits nor where they would begin")
        return self.begun
