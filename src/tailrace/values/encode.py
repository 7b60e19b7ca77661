"""Encodes a user's rows as the images of rows events: cells, and which of them an image holds.

Facts sheet section 2.3; MySQL ``binlog_prepare_row_images``, ``mark_columns_per_binlog_row_image``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tailrace.constants import ColumnType
from tailrace.errors import LogError, SchemaError, UnknownColumn, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.image import ABSENT, Image
from tailrace.values.registry import dumper_of, width_of
from tailrace.values.row import Row
from tailrace.values.schema import BLOB_TYPES
from tailrace.values.value import Value, interpreted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tailrace.values.family import Dumper
    from tailrace.values.row import Kind
    from tailrace.values.schema import Column, TableSchema

Cells: TypeAlias = list[Any]
"""For each column of the table its bytes, including the length prefix; None for NULL; `ABSENT` if
the row does not give the column."""
GivenRow: TypeAlias = Mapping[str, Any] | Sequence[Any] | Image | Row
"""A row: values by column name, values in the table's order, or a row from a log's row set. Values
are Python objects, or a row set's `Value`s."""


def _strict(column: Column) -> Dumper:
    """The dumper of a column that holds no surrogates, as MySQL's."""
    dump = dumper_of(column)
    if column.collation is None or column.type in {ColumnType.ENUM, ColumnType.SET}:
        return dump
    charset = column.charset
    if charset not in _STRICT:
        return dump
    codec = _STRICT[charset]

    def dump_strict(value: Any) -> bytes:
        data = dump(value)
        try:
            data.decode(codec)
        except UnicodeDecodeError:  # only of a surrogate: the text was encoded
            raise ValueRejected(
                f"{short_repr(value)} has a surrogate, which MySQL does not store in {charset}"
            ) from None
        return data

    return dump_strict


_STRICT: Final = {"utf8mb3": "utf-8", "utf8mb4": "utf-8", "utf32": "utf-32-be"}
"""The character sets in which MariaDB stores surrogates and MySQL none, and their codecs."""


class CellWriter:
    """Makes cells for the rows of one table; the columns' encodings are determined once.

    Raises `UnsupportedType` for a table with a column type that no row image has. Without
    ``surrogates`` a text is rejected that has one, in a character set in which MySQL stores none.
    """

    __slots__ = ("_alike", "_dumpers", "_index", "_nullable", "_prefixes", "name", "schema")

    def __init__(self, schema: TableSchema, *, surrogates: bool = True) -> None:
        self.schema = schema
        self.name = str(schema.full_name)
        try:
            self._prefixes = [width_of(column).prefix for column in schema.columns]
            self._dumpers: list[Dumper] = [
                dumper_of(column) if surrogates else _strict(column) for column in schema.columns
            ]
        except SchemaError as error:
            raise type(error)(f"{self.name}: {error}") from None
        self._nullable = [column.nullable for column in schema.columns]
        self._index = {column.name: column.index for column in schema.columns}
        self._alike: tuple[TableSchema, bool] = schema, True

    def cells(self, row: Any) -> Cells:
        """The cells of a mapping, a sequence or an image.

        These are rejected: a name that the table does not have (`UnknownColumn`), a sequence of
        another length, NULL in a column that is NOT NULL, and values that their columns cannot hold
        (`ValueRejected`, naming the column). The bytes of an image of the same table are used as
        they are.
        """
        kind = type(row)
        if kind is tuple or kind is list:  # a check of an abstract class takes as long as a value
            return self._of_sequence(row)
        if isinstance(row, Image):
            return self._of_image(row)
        if isinstance(row, Mapping):
            return self._of_mapping(row)
        if isinstance(row, Sequence) and not isinstance(row, (str, bytes, bytearray, memoryview)):
            return self._of_sequence(row)
        raise ValueRejected(
            f"{self.name}: {short_repr(row)} is no row: give values by name, or in the table's"
            " order"
        )

    def _of_sequence(self, row: Sequence[Any]) -> Cells:
        dumpers, prefixes = self._dumpers, self._prefixes
        if len(row) != len(dumpers):
            raise ValueRejected(
                f"{self.name}: a row of {len(row)} values, the table has {len(dumpers)} columns"
            )
        cells: Cells = []
        append = cells.append
        index = 0
        try:
            for index, value in enumerate(row):
                if value is None:
                    self._check_null(index)
                    append(None)
                    continue
                if value is ABSENT:
                    append(ABSENT)
                    continue
                if value.__class__ is Value:
                    append(self._of_value(value, index))
                    continue
                data = dumpers[index](value)
                prefix = prefixes[index]
                append(len(data).to_bytes(prefix, "little") + data if prefix else data)
        except (LogError, ValueRejected) as error:
            raise self._placed(error, index) from None
        return cells

    def _of_mapping(self, row: Mapping[str, Any]) -> Cells:
        known = self._index
        values: list[Any] = [ABSENT] * len(self._dumpers)
        for name, value in row.items():
            index = known.get(name)
            if index is None:
                index = self._looked_up(name)
            if values[index] is not ABSENT:
                raise ValueRejected(
                    f"{self.name}.{self.schema.columns[index].name}: given twice, in two spellings"
                )
            values[index] = value
        return self._of_sequence(values)

    def _looked_up(self, name: Any) -> int:
        index = self.schema.index_of(name) if isinstance(name, str) else None
        if index is None:
            raise UnknownColumn(f"{self.name} has no column {short_repr(name)}")
        return index

    def _of_image(self, image: Image) -> Cells:
        if not self._is_alike(image.schema):
            return self._of_mapping(image.as_dict())
        stored = image.stored()
        if stored is None:
            return self._of_sequence(image.as_tuple())
        cells: Cells = []
        for index, (data, prefix) in enumerate(zip(stored, self._prefixes, strict=True)):
            if data is None:
                self._check_null(index)
            if prefix and data is not None and data is not ABSENT:
                cells.append(len(data).to_bytes(prefix, "little") + data)
            else:
                cells.append(data)
        return cells

    def _of_value(self, value: Value, index: int) -> bytes | None:
        """A `Value`'s storage if the columns are alike, else its converted value."""
        if value.storage is None:
            self._check_null(index)
            return None
        mine, theirs = self.schema.columns[index], value.described()
        data = value.storage
        if _known_as(mine) != _known_as(replace(theirs, name=mine.name)):
            data = self._dumpers[index](interpreted(value))
        prefix = self._prefixes[index]
        return len(data).to_bytes(prefix, "little") + data if prefix else data

    def _is_alike(self, schema: TableSchema) -> bool:
        """Whether the other table's image bytes are valid here; the last result is cached."""
        if self._alike[0] is not schema:
            self._alike = schema, alike(schema, self.schema)
        return self._alike[1]

    def _check_null(self, index: int) -> None:
        if not self._nullable[index]:
            name = self.schema.columns[index].name
            raise ValueRejected(f"{self.name}.{name}: NULL, which the column does not allow")

    def _placed(self, error: LogError | ValueRejected, index: int) -> Exception:
        place = f"{self.name}.{self.schema.columns[index].name}: "
        if not error.message.startswith(place):
            error.message = place + error.message
        return error


