"""A table's history in a run, cut where statements changed the table.

TRUNCATE, DROP, RENAME and an ALTER TABLE that adds, drops or renames columns are changes of all
rows: all versions end. After RENAME new versions start under the new name, after ALTER in the
new columns. So a version has exactly the columns that its table had while it was valid, and a
table's versions of a moment are what SELECT gave then. Any other ALTER TABLE leaves the versions
open. A stage is what lies between two such statements: a failure loses one stage at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.spark.state.current.lineage import Life, Segment, is_dropped
from tailrace.spark.state.history.jobs import End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tailrace.columns import TableChange
    from tailrace.schema.alteration import Alteration


@dataclass(eq=False)
class Stage:
    """The changes of ``table`` from ``low`` on, to before ``high`` (None: to the end).

    It begins with the committed history of ``base``, or with the rows that the stage ``after`` left
    and what ``altered`` made of them, or with none; ``emptied`` is the stage whose columns it has
    then, where a TRUNCATE ended it. ``end`` says how its versions ended, if they did. ``refused``
    says why its rows cannot be told.
    """

    table: str
    low: int
    high: int | None = None
    base: str | None = None
    after: Stage | None = None
    altered: Alteration | None = None
    emptied: Stage | None = None
    end: End | None = None
    refused: str | None = None
    altered_at: int | None = None
    """When a statement altered the values of the rows that it begins with."""
    unknown: str | None = None
    """The name under which nothing is known of the table, before RENAME TABLE."""

    @property
    def depth(self) -> int:
        """How many stages must be made before it, one after another."""
        found = 0
        before = self.after or self.emptied
        while before is not None:
            found += 1
            before = before.after or before.emptied
        return found

    @property
    def life(self) -> Life:
        """It as a life that current states are planned by; ``base`` is the rows it begins with."""
        segments = [Segment(self.table, self.low, self.high)]
        return self._life(segments, self.altered)

    @property
    def begun(self) -> Life:
        """The same before any of its changes: of versions left open, before the ALTER TABLE."""
        ended = self.altered is not None and self.altered.reshapes
        return self._life([], self.altered if ended else None)

    def _life(self, segments: list[Segment], altered: Alteration | None) -> Life:
        there = self.base is not None or self.after is not None
        done = [(self.low, altered)] if altered is not None else []
        return Life(segments, "" if there else None, done, refused=self.refused)


def stages(
    known: Iterable[str],
    changed: Iterable[str],
    changes: Sequence[TableChange],
    wanted: Callable[[str], bool],
) -> list[Stage]:
    """All stages, each after those that it begins with.

    ``known`` are the tables with a committed history, ``changed`` those with changes now;
    ``changes`` what statements did, in order. ``wanted`` tells the tables that are mirrored.
    """
    timeline = _Timeline(wanted)
    for name in known:
        timeline.begin(Stage(name, 0, base=name))
    for name in changed:
        if name not in timeline.now:
            timeline.begin(Stage(name, 0))
    for change in changes:
        timeline.take(change)
    return timeline.all


class _Timeline:
    """Takes what statements did, in order; ``now`` is the stage that each table is in."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self.now: dict[str, Stage] = {}
        self.all: list[Stage] = []

    def begin(self, stage: Stage) -> None:
        self.now[stage.table] = stage
        self.all.append(stage)

    def take(self, change: TableChange) -> None:
        name, seq = change.table, change.seq
        match change.kind:
            case "create" | "truncate":
                before = self._end(name, change)
                emptied = before if change.kind == "truncate" else None
                self.begin(Stage(name, seq, emptied=emptied))
            case "drop":
                for each in [each for each in self.now if is_dropped(each, name)]:
                    self._end(each, change)
                    self.begin(Stage(each, seq))
            case "rename":
                self._rename(name, change.renamed or name, change)
            case "alter" if change.alteration is not None:
                self._alter(change, change.alteration)
            case "unclear":
                for each in [each for each in self.now if name in {each, "*.*"}]:
                    self._stop(each, change, f"a statement was not understood: {change.reason}")

    def _end(self, name: str, change: TableChange, *, go_on: bool = False) -> Stage | None:
        stage = self._cut(name, change.seq)
        if stage is not None:
            stage.end = End(change.micros, change.seq if go_on else None)
        return stage

    def _cut(self, name: str, seq: int) -> Stage | None:
        stage = self.now.pop(name, None)
        if stage is not None:
            stage.high = seq
        return stage

    def _stop(self, name: str, change: TableChange, reason: str) -> None:
        if self._end(name, change) is not None:
            self.begin(Stage(name, change.seq, refused=reason))

    def _rename(self, old: str, new: str, change: TableChange) -> None:
        seq = change.seq
        before = self._end(old, change, go_on=self._wanted(new))
        self.begin(Stage(old, seq))
        if not self._wanted(new):
            return
        self._end(new, change)
        stage = Stage(new, seq, after=before, unknown=old if before is None else None)
        if not self._wanted(old):
            stage.refused = f"it was named {old} before, which is not mirrored"
        self.begin(stage)

    def _alter(self, change: TableChange, done: Alteration) -> None:
        name, seq = change.table, change.seq
        if name not in self.now:
            if not done.moves_rows or not self._wanted(name):
                return
            self.begin(Stage(name, seq))  # rows may come that no event has
        if done.moves_rows:
            self._stop(name, change, done.moves_rows)
        else:
            before = self._end(name, change, go_on=True) if done.reshapes else self._cut(name, seq)
            stage = Stage(name, seq, after=before, altered=done)
            stage.altered_at = change.micros if done.redeclared or done.converts else None
            self.begin(stage)
