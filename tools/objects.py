"""Record batches from decoded objects, to check that both paths give the same."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailrace.columns.arrays import NO_PRESENCE, OPERATIONS, constant
from tailrace.columns.frames import plan as k
from tailrace.columns.objects import arrow_value
from tailrace.errors import UnsupportedType
from tailrace.gtid import format_uuid
from tailrace.values.image import ABSENT
from tailrace.values.row import RowSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.columns.read.table import TableDecoder
    from tailrace.events.rows import RowsEvent
    from tailrace.values.image import Image
    from tailrace.values.row import Row


def batch_of_rows(
    event: RowsEvent,
    table: TableDecoder,
    transaction: np.ndarray[Any, Any],
    file_number: int,
    first_row: int,
) -> Iterator[pa.RecordBatch]:
    """One batch of the rows of one event, like those of `TableDecoder.decode`.

    ``transaction`` is the plan's; ``first_row`` is the number of the event's first row in ``_seq``.
    """
    rows = list(RowSet(event, table.table))
    if not rows:
        return
    count = len(rows)
    position = event.offset or 0
    stamp = int(transaction[k.T_STAMP])
    stamps = event.timestamp * 1_000_000 if stamp < 0 else stamp
    sequence = [
        Decimal((file_number << 92) | (position << 48) | (first_row + row.number)) for row in rows
    ]
    names = OPERATIONS.to_pylist()
    operations = pa.array([names.index(row.kind) for row in rows], pa.int8())
    raw: list[list[tuple[str, str]]] = [[] for _ in rows]
    try:
        images = [
            _images(table, [getattr(row, image) for row in rows], image, raw)
            for image in ("before", "after")
        ]
    except UnsupportedType as error:
        where = f"{event.file} at {position}: {table.table.database}.{table.table.table}"
        raise UnsupportedType(f"{where}.{error}") from None
    schema = table.schema
    arrays = [
        pa.DictionaryArray.from_arrays(operations, OPERATIONS),
        constant(table.table.database, count),
        constant(table.table.table, count),
        pa.array([stamps] * count, schema.field("_ts").type),
        pa.array([_gtid_text(transaction)] * count, pa.string()).dictionary_encode(),
        constant(event.file or "", count),
        pa.array([position] * count, pa.int64()),
        pa.array(sequence, schema.field("_seq").type),
        pa.array([event.header.server_id] * count, pa.int64()),
        _presence(event, rows, schema.field("_present").type),
        pa.array([found or None for found in raw], schema.field("_raw").type),
        *images,
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _gtid_text(transaction: np.ndarray[Any, Any]) -> str | None:
    kind = transaction[k.T_KIND]
    if kind == k.NO_GTID:
        return None
    number = int(transaction[k.T_NUMBER]) & 0xFFFF_FFFF_FFFF_FFFF  # unsigned in MariaDB
    if kind == k.MARIADB_GTID:
        return f"{transaction[k.T_DOMAIN]}-{transaction[k.T_SERVER]}-{number}"
    uuid = format_uuid(transaction[k.T_UUID : k.T_UUID + 2].tobytes())
    size = int(transaction[k.T_TAG_SIZE])
    tag = transaction[k.T_TAG : k.T_TAG + 4].tobytes()[:size].decode("ascii")
    return f"{uuid}:{tag}:{number}" if tag else f"{uuid}:{number}"


def _presence(event: RowsEvent, rows: list[Row], arrow: pa.DataType) -> pa.Array:
    bitmaps = (event.present_before, event.present_after)
    if all(bits is None or _is_full(bits, event.width) for bits in bitmaps):
        return NO_PRESENCE.of(len(rows))
    empty = bytes((event.width + 7) // 8)
    filled = [empty if bits is None else _tidy(bits, event.width) for bits in bitmaps]
    return pa.array([dict(zip(("before", "after"), filled, strict=True))] * len(rows), arrow)


def _is_full(bits: bytes, width: int) -> bool:
    return all(bits[index >> 3] >> (index & 7) & 1 for index in range(width))


def _tidy(bits: bytes, width: int) -> bytes:
    """As the kernels write it: all ones, including the bits past the end, if all columns are
    present.
    """
    return b"\xff" * len(bits) if _is_full(bits, width) else bits


def _images(
    table: TableDecoder,
    images: Iterable[Image | None],
    which: str,
    raw: list[list[tuple[str, str]]],
) -> pa.Array:
    found = list(images)
    children = []
    for column, plan in table.asked:
        values: list[Any] = []
        for number, image in enumerate(found):
            value = None if image is None else image.as_tuple()[column.index]
            if value is None or value is ABSENT:
                values.append(None)
                continue
            try:
                converted, odd = arrow_value(value, plan)
            except UnsupportedType as error:
                raise UnsupportedType(f"{column.name}: {error}") from None
            values.append(converted)
            if odd is not None:
                raw[number].append((f"{which}.{column.name}", odd))
        children.append(pa.array(values, plan.type))
    kind: pa.StructType = table.schema.field(which).type
    valid = np.packbits([image is not None for image in found], bitorder="little")
    return pa.Array.from_buffers(kind, len(found), [pa.py_buffer(valid)], children=children)
