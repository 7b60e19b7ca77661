"""Tables that others wrote to: their rows are put into files of ours again, by bucket.

Someone's MERGE or OPTIMIZE leaves files that hold any keys. Before the next batch all rows of such
a table, as it is now, are written into files by the hash of their key, in a commit of its own. What
others changed in the rows stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.errors import PipelineError
from tailrace.spark.current import raw
from tailrace.spark.current.flat import SEQ
from tailrace.spark.current.fold import key_columns
from tailrace.spark.current.keys import buckets
from tailrace.spark.current.rows import RAW, ROW_GROUP
from tailrace.spark.failure import failure
from tailrace.spark.history.jobs import HISTORY_FIELDS
from tailrace.spark.lake.steps import Step, hidden_of
from tailrace.spark.lake.table_batch import STATE_FIELDS, Move, state_schema
from tailrace.spark.manifest.manifest import DataFile, History
from tailrace.spark.parquet.file import ParquetFile
from tailrace.spark.parquet.footer import as_written
from tailrace.spark.parquet.shapes import merged, plain_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tailrace.spark.lake.steps import Content, Tables
    from tailrace.spark.manifest.manifest import Current, Manifest, TableState

    Failed = dict[str, Exception]

_SOURCE: Final = "_source"
_OPEN: Final = "_is_current"


@dataclass(frozen=True)
class Part:
    """What is kept of a table in one of the lake's, for all sources that have it."""

    table: str
    part: str
    states: Mapping[str, TableState]

    def state(self, key: str) -> Current | History | None:
        table = self.states[key]
        return table.current if self.part == "current" else table.history

    def expected(self) -> set[str]:
        found = set()
        for table in self.states.values():
            if self.part == "current" and table.current is not None:
                found |= {file.name for file in table.current.data}
            if self.part == "history" and table.history is not None:
                found |= {file.name for file in table.history.open if file is not None}
        return found

    def names(self, key: str) -> dict[str, str]:
        """What the columns of a state's open rows are called in the table, where not the same."""
        state = self.state(key)
        if state is None:
            return {}
        return merged(self.states[key].shapes[self.part], plain_schema(state.columns))[1]

    def fail(self, error: Exception, failed: Failed) -> None:
        """Note why the table cannot be used; raises what is not its own failure."""
        failure(error)
        failed.update(dict.fromkeys(self.states, error))

    def is_altered(self, now: Content | None, hidden: Mapping[str, str], top: Path) -> bool:
        """Whether the table's rows are in other files than ours, or others of them are hidden.

        ``hidden`` are those that are to be. Raises `PipelineError` where the table is gone.
        """
        expected = self.expected()
        if now is None:
            if expected:
                raise PipelineError(f"table {self.table} is gone from {top}: bring it back")
            return False
        there: Collection[str] = now.files
        if self.part == "history":
            there = {each for each in there if not each.startswith("closed-")}
        return there != expected or now.deleted != (hidden if self.part == "current" else {})


def reclaim(
    tables: Tables, staging: Path, before: Manifest, failed: Failed
) -> tuple[Manifest, list[Step], list[Move]] | None:
    """The batch that brings tables back into our files; None where nobody has written to any.

    Tables that cannot be read, or made ours, go to ``failed``. Where that is all of them, the error
    is raised: the lake is damaged as a whole, or what it is in.
    """
    marks, found = look(tables, before, failed)
    _check_failed(before, failed)
    states = dict(before.tables)
    steps: list[Step] = []
    moves: list[Move] = []
    version = before.next
    for number, part in enumerate(found):
        folder = staging / "reclaim" / str(number)
        folder.mkdir(parents=True)
        adds: list[str] = []
        try:
            written = _written(tables, part, folder, before.shards)
        except PipelineError as error:
            part.fail(error, failed)
            continue
        for key, files in written.items():
            names = part.names(key)
            placed: list[DataFile | None] = []
            closed = DataFile("", 0, 0, 0)
            for name, file, path in files:
                if file is None:
                    placed.append(None)
                    continue
                target = f"{name}-{version:06}-{len(adds):06}.parquet"
                adds.append(target)
                renamed = names if name == "open" else {}
                moves.append(Move(path, tables.folder(part.table) / target, renamed))
                if name == "closed":
                    closed = replace(file, name="")
                else:
                    placed.append(replace(file, name=target))
            states[key] = _with(states[key], part.part, tuple(placed), closed)
        steps.append(Step(part.table, tuple(adds), "", base=marks.get(part.table)))
    _check_failed(before, failed)
    if not steps:
        return None
    return replace(before, version=version, tables=states), steps, moves


def _check_failed(before: Manifest, failed: Failed) -> None:
    """Raises what the tables failed with where no other is left."""
    if failed and next(_parts(before, failed), None) is None:
        raise next(iter(failed.values()))


def look(
    tables: Tables, manifest: Manifest, failed: Failed
) -> tuple[dict[str, str | None], list[Part]]:
    """The marks of the tables that have current states and histories, and those of these tables
    that others have written to since we did.

    Whoever writes to a table later changes its mark. Tables that cannot be read go to ``failed``.
    """
    marks: dict[str, str | None] = {}
    found: list[Part] = []
    hidden = hidden_of(manifest)
    for part in _parts(manifest, failed):
        try:
            now = tables.content(part.table)
            marks[part.table] = None if now is None else now.mark
            if part.is_altered(now, hidden.get(part.table, {}), tables.top):
                found.append(part)
        except PipelineError as error:
            part.fail(error, failed)
    return marks, [part for part in found if not failed.keys() & part.states.keys()]


