"""A result set, both ways: columns, rows as text, and the packets around them.

Source: MySQL ``sql/protocol_classic.cc``. Each packet is a payload; `tailrace.wire.packets.frame`
adds the header. The EOF packets are there: DEPRECATE_EOF is not spoken.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import MalformedPacket
from tailrace.events.fields import Builder
from tailrace.wire.handshake import UTF8MB4
from tailrace.wire.packets import AUTOCOMMIT, EndPacket, PacketCursor, is_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.wire.packets import Data

Value = str | int | float | Decimal | None
"""What a row is made of; read again, all that is not NULL is text."""

_NULL: Final = 0xFB
_FIXED: Final = 12
_BINARY: Final = 63
_NUMBER: Final = 0x8000


class ColumnType(IntEnum):
    """The types of columns that a source's answers have."""

    INT = 3
    DOUBLE = 5
    NULL = 6
    BIGINT = 8
    DECIMAL = 246
    VARCHAR = 253


_DECIMALS: Final = {ColumnType.DOUBLE: 31, ColumnType.DECIMAL: 6}


@dataclass(frozen=True, slots=True)
class Column:
    """ColumnDefinition41 of a result that belongs to no table."""

    name: str
    kind: ColumnType = ColumnType.VARCHAR

    @classmethod
    def decode(cls, payload: Data) -> Self:
        """From a payload. Raises MalformedPacket."""
        cursor = PacketCursor("a column's definition", bytes(payload))
        for what in ("the catalogue", "the schema", "the table", "the original table"):
            cursor.lenenc_bytes(what)
        name = cursor.text(cursor.lenenc("the name's length"), "the name")
        cursor.lenenc_bytes("the original name")
        cursor.expect(_FIXED, "the length of the fixed fields")
        cursor.skip(6, "character set and width")
        kind = cursor.u8("the type")
        cursor.skip(5, "flags and decimals")
        cursor.finish("the decimals")
        try:
            return cls(name, ColumnType(kind))
        except ValueError:
            raise MalformedPacket(f"the column {name!r} has the type {kind}") from None

    def encode(self) -> bytes:
        """The inverse of `decode`."""
        text = self.kind is ColumnType.VARCHAR
        out = Builder()
        for each in ("def", "", "", "", self.name, ""):
            out.lenenc_bytes(each.encode(), "a column's name")
        out.u8(_FIXED, "the length of the fixed fields")
        out.u16(UTF8MB4 if text else _BINARY, "the character set")
        out.u32(1024 if text else 21, "the width")
        out.u8(self.kind, "the type")
        out.u16(0 if text else _NUMBER, "the flags")
        out.u8(_DECIMALS.get(self.kind, 0), "the decimals")
        out.zeros(2)
        return out.done()


@dataclass(frozen=True, slots=True)
class ResultSet:
    """Columns, and rows with a value for each."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[Value]]) -> Self:
        """Columns of these names, each of the type of its first value that is not NULL."""
        columns = []
        for at, name in enumerate(names):
            found = [row[at] for row in rows if row[at] is not None]
            kind = ColumnType.VARCHAR
            if found and isinstance(found[0], int):
                kind = ColumnType.BIGINT
            elif found and isinstance(found[0], float):
                kind = ColumnType.DOUBLE
            elif found and isinstance(found[0], Decimal):
                kind = ColumnType.DECIMAL
            columns.append(Column(name, kind))
        return cls(tuple(columns), tuple(tuple(row) for row in rows))

    @classmethod
    def decode(cls, payloads: Sequence[Data]) -> Self:
        """From the payloads of all its packets. Raises MalformedPacket."""
        if not payloads:
            raise MalformedPacket("a result set without a packet")
        cursor = PacketCursor("a result set's first packet", bytes(payloads[0]))
        count = cursor.lenenc("the number of columns")
        cursor.finish("the number of columns")
        rest = payloads[1 + count :]
        if len(rest) < 2 or not is_end(rest[0]) or not is_end(rest[-1]):
            raise MalformedPacket(f"{len(payloads)} packets are not a result of {count} columns")
        columns = tuple(Column.decode(each) for each in payloads[1 : 1 + count])
        return cls(columns, tuple(_row(each, count) for each in rest[1:-1]))

    def encode(self) -> list[bytes]:
        """The inverse of `decode`."""
        head = Builder()
        head.lenenc(len(self.columns), "the number of columns")
        end = EndPacket(status=AUTOCOMMIT).encode()
        rows = []
        for row in self.rows:
            out = Builder()
            for value in row:
                if value is None:
                    out.u8(_NULL, "NULL")
                else:
                    out.lenenc_bytes(_text(value).encode(), "a value")
            rows.append(out.done())
        return [head.done(), *(column.encode() for column in self.columns), end, *rows, end]


def _text(value: str | float | Decimal) -> str:
    if isinstance(value, float):
        return format(value, ".17g")
    return str(value)


def _row(payload: Data, count: int) -> tuple[str | None, ...]:
    cursor = PacketCursor("a row", bytes(payload))
    values: list[str | None] = []
    for at in range(count):
        if cursor.remaining and cursor.buf[cursor.pos] == _NULL:
            cursor.skip(1, "NULL")
            values.append(None)
        else:
            values.append(cursor.text(cursor.lenenc(f"value {at}"), f"value {at}"))
    cursor.finish("the last value")
    return tuple(values)