def alike(one: TableSchema, other: TableSchema) -> bool:
    """Whether two tables store the same values as the same bytes, column by column.

    A table whose log has no column names is compared by its columns' types alone.
    """
    if len(one.columns) != len(other.columns):
        return False
    bare = "none" in {one.names_from, other.names_from}
    look = _stored_as if bare else _known_as
    return all(
        look(mine) == look(theirs) for mine, theirs in zip(one.columns, other.columns, strict=True)
    )


def _stored_as(column: Column) -> tuple[Any, ...]:
    return column.type, column.metadata


def _known_as(column: Column) -> tuple[Any, ...]:
    charset = None if column.collation is None else column.charset
    return (
        column.name.casefold(),
        column.type,
        column.metadata,
        column.unsigned,
        charset,
        column.members,
        column.logical,
    )


_GROUP_ROWS: Final = 4096
_GROUP_BYTES: Final = 1 << 20
_NO_ROW: Final = object()


class RowImage(StrEnum):
    """The columns that images hold: the servers' ``binlog_row_image``.

    FULL: all columns. MINIMAL: the before image has the primary key, the after image the columns
    that are given. NOBLOB: all columns except BLOB and TEXT; of these, the before image has those
    in the key, and the after image those that are given. Without a primary key, the before image
    has all columns. If an update gives both rows in full, only changed columns count as given.
    (MySQL does so; MariaDB also logs all columns in the after image, if there is no key.)
    """

    FULL = "full"
    MINIMAL = "minimal"
    NOBLOB = "noblob"


