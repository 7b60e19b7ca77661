"""Row images: a row before or after its change, each value decoded at first access.

A column has one of three states in an image: a value, NULL (None), or absent (`ABSENT`). MINIMAL
and NOBLOB images leave out columns that are not needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from tailrace.constants import ColumnType
from tailrace.errors import (
    EventDecodeError,
    LogError,
    SchemaError,
    UnknownColumn,
    UnsupportedType,
    ValueRejected,
)
from tailrace.values.json_diff import apply_diffs, changed_json, parse_diffs
from tailrace.values.registry import loader_of, width_of
from tailrace.values.value import made, stored

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tailrace.events.rows import RowsEvent
    from tailrace.values.family import Loader, Width
    from tailrace.values.json_diff import JsonDiffs
    from tailrace.values.schema import TableSchema
    from tailrace.values.value import Value

Span = tuple[int, int]
"""Where a value's bytes begin and end in the event's row data."""


class Absent:
    """The type of `ABSENT`: false in a boolean context, and a singleton even after pickling."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
"""The value of a column that is not in the image."""

_PENDING: Final = object()
"""Marks a value that is not decoded yet."""


class ImagePlan:
    """How to read images with one set of present columns: resolved once, used for every row.

    ``present`` is the event's bitmap over the table's columns, lowest bit first.
    """

    __slots__ = ("_null_bytes", "_widths", "blank", "indexes", "table")

    def __init__(self, table: ImageDecoder, present: bytes) -> None:
        count = len(table.schema.columns)
        if len(present) != (count + 7) // 8:
            raise EventDecodeError(
                f"a bitmap of {len(present)} bytes over the {count} columns of {table.name}"
            )
        bits = int.from_bytes(present, "little")
        self.table = table
        self.indexes = tuple(index for index in range(count) if bits >> index & 1)
        self._widths = [table.widths[index][:2] for index in self.indexes]
        self._null_bytes = (len(self.indexes) + 7) // 8
        here = frozenset(self.indexes)
        self.blank = [_PENDING if index in here else ABSENT for index in range(count)]

    def locate(self, data: bytes, start: int) -> tuple[list[Span | None], int]:
        """The span of each present column's value (None for NULL), and where the image ends."""
        from_bytes = int.from_bytes
        at = start + self._null_bytes
        nulls = from_bytes(data[start:at], "little")
        spans: list[Span | None] = []
        for size, prefix in self._widths:
            if nulls & 1:
                spans.append(None)
            elif prefix:
                begin = at + prefix
                at = begin + from_bytes(data[at:begin], "little")
                spans.append((begin, at))
            else:
                begin, at = at, at + size
                spans.append((begin, at))
            nulls >>= 1
        if at > len(data):  # nothing was read past the end: slices end with the data
            raise EventDecodeError(
                f"a row of {self.table.name} at {start} ends at {at}, its event at {len(data)}"
            )
        return spans, at


def check_columns(
    schema: TableSchema, wanted: Collection[str] | None = None
) -> tuple[list[Width], list[Loader]]:
    """The widths of a table's columns, and the loaders of the wanted ones (None: all).

    Raises `SchemaError` and `EventDecodeError`, which name the column, if rows of the table cannot
    be decoded.
    """
    name = str(schema.full_name)
    columns = schema.columns
    if schema.undeclared is not None:
        raise EventDecodeError(
            f"{name}: the log does not have the number of fraction digits of column"
            f" {schema.undeclared} (TIME, DATETIME or TIMESTAMP in MariaDB's old format): give the"
            " table's CREATE TABLE (--schema FILE, schema=)"
        )
    asked = [each for each in columns if wanted is None or each.name in wanted]
    try:
        return [width_of(column) for column in columns], [loader_of(column) for column in asked]
    except SchemaError as error:
        raise type(error)(f"{name}: {error}") from None
    except EventDecodeError as error:
        raise EventDecodeError(f"{name}: {error}") from None


class ImageDecoder:
    """The loaders of a table's columns, and cached plans for the images seen."""

    __slots__ = ("_plans", "index", "json_columns", "loaders", "name", "schema", "widths")

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.name = str(schema.full_name)
        self.widths, self.loaders = check_columns(schema)
        self.index = {column.name: column.index for column in schema.columns}
        self.json_columns = [
            column.index for column in schema.columns if column.type is ColumnType.JSON
        ]
        self._plans: dict[bytes, ImagePlan] = {}

    def plan(self, present: bytes) -> ImagePlan:
        """The plan for a bitmap of present columns."""
        plan = self._plans.get(present)
        if plan is None:
            if len(self._plans) >= _MAX_KEPT:
                self._plans.clear()
            plan = self._plans[present] = ImagePlan(self, present)
        return plan


_MAX_KEPT: Final = 1024
_decoders: Final[dict[int, ImageDecoder]] = {}


def decoder_of(schema: TableSchema) -> ImageDecoder:
    """The decoder of a schema, cached by the schema's identity: resolve it once per table map."""
    decoder = _decoders.get(id(schema))
    if decoder is None or decoder.schema is not schema:
        if len(_decoders) >= _MAX_KEPT:
            _decoders.clear()
        decoder = _decoders[id(schema)] = ImageDecoder(schema)
    return decoder


