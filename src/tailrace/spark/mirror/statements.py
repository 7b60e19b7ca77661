"""The statements at which a batch is cut, and the cutting.

A statement that the log does not tell enough of sets a table aside. The batch before it brings the
table up to the statement, so its last state does not depend on how the log was cut into batches. A
statement that empties, drops or recreates a table brings it back: the batch after it needs nothing
of the rows before. Where foreign keys are carried out, a batch is cut where statements change them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from tailrace.columns.read.split import overlapping
from tailrace.constants import EventType
from tailrace.events.rows import ROWS_TYPES, WriteRowsEvent
from tailrace.position import Position
from tailrace.spark.input.cursor import SourceCursor
from tailrace.spark.lake.asides import set_aside
from tailrace.spark.state.current.timeline import is_named
from tailrace.storage import EventReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tailrace.columns import Split, TableChange
    from tailrace.schema.tables import TableState
    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.manifest.manifest import Manifest
    from tailrace.values.schema import TableDefinition

_SMALL: Final = 1 << 16
"""Bytes of log that are looked through for changes of rows."""
_CHANGES: Final = ROWS_TYPES.difference(WriteRowsEvent.TYPES) | {EventType.TRANSACTION_PAYLOAD}


class Cut(Exception):
    """A batch is to be cut in two at a place in a source's log."""

    def __init__(self, source: str, place: Position) -> None:
        super().__init__(source, place)
        self.source = source
        self.place = place


def placed(splits: Sequence[Split]) -> Iterator[tuple[Position, TableChange]]:
    """What statements in the splits did to tables, in order, and where their transactions begin."""
    for split in splits:
        for change in split.changes:
            if split.start <= change.offset < split.end:
                yield Position(split.file, change.began or change.offset), change


def restarts(
    manifest: Manifest, source: str, splits: Sequence[Split]
) -> dict[str, tuple[Position, TableChange]]:
    """The tables of a source that are set aside and come back, by key: the first statement that
    empties, drops or recreates each, and where it stands. So does one that renames it, unless it
    can be taken up again under its old name. All changes of such a table were read.
    """
    found = {}
    for key, status in set_aside(manifest).items():
        state = manifest.tables[key]
        name = str(state.full_name)
        if state.source != source:
            continue
        if status.batch or status.unnamed or "changelog" in status.parts:
            continue
        for at, change in placed(splits):
            if change.kind == "rename":
                comes = change.renamed == name or (status.ended and change.table == name)
            else:
                comes = change.kind in {"create", "truncate", "drop"}
                comes = comes and is_named(change.table, name)
            if comes:
                found[key] = at, change
                break
    return found


def at_a_restart(manifest: Manifest, taken: Mapping[str, Taken]) -> Cut | None:
    """Where a table that is set aside comes back, but at the batch's begin; None: nowhere."""
    for source, each in taken.items():
        found = restarts(manifest, source, each.splits).values()
        if places := [at for at, _ in found if at > each.begin]:
            return Cut(source, min(places))
    return None


def _names_any(change: TableChange, tables: Collection[str]) -> bool:
    return any(is_named(each, table) for each in change.names for table in tables)


def earlier_names(splits: Sequence[Split], tables: Collection[str]) -> set[str]:
    """The tables' names, and those that they had before RENAME TABLE gave them these."""
    found = set(tables)
    renames = [each for split in splits for each in split.changes if each.kind == "rename"]
    for each in sorted(renames, key=lambda change: change.seq, reverse=True):
        if each.renamed in found:
            found.add(each.table)
    return found


def between(splits: Sequence[Split], tables: Collection[str]) -> Position | None:
    """Where to cut the splits to find the statement that ends the state of one of the tables.

    It is in the middle of all statements about them but for the first one of the splits.
    """
    begin = Position(splits[0].file, splits[0].start) if splits else None
    names = earlier_names(splits, tables)
    found = sorted(
        {at for at, change in placed(splits) if at != begin and _names_any(change, names)}
    )
    return found[len(found) // 2] if found else None


def first_statement(splits: Sequence[Split], table: str) -> str:
    """The statement about a table with which splits begin, as reasons quote it; empty if none."""
    names = earlier_names(splits, [table])
    for at, change in placed(splits):
        if at != Position(splits[0].file, splits[0].start):
            break
        if _names_any(change, names):
            return change.statement
    return ""


def in_two(
    taken: Mapping[str, Taken],
    cut: Cut,
    manifest: Manifest,
    given: Sequence[TableDefinition | TableState],
    *,
    cascades: bool,
) -> list[Mapping[str, Taken]]:
    """A batch as two: other sources are in the first; none where no transaction begins there.

    ``given`` are definitions of tables of the user's, ``cascades`` is as in `SourceCursor`.
    """
    each, state = taken[cut.source], manifest.sources.get(cut.source)
    known, last = each.splits, each.splits[-1]
    cursor = SourceCursor(
        each.series,
        state,
        given,
        hold=False,
        begin=each.begun.position if state is None and each.begun is not None else None,
        cascades=cascades,
        lowers_names=known[0].catalogue.lowers_names,
        cuts=(cut.place,),
    )
    splits = cursor.upto(each.end, enough=sum(one.end - one.start for one in known))
    splits[-1] = replace(splits[-1], whole=last.whole, keys=last.keys)
    splits = [replace(one, left_out=_left_out(one, known)) for one in splits]
    first = [one for one in splits if Position(one.file, one.start) < cut.place]
    rest = splits[len(first) :]
    if not (first and rest):
        return []
    return [
        {**taken, cut.source: replace(each, splits=first)},
        {cut.source: replace(each, splits=rest)},
    ]


def _left_out(split: Split, known: Iterable[Split]) -> tuple[tuple[int, int], ...]:
    """What a split leaves out: a later file, which is not read here, may roll back more of it."""
    ranges = {*split.left_out}
    ranges.update(*(each.left_out for each in known if each.file == split.file))
    return overlapping([*ranges], split.start, split.end)


def where_keys_change(taken: Mapping[str, Taken]) -> list[Mapping[str, Taken]]:
    """What is taken as several batches, where foreign keys that are carried out change."""
    parts = [
        [(source, replace(each, splits=splits)) for splits in turns(each.splits)]
        for source, each in taken.items()
    ]
    return [dict(each for each in some if each is not None) for some in zip_longest(*parts)]


def turns(splits: Sequence[Split]) -> list[list[Split]]:
    """The splits in parts, cut where statements change tables with foreign keys that change rows;
    an empty one where there are none.

    In each part the keys, and the columns that they need, are the same for all rows that matter: so
    what foreign keys did in it is worked out by those at its end. A part in which nothing can
    cascade goes together with the next one.
    """
    found: list[list[Split]] = [[]]
    for split in splits:
        if split.apart and found[-1] and _may_cascade(found[-1]):
            found.append([])
        found[-1].append(split)
    return found


def _may_cascade(splits: Sequence[Split]) -> bool:
    """Whether rows may be updated or deleted in the splits."""
    if sum(split.end - split.start for split in splits) > _SMALL:
        return True
    for split in splits:
        for offset, raw in EventReader(split.log, start=split.start):
            if offset >= split.end:
                break
            if offset >= split.start and raw[4] in _CHANGES:
                return True
    return False