class ImageColumns:
    """Which columns the images of one table's rows hold, and what these may leave out.

    Columns are given by their indexes. ``before`` has those of every before image. A generated
    column may be left out of any image, as MariaDB does.
    """

    __slots__ = ("_blobs", "_complete", "_size", "before", "every", "generated", "image", "schema")

    def __init__(self, schema: TableSchema, image: RowImage) -> None:
        self.schema = schema
        self.image = image
        columns = schema.columns
        self.every = frozenset(range(len(columns)))
        self.generated = frozenset(column.index for column in columns if column.generated)
        self._complete = self.every - self.generated
        self._blobs = frozenset(column.index for column in columns if column.type in BLOB_TYPES)
        self._size = (len(columns) + 7) // 8
        key = frozenset(schema.primary_key)
        if image is RowImage.FULL or not key:
            self.before = self.every
        else:
            self.before = key if image is RowImage.MINIMAL else self.every - (self._blobs - key)

    def after(
        self,
        given: frozenset[int],
        before: frozenset[int] | None,
        changed: Callable[[], frozenset[int]],
    ) -> frozenset[int]:
        """The columns of an after image, by those that the row after the change gives.

        ``before`` are those that the row before it gives (None: an insert), and ``changed`` finds
        the columns whose values differ.
        """
        if self.image is RowImage.FULL:
            return self.every
        assigned = given
        if before is not None and given >= self._complete and before >= self._complete:
            assigned = changed()
        if self.image is RowImage.MINIMAL:
            return assigned or given
        return self.every - self._blobs | assigned

    def reject(self, missing: Iterable[int], side: str) -> ValueRejected:
        """The error for columns that an image needs and its row does not give."""
        first, *more = [self.schema.columns[index].name for index in sorted(missing)]
        names = ", ".join([first, *more[:4]])
        return ValueRejected(
            f"{self.schema.full_name}: the row {side} does not give {names}"
            f"{' and others' if len(more) > 4 else ''}, which the {self.image.upper()} "
            f"image of the row {side} needs: give them, NULL if they are"
        )

    def bitmap(self, columns: Iterable[int]) -> bytes:
        """The event's bitmap of the columns that its images hold."""
        return sum(1 << index for index in columns).to_bytes(self._size, "little")


class RowGroup(NamedTuple):
    """Consecutive rows whose images hold the same columns, as one rows event requires.

    ``present_before`` and ``present_after`` are the event's bitmaps. ``images`` has the bytes of
    each row: its before image, then its after image. A group is at most 4096 rows, or 1 MiB plus
    one row.
    """

    kind: Kind
    present_before: bytes | None
    present_after: bytes | None
    images: list[bytes]


class _Plan(NamedTuple):
    """The layout of images of certain columns: the bitmap, and the NULL bits if no column is
    NULL.
    """

    indexes: tuple[int, ...]
    present: bytes
    filler: int


