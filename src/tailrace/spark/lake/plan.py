"""A batch of a lake: what was made for it, the next manifest, the steps, and where files go."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.errors import PipelineError
from tailrace.spark.lake.asides import points
from tailrace.spark.lake.rewriting import Copy, copy, due, put_together, still_small
from tailrace.spark.lake.tables import MARK, Merge, Step, deleted_by_path, paths_of, rows_of
from tailrace.spark.manifest.making import ANY_TABLE
from tailrace.spark.manifest.manifest import INCOMPLETE, DataFile, Manifest, TableState
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.manifest.names import Folders, folded
from tailrace.spark.parquet.deleted import NO_ROWS, deleted_rows, joined
from tailrace.spark.parquet.file import NO_NAMES
from tailrace.spark.parquet.shapes import as_arrow, merged, plain_schema
from tailrace.spark.record.types import SHARD
from tailrace.spark.state.built import Built
from tailrace.spark.state.current.rows import STATE_FIELDS
from tailrace.spark.state.failure import all_done, failure
from tailrace.spark.state.history import HISTORY_FIELDS
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.spark.lake.asides import Asides
    from tailrace.spark.lake.tables import Tables
    from tailrace.spark.manifest.lake_options import LakeOptions
    from tailrace.spark.manifest.making import Making
    from tailrace.spark.manifest.manifest import SourceState, Status, TableRows
    from tailrace.spark.parquet.deleted import DeletedRows, Rows
    from tailrace.spark.parquet.file import DataFolder
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.source_changes import SourceTable

_SHARD: Final = pa.field(SHARD, pa.string())
_GOES: Final = {"changelog": None, "current": "", "history": "open-"}
"""What the files that a step replaces are called (`Step`), by part."""


@dataclass(frozen=True)
class Made:
    """What a run has made: changelog files and current states by table, and the sources' ends.

    ``asides`` are the tables that are set aside, to which others may come that cannot be put into
    the lake. Tables in ``anew`` lose what they had.
    """

    files: Mapping[str, Sequence[ChangeFile]]
    built: Mapping[str, Built]
    sources: Mapping[str, SourceState]
    options: LakeOptions
    asides: Asides
    touched: frozenset[str]
    """The tables that the batch is about: others stay as they are."""
    histories: Mapping[str, Built] = field(default_factory=dict)
    origins: Mapping[str, SourceTable] = field(default_factory=dict)
    """The tables in ``built`` or ``histories`` that statements gave their names."""
    anew: frozenset[str] = frozenset()
    incomplete: Mapping[str, Status | None] = field(default_factory=dict)
    """The tables that are incomplete from now on, and with None those that are so no more."""
    points: Mapping[str, Mapping[str, SourceState]] = field(default_factory=dict)
    """Where tables may stand still from now on, besides their sources' ends."""
    written: frozenset[Path] = frozenset()
    """All changelog files that tasks wrote, those that come into no table too."""


