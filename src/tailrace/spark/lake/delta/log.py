"""Delta's log: actions as JSON, and the one step that makes them a version.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md. The log is read through delta-rs, which
also makes its checkpoints; the commits are written here, since delta-rs has none that changes
columns and adds files at once (docs/design/formats.md).
"""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa

from tailrace.spark.manifest.on_disk import put_new_file
from tailrace.spark.record.types import DELTA, json_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tailrace.spark.lake.delta.vectors import Descriptor

LOG: Final = "_delta_log"
LAST: Final = "_last_checkpoint"

READER_FEATURES: Final = ("timestampNtz",)
WRITER_FEATURES: Final = ("appendOnly", "invariants", "timestampNtz")
VECTORS: Final = "deletionVectors"
_TIGHT: Final = re.compile(r'(?<!\\)"tightBounds"\s*:\s*(?:true|false)')


def schema_string(columns: pa.Schema) -> str:
    """A table's schema, as its metadata has it; raises `UnsupportedType`."""
    return json.dumps(json_type(pa.struct(list(columns)), DELTA))


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
    size: int,
    statistics: str,
    vector: Descriptor | None = None,
    *,
    changes: bool = True,
) -> dict[str, Any]:
    """The action that makes a file part of the table; ``changes``: its rows are new ones."""
    content = {
        "path": quote(name),
        "partitionValues": {},
        "size": size,
        "modificationTime": _now(),
        "dataChange": changes,
        "stats": statistics,
    }
    return {"add": _with_vector(content, vector)}


def add_again(known: Mapping[str, Any], vector: Descriptor | None) -> dict[str, Any]:
    """The action that gives a file of the table another vector; ``known`` is what added it.

    It has the file's figures, ``stats``.
    """
    content = {
        name: value
        for name, value in known.items()
        if value is not None and name != "deletionVector"
    }
    return {"add": _with_vector({**content, "dataChange": True}, vector)}


def _with_vector(content: dict[str, Any], vector: Descriptor | None) -> dict[str, Any]:
    """An ``add`` with its vector; the bounds of columns are not tight with one, and say so."""
    tight = f'"tightBounds": {"true" if vector is None else "false"}'
    text, count = _TIGHT.subn(tight, content["stats"])
    if vector is None:
        return {**content, "stats": text}
    if not count:
        text = text.rstrip().removesuffix("}") + f", {tight}}}"
    return {**content, "stats": text, "deletionVector": told(vector)}


def remove(name: str, vector: Descriptor | None = None, *, changes: bool = True) -> dict[str, Any]:
    """The action that takes a file out of the table, which has the vector."""
    content = {"path": quote(name), "deletionTimestamp": _now(), "dataChange": changes}
    return {"remove": content | ({} if vector is None else {"deletionVector": told(vector)})}


def told(vector: Descriptor) -> Descriptor:
    """A vector's descriptor as an action has it: without what it lacks."""
    return {name: value for name, value in vector.items() if value is not None}


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

    Raises OSError.
    """
    log = table / LOG
    log.mkdir(parents=True, exist_ok=True)
    try:
        put_new_file(log / f"{version:020}.json", (f"{json.dumps(each)}\n" for each in actions))
    except FileExistsError:
        return False
    return True


def _now() -> int:
    return time.time_ns() // 1_000_000
