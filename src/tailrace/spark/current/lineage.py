"""Which changes make up each table, where statements made, emptied, renamed or dropped tables.

``RENAME TABLE t TO t_old, t_new TO t`` (as online schema changes do it) makes the rows of ``t_new``
those of ``t``: a table's life may be told in changes of several names. All here is by ``_seq``, for
one source.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace.spark.current.conform import Source
from tailrace.table_name import TableName, database_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tailrace.columns import TableChange
    from tailrace.spark.current.alters import Alteration


@dataclass(frozen=True)
class Segment:
    """The changes of ``table`` from ``low`` to before ``high`` (None: to the end)."""

    table: str
    low: int
    high: int | None = None


@dataclass
class Life:
    """How a table came to be what it is at the end.

    ``base`` names the table in the committed version whose current state it begins with; ``before``
    is the life that a TRUNCATE ended, of which only the columns are left. ``alterations`` are in
    order, with their ``_seq``. ``refused`` says why the rows cannot be told. ``dropped`` says that
    there is no table of this name, unless changes follow: then a statement made it that leaves open
    whether it did (CREATE TABLE IF NOT EXISTS).
    """

    segments: list[Segment] = field(default_factory=list)
    base: str | None = None
    alterations: list[tuple[int, Alteration]] = field(default_factory=list)
    before: Life | None = None
    refused: str | None = None
    dropped: bool = False

    def end(self, seq: int) -> None:
        """No change from ``seq`` on belongs to it under its present name."""
        last = self.segments[-1]
        self.segments[-1] = Segment(last.table, last.low, seq)


def lives(
    known: Iterable[str],
    changed: Iterable[str],
    changes: Sequence[TableChange],
    alterations: Mapping[int, Mapping[str, Alteration]],
    wanted: Callable[[str], bool],
) -> dict[str, Life]:
    """The lives of all tables, by the names that they have at the end.

    ``known`` are the tables of the committed version, ``changed`` those with changes now;
    ``changes`` what statements did, in order, and ``alterations`` what the altering ones did, by
    ``_seq`` and table. ``wanted`` tells the tables that are mirrored.
    """
    found = {name: Life([Segment(name, 0)], base=name) for name in known}
    for name in changed:
        found.setdefault(name, Life([Segment(name, 0)]))
    for change in changes:
        _take(found, change, alterations, wanted)
    return found


def _take(
    found: dict[str, Life],
    change: TableChange,
    alterations: Mapping[int, Mapping[str, Alteration]],
    wanted: Callable[[str], bool],
) -> None:
    name, seq = change.table, change.seq
    match change.kind:
        case "create":
            found[name] = Life([Segment(name, seq)])
        case "truncate":
            found[name] = Life([Segment(name, seq)], before=found.get(name))
        case "drop":
            gone = [each for each in found if is_dropped(each, name)]
            for each in gone:
                found[each] = Life([Segment(each, seq)], dropped=True)
        case "rename":
            new = change.renamed or name
            moved = found.get(name) or Life([Segment(name, seq)])
            if not wanted(name):
                moved.refused = f"it was named {name} before, which is not mirrored"
            moved.end(seq)
            moved.segments.append(Segment(new, seq))
            found[name] = Life([Segment(name, seq)], dropped=True)
            found[new] = moved
        case "alter":
            for altered, done in alterations.get(seq, {}).items():
                if life := found.get(altered):
                    life.alterations.append((seq, done))
                    if done.moves_rows and not life.dropped:
                        life.refused = (
                            "rows came or went with a partition or tablespace (ALTER TABLE), which "
                            "the log does not name"
                        )
        case "unclear":
            for each in list(found):
                if name in {each, "*.*"} and not found[each].dropped:
                    found[each].refused = f"a statement was not understood: {change.reason}"


def is_dropped(table: str, dropped: str) -> bool:
    """Whether a table is the one that a `TableChange` drops, or is in the database."""
    database = database_of(dropped)
    return table == dropped if database is None else TableName.parse(table).database == database


def final_columns(columns: pa.Schema, alterations: Sequence[Alteration]) -> pa.Schema:
    """The columns after alterations; those added are not among them, as no row tells their type."""
    places = sources_after(columns.names, alterations)
    renamed = {source.name: name for name, source in places.items() if source.name is not None}
    kept = [each for each in columns if each.name in renamed]
    return pa.schema([each.with_name(renamed[each.name]) for each in kept])


def sources_after(names: Sequence[str], alterations: Sequence[Alteration]) -> dict[str, Source]:
    """For each column after the alterations, where rows with columns ``names`` have it.

    Column names are the same whatever their case, to the servers and here.
    """
    now = {name: Source(name) for name in names}
    for alteration in alterations:
        by_fold = {name.casefold(): name for name in now}
        moved = {
            new: now[by_fold[old.casefold()]]
            for old, new in alteration.renamed.items()
            if old.casefold() in by_fold
        }
        gone = {name.casefold() for name in (*alteration.renamed, *alteration.dropped)}
        now = {name: source for name, source in now.items() if name.casefold() not in gone}
        now |= moved
        there = {name.casefold() for name in now}
        now |= {
            name: source
            for name, source in alteration.added.items()
            if name.casefold() not in there  # ADD COLUMN IF NOT EXISTS
        }
        for written, fit in alteration.fits.items():
            for name in [name for name in now if name.casefold() == written.casefold()]:
                now[name] = replace(now[name], fits=(*now[name].fits, fit))
    return now


def sources_for(
    target: Iterable[str], names: Sequence[str], alterations: Sequence[Alteration]
) -> dict[str, Source]:
    """Where rows with columns ``names`` have each of the target's columns."""
    after = {name.casefold(): source for name, source in sources_after(names, alterations).items()}
    missing = Source(None, unknown="no statement in the log says how it was added")
    return {name: after.get(name.casefold(), missing) for name in target}
