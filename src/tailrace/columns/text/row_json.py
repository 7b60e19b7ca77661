"""Row images of a record batch as JSON documents, all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from tailrace.columns import native
from tailrace.columns.arrays import OddText, odd_values, strings
from tailrace.columns.frames import text as f
from tailrace.columns.frames.plan import ODD_WORDS
from tailrace.columns.text_output import bits, layout, write
from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, UnsupportedType
from tailrace.values.change_record import is_document
from tailrace.values.json import JSON_SPACE, declared_json
from tailrace.values.old_temporal import TYPES as OLD_TEMPORAL_TYPES
from tailrace.values.schema import Logical
from tailrace.values.surrogates import unescaped

if TYPE_CHECKING:
    from collections.abc import Collection

    from tailrace.values.schema import Column, TableSchema

Words = np.ndarray[Any, np.dtype[np.int64]]
Label = Callable[["Column"], str]


def json_key(column: Column) -> str:
    """A column's name as an object's key, after a comma."""
    return f",{encode_basestring(column.name)}:"


_FIXED: Final = {
    pa.int8(): f.INT8,
    pa.int16(): f.INT16,
    pa.int32(): f.INT32,
    pa.int64(): f.INT64,
    pa.float32(): f.FLOAT,
    pa.float64(): f.DOUBLE_FLOAT,
    pa.date32(): f.DATE,
    pa.timestamp("us"): f.MOMENT,
    pa.timestamp("us", "UTC"): f.MOMENT,
    pa.duration("us"): f.SPAN,
}
_BEFORE_NULL: Final = np.frombuffer(f"n{JSON_SPACE}".encode(), np.uint8)
_AFTER_NULL: Final = np.frombuffer(f"l{JSON_SPACE}".encode(), np.uint8)
_FRACTIONAL: Final = OLD_TEMPORAL_TYPES | {
    ColumnType.TIME2,
    ColumnType.DATETIME2,
    ColumnType.TIMESTAMP2,
}


def images_to_json(
    batch: pa.RecordBatch, schema: TableSchema, image: Literal["before", "after"]
) -> pa.StringArray:
    """Write each row's image as a JSON object, as `tailrace.values.change_record` does; a missing
    image is null.

    Keys are the columns that the batch has, in its order; those absent from a row's image are left
    out. Values in ``_raw`` are written as its text. Raises `EventDecodeError` for a number that
    JSON does not have, and `UnsupportedType` for an Arrow type that no column of a log is decoded
    to.
    """
    images = batch.column(image)
    if images.null_count == len(batch):
        return pa.nulls(len(batch), pa.string())
    frame = ImageFrame(batch, schema, image)
    try:
        kernel = native.kernel("row_json")
        return write(kernel, frame.words, images, frame.expected, f"{image} images")
    except EventDecodeError as error:
        error.message = f"column {frame.bad_column}: {error.message}"
        raise


class ImageFrame:
    """A kernel's frame for a batch's images, before or after: ``words`` of `text_frames`. It points
    into the batch and into this object.

    ``label`` gives the text before a column's value. ``expected`` is a guess of the texts' bytes.
    """

    def __init__(
        self,
        batch: pa.RecordBatch,
        schema: TableSchema,
        image: Literal["before", "after"],
        label: Label = json_key,
    ) -> None:
        images = batch.column(image)
        self._columns = [
            _Source(images.field(number), schema.columns[_index(schema, field.name)], image, label)
            for number, field in enumerate(images.type)
        ]
        words = self._column_words = np.zeros((len(self._columns), f.COLUMN_WORDS), np.int64)
        for row, source in zip(words, self._columns, strict=True):
            source.describe(row)
        frame = self.words = np.zeros(f.DOCUMENT_WORDS, np.int64)
        self._levels = np.empty(f.DEPTH, np.uint8)
        frame[f.COLUMNS], frame[f.COLUMN_COUNT] = words.ctypes.data, len(self._columns)
        frame[f.LEVELS] = self._levels.ctypes.data
        self._present = _presence(batch, image)
        if self._present is not None:
            frame[f.PRESENT] = self._present.ctypes.data
        documents = {
            f"{image}.{source.column.name}"
            for row, source in zip(words, self._columns, strict=True)
            if row[f.KIND] == f.DECLARED_JSON
        }
        self._odd = _odd_values(batch, documents, frame)
        if self._odd is not None:
            frame[f.ODD] = self._odd.ranges.ctypes.data
        keys = sum(len(source.key) + 1 for source in self._columns)
        self.expected = keys * len(batch) + 2 * images.nbytes

    @property
    def bad_column(self) -> str:
        """The column at which the kernel failed."""
        return str(self._columns[self.words[f.BAD_COLUMN]].column.name)


def images_of(
    batch: pa.RecordBatch, schema: TableSchema, frame: Any, label: Label = json_key
) -> list[ImageFrame]:
    """Put both images into a record's frame; the result keeps alive what the frame points to."""
    images = []
    for number, name in enumerate(("before", "after")):
        column = batch.column(name)
        if column.null_count == len(batch):
            continue
        image = ImageFrame(batch, schema, "before" if number == 0 else "after", label)
        images.append(image)
        word = f.R_IMAGES + 3 * number
        frame[word] = image.words.ctypes.data
        frame[word + 1 : word + 3] = bits(column)
    return images


