"""Types that servers no longer write, and one whose rows this version cannot read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from tailrace.constants import EventType
from tailrace.errors import EventEncodeError, UnsupportedType
from tailrace.events.base import REQUIRED
from tailrace.events.build import Builder, binary, integer
from tailrace.events.fields import Cursor
from tailrace.events.rows import RowsEvent
from tailrace.events.unknown import RawEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription
    from tailrace.events.header import EventHeader
    from tailrace.events.table_map import TableMapEvent


class ObsoleteEvent(
    RawEvent,
    types=(
        EventType.START_V3,
        EventType.LOAD,
        EventType.SLAVE,
        EventType.CREATE_FILE,
        EventType.EXEC_LOAD,
        EventType.NEW_LOAD,
    ),
):
    """An event of MySQL before 5.0: only its name is known, and its bytes are kept."""

    __slots__ = ()


class UnreadableRowsEvent(RowsEvent):
    """Changed rows that cannot be read: asking for them raises UnsupportedType.

    It is a RowsEvent so that no code that collects rows can skip it unnoticed.
    """

    __slots__ = ()

    FIELDS: ClassVar[tuple[str, ...]] = ()
    MADE_OF: ClassVar[Mapping[str, Any]] = {"data": REQUIRED}
    MADE_FROM: ClassVar[Mapping[str, str]] = {}
    CHANGES_CONTEXT = False

    def __init__(self, header: EventHeader, body: bytes) -> None:
        super().__init__(header, body)
        self._table_map = None

    def read_body(self, _form: FormatDescription, /) -> None:
        """Nothing is read."""
        self.table_id = self.flags = self.width = 0
        self.present_before = self.present_after = None

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The data."""
        return binary(self.data, "data")

    @classmethod
    def type_of(cls, fields: Mapping[str, Any], form: FormatDescription, /) -> int:
        """The only type of the class, or an error."""
        return super(RowsEvent, cls).type_of(fields, form)

    @property
    def data(self) -> bytes:
        """The body."""
        return self.body

    def _refuse(self) -> NoReturn:
        raise self.error("the rows of this event type cannot be read", UnsupportedType)

    @property
    def table_map(self) -> TableMapEvent:
        """Raises UnsupportedType."""
        self._refuse()

    @property
    def row_data(self) -> bytes:
        """Raises UnsupportedType."""
        self._refuse()


class PreGaRowsEvent(
    UnreadableRowsEvent,
    types=(
        EventType.PRE_GA_WRITE_ROWS,
        EventType.PRE_GA_UPDATE_ROWS,
        EventType.PRE_GA_DELETE_ROWS,
    ),
):
    """Rows events of MySQL 5.1's beta versions (20 to 22)."""

    __slots__ = ()


class PartialRowDataEvent(UnreadableRowsEvent, types=(EventType.PARTIAL_ROW_DATA,)):
    """PARTIAL_ROW_DATA (172), MariaDB 12.3 and later: a part of a large rows event.

    ``part`` counts from 1 to ``parts``; ``original_size`` is in bytes, and only in the first part:
    the lowest bit of ``fragment_flags`` says so.
    """

    __slots__ = ("_chunk_at", "fragment_flags", "original_size", "part", "parts")

    FIELDS = ("part", "parts", "original_size")
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        "part": REQUIRED,
        "parts": REQUIRED,
        "original_size": None,
        "fragment_flags": 0,
        "chunk": REQUIRED,
    }

    parts: int
    part: int
    original_size: int | None
    fragment_flags: int

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: parts u32, part u32, flags u8, [original size u64], the bytes."""
        super().read_body(form)
        cursor = Cursor(self.body)
        self.parts = cursor.u32("the number of parts")
        self.part = cursor.u32("the part's number")
        self.fragment_flags = flags = cursor.u8("the flags")
        self.original_size = cursor.u64("the original size") if flags & 1 else None
        self._chunk_at = cursor.pos

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """All fields; if the size changes, its flag is set accordingly."""
        fields = super().carried(changes)
        if "original_size" in changes and "fragment_flags" not in changes:
            fields["fragment_flags"] = self.fragment_flags & ~1
        return fields

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        out = Builder()
        parts = integer(self.parts, "parts", 1, 0xFFFFFFFF)
        out.u32(parts, "parts")
        out.u32(integer(self.part, "part", 1, parts), "part")
        flags = integer(self.fragment_flags, "fragment_flags", 0, 0xFF)
        if self.original_size is None:
            if flags & 1:
                raise EventEncodeError("original_size: it is missing, but fragment_flags has it")
            out.u8(flags, "fragment_flags")
        else:
            out.u8(flags | 1, "fragment_flags")
            out.u64(self.original_size, "original_size")
        out.raw(self.chunk, "chunk")
        return out.done()

    @property
    def chunk(self) -> bytes:
        """The bytes of the rows event that are in this part."""
        return self.body[self._chunk_at :]
