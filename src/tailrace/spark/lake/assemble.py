"""The next version of a lake out of the one before and what a run has made."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.errors import PipelineError
from tailrace.spark.lake.asides import Asides, points
from tailrace.spark.lake.merging import merge_last
from tailrace.spark.lake.table_files import TableFiles
from tailrace.spark.manifest.lazy_tables import lazy
from tailrace.spark.manifest.manifest import DataFile, Manifest, TableRows, TableState
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.manifest.names import Folders
from tailrace.spark.manifest.status import INCOMPLETE
from tailrace.spark.parquet.file import file_schema
from tailrace.spark.parquet.footer import renamed
from tailrace.spark.parquet.shapes import as_arrow, merged, plain_schema
from tailrace.spark.state.failure import failure
from tailrace.spark.state.history.jobs import HISTORY_FIELDS
from tailrace.spark.state.history.shape import shaped
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tailrace.spark.lake.parquet.versions import Lake
    from tailrace.spark.manifest.lake_options import LakeOptions
    from tailrace.spark.manifest.manifest import SourceState
    from tailrace.spark.manifest.status import Status
    from tailrace.spark.state.built import Built
    from tailrace.spark.state.changelog import ChangeFile

COMMON_METADATA: Final = "_common_metadata"
"""Spark takes the schema of a folder from this file, where its data files' schemas differ."""
_SOURCE: Final = pa.field("_source", pa.string())


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
    histories: Mapping[str, Built] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    """The sources of the tables that are in ``built`` or ``histories``."""
    asides: Asides | None = None
    anew: frozenset[str] = frozenset()
    incomplete: Mapping[str, Status | None] = field(default_factory=dict)
    """The tables that are incomplete from now on, and with None those that are so no more."""
    points: Mapping[str, Mapping[str, SourceState]] = field(default_factory=dict)
    """Where tables may stand still from now on, besides their sources' ends."""
    touched: frozenset[str] | None = None
    """The tables that the batch is about: others stay as they are (None: it is about all)."""

    def touches(self, key: str) -> bool:
        """Whether the batch is about a table."""
        return self.touched is None or key in self.touched

    def asides_of(self, before: Manifest) -> Asides:
        """The tables that are set aside; by default those of the version before."""
        return Asides(before, self.options.keep) if self.asides is None else self.asides


def assemble(lake: Lake, made: Made) -> tuple[Manifest, dict[str, TableFiles]]:
    """The manifest of the next version, and the places of its files by table's folder."""
    before = lake.manifest
    tables: dict[str, TableState] = {}
    places: dict[str, TableFiles] = {}
    shapes = _Shapes(before)
    made = replace(made, asides=(asides := made.asides_of(before)))
    states = table_states(before, made)
    for name in sorted({*before.tables, *states}):
        found = states.get(name) or before.tables[name]
        place = places.get(found.folder) or TableFiles()
        known = None if name in made.anew else before.tables.get(name)
        work = _Table(lake, name, known, made, shapes)
        there = place.copy()
        known_shapes = shapes.known.get(found.folder, {})
        try:
            if name in asides.tables and name not in made.built:
                state = work.stand(found, there)
            else:
                state = (work.put if made.touches(name) else work.stay)(found, there)
        except Exception as error:  # noqa: BLE001 - `failure` raises what is not the table's own
            asides.fail_state(name, found, failure(error))
            shapes.known[found.folder] = known_shapes
            work = _Table(lake, name, before.tables.get(name), replace(made, files={}), shapes)
            there = place.copy()
            state = work.stand(before.tables.get(name) or _nothing(found), there)
        tables[name] = asides.marked(name, state)
        places[found.folder] = there
    tables = {name: shapes.newest(state) for name, state in tables.items()}
    return next_manifest(before, made, tables), places


