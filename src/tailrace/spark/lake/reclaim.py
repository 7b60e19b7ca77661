"""Tables that others wrote to: their rows are put into files of ours again, by bucket.

Someone's MERGE or OPTIMIZE leaves files that hold any keys. Before the next batch tasks write all
rows of such a table, as it is now, into files by the hash of their key, and a commit of its own
takes these. What others changed in the rows stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.errors import PipelineError
from tailrace.spark.lake.iceberg.paths import data_file
from tailrace.spark.lake.plan import deleted_counts, listed, state_schema, summed
from tailrace.spark.lake.tables import Step, rows_of, unread_deletes
from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.parquet.deleted import NO_ROWS, without
from tailrace.spark.parquet.footer import as_written, row_groups
from tailrace.spark.record.types import SHARD
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import SEQ
from tailrace.spark.state.current.fold import key_columns
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.rows import RAW, ROW_GROUP, STATE_FIELDS, bytes_in
from tailrace.spark.state.failure import all_done, failure
from tailrace.spark.state.history import HISTORY_FIELDS
from tailrace.spark.state.spill import read_spill, write_spill

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tailrace.spark.lake.plan import Places
    from tailrace.spark.lake.tables import Content, Tables
    from tailrace.spark.manifest.manifest import Manifest, TableRows, TableState
    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.parquet.file import DataFolder, ParquetFile
    from tailrace.spark.runtime.tasks import Runner

    Failed = dict[str, Exception]

_OPEN: Final = "_is_current"


@dataclass(frozen=True)
class Part:
    """What is kept of a table in one of the lake's, for all sources that have it."""

    table: str
    part: str
    states: Mapping[str, TableState]

    def rows(self, key: str) -> TableRows | None:
        """A source's current state or history."""
        return rows_of(self.states[key], self.part)

    @property
    def mark(self) -> str | None:
        """The table's mark since Tailrace last wrote to it; None if that is not known."""
        marks = (table.marks.get(self.part) for table in self.states.values())
        return next((each for each in marks if each is not None), None)

    def fail(self, error: Exception, failed: Failed) -> None:
        """Note why the table cannot be used; raises what is not its own failure."""
        failure(error)
        failed.update(dict.fromkeys(self.states, error))

    def is_altered(self, tables: Tables, *, lists_files: bool) -> bool:
        """Whether the table's rows are in other files than ours, or others of them are deleted.

        Raises `PipelineError` where the table is gone, or, without a log, a file of it.
        """
        expected = listed(self.states, self.part)
        now = tables.content(self.table)
        if now is None:
            if expected:
                raise PipelineError(f"table {self.table} is gone from {tables.top}: restore it")
            return False
        if lists_files:
            if gone := expected - now.files:
                path = tables.folder(self.table) / min(gone)
                raise PipelineError(f"its file {path} is gone: bring it back")
            return False
        if self.part == "history":
            opened = {each for each in now.files if not each.startswith("closed-")}
            return opened != expected or bool(now.deleted)
        return now.files != expected or not self._has_deleted(tables, now)

    def _has_deleted(self, tables: Tables, now: Content) -> bool:
        """Whether the rows that are deleted in a current state are those that we have deleted."""
        counts = {name: count for name, count in deleted_counts(self.states).items() if count}
        if counts != {name: rows.count for name, rows in now.deleted.items()}:
            return False
        if not counts or self.mark is None:  # they cannot be compared
            return True
        try:
            ours = tables.content(self.table, self.mark)
            return ours is not None and all(
                rows == now.deleted[name] or np.array_equal(rows.read(), now.deleted[name].read())
                for name, rows in ours.deleted.items()
            )
        except PipelineError:  # what it had can no longer be read
            return False


def reclaim(
    places: Places,
    staging: Path,
    altered: Sequence[Part],
    marks: Mapping[str, str | None],
    failed: Failed,
    run: Runner,
    retried: Collection[str],
) -> tuple[Manifest, list[Step]] | None:
    """The batch that brings tables back into our files; None where nobody has written to any.

    Tables that cannot be read, or made ours, go to ``failed``. Where that is all of them, the error
    is raised: the lake is damaged as a whole, or what it is in.
    """
    before = places.before
    _check_failed(before, failed, retried)
    states: dict[str, TableState] = {}
    steps: list[Step] = []
    for number, part in enumerate(altered):
        folder = staging / "reclaim" / str(number)
        folder.mkdir(parents=True)
        try:
            made, adds = _remade(places, part, folder, run)
        except PipelineError as error:
            part.fail(error, failed)
            continue
        for key, rows in made.items():
            state = states.get(key) or before.tables[key]
            is_current = part.part == "current"
            states[key] = (
                replace(state, current=rows) if is_current else replace(state, history=rows)
            )
        steps.append(Step(part.table, tuple(adds), "", base=marks.get(part.table)))
    _check_failed(before, failed, retried)
    if not steps:
        return None
    return replace(before.updated(states), version=before.next), steps


