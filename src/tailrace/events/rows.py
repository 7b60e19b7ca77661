"""The rows events of both flavours: which rows of which table changed (facts sheet 2.3, 2.4, 2.8).

Values are not decoded here: `tailrace.values` does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from tailrace.constants import EventType, Flavour, RowsFlag
from tailrace.errors import EventDecodeError, EventEncodeError, LogError, MissingTableMap
from tailrace.events.base import Event, lazy
from tailrace.events.compression import compress, decompress
from tailrace.events.fields import Builder, Cursor, binary, integer, made
from tailrace.events.layout import REQUIRED, derived, field
from tailrace.events.table_map import TableMapEvent
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.events.base import LogState
    from tailrace.events.description import FormatDescription

DUMMY_TABLE_ID: Final = 0xFFFFFF
"""The table id of a rows event without rows, which only ends the statement."""
_V2_TYPES: Final = frozenset(
    {
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
        EventType.WRITE_ROWS_COMPRESSED,
        EventType.UPDATE_ROWS_COMPRESSED,
        EventType.DELETE_ROWS_COMPRESSED,
    }
)
_COMPRESSED: Final = frozenset(
    {
        EventType.WRITE_ROWS_COMPRESSED_V1,
        EventType.UPDATE_ROWS_COMPRESSED_V1,
        EventType.DELETE_ROWS_COMPRESSED_V1,
        EventType.WRITE_ROWS_COMPRESSED,
        EventType.UPDATE_ROWS_COMPRESSED,
        EventType.DELETE_ROWS_COMPRESSED,
    }
)
ROWS_TYPES: Final = (
    frozenset({EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1})
    | _V2_TYPES
    | _COMPRESSED
)
"""All types of rows events."""
_STMT_END: Final = int(RowsFlag.STMT_END)  # `&` of a flag's own class takes ten times as long
_FORMS: Final = 4  # V1, V2, both compressed
_MOST_COLUMNS: Final = 4096
_NDB, _PARTITION = 0, 1
_MOST_BYTES: Final = 0xFFFF - 2
_MOST_NDB: Final = 0xFF - 2
_OLD_HEADER, _V1_HEADER, _V2_HEADER = _HEADERS = 6, 8, 10


@lru_cache(maxsize=256)
def _said_size(post_headers: bytes, code: int) -> int:
    """The size of a type's fixed part in the format description; 0 for types no longer written."""
    said = post_headers[code - 1] if code <= len(post_headers) else 0
    return said or (_V2_HEADER if code in _V2_TYPES else _V1_HEADER)


def fixed_size(form: FormatDescription, code: int) -> int:
    """The size of the fixed part of rows events of a type, by the format: 6, 8 or 10 bytes, or an
    invalid number.
    """
    return _said_size(form.post_headers, code)


@dataclass(frozen=True, slots=True)
class RowsExtra:
    """The extra header of a V2 rows event.

    ``partition_id`` is that of the rows; ``source_partition_id`` that of an update's before images,
    if it has one. ``ndb_format`` and ``ndb_info`` are NDB Cluster's. ``unknown`` holds all chunks
    from the first unknown one on.
    """

    partition_id: int | None = None
    source_partition_id: int | None = None
    ndb_format: int | None = None
    ndb_info: bytes | None = None
    unknown: bytes = b""


NO_EXTRA: Final = RowsExtra()


def _read_extra(cursor: Cursor, *, update: bool) -> RowsExtra:
    """Read the chunks to the end. Raises EventDecodeError."""
    ndb_format = ndb_info = partition = source_partition = None
    unknown = b""
    while cursor.remaining:
        at = cursor.pos
        tag = cursor.u8("a chunk's tag")
        if tag == _NDB:
            size = cursor.u8("the NDB chunk's length")
            if size < 2:
                raise EventDecodeError(f"an NDB chunk of {size} bytes")
            ndb_format = cursor.u8("the NDB chunk's format")
            ndb_info = cursor.take(size - 2, "the NDB chunk")
        elif tag == _PARTITION:
            partition = cursor.u16("the partition")
            if update:
                source_partition = cursor.u16("the source partition")
        else:  # the format allows a reader to skip the rest of the header
            unknown = cursor.buf[at : cursor.end]
            break
    return RowsExtra(partition, source_partition, ndb_format, ndb_info, unknown)


