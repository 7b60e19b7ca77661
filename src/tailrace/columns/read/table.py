"""One table's batches: memory for the row kernel, and record batches from what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.arrays import (
    OPERATIONS,
    OddText,
    constant,
    moved,
    nulls,
    odd_values,
    presence,
    schema_of,
)
from tailrace.columns.calendar import calendar, powers_of_ten
from tailrace.columns.frames import plan as k
from tailrace.columns.native import kernel
from tailrace.columns.pages import LARGE
from tailrace.columns.read.arena import Arena, Region
from tailrace.columns.read.finish import finish
from tailrace.columns.text_output import BadRow
from tailrace.columns.types import Finish, plan_of
from tailrace.errors import EventDecodeError, OutOfMemory
from tailrace.rows.image import check_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from tailrace.columns.read.pool import Pool
    from tailrace.columns.types import Plan
    from tailrace.rows.schema import Column, TableSchema

Array = np.ndarray[Any, Any]

MOST_ROWS: Final = 1 << 17
"""The most rows of one batch."""
MOST_BYTES: Final = 24 << 20
"""The most bytes of one batch, before character sets and JSON become UTF-8; a row may have more."""
_MOST_TEXT: Final = (1 << 31) - (1 << 16)
_USUAL_TEXT: Final = 16
"""The assumed bytes of a value of variable length, before any was seen."""
_MADE_AT_ONCE: Final = 68
"""Room that the kernel needs before it makes text of a value."""
_ODD_ROOM: Final = 4096
_IN_PLACE: Final = frozenset({Finish.NOTHING, Finish.GEOMETRY, Finish.JSONB, Finish.CHARSET})
"""Large values of these are read in place, in the log's bytes."""
_FIXED: Final = {
    k.D_OP: 1,
    k.D_STAMP: 8,
    k.D_GTID: 4,
    k.D_POSITION: 8,
    k.D_SEQUENCE: 16,
    k.D_SERVER: 8,
}
"""Bytes per row of the change record's own fields."""
_BITMAPS: Final = (k.D_BEFORE_VALID, k.D_AFTER_VALID, k.D_PARTIAL_VALID, k.D_GTID_NULL)


