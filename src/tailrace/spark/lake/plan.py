"""A batch of a lake: what was made for it, the next manifest, the steps, and where files go."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.errors import PipelineError
from tailrace.spark.lake.asides import points
from tailrace.spark.lake.copies import Copy, copy
from tailrace.spark.lake.merging import due, put_together, still_small
from tailrace.spark.lake.steps import MARK, Merge, Step
from tailrace.spark.lake.tables import deleted_by_path, paths_of
from tailrace.spark.manifest.manifest import INCOMPLETE, DataFile, Manifest, TableState
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.parquet.deleted import NO_ROWS, deleted_rows, joined
from tailrace.spark.parquet.shapes import as_arrow, merged, plain_schema
from tailrace.spark.record.types import SHARD
from tailrace.spark.state.built import Built
from tailrace.spark.state.current.rows import STATE_FIELDS
from tailrace.spark.state.failure import all_done, failure
from tailrace.spark.state.history.jobs import HISTORY_FIELDS
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tailrace.spark.lake.asides import Asides
    from tailrace.spark.lake.places import Places
    from tailrace.spark.lake.tables import Tables
    from tailrace.spark.manifest.lake_options import LakeOptions
    from tailrace.spark.manifest.manifest import SourceState, Status, TableRows
    from tailrace.spark.parquet.deleted import DeletedRows, Rows
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.source_changes import SourceTable

_SHARD: Final = pa.field(SHARD, pa.string())


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
class TableBatch:
    """A batch in the making: `put` for each table, then ``steps`` are whole.

    ``run`` copies files that are not in their table's folder, in tasks, to the ``copies``' targets.
    """

    places: Places
    before: Manifest
    options: LakeOptions
    run: Runner
    steps: list[Step] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)

    @property
    def tables(self) -> Tables:
        """The lake's."""
        return self.places.tables

    def put(self, states: Mapping[str, TableState], made: Made) -> dict[str, TableState]:
        """What the states of one table, of each source that has it, are after the batch.

        A table that is set aside stays as it is, but for a changelog that continues. What cannot be
        put into the lake is set aside: then there is no step for it.
        """
        asides = made.asides
        steps, copies = len(self.steps), len(self.copies)
        going = [
            part
            for part in made.options.keep
            if not all(asides.stands(key, part) for key in states)
            or (part == "current" and made.built.keys() & states.keys())
        ]  # of several sources that have the table some may stand still
        found = dict(states)
        try:
            made = self._with_standing(states, made)
            if "changelog" in going:
                found = self._changelog(found, made)
            if "current" in going:
                found = self._current(found, made)
            if "history" in going:
                found = self._history(found, made)
            self.places.note()
            all_done(self.run, copy, self.copies[copies:])
        except Exception as error:  # noqa: BLE001 - `failure` raises what is not the table's own
            del self.steps[steps:]
            cause = failure(error)
            found = {}
            for key, state in states.items():
                asides.fail_state(key, state, cause)
                nothing = replace(state, changelog=(), current=None, history=None)
                found[key] = self.before.tables.get(key, nothing)
        found = {key: asides.marked(key, state) for key, state in found.items()}
        retried = any(found[k] != self.before.tables.get(k) for k in asides.retried & found.keys())
        self._mark(found, steps, retried)
        return found

    def _mark(self, states: Mapping[str, TableState], first: int, retried: bool) -> None:
        """Let the tables have the property that says what of them is set aside (`MARK`).

        ``first`` is the number of the states' first step. What has no step gets one, if the lake
        has the table, and its mark changes. Of a table without a log all parts are made together,
        also where it is taken up again (``retried``): it may have been left out of a batch.
        """
        own = {step.table for step in self.steps[first:]}
        before = {k: each for k in states if (each := self.before.tables.get(k)) is not None}
        for part in ("changelog", "current", "history"):
            name = next((each.parts[part] for each in states.values() if part in each.parts), None)
            if (
                name is None
                or name in own
                or all(part not in each.parts for each in before.values())
            ):
                continue
            if self.options.lists_files:
                if own or retried:
                    self.steps.append(Step(name, goes=""))
            elif _mark(states, part) != _mark(before, part):
                self.steps.append(Step(name))

    def _with_standing(self, states: Mapping[str, TableState], made: Made) -> Made:
        """What was made, with what stays of the states that stand still."""
        built, histories = dict(made.built), dict(made.histories)
        for key, state in states.items():
            moved = key in made.built  # the last state of a table that was renamed so
            stays = key not in made.touched
            stands = stays or made.asides.stands(key, "current")
            if stands and state.current is not None and not moved:
                built[key] = Built(state.current, paths_of(self.tables, state, "current"))
            stands = stays or made.asides.stands(key, "history")
            if stands and state.history is not None:
                histories[key] = Built(state.history, paths_of(self.tables, state, "history"))
        return replace(made, built=built, histories=histories)

    def _name(self, states: Mapping[str, TableState], part: str) -> str:
        """The table that has a part."""
        return self.places.name(next(iter(states.values())).full_name, part)

    def _shape(self, states: Mapping[str, TableState], part: str) -> pa.Schema | None:
        return next((each.shapes[part] for each in states.values() if part in each.shapes), None)

    def _changelog(self, states: Mapping[str, TableState], made: Made) -> dict[str, TableState]:
        found: dict[str, TableState] = {}
        name, before = self._name(states, "changelog"), self._shape(states, "changelog")
        adds: list[str] = []
        merges: list[Merge] = []
        schemas: list[pa.Schema] = [] if before is None else [before]
        shape = before
        for key, state in states.items():
            fresh: list[DataFile] = []
            for file in made.files.get(key, ()):
                schemas.append(plain_schema(file.columns))
                shape, names = merged(shape, schemas[-1])
                own = self._placed(name, "part", Path(file.path), adds, names, images=True)
                fresh.append(DataFile(own, file.rows, file.size, file.memory))
            files, small = self._grown(state, "changelog", name, state.changelog, fresh, merges)
            found[key] = replace(state, changelog=files, small=small)
        if shape is None:
            return found
        anew = bool(made.anew & set(states))
        if adds or anew:
            goes = "" if anew or self.options.lists_files else None
            differ = any(not each.equals(shape) for each in schemas)
            self.steps.append(Step(name, tuple(adds), goes, tuple(merges), differ=differ))
        return _with(found, "changelog", name, shape)

    def _current(self, states: Mapping[str, TableState], made: Made) -> dict[str, TableState]:
        found: dict[str, TableState] = {}
        name, before = self._name(states, "current"), self._shape(states, "current")
        known = _deleted(states)
        adds: list[str] = []
        stays: list[str] = []
        deletes: dict[str, Rows] = {}
        shape: pa.Schema | None = None
        for key, state in states.items():
            built = made.built.get(key)
            if built is None:
                stands = key not in made.touched or made.asides.stands(key, "current")
                found[key] = replace(state, current=None, dropped=state.dropped or not stands)
                continue
            places = self._states(name, "part", built.rows.places, built.paths, adds, stays)
            deletes |= self._deletes(built, places)
            count = len(built.rows.files)
            tails = tuple(file for file in places[count:] if file is not None)
            current = replace(built.rows, files=places[:count], tails=tails)
            found[key] = replace(state, current=current, dropped=False)
            if built.rows.refused is None:
                shape = _one_shape(key, shape, built.rows)
        shape = shape or before
        if shape is None:
            return found
        anew = bool(made.anew & set(states))
        if anew or _deleted(found) != known or not shape.equals(before or pa.schema([])):
            rows = [each.current for each in found.values() if each.current]
            differ = any(not plain_schema(each.columns).equals(shape) for each in rows if each.key)
            self.steps.append(Step(name, tuple(adds), "", deletes=deletes, differ=differ))
        return _with(found, "current", name, shape)

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
            if table is not None and self.tables.folder(table) == folder:
                return deleted_by_path(self.tables, table)
        raise PipelineError(f"{folder} has no table of the lake")

    def _history(self, states: Mapping[str, TableState], made: Made) -> dict[str, TableState]:
        found: dict[str, TableState] = {}
        name, before = self._name(states, "history"), self._shape(states, "history")
        known = _names(state.history.places for state in states.values() if state.history)
        adds: list[str] = []
        stays: list[str] = []
        merges: list[Merge] = []
        for key, state in states.items():
            built = made.histories.get(key)
            if built is None:
                found[key] = replace(state, history=None)
                continue
            called = partial(self.places.names, state.full_name, "history")
            closed = [called(each.columns) for each in built.closed]
            names = called(built.rows.columns)
            fresh: list[DataFile] = []
            opened = self._states(name, "open", built.rows.files, built.paths, adds, stays, names)
            for each, new in zip(built.closed, closed, strict=True):
                own = self._placed(name, "closed", Path(each.path), adds, new)
                fresh.append(replace(each.file, name=own))
            files, small = self._grown(state, "history", name, built.rows.closed, fresh, merges)
            history = replace(built.rows, files=opened, closed=files)
            found[key] = replace(state, history=history, small=small)
        shape = self.places.shapes.get(name, before)
        if shape is None or not len(shape):
            return found
        anew = bool(made.anew & set(states))
        if anew or adds or set(stays) != known or not shape.equals(before or pa.schema([])):
            goes = "" if anew or self.options.lists_files else "open-"
            self.steps.append(Step(name, tuple(adds), goes, tuple(merges), differ=True))
        return _with(found, "history", name, shape)

    def _grown(
        self,
        state: TableState,
        part: str,
        table: str,
        files: tuple[DataFile, ...],
        fresh: Sequence[DataFile],
        merges: list[Merge],
    ) -> tuple[tuple[DataFile, ...], dict[str, tuple[DataFile, ...]]]:
        """The entries of a part that grows, ``files`` before, with new files; and the small ones.

        The last small files are compacted if that is due.
        """
        listed = self.options.lists_files
        small = still_small(files) if listed else state.small.get(part, ())
        if fresh and (last := due(small)):
            now = self.tables.content(table)
            if gone := [
                each
                for each in small
                if now is None or each.name not in now.files or each.name in now.deleted
            ]:
                small = tuple(each for each in small if each not in gone)
            else:
                kind = "part" if part == "changelog" else "closed"
                to = self.places.making.folder(self.tables.folder(table))
                one = put_together(last, [to.path / each.name for each in last], to, kind)
                if one is not None:
                    merges.append(Merge(one.name, tuple(each.name for each in last)))
                    small = (*small[: -len(last)], one)
                    if listed:
                        files = (*(each for each in files if each not in last), one)
        if listed:
            return (*files, *fresh), state.small
        sums = reduce(summed, (*files, *fresh), DataFile("", 0, 0, 0))
        small = still_small((*small, *fresh))
        return (sums,) if sums.rows else (), {**state.small, part: small}

    def _states(
        self,
        table: str,
        prefix: str,
        files: Sequence[DataFile | None],
        paths: Sequence[str | None],
        adds: list[str],
        stays: list[str],
        names: Mapping[str, str] | None = None,
    ) -> tuple[DataFile | None, ...]:
        """Files by bucket, under the names that they have in the table."""
        found: list[DataFile | None] = []
        for file, path in zip(files, paths, strict=True):
            if file is None or path is None:
                found.append(None)
                continue
            source = Path(path)
            name = source.name
            if source.parent == self.tables.folder(table) and file.name:
                stays.append(name)
            else:
                name = self._placed(table, prefix, source, adds, names or {})
            found.append(replace(file, name=name))
        return tuple(found)

    def _placed(
        self,
        table: str,
        kind: str,
        source: Path,
        adds: list[str],
        names: Mapping[str, str],
        *,
        images: bool = False,
    ) -> str:
        """The name of a new file in the table, which is copied if it is not there as it should be.

        In the table some of its columns have other names, or with ``images`` those of its images.
        """
        to = self.places.making.folder(self.tables.folder(table))
        target = source
        if source.parent != to.path or (images and names):
            self.places.folders.add(to.path)
            target = to.new(kind)
            self.copies.append(Copy(source, target, to.plain, names, images))
        adds.append(target.name)
        return target.name


