"""ROWS_QUERY, MariaDB's ANNOTATE_ROWS: the statement whose rows follow (facts sheet 2.1, 2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.fields import statement
from tailrace.events.layout import Field, tail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.fields import Builder, Cursor


class _StatementEvent(Event):
    __slots__ = ()

    FIELDS = ("sql",)

    sql_bytes: bytes

    @property
    def sql(self) -> str:
        """The statement, read as UTF-8; invalid bytes are shown in hex."""
        return self.sql_bytes.decode(errors="backslashreplace")


class _LengthByteField(Field):
    """The length of ``sql`` modulo 256; None if it is that."""

    __slots__ = ()

    def read(self, event: RowsQueryEvent, cursor: Cursor) -> None:
        if not cursor.remaining:
            raise EventDecodeError("the byte with the statement's length is missing")
        found = cursor.u8(self.what)
        event.length_byte = None if found == cursor.remaining & 0xFF else found

    def write(self, event: RowsQueryEvent, out: Builder) -> None:
        found, length = event.length_byte, len(statement(event.sql_bytes, "sql"))
        out.u8(length & 0xFF if found is None else found, self.name)


class RowsQueryEvent(_StatementEvent, types=(EventType.ROWS_QUERY,)):
    """ROWS_QUERY (29): the statement whose rows follow, in the bytes that the client sent.

    ``length_byte`` is the byte before it, if that is not the statement's length modulo 256
    (else None); no reader uses it.
    """

    FIELDS = ("sql",)

    length_byte: int | None = cast("Any", _LengthByteField(None, "", None))
    sql_bytes: bytes = tail(argument="sql")

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """All fields; another statement has another length."""
        fields = super().carried(changes)
        if "sql" in changes:
            fields.pop("length_byte", None)
        return fields


class AnnotateRowsEvent(_StatementEvent, types=(EventType.ANNOTATE_ROWS,)):
    """ANNOTATE_ROWS (160), MariaDB: the statement whose rows follow."""

    FIELDS = ("sql",)

    sql_bytes: bytes = tail(argument="sql")
