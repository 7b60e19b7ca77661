"""Logs decoded to Arrow, encoded back, and held against the log's own bytes."""

from __future__ import annotations

import pyarrow as pa

from tailrace.columns.batches import changes
from tailrace.columns.read.committed import committed_in
from tailrace.columns.read.pool import Pool
from tailrace.columns.read.table import TableDecoder
from tailrace.columns.write.rows import encode_rows, present_of
from tailrace.errors import ValueRejected
from tailrace.values.encode import CellWriter
from tailrace.values.image import ABSENT
from tailrace.values.row import RowSet
from tests.columns.oracle import by_table
from tools.campaign import recording


def rows_events(series):
    """Each rows event of a series, its table, and its change records as the kernels decode them."""
    found = by_table(changes(series, statements="skip").record_batches())
    left_out = committed_in(series).left_out
    at, keys = dict.fromkeys(found, 0), {}
    for schema, event in recording.rows_events(series):
        if any(f == event.file and s <= event.offset < e for f, s, e in left_out):
            continue
        if schema not in keys:
            arrow = TableDecoder(schema, series.name, Pool()).schema
            keys[schema] = (arrow.metadata[b"tailrace.table"], arrow)
        key = keys[schema]
        count = len(RowSet(event, schema))
        yield event, schema, found[key].slice(at[key], count)
        at[key] += count
    assert at == {key: rows.num_rows for key, rows in found.items()}


def encoded(event, schema, records, most=1 << 30, filler=False):
    """A rows event written anew out of its change records."""
    images = {}
    for name, present in (("before", event.present_before), ("after", event.present_after)):
        images[name] = None
        if present is not None:
            columns = records[name].combine_chunks()
            chosen = [c.name for c in schema.columns if present[c.index >> 3] >> (c.index & 7) & 1]
            images[name] = pa.RecordBatch.from_struct_array(columns).select(chosen)
            assert present_of(schema, images[name]) == tidy(present, len(schema.columns))
    return encode_rows(
        schema,
        event.kind,
        **images,
        prefix=prefix_of(event),
        most=most,
        raw=records["_raw"],
        filler=filler,
    )


def prefix_of(event):
    return event.header.encode() + event.body[: len(event.body) - len(event.row_data)]


def tidy(present, width):
    """A bitmap without bits past the last column."""
    bits = int.from_bytes(present, "little") & ((1 << width) - 1)
    return bits.to_bytes(len(present), "little")


def by_objects(event, schema, *, filler=False):
    """The rows' bytes by the object path: Python objects out, and back in. None where refused."""
    writer = CellWriter(schema)
    data = b""
    for row in RowSet(event, schema):
        for image in (row.before, row.after):
            if image is None:
                continue
            try:
                cells = writer.cells(list(image.as_tuple()))
            except ValueRejected:
                return None
            here = [cell for cell in cells if cell is not ABSENT]
            size = (len(here) + 7) // 8
            nulls = sum(1 << at for at, cell in enumerate(here) if cell is None)
            if filler:
                nulls |= (1 << 8 * size) - (1 << len(here))
            data += nulls.to_bytes(size, "little")
            data += b"".join(cell for cell in here if cell is not None)
    return data
