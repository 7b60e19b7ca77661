"""Rows of Arrow tables as whole rows events, in bulk: the inverse of `decoder` and `table`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from tailrace.columns.calendar import powers_of_ten
from tailrace.columns.frames import encode as f
from tailrace.columns.frames.plan import PADDING
from tailrace.columns.native import kernel
from tailrace.columns.write.columns import ColumnWriter
from tailrace.columns.write.odd import odd_values
from tailrace.columns.write.types import Rejected, value_text
from tailrace.constants import HEADER_SIZE
from tailrace.errors import EventEncodeError, UnknownColumn, UnsupportedType, ValueRejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.values.schema import TableSchema

Kind = Literal["insert", "update", "delete"]
Rows: TypeAlias = pa.Table | pa.RecordBatch
Array = np.ndarray[Any, Any]

PIECE: Final = 1 << 16
"""Rows that are encoded at a time, so that intermediate results stay near the cache."""
_IMAGES: Final[dict[str, tuple[bool, bool]]] = {
    "insert": (False, True),
    "update": (True, True),
    "delete": (True, False),
}
_WHY: Final = {
    f.OUT_OF_RANGE: "is more than the column holds",
    f.TOO_LONG: "is longer than the column holds",
    f.TOO_PRECISE: "has a fraction finer than the column's: round it first",
    f.NO_SUCH_NAME: "is none of the column's names",
    f.MALFORMED: "does not spell a value of the column's type",
    f.NOT_NULL: "is not what the column holds",
    f.OUTSIDE: "points outside of its array",
}


@dataclass(frozen=True, slots=True, eq=False)
class EncodedEvents:
    """Whole events without checksums, one after the other, as in a transaction's cache.

    ``data`` is their bytes (writable), ``starts`` where each event begins in them, ``rows`` their
    number of rows.
    """

    data: memoryview
    starts: Sequence[int]
    rows: int

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[memoryview]:
        """Each event's bytes."""
        ends = [*self.starts[1:], len(self.data)]
        return (self.data[start:end] for start, end in zip(self.starts, ends, strict=True))


