"""Record batches from decoded objects, to check that both paths give the same."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.arrays import NO_PRESENCE, OPERATIONS, constant
from tailrace.columns.frames import plan as k
from tailrace.errors import UnsupportedType
from tailrace.gtid import format_uuid
from tailrace.values.image import ABSENT
from tailrace.values.json_diff import JsonDiffs
from tailrace.values.row import RowSet
from tailrace.values.surrogates import escaped, has_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.columns.read.table import TableDecoder
    from tailrace.columns.types import Plan
    from tailrace.events.rows import RowsEvent
    from tailrace.values.image import Image
    from tailrace.values.row import Row

_EPOCH: Final = date(1970, 1, 1)
_TEMPORAL: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?")
_DURATION: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


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


def arrow_value(value: Any, plan: Plan) -> tuple[Any, str | None]:
    """A value of the object path as ``plan.type`` holds it; or None and its text, if it cannot."""
    arrow = plan.type
    if isinstance(value, JsonDiffs):
        raise UnsupportedType(
            "a partial JSON update without the document before it, so its value is unknown: "
            "log with binlog_row_image=FULL or without binlog_row_value_options=PARTIAL_JSON, or "
            "leave the column or its table out"
        )
    if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow):
        return _temporal(str(value), arrow)
    if pa.types.is_duration(arrow):
        match = _DURATION.fullmatch(value)
        if match is None:
            return None, str(value)
        sign, hours, minutes, seconds, part = match.groups()
        duration = timedelta(
            hours=int(hours),
            minutes=int(minutes),
            seconds=int(seconds),
            microseconds=int((part or "0").ljust(6, "0")),
        )
        return (-duration if sign else duration), None
    if pa.types.is_decimal(arrow):
        return Decimal(value), None
    if isinstance(value, Decimal):
        return f"{value:f}", None
    if isinstance(value, str) and has_surrogates(value):
        return None, escaped(value)
    return value, None


def _temporal(text: str, arrow: pa.DataType) -> tuple[Any, str | None]:
    match = _TEMPORAL.fullmatch(text)
    if match is None:
        return None, text
    year, month, day = (int(part) for part in match.groups()[:3])
    try:
        days = (date(year, month, day) - _EPOCH).days
    except ValueError:
        return None, text
    if pa.types.is_date(arrow):
        return days, None
    hours, minutes, seconds = (int(part) for part in match.groups()[3:6])
    part = int((match[7] or "0").ljust(6, "0"))
    return ((days * 24 + hours) * 3600 + minutes * 60 + seconds) * 1_000_000 + part, None
