"""The current state of tables: what is to be done for each, worked out by the driver.

A small table is one job. A large one is cut into buckets by the hash of its key: first each of its
changelog files is cut into buckets, then each bucket that a change touches is folded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.columns.arrays import described_column
from tailrace.schema.alteration import Added, Alteration
from tailrace.spark.manifest.manifest import TableRows
from tailrace.spark.record.types import SHARD
from tailrace.spark.state.current.flat import STAMP, Target
from tailrace.spark.state.current.lineage import Lineage, Source
from tailrace.spark.state.current.rows import STATE_FIELDS, Base, Piece
from tailrace.spark.state.failure import RejectedError
from tailrace.values.sql_type import sql_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tailrace.spark.state.built import State
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.current.timeline import Life, Segment
    from tailrace.spark.state.source_changes import SourceChanges


BUCKET_BYTES: Final = 32 << 20
"""Bytes that a bucket's rows and changes take in memory, at most, about: what a change rewrites
(docs/design/amplification.md).
"""
_MOST_BUCKETS: Final = 1 << 12

OURS: Final = tuple(each.name for each in STATE_FIELDS)


@dataclass(frozen=True)
class TablePlan:
    """How a table's current state is made: ``pieces`` in log order, applied to the ``base``, which
    has the rows of the state ``before``.

    ``rows`` is the new state without files: what a reader should know is in its notes. ``buckets``
    is how many there are to be. ``reshaped`` says that the base's rows do not have the target's
    columns, or are in other buckets. ``partial`` says that some images are not full, ``memory`` is
    the bytes that all its rows and changes take. ``changed`` counts the changes, of which several
    may be of one row, ``fresh`` is the bytes that they take.
    """

    target: Target
    rows: TableRows
    before: State | None
    pieces: tuple[Piece, ...]
    base: Base | None
    buckets: int
    reshaped: bool
    partial: bool
    memory: int
    changed: int
    fresh: int


def plan_table(
    life: Life,
    source: SourceChanges,
    committed: Mapping[str, State],
    *,
    shard: str | None = None,
    ours: Collection[str] = OURS,
    stamp: str = STAMP,
) -> TablePlan | None:
    """The plan for a table; None where nothing tells its columns, or it is not there any more.

    Its base knows the rows that are deleted from its files. ``committed`` are the states of the
    version before, by table, with the paths of their files. ``ours`` names the fields after the
    table's columns; with ``shard`` they have ``_source`` before them. ``stamp`` is the field that
    has a row's time. Raises `RejectedError` where there can be no state.
    """
    found = _overlapping(life, source.keyed)
    if life.dropped and not found:
        return None
    known = _known(life, committed)
    if reason := life.refused or (known is not None and known[0].refused):
        raise RejectedError(reason)
    files = [file for _, file in found]
    for segment, file in found:
        if segment.table in source.keys:
            _check_given(file)
    shape = _shape(life, source.keyed, committed)
    if shape is None:
        return None
    target, notes, added = shape
    by_user = any(segment.table in source.keys for segment in life.segments)
    target = replace(target, given=by_user, shard=shard)
    unlogged = {name for file in files for name in file.unlogged}
    unlogged |= set(known[0].unlogged if known is not None else ())
    target, notes = _without(target, unlogged, notes)
    if not target.key:
        raise RejectedError(_no_key(files))
    _check_key(target.columns, target.key)
    ours = ours if shard is None else (*ours, SHARD)
    if taken := [name for name in target.columns.names if name.casefold() in ours]:
        raise RejectedError(f"its column {taken[0]} has a name that the lake needs")
    base, reshaped = None, False
    if known is not None and not (found and not any(known[1])):  # no rows have no shape
        base = _base(life, known, target, stamp)
        if set(base.key) == set(target.key):  # its buckets are of hashes in that order
            target = replace(target, key=base.key)
        same = all(each == Source(name) for name, each in base.sources.items())
        reshaped = not (same and known[0].columns.equals(target.columns))
    pieces = tuple(_pieces(life, found, target))
    partial = any(file.partial for file in files)
    origins = (*pieces, *((base,) if base else ()))
    one_key = all(each.key == target.key for each in origins)
    one_key = one_key and not any(each.sources[key].steps for each in origins for key in target.key)
    before = len(base.paths) if base is not None else None
    memory = fresh = sum(file.memory for file in files)
    if known is not None:
        memory += sum(each.memory for each in known[0].placed)
    one = not one_key or (partial and any(file.moved for file in files))
    buckets = 1 if one else _bucket_count(memory, before)
    if base is not None:
        reshaped = reshaped or buckets != before or not one_key
        if known is not None and life.base and any(file.deleted for file in known[0].data):
            base = replace(base, deleted=source.deleted(life.base))
    rows = TableRows(
        target.columns,
        target.key,
        (None,) * buckets,
        unseen=0 if known is None else known[0].unseen,
        notes=notes,
        unlogged=tuple(sorted(unlogged)),
        added=added,
    )
    changed = sum(file.rows for file in files)
    return TablePlan(
        target, rows, known, pieces, base, buckets, reshaped, partial, memory, changed, fresh
    )


def has_begun(
    life: Life,
    files: Mapping[str, Sequence[ChangeFile]],
    committed: Mapping[str, State],
) -> bool:
    """Whether a table had a state, in the version before or with its first rows since.

    If there can be none in the end, the table is set aside; others never have one, by their
    definition. A statement may have left nothing that the log tells, too.
    """
    now: Life | None = life
    while now is not None:
        known = _known(now, committed)
        if now.refused or (known is not None and known[0].key):
            return True
        first = next((file for _, file in _overlapping(now, files)), None)
        names = first.columns.names if known is None and first is not None and first.key else ()
        if names and not any(name.casefold() in OURS for name in names):
            return True
        now = now.before
    return False


def _known(life: Life, committed: Mapping[str, State]) -> State | None:
    """The state that a life begins with."""
    return None if life.base is None else committed.get(life.base)


def _overlapping(
    life: Life, files: Mapping[str, Sequence[ChangeFile]]
) -> list[tuple[Segment, ChangeFile]]:
    """The files that hold changes of a life, in log order, with the segment that they are for."""
    return [
        (segment, file)
        for segment in life.segments
        for file in files.get(segment.table, ())
        if file.last >= segment.low and (segment.high is None or file.first < segment.high)
    ]


def _shape(
    life: Life,
    files: Mapping[str, Sequence[ChangeFile]],
    committed: Mapping[str, State],
) -> tuple[Target, tuple[str, ...], tuple[tuple[str, str | None, str | None], ...]] | None:
    """The table's columns and key at the end of its life: those that its newest rows have.

    With notes, and the columns that it has besides, of which no row is known (`TableRows.added`).
    """
    emptied = []  # that have no columns but those from before a TRUNCATE
    while True:
        found = [file for _, file in _overlapping(life, files) if not file.derived]
        if found or life.base in committed:
            break
        if (before := life.before) is None:
            return None
        emptied.append(life)
        life = before
    known = _known(life, committed)
    if found:
        columns, key, since = found[-1].columns, found[-1].key, found[-1].last
    elif known is not None and known[0].key:
        columns, key, since = known[0].columns, known[0].key, -1
    else:  # it never had a state
        return None
    later = [done for seq, done in life.alterations if seq > since]
    if known is not None and not found:
        later.insert(0, _added_before(known[0]))
    for each in (later, *([done for _, done in one.alterations] for one in reversed(emptied))):
        lineage = Lineage(columns, each)
        columns = lineage.columns
        key = _renamed_key(key, lineage.sources(columns))
    notes = tuple(
        f"its column {name} is there with the first row that has it" for name, _, _ in lineage.added
    )
    return Target(columns, key), notes, lineage.added


def _added_before(current: TableRows) -> Alteration:
    """The columns that earlier runs met no row of, as if they were added now."""
    return Alteration(added={name: Added(text, unknown) for name, text, unknown in current.added})


def _without(
    target: Target, unlogged: set[str], notes: tuple[str, ...]
) -> tuple[Target, tuple[str, ...]]:
    """Leave columns out whose values the log does not hold; a note says so."""
    out = [name for name in target.columns.names if name in unlogged]
    if not out:
        return target, notes
    if key := [name for name in target.key if name in unlogged]:
        raise RejectedError(f"updates in the log lack its key column {key[0]}: give another key")
    kept = pa.schema([field for field in target.columns if field.name not in unlogged])
    note = (
        f"{', '.join(out)}: left out, since updates in the log lack them (generated columns, or"
        " columns whose definition is unknown: a new lake with --schema FILE has those)"
    )
    return replace(target, columns=kept), (*notes, note)


def _pieces(
    life: Life, found: Sequence[tuple[Segment, ChangeFile]], target: Target
) -> Iterator[Piece]:
    """Cut the files where an ALTER TABLE stands between their rows."""
    mattering = [(seq, done) for seq, done in life.alterations if done.matters]
    for segment, file in found:
        low: int | None = segment.low if segment.low > file.first else None
        end = segment.high if segment.high is not None and segment.high <= file.last else None
        cuts = [seq for seq, _ in mattering if file.first < seq <= file.last]
        cuts = [seq for seq in cuts if (low is None or seq > low) and (end is None or seq < end)]
        for high in (*cuts, end):
            start = file.first if low is None else low
            later = [done for seq, done in mattering if seq > start]
            sources = Lineage(file.columns, later).sources(target.columns)
            key = _renamed_key(file.key, sources)
            if not key:
                raise RejectedError(_no_key([file]))
            _check_key(file.columns, file.key)
            key = target.key if set(key) == set(target.key) else key
            yield Piece(file.path, sources, key, low, high)
            low = high


def _base(life: Life, known: State, target: Target, stamp: str) -> Base:
    current, paths = known
    alterations = [_added_before(current), *(done for _, done in life.alterations)]
    sources = Lineage(current.columns, alterations).sources(target.columns)
    buckets = len(current.files)
    return Base(
        paths[:buckets],
        sources,
        _renamed_key(current.key, sources),
        stamp,
        tails=tuple(path for path in paths[buckets:] if path is not None),
    )


def _renamed_key(key: Sequence[str], sources: Mapping[str, Source]) -> tuple[str, ...]:
    """The key by the names that its columns have at the end."""
    names = {source.name: name for name, source in sources.items() if source.name is not None}
    try:
        return tuple(names[name] for name in key)
    except KeyError as error:
        raise RejectedError(
            f"its key column {error.args[0]} was dropped by ALTER TABLE, and older rows have no "
            "other key"
        ) from None


def _no_key(files: Sequence[ChangeFile]) -> str:
    if any(file.names == "none" for file in files):
        return (
            "the log does not name its columns nor its primary key: create a new lake with "
            "--schema FILE, or of the server itself, which can be asked; with "
            "binlog_row_metadata=FULL on the source later rows have names"
        )
    return "it has no primary key"


def _check_given(file: ChangeFile) -> None:
    """Raises `RejectedError` where a file lacks a column of its given key."""
    if strange := [name for name in file.key if name not in file.columns.names]:
        raise RejectedError(
            f"the key given for it has {', '.join(strange)}, and its columns are "
            f"{', '.join(file.columns.names)}"
        )


def _check_key(columns: pa.Schema, key: Sequence[str]) -> None:
    for name in key:
        column = described_column(columns.field(name))
        if column is not None and column.has_equal_texts:
            raise RejectedError(
                f"its key column {name} is {sql_type(column)}: the member '' and the value"
                " without a member are read alike, so that two rows may have one key: remove that"
                " member, then empty the table and fill it again, or give another key (--keys)"
            )


def _bucket_count(memory: int, before: int | None) -> int:
    """Buckets for rows and changes of so many bytes; what there is stays unless it is too few."""
    wanted = 1
    while wanted * BUCKET_BYTES < memory and wanted < _MOST_BUCKETS:
        wanted *= 2
    return wanted if before is None or wanted > 2 * before else before