@dataclass
class Places:
    """The tables and folders of a batch, the same at every call, and the histories' columns."""

    tables: Tables
    before: Manifest
    making: Making
    shapes: dict[str, pa.Schema] = field(default_factory=dict)
    """The columns of histories, by table, with those of the files to come."""
    folders: set[Path] = field(default_factory=set)
    """Those that take files of jobs."""
    _names: dict[tuple[TableName, str], str] = field(default_factory=dict)
    _noted: set[Path] = field(default_factory=set)

    @cached_property
    def own(self) -> Folders:
        """The folder names of tables."""
        return Folders(self.before.tables.values())

    @cached_property
    def _taken(self) -> set[str]:
        tables = self.before.tables.values()
        return {folded(name) for state in tables for name in state.parts.values()}

    def name(self, table: TableName, part: str) -> str:
        """The lake's table that has a part; a new one's name is one that no other has."""
        found = self._names.get((table, part))
        if found is None:
            known = (each.parts.get(part) for each in self._states(table))
            found = next((each for each in known if each is not None), None)
        if found is None:
            states = self._states(table)
            own = next((each.folder for each in states), None) or self.own.of(*table)
            found = self.tables.name(own, part)
            while folded(found) in self._taken:
                found += "_"
            self.tables.check_new(found)
            self._taken.add(folded(found))
        self._names[table, part] = found
        return found

    def folder(self, table: TableName, part: str, columns: pa.Schema) -> DataFolder:
        """Where a job puts rows of a table that has these columns. Raises `PipelineError`."""
        found = self.making.folder(self.tables.folder(self.name(table, part)))
        self.folders.add(found.path)
        return replace(found, names=self.names(table, part, columns))

    def names(self, table: TableName, part: str, columns: pa.Schema) -> Mapping[str, str]:
        """What a part's files call these columns of the table, where not the same.

        A history's versions have the columns that the table had while they were valid, and a name
        that was reused (DROP and CREATE, or ALTER to another type) stands for two types. As in a
        changelog, values stay under the name while its type is wide enough; otherwise they go to a
        column whose name has the type, ``price__string`` (`tailrace.spark.parquet.shapes`). The
        same columns always get the same names.
        """
        if part != "history":
            return {}
        name = self.name(table, part)
        known = (each.shapes.get(part) for each in self._states(table))
        shape = self.shapes.get(name) or next((each for each in known if each is not None), None)
        self.shapes[name], names = merged(shape, plain_schema(columns))
        return names

    def changelogs(self, staging: Path | None) -> Making:
        """Where tasks put changelog files; in staging, if there is to be no changelog."""
        if staging is not None:
            return replace(self.making, top=staging)
        pattern = self.tables.folder(self.tables.name(ANY_TABLE, "changelog"))
        return replace(self.making, changelogs=str(pattern.relative_to(self.tables.top)))

    def note(self) -> None:
        """Note the folders that are to take files; before these are written."""
        if fresh := self.folders - self._noted:
            self.making.note(sorted(fresh))
            self._noted |= fresh

    def _states(self, table: TableName) -> Iterator[TableState]:
        """What the lake has of a table, of all its sources."""
        for key in (str(table), *(f"{source}/{table}" for source in self.before.sources)):
            if (state := self.before.tables.get(key)) is not None and state.full_name == table:
                yield state


@dataclass
class _Part:
    """A part of a table in the making: the lake's table ``name``, which has the columns ``shape``
    so far; the files that come into it, those of buckets that stay, those that are compacted, and
    the rows that are deleted.
    """

    kind: str
    name: str
    shape: pa.Schema | None
    adds: list[str] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    deletes: dict[str, Rows] = field(default_factory=dict)