def _check_failed(before: Manifest, failed: Failed, retried: Collection[str]) -> None:
    """Raises what the tables failed with where no other is left; a retried one may fail again."""
    causes = [error for key, error in failed.items() if key not in retried]
    if causes and next(_parts(before, failed), None) is None:
        raise causes[0]


def look(
    tables: Tables,
    manifest: Manifest,
    failed: Failed,
    retried: Collection[str],
    keys: Collection[str] | None,
) -> tuple[dict[str, str | None], list[Part]]:
    """The marks of the tables that have current states and histories, and those of these tables
    that others have written to since we did; of some tables, by key, or of all.

    Tables that stand still are left out, unless they are ``retried``. Whoever writes to a table
    later changes its mark. Tables that cannot be read go to ``failed``.
    """
    marks: dict[str, str | None] = {}
    found: list[Part] = []
    lists_files = manifest.options.lists_files
    for part in _parts(manifest, failed, retried, keys):
        try:
            marks[part.table] = now = tables.mark(part.table)
            changed = now is None or now != part.mark
            if changed and part.is_altered(tables, lists_files=lists_files):
                found.append(part)
        except PipelineError as error:
            part.fail(error, failed)
    return marks, [part for part in found if not failed.keys() & part.states.keys()]


def _parts(
    before: Manifest,
    failed: Failed,
    retried: Collection[str] = (),
    keys: Collection[str] | None = None,
) -> Iterator[Part]:
    """What is kept of the tables that have not failed, and do not stand still or are retried."""
    found: dict[tuple[str, str], dict[str, TableState]] = {}
    for key in before.keys_of_tables(keys):
        state = before.tables[key]
        for part, table in state.parts.items():
            if part in state.shapes and (part != "changelog" or before.options.lists_files):
                found.setdefault((table, part), {})[key] = state
    for (table, part), states in found.items():
        still = (
            key not in retried and (aside := state.set_aside) is not None and part in aside.parts
            for key, state in states.items()
        )
        if not all(still) and not failed.keys() & states.keys():
            yield Part(table, part, states)


@dataclass(frozen=True)
class _Target:
    """What is to be made of a source's rows in a table: ``count`` files by the hash of the key.

    ``source`` is the one whose rows these are, None where the table has one. ``columns`` are those
    of the rows, ``names`` what the table calls them where not the same. Of a history the versions
    that are ``open`` are so, and the others are in files of their own.
    """

    source: str | None
    key: tuple[str, ...]
    count: int
    columns: pa.Schema
    names: Mapping[str, str]
    open: bool


@dataclass(frozen=True)
class TakeJob:
    """Take a data file apart: its live rows by target and bucket, in spill files in ``folder``.

    Ended versions go to files in ``out``.
    ``columns`` are those of the table, ``called`` their names in others' files.
    """

    path: str
    deleted: DeletedRows | None
    columns: pa.Schema
    called: Mapping[str, str]
    targets: tuple[_Target, ...]
    folder: Path
    out: DataFolder

    @property
    def reads(self) -> int:
        """The bytes that it reads."""
        return bytes_in((self.path,))


@dataclass(frozen=True)
class PutJob:
    """Write the rows of spill files to a file in ``out``, by their key."""

    spills: tuple[str, ...]
    target: _Target
    out: DataFolder

    @property
    def reads(self) -> int:
        """The bytes that it reads."""
        return bytes_in(self.spills)


def take(job: TakeJob) -> tuple[dict[tuple[int, int], list[str]], dict[int, DataFile]]:
    """Do a `TakeJob`: spill files by the target's number and the bucket, and files of ended
    versions by target. A task that Spark repeats writes into another folder below the job's.
    """
    folder = job.folder / uuid4().hex
    folder.mkdir(parents=True)
    spills: dict[tuple[int, int], list[str]] = {}
    closed: dict[int, tuple[ParquetFile, int, int]] = {}
    gone = NO_ROWS if job.deleted is None else job.deleted.read()
    first = 0
    for group in row_groups(job.path, back=False):
        every = _in_columns(without(group, first, gone), job)
        first += group.num_rows
        for number, target in enumerate(job.targets):
            rows = every
            if target.source is not None:
                rows = rows.filter(pc.equal(rows.column(SHARD), target.source))
            if target.open:
                is_open = rows.column(_OPEN).fill_null(False)
                ended = rows.filter(pc.invert(is_open))
                rows = rows.filter(is_open)
                if ended.num_rows:
                    file, count, memory = closed.get(number, (None, 0, 0))
                    file = file or job.out.file("closed")
                    file.write(ended)
                    closed[number] = file, count + ended.num_rows, memory + ended.nbytes
            if not rows.num_rows:
                continue
            rows = _under_own_names(rows, target)
            places = _places(rows, target.key, target.count)
            for place in np.unique(places).tolist():
                found = spills.setdefault((number, place), [])
                found.append(str(folder / f"{number}-{place}-{len(found)}.arrow"))
                write_spill(Path(found[-1]), rows.filter(pa.array(places == place)))
    return spills, {
        number: DataFile(file.path.name, count, file.close(), memory)
        for number, (file, count, memory) in closed.items()
    }


