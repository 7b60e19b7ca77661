"""Arrow arrays built from the kernels' buffers, and arrays that are the same for all batches."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.frames import plan as k
from tailrace.columns.pages import Pages, give_back
from tailrace.constants import ColumnType
from tailrace.table_name import TableName
from tailrace.values.schema import Column, Logical, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Array = np.ndarray[Any, Any]


def strings(texts: Sequence[str]) -> pa.StringArray:
    """An array of texts; unlike ``pa.array``, it does not import pandas where that is installed."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


OPERATIONS: Final = strings(["insert", "update", "delete", "snapshot"])
_NAME: Final = pa.dictionary(pa.int32(), pa.string())
"""Wide enough for the names of any number of batches together, even from a thousand files."""
_PRESENT: Final = pa.struct([("before", pa.binary()), ("after", pa.binary())])
_RAW: Final = pa.map_(pa.string(), pa.string())

METADATA_FIELDS: Final = (
    pa.field("_op", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    pa.field("_db", _NAME, nullable=False),
    pa.field("_table", _NAME, nullable=False),
    pa.field("_ts", pa.timestamp("us", "UTC"), nullable=False),
    pa.field("_gtid", _NAME),
    pa.field("_file", _NAME, nullable=False),
    pa.field("_pos", pa.int64(), nullable=False),
    pa.field("_seq", pa.decimal128(38, 0), nullable=False),
    pa.field("_server_id", pa.int64(), nullable=False),
    pa.field("_present", _PRESENT),
    pa.field("_raw", _RAW),
)
"""The change record's own fields, in order; ``before`` and ``after`` follow."""

_COLUMNS: Final = b"tailrace.columns"
_COLUMN: Final = b"tailrace.column"
_MOST_ZEROS: Final = 1 << 16
_MOVED: Final = 4 << 20
"""Bytes that are moved together."""


def schema_of(table: TableSchema, image: pa.StructType, source: str, columns: str) -> pa.Schema:
    """The Arrow schema of a table's batches; ``image`` is the type of a row image, ``columns`` what
    `described` gives.
    """
    key = [table.columns[index].name for index in table.primary_key]
    return pa.schema(
        [*METADATA_FIELDS, pa.field("before", image), pa.field("after", image)],
        metadata={
            "tailrace.table": str(table.full_name),
            "tailrace.source": source,
            "tailrace.key": json.dumps(key),
            "tailrace.names": table.names_from,
            _COLUMNS: columns,
        },
    )


def described(columns: Sequence[Column]) -> str:
    """Columns for the metadata of a schema, for `table_of`."""
    return json.dumps([description_of(each) for each in columns])


def description_of(column: Column) -> list[Any]:
    """A column as JSON has it, for `column_of`."""
    kind = [column.name, int(column.type), column.metadata, column.unsigned, column.logical]
    return [*kind, column.collation, column.members]


def described_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a batch's images, each with its description in the field's metadata, if the
    batch's schema has them.
    """
    image = schema.field("after").type
    if _COLUMNS not in schema.metadata:
        return pa.schema(list(image))
    described = {each[0]: json.dumps(each) for each in json.loads(schema.metadata[_COLUMNS])}
    return pa.schema([each.with_metadata({_COLUMN: described[each.name]}) for each in image])


def described_field(column: Column) -> pa.Field:
    """The field of a column, with its description, as `described_columns` gives it."""
    from tailrace.columns.types import plan_of  # noqa: PLC0415 - it imports this module

    description = {_COLUMN: json.dumps(description_of(column))}
    return pa.field(column.name, plan_of(column).type, metadata=description)


def described_column(field: pa.Field) -> Column | None:
    """The column that a field's description is of; None if it has none."""
    description = (field.metadata or {}).get(_COLUMN)
    return None if description is None else _described(field.name, description)


@functools.lru_cache(4096)
def _described(name: str, description: bytes) -> Column:
    return column_of(0, [name, *json.loads(description)[1:]])


def described_table(
    database: str, table: str, columns: pa.Schema, key: Sequence[str]
) -> TableSchema | None:
    """The table of columns that `described_columns` has given; fields may have other names since.
    None if one has no description.
    """
    found = []
    for index, field in enumerate(columns):
        if _COLUMN not in (field.metadata or {}):
            return None
        found.append(column_of(index, [field.name, *json.loads(field.metadata[_COLUMN])[1:]]))
    places = tuple(columns.names.index(name) for name in key)
    return TableSchema(database, table, tuple(found), places, "log")


def column_of(index: int, description: Sequence[Any]) -> Column:
    """The column of an index that a description is of. It may be NULL."""
    name, kind, size, unsigned, logical, collation, members = description
    members = None if members is None else tuple(members)
    kind, logical = ColumnType(kind), Logical(logical)
    return Column(index, name, kind, size, True, unsigned, collation, members, logical)


def table_of(schema: pa.Schema) -> TableSchema:
    """The table that a batch's schema describes, with its columns as in the log."""
    metadata = schema.metadata
    database, table = TableName.parse(metadata[b"tailrace.table"].decode())
    described = json.loads(metadata[_COLUMNS])
    columns = tuple(column_of(index, each) for index, each in enumerate(described))
    key = json.loads(metadata[b"tailrace.key"])
    names = [column.name for column in columns]
    return TableSchema(database, table, columns, tuple(names.index(name) for name in key))


def row_numbers(batch: pa.RecordBatch) -> Array:
    """The number of each row in its event, from ``_seq`` (`tailrace.position.sequence`)."""
    places = batch.column("_seq")
    words = np.frombuffer(places.buffers()[1], np.int64, 2 * len(batch), 16 * places.offset)
    return words[::2] & 0xFFFFFFFFFFFF


@functools.cache
def _zeros(size: int) -> pa.Buffer:
    return pa.py_buffer(np.zeros(size, np.uint8))


def zeros(size: int) -> pa.Buffer:
    """At least ``size`` zero bytes, shared by all callers."""
    return _zeros(max(_MOST_ZEROS, 1 << (size - 1).bit_length()))


class Nulls:
    """Arrays of NULLs of one type, which take no memory of their own."""

    def __init__(self, arrow: pa.DataType) -> None:
        self._type = arrow
        self._made: dict[int, pa.Array] = {}

    def of(self, length: int) -> pa.Array:
        """An array of so many."""
        rounded = max(16, 1 << (length - 1).bit_length())
        made = self._made.get(rounded)
        if made is None:
            made = self._made[rounded] = _nulls(self._type, rounded)
        return made.slice(0, length)


NO_RAW: Final = Nulls(_RAW)
NO_PRESENCE: Final = Nulls(_PRESENT)


@functools.lru_cache(maxsize=1024)
def _nulls(arrow: pa.DataType, length: int) -> pa.Array:
    valid = zeros((length + 7) // 8)
    if pa.types.is_null(arrow):
        return pa.nulls(length)
    if pa.types.is_struct(arrow):
        children = [_nulls(field.type, length) for field in arrow]
        return pa.Array.from_buffers(arrow, length, [valid], length, children=children)
    if pa.types.is_map(arrow) or pa.types.is_list(arrow):
        child = _empty(arrow.field(0).type)
        offsets = zeros((length + 1) * 4)
        return pa.Array.from_buffers(arrow, length, [valid, offsets], length, children=[child])
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        offsets = zeros((length + 1) * 4)
        return pa.Array.from_buffers(arrow, length, [valid, offsets, zeros(1)], length)
    width = arrow.bit_width // 8 or 1
    return pa.Array.from_buffers(arrow, length, [valid, zeros(length * width)], length)


def _empty(arrow: pa.DataType) -> pa.Array:
    if pa.types.is_struct(arrow):
        children = [_empty(field.type) for field in arrow]
        return pa.Array.from_buffers(arrow, 0, [None], 0, children=children)
    buffers = [zeros(4), zeros(1)] if pa.types.is_string(arrow) else [zeros(8)]
    return pa.Array.from_buffers(arrow, 0, [None, *buffers], 0)


@functools.lru_cache(maxsize=4096)
def _word(text: str) -> pa.Array:
    return strings([text])


def constant(text: str, length: int) -> pa.DictionaryArray:
    """The same text ``length`` times."""
    indices = pa.Array.from_buffers(pa.int32(), length, [None, zeros(4 * length)], 0)
    return pa.DictionaryArray.from_arrays(indices, _word(text), safe=False)


class OddText(NamedTuple):
    """A value of `odd_values` as its text; ``place`` is the image << 32 and the column's index."""

    row: int
    place: int
    text: str


def odd_values(
    odd: Array, texts: Sequence[OddText], length: int, names: Sequence[str], digits: Sequence[int]
) -> pa.Array:
    """The ``_raw`` column: odd dates and times (ODD_WORDS words each) and texts of other values.

    ``names`` are the columns' names, ``digits`` the number of digits of their fractions.
    """
    if len(odd) == 0 and not texts:
        return NO_RAW.of(length)
    found = [
        OddText(row, place, _odd_text(date, time, digits[place & 0xFFFFFFFF]))
        for row, place, date, time in odd[:, [k.O_ROW, k.O_PLACE, k.O_DATE, k.O_TIME]].tolist()
    ]
    if texts:
        found = sorted([*found, *texts])
    counts = np.bincount([each.row for each in found], minlength=length)
    offsets = np.zeros(length + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    keys = [
        f"{('before', 'after')[each.place >> 32]}.{names[each.place & 0xFFFFFFFF]}"
        for each in found
    ]
    entries = pa.StructArray.from_arrays(
        [strings(keys), strings([each.text for each in found])],
        fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())],
    )
    valid = np.packbits(counts > 0, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(_RAW, length, buffers, children=[entries])


def _odd_text(date: int, time: int, digits: int) -> str:
    year, month = divmod(date >> 5, 13)
    text = f"{year:04}-{month:02}-{date & 31:02}"
    if time < 0:
        return text
    seconds, part = divmod(time, 1_000_000)
    text += f" {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{part:06}"[: len(text) + 1 + digits] if digits else text


def replaced(array: pa.BinaryArray, values: Mapping[int, bytes]) -> pa.BinaryArray:
    """An array with other values in some rows."""
    places = pa.array([row in values for row in range(len(array))])
    others = pa.array([values[row] for row in sorted(values)], array.type)
    return pc.replace_with_mask(array, places, others)


def presence(before: Array, after: Array, valid: pa.Buffer | None, length: int) -> pa.Array:
    """The ``_present`` column, from two bitmaps of the same size for each row."""
    size = before.size // length if length else 0
    offsets = pa.py_buffer(np.arange(length + 1, dtype=np.int32) * np.int32(size))
    children = [
        pa.Array.from_buffers(pa.binary(), length, [None, offsets, pa.py_buffer(bits)])
        for bits in (before, after)
    ]
    return pa.Array.from_buffers(_PRESENT, length, [valid], children=children)


def moved(array: pa.Array, *, spent: bool = False) -> pa.Array:
    """The same text or bytes, in memory of their own.

    If they are ``spent`` (not read again), their old memory is returned to the system.
    """
    valid, offsets, data = array.buffers()
    source = np.frombuffer(data, np.uint8)
    pages = Pages(source.size)
    target = pages.array()
    for at in range(0, source.size, _MOVED):
        piece = source[at : at + _MOVED]
        target[at : at + _MOVED] = piece
        if spent:
            give_back(int(piece.ctypes.data), piece.size)
    buffers = [valid, offsets, pages.buffer()]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)
