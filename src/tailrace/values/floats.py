"""FLOAT and DOUBLE: IEEE 754, little-endian."""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.family import Declaration, Format, TypeFamily, named, sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper

_T = ColumnType
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def load_float(data: bytes) -> float:
    """FLOAT, 4 bytes, as the Python float of the same value."""
    return float(_FLOAT.unpack(data)[0])


def load_double(data: bytes) -> float:
    """DOUBLE, 8 bytes."""
    return float(_DOUBLE.unpack(data)[0])


def float32_text(value: float) -> str:
    """The shortest decimal text that identifies this 32-bit float (as repr does for 64)."""
    packed = _FLOAT.pack(value)
    bits = int.from_bytes(packed, "little") & 0x7FFFFFFF
    if bits and (bits < 1 << 23 or bits & 0x7FFFFF == 0):
        # Denormal: fewer than 6 digits may be enough. Power of two: floats below are nearer.
        exact = Decimal(value)
        for digits in range(1, 10):
            for rounding in (ROUND_HALF_EVEN, ROUND_UP):
                number = float(Context(prec=digits, rounding=rounding).plus(exact))
                if _FLOAT.pack(number) == packed:
                    return repr(number)
    for digits in range(6, 10):  # 9 digits distinguish any two floats
        text = f"{value:.{digits}g}"
        if _FLOAT.pack(float(text)) == packed:
            break
    return repr(float(text))


def float32_json(value: float) -> str:
    """A FLOAT as JSON; `EventDecodeError` for NaN and infinities."""
    _check_finite(value)
    return float32_text(value)


def _float64_json(value: float) -> str:
    _check_finite(value)
    return repr(value)


def _check_finite(value: float) -> None:
    if not isfinite(value):
        raise EventDecodeError(f"{value} cannot be written as JSON, nor stored by a server")


def given_float(value: Any) -> float:
    """A finite float from a number; `ValueRejected` for text, NaN, infinities and all else."""
    if isinstance(value, (str, bytes, bytearray)):
        raise ValueRejected(f"{short_repr(value)} is not a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueRejected(f"{short_repr(value)} is no number that a DOUBLE holds") from None
    if not isfinite(number):
        raise ValueRejected(f"{short_repr(value)}: the servers hold neither infinities nor NaN")
    return number


def pack_float(number: float) -> bytes:
    """The nearest 32-bit float's bytes; `ValueRejected` above the largest."""
    try:
        return _FLOAT.pack(number)
    except OverflowError:
        raise ValueRejected(f"{number!r} is more than a FLOAT holds") from None


def _dumper(pack: Callable[[float], bytes], *, unsigned: bool) -> Dumper:
    def dump(value: Any) -> bytes:
        number = given_float(value)
        if unsigned and number < 0:
            raise ValueRejected(f"{short_repr(value)} is below zero, the column is UNSIGNED")
        return pack(number)

    return dump


def _spec(declared: Declared) -> ColumnSpec:
    """FLOAT(p) is a double from 25 bits on."""
    if declared.base.startswith("float") and declared.base != "float8":
        numbers = declared.numbers
        if len(numbers) != 1 or numbers[0] <= 24:
            return declared.numeric(_T.FLOAT, 4)
    return declared.numeric(_T.DOUBLE, 8)


_FITS: Final = frozenset({_T.FLOAT, _T.DOUBLE})  # FLOAT(30) and REAL may be either
FAMILY: Final = TypeFamily(
    widths={_T.FLOAT: sized(4), _T.DOUBLE: sized(8)},
    formats={
        _T.FLOAT: Format(
            lambda _column: load_float,
            lambda column: _dumper(pack_float, unsigned=column.unsigned),
            lambda _column: float32_json,
        ),
        _T.DOUBLE: Format(
            lambda _column: load_double,
            lambda column: _dumper(_DOUBLE.pack, unsigned=column.unsigned),
            lambda _column: _float64_json,
        ),
    },
    names={
        **named(Declaration("float", _FITS, _spec), "float4"),
        **named(Declaration("double", _FITS, _spec), "real", "float8"),
    },
)
