"""Record batches as the columns room gives them, made of Python rows."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa

from tailrace.columns.arrays import METADATA_FIELDS
from tailrace.position import sequence
from tailrace.spark.parquet.file import DataFolder
from tailrace.spark.state.changelog import ChangelogFiles, Limits

OPERATIONS = ["insert", "update", "delete", "snapshot"]


def batch(
    changes,
    columns,
    *,
    key=("id",),
    start=4,
    database="shop",
    table="orders",
    source="mysql",
    number=1,
    seq=None,
):
    """A batch of ``changes``: (operation, before, after), images as dicts or None.

    A column that an image lacks is absent from it. ``columns`` is an Arrow schema. Change n is the
    n-th row of the event at ``start``; with ``seq`` their places begin there.
    """
    image = pa.struct(list(columns))
    partial = any(
        set(each) != set(columns.names)
        for _, *images in changes
        for each in images
        if each is not None
    )

    def present(change):
        bits = {}
        for name, each in zip(("before", "after"), change[1:], strict=True):
            flags = [column in (each or {}) for column in columns.names]
            bits[name] = np.packbits(flags, bitorder="little").tobytes()
        return bits

    rows = len(changes)
    seqs = [sequence(number, start, row) if seq is None else seq + row for row in range(rows)]
    values = {
        "_op": pa.DictionaryArray.from_arrays(
            pa.array([OPERATIONS.index(op) for op, _, _ in changes], pa.int8()), OPERATIONS
        ),
        "_db": constant(database, rows),
        "_table": constant(table, rows),
        "_ts": pa.array([1_700_000_000_000_000 + start] * rows, pa.timestamp("us", "UTC")),
        "_gtid": constant("3e11fa47-71ca-11e1-9e33-c80aa9429562:1", rows),
        "_file": constant(f"binlog.{number:06}", rows),
        "_pos": pa.array([start] * rows, pa.int64()),
        "_seq": pa.array(list(map(Decimal, seqs)), pa.decimal128(38, 0)),
        "_server_id": pa.array([1] * rows, pa.int64()),
        "_present": pa.array(
            [present(change) if partial else None for change in changes],
            pa.struct([("before", pa.binary()), ("after", pa.binary())]),
        ),
        "_raw": pa.nulls(rows, pa.map_(pa.string(), pa.string())),
        "before": pa.array([before for _, before, _ in changes], image),
        "after": pa.array([after for _, _, after in changes], image),
    }
    fields = [*METADATA_FIELDS, pa.field("before", image), pa.field("after", image)]
    metadata = {
        "tailrace.table": f"{database}.{table}",
        "tailrace.source": source,
        "tailrace.key": json.dumps(list(key)),
        "tailrace.names": "log",
    }
    return pa.RecordBatch.from_arrays(
        [values[field.name] for field in fields], schema=pa.schema(fields, metadata)
    )


def data_folder(folder):
    """A folder as tasks have it: files are plain if it is in a lake of Delta or Iceberg tables."""
    inner = next((each for each in folder.parents if each.name == "_tailrace"), None)
    return DataFolder(folder, plain=inner is not None and not (inner / "versions").exists())


class OneFolder:
    """Where the files of all tables' changelogs go to one folder, without a note of it."""

    def __init__(self, folder):
        self.changelog = lambda _table: folder

    def note(self, _folders):
        pass


def changelog(folder, *batches, source=None, **limits):
    """The changelog files that batches become."""
    folder.mkdir(parents=True, exist_ok=True)
    to = OneFolder(data_folder(folder))
    writer = ChangelogFiles(to, source=source, limits=Limits(**limits))
    for each in batches:
        writer.add(each)
    return writer.finish()


def constant(text, rows):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