class _Table:
    """Puts a table's files into the version to be."""

    def __init__(
        self, lake: Lake, name: str, known: TableState | None, made: Made, shapes: _Shapes
    ) -> None:
        self._lake = lake
        self._name = name
        self._made = made
        self._shapes = shapes
        self.known = known

    def _check_link(self, state: TableState) -> None:
        shown = self._lake.path / state.folder
        if not shown.is_symlink() and shown.exists():
            raise PipelineError(f"{shown} is in the way: move it elsewhere")

    def stay(self, state: TableState, place: TableFiles) -> TableState:
        """The table as it was."""
        self._check_link(state)
        self._lake.folder(state.folder)
        self._keep(place, self._made.options.keep)
        place.check()
        return state

    def put(self, state: TableState, place: TableFiles) -> TableState:
        """What the batch has made of the table, and what stays."""
        lake, made, shapes, name = self._lake, self._made, self._shapes, self._name
        self._check_link(state)
        fresh = made.files.get(name, ())
        if "changelog" in made.options.keep:
            state = _changelog(
                lake, state, self.known, fresh, place, shapes, shards=made.options.shards
            )
        if "current" in made.options.keep:
            current = _current(made.built.get(name), lake.manifest.next, place)
            state = replace(state, current=current, dropped=current is None)
        if made.asides_of(lake.manifest).stands(name, "history"):
            self._keep(place, ("history",))
        elif "history" in made.options.keep:
            built = made.histories.get(name)
            state = _history(lake, state, built, place, shapes, shards=made.options.shards)
        place.check()
        return state

    def stand(self, state: TableState, place: TableFiles) -> TableState:
        """The table as it was, as far as its files are there, and what is new in its changelog."""
        fresh = self._made.files.get(self._name, ())
        if "changelog" in self._made.options.keep and fresh:
            shards = self._made.options.shards
            state = _changelog(
                self._lake, state, self.known, fresh, place, self._shapes, shards=shards
            )
            self._keep(place, ("current", "history"))
        else:
            self._keep(place, ("changelog", "current", "history"))
        place.drop_missing()
        return state

    def _keep(self, place: TableFiles, parts: Iterable[str]) -> None:
        """Let the files of the version before stay, under their names."""
        if self.known is None:
            return
        try:
            folder = self._lake.folder(self.known.folder)
        except (PipelineError, OSError):  # it leads elsewhere: nothing of it is the lake's
            return
        current, history = self.known.current, self.known.history
        files = {
            "changelog": self.known.changelog,
            "current": () if current is None else current.data,
            "history": () if history is None else history.data,
        }
        for part in parts:
            of_part: dict[str, Path] = getattr(place, part)
            of_part.update({file.name: folder / part / file.name for file in files[part]})
            common = folder / part / COMMON_METADATA
            if common.is_file():
                place.extra.setdefault(f"{part}/{COMMON_METADATA}", common.read_bytes())


def next_manifest(before: Manifest, made: Made, fresh: dict[str, TableState]) -> Manifest:
    """The manifest of the version after ``before``."""
    for key, status in made.incomplete.items():
        if (state := fresh.get(key) or before.tables.get(key)) is not None:
            fresh[key] = state.with_status(INCOMPLETE, status)
    known = before.tables
    tables = lazy(known).updated({k: each for k, each in fresh.items() if each is not known.get(k)})
    sources = {**before.sources, **made.sources}
    return Manifest(
        before.next,
        made.options,
        sources,
        tables,
        points(before, sources, (each for _, each in with_status(tables)), made.points),
    )


def table_states(before: Manifest, made: Made) -> dict[str, TableState]:
    """The tables that the batch is about with the columns of their changes, and with the files that
    they had before; of shards, also what other sources have of them.
    """
    found = {}
    folders: Folders | None = None
    aside = made.asides_of(before).tables
    keys = before.tables if made.touched is None else made.touched
    for name in sorted({*keys, *made.files, *made.built, *made.histories, *aside}):
        known = before.tables.get(name) or _renamed(name, made)
        if known is None and name in aside and name not in made.files:
            each = aside[name]
            known = TableState(each.database, each.table, each.source, "log", pa.schema([]))
        if known is not None and name in made.anew:
            known = replace(known, changelog=(), current=None, history=None, small={})
        state = _state(known, made.files.get(name, ()))
        if state is not None and name not in before.tables:
            folders = folders or Folders(before.tables.values())
            state = replace(state, folder=folders.of(state.database, state.table))
        if state is not None:
            found[name] = state
    names = {each.full_name for each in found.values()} if made.options.shards else ()
    for name in (f"{source}/{name}" for source in before.sources for name in names):
        if name in before.tables:
            found.setdefault(name, before.tables[name])
    return dict(sorted(found.items()))


def _nothing(state: TableState) -> TableState:
    """A table of which the lake has nothing yet."""
    return replace(state, changelog=(), current=None, history=None)


def _renamed(name: str, made: Made) -> TableState | None:
    """A table that has rows under this name, and no changes yet: RENAME TABLE gave it the name."""
    built, history = made.built.get(name), made.histories.get(name)
    source = made.origins.get(name)
    one = built or history
    if source is None or one is None:
        return None
    database, table = TableName.parse(
        name.removeprefix(f"{source}/" if made.options.shards else "")
    )
    return TableState(database, table, source, "log", one.rows.columns)


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


class _Shapes:
    """The columns of what is kept of tables, by folder: the same for all sources of a table."""

    def __init__(self, before: Manifest) -> None:
        self.known: dict[str, Mapping[str, pa.Schema]] = {}
        for state in before.tables.values():
            self.known[state.folder] = {**self.known.get(state.folder, {}), **state.shapes}

    def of(self, state: TableState, part: str) -> pa.Schema | None:
        return self.known.get(state.folder, {}).get(part)

    def newest(self, state: TableState) -> TableState:
        """A table with the columns that other sources brought to it."""
        shapes = {part: self.known[state.folder][part] for part in state.shapes}
        return state if shapes == state.shapes else replace(state, shapes=shapes)

    def put(self, state: TableState, part: str, shape: pa.Schema) -> TableState:
        self.known[state.folder] = {**self.known.get(state.folder, {}), part: shape}
        return replace(state, shapes={**state.shapes, part: shape})


