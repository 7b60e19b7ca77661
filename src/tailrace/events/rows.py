"""The rows events of both flavours: which rows of which table changed (facts sheet 2.3, 2.4, 2.8).

Values are not decoded here: `tailrace.rows` does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from tailrace.constants import EventType, RowsFlag
from tailrace.errors import EventDecodeError, MissingTableMap
from tailrace.events.base import Event, lazy
from tailrace.events.compression import decompress
from tailrace.events.fields import Cursor

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext
    from tailrace.events.table_map import TableMapEvent

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
_OLD_HEADER, _V1_HEADER, _V2_HEADER = 6, 8, 10
_NDB, _PARTITION = 0, 1


@dataclass(frozen=True, slots=True)
class RowsExtra:
    """The extra header of a V2 rows event.

    ``partition_id`` is that of the rows; ``source_partition_id`` that of an update's before images,
    where it has one. ``ndb_format`` and ``ndb_info`` are NDB Cluster's.
    """

    partition_id: int | None = None
    source_partition_id: int | None = None
    ndb_format: int | None = None
    ndb_info: bytes | None = None


def _read_extra(cursor: Cursor, *, update: bool) -> RowsExtra:
    ndb_format = ndb_info = partition = source_partition = None
    while cursor.remaining:
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
        else:
            break  # the format lets a reader pass over the rest of the header
    return RowsExtra(partition, source_partition, ndb_format, ndb_info)


_NO_EXTRA: Final = RowsExtra()


class RowsEvent(Event):
    """Rows of one table that one statement changed; the base of all rows events.

    ``present_before`` and ``present_after`` are bitmaps over the table's columns, the lowest bit
    of the first byte the first column's: which of them the before and after images hold. An
    insert has no before, a delete no after. ``partial`` marks PARTIAL_UPDATE_ROWS, whose after
    images are laid out differently. ``width`` is the table's number of columns.
    """

    __slots__ = (
        "_rows_at",
        "_table_map",
        "extra",
        "flags",
        "present_after",
        "present_before",
        "table_id",
        "width",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "table_id",
        "flags",
        "width",
        "present_before",
        "present_after",
        "extra",
    )
    CHANGES_CONTEXT = True

    kind: ClassVar[Literal["insert", "update", "delete"]]
    partial: ClassVar[bool] = False

    table_id: int
    flags: int
    extra: RowsExtra
    width: int
    present_before: bytes | None
    present_after: bytes | None
    _table_map: TableMapEvent | None
    _rows_at: int

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: table id, flags u16, [extra header], width, bitmap(s), rows to the end."""
        fixed_size = self._fixed_size(context)
        body = self.body
        id_size = 4 if fixed_size == _OLD_HEADER else 6
        if len(body) < id_size + 2:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {id_size + 2}")
        self.table_id = int.from_bytes(body[:id_size], "little")
        self.flags = int.from_bytes(body[id_size : id_size + 2], "little")
        cursor = Cursor(body, id_size + 2)
        self.extra = _NO_EXTRA
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
        self._table_map = self._find_table(context)

    def _fixed_size(self, context: DecodeContext) -> int:
        code = self.header.type
        usual = _V2_HEADER if code in _V2_TYPES else _V1_HEADER
        if context.format is None:
            return usual
        said = context.format.post_header(code, usual) or usual  # 0: a type no longer written
        if said not in {_OLD_HEADER, _V1_HEADER, _V2_HEADER}:
            raise EventDecodeError(f"the log's fixed part of {self.name} has {said} bytes")
        return said

    def _find_table(self, context: DecodeContext) -> TableMapEvent | None:
        table_map = context.table_maps.get(self.table_id)
        if table_map is None:
            if self.is_dummy:
                return None
            raise MissingTableMap(
                f"no table map before it introduces table id {self.table_id}:"
                " read from the beginning of the transaction"
            )
        if len(table_map.columns) != self.width:
            raise EventDecodeError(
                f"{self.width} columns, but {len(table_map.columns)} in the table map of"
                f" {table_map.database}.{table_map.table}"
            )
        return table_map

    @property
    def is_dummy(self) -> bool:
        """Whether it has no table and no rows, and only ends the statement."""
        return self.table_id == DUMMY_TABLE_ID

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
        return self._unpacked if self.compressed else self.body[self._rows_at :]

    @lazy
    def _unpacked(self) -> bytes:
        return decompress(self.body, self._rows_at)

    @property
    def stmt_end(self) -> bool:
        """Whether it is the statement's last: the table maps are void after it."""
        return bool(self.flags & RowsFlag.STMT_END)

    def update(self, context: DecodeContext) -> None:
        """The statement's end frees its table maps."""
        if self.flags & RowsFlag.STMT_END:
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
