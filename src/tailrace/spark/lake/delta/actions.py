"""A step of a batch as the actions of a commit to a Delta table's log."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa
from deltalake import Field, Schema

from tailrace.spark.lake.delta.log import READER_FEATURES, VECTORS, WRITER_FEATURES
from tailrace.spark.lake.delta.statistics import statistics
from tailrace.spark.lake.delta.vectors import write
from tailrace.spark.lake.tables import APPLICATION, MARK, converted
from tailrace.spark.parquet.deleted import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tailrace.spark.lake.delta.log import Action
    from tailrace.spark.lake.delta.table import Table
    from tailrace.spark.lake.delta.vectors import Vector
    from tailrace.spark.lake.tables import Step

_CONFIGURATION: Final = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
_WITH_VECTORS: Final = {"delta.enableDeletionVectors": "true"}


def actions_of(step: Step, batch: int, table: Table) -> list[Action]:
    """The actions that do a batch's step in a table as it is now.

    Vectors that the log is to name outside of it are on disk then. Raises OSError, `PipelineError`.
    """
    known: Mapping[str, Vector | None] = {}
    if step.goes is not None or step.merges or step.deletes:
        known = table.files()  # else all stay, and there may be very many
    adds, gone = step.changes(known)
    wanted = _vectors(table, step, batch, known)
    altered = {
        name for name in {*step.stays, *wanted} - adds if known.get(name) != wanted.get(name)
    }
    done = {
        "timestamp": _now(),
        "operation": "WRITE" if step.goes is None else "MERGE",
        "operationParameters": {},
        "engineInfo": "Tailrace",
        "isBlindAppend": step.goes is None,
        "tailrace": step.properties,
    }
    actions: list[Action] = [
        {"commitInfo": done},
        {"txn": {"appId": APPLICATION, "version": batch, "lastUpdated": _now()}},
        *_about(step, table, vectors=bool(wanted)),
        *(remove(name, known.get(name)) for name in sorted(gone | altered)),
        *(_add(table.folder, name, wanted.get(name)) for name in (*sorted(adds), *sorted(altered))),
    ]
    touched = {name for name, vector in known.items() if vector is not None}
    for merge in step.merged(known, touched):  # for readers nothing changes
        actions += [remove(name, changes=False) for name in merge.sources]
        actions.append(_add(table.folder, merge.target, changes=False))
    return actions


def _vectors(
    table: Table, step: Step, batch: int, now: Mapping[str, Vector | None]
) -> dict[str, Vector]:
    """The vectors of the files that a step adds and keeps; new ones where it deletes rows."""
    before = now
    overrules = step.base is not None and not table.is_at(step.base)
    if overrules and step.deleted:
        before = table.files(step.base)
    found = {
        name: vector
        for name in step.deleted.intersection(step.stays)
        if (vector := before.get(name)) is not None
    }
    for vector in found.values() if overrules else ():
        vector.read()  # it may be gone
    fresh = {}
    for name, rows in step.deletes.items():
        known = found.get(name)
        fresh[name] = rows if known is None else joined(known.read(), rows)
    number = "" if table.delta is None else table.delta.metadata().id
    return found | write(fresh, table.folder, f"{number}/{step.table}/{batch}")


def _about(step: Step, table: Table, *, vectors: bool) -> Iterator[Action]:
    """What readers must know, and the columns, where these are not what the table has."""
    content: dict[str, Any] = {"id": str(uuid.uuid4()), "createdTime": _now()}
    configuration = dict(_CONFIGURATION)
    there = None
    if table.delta is None:
        yield protocol(READER_FEATURES, WRITER_FEATURES, vectors=vectors)
    else:
        table.check()
        now, known, there = table.delta.protocol(), table.delta.metadata(), table.delta.schema()
        if vectors and VECTORS not in (now.reader_features or ()):
            yield protocol(now.reader_features or (), now.writer_features or (), vectors=True)
        mine = {"id": str(known.id), "createdTime": known.created_time}
        mine |= {"name": known.name, "description": known.description}
        content |= {name: value for name, value in mine.items() if value is not None}
        configuration = dict(known.configuration)
        if MARK in step.properties:
            configuration.pop(MARK, None)
            configuration |= {MARK: mark} if (mark := step.properties[MARK]) else {}
    configuration |= _WITH_VECTORS if vectors else {}
    schema = schema_string(step.schema, there)
    if there is None or schema != there.to_json() or configuration != known.configuration:
        content |= {
            "format": {"provider": "parquet", "options": {}},
            "partitionColumns": [],
            "schemaString": schema,
            "configuration": configuration,
        }
        yield {"metaData": content}


def protocol(reader: Iterable[str], writer: Iterable[str], *, vectors: bool) -> Action:
    """The action that says what readers and writers must know: features, and deletion vectors."""
    more = {VECTORS} if vectors else set()
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": sorted({*reader} | more),
            "writerFeatures": sorted({*writer} | more),
        }
    }


def schema_string(columns: pa.Schema, known: Schema | None = None) -> str:
    """Columns as a table's metadata has them; as ``known`` has them, where a table has these.

    What others have noted at columns that stay is kept. Raises `UnsupportedType`.
    """
    old = {}
    if known is not None:
        there = pa.schema(known.to_arrow())
        if (there.names, there.types) == (columns.names, columns.types):
            return known.to_json()
        kinds = zip(there.names, there.types, strict=True)
        old = dict(zip(kinds, known.fields, strict=True))
    found = []
    fields = converted("Delta", columns, Schema.from_arrow).fields
    for column, new in zip(columns, fields, strict=True):
        same = old.get((column.name, column.type))
        metadata = None if same is None else same.metadata
        found.append(Field(new.name, new.type, metadata=metadata))
    return Schema(found).to_json()


def _add(folder: Path, name: str, vector: Vector | None = None, *, changes: bool = True) -> Action:
    """The action that makes a file part of the table, or gives it another vector.

    ``changes``: its rows are new ones.
    """
    figures = statistics(folder / name, tight=vector is None)
    found = (folder / name).stat()
    content = {
        "path": quote(name),
        "partitionValues": {},
        "size": found.st_size,
        "modificationTime": found.st_mtime_ns // 1_000_000,
        "dataChange": changes,
        "stats": figures,
    }
    return {"add": content | _with(vector)}


def remove(name: str, vector: Vector | None = None, *, changes: bool = True) -> Action:
    """The action that takes a file out of the table, which has the vector."""
    content = {"path": quote(name), "deletionTimestamp": _now(), "dataChange": changes}
    return {"remove": content | _with(vector)}


def _with(vector: Vector | None) -> Action:
    return {} if vector is None else {"deletionVector": vector.descriptor}


def _now() -> int:
    return time.time_ns() // 1_000_000
