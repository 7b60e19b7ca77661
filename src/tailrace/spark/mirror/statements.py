"""The statements of a batch that end a table's state, or let a table begin again, and where they
stand: there a batch is cut in two.

A statement that the log does not tell enough of sets a table aside. The batch before it brings the
table up to the statement, so its last state does not depend on how the log was cut into batches. A
statement that empties, drops or recreates a table brings it back: the batch after it needs nothing
of the rows before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.position import Position
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.state.current.timeline import is_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tailrace.columns import Split, TableChange
    from tailrace.spark.manifest.manifest import Manifest


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
    for key, state in with_status(manifest.tables):
        status, name = state.set_aside, str(state.full_name)
        if state.source != source or status is None:
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