def plan(places: Places, before: Manifest, made: Made, run: Runner) -> tuple[Manifest, list[Step]]:
    """The manifest after a batch, and the steps of its tables."""
    batch = TableBatch(places, before, made.options, run)
    groups: dict[tuple[str, str], dict[str, TableState]] = {}
    for key, state in table_states(places, before, made).items():
        groups.setdefault((state.database, state.table), {})[key] = state
    states: dict[str, TableState] = {}
    for group in groups.values():
        states.update(batch.put(group, made))
    known = before.tables
    for key, status in made.incomplete.items():
        if key in states or key in known:
            states[key] = (states.get(key) or known[key]).with_status(INCOMPLETE, status)
    fresh = {key: each for key, each in states.items() if each is not known.get(key)}
    tables, sources = before.updated(fresh).tables, {**before.sources, **made.sources}
    later = points(before, sources, (each for _, each in with_status(tables)), made.points)
    return Manifest(before.next, made.options, sources, tables, later), batch.steps


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
        state = _state(known, made.files.get(name, ()))
        if state is not None and name not in before.tables:
            state = replace(state, folder=places.own.of(state.database, state.table))
        if state is not None:
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
    if known is None and not fresh:
        return None
    if known is not None and not fresh:
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
    groups: dict[tuple[str, str], dict[str, TableState]] = {}
    for key in manifest.keys_of_tables(keys):
        state = manifest.tables[key]
        groups.setdefault((state.database, state.table), {})[key] = state
    places = {
        name: (part, states)
        for states in groups.values()
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
        properties = {**positions, MARK: _mark(states, part)}
        schema = _schema(states, part, manifest.options)
        stays = () if step.goes is None else tuple(listed(states, part) - {*step.adds})
        deleted = frozenset(name for name, count in _deleted(states).items() if count)
        deleted = deleted if part == "current" else frozenset()
        step = replace(step, stays=stays, deleted=deleted)  # noqa: PLW2901 - the same, whole
        found.append(replace(step, schema=schema, properties=properties))
    return found


def listed(states: Mapping[str, TableState], part: str) -> set[str]:
    """The files of a part that the manifest lists: where there are logs, those of buckets."""
    rows = [each.current if part == "current" else each.history for each in states.values()]
    if part == "changelog":
        return _names(each.changelog for each in states.values())
    return _names(each.data for each in rows if each is not None)


def _schema(states: Mapping[str, TableState], part: str, options: LakeOptions) -> pa.Schema:
    """All columns of the table that has a part; in Arrow's types where its files have these."""
    shape = next(each.shapes[part] for each in states.values() if part in each.shapes)
    found = as_arrow(shape) if options.lists_files else shape
    if part == "changelog":
        found = _changelog_schema(found, options.shards)
    else:
        found = _state_schema(found, part, options.shards)
    return found if options.lists_files else plain_schema(found)


def state_schema(states: Mapping[str, TableState], part: str, shards: bool) -> pa.Schema:
    """The columns of the table that has a current state or a history."""
    shape = next(each.shapes[part] for each in states.values() if part in each.shapes)
    return plain_schema(_state_schema(as_arrow(shape), part, shards))


def _state_schema(columns: pa.Schema, part: str, shards: bool) -> pa.Schema:
    fields = HISTORY_FIELDS if part == "history" else STATE_FIELDS
    return pa.schema([*columns, *((_SHARD,) if shards else ()), *fields])


def _changelog_schema(columns: pa.Schema, shards: bool) -> pa.Schema:
    image = pa.struct(list(columns))
    fields = [field.with_nullable(True) for field in METADATA_FIELDS]
    if shards:
        at = next(i for i, each in enumerate(fields) if each.name == "_server_id") + 1
        fields.insert(at, _SHARD)
    return pa.schema([*fields, pa.field("before", image), pa.field("after", image)])


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


def _with(
    states: Mapping[str, TableState], part: str, name: str, shape: pa.Schema
) -> dict[str, TableState]:
    return {
        key: replace(state, parts={**state.parts, part: name}, shapes={**state.shapes, part: shape})
        for key, state in states.items()
    }


def _deleted(states: Mapping[str, TableState]) -> dict[str, int]:
    """The files of a table's current states, each with how many of its rows are deleted."""
    found = (state.current for state in states.values())
    return {file.name: file.deleted for each in found if each is not None for file in each.data}


def _names(files: Iterable[Iterable[DataFile | None]]) -> set[str]:
    return {file.name for each in files for file in each if file is not None and file.name}


def summed(one: DataFile, other: DataFile) -> DataFile:
    """The entry without a name that has the sums of two."""
    return DataFile("", one.rows + other.rows, one.size + other.size, one.memory + other.memory)
