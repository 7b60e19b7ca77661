"""One table's batches: memory for the row kernel, and record batches from what it wrote."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.arrays import (
    NO_PRESENCE,
    OPERATIONS,
    OddText,
    constant,
    moved,
    odd_values,
    presence,
    replaced,
    schema_of,
)
from tailrace.columns.frames import plan as k
from tailrace.columns.native import reading
from tailrace.columns.pages import LARGE
from tailrace.columns.read.arena import Arena
from tailrace.columns.read.finish import finish
from tailrace.columns.read.table_columns import FIXED, TableColumns
from tailrace.columns.text_output import BadRow
from tailrace.columns.types import Finish, plan_of
from tailrace.errors import (
    EventDecodeError,
    OutOfMemory,
    SchemaError,
    UnsupportedType,
    about_table,
)
from tailrace.table_name import TableName
from tailrace.values.image import check_columns
from tailrace.values.json_diff import changed_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from tailrace.columns.read.pool import Pool
    from tailrace.columns.read.table_columns import ColumnRegions, ImageRegions, TextRegion
    from tailrace.columns.types import Plan
    from tailrace.values.schema import Column, TableSchema

Array = np.ndarray[Any, Any]

MOST_ROWS: Final = 1 << 17
"""The most rows of one batch."""
MOST_BYTES: Final = 24 << 20
"""The most bytes of one batch, before character sets and JSON become UTF-8; a row may have more."""
_MADE_AT_ONCE: Final = 68
"""Room that the kernel needs before it makes text of a value."""
_ODD_ROOM: Final = 4096
_NO_DOCUMENT: Final = (
    "a partial JSON update without the document before it, so its value is unknown: log with "
    "binlog_row_image=FULL or without binlog_row_value_options=PARTIAL_JSON, or leave the column "
    "or its table out"
)
_NOTHING: Final[Mapping[int, Mapping[int, bytes]]] = {}
_IN_PLACE: Final = frozenset({Finish.NOTHING, Finish.GEOMETRY, Finish.JSONB, Finish.CHARSET})
"""Large values of these are read in place, in the log's bytes."""
_STARTED: Final = np.array(
    [
        k.D_ROWS,
        k.D_GTID_COUNT,
        k.D_ODD_COUNT,
        k.D_NEEDED,
        k.D_CLAIMED,
        k.D_BEFORE_PRESENT,
        k.D_AFTER_PRESENT,
    ]
)
"""The words of the frame that are 0 when a batch begins."""
_STAMP: Final = pa.timestamp("us", "UTC")
_SEQUENCE: Final = pa.decimal128(38, 0)