class ImageSource(NamedTuple):
    """The event that contains the images (None for a query's result), and their bytes."""

    event: RowsEvent | None
    data: bytes


class RowOfFields(ABC):
    """A sequence and a mapping of a row's `Value`s, by index and by name.

    As a sequence it has all of the table's columns, with `ABSENT` for those that are not in the
    image. As a mapping it has only those in the image; ``row["x"]`` is `ABSENT` for another column
    of the table, and raises `UnknownColumn` for one that the table does not have. `values` and
    `as_dict` give Python objects.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def image(self) -> Image:
        """The image that has the values."""

    @property
    def values(self) -> tuple[Any, ...]:
        """All of the table's columns in order, as Python objects, absent ones as `ABSENT`."""
        return self.image.as_tuple()

    def as_dict(self) -> dict[str, Any]:
        """The columns in the image: names and Python objects."""
        image = self.image
        named = zip(image.schema.columns, image.as_tuple(), strict=True)
        return {column.name: value for column, value in named if value is not ABSENT}

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.image.schema.columns)

    def __iter__(self) -> Iterator[Value | Absent]:
        return iter(self.image.fields())

    @overload
    def __getitem__(self, key: int | str) -> Value | Absent: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Value | Absent, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Value | Absent | tuple[Value | Absent, ...]:
        image = self.image
        if isinstance(key, str):
            return image.value(key)
        try:
            indexes = range(len(self))[key]
        except IndexError:
            schema = image.schema
            raise IndexError(
                f"{schema.full_name} has {len(self)} columns, and none number {key}"
            ) from None
        if isinstance(indexes, int):
            return image.value(indexes)
        return tuple(image.value(index) for index in indexes)

    def __contains__(self, what: object) -> bool:
        image = self.image
        return image.has(what) if isinstance(what, str) else what in image.fields()

    def index(self, value: Any) -> int:
        """The number of the first column that has a `Value`. Raises ValueError."""
        return self.image.fields().index(value)

    def keys(self) -> list[str]:
        """The names of the columns in the image, in the table's order."""
        return self.image.names()

    def items(self) -> list[tuple[str, Value | Absent]]:
        """The columns in the image: names and `Value`s."""
        image = self.image
        return [(name, image.value(name)) for name in image.names()]

    def get(self, name: str, default: Any = None) -> Any:
        """The `Value` of a column; ``default`` if the image has no column of that name."""
        image = self.image
        return image.value(name) if image.has(name) else default