def check_raw(batch: pa.RecordBatch, schema: TableSchema) -> None:
    """Raise EventDecodeError if ``_raw`` holds values other than dates and times."""
    raw = batch.column("_raw")
    if raw.null_count == len(batch):
        return
    texts = {
        f"{image}.{column.name}"
        for column in schema.columns
        for image in ("before", "after")
        if column.logical in {Logical.TEXT, Logical.JSON} or column.members is not None
    }
    if not texts.isdisjoint(raw.keys.unique().to_pylist()):
        raise EventDecodeError("text that UTF-8 cannot hold")


def null_documents(batch: pa.RecordBatch, schema: TableSchema) -> pa.Array:
    """The JSON record's ``_raw``: which documents of each row are JSON's null, not SQL's NULL."""
    names: list[str] = []
    found: list[OddText] = []
    for number, name in enumerate(("before", "after")):
        images = batch.column(name)
        names = [field.name for field in images.type]
        if images.null_count == len(batch):
            continue
        for place, column in enumerate(names):
            declared = schema.columns[_index(schema, column)]
            if not is_document(declared):
                continue
            rows = _nulls_among(images.field(place))
            found += [OddText(row, number << 32 | place, "null") for row in rows]
    return odd_values(np.zeros((0, ODD_WORDS), np.int64), found, len(batch), names, ())


def _nulls_among(texts: pa.StringArray) -> list[int]:
    """The rows whose text is ``null``, with or without blanks around it."""
    ends = _offsets(texts)
    rows = np.flatnonzero(np.diff(ends) >= len("null"))
    if len(rows) == 0:
        return []
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    fits = np.isin(data[ends[rows]], _BEFORE_NULL) & np.isin(data[ends[rows + 1] - 1], _AFTER_NULL)
    values = ((row, texts[row].as_py()) for row in rows[fits].tolist())
    return [row for row, text in values if text is not None and text.strip(JSON_SPACE) == "null"]


def _index(schema: TableSchema, name: str) -> int:
    index = schema.index_of(name)
    if index is None:
        raise UnsupportedType(f"{schema.full_name} has no column {name}")
    return index


