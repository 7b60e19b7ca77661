"""DECIMAL: packed groups of nine digits. Facts sheet section 3.1, "Decimal"."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.family import Declaration, Format, TypeFamily, Width, named

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper, Loader
    from tailrace.values.schema import Column

_LEFTOVER_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of a group of 0 to 9 digits."""

_MAX_PRECISION: Final = 65
_MAX_SCALE: Final = 38  # MariaDB's; MySQL's is 30
MOST_GROUPS: Final = 9
"""Maximum groups of nine digits of a server's number, including partial groups."""


def decimal_size(precision: int, scale: int) -> int:
    """Bytes of a DECIMAL(precision, scale); `EventDecodeError` if there is no such type."""
    if not (0 < precision <= _MAX_PRECISION and 0 <= scale <= _MAX_SCALE and scale <= precision):
        raise EventDecodeError(f"DECIMAL({precision},{scale}) does not exist")
    return _size(precision, scale)


def holds_number(precision: int, scale: int) -> bool:
    """Whether a number in a server's memory, and so in JSON, may have this many digits.

    There may be more than in a column: 81, or fewer if groups are only partly filled.
    """
    whole = precision - scale
    return (
        precision > 0
        and 0 <= scale <= precision
        and ((whole + 8) // 9 + (scale + 8) // 9 <= MOST_GROUPS)
    )


def _size(precision: int, scale: int) -> int:
    whole = precision - scale
    full = (whole // 9 + scale // 9) * 4
    return full + _LEFTOVER_BYTES[whole % 9] + _LEFTOVER_BYTES[scale % 9]


def number_text(data: bytes, precision: int, scale: int) -> str:
    """The value as ``SELECT`` prints it, with all digits of its scale.

    It need not fit a column (`holds_number`). Raises `EventDecodeError` for data of another length
    than its digits have, and for groups with a value that exceeds their digits.
    """
    if not holds_number(precision, scale):
        raise EventDecodeError(f"no number has {precision} digits, {scale} of them after the point")
    return _texts(precision, scale)(data)


def _decimal_loader(column: Column) -> Loader:
    precision, scale = divmod(column.metadata, 256)
    decimal_size(precision, scale)
    text = _texts(precision, scale)
    return lambda data: Decimal(text(data))


def _groups(precision: int, scale: int) -> list[tuple[int, int, int]]:
    """Where each group of digits begins and ends, and its upper limit (exclusive), in order."""
    whole = precision - scale
    # Leftover digits come first in the whole part, last in the fraction.
    digits = [whole % 9, *(9,) * (whole // 9), *(9,) * (scale // 9), scale % 9]
    groups, at = [], 0
    for count in filter(None, digits):
        end = at + _LEFTOVER_BYTES[count]
        groups.append((at, end, 10**count))
        at = end
    return groups


@lru_cache(maxsize=256)
def _texts(precision: int, scale: int) -> Callable[[bytes], str]:
    """The function that converts one DECIMAL type's packed bytes to text."""
    size = _size(precision, scale)
    groups = _groups(precision, scale)
    top, all_ones = 1 << (8 * size - 1), (1 << (8 * size)) - 1
    width = scale + 1

    def text(data: bytes) -> str:
        if len(data) != size:
            raise EventDecodeError(f"a DECIMAL of {size} bytes has {len(data)}")
        from_bytes = int.from_bytes
        sign = ""
        number = from_bytes(data, "big") ^ top  # inverted, so that the bytes sort as the numbers do
        if number & top:
            sign = "-"
            number ^= all_ones
        packed = number.to_bytes(size, "big")
        value = 0
        for start, end, limit in groups:
            group = from_bytes(packed[start:end], "big")
            if group >= limit:
                raise EventDecodeError(f"a DECIMAL's group of digits below {limit} holds {group}")
            value = value * limit + group
        if not scale:
            return f"{sign}{value}"
        plain = str(value).zfill(width)
        return f"{sign}{plain[:-scale]}.{plain[-scale:]}"

    return text


_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def given_decimal(value: Any) -> Decimal:
    """A finite Decimal from a Decimal, an int, a float (its shortest digits) or a number's text.

    `ValueRejected` for anything else.
    """
    try:
        if isinstance(value, Decimal):
            number = value
        elif isinstance(value, str):
            if not _NUMBER.fullmatch(value):
                raise ValueRejected(f"{short_repr(value)} is not a number")
            number = Decimal(value)
        elif isinstance(value, float):
            number = Decimal(float.__repr__(value))
        else:
            number = Decimal(index(value))
    except (ArithmeticError, TypeError):
        raise ValueRejected(f"{short_repr(value)} is not a number") from None
    if not number.is_finite():
        raise ValueRejected(f"{short_repr(value)} is no number that a DECIMAL holds")
    return number


def unscaled(number: Decimal, precision: int, scale: int) -> int:
    """The number in units of its last digit; `ValueRejected` for digits that do not fit.

    There is no negative zero, as the servers have none.
    """
    if not number:
        return 0
    if number.adjusted() >= precision - scale:
        raise ValueRejected(
            f"{short_repr(number)} has more digits than DECIMAL({precision},{scale})"
        )
    if number.adjusted() >= -scale:
        whole, _, part = format(number, "f").partition(".")
        if not part[scale:].strip("0"):
            return int(whole + part[:scale].ljust(scale, "0"))
    raise ValueRejected(
        f"{short_repr(number)} has more digits after the point than DECIMAL({precision},{scale}): "
        "round it first"
    )


def _decimal_dumper(column: Column) -> Dumper:
    """What `given_decimal` takes. Nothing is rounded."""
    precision, scale = divmod(column.metadata, 256)
    pack = decimal_packer(precision, scale)

    def dump_decimal(value: Any) -> bytes:
        number = unscaled(given_decimal(value), precision, scale)
        if column.unsigned and number < 0:
            raise ValueRejected(f"{short_repr(value)} is below zero, the column is UNSIGNED")
        return pack(number)

    return dump_decimal


@lru_cache(maxsize=256)
def decimal_packer(precision: int, scale: int) -> Callable[[int], bytes]:
    """The function that packs a number, given in units of its last digit."""
    size = _size(precision, scale)
    groups = _groups(precision, scale)[::-1]
    top, all_ones = 1 << (8 * size - 1), (1 << (8 * size)) - 1

    def pack(number: int) -> bytes:
        rest, packed = abs(number), 0
        for _, end, limit in groups:
            rest, group = divmod(rest, limit)
            packed |= group << 8 * (size - end)
        if number < 0:
            packed ^= all_ones
        return (packed ^ top).to_bytes(size, "big")

    return pack


def _spec(declared: Declared) -> ColumnSpec:
    precision = declared.number(10, 1, _MAX_PRECISION)
    most = 30 if declared.flavour is Flavour.MYSQL else _MAX_SCALE
    scale = declared.number(0, 0, min(precision, most), at=1)
    return declared.numeric(ColumnType.NEWDECIMAL, precision << 8 | scale)


def _digits_differ(spec: ColumnSpec, declared: Declared) -> str | None:
    if spec.type is not ColumnType.NEWDECIMAL:
        return None
    numbers = declared.numbers
    precision, scale = (*numbers, 10, 0)[:2] if len(numbers) != 1 else (numbers[0], 0)
    logged = divmod(spec.metadata, 256)
    return None if (precision, scale) == logged else f"the log says DECIMAL{logged}"


def _json(value: Decimal) -> str:
    return f'"{value:f}"'


FAMILY: Final = TypeFamily(
    widths={
        ColumnType.NEWDECIMAL: lambda metadata: Width(decimal_size(*divmod(metadata, 256))),
    },
    formats={
        ColumnType.NEWDECIMAL: Format(_decimal_loader, _decimal_dumper, lambda _column: _json),
    },
    names=named(
        Declaration(
            "decimal",
            frozenset({ColumnType.NEWDECIMAL, ColumnType.DECIMAL}),
            _spec,
            trouble=_digits_differ,
        ),
        *("dec", "numeric", "fixed", "number"),
    ),
)
