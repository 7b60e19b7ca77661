"""Types that servers no longer write, and one that this version cannot read rows of."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

from tailrace.constants import EventType
from tailrace.errors import UnsupportedType
from tailrace.events.base import Event
from tailrace.events.fields import Cursor
from tailrace.events.rows import RowsEvent

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext
    from tailrace.events.table_map import TableMapEvent


class ObsoleteEvent(
    Event,
    types=(
        EventType.START_V3,
        EventType.LOAD,
        EventType.SLAVE,
        EventType.CREATE_FILE,
        EventType.EXEC_LOAD,
        EventType.NEW_LOAD,
    ),
):
    """An event of MySQL before 5.0, named and left as its bytes."""

    __slots__ = ()

    FIELDS = ("size",)

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body)


class UnreadableRowsEvent(RowsEvent):
    """Rows that changed, but that cannot be read: asking for them raises UnsupportedType.

    It is a RowsEvent so that whoever collects rows cannot pass over it unaware.
    """

    __slots__ = ()

    FIELDS: ClassVar[tuple[str, ...]] = ()
    CHANGES_CONTEXT = False

    def read_body(self, _context: DecodeContext, /) -> None:
        """Nothing is read."""
        self.table_id = self.flags = self.width = 0
        self.present_before = self.present_after = None

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

    ``part`` counts from 1 to ``parts``; ``original_size`` is in bytes, and in the first part only.
    """

    __slots__ = ("_chunk_at", "original_size", "part", "parts")

    FIELDS = ("part", "parts", "original_size")

    parts: int
    part: int
    original_size: int | None

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: parts u32, part u32, flags u8, [original size u64], the bytes."""
        super().read_body(context)
        cursor = Cursor(self.body)
        self.parts = cursor.u32("the number of parts")
        self.part = cursor.u32("the part's number")
        flags = cursor.u8("the flags")
        self.original_size = cursor.u64("the original size") if flags & 1 else None
        self._chunk_at = cursor.pos

    @property
    def chunk(self) -> bytes:
        """The bytes of the rows event that are in this part."""
        return self.body[self._chunk_at :]
