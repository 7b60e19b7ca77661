"""Rows events that this version cannot read: of MySQL 5.1's betas, and MariaDB's fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from tailrace.constants import EventType
from tailrace.errors import UnsupportedType
from tailrace.events.base import Event
from tailrace.events.fields import integer
from tailrace.events.layout import U8, U32, U64, field, flagged, tail
from tailrace.events.rows import RowsEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription
    from tailrace.events.header import EventHeader
    from tailrace.events.table_map import TableMapEvent


class UnreadableRowsEvent(RowsEvent):
    """Changed rows that cannot be read: asking for them raises UnsupportedType.

    It is a RowsEvent so that no code that collects rows can skip it unnoticed.
    """

    __slots__ = ()

    FIELDS: ClassVar[tuple[str, ...]] = ()
    MADE_OF: ClassVar[Mapping[str, Any]] = {}
    MADE_FROM: ClassVar[Mapping[str, str]] = {}
    LAYOUT = ()
    CHANGES_CONTEXT = False

    def __init__(self, header: EventHeader, body: bytes) -> None:
        super().__init__(header, body)
        self._table_map = None

    table_id = flags = width = 0
    present_before = present_after = None
    read_body = Event.read_body
    write_body = Event.write_body

    @classmethod
    def type_of(cls, fields: Mapping[str, Any], form: FormatDescription, /) -> int:
        """The only type of the class, or an error."""
        return super(RowsEvent, cls).type_of(fields, form)

    def _fail(self) -> NoReturn:
        self.check_fields()
        raise self.error("the rows of this event type cannot be read", UnsupportedType)

    @property
    def table_map(self) -> TableMapEvent:
        """Raises UnsupportedType."""
        self._fail()

    @property
    def row_data(self) -> bytes:
        """Raises UnsupportedType."""
        self._fail()


class PreGaRowsEvent(
    UnreadableRowsEvent,
    types=(
        EventType.PRE_GA_WRITE_ROWS,
        EventType.PRE_GA_UPDATE_ROWS,
        EventType.PRE_GA_DELETE_ROWS,
    ),
):
    """Rows events of MySQL 5.1's beta versions (20 to 22)."""

    FIELDS = ()

    data: bytes = tail()


class PartialRowDataEvent(UnreadableRowsEvent, types=(EventType.PARTIAL_ROW_DATA,)):
    """PARTIAL_ROW_DATA (172), MariaDB 12.3 and later: a part of a large rows event.

    ``part`` counts from 1 to ``parts``; ``original_size`` is in bytes, and only in the first part:
    the lowest bit of ``fragment_flags`` says so.
    """

    FIELDS = ("part", "parts", "original_size")

    parts: int = field(U32, "the number of parts")
    part: int = field(U32, "the part's number")
    fragment_flags: int = field(U8, "the flags", default=0)
    original_size: int | None = flagged(U64, "the original size", "fragment_flags", 1)
    chunk: bytes = tail()

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """All fields; if the size changes, its flag is set accordingly."""
        fields = super().carried(changes)
        if "original_size" in changes and "fragment_flags" not in changes:
            fields["fragment_flags"] = self.fragment_flags & ~1
        return fields

    def write_body(self, form: FormatDescription, /) -> bytes:
        """The body, by LAYOUT. Raises EventEncodeError."""
        integer(self.part, "part", 1, integer(self.parts, "parts", 1, 0xFFFFFFFF))
        return super().write_body(form)
