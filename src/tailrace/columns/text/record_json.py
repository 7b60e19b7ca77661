"""The rows of a batch as change records, a line of JSON each (`tailrace.values.change_record`)."""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.arrays import strings
from tailrace.columns.frames import text as f
from tailrace.columns.native import kernel
from tailrace.columns.text.lines import Lines
from tailrace.columns.text.row_json import check_raw, images_of, null_documents
from tailrace.columns.text_output import layout, write

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.values.schema import TableSchema

_SLACK: Final = 64
_RECORD: Final = 250
"""Bytes of a record, roughly, without its images and names."""


def record_lines(batch: pa.RecordBatch, schema: TableSchema, file: str, start: int = 0) -> Lines:
    """A batch of one table and one file as lines.

    Raises EventDecodeError for values that JSON does not have.

    That includes text that UTF-8 cannot hold; callers read such rows in another way. ``start``
    is that of `Lines.of_rows`.
    """
    check_raw(batch, schema)
    frame = np.zeros(f.RECORD_WORDS, np.int64)
    held: list[Any] = []  # keeps memory alive while the kernel runs

    def literal(text: str) -> tuple[int, int]:
        data = text.encode()
        held.append(np.frombuffer(data + bytes(_SLACK), np.uint8))
        return held[-1].ctypes.data, len(data)

    name = f'"_db":{encode_basestring(schema.database)},"_table":{encode_basestring(schema.table)},'
    heads = np.array(
        [literal(f'{{"_op":"{op}",{name}"_ts":') for op in ("insert", "update", "delete")],
        np.int64,
    )
    frame[f.R_HEADS] = heads.ctypes.data
    frame[f.R_FILE : f.R_FILE + 2] = literal(f',"_file":{encode_basestring(file)},"_pos":')
    frame[f.R_OP] = _values(batch.column("_op").indices, 1)
    for word, field, width in (
        (f.R_STAMP, "_ts", 8),
        (f.R_POSITION, "_pos", 8),
        (f.R_SERVER, "_server_id", 8),
        (f.R_SEQUENCE, "_seq", 16),
    ):
        frame[word] = _values(batch.column(field), width)
    gtid = batch.column("_gtid")
    frame[f.R_GTID] = _values(gtid.indices, 4)
    if gtid.indices.null_count:
        valid = np.packbits(np.asarray(gtid.indices.is_valid()), bitorder="little")
        frame[f.R_GTID_VALID] = valid.ctypes.data
    frame[f.R_GTIDS], _, frame[f.R_GTIDS + 1] = layout(gtid.dictionary)
    beside = _raw_texts(batch, schema)
    if beside is not None:
        frame[f.R_BESIDE], _, frame[f.R_BESIDE + 1] = layout(beside)
    images = images_of(batch, schema, frame)
    expected = (_RECORD + len(name) + len(file)) * len(batch)
    expected += sum(each.expected for each in images)
    texts = write(kernel("record_json"), frame, batch.column("_pos"), expected, "records")
    return Lines.of_rows(texts, batch, start)


def _values(array: pa.Array, width: int) -> int:
    """The address of an array's first value."""
    return int(array.buffers()[1].address + width * array.offset)


def _raw_texts(batch: pa.RecordBatch, schema: TableSchema) -> pa.StringArray | None:
    """``"_raw":{...},`` of the rows in which a document is JSON's null; None without any."""
    nulls = null_documents(batch, schema)
    if nulls.null_count == len(nulls):
        return None
    texts = [
        ""
        if pairs is None
        else '"_raw":{' + ",".join(f'{encode_basestring(key)}:"null"' for key, _ in pairs) + "},"
        for pairs in nulls.to_pylist()
    ]
    return strings([*texts, " " * _SLACK])  # kernels copy in steps, past the last one's end