def _changelog(
    lake: Lake,
    state: TableState,
    known: TableState | None,
    fresh: Sequence[ChangeFile],
    place: TableFiles,
    shapes: _Shapes,
    *,
    shards: bool,
) -> TableState:
    """Add the changelog's files, those before and the new ones."""
    version = lake.manifest.next
    files = list(known.changelog) if known is not None else []
    folder = lake.folder(state.folder) / "changelog"
    before = shape = shapes.of(state, "changelog")
    for file in files:
        place.changelog[file.name] = folder / file.name
    for number, made in enumerate(fresh, _numbered(place.changelog, version)):
        shape, names = merged(shape, plain_schema(made.columns))
        path = Path(made.path)
        if names:
            path = renamed(path, names, images=True)
        name = f"part-{version:06}-{number:06}.parquet"
        files.append(DataFile(name, made.rows, made.size, made.memory))
        place.changelog[name] = path
    if fresh:
        together = f"part-{version:06}-{_numbered(place.changelog, version):06}.parquet"
        there = lake.staging / "merged" / folder.parent.name
        files = list(merge_last(files, place.changelog, there, together))
    if shape is None:
        return replace(state, changelog=tuple(files))
    mixed = before is not None and not before.equals(shape)
    mixed = mixed or any(not plain_schema(made.columns).equals(shape) for made in fresh)
    common = f"changelog/{COMMON_METADATA}"
    mixed = mixed or common in place.extra or (folder / COMMON_METADATA).exists()
    if mixed and files:
        place.extra[common] = _common_metadata(_changelog_schema(shape, shards=shards))
    return shapes.put(replace(state, changelog=tuple(files)), "changelog", shape)


def _numbered(names: Iterable[str], version: int) -> int:
    """The first number that no file of this version has."""
    mark = f"part-{version:06}-"
    return 1 + max(
        (int(each[len(mark) :][:6]) for each in names if each.startswith(mark)), default=-1
    )


def _changelog_schema(shape: pa.Schema, *, shards: bool) -> pa.Schema:
    image = pa.struct(list(as_arrow(shape)))
    fields = [field.with_nullable(True) for field in METADATA_FIELDS]
    if shards:
        at = 1 + next(at for at, field in enumerate(fields) if field.name == "_server_id")
        fields.insert(at, _SOURCE)
    return pa.schema([*fields, pa.field("before", image), pa.field("after", image)])


def _common_metadata(schema: pa.Schema) -> bytes:
    """A footer without data."""
    sink = io.BytesIO()
    pq.write_metadata(file_schema(schema), sink)
    return sink.getvalue()


def _current(built: Built | None, version: int, place: TableFiles) -> TableRows | None:
    """Add the current state's files, under names that no other version has."""
    if built is None:
        return None
    files: list[DataFile | None] = []
    first = len(place.current)
    for bucket, (file, path) in enumerate(zip(built.rows.files, built.paths, strict=True), first):
        if file is None or path is None:
            files.append(None)
            continue
        name = f"part-{version:06}-{bucket:06}.parquet"
        files.append(replace(file, name=name))
        place.current[name] = Path(path)
    return replace(built.rows, files=tuple(files))


def _history(
    lake: Lake,
    state: TableState,
    built: Built | None,
    place: TableFiles,
    shapes: _Shapes,
    *,
    shards: bool,
) -> TableState:
    """Add a history's files: open ones as a current state's, closed ones as a changelog's."""
    if built is None:
        return replace(state, history=None)
    version = lake.manifest.next
    folder = lake.folder(state.folder) / "history"
    shape, closed_names, open_names = shaped(shapes.of(state, "history"), built)

    def put(path: Path, kind: str, names: Mapping[str, str]) -> str:
        if names and lake.staging in path.parents:
            path = renamed(path, names, images=False)
        name = f"{kind}-{version:06}-{len(place.history):06}.parquet"
        place.history[name] = path
        return name

    files: list[DataFile | None] = []
    for file, path in zip(built.rows.files, built.paths, strict=True):
        if file is None or path is None:
            files.append(None)
        else:
            files.append(replace(file, name=put(Path(path), "open", open_names)))
    closed = list(built.rows.closed)
    for file in closed:
        place.history[file.name] = folder / file.name
    for each, names in zip(built.closed, closed_names, strict=True):
        closed.append(replace(each.file, name=put(Path(each.path), "closed", names)))
    if built.closed:
        mark = f"closed-{version:06}-together-"
        name = f"{mark}{sum(each.startswith(mark) for each in place.history)}.parquet"
        there = lake.staging / "together" / folder.parent.name
        closed = list(merge_last(closed, place.history, there, name))
    if place.history:
        ours = [*((_SOURCE,) if shards else ()), *HISTORY_FIELDS]
        common = pa.schema([*as_arrow(shape), *ours])
        place.extra[f"history/{COMMON_METADATA}"] = _common_metadata(common)
    history = replace(built.rows, files=tuple(files), closed=tuple(closed))
    return shapes.put(replace(state, history=history), "history", shape)