class TableDecoder:
    """Decodes the rows events of one table between two changes of its schema.

    ``known`` holds how the columns of other tables are decoded, by what `TableColumns` needs to
    know of them: tables of the same columns share it.
    """

    def __init__(
        self,
        table: TableSchema,
        source: str,
        pool: Pool,
        wanted: Collection[str] | None = None,
        plan: Callable[[Column], Plan] = plan_of,
        known: dict[object, TableColumns] | None = None,
    ) -> None:
        self.table = table
        self.pool = pool
        known = {} if known is None else known
        key = table.columns, table.undeclared
        columns = known.get(key)
        if columns is None:
            check_columns(table, wanted)
            columns = known[key] = TableColumns(table.columns, wanted, plan)
        self.columns = columns
        self.asked = columns.asked
        self.schema = schema_of(table, columns.image, source, columns.text)
        self.row_bytes = 0.0
        """Bytes of an image, roughly; corrected as rows are read. 0 before the first."""
        self.text_bytes: dict[int, float] = {}
        """For columns of variable length, by index: bytes per row, as measured so far."""

    def made_bytes(self, images: int, seen: int) -> float:
        """Bytes of a batch per row, roughly, with that many images; for ``seen`` see S_SEEN."""
        columns = self.columns
        texts = sum(self.text_bytes.get(index, 0.0) for index in columns.strings) * 1.2
        bitmaps = 2 * ((len(self.table.columns) + 7) // 8) if seen & 8 else 0
        return (columns.made_bytes + texts) * images + sum(FIXED.values()) + bitmaps

    def unknown_texts(self) -> int:
        """How many columns of variable length have had no value yet."""
        return sum(index not in self.text_bytes for index in self.columns.strings)

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
    ) -> Iterator[WrittenRows]:
        """Decode the rows events linked from the entry ``head`` on, ``size`` bytes of rows.

        ``seen`` says which operations and images are among them (S_SEEN). With ``spent`` the bytes
        of decoded rows are not needed again, and those of large values may be returned to the
        system. Raises `EventDecodeError` with the position of the event that cannot be decoded.
        """
        first = int(entries[head, k.E_POSITION])
        if not self.row_bytes:  # a first guess: what was last seen of tables like this one
            self.row_bytes = self.columns.row_bytes
            self.text_bytes = dict(self.columns.text_bytes)
        frame = np.zeros(k.DECODE_WORDS, np.int64)
        frame[k.D_ENTRIES] = entries.ctypes.data
        frame[k.D_ENTRY] = head
        frame[k.D_TRANSACTIONS] = transactions.ctypes.data
        frame[k.D_FILE_NUMBER] = file_number
        frame[k.D_COLUMNS] = len(self.table.columns)
        frame[k.D_SCRATCH] = self.columns.scratch.ctypes.data
        frame[k.D_JSON] = self.columns.json_columns.ctypes.data
        frame[k.D_JSON_COUNT] = len(self.columns.json_columns)
        frame[k.D_PATH] = self.columns.path.ctypes.data
        decode = reading("decode_rows")
        images = 2 if seen & 2 else 1
        needed: dict[int, int] = {}
        while frame[k.D_ENTRY] >= 0:
            place = int(entries[frame[k.D_ENTRY], k.E_POSITION])
            with self.about(file, place, first):
                batch = WrittenRows(self, size, seen, needed, (file, place, first), spent=spent)
                batch.attach(frame)
                reason = decode(frame.ctypes.data)
                rows = int(frame[k.D_ROWS])
                if reason == k.BATCH_FULL and rows == 0 and frame[k.D_NEEDED]:
                    needed[int(frame[k.D_BAD_COLUMN])] = int(frame[k.D_NEEDED])
                    continue
                if rows:
                    batch.close(frame)
            needed = {}
            if rows:
                left = int(frame[k.D_LEFT])
                self.row_bytes = max((size - left) / rows / images, 1.0)
                self.columns.row_bytes = self.row_bytes
                size = left
            written = [batch] if rows else []
            del batch  # its memory goes with the batch that is made of it
            if written:
                yield written.pop()
            if reason not in {k.ALL_DECODED, k.BATCH_FULL} or (reason and not rows):
                place = int(entries[frame[k.D_ENTRY], k.E_POSITION])
                if reason == k.NO_DOCUMENT:
                    name = self.table.columns[int(frame[k.D_BAD_COLUMN])].name
                    text = f"column {name}: {_NO_DOCUMENT}"
                    with self.about(file, place, first):
                        raise UnsupportedType(text, file=file, offset=place)
                raise self._error(reason, place, frame, file)

    @contextmanager
    def about(self, file: str, place: int, first: int) -> Iterator[None]:
        """Say in errors which table's rows they are about, and where these are: what was under way
        begins at ``place``, the table's planned rows at ``first``.
        """
        name = str(TableName(self.table.database, self.table.table))
        try:
            try:
                yield
            except MemoryError:
                raise OutOfMemory(
                    f"there is no memory for the rows of {name} from here on: give the process"
                    " more, or leave the table out (--exclude, exclude=)",
                    file=file,
                    offset=place,
                ) from None
            except SchemaError as error:  # of a column with an unknown character set
                error.message = f"{name}: {error.message}"
                raise error.at(file, first) from None
        except Exception as error:
            about_table(error, self.table.database, self.table.table)
            raise

    def _error(self, reason: int, position: int, frame: Array, file: str) -> EventDecodeError:
        if reason == k.BAD_VALUE:
            name = self.table.columns[int(frame[k.D_BAD_COLUMN])].name
            return self.error(f"column {name}: bytes that no value of its type has", file, position)
        if reason == k.BAD_OPTIONS:
            return self.error("a row's options are missing or unknown", file, position)
        return self.error("a row does not fit into its event", file, position)

    def error(self, message: str, file: str, position: int) -> EventDecodeError:
        """An error about a row of the event at a position."""
        table = str(TableName(self.table.database, self.table.table))
        text = f"{table}: {message}"
        return EventDecodeError(text, file=file, offset=position)


