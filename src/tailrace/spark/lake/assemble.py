"""The next version of a lake out of the one before and what a run has made."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.spark.lake.manifest import Current, DataFile, Manifest, TableState
from tailrace.spark.lake.names import folder_name
from tailrace.spark.lake.store import TableFiles
from tailrace.spark.parquet import with_spark_types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.spark.changelog import ChangeFile
    from tailrace.spark.current.build import Built
    from tailrace.spark.lake.manifest import SourceState
    from tailrace.spark.lake.store import Lake

COMMON_METADATA: Final = "_common_metadata"
"""Spark takes the schema of a folder from this file, where its data files' schemas differ."""


@dataclass(frozen=True)
class Made:
    """What a run has made: changelog files and current states by table, and the sources' ends."""

    files: Mapping[str, Sequence[ChangeFile]]
    built: Mapping[str, Built]
    sources: Mapping[str, SourceState]
    patterns: tuple[str, ...] | None
    keep: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The sources of tables that got their names from others."""


def assemble(lake: Lake, made: Made) -> tuple[Manifest, dict[str, TableFiles]]:
    """The manifest of the next version, and the places of its files by table's folder."""
    before = lake.manifest
    version = before.version + 1
    tables: dict[str, TableState] = {}
    places: dict[str, TableFiles] = {}
    for name in sorted({*before.tables, *made.files, *made.built}):
        known = before.tables.get(name)
        fresh = made.files.get(name, ())
        state = _state(known or _renamed(name, made), fresh)
        if state is None:
            continue
        folder = folder_name(state.database, state.table)
        place = TableFiles()
        if "changelog" in made.keep:
            state = _changelog(lake, state, known, fresh, version, place)
        if "current" in made.keep:
            current = _current(made.built.get(name), version, place)
            state = replace(state, current=current, dropped=current is None)
        tables[name] = state
        places[folder] = place
    sources = {**before.sources, **made.sources}
    return Manifest(version, made.patterns, made.keep, sources, tables), places


def _renamed(name: str, made: Made) -> TableState | None:
    """A table that has rows under this name, and no changes yet: RENAME TABLE gave it the name."""
    source, built = made.renamed.get(name), made.built.get(name)
    if source is None or built is None:
        return None
    database, table = name.split(".", 1)
    return TableState(database, table, source, "log", built.current.columns)


def _state(known: TableState | None, fresh: Sequence[ChangeFile]) -> TableState | None:
    """The table with the columns of all its changes; None where nothing is known of it."""
    if known is None and not fresh:
        return None
    if known is not None and not fresh:
        return known
    newest = fresh[-1]
    columns = {field.name: field for field in newest.columns}
    for schema in (*(file.columns for file in reversed(fresh)), *((known.columns,) if known else ())):
        for field in schema:
            columns.setdefault(field.name, field)
    return TableState(
        newest.database, newest.table, newest.source, newest.names, pa.schema(columns.values())
    )


def _changelog(
    lake: Lake,
    state: TableState,
    known: TableState | None,
    fresh: Sequence[ChangeFile],
    version: int,
    place: TableFiles,
) -> TableState:
    """Add the changelog's files, those before and the new ones."""
    files = list(known.changelog) if known is not None else []
    folder = lake.folder(folder_name(state.database, state.table)) / "changelog"
    for file in files:
        place.changelog[file.name] = folder / file.name
    for number, made in enumerate(fresh):
        name = f"part-{version:06}-{number:06}.parquet"
        files.append(DataFile(name, made.rows, made.size, made.memory))
        place.changelog[name] = Path(made.path)
    mixed = known is not None and not known.columns.equals(state.columns)
    mixed = mixed or any(not made.columns.equals(state.columns) for made in fresh)
    mixed = mixed or (folder / COMMON_METADATA).exists()
    if mixed and files:
        place.extra[COMMON_METADATA] = _common_metadata(state.columns)
    return replace(state, changelog=tuple(files))


def _common_metadata(columns: pa.Schema) -> bytes:
    """A footer without data, of the schema that has all columns."""
    image = pa.struct(list(columns))
    schema = pa.schema(
        [
            *(field.with_nullable(True) for field in METADATA_FIELDS),
            pa.field("before", image),
            pa.field("after", image),
        ]
    )
    sink = io.BytesIO()
    pq.write_metadata(with_spark_types(schema), sink)
    return sink.getvalue()


def _current(built: Built | None, version: int, place: TableFiles) -> Current | None:
    """Add the current state's files, under names that no other version has."""
    if built is None:
        return None
    files: list[DataFile | None] = []
    for bucket, (file, path) in enumerate(zip(built.current.files, built.paths, strict=True)):
        if file is None or path is None:
            files.append(None)
            continue
        name = f"part-{version:06}-{bucket:06}.parquet"
        files.append(replace(file, name=name))
        place.current[name] = Path(path)
    return replace(built.current, files=tuple(files))