def put(job: PutJob) -> DataFile:
    """Do a `PutJob`."""
    rows = pa.concat_tables(map(read_spill, job.spills))
    rows = as_written(rows, job.target.columns)
    order = [(name, "ascending") for name in (*job.target.key, SEQ)]
    rows = rows.take(pc.sort_indices(rows, order))
    file = job.out.file("open" if job.target.open else "part", bounded=job.target.key)
    for start in range(0, rows.num_rows, ROW_GROUP):
        file.write(rows.slice(start, ROW_GROUP))
    return DataFile(file.path.name, rows.num_rows, file.close(), rows.nbytes)


def _remade(
    places: Places, part: Part, folder: Path, run: Runner
) -> tuple[dict[str, TableRows], list[str]]:
    """The states, by key, with the table's rows in new files, and these files' names; tasks write
    them. Raises `PipelineError`.
    """
    shards = places.before.options.shards
    out = places.making.folder(places.tables.folder(part.table))
    places.folders.add(out.path)
    places.note()
    known = {key: rows for key in part.states if (rows := part.rows(key)) and rows.refused is None}
    targets = [
        _Target(
            part.states[key].source if shards else None,
            rows.key,
            max(1, len(rows.files)),
            rows.columns,
            places.names(part.states[key].full_name, part.part, rows.columns),
            part.part == "history",
        )
        for key, rows in known.items()
    ]
    jobs = _jobs(places, part, tuple(targets), folder, out)
    spills: dict[tuple[int, int], list[str]] = {}
    closed: dict[int, list[DataFile]] = {}
    for some, ended in all_done(run, take, jobs):
        for at, paths in some.items():
            spills.setdefault(at, []).extend(paths)
        for number, file in ended.items():
            closed.setdefault(number, []).append(file)
    puts = [
        PutJob(tuple(paths), targets[at[0]], replace(out, names=targets[at[0]].names))
        for at, paths in spills.items()
    ]
    made = dict(zip(spills, all_done(run, put, puts), strict=True))
    found: dict[str, TableRows] = {}
    adds: list[str] = []
    for number, (key, rows) in enumerate(known.items()):
        files = tuple(made.get((number, place)) for place in range(targets[number].count))
        ended_versions = closed.get(number, [])
        adds += [each.name for each in (*files, *ended_versions) if each is not None]
        if part.part == "history":
            found[key] = replace(rows, files=files, closed=summed(ended_versions))
        else:
            found[key] = replace(rows, files=files, tails=())
    return found, adds


def _jobs(
    places: Places, part: Part, targets: tuple[_Target, ...], folder: Path, out: DataFolder
) -> list[TakeJob]:
    tables = places.tables
    now = tables.content(part.table)
    if now is None:
        return []
    tables.check(part.table)
    if "" in now.deleted:
        raise unread_deletes(f"{part.table} in {tables.top}")
    columns = state_schema(part.states, part.part, places.before.options.shards)
    if missing := set(columns.names) - now.columns.keys():
        raise PipelineError(
            f"table {part.table} in {tables.top} has lost its column {min(missing)} to another"
            " writer: restore it, or create a new lake"
        )
    called = {name: now.columns[name] for name in columns.names}
    top = tables.folder(part.table)
    return [
        TakeJob(
            data_file(top, name),
            now.deleted.get(name),
            columns,
            called,
            targets,
            folder / f"file-{number}",
            out,
        )
        for number, name in enumerate(sorted(now.files))
    ]


def _in_columns(rows: pa.Table, job: TakeJob) -> pa.Table:
    """A file's rows in the columns of its table; what it does not have is NULL."""
    found = {}
    for field in job.columns:
        names = (name for name in (field.name, job.called[field.name]) if name in rows.schema.names)
        name = next(names, None)
        none = pa.nulls(rows.num_rows, field.type)
        found[field.name] = pa.chunked_array([none]) if name is None else rows.column(name)
    return as_written(pa.table(found), job.columns).cast(job.columns)


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


def _under_own_names(rows: pa.Table, target: _Target) -> pa.Table:
    """Rows of a table in the columns of a state, as it calls them; ours stay."""
    own = target.columns.names
    shape = [target.names.get(each, each) for each in own]
    ours = [field.name for field in (*STATE_FIELDS, *HISTORY_FIELDS)]
    ours = [each for each in (SHARD, *dict.fromkeys(ours)) if each in rows.schema.names]
    return rows.select([*shape, *ours]).rename_columns([*own, *ours])