@dataclass(slots=True)
class _Source:
    """A column's values, and how they are written in documents."""

    array: pa.Array
    column: Column
    image: str
    label: Label
    key: Any = None
    name: Any = None

    def __post_init__(self) -> None:
        text = self.label(self.column).encode()
        self.key = np.frombuffer(text.ljust(len(text) + 8), np.uint8)[: len(text)]
        self.name = np.frombuffer(f"{self.image}.{self.column.name}".encode(), np.uint8)

    def describe(self, words: Words) -> None:
        """Fill in the words that the kernel reads."""
        words[f.KEY : f.KEY + 2] = self.key.ctypes.data, self.key.size
        words[f.NAME : f.NAME + 2] = self.name.ctypes.data, self.name.size
        words[f.INDEX] = self.column.index
        words[f.BARE] = self.column.type is ColumnType.NEWDECIMAL
        words[f.KIND] = self._kind(words)
        if words[f.KIND] == f.NULL:
            return
        words[f.NOT_NULL : f.NOT_NULL + 2] = bits(self.array)
        if words[f.KIND] == f.VECTOR:
            values = self.array.values
            data = values.buffers()[1]
            start = data.address if data is not None else 0
            words[f.VALUES] = start + 4 * values.offset
            words[f.VALUES_END] = start + (data.size if data is not None else 0)
            words[f.VALUE_OFFSETS] = self.array.buffers()[1].address + 4 * self.array.offset
        elif words[f.KIND] >= f.TEXT:
            words[f.VALUES], words[f.VALUES_END], words[f.VALUE_OFFSETS] = layout(self.array)
        else:
            width = self.array.type.bit_width // 8
            words[f.VALUES] = self.array.buffers()[1].address + width * self.array.offset

    def _kind(self, words: Words) -> int:
        kind, column = self.array.type, self.column
        if kind in _FIXED:
            words[f.ARGUMENT] = column.metadata if column.type in _FRACTIONAL else 0
            return _FIXED[kind]
        if pa.types.is_decimal128(kind):
            if column.type is not ColumnType.NEWDECIMAL:
                return f.UINT64
            words[f.ARGUMENT] = kind.scale
            words[f.UNIT] = 10 ** min(kind.scale, 18)
            return f.DECIMAL
        if pa.types.is_binary(kind):
            return f.BINARY
        if pa.types.is_string(kind):
            if column.type is ColumnType.JSON:
                return f.JSON
            return f.DECLARED_JSON if column.logical is Logical.JSON else f.TEXT
        if pa.types.is_list(kind) and pa.types.is_float32(kind.value_type):
            return f.VECTOR
        if pa.types.is_null(kind):
            return f.NULL
        raise UnsupportedType(f"column {column.name}: {kind} is not a type of a change's column")


def _presence(batch: pa.RecordBatch, image: str) -> Words | None:
    """For each row, address and size of its bitmap of columns present; size -1 where all are."""
    rows = batch.column("_present")
    if rows.null_count == len(rows):
        return None
    bitmaps = rows.field(image)
    start, _, _ = layout(bitmaps)
    ends = _offsets(bitmaps)
    result = np.empty((len(rows), 2), np.int64)
    result[:, 0] = start + ends[:-1]
    result[:, 1] = np.diff(ends)
    for array in (rows, bitmaps):
        if array.null_count:
            result[~_valid(array), 1] = -1
    return result


class _Odd(NamedTuple):
    """What `_raw` holds: for each row the range of its entries, and the entries' texts."""

    ranges: Words
    texts: pa.Array


def _odd_values(batch: pa.RecordBatch, documents: Collection[str], frame: Words) -> _Odd | None:
    """The values of ``_raw``; the frame points to their texts while the result exists.

    Texts of ``documents``, the names of columns declared as JSON, are JSON themselves.
    """
    rows = batch.column("_raw")
    if rows.null_count == len(rows):
        return None
    texts = rows.items
    if documents:
        pairs = zip(rows.keys.to_pylist(), texts.to_pylist(), strict=True)
        texts = strings(
            [declared_json(unescaped(text)) if key in documents else text for key, text in pairs]
        )
    ends = _offsets(rows)
    result = np.stack([ends[:-1], ends[1:]], axis=1)
    if rows.null_count:
        result[~_valid(rows)] = 0
    frame[f.ODD_KEYS], _, frame[f.ODD_KEY_OFFSETS] = layout(rows.keys)
    frame[f.ODD_TEXTS], frame[f.ODD_END], frame[f.ODD_TEXT_OFFSETS] = layout(texts)
    return _Odd(result, texts)


def _offsets(array: pa.Array) -> Words:
    buffer = array.buffers()[1]
    return np.frombuffer(buffer, np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)


def _valid(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    valid: np.ndarray[Any, np.dtype[np.bool_]] = np.asarray(array.is_valid())
    return valid
