"""What statements did to tables in a run: stages, and the lives that they make up.

TRUNCATE, DROP, RENAME and an ALTER TABLE that adds, drops or renames columns are changes of all
rows: all versions of a history end. After RENAME new versions start under the new name, after ALTER
in the new columns. So a version has exactly the columns that its table had while it was valid, and
a table's versions of a moment are what SELECT gave then. Any other ALTER TABLE leaves the versions
open. A stage is what lies between two such statements: a failure loses one stage at most.

A current state comes of all stages that its table continues, its life. ``RENAME TABLE t TO t_old,
t_new TO t`` (as online schema changes do it) makes the rows of ``t_new`` those of ``t``. All here
is by ``_seq``, for one source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.table_name import TableName, database_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tailrace.columns import TableChange
    from tailrace.schema.alteration import Alteration


@dataclass(frozen=True)
class End:
    """What ends all versions of a table: TRUNCATE, DROP, RENAME, ALTER, what cannot be told.

    ``micros`` is when. Where the rows continue, under another name or in other columns, ``anew`` is
    the ``_seq`` with which their new versions start.
    """

    micros: int
    anew: int | None = None


@dataclass(frozen=True)
class Segment:
    """The changes of ``table`` from ``low`` to before ``high`` (None: to the end)."""

    table: str
    low: int
    high: int | None = None


@dataclass
class Life:
    """How a table came to be what it is at the end.

    ``base`` names the table in the committed version whose current state it begins with;
    ``emptied`` is the stage that a TRUNCATE ended, of which only the columns are left.
    ``alterations`` are in order, with their ``_seq``. ``refused`` says why the rows cannot be told.
    ``dropped`` says that there is no table of this name, unless changes follow: then a statement
    made it that leaves open whether it did (CREATE TABLE IF NOT EXISTS).
    """

    segments: list[Segment] = field(default_factory=list)
    base: str | None = None
    alterations: list[tuple[int, Alteration]] = field(default_factory=list)
    emptied: Stage | None = None
    refused: str | None = None
    dropped: bool = False

    @property
    def before(self) -> Life | None:
        """The life that a TRUNCATE ended."""
        return None if self.emptied is None else life_of(self.emptied)

    @property
    def had(self) -> str | None:
        """The name of the table that it was before all changes, which may not be known; None for a
        new one.
        """
        first = self.segments[0]
        return first.table if first.low == first.high else self.base


@dataclass(eq=False)
class Stage:
    """The changes of ``table`` from ``low`` on, to before ``high`` (None: to the end).

    It begins with the committed state of ``base``, or with the rows that the stage ``after`` left
    and what ``altered`` made of them, or with none; ``emptied`` is the stage whose columns it has
    then, where a TRUNCATE ended it. ``end`` says how its versions ended, if they did. ``refused``
    says why its rows cannot be told; if that is a statement, ``stopped`` is the stage before it.
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
    stopped: Stage | None = None
    dropped: bool = False
    altered_at: int | None = None
    """When a statement altered the values of the rows that it begins with."""
    unknown: str | None = None
    """The name under which nothing is known of the table, before RENAME TABLE."""
    depth: int = 0
    """How many stages must be made before it, one after another."""

    @property
    def life(self) -> Life:
        """It as a life of its own; ``base`` is the rows it begins with."""
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


def life_of(stage: Stage) -> Life:
    """The life of a table up to the end of a stage: that of all stages that it continues."""
    chain = [stage]
    while (before := chain[-1].after or chain[-1].stopped) is not None:
        chain.append(before)
    first = chain[-1]
    life = Life(base=first.base, emptied=first.emptied, dropped=first.dropped)
    if first.unknown is not None:
        life.segments.append(Segment(first.unknown, first.low, first.low))
    for each in reversed(chain):
        low = each.low
        if life.segments and life.segments[-1].table == each.table:
            low = life.segments.pop().low
        life.segments.append(Segment(each.table, low, each.high))
        if each.altered is not None:
            life.alterations.append((each.low, each.altered))
        if each.refused is not None and not (each.stopped and life.dropped):
            life.refused = each.refused
    return life


def lives(
    known: Iterable[str],
    changed: Iterable[str],
    changes: Sequence[TableChange],
    wanted: Callable[[str], bool],
) -> dict[str, Life]:
    """The lives of all tables, by the names that they have at the end; given as to `stages`."""
    last = {stage.table: stage for stage in stages(known, changed, changes, wanted)}
    return {name: life_of(stage) for name, stage in last.items()}


def stages(
    known: Iterable[str],
    changed: Iterable[str],
    changes: Sequence[TableChange],
    wanted: Callable[[str], bool],
) -> list[Stage]:
    """All stages, each after those that it begins with.

    ``known`` are the tables of the committed version, ``changed`` those with changes now;
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


def is_named(written: str, table: str) -> bool:
    """Whether a statement that names ``written``, a table, a database or all, is about a table."""
    database = database_of(written)
    is_in = database is not None and TableName.parse(table).database == database
    return is_in or written in {table, "*.*"}


class _Timeline:
    """Takes what statements did, in order; ``now`` is the stage that each table is in."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self.now: dict[str, Stage] = {}
        self.all: list[Stage] = []

    def begin(self, stage: Stage) -> None:
        before = stage.after or stage.emptied
        stage.depth = 0 if before is None else before.depth + 1
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
                for each in [each for each in self.now if is_named(name, each)]:
                    self._end(each, change)
                    self.begin(Stage(each, seq, dropped=True))
            case "rename":
                self._rename(name, change.renamed or name, change)
            case "alter" if change.alteration is not None:
                self._alter(change, change.alteration)
            case "unclear":
                for each in [each for each in self.now if is_named(name, each)]:
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
        if (stopped := self._end(name, change)) is not None:
            self.begin(Stage(name, change.seq, refused=reason, stopped=stopped))

    def _rename(self, old: str, new: str, change: TableChange) -> None:
        seq = change.seq
        before = self._end(old, change, go_on=self._wanted(new))
        self.begin(Stage(old, seq, dropped=True))
        self._end(new, change)
        if not self._wanted(new):
            return
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