def _write_extra(extra: RowsExtra, *, update: bool) -> bytes:
    """The chunks: NDB's, the partition's, the unknown ones. Raises EventEncodeError."""
    out = Builder()
    if (extra.ndb_format is None) != (extra.ndb_info is None):
        raise EventEncodeError("extra: ndb_format and ndb_info must be given together")
    if extra.ndb_format is not None and extra.ndb_info is not None:
        info = binary(extra.ndb_info, "extra.ndb_info", _MOST_NDB)
        out.u8(_NDB, "extra")
        out.u8(len(info) + 2, "extra.ndb_info")
        out.u8(extra.ndb_format, "extra.ndb_format")
        out.raw(info, "extra.ndb_info")
    update_of_partition = update and extra.partition_id is not None
    if (extra.source_partition_id is not None) != update_of_partition:
        raise EventEncodeError("extra: source_partition_id needs partition_id, and an update")
    if extra.partition_id is not None:
        out.u8(_PARTITION, "extra")
        out.u16(extra.partition_id, "extra.partition_id")
    if extra.source_partition_id is not None:
        out.u16(extra.source_partition_id, "extra.source_partition_id")
    out.raw(extra.unknown, "extra.unknown")
    if len(out) > _MOST_BYTES:
        raise EventEncodeError(f"extra: {len(out)} bytes, the format holds {_MOST_BYTES}")
    return out.done()