class WrittenRows:
    """The rows of one batch: memory that the kernel writes, and `finish`, which makes the batch.

    ``needed`` is given for a row that had no room in a batch of its own: by index, the bytes that
    the text of its columns needs. ``places`` are for `TableDecoder.about`.
    """

    def __init__(
        self,
        table: TableDecoder,
        size: int,
        seen: int,
        needed: Mapping[int, int],
        places: tuple[str, int, int],
        *,
        spent: bool = False,
    ) -> None:
        self._table = table
        self._places = places
        self._spent = spent
        images = 2 if seen & 2 else 1
        expected = size / (table.row_bytes * images) * 1.1 + 16
        row = table.made_bytes(images, seen)
        rows = 1 if needed else int(min(MOST_ROWS, max(expected, 16), max(MOST_BYTES / row, 1)))
        room = max(MOST_BYTES - int(rows * row), 0) // max(images * table.unknown_texts(), 1)
        self._regions = table.columns.regions(seen)
        self._outside: dict[int, int] = {}
        rooms = self._rooms = [
            self._room(text, rows, min(room, size), size, needed) for text in self._regions.texts
        ]
        self._arena = Arena(self._regions.layout, rows, rooms, table.pool)
        gtids = min(rows, 1 << 16)
        self._gtid_offsets = np.zeros(gtids + 1, np.int32)
        self._gtids = np.empty(gtids * k.GTID_TEXT + k.PADDING, np.uint8)
        odd = max(_ODD_ROOM, 2 * len(table.table.columns))
        self._odd = np.empty((odd, k.ODD_WORDS), np.int64)

    def _room(
        self, text: TextRegion, rows: int, unknown: int, size: int, needed: Mapping[int, int]
    ) -> int:
        """The bytes reserved for a text: ``unknown`` if no value of the column was seen yet."""
        plan = text.plan
        room = plan.most * rows + _MADE_AT_ONCE
        if plan.kind == k.STRING:
            known = self._table.text_bytes.get(text.index)
            room = unknown if known is None else min(int(known * rows * 1.2) + 1024, size)
            wanted = needed.get(text.index, 0)
            room = max(room, wanted)
            if plan.finish in _IN_PLACE and rows == 1 and text.is_logged:
                if wanted > LARGE:
                    self._outside[text.region] = wanted
                    return 0
                room = min(room, LARGE)
        return min(room, k.MOST_TEXT)

    def attach(self, frame: Array) -> None:
        """Write the addresses of this batch's memory into the kernel's frame."""
        regions, addresses = self._regions, self._arena.addresses
        words = self._words = regions.words.copy()
        words[regions.words_at] = addresses[regions.words_from]
        words[regions.rooms_at] = self._rooms
        for region, size in self._outside.items():
            word = regions.columns_at[region]
            words[word + k.C_KIND], words[word + k.C_ROOM] = k.IN_PLACE, size
        frame[_STARTED] = 0
        frame[k.D_GTID_LAST] = -1
        frame[k.D_MOST_CLAIMED] = MOST_BYTES
        frame[k.D_CAPACITY] = self._arena.rows
        frame[k.D_GTIDS] = self._gtids.ctypes.data
        frame[k.D_GTID_OFFSETS] = self._gtid_offsets.ctypes.data
        frame[k.D_GTID_CAPACITY] = len(self._gtid_offsets) - 1
        frame[k.D_ODD] = self._odd.ctypes.data
        frame[k.D_ODD_CAPACITY] = len(self._odd)
        frame[regions.frame_at] = addresses[regions.frame_from]
        base = words.ctypes.data
        for word, image in zip((k.D_BEFORE, k.D_AFTER), regions.images, strict=True):
            frame[word] = 0 if image is None else base + 8 * image.words

    def close(self, frame: Array) -> None:
        """The kernel has written all rows."""
        rows = self._rows = int(frame[k.D_ROWS])
        self._arena.close(rows, self._outside)
        self._learn(rows)
        self._gtid_count = int(frame[k.D_GTID_COUNT])
        self._odd = self._odd[: frame[k.D_ODD_COUNT]]
        self._by_hand = self._odd[:, k.O_TIME] == k.BY_HAND

    @property
    def is_apart(self) -> bool:
        """Whether it needs nothing of the log's bytes any more."""
        return not self._outside and not self._by_hand.any()

    @property
    def size(self) -> int:
        """The bytes that the kernel wrote."""
        return sum(self._arena.used)

    def finish(self) -> pa.RecordBatch:
        """The record batch; can be made once."""
        with self._table.about(*self._places):
            return self._made()

    def _made(self) -> pa.RecordBatch:
        table, rows, file = self._table, self._rows, self._places[0]
        odd, by_hand = self._odd, self._by_hand
        operations = self._array(pa.int8(), k.D_OP, rows)
        texts: list[OddText] = []
        images = self._finished(rows, file, texts, odd[by_hand])
        columns = table.columns
        arrays = [
            pa.DictionaryArray.from_arrays(operations, OPERATIONS, safe=False),
            constant(table.table.database, rows),
            constant(table.table.table, rows),
            self._array(_STAMP, k.D_STAMP, rows),
            pa.DictionaryArray.from_arrays(
                self._array(pa.int32(), k.D_GTID, rows, k.D_GTID_NULL),
                self._gtid_texts(self._gtid_count),
                safe=False,
            ),
            constant(file, rows),
            self._array(pa.int64(), k.D_POSITION, rows),
            self._array(_SEQUENCE, k.D_SEQUENCE, rows),
            self._array(pa.int64(), k.D_SERVER, rows),
            self._presence(rows),
            odd_values(odd[~by_hand], texts, rows, columns.names, columns.digits),
            *images,
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=table.schema)

    def _finished(self, rows: int, file: str, texts: list[OddText], diffs: Array) -> list[pa.Array]:
        """Both images. If rows have errors, that of the first row names its event.

        ``diffs`` are the JSON diffs that the kernel left to Python (ODD_WORDS words each).
        """
        bad: list[BadRow] = []
        changed = (_NOTHING, self._changed(diffs, bad) if len(diffs) else _NOTHING)
        images = [
            self._image(image, rows, texts, bad, each)
            for image, each in zip(self._regions.images, changed, strict=True)
        ]
        if not bad:
            return images
        first = min(bad, key=lambda error: error.row)
        places = self._arena.view(self._regions.of[k.D_POSITION]).view(np.int64)
        raise self._table.error(first.message, file, int(places[first.row]))

    def _learn(self, rows: int) -> None:
        """Keep the text size of a row, so that the next batch reserves no more than it needs."""
        known, used = self._table.text_bytes, self._arena.used
        for text in self._regions.texts:
            size = used[text.region] / rows
            known[text.index] = max(size, known.get(text.index, 0.0) * 0.75)
        self._table.columns.text_bytes = known

    def _array(
        self, arrow: pa.DataType, word: int, rows: int, valid: int | None = None
    ) -> pa.Array:
        arena, of = self._arena, self._regions.of
        bits = None if valid is None else arena.buffer(of[valid])
        return pa.Array.from_buffers(arrow, rows, [bits, arena.buffer(of[word])])

    def _gtid_texts(self, count: int) -> pa.Array:
        offsets = self._gtid_offsets[: count + 1].copy()
        texts = self._gtids[: offsets[-1]].copy()
        return pa.Array.from_buffers(
            pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
        )

    def _presence(self, rows: int) -> pa.Array:
        arena, of = self._arena, self._regions.of
        if k.D_BEFORE_PRESENT not in of:
            return NO_PRESENCE.of(rows)
        bits = [arena.view(of[word]) for word in (k.D_BEFORE_PRESENT, k.D_AFTER_PRESENT)]
        return presence(bits[0], bits[1], arena.buffer(of[k.D_PARTIAL_VALID]), rows)

    def _changed(self, diffs: Array, bad: list[BadRow]) -> dict[int, dict[int, bytes]]:
        """By column and row, the documents that diffs make; ``bad`` gets the errors of those that
        do not fit.
        """
        found: dict[int, dict[int, bytes]] = {}
        for row, place, address, _ in diffs.tolist():
            index = place & 0xFFFFFFFF
            size = int.from_bytes(ctypes.string_at(address - 4, 4), "little")
            try:
                document = changed_json(self._document(index, row), ctypes.string_at(address, size))
                found.setdefault(index, {})[row] = document
            except EventDecodeError as error:
                bad.append(BadRow(error.message, row))
                bad[-1].message = f"column {self._table.columns.names[index]}: {error.message}"
        return found

    def _document(self, index: int, row: int) -> bytes:
        """A value of a JSON column in a before image, as logged."""
        arena, before = self._arena, self._regions.images[0]
        made = next(
            each for each in (before.columns if before else ()) if each.column.index == index
        )
        if made.offsets is None or not arena.view(made.valid)[row >> 3] >> (row & 7) & 1:
            raise EventDecodeError("a partial JSON update of NULL")
        start, end = arena.view(made.offsets).view(np.int32)[row : row + 2].tolist()
        if made.values in self._outside:
            return ctypes.string_at(int(self._words[made.address_at]) + start, end - start)
        return arena.view(made.values)[start:end].tobytes()

    def _image(
        self,
        image: ImageRegions | None,
        rows: int,
        texts: list[OddText],
        bad: list[BadRow],
        changed: Mapping[int, Mapping[int, bytes]],
    ) -> pa.Array:
        """The struct of a row image's columns. Text that UTF-8 cannot hold goes to ``texts``;
        ``bad`` gets the errors of values that cannot be decoded. ``changed`` has the values, by
        column and row, that Python made.
        """
        columns, arena = self._table.columns, self._arena
        if image is None:
            return columns.no_image.of(rows)
        children = []
        empty = self._words[image.nulls_at].tolist()
        from_buffers, buffer = pa.Array.from_buffers, arena.buffer
        for each, has_nulls in zip(image.columns, empty, strict=True):
            plan = each.plan
            nulls, count = (buffer(each.valid), -1) if has_nulls else (None, 0)
            if each.offsets is None:
                array = from_buffers(plan.raw, rows, [nulls, buffer(each.values)], count)
                if each.is_done:
                    children.append(array)
                    continue
            elif each.values in self._outside:
                address = int(self._words[each.address_at])
                data = pa.foreign_buffer(address, arena.used[each.values])
                array = from_buffers(plan.raw, rows, [nulls, buffer(each.offsets), data], count)
            else:
                as_it_is = each.is_done or (each.is_utf8 and _ascii(arena.view(each.values)))
                kind = plan.type if as_it_is else plan.raw
                buffers = [nulls, buffer(each.offsets), buffer(each.values)]
                array = from_buffers(kind, rows, buffers, count)
                if each.column.index in changed:
                    array = replaced(array, changed[each.column.index])
                if as_it_is:
                    children.append(array)
                    continue
            children.append(self._finish(array, each, image.number, texts, bad))
        if bad:
            return columns.no_image.of(rows)
        valid = buffer(self._regions.of[image.valid])
        return from_buffers(columns.image, rows, [valid], children=children)

    def _finish(
        self,
        array: pa.Array,
        made: ColumnRegions,
        image: int,
        texts: list[OddText],
        bad: list[BadRow],
    ) -> pa.Array:
        """A column after the bulk work that its plan names; of an error ``bad`` is told."""
        if pa.types.is_null(made.plan.type):
            return pa.nulls(len(array))
        odd: dict[int, str] = {}
        child = array
        outside = made.values in self._outside
        try:
            spent = self._spent and outside
            child = finish(array, made.plan, made.column, odd, spent=spent)
            if outside and _begin(child) == _begin(array) >= 0:
                child = moved(child, spent=spent)
        except BadRow as error:
            error.message = f"column {made.column.name}: {error.reason}"
            bad.append(error)
        place = image << 32 | made.column.index
        texts += [OddText(row, place, text) for row, text in odd.items()]
        return child


def _ascii(data: Array) -> bool:
    return data.size == 0 or int(data.max()) < 128


def _begin(array: pa.Array) -> int:
    """The address of the bytes of text."""
    data = array.buffers()[2]
    return data.address if data is not None and data.size else -1