class TableDecoder:
    """Decodes the rows events of one table between two changes of its schema."""

    def __init__(
        self,
        table: TableSchema,
        source: str,
        pool: Pool,
        wanted: Collection[str] | None = None,
        plan: Callable[[Column], Plan] = plan_of,
    ) -> None:
        self.table = table
        self.pool = pool
        check_columns(table, wanted)
        plans = [plan(column) for column in table.columns]
        self.asked = [
            (column, plan)
            for column, plan in zip(table.columns, plans, strict=True)
            if wanted is None or column.name in wanted
        ]
        self.schema = schema_of(table, [(c.name, p) for c, p in self.asked], source)
        self.digits = [plan.argument for plan in plans]  # used for temporal columns only
        self.template, self._names = self._columns_template(plans)
        sizes = (plan.least + _USUAL_TEXT * (plan.kind == k.STRING) for plan in plans)
        self.row_bytes = float((len(plans) + 7) // 8 + sum(sizes) + 1)
        """Bytes of an image, roughly; corrected as rows are read."""
        self._scratch = np.zeros(len(plans) // 8 + k.PADDING, np.uint8)
        self.text_bytes: dict[int, float] = {}
        """For columns of variable length, by index: bytes per row, as measured so far."""

    def made_bytes(self, images: int, seen: int) -> float:
        """Bytes of a batch per row, roughly, with that many images; for ``seen`` see S_SEEN."""
        row = 0.0
        for column, plan in self.asked:
            width = int(self.template[column.index, k.C_WIDTH])
            row += width + 0.125 if width > 0 else 4.125 + plan.most
            if width < 0 and plan.kind == k.STRING:
                row += self.text_bytes.get(column.index, 0.0) * 1.2
        bitmaps = 2 * ((len(self.table.columns) + 7) // 8) if seen & 8 else 0
        return row * images + sum(_FIXED.values()) + bitmaps

    def unknown_texts(self) -> int:
        """How many columns of variable length have had no value yet."""
        return sum(
            plan.kind == k.STRING and column.index not in self.text_bytes
            for column, plan in self.asked
        )

    def _columns_template(self, plans: list[Plan]) -> tuple[Array, list[Array]]:
        """The words that say how the kernel decodes each column, without the addresses."""
        template = np.zeros((len(plans), k.COLUMN_WORDS), np.int64)
        names: list[Array] = []
        asked = {column.index for column, _ in self.asked}
        for index, plan in enumerate(plans):
            if index not in asked:
                template[index, [k.C_KIND, k.C_ARGUMENT]] = plan.skip, plan.skip_argument
                continue
            variable = pa.types.is_string(plan.raw) or pa.types.is_binary(plan.raw)
            width = -1 if variable else plan.raw.bit_width // 8
            kind = k.COMPRESSED if plan.finish is Finish.DECOMPRESS else plan.kind
            template[index, [k.C_KIND, k.C_ARGUMENT, k.C_WIDTH]] = kind, plan.argument, width
            members = self.table.columns[index].members
            if plan.kind in {k.ENUM_NAME, k.SET_NAMES} and members is not None:
                words, data = _member_table(members)
                names += [words, data]
                template[index, k.C_TABLE] = words.ctypes.data
            elif plan.kind in {k.DECIMAL, k.DECIMAL_TEXT}:
                template[index, k.C_TABLE] = powers_of_ten().ctypes.data
            elif plan.kind in {k.DATE, k.DATETIME, k.OLD_DATETIME}:
                template[index, k.C_TABLE] = calendar().ctypes.data
        return template, names

    def decode(
        self,
        entries: Array,
        head: int,
        size: int,
        seen: int,
        transactions: Array,
        file: str,
        file_number: int,
        *,
        spent: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the rows events linked from the entry ``head`` on, ``size`` bytes of rows.

        ``seen`` says which operations and images are among them (S_SEEN). With ``spent`` the bytes
        of
        decoded rows are not needed again, and those of large values may be returned to the system.
        Raises `EventDecodeError` with the position of the event that cannot be decoded.
        """
        frame = np.zeros(k.DECODE_WORDS, np.int64)
        frame[k.D_ENTRIES] = entries.ctypes.data
        frame[k.D_ENTRY] = head
        frame[k.D_TRANSACTIONS] = transactions.ctypes.data
        frame[k.D_FILE_NUMBER] = file_number
        frame[k.D_COLUMNS] = len(self.table.columns)
        frame[k.D_SCRATCH] = self._scratch.ctypes.data
        decode = kernel("decode_rows")
        images = 2 if seen & 2 else 1
        needed: dict[int, int] = {}
        while frame[k.D_ENTRY] >= 0:
            place = int(entries[frame[k.D_ENTRY], k.E_POSITION])
            try:
                batch = _Batch(self, size, seen, needed, spent=spent)
                batch.attach(frame)
                reason = decode(frame.ctypes.data)
                rows = int(frame[k.D_ROWS])
                if reason == k.BATCH_FULL and rows == 0 and frame[k.D_NEEDED]:
                    needed[int(frame[k.D_BAD_COLUMN])] = int(frame[k.D_NEEDED])
                    continue
                record = batch.finish(frame, file) if rows else None
            except MemoryError:
                raise OutOfMemory(
                    f"there is no memory for the rows of {self.table.database}.{self.table.table} "
                    "from here on: give the process more, or leave the table out with --exclude",
                    file=file,
                    offset=place,
                ) from None
            needed = {}
            if rows:
                left = int(frame[k.D_LEFT])
                self.row_bytes = max((size - left) / rows / images, 1.0)
                size = left
            del batch  # and with it the memory that is not among the record's buffers
            if record is not None:
                yield record
                del record
            if reason not in {k.ALL_DECODED, k.BATCH_FULL} or (reason and not rows):
                place = int(entries[frame[k.D_ENTRY], k.E_POSITION])
                raise self._error(reason, place, frame, file)

    def _error(self, reason: int, position: int, frame: Array, file: str) -> EventDecodeError:
        if reason == k.BAD_VALUE:
            name = self.table.columns[int(frame[k.D_BAD_COLUMN])].name
            return self.error(f"column {name}: bytes that no value of its type has", file, position)
        return self.error("a row does not fit into its event", file, position)

    def error(self, message: str, file: str, position: int) -> EventDecodeError:
        """An error about a row of the event at a position."""
        table = f"{self.table.database}.{self.table.table}"
        text = f"{table}: {message}"
        return EventDecodeError(text, file=file, offset=position)


def _member_table(members: tuple[str, ...]) -> tuple[Array, Array]:
    """ENUM's or SET's names for the kernel: address and size of each, and the bytes."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in members]
    data = np.frombuffer(b"".join(encoded) + bytes(k.PADDING), np.uint8)
    sizes = np.array([len(name) for name in encoded], np.int64)
    words = np.empty((len(encoded), 2), np.int64)
    words[:, 0] = data.ctypes.data + np.cumsum(sizes) - sizes
    words[:, 1] = sizes
    return words, data


class _Batch:
    """One batch while it is made.

    ``needed`` is given for a row that had no room in a batch of its own: by index, the bytes that
    the
    text of its columns needs.
    """

    def __init__(
        self,
        table: TableDecoder,
        size: int,
        seen: int,
        needed: Mapping[int, int],
        *,
        spent: bool = False,
    ) -> None:
        self._table = table
        self._spent = spent
        self._images = [bool(seen & 6), bool(seen & 3)]
        images = 2 if seen & 2 else 1
        expected = size / (table.row_bytes * images) * 1.1 + 16
        row = table.made_bytes(images, seen)
        rows = 1 if needed else int(min(MOST_ROWS, max(expected, 16), max(MOST_BYTES / row, 1)))
        self._needed = needed
        self._room = max(MOST_BYTES - int(rows * row), 0) // max(images * table.unknown_texts(), 1)
        arena = self._arena = Arena(rows)
        self._fixed = {word: arena.fixed(width) for word, width in _FIXED.items()}
        self._fixed |= {word: arena.bits() for word in _BITMAPS}
        if seen & 8:
            bitmap = (len(table.table.columns) + 7) // 8
            for word in (k.D_BEFORE_PRESENT, k.D_AFTER_PRESENT):
                self._fixed[word] = arena.fixed(bitmap)
        self._columns = [
            {
                column.index: (self._values(column.index, plan, size), arena.bits())
                for column, plan in table.asked
            }
            if wanted
            else {}
            for wanted in self._images
        ]
        arena.open(table.pool)
        gtids = min(arena.rows, 1 << 16)
        self._gtid_offsets = np.zeros(gtids + 1, np.int32)
        self._gtids = np.empty(gtids * k.GTID_TEXT + k.PADDING, np.uint8)
        odd = max(_ODD_ROOM, 2 * len(table.table.columns))
        self._odd = np.empty((odd, k.ODD_WORDS), np.int64)
        self._words = np.repeat(table.template[None], 2, axis=0)

    def _values(self, index: int, plan: Plan, size: int) -> Region:
        width = int(self._table.template[index, k.C_WIDTH])
        if width > 0:
            return self._arena.fixed(width)
        room = plan.most * self._arena.rows + _MADE_AT_ONCE
        if plan.kind == k.STRING:
            known = self._table.text_bytes.get(index)
            room = self._room if known is None else int(known * self._arena.rows * 1.2) + 1024
            needed = self._needed.get(index, 0)
            room = max(min(room, size), needed)
            if plan.finish in _IN_PLACE and self._arena.rows == 1:
                if needed > LARGE:
                    return self._arena.text(needed, elsewhere=True)
                room = min(room, LARGE)
        return self._arena.text(min(room, _MOST_TEXT))

    def attach(self, frame: Array) -> None:
        """Write the addresses of this batch's memory into the kernel's frame."""
        arena = self._arena
        frame[[k.D_ROWS, k.D_GTID_COUNT, k.D_ODD_COUNT, k.D_NEEDED, k.D_CLAIMED]] = 0
        frame[k.D_MOST_CLAIMED] = MOST_BYTES
        frame[[k.D_BEFORE_PRESENT, k.D_AFTER_PRESENT, k.D_BEFORE, k.D_AFTER]] = 0
        frame[k.D_GTID_LAST] = -1
        frame[k.D_CAPACITY] = arena.rows
        frame[k.D_GTIDS] = self._gtids.ctypes.data
        frame[k.D_GTID_OFFSETS] = self._gtid_offsets.ctypes.data
        frame[k.D_GTID_CAPACITY] = len(self._gtid_offsets) - 1
        frame[k.D_ODD] = self._odd.ctypes.data
        frame[k.D_ODD_CAPACITY] = len(self._odd)
        for word, region in self._fixed.items():
            frame[word] = arena.address(region)
        for image, word in enumerate((k.D_BEFORE, k.D_AFTER)):
            if not self._images[image]:
                continue
            words = self._words[image]
            frame[word] = words.ctypes.data
            for index, (values, valid) in self._columns[image].items():
                words[index, k.C_VALUES] = arena.address(values)
                words[index, k.C_VALID] = arena.address(valid)
                if values.offsets is not None:
                    words[index, k.C_OFFSETS] = arena.address(values.offsets)
                    words[index, k.C_ROOM] = values.room
                if values.elsewhere:
                    words[index, k.C_KIND] = k.IN_PLACE

    def finish(self, frame: Array, file: str) -> pa.RecordBatch:
        """The record batch of the rows that the kernel wrote."""
        table, rows = self._table, int(frame[k.D_ROWS])
        self._learn(rows)
        self._arena.close(rows)
        odd = self._odd[: frame[k.D_ODD_COUNT]]
        names = [column.name for column in table.table.columns]
        operations = self._array(pa.int8(), k.D_OP, rows)
        texts: list[OddText] = []
        images = self._finished(rows, file, texts)
        arrays = [
            pa.DictionaryArray.from_arrays(operations, OPERATIONS, safe=False),
            constant(table.table.database, rows),
            constant(table.table.table, rows),
            self._array(table.schema.field("_ts").type, k.D_STAMP, rows),
            pa.DictionaryArray.from_arrays(
                self._array(pa.int32(), k.D_GTID, rows, k.D_GTID_NULL),
                self._gtid_texts(int(frame[k.D_GTID_COUNT])),
                safe=False,
            ),
            constant(file, rows),
            self._array(pa.int64(), k.D_POSITION, rows),
            self._array(table.schema.field("_seq").type, k.D_SEQUENCE, rows),
            self._array(pa.int64(), k.D_SERVER, rows),
            self._presence(rows),
            odd_values(odd, texts, rows, names, table.digits),
            *images,
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=table.schema)

    def _finished(self, rows: int, file: str, texts: list[OddText]) -> list[pa.Array]:
        """Both images. If rows have errors, that of the first row names its event."""
        bad: list[BadRow] = []
        images = [
            self._image(image, rows, word, texts, bad)
            for image, word in enumerate((k.D_BEFORE_VALID, k.D_AFTER_VALID))
        ]
        if not bad:
            return images
        first = min(bad, key=lambda error: error.row)
        position = self._arena.view(self._fixed[k.D_POSITION], rows).view(np.int64)[first.row]
        raise self._table.error(first.message, file, int(position))

    def _learn(self, rows: int) -> None:
        """Keep the text size of a row, so that the next batch reserves no more than it needs."""
        known = self._table.text_bytes
        for columns in self._columns:
            for index, (values, _) in columns.items():
                if values.offsets is not None:
                    size = self._arena.used(values, rows) / rows
                    known[index] = max(size, known.get(index, 0.0) * 0.75)

    def _array(
        self, arrow: pa.DataType, word: int, rows: int, valid: int | None = None
    ) -> pa.Array:
        buffers = [None, self._arena.buffer(self._fixed[word], rows)]
        if valid is not None:
            buffers[0] = self._arena.buffer(self._fixed[valid], rows)
        return pa.Array.from_buffers(arrow, rows, buffers)

    def _gtid_texts(self, count: int) -> pa.Array:
        offsets = self._gtid_offsets[: count + 1].copy()
        texts = self._gtids[: offsets[-1]].copy()
        return pa.Array.from_buffers(
            pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
        )

    def _presence(self, rows: int) -> pa.Array:
        if k.D_BEFORE_PRESENT not in self._fixed:
            return nulls(self._table.schema.field("_present").type, rows)
        bits = [
            self._arena.view(self._fixed[word], rows)
            for word in (k.D_BEFORE_PRESENT, k.D_AFTER_PRESENT)
        ]
        valid = self._arena.buffer(self._fixed[k.D_PARTIAL_VALID], rows)
        return presence(bits[0], bits[1], valid, rows)

    def _image(
        self, image: int, rows: int, valid_word: int, texts: list[OddText], bad: list[BadRow]
    ) -> pa.Array:
        """The struct of a row image's columns. Text that UTF-8 cannot hold goes to ``texts``;
        ``bad``
        gets the errors of values that cannot be decoded.
        """
        table = self._table
        kind: pa.StructType = table.schema.field("after").type
        if not self._images[image]:
            return nulls(kind, rows)
        children = []
        for column, plan in table.asked:
            if pa.types.is_null(plan.type):
                children.append(pa.nulls(rows))
                continue
            values, bits = self._columns[image][column.index]
            empty = self._words[image][column.index, k.C_NULLS]
            buffers = [self._arena.buffer(bits, rows) if empty else None]
            if values.offsets is not None:
                buffers.append(self._arena.buffer(values.offsets, rows))
            if values.elsewhere:
                address = int(self._words[image][column.index, k.C_VALUES])
                buffers.append(pa.foreign_buffer(address, self._arena.used(values, rows)))
            else:
                buffers.append(self._arena.buffer(values, rows))
            array = pa.Array.from_buffers(plan.raw, rows, buffers, -1 if empty else 0)
            odd: dict[int, str] = {}
            try:
                spent = self._spent and values.elsewhere
                child = finish(array, plan, column, odd, spent=spent)
                taken = values.elsewhere and _begin(child) == _begin(array) >= 0
                children.append(moved(child, spent=spent) if taken else child)
            except BadRow as error:
                error.message = f"column {column.name}: {error.reason}"
                bad.append(error)
            place = image << 32 | column.index
            texts += [OddText(row, place, text) for row, text in odd.items()]
        if bad:
            return nulls(kind, rows)
        valid = self._arena.buffer(self._fixed[valid_word], rows)
        return pa.Array.from_buffers(kind, rows, [valid], children=children)


def _begin(array: pa.Array) -> int:
    """The address of the bytes of text."""
    data = array.buffers()[2]
    return data.address if data is not None and data.size else -1