def present_of(schema: TableSchema, rows: Rows) -> bytes:
    """Which of a table's columns ``rows`` have, as in rows events: one bit each, lowest first.

    Raises `UnknownColumn` for a column that the table does not have, or that is given twice.
    """
    bits = sum(1 << index for index in _indexes(schema, rows))
    return bits.to_bytes((len(schema.columns) + 7) // 8, "little")


def encode_rows(
    schema: TableSchema,
    kind: Kind,
    before: Rows | None,
    after: Rows | None,
    *,
    prefix: bytes,
    most: int,
    raw: pa.Array | pa.ChunkedArray | None = None,
    filler: bool = False,
) -> EncodedEvents:
    """Write rows as rows events in cache form: no checksum, no position.

    ``before`` and ``after`` are the images (``kind`` says which of them exist), columns by their
    names. A column that is left out is absent from the image; ``prefix`` must say the same
    (`present_of`). Each event is ``prefix``, a header and body up to the rows, and as many rows as
    keep it within ``most`` bytes, but at least one; its header gets its length. ``raw`` is the
    change record's ``_raw``: values that no Arrow type holds, which are NULL in the images.
    ``filler`` sets the unused bits after the last column's in each map of NULLs, as MariaDB does.

    Raises `UnknownColumn`, `UnsupportedType`, and `ValueRejected` with the column and the row of a
    value that the column cannot hold; nothing is rounded, cut or replaced.
    """
    images = _checked(schema, kind, before, after)
    if len(prefix) < HEADER_SIZE:
        raise EventEncodeError(f"an event's first {len(prefix)} bytes are not even its header")
    writer = _Writer(schema, images, prefix, most, filler)
    rows = {name: image.num_rows for name, image in images.items()}
    count = next(iter(rows.values()))
    if len(set(rows.values())) > 1:
        raise ValueRejected(f"{_name(schema)}: {rows['before']} rows before, {rows['after']} after")
    if raw is not None and len(raw) != count:
        raise ValueRejected(f"{_name(schema)}: {count} rows and {len(raw)} values of `_raw`")
    done = 0
    for piece in _pieces(images):
        own = None if raw is None else raw.slice(done, piece.num_rows)
        writer.write(piece, done, own)
        done += piece.num_rows
    return writer.finish(count)


def _name(schema: TableSchema) -> str:
    return str(schema.full_name)


def _checked(
    schema: TableSchema, kind: Kind, before: Rows | None, after: Rows | None
) -> dict[str, Rows]:
    needed = _IMAGES.get(kind)
    if needed is None:
        raise ValueRejected(f"{kind!r} is not a change of rows: use insert, update or delete")
    images: dict[str, Rows] = {}
    for name, image, wanted in zip(("before", "after"), (before, after), needed, strict=True):
        if wanted is not (image is not None):
            has = "has no" if image is not None else "needs a"
            raise ValueRejected(f"{_name(schema)}: a row's {kind} {has} {name} image")
        if image is not None:
            images[name] = image
    return images


def _indexes(schema: TableSchema, rows: Rows) -> list[int]:
    """The indexes of the given columns, in the table's order."""
    known = {column.name: column.index for column in schema.columns}
    found: list[int] = []
    for name in rows.schema.names:
        index = known.get(name)
        if index is None:
            index = schema.index_of(name)
        if index is None:
            raise UnknownColumn(f"{_name(schema)} has no column {name!r}")
        if index in found:
            raise UnknownColumn(f"{_name(schema)}: the column {name!r} is given twice")
        found.append(index)
    return sorted(found)


def _pieces(images: dict[str, Rows]) -> Iterator[pa.RecordBatch]:
    """Both images side by side, a piece at a time; columns are numbered."""
    columns = [column for image in images.values() for column in image.columns]
    count = next(iter(images.values())).num_rows
    if not columns:  # rows of no bytes
        yield from (
            pa.RecordBatch.from_struct_array(
                pa.StructArray.from_buffers(pa.struct([]), min(PIECE, count - at), [None])
            )
            for at in range(0, count, PIECE)
        )
        return
    table = pa.Table.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    yield from table.to_batches(max_chunksize=PIECE)


class _Writer:
    """Writes pieces of a table into one buffer of events."""

    def __init__(
        self,
        schema: TableSchema,
        images: dict[str, Rows],
        prefix: bytes,
        most: int,
        filler: bool,
    ) -> None:
        self._schema = schema
        self._columns: list[list[tuple[int, ColumnWriter]]] = [[], []]
        at = 0
        fixed = 0
        for number, name in enumerate(("before", "after")):
            if (image := images.get(name)) is None:
                continue
            place = {
                schema.index_of(each): at + index for index, each in enumerate(image.schema.names)
            }
            self._columns[number] = [
                (place[index], self._column(index)) for index in _indexes(schema, image)
            ]
            at += len(image.schema.names)
            fixed += (len(place) + 7) // 8 + sum(each.most for _, each in self._columns[number])
        self._given = [name in images for name in ("before", "after")]
        self._buffer = pa.allocate_buffer(PADDING, resizable=True)
        self._starts = np.empty(1024, np.int64)
        self._prefix = np.frombuffer(prefix, np.uint8)
        self._scratch = np.empty(f.SCRATCH_SIZE, np.uint8)
        frame = self._frame = np.zeros(f.ENCODE_WORDS, np.int64)
        frame[f.EVENT] = -1
        frame[f.PREFIX], frame[f.PREFIX_SIZE] = self._prefix.ctypes.data, len(prefix)
        frame[f.MOST] = most
        frame[f.FIXED] = fixed
        frame[f.FILLER] = 255 * filler
        frame[f.POWERS] = powers_of_ten().ctypes.data
        frame[f.SCRATCH] = self._scratch.ctypes.data
        self._kernel = kernel("encode_rows")

    def _column(self, index: int) -> ColumnWriter:
        try:
            return ColumnWriter.of(self._schema.columns[index])
        except UnsupportedType as error:
            raise UnsupportedType(f"{_name(self._schema)}: {error}") from None

    def write(self, piece: pa.RecordBatch, first: int, raw: pa.Array | None) -> None:
        """Add rows; ``first`` is the number of the first of them, for errors."""
        frame = self._frame
        kept = []
        size = 0
        try:
            odd, texts = odd_values(raw, self._columns, self._given)
        except Rejected as error:
            row_number = first + (error.row or 0)
            raise ValueRejected(f"{_name(self._schema)}, row {row_number}: {error.why}") from None
        for number, (columns, word) in enumerate(
            zip(self._columns, (f.BEFORE, f.AFTER), strict=True)
        ):
            words = np.zeros((len(columns), f.COLUMN_WORDS), np.int64)
            for index, (row, (place, writer)) in enumerate(zip(words, columns, strict=True)):
                logged = texts.get((number, index), {})
                try:
                    array = writer.attach(piece.column(place), row, logged)
                except Rejected as error:
                    raise self._rejected(number, writer, error.why, first, error.row) from None
                kept.append(array)
                size += array.nbytes
            frame[word] = words.ctypes.data
            frame[word + 1] = len(columns) if self._given[number] else -1
            kept.append(words)
        frame[f.ODD], frame[f.ODD_COUNT], frame[f.ODD_AT] = odd.ctypes.data, len(odd), 0
        frame[f.ROW], frame[f.ROWS] = 0, piece.num_rows
        self._grow(size + piece.num_rows * int(frame[f.FIXED]))
        self._run(piece, first)
        if frame[f.ODD_AT] != len(odd):
            at, place = odd[frame[f.ODD_AT], : f.O_BYTES].tolist()
            _, writer = self._columns[place >> 32][place & 0xFFFFFFFF]
            why = "the row has a value in `_raw` and one in the column"
            raise self._rejected(place >> 32, writer, why, first, at)

    def _run(self, piece: pa.RecordBatch, first: int) -> None:
        frame = self._frame
        while True:
            frame[f.OUT], frame[f.CAPACITY] = self._buffer.address, self._buffer.size - PADDING
            frame[f.STARTS], frame[f.STARTS_ROOM] = self._starts.ctypes.data, len(self._starts)
            result = self._kernel(frame.ctypes.data)
            if result == f.DONE:
                return
            if result == f.STARTS_FULL:
                self._starts = np.concatenate([self._starts, np.empty_like(self._starts)])
            elif result == f.MORE:
                self._grow(self._buffer.size)
            elif result == f.EVENT_TOO_LARGE:
                row = first + int(frame[f.ROW])
                raise EventEncodeError(
                    f"{_name(self._schema)}, row {row}: an event of more than {f.LARGEST} bytes"
                )
            else:
                raise self._failed(result, piece, first)

    def _grow(self, more: int) -> None:
        """Make room for this many more bytes."""
        needed = int(self._frame[f.USED]) + more + PADDING
        if needed > self._buffer.size:
            self._buffer.resize(max(needed, self._buffer.size * 3 // 2))

    def _failed(self, result: int, piece: pa.RecordBatch, first: int) -> ValueRejected:
        frame = self._frame
        image, row = int(frame[f.BAD_IMAGE]), int(frame[f.ROW])
        place, writer = self._columns[image][int(frame[f.BAD_COLUMN])]
        why = f"{value_text(piece.column(place)[row])} {_WHY[result]}"
        return self._rejected(image, writer, why, first, row)

    def _rejected(
        self, image: int, writer: ColumnWriter, why: str, first: int, row: int | None
    ) -> ValueRejected:
        where = f"{_name(self._schema)}.{writer.column.name}"
        if row is not None:
            where += f", row {first + row} ({('before', 'after')[image]})"
        return ValueRejected(f"{where}: {why}")

    def finish(self, rows: int) -> EncodedEvents:
        """All events."""
        frame = self._frame
        starts = self._starts[: frame[f.STARTS_COUNT]].tolist()
        data = np.frombuffer(self._buffer, np.uint8)[: frame[f.USED]].data
        return EncodedEvents(data, starts, rows)