@dataclass
class TableBatch:
    """One table's part of a batch in the making: `put`, then ``steps`` are whole.

    ``states`` are those of each source that has the table. ``run`` copies files that are not in
    their table's folder, in tasks.
    """

    places: Places
    before: Manifest
    made: Made
    run: Runner
    states: Mapping[str, TableState]
    steps: list[Step] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tables = self.places.tables
        self._listed = self.made.options.lists_files
        self._anew = not self.made.anew.isdisjoint(self.states)

    def put(self) -> dict[str, TableState]:
        """What the states are after the batch.

        A table that is set aside stays as it is, but for a changelog that continues. What cannot be
        put into the lake is set aside: then there is no step for it.
        """
        asides, states = self.made.asides, self.states
        going = [
            part
            for part in self.made.options.keep
            if not all(asides.stands(key, part) for key in states)
            or (part == "current" and self.made.built.keys() & states.keys())
        ]  # of several sources that have the table some may stand still
        found = dict(states)
        try:
            built = self._with_standing("current", self.made.built)
            histories = self._with_standing("history", self.made.histories)
            if "changelog" in going:
                found = self._changelog(found)
            if "current" in going:
                found = self._current(found, built)
            if "history" in going:
                found = self._history(found, histories)
            self.places.note()
            all_done(self.run, copy, self.copies)
        except Exception as error:  # noqa: BLE001 - `failure` raises what is not the table's own
            self.steps.clear()
            cause = failure(error)
            found = {}
            for key, state in states.items():
                asides.fail_state(key, state, cause)
                nothing = replace(state, changelog=(), current=None, history=None)
                found[key] = self.before.tables.get(key, nothing)
        found = {key: asides.marked(key, state) for key, state in found.items()}
        retried = any(found[k] != self.before.tables.get(k) for k in asides.retried & found.keys())
        self._mark(found, retried=retried)
        return found

    def _mark(self, states: Mapping[str, TableState], *, retried: bool) -> None:
        """Let the tables have the property that says what of them is set aside (`MARK`).

        What has no step gets one, if the lake has the table, and its mark changes. Of a table
        without a log all parts are made together, also where it is taken up again (``retried``): it
        may have been left out of a batch.
        """
        own = {step.table for step in self.steps}
        before = {k: each for k in states if (each := self.before.tables.get(k)) is not None}
        for part in ("changelog", "current", "history"):
            name = next((each.parts[part] for each in states.values() if part in each.parts), None)
            if (
                name is None
                or name in own
                or not any(part in each.parts for each in before.values())
            ):
                continue
            if self._listed:
                if own or retried:
                    self.steps.append(Step(name, goes=""))
            elif _mark(states, part) != _mark(before, part):
                self.steps.append(Step(name))

    def _with_standing(self, part: str, made: Mapping[str, Built]) -> dict[str, Built]:
        """What was made of a part, with what stays of the states that stand still."""
        found = dict(made)
        for key, state in self.states.items():
            rows = rows_of(state, part)
            stands = key not in self.made.touched or self.made.asides.stands(key, part)
            moved = part == "current" and key in made  # the last state of one that was renamed so
            if stands and rows is not None and not moved:
                found[key] = Built(rows, paths_of(self._tables, state, part))
        return found

    def _part(self, kind: str) -> _Part:
        states = self.states.values()
        shape = next((each.shapes[kind] for each in states if kind in each.shapes), None)
        return _Part(kind, self.places.name(next(iter(states)).full_name, kind), shape)

    def _changelog(self, states: Mapping[str, TableState]) -> dict[str, TableState]:
        found: dict[str, TableState] = {}
        part = self._part("changelog")
        shape = part.shape
        schemas: list[pa.Schema] = [] if shape is None else [shape]
        for key, state in states.items():
            fresh: list[DataFile] = []
            for file in self.made.files.get(key, ()):
                schemas.append(plain_schema(file.columns))
                shape, names = merged(shape, schemas[-1])
                own = self._placed(part, "part", Path(file.path), names, images=True)
                fresh.append(DataFile(own, file.rows, file.size, file.memory))
            files, small = self._grown(part, state, state.changelog, fresh)
            found[key] = replace(state, changelog=files, small=small)
        differ = (not each.equals(shape) for each in schemas)
        return self._put_into(part, found, shape, differ, changed=bool(part.adds))

    def _current(
        self, states: Mapping[str, TableState], made: Mapping[str, Built]
    ) -> dict[str, TableState]:
        found: dict[str, TableState] = {}
        part, known = self._part("current"), deleted_counts(states)
        shape: pa.Schema | None = None
        for key, state in states.items():
            built = made.get(key)
            if built is None:
                stands = key not in self.made.touched or self.made.asides.stands(key, "current")
                found[key] = replace(state, current=None, dropped=state.dropped or not stands)
                continue
            places = self._placed_states(part, "part", built.rows.places, built.paths)
            part.deletes |= self._deletes(built, places)
            count = len(built.rows.files)
            tails = tuple(file for file in places[count:] if file is not None)
            current = replace(built.rows, files=places[:count], tails=tails)
            found[key] = replace(state, current=current, dropped=False)
            if built.rows.refused is None:
                shape = _one_shape(key, shape, built.rows)
        shape = shape or part.shape
        rows = [each.current for each in found.values() if each.current]
        differ = (not plain_schema(each.columns).equals(shape) for each in rows if each.key)
        changed = deleted_counts(found) != known
        return self._put_into(part, found, shape, differ, changed=changed)

    def _deletes(self, built: Built, files: Sequence[DataFile | None]) -> dict[str, Rows]:
        """The rows that a step deletes, by file, of a current state whose files have their names.

        Of a file that comes from another of the lake's tables these are all that are deleted.
        """
        found = {}
        for file, path in zip(files, built.paths, strict=True):
            if file is None or path is None or not file.deleted:
                continue
            rows = built.deleted.get(path, NO_ROWS)
            if file.name != Path(path).name:
                rows = joined(deleted_rows(self._others_deleted(Path(path).parent), path), rows)
            if len(rows):
                found[file.name] = rows
        return found

    def _others_deleted(self, folder: Path) -> dict[str, DeletedRows]:
        """The deleted rows of the table in a folder, by path."""
        for state in self.before.tables.values():
            table = state.parts.get("current")
            if table is not None and self._tables.folder(table) == folder:
                return deleted_by_path(self._tables, table)
        raise PipelineError(f"{folder} has no table of the lake")

    def _history(
        self, states: Mapping[str, TableState], made: Mapping[str, Built]
    ) -> dict[str, TableState]:
        found: dict[str, TableState] = {}
        part = self._part("history")
        known = _names(each.history.places for each in states.values() if each.history)
        for key, state in states.items():
            built = made.get(key)
            if built is None:
                found[key] = replace(state, history=None)
                continue
            called = partial(self.places.names, state.full_name, "history")
            closed = [called(each.columns) for each in built.closed]
            names = called(built.rows.columns)
            opened = self._placed_states(part, "open", built.rows.files, built.paths, names)
            fresh: list[DataFile] = []
            for each, new in zip(built.closed, closed, strict=True):
                own = self._placed(part, "closed", Path(each.path), new)
                fresh.append(replace(each.file, name=own))
            files, small = self._grown(part, state, built.rows.closed, fresh)
            history = replace(built.rows, files=opened, closed=files)
            found[key] = replace(state, history=history, small=small)
        shape = self.places.shapes.get(part.name, part.shape) or None
        changed = bool(part.adds) or set(part.stays) != known
        return self._put_into(part, found, shape, [True], changed=changed)

    def _put_into(
        self,
        part: _Part,
        states: Mapping[str, TableState],
        shape: pa.Schema | None,
        differ: Iterable[bool],
        *,
        changed: bool,
    ) -> dict[str, TableState]:
        """The states that have the part, of these columns; with a step, if that changed."""
        if shape is None:
            return dict(states)
        if changed or self._anew or not shape.equals(part.shape or pa.schema([])):
            adds, merges = tuple(part.adds), tuple(part.merges)
            goes = "" if self._anew or self._listed else _GOES[part.kind]
            step = Step(part.name, adds, goes, merges, deletes=part.deletes, differ=any(differ))
            self.steps.append(step)
        parts, shapes = {part.kind: part.name}, {part.kind: shape}
        return {
            key: replace(state, parts=state.parts | parts, shapes=state.shapes | shapes)
            for key, state in states.items()
        }

    def _grown(
        self,
        part: _Part,
        state: TableState,
        files: tuple[DataFile, ...],
        fresh: Sequence[DataFile],
    ) -> tuple[tuple[DataFile, ...], dict[str, tuple[DataFile, ...]]]:
        """The entries of a part that grows, ``files`` before, with new files; and the small ones.

        The last small files are compacted if that is due.
        """
        small = still_small(files) if self._listed else state.small.get(part.kind, ())
        if fresh and (last := due(small)):
            now = self._tables.content(part.name)
            if gone := [
                each
                for each in small
                if now is None or each.name not in now.files or each.name in now.deleted
            ]:
                small = tuple(each for each in small if each not in gone)
            else:
                to = self.places.making.folder(self._tables.folder(part.name))
                paths = [to.path / each.name for each in last]
                one = put_together(
                    last, paths, to, "part" if part.kind == "changelog" else "closed"
                )
                if one is not None:
                    part.merges.append(Merge(one.name, tuple(each.name for each in last)))
                    small = (*small[: -len(last)], one)
                    if self._listed:
                        files = (*(each for each in files if each not in last), one)
        if self._listed:
            return (*files, *fresh), state.small
        small = still_small((*small, *fresh))
        return summed((*files, *fresh)), {**state.small, part.kind: small}

    def _placed_states(
        self,
        part: _Part,
        kind: str,
        files: Sequence[DataFile | None],
        paths: Sequence[str | None],
        names: Mapping[str, str] = NO_NAMES,
    ) -> tuple[DataFile | None, ...]:
        """Files by bucket, under the names that they have in the table."""
        found: list[DataFile | None] = []
        for file, path in zip(files, paths, strict=True):
            if file is None or path is None:
                found.append(None)
                continue
            source = Path(path)
            name = source.name
            if source.parent == self._tables.folder(part.name) and file.name:
                part.stays.append(name)
            else:
                name = self._placed(part, kind, source, names)
            found.append(replace(file, name=name))
        return tuple(found)

    def _placed(
        self,
        part: _Part,
        kind: str,
        source: Path,
        names: Mapping[str, str],
        *,
        images: bool = False,
    ) -> str:
        """The name of a new file in the table, which is copied if it is not there as it should be.

        In the table some of its columns have other names, or with ``images`` those of its images.
        """
        to = self.places.making.folder(self._tables.folder(part.name))
        target = source
        if source.parent != to.path or (images and names):
            self.places.folders.add(to.path)
            target = to.new(kind)
            self.copies.append(Copy(source, target, to.plain, names, images))
        part.adds.append(target.name)
        return target.name