def _parts(before: Manifest, failed: Failed) -> Iterator[Part]:
    """What is kept of the tables that have not failed, and do not stand still."""
    found: dict[tuple[str, str], dict[str, TableState]] = {}
    for key, state in before.tables.items():
        for part, table in state.parts.items():
            if part != "changelog" and part in state.shapes:
                found.setdefault((table, part), {})[key] = state
    for (table, part), states in found.items():
        asides = [state.set_aside for state in states.values()]
        if all(each is not None and part in each.parts for each in asides):
            continue
        if not failed.keys() & states.keys():
            yield Part(table, part, states)


def _with(
    state: TableState, part: str, files: tuple[DataFile | None, ...], closed: DataFile
) -> TableState:
    if part == "current" and state.current is not None:
        return replace(state, current=replace(state.current, files=files, tails=()))
    if part == "history" and state.history is not None:
        sums = (closed,) if closed.rows else ()
        return replace(state, history=replace(state.history, open=files, closed=sums))
    return state


_Written = list[tuple[str, DataFile | None, Path]]


def _written(tables: Tables, part: Part, folder: Path, shards: bool) -> dict[str, _Written]:
    """The table's rows in new files: by source, bucket by bucket, and closed versions last."""
    columns = state_schema(part.states, part.part, shards)
    spills: dict[tuple[str, int], _Spill] = {}
    counts = {
        key: max(1, len(state.open if isinstance(state, History) else state.files))
        for key in part.states
        if (state := part.state(key)) is not None and state.refused is None
    }
    for batch in tables.scan(part.table, columns):
        rows = pa.Table.from_batches([batch])
        for key, count in counts.items():
            ours = rows
            if shards:
                ours = rows.filter(pc.equal(rows.column(_SOURCE), part.states[key].source))
            state = part.state(key)
            if not ours.num_rows or state is None:
                continue
            chosen = _under_own_names(ours, state, part.names(key))
            places = _places(chosen, state.key, count)
            if part.part == "history":
                places[~ours.column(_OPEN).fill_null(False).to_numpy()] = count
            for place in np.unique(places).tolist():
                kept = ours if place == count else chosen
                spill = spills.get((key, place))
                if spill is None:
                    path = folder / f"{len(spills)}.arrow"
                    spill = spills[key, place] = _Spill(path, kept.schema)
                spill.write(kept.filter(pa.array(places == place)))
    found: dict[str, _Written] = {}
    for key, count in counts.items():
        state = part.state(key)
        written: _Written = []
        for place in range(count + (part.part == "history")):
            name = "part" if part.part == "current" else "open" if place < count else "closed"
            spill = spills.get((key, place))
            if spill is None or state is None:
                written.append((name, None, folder))
                continue
            path = folder / f"{len(found)}-{place}.parquet"
            if name == "closed":  # of any columns that the table had
                file = _put(spill.read(), [(SEQ, "ascending")], path)
            else:
                order = [*((each, "ascending") for each in state.key), (SEQ, "ascending")]
                file = _put(as_written(spill.read(), state.columns), order, path)
            written.append((name, file, path))
        found[key] = written
    return found


def _places(
    rows: pa.Table, key: tuple[str, ...], count: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The bucket of each row's key, as those who fold changes find it."""
    chosen = rows.select(list(key))
    texts = raw.texts(rows.column(RAW))
    for name in key:
        if (text := texts.get(name)) is not None:
            chosen = chosen.append_column(raw.beside(name), pa.chunked_array([text]))
    return buckets(key_columns([chosen], key), count)


def _under_own_names(
    rows: pa.Table, state: Current | History, names: Mapping[str, str]
) -> pa.Table:
    """Rows of a table in the columns of a state, as it calls them; ours stay."""
    shape = [names.get(each, each) for each in state.columns.names]
    ours = [field.name for field in (*STATE_FIELDS, *HISTORY_FIELDS)]
    ours = [each for each in (_SOURCE, *dict.fromkeys(ours)) if each in rows.schema.names]
    return rows.select([*shape, *ours]).rename_columns([*state.columns.names, *ours])


def _put(rows: pa.Table, order: list[tuple[str, str]], path: Path) -> DataFile:
    """A file of rows in an order."""
    rows = rows.take(pc.sort_indices(rows, order))
    file = ParquetFile(path, bounded=[name for name, _ in order])
    for start in range(0, max(rows.num_rows, 1), ROW_GROUP):
        file.write(rows.slice(start, ROW_GROUP))
    return DataFile("", rows.num_rows, file.close(), rows.nbytes)


class _Spill:
    """Rows on disk, in the order in which they came."""

    def __init__(self, path: Path, columns: pa.Schema) -> None:
        self._path = path
        self._writer = pa.ipc.new_file(str(path), columns)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def read(self) -> pa.Table:
        self._writer.close()
        with pa.memory_map(str(self._path)) as file:
            return pa.ipc.open_file(file).read_all()
