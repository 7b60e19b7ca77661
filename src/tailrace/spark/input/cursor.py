"""One source of a run: its log as it is by now, and what of it is not yet in the lake."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.columns.read.planner import SplitPlanner
from tailrace.constants import MAGIC
from tailrace.errors import PipelineError, SchemaError
from tailrace.position import Position, bytes_after
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.spark.input.lag import second_of
from tailrace.spark.input.start_position import check_begin, is_first
from tailrace.spark.manifest.manifest import SourceState
from tailrace.storage.identity import check_read, digests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tailrace.columns import Split
    from tailrace.schema.catalogue import Learned
    from tailrace.schema.tables import TableState
    from tailrace.storage import LogFile, LogSeries
    from tailrace.values.schema import TableDefinition
_AHEAD: Final = 4
"""Batches that are planned ahead, at least, where there is a backlog."""


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


class SourceCursor:
    """Plans the splits of one source, from where the lake ends, and gives them batch by batch.

    ``state`` is how far the lake has it (None: nothing yet), ``given`` definitions of tables of
    the user's, ``learned`` what servers say of others. ``begin`` is where a lake that has nothing
    of it begins, None: with its first file. With ``hold`` nothing is given that is after an
    in-doubt XA transaction. With ``cascades`` splits are cut, and know tables, as it takes to carry
    out what foreign keys do. Splits begin at ``cuts``, which are where definitions stand.
    Raises `PipelineError` where the schema history of ``state`` is damaged.
    """

    def __init__(
        self,
        series: LogSeries,
        state: SourceState | None,
        given: Sequence[TableDefinition | TableState],
        *,
        hold: bool,
        begin: Position | None = None,
        learned: Iterable[Learned] = (),
        cascades: bool = False,
        lowers_names: bool | None = None,
        cuts: Collection[Position] = (),
    ) -> None:
        self.name = series.name
        self.series = series
        """The log as it was when it was last planned."""
        self.state = state
        """How far the lake has it."""
        self.splits: deque[Split] = deque()
        """What is planned and not taken."""
        if state is None:
            first = series.files[0]
            at_head = begin is None or begin == Position(first.name, len(MAGIC))
            catalogue = Catalogue(
                from_first=at_head and is_first(first), begin=None if at_head else begin
            )
        else:
            try:
                catalogue = from_json(state.tables)
            except SchemaError as error:
                raise PipelineError(
                    f"source {series.name}: the lake's manifest: {error}"
                ) from error
        if lowers_names is not None:
            catalogue.lowers_names = lowers_names
        catalogue.given(given)
        for each in learned:
            catalogue.learn(each)
        self.first_known = catalogue
        """The schema history at the start of the first file; not to be changed."""
        self.begun: SourceState | None = None
        """Where a lake begins that has nothing of it, as a state; None: with its first file."""
        if begin is not None:
            check_begin(series, begin)
            (log,) = (log for log in series.files if log.name == begin.file)
            self.begun = _state_at(log, begin.offset, catalogue)
        after = begin if state is None or begin is not None else state.position
        seen = None if state is None else state.seen
        self.planner = SplitPlanner(
            catalogue, after, hold=hold, cascades=cascades, cuts=cuts, seen=seen
        )

    @property
    def waiting(self) -> int:
        """Bytes of splits that are planned and not taken."""
        return sum(split.end - split.start for split in self.splits)

    def look(self, series: LogSeries, enough: int | None = None) -> None:
        """Plan what is new in the series, no more than some batches of ``enough`` bytes; None: all.

        Raises `LogPurged`, `LogReset` where it is not the log that was read, and what reading it
        raises.
        """
        self._check(series)
        self.series = series
        if enough is None or self.waiting < enough:
            self.splits += self._plan(enough)

    def _plan(self, enough: int | None) -> Iterable[Split]:
        most = None if enough is None else _AHEAD * enough
        return self.planner.plan(self.series, enough=most)

    def _check(self, series: LogSeries) -> None:
        if (known := self.state) is not None:
            check_read(
                series,
                known.position,
                "bring the log's files back, or create a new lake",
                partial(is_same, state=known),
                known.files,
            )

    def take(self, most: int | None = None) -> Taken | None:
        """The next splits, of ``most`` bytes unless the first transaction alone has more.

        They end where a transaction does. None: there are none.
        """
        taken = size = 0
        waiting = [*self.splits]
        for number, split in enumerate(waiting, 1):
            size += split.end - split.start
            is_end = number == len(waiting) or waiting[number].inside is None
            if is_end and (not taken or most is None or size <= most):
                taken = number
            elif is_end:
                break
        splits = [self.splits.popleft() for _ in range(taken)]
        return Taken(self.series, splits, self.begun, self.planner.seen) if splits else None

    def upto(self, end: Position, *, enough: int | None = None) -> list[Split]:
        """All splits up to a place, and the changes by statements before it. ``enough`` is their
        size, if that is known, after which no more is planned than some such batches.
        """
        self._check(self.series)
        found = []
        for split in self._plan(enough):
            if Position(split.file, split.start) < end:
                last = min(split.end, end.offset) if split.file == end.file else split.end
                changes = tuple(each for each in split.changes if each.offset < last)
                found.append(replace(split, end=last, changes=changes))
        return found

    def nothing(self) -> Taken:
        """No splits, for a new lake that begins with nothing of the source but its place."""
        begun = self.begun
        if begun is None:
            begun = _state_at(self.series.files[0], len(MAGIC), self.first_known)
        return Taken(self.series, [], begun)

    @property
    def since(self) -> int | None:
        """The second of the first event that the lake has not, of what was seen of the log."""
        if self.splits:
            return second_of(self.splits[0].log, self.splits[0].start)
        if (held := self.planner.held) is None:
            return None
        log = next(log for log in self.series.files if log.name == held.file)
        return second_of(log, held.offset)

    def behind(self, end: Position | None = None) -> int:
        """The bytes of log that the lake has not, up to ``end`` or the end of what was seen."""
        place = None if self.state is None else self.state.position
        return max(bytes_after(self.series.sizes, place, end), 0)


def is_same(log: LogFile, state: SourceState) -> bool:
    """Whether a file is the one that a lake has read up to a state."""
    is_there = log.name == state.file and log.size >= state.offset
    return is_there and digests(log, state.offset) == (state.head, state.tail)


def _state_at(log: LogFile, offset: int, known: Catalogue) -> SourceState:
    """How far a lake has a source that begins there, and has nothing of it yet."""
    return SourceState(log.name, offset, {}, *digests(log, offset), to_json(known))