def plan(places: Places, before: Manifest, made: Made, run: Runner) -> tuple[Manifest, list[Step]]:
    """The manifest after a batch, and the steps of its tables."""
    states: dict[str, TableState] = {}
    steps: list[Step] = []
    for group in _by_table(table_states(places, before, made)):
        batch = TableBatch(places, before, made, run, group)
        states |= batch.put()
        steps += batch.steps
    known = before.tables
    for key, status in made.incomplete.items():
        if key in states or key in known:
            states[key] = (states.get(key) or known[key]).with_status(INCOMPLETE, status)
    fresh = {key: each for key, each in states.items() if each is not known.get(key)}
    tables, sources = before.updated(fresh).tables, {**before.sources, **made.sources}
    later = points(before, sources, (each for _, each in with_status(tables)), made.points)
    return Manifest(before.next, made.options, sources, tables, later), steps


def _by_table(states: Mapping[str, TableState]) -> Iterable[dict[str, TableState]]:
    """The states of each table, of all sources that have it."""
    groups: dict[TableName, dict[str, TableState]] = {}
    for key, state in states.items():
        groups.setdefault(state.full_name, {})[key] = state
    return groups.values()


def table_states(places: Places, before: Manifest, made: Made) -> dict[str, TableState]:
    """The tables that the batch is about with the columns of their changes, and with the files that
    they had before; of shards, also what other sources have of them.
    """
    found = {}
    aside = made.asides.tables
    for name in sorted({*made.touched, *made.files, *made.built, *made.histories, *aside}):
        known = before.tables.get(name) or _renamed(name, made)
        if known is None and name in aside and name not in made.files:
            each = aside[name]
            known = TableState(*each.name, each.source, "log", pa.schema([]))
        if known is not None and name in made.anew:
            known = replace(known, changelog=(), current=None, history=None, small={})
        if (state := _state(known, made.files.get(name, ()))) is None:
            continue
        if name not in before.tables:
            state = replace(state, folder=places.own.of(state.database, state.table))
        found[name] = state
    names = {each.full_name for each in found.values()} if made.options.shards else ()
    for name in (f"{source}/{name}" for source in before.sources for name in names):
        if name in before.tables:
            found.setdefault(name, before.tables[name])
    return dict(sorted(found.items()))


