"""Integers, YEAR and BIT: 1, 2, 3, 4 or 8 bytes, little-endian, BIT big-endian.

Facts sheet section 3.1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import ValueRejected
from tailrace.printable import short_repr
from tailrace.values.family import (
    Declaration,
    Format,
    TypeFamily,
    Width,
    named,
    sized,
    whole_number,
)

if TYPE_CHECKING:
    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper, Loader
    from tailrace.values.schema import Column

_T = ColumnType
_SIZE: Final = {_T.TINY: 1, _T.SHORT: 2, _T.INT24: 3, _T.LONG: 4, _T.LONGLONG: 8}


def _integer_loader(column: Column) -> Loader:
    from_bytes = int.from_bytes
    if column.unsigned:
        return lambda data: from_bytes(data, "little")
    return lambda data: from_bytes(data, "little", signed=True)


def load_year(data: bytes) -> int:
    """YEAR: 0, or 1901 to 2155 as one byte from 1900 on."""
    return 1900 + data[0] if data[0] else 0


def _integer_dumper(column: Column) -> Dumper:
    """Any whole number (``__index__``) in the column's range."""
    size, unsigned = _SIZE[column.type], column.unsigned
    span = 1 << 8 * size
    least, most = (0, span - 1) if unsigned else (-span // 2, span // 2 - 1)
    signed = not unsigned

    def dump_integer(value: Any) -> bytes:
        number = value if type(value) is int else whole_number(value)
        if not least <= number <= most:
            raise ValueRejected(f"{short_repr(number)} is not between {least} and {most}")
        return number.to_bytes(size, "little", signed=signed)

    return dump_integer


def dump_year(value: Any) -> bytes:
    """YEAR: 0, or 1901 to 2155; `ValueRejected` for anything else."""
    number = whole_number(value)
    if number and not 1901 <= number <= 2155:
        raise ValueRejected(f"{short_repr(number)} is no YEAR: 0, or 1901 to 2155")
    return bytes([number - 1900 if number else 0])


def load_bit(data: bytes) -> int:
    """BIT: up to 8 bytes, big-endian."""
    return int.from_bytes(data, "big")


def _bit_dumper(column: Column) -> Dumper:
    """A whole number of the column's bits."""
    bits = column.metadata
    size = (bits + 7) // 8

    def dump_bit(value: Any) -> bytes:
        number = whole_number(value)
        if number < 0 or number >> bits:
            raise ValueRejected(f"{short_repr(number)} is not between 0 and {(1 << bits) - 1}")
        return number.to_bytes(size, "big")

    return dump_bit


def _bit_width(bits: int) -> Width | None:
    return Width((bits + 7) // 8) if 0 < bits <= 64 else None


def _bits_differ(spec: ColumnSpec, declared: Declared) -> str | None:
    bits = declared.numbers[0] if declared.numbers else 1
    return None if bits == spec.metadata else f"the log says {spec.metadata} bits"


def _declared(name: str, type_: ColumnType, *, unsigned: bool = False) -> Declaration:
    fits = frozenset({type_})
    return Declaration(name, fits, lambda column: column.numeric(type_), unsigned=unsigned)


FAMILY: Final = TypeFamily(
    widths={
        **{code: sized(size) for code, size in _SIZE.items()},
        _T.YEAR: sized(1),
        _T.BIT: _bit_width,
    },
    formats={
        **dict.fromkeys(_SIZE, Format(_integer_loader, _integer_dumper)),
        _T.YEAR: Format.of(load_year, dump_year),
        _T.BIT: Format(lambda _column: load_bit, _bit_dumper, octets=bytes),
    },
    names={
        **named(_declared("tinyint", _T.TINY), "bool", "boolean", "int1"),
        **named(_declared("smallint", _T.SHORT), "int2"),
        **named(_declared("mediumint", _T.INT24), "middleint", "int3"),
        **named(_declared("int", _T.LONG), "integer", "int4"),
        **named(_declared("bigint", _T.LONGLONG), "int8"),
        "serial": _declared("bigint", _T.LONGLONG, unsigned=True),
        "year": Declaration(
            "year",
            frozenset({_T.YEAR}),
            lambda declared: replace(declared.spec(_T.YEAR), unsigned=True),
        ),
        "bit": Declaration(
            "bit",
            frozenset({_T.BIT}),
            lambda declared: declared.spec(_T.BIT, declared.number(1, 1, 64)),
            trouble=_bits_differ,
        ),
    },
)