class Image(RowOfFields):
    """A row before or after the change.

    Values are decoded at first access; one that cannot be decoded raises `EventDecodeError`.
    """

    __slots__ = ("_partial", "_source", "_spans", "_table", "_values")

    def __init__(
        self,
        table: ImageDecoder,
        values: list[Any],
        source: ImageSource | None = None,
        spans: Mapping[int, Span] | None = None,
        partial: Mapping[int, Image] | None = None,
    ) -> None:
        self._table = table
        self._values = values
        self._source = source
        self._spans = spans or {}
        self._partial = partial or {}

    @property
    def image(self) -> Image:
        return self

    @property
    def schema(self) -> TableSchema:
        """The table's schema."""
        return self._table.schema

    def names(self) -> list[str]:
        """The names of the columns in the image, in the table's order."""
        named = zip(self._table.schema.columns, self._values, strict=True)
        return [column.name for column, value in named if value is not ABSENT]

    def has(self, name: str) -> bool:
        """Whether a column of this name is in the image."""
        index = self._index(name)
        return index is not None and self._values[index] is not ABSENT

    def as_tuple(self) -> tuple[Any, ...]:
        """All of the table's columns in order, as Python objects, absent ones as `ABSENT`.

        A partial update of a JSON column gives the whole document if the before image has it, else
        `JsonDiffs`.
        """
        values = self._values
        if self._source is not None:
            data, loaders, partial = self._source.data, self._table.loaders, self._partial
            index = 0
            try:
                for index, (start, end) in self._spans.items():
                    if values[index] is _PENDING and index not in partial:
                        values[index] = loaders[index](data[start:end])
            except LogError as error:
                raise self._placed(error, index) from None
            for index in partial:
                self.at(index)
        return tuple(values)

    def at(self, index: int) -> Any:
        """The Python object of a column by its index in the table, as in `as_tuple`.

        `UnknownColumn` if the index is out of range.
        """
        if not 0 <= index < len(self._values):
            raise UnknownColumn(f"{self._table.name} has no column number {index}")
        value = self._values[index]
        if value is _PENDING:
            value = self._values[index] = self._load(index)
        return value

    def peek(self, index: int, size: int) -> Any:
        """As `at`; for a value of more than ``size`` bytes that was not decoded yet, its bytes."""
        value = self._values[index]
        if value is _PENDING:
            start, end = self._spans.get(index, (0, 0))
            if end - start > size and index not in self._partial:
                return self.logged(index, size)
            value = self._values[index] = self._load(index)
        return value

    def value(self, column: int | str) -> Value | Absent:
        """A column's `Value`, by index or name: its stored bytes, not interpreted.

        `ABSENT` if it is not in the image; `UnknownColumn` if the table does not have it. A JSON
        column of which only changes were logged gives the changed document, or raises
        `UnsupportedType` if the before image does not have the document.
        """
        index = self._index(column) if isinstance(column, str) else column
        if index is None or not 0 <= index < len(self._values):
            raise UnknownColumn(f"{self._table.name} has no column {column!r}")
        known, value = self._table.schema.columns[index], self._values[index]
        if isinstance(value, Absent):
            return value
        try:
            if value is None:
                return stored(known, None)
            raw = None if index in self._partial else self.raw(index)
            return made(known, self.at(index)) if raw is None else stored(known, raw)
        except ValueRejected as error:
            raise self._placed(UnsupportedType(error.message), index) from None
        except LogError as error:
            raise self._placed(error, index) from None

    def fields(self) -> tuple[Value | Absent, ...]:
        """All of the table's columns in order, as `value` gives them."""
        return tuple(self.value(index) for index in range(len(self._values)))

    def raw(self, index: int) -> bytes | None:
        """The bytes of a present value as logged, without the length prefix; None for NULL.

        Also None if the image was unpickled: it keeps values only.
        """
        span = self._spans.get(index)
        if span is None or self._source is None:
            return None
        return self._source.data[span[0] : span[1]]

    def logged(self, index: int, size: int) -> bytes | memoryview | None:
        """As `raw`, but more than ``size`` bytes are not copied."""
        start, end = self._spans.get(index, (0, 0))
        if end - start > size and self._source is not None:
            return memoryview(self._source.data)[start:end]
        return self.raw(index)

    def view(self, index: int) -> memoryview | None:
        """As `raw`, without a copy; also None if only a document's changes were logged."""
        span = self._spans.get(index)
        if span is None or self._source is None or index in self._partial:
            return None
        return memoryview(self._source.data)[span[0] : span[1]]

    def is_large(self, size: int) -> bool:
        """Whether it may contain a value of more than ``size`` bytes."""
        return self._source is not None and len(self._source.data) > size

    def diffs(self, index: int) -> JsonDiffs | None:
        """The logged changes of a JSON column; None if it was logged as a whole."""
        return parse_diffs(self.raw(index) or b"") if index in self._partial else None

    def stored(self) -> list[Any] | None:
        """Every column's bytes as logged, without the length prefix, for writing them again.

        None stands for NULL, `ABSENT` for a column that is not in the image. A document of which
        only the changes were logged is rebuilt (`UnsupportedType` if the previous one is unknown).
        The result is None if the image was unpickled: it keeps values only.
        """
        if self._source is None:
            return None
        data = self._source.data
        found: list[Any] = [ABSENT if value is ABSENT else None for value in self._values]
        for index, (start, end) in self._spans.items():
            found[index] = data[start:end]
        for index, before in self._partial.items():
            if index in self._spans:
                found[index] = self._whole_document(index, before, found[index])
        return found

    def _whole_document(self, index: int, before: Image, diffs: bytes) -> bytes:
        document = before.raw(index)
        try:
            if document is None:
                raise UnsupportedType(
                    "only the change of this document was logged, not the one before: it can be "
                    "written as diffs only, in the event that it was read from"
                )
            return changed_json(document, diffs)
        except LogError as error:
            raise self._placed(error, index) from None

    def _load(self, index: int) -> Any:
        data = self.raw(index) or b""
        try:
            if index in self._partial:
                return self._load_partial(index, data)
            return self._table.loaders[index](data)
        except LogError as error:
            raise self._placed(error, index) from None

    def _placed(self, error: LogError, index: int) -> LogError:
        """The error, with the column and the event added."""
        error.message = (
            f"{self._table.name}.{self._table.schema.columns[index].name}: {error.message}"
        )
        event = None if self._source is None else self._source.event
        return error if event is None else placed(error, event)

    def _load_partial(self, index: int, diffs: bytes) -> Any:
        before = self._partial[index]
        document = before.raw(index)
        if document is not None:
            return apply_diffs(document, diffs)
        if before.at(index) is ABSENT:
            return parse_diffs(diffs)
        raise EventDecodeError("a partial JSON update of NULL")

    def _index(self, name: str) -> int | None:
        index = self._table.index.get(name)
        return index if index is not None else self._table.schema.index_of(name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Image):
            return NotImplemented
        return self.schema == other.schema and self.as_tuple() == other.as_tuple()

    __hash__ = None  # type: ignore[assignment]  # it is compared by content

    def __repr__(self) -> str:
        return f"Image({self.as_dict()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.schema, self.as_tuple())


def _restored(schema: TableSchema, values: tuple[Any, ...]) -> Image:
    return Image(decoder_of(schema), list(values))


def placed(error: LogError, event: RowsEvent) -> LogError:
    """The error, with the event added."""
    return error.at(event.file, event.offset, event.name)