def _renamed(name: str, made: Made) -> TableState | None:
    """A table that has rows under this name, and no changes yet: RENAME TABLE gave it the name."""
    built, history = made.built.get(name), made.histories.get(name)
    origin = made.origins.get(name)
    one = built or history
    if origin is None or one is None:
        return None
    return TableState(*TableName.parse(origin.name), origin.source, "log", one.rows.columns)


def _state(known: TableState | None, fresh: Sequence[ChangeFile]) -> TableState | None:
    """The table with the columns of all its changes; None where nothing is known of it."""
    if not fresh:
        return known
    newest = fresh[-1]
    columns = {column.name: column for column in newest.columns}
    schemas = [file.columns for file in reversed(fresh)]
    for schema in (*schemas, *((known.columns,) if known is not None else ())):
        for column in schema:
            columns.setdefault(column.name, column)
    state = known or TableState(
        newest.database, newest.table, newest.source, newest.names, pa.schema([])
    )
    return replace(
        state, source=newest.source, names=newest.names, columns=pa.schema(columns.values())
    )


def completed(
    steps: Sequence[Step], manifest: Manifest, keys: Iterable[str] | None = None
) -> list[Step]:
    """The steps of a batch, with what its manifest has of their tables and of the sources.

    ``keys`` are those of the tables that the batch altered. Raises `PipelineError` for a table that
    the manifest has not.
    """
    known = {key: manifest.tables[key] for key in manifest.keys_of_tables(keys)}
    places = {
        name: (part, states)
        for states in _by_table(known)
        for state in states.values()
        for part, name in state.parts.items()
    }
    positions = {
        f"tailrace.position.{source}": str(state.position)
        for source, state in manifest.sources.items()
    }
    found = []
    for step in steps:
        if step.table not in places:
            raise PipelineError(f"a step is for table {step.table}, of which the lake has nothing")
        part, states = places[step.table]
        deleted = deleted_counts(states) if part == "current" else {}
        found.append(
            replace(
                step,
                schema=_schema(states, part, manifest.options),
                stays=() if step.goes is None else tuple(listed(states, part) - {*step.adds}),
                deleted=frozenset(name for name, count in deleted.items() if count),
                properties={**positions, MARK: _mark(states, part)},
            )
        )
    return found


