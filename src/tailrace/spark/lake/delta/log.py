"""Delta's log: actions as JSON, and the one step that makes them a version.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md. The log is read through delta-rs, which
also makes its checkpoints; the commits are written here, since delta-rs has none that changes
columns and adds files at once (docs/design/formats.md).
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa
from deltalake import Field, Schema

from tailrace.spark.lake.tables import converted
from tailrace.spark.manifest.on_disk import write_file

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from tailrace.spark.lake.delta.vectors import Descriptor

LOG: Final = "_delta_log"
LAST: Final = "_last_checkpoint"

READER_FEATURES: Final = ("timestampNtz",)
WRITER_FEATURES: Final = ("appendOnly", "invariants", "timestampNtz")
VECTORS: Final = "deletionVectors"


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


def metadata(schema: str, configuration: dict[str, str], **known: Any) -> dict[str, Any]:
    """The action that gives a table its columns and properties; ``known`` is what it had before."""
    content = {
        "id": str(uuid.uuid4()),
        "createdTime": _now(),
        **{name: value for name, value in known.items() if value is not None},
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
        "schemaString": schema,
        "configuration": configuration,
    }
    return {"metaData": content}


def protocol(reader: Iterable[str], writer: Iterable[str], *, vectors: bool) -> dict[str, Any]:
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


def add(
    name: str,
    found: os.stat_result,
    stats: str,
    vector: Descriptor | None = None,
    *,
    changes: bool = True,
) -> dict[str, Any]:
    """The action that makes a file part of the table, or gives it another vector.

    ``stats`` are its figures as JSON; ``changes``: its rows are new ones.
    """
    content = {
        "path": quote(name),
        "partitionValues": {},
        "size": found.st_size,
        "modificationTime": found.st_mtime_ns // 1_000_000,
        "dataChange": changes,
        "stats": stats,
    }
    return {"add": content | ({} if vector is None else {"deletionVector": vector})}


def remove(name: str, vector: Descriptor | None = None, *, changes: bool = True) -> dict[str, Any]:
    """The action that takes a file out of the table, which has the vector."""
    content = {"path": quote(name), "deletionTimestamp": _now(), "dataChange": changes}
    return {"remove": content | ({} if vector is None else {"deletionVector": vector})}


def transaction(application: str, number: int) -> dict[str, Any]:
    """The action that says how far an application has written."""
    return {"txn": {"appId": application, "version": number, "lastUpdated": _now()}}


def commit_info(operation: str, **properties: Any) -> dict[str, Any]:
    """The action that says who did it."""
    return {
        "commitInfo": {
            "timestamp": _now(),
            "operation": operation,
            "operationParameters": {},
            "engineInfo": "Tailrace",
            **properties,
        }
    }


def write_version(table: Path, version: int, actions: Iterable[dict[str, Any]]) -> bool:
    """Make actions a version of the table; False where someone else made that version.

    The file is on disk then, its name is when its folder is. Raises OSError.
    """
    log = table / LOG
    log.mkdir(parents=True, exist_ok=True)
    try:
        lines = (f"{json.dumps(each)}\n" for each in actions)
        write_file(log / f"{version:020}.json", lines, new=True)
    except FileExistsError:
        return False
    return True


def _now() -> int:
    return time.time_ns() // 1_000_000