class RowsEvent(Event):
    """Rows of one table that one statement changed; the base class of all rows events.

    ``present_before`` and ``present_after`` are bitmaps of the columns that the before and after
    images hold; the first column's bit is the lowest of the first byte. An insert has no before
    image, a delete no after image. ``partial`` marks PARTIAL_UPDATE_ROWS, whose after
    images have another layout. ``width`` is the table's number of columns.

    For `make`, ``table_map`` gives ``table_id`` and ``width``; these are only given for an event
    without a table (``table_map=None``), which only ends a statement. A bitmap that is left out has
    all columns. ``row_data`` holds the images; a compressed type compresses them. ``form`` decides
    the type: V2 for MySQL, V1 for MariaDB.
    """

    FIELDS: ClassVar[tuple[str, ...]] = (
        "table_id",
        "flags",
        "width",
        "present_before",
        "present_after",
        "extra",
    )
    MADE_OF: ClassVar[Mapping[str, Any]] = {"table_map": REQUIRED, "row_data": b""}
    MADE_FROM: ClassVar[Mapping[str, str]] = {"table_map": "_table_map"}
    CHANGES_CONTEXT = True
    FROM_CONTEXT = ("_table_map",)

    kind: ClassVar[Literal["insert", "update", "delete"]]
    partial: ClassVar[bool] = False

    table_id: int = field(default=None)
    flags: int = field(default=0)
    extra: RowsExtra = field(default=NO_EXTRA)
    width: int = field(default=None)
    present_before: bytes | None = field(default=None)
    present_after: bytes | None = field(default=None)
    _table_map: TableMapEvent | None = derived()
    schema: Any = derived()
    _rows_at: int = derived()

    def _shown(self) -> dict[str, Any]:
        known = self._table_map
        table = "not in the log" if known is None else str(TableName(known.database, known.table))
        return {"table": table, **self.fields()}

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: table id, flags u16, [extra header], width, bitmap(s), rows to the end."""
        fixed_size = self._fixed_size(form)
        body = self.body
        cursor = Cursor(body, self._read_id(fixed_size))
        self.extra = NO_EXTRA
        if fixed_size == _V2_HEADER:
            size = cursor.u16("the extra header's length")
            if size < 2:
                raise EventDecodeError(f"an extra header of {size} bytes")
            if size > 2:
                start = cursor.skip(size - 2, "the extra header")
                chunks = Cursor(body, start, cursor.pos)
                self.extra = _read_extra(chunks, update=self.kind == "update")
        self.width = cursor.lenenc("the number of columns")
        bitmap = (self.width + 7) // 8
        self.present_before = self.present_after = None
        if self.kind != "insert":
            self.present_before = cursor.take(bitmap, "the before image's bitmap")
        if self.kind != "delete":
            self.present_after = cursor.take(bitmap, "the after image's bitmap")
        self._rows_at = cursor.pos
        table_map = self._table_map
        if table_map is not None and len(table_map.layout.columns) != self.width:
            raise EventDecodeError(
                f"{self.width} columns, but {len(table_map.columns)} in the table map of"
                f" {table_map.full_name}"
            )

    @classmethod
    def type_of(cls, _fields: Mapping[str, Any], form: FormatDescription, /) -> int:
        """The type that the flavour's server writes, not compressed."""
        if len(cls.TYPES) != _FORMS or form.flavour is Flavour.MYSQL:
            return next(code for code in cls.TYPES if code in _V2_TYPES)
        return cls.TYPES[0]

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """All fields; another table has its own id and width."""
        fields = super().carried(changes)
        if changes.get("table_map") is not None:
            fields.pop("table_id", None)
            fields.pop("width", None)
        return fields

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        fixed_size = self._fixed_size(form, EventEncodeError)
        out = Builder()
        table_id, width = self._table()
        out.unsigned(table_id, 4 if fixed_size == _OLD_HEADER else 6, "table_id")
        out.u16(self.flags, "flags")
        extra = b""
        if self.extra is not NO_EXTRA:
            extra = _write_extra(made(self.extra, RowsExtra, "extra"), update=self.kind == "update")
        if fixed_size == _V2_HEADER:
            out.u16(2 + len(extra), "extra")
            out.raw(extra, "extra")
        elif extra:
            raise EventEncodeError(f"extra: a {self.name} has no extra header")
        out.lenenc(width, "width")
        for bits, absent in (("present_before", "insert"), ("present_after", "delete")):
            bitmap = getattr(self, bits)
            if self.kind == absent:
                if bitmap is not None:
                    raise EventEncodeError(f"{bits}: an {absent} has none")
                continue
            size = (width + 7) // 8
            if bitmap is None:
                bitmap = ((1 << width) - 1).to_bytes(size, "little")
            out.raw(bitmap, bits, size)
        rows = binary(self.row_data, "row_data")
        out.raw(compress(rows) if self.compressed else rows, "row_data")
        return out.done()

    def _table(self) -> tuple[int, int]:
        """Table id and width of an event that is made."""
        table_id: int | None = self.table_id
        width: int | None = self.width
        if self._table_map is None:
            table_id = DUMMY_TABLE_ID if table_id is None else table_id
            return table_id, integer(0 if width is None else width, "width", 0, _MOST_COLUMNS)
        table_map = made(self._table_map, TableMapEvent, "table_map")
        columns = len(table_map.layout.columns)
        if table_id is not None and table_id != table_map.table_id:
            raise EventEncodeError(f"table_id: it is {table_map.table_id} in the table map")
        if width is not None and width != columns:
            raise EventEncodeError(f"width: the table map has {columns} columns")
        return table_map.table_id, columns

    def _read_id(self, fixed_size: int) -> int:
        """Set table id and flags; returns where they end."""
        body = self.peek()
        id_size = 4 if fixed_size == _OLD_HEADER else 6
        if len(body) < id_size + 2:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {id_size + 2}")
        self.table_id = int.from_bytes(body[:id_size], "little")
        self.flags = int.from_bytes(body[id_size : id_size + 2], "little")
        return id_size + 2

    def _fixed_size(self, form: FormatDescription, kind: type[LogError] = EventDecodeError) -> int:
        said = fixed_size(form, self.header.type)
        if said not in _HEADERS:
            raise kind(f"the log's fixed part of {self.name} has {said} bytes")
        return said

    @property
    def is_dummy(self) -> bool:
        """Whether it has no table and no rows, and only ends the statement."""
        return self.table_id == DUMMY_TABLE_ID

    opened_by: ClassVar[Callable[..., Any] | None] = None
    """What makes the rows of an event and its table (`tailrace.values.row.RowSet`)."""

    @property
    def rows(self) -> Any:
        """The rows, a `tailrace.values.row.RowSet`: each has ``before`` and ``after``.

        ``schema`` is the table's definition, which adds to its table map; None if unknown.
        """
        if self.opened_by is None:
            raise self.error("import tailrace.log first, whose logs give events their rows")
        return self.opened_by(self, getattr(self, "schema", None) or self.table_map)

    @property
    def table_map(self) -> TableMapEvent:
        """The table whose rows these are. Raises MissingTableMap for a dummy."""
        if self._table_map is None:
            raise self.error("it only ends the statement and has no table", MissingTableMap)
        return self._table_map

    @property
    def compressed(self) -> bool:
        """Whether MariaDB compressed the rows."""
        return self.header.type in _COMPRESSED

    @property
    def row_data(self) -> bytes:
        """The images of all rows, one after the other, decompressed. Raises EventDecodeError."""
        data, start = self.rows_in()
        return data[start:]

    def rows_in(self) -> tuple[bytes, int]:
        """Bytes that end with `row_data`, and where it begins: no copy. Raises EventDecodeError."""
        return (self._unpacked, 0) if self.compressed else (self.body, self._rows_at)

    @lazy
    def _unpacked(self) -> bytes:
        return decompress(self.body, self._rows_at) if self.compressed else b""

    @property
    def stmt_end(self) -> bool:
        """Whether it is the statement's last: the table maps are void after it."""
        return bool(self.flags & _STMT_END)

    def update(self, context: LogState) -> None:
        """Find the table; the statement's end frees its table maps."""
        self._read_id(self._fixed_size(self.form))
        self._table_map = context.table_maps.get(self.table_id)
        if self._table_map is None and not self.is_dummy:
            raise MissingTableMap(
                f"no table map before it introduces table id {self.table_id}:"
                " read from the beginning of the transaction"
            )
        if self.flags & _STMT_END:
            context.table_maps.clear()