def listed(states: Mapping[str, TableState], part: str) -> set[str]:
    """The files of a part that the manifest lists: where there are logs, those of buckets."""
    if part == "changelog":
        return _names(each.changelog for each in states.values())
    rows = (rows_of(each, part) for each in states.values())
    return _names(each.data for each in rows if each is not None)


def _schema(states: Mapping[str, TableState], part: str, options: LakeOptions) -> pa.Schema:
    """All columns of the table that has a part; in Arrow's types where its files have these."""
    shape = _shape(states, part)
    if options.lists_files:
        return _with_ours(as_arrow(shape), part, options.shards)
    return plain_schema(_with_ours(shape, part, options.shards))


def state_schema(states: Mapping[str, TableState], part: str, shards: bool) -> pa.Schema:
    """The columns of the table that has a current state or a history."""
    return plain_schema(_with_ours(as_arrow(_shape(states, part)), part, shards))


def _shape(states: Mapping[str, TableState], part: str) -> pa.Schema:
    return next(each.shapes[part] for each in states.values() if part in each.shapes)


def _with_ours(columns: pa.Schema, part: str, shards: bool) -> pa.Schema:
    """A part's columns, given those of the source's table."""
    shard = (_SHARD,) if shards else ()
    if part != "changelog":
        ours = HISTORY_FIELDS if part == "history" else STATE_FIELDS
        return pa.schema([*columns, *shard, *ours])
    fields = [field.with_nullable(True) for field in METADATA_FIELDS]
    at = next(i for i, each in enumerate(fields) if each.name == "_server_id") + 1
    image = pa.struct(list(columns))
    images = (pa.field("before", image), pa.field("after", image))
    return pa.schema([*fields[:at], *shard, *fields[at:], *images])


def _mark(states: Mapping[str, TableState], part: str) -> str:
    """What the property of a table says of the states in it; empty if none is set aside."""
    found = []
    for state in states.values():
        status = state.set_aside
        if status is not None and part in status.parts:
            source = f"{state.source}: " if len(states) > 1 else ""
            since = status.parts[part] or "the log's begin"
            found.append(f"{source}since {since}: {status.reason}; {status.needs}")
    return "; ".join(found)


def _one_shape(key: str, shape: pa.Schema | None, current: TableRows) -> pa.Schema:
    """The columns of a current state, with those of the other shards'."""
    found, names = merged(shape, plain_schema(current.columns))
    if names:
        raise PipelineError(
            f"column {min(names)} of {key} has another type there than in other sources: leave the "
            "table out of one with --tables, or make them alike"
        )
    return found


def deleted_counts(states: Mapping[str, TableState]) -> dict[str, int]:
    """The files of a table's current states, each with how many of its rows are deleted."""
    found = (state.current for state in states.values())
    return {file.name: file.deleted for each in found if each is not None for file in each.data}


def _names(files: Iterable[Iterable[DataFile | None]]) -> set[str]:
    return {file.name for each in files for file in each if file is not None and file.name}


def summed(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """The entry without a name that has the sums of files; none if they have no row."""
    size, memory = sum(each.size for each in files), sum(each.memory for each in files)
    rows = sum(each.rows for each in files)
    return (DataFile("", rows, size, memory),) if rows else ()