class RowEncoder:
    """Makes row images for the rows of one table.

    A row is a mapping of column names to values, a sequence in the table's order (`ABSENT` for
    columns that are not given), or an `Image` or `Row` from a log. The bytes of images are used as
    they are if the tables are alike. Rows are read one by one, so an iterator of any length is
    accepted.

    A column that an image needs and a row does not give is never made up: `ValueRejected` names it.
    There are three exceptions. In an update, the after row takes missing columns from the before
    row. A generated column may be left out, as MariaDB does. Images from a log may lack the columns
    that they lacked in it (except for FULL).

    ``filler``: set the unused NULL bits after the last column, as MariaDB does and MySQL does not;
    readers ignore them. ``surrogates`` is that of `CellWriter`.
    """

    def __init__(
        self,
        schema: TableSchema,
        image: RowImage | str = RowImage.FULL,
        *,
        filler: bool = False,
        surrogates: bool = True,
    ) -> None:
        self.schema = schema
        self.image = RowImage(image)
        self._filler = filler
        self._writer = CellWriter(schema, surrogates=surrogates)
        self._columns = ImageColumns(schema, self.image)
        self._plans: dict[frozenset[int], _Plan] = {}

    def insert(self, rows: Iterable[GivenRow]) -> Iterator[RowGroup]:
        """Inserted rows; for a `Row`, its after image.

        MINIMAL logs the given columns, and a replica fills in the defaults of the others.
        """
        return self._groups("insert", ((_NO_ROW, row) for row in rows))

    def delete(self, rows: Iterable[GivenRow]) -> Iterator[RowGroup]:
        """Deleted rows; for a `Row`, its before image."""
        return self._groups("delete", ((row, _NO_ROW) for row in rows))

    def update(
        self, before: Iterable[GivenRow], after: Iterable[GivenRow] | None = None
    ) -> Iterator[RowGroup]:
        """Updated rows: an after row for each before row. `Row` objects hold both."""
        return self._groups("update", self._pairs(before, after))

    def _pairs(
        self, before: Iterable[Any], after: Iterable[Any] | None
    ) -> Iterator[tuple[Any, Any]]:
        if after is None:
            for row in before:
                if not isinstance(row, Row):
                    raise ValueRejected(
                        f"{self._writer.name}: an update needs rows before and after"
                    )
                yield row, row
            return
        others = iter(after)
        for row in before:
            other = next(others, _NO_ROW)
            if other is _NO_ROW:
                raise ValueRejected(f"{self._writer.name}: fewer rows after the update than before")
            yield row, other
        if next(others, _NO_ROW) is not _NO_ROW:
            raise ValueRejected(f"{self._writer.name}: more rows after the update than before")

    def _groups(self, kind: Kind, rows: Iterable[tuple[Any, Any]]) -> Iterator[RowGroup]:
        """Consecutive rows with the same columns, in groups of limited size."""
        images: list[bytes] = []
        here: tuple[bytes | None, bytes | None] = None, None
        size = 0
        for number, (before, after) in enumerate(rows, 1):
            try:
                present, image = self._row(before, after)
            except (LogError, ValueRejected) as error:
                error.message = f"row {number} of the {kind}: {error.message}"
                raise
            if images and (
                present != here
                or size >= _GROUP_BYTES
                or len(images) == _GROUP_ROWS
                or not image  # a row without columns stands alone: it has no bytes
            ):
                yield RowGroup(kind, *here, images)
                images, size = [], 0
            here = present
            images.append(image)
            size += len(image)
        if images:
            yield RowGroup(kind, *here, images)

    def _row(self, before: Any, after: Any) -> tuple[tuple[bytes | None, bytes | None], bytes]:
        """The bitmaps of one row, and its images."""
        old = new = None
        data = b""
        present_before = present_after = None
        if before is not _NO_ROW:
            row = self._image_of(before, "before")
            old = self._writer.cells(row)
            present_before, data = self._laid_out(old, self._columns.before, row, "before")
        if after is not _NO_ROW:
            row = self._image_of(after, "after")
            new = self._writer.cells(row)
            present_after, image = self._laid_out(new, self._columns_after(old, new), row, "after")
            data += image
        return (present_before, present_after), data

    def _columns_after(self, old: Cells | None, new: Cells) -> frozenset[int]:
        """The columns of an after image; required ones that are not given come from the before
        row.
        """
        if self.image is RowImage.FULL and ABSENT not in new:
            return self._columns.every
        given = self._given(new)
        columns = self._columns.after(
            given,
            None if old is None else self._given(old),
            lambda: frozenset(index for index in given if old is None or new[index] != old[index]),
        )
        if old is not None:
            for index in columns - given:
                new[index] = old[index]
        return columns

    def _given(self, cells: Cells) -> frozenset[int]:
        """The columns that a row gives."""
        if ABSENT not in cells:
            return self._columns.every
        return frozenset(index for index, cell in enumerate(cells) if cell is not ABSENT)

    def _laid_out(
        self, cells: Cells, columns: frozenset[int], row: Any, side: str
    ) -> tuple[bytes, bytes]:
        """The bitmap and the image of some columns: a NULL bit for each, then the values."""
        plan = self._plans.get(columns)
        if plan is None:
            plan = self._plans[columns] = self._planned(columns)
        indexes, present, nulls = plan
        parts = [b""]
        for bit, index in enumerate(indexes):
            cell = cells[index]
            if cell is None:
                nulls |= 1 << bit
            elif cell is not ABSENT:
                parts.append(cell)
            else:
                there = self._without(cells, columns, row, side)
                return self._laid_out(cells, there, row, side)
        parts[0] = nulls.to_bytes((len(indexes) + 7) // 8, "little")
        return present, b"".join(parts)

    def _planned(self, columns: frozenset[int]) -> _Plan:
        count = len(columns)
        filler = (1 << -(-count // 8) * 8) - (1 << count) if self._filler else 0
        return _Plan(tuple(sorted(columns)), self._columns.bitmap(columns), filler)

    def _without(
        self, cells: Cells, columns: frozenset[int], row: Any, side: str
    ) -> frozenset[int]:
        """The columns that are given, unless a required one is missing.

        A log's image that is not FULL has the columns that its server considered sufficient, by a
        key that may be unknown to the schema.
        """
        absent = frozenset(index for index in columns if cells[index] is ABSENT)
        missing = absent - self._columns.generated
        if not missing:
            return columns - absent
        if isinstance(row, Image) and self.image is not RowImage.FULL:
            return self._given(cells)
        raise self._columns.reject(missing, side)

    def _image_of(self, row: Any, side: str) -> Any:
        """For a log's row, its image of that side."""
        if not isinstance(row, Row):
            return row
        image: Image | None = row.before if side == "before" else row.after
        if image is None:
            raise ValueRejected(
                f"{self._writer.name}: {row.kind}s have no image {side}, so it cannot be written"
            )
        return image