class WriteRowsEvent(
    RowsEvent,
    types=(
        EventType.WRITE_ROWS_V1,
        EventType.WRITE_ROWS,
        EventType.WRITE_ROWS_COMPRESSED_V1,
        EventType.WRITE_ROWS_COMPRESSED,
    ),
):
    """Inserted rows (23, 30; compressed 166, 169): each is an after image."""

    __slots__ = ()

    kind = "insert"


class UpdateRowsEvent(
    RowsEvent,
    types=(
        EventType.UPDATE_ROWS_V1,
        EventType.UPDATE_ROWS,
        EventType.UPDATE_ROWS_COMPRESSED_V1,
        EventType.UPDATE_ROWS_COMPRESSED,
    ),
):
    """Updated rows (24, 31; compressed 167, 170): each is a before and an after image."""

    __slots__ = ()

    kind = "update"


class PartialUpdateRowsEvent(UpdateRowsEvent, types=(EventType.PARTIAL_UPDATE_ROWS,)):
    """Updated rows (39) whose JSON columns may be logged as changes of the before image."""

    __slots__ = ()

    partial = True


class DeleteRowsEvent(
    RowsEvent,
    types=(
        EventType.DELETE_ROWS_V1,
        EventType.DELETE_ROWS,
        EventType.DELETE_ROWS_COMPRESSED_V1,
        EventType.DELETE_ROWS_COMPRESSED,
    ),
):
    """Deleted rows (25, 32; compressed 168, 171): each is a before image."""

    __slots__ = ()

    kind = "delete"
