"""Doubles and floats as the shortest decimal text that reads back as the same number.

The digits are found by Raffaele Giulietti's Schubfach method: a table of powers of ten to 126 bits
and three multiplications. The table is part of the machine code, made from Python's integers.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.kernels.digits import divide, put_unsigned
from tailrace.columns.kernels.memory import helper, i64, put8, put32, put64, u8, umulh

LEAST: Final = -292
MOST: Final = 324


def _power(exponent: int) -> int:
    """10**exponent, scaled to 126 bits and rounded up (exact powers too)."""
    if exponent >= 0:
        value = 10**exponent
        shift = 126 - value.bit_length()
        return (value << shift if shift >= 0 else value >> -shift) + 1
    value = 10**-exponent
    return (1 << (value.bit_length() + 125)) // value + 1


_POWERS: Final = b"".join(
    struct.pack("<QQ", power & (2**64 - 1), power >> 64)
    for power in map(_power, range(LEAST, MOST + 1))
)


@intrinsic
def powers(typingctx: Any) -> Any:
    """The address of the table of powers: 16 bytes each, low word first, from `LEAST` up."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = bytearray(_POWERS)
        kind = ir.ArrayType(ir.IntType(8), len(data))
        table = ir.GlobalVariable(builder.module, kind, "tailrace.powers.of.ten")
        table.linkage = "internal"
        table.global_constant = True
        table.align = 16
        table.initializer = ir.Constant(kind, data)
        return builder.ptrtoint(table, ir.IntType(64))

    return types.int64(), codegen


@helper
def _round_to_odd(power: int, scaled: int) -> int:
    """Bits 128 and up of the product, the lowest one set if anything below them is lost."""
    by = types.uint64(scaled)
    low = types.uint64(umulh(i64(power), scaled))
    middle = types.uint64(i64(power + 8)) * by + low
    high = types.uint64(umulh(i64(power + 8), scaled)) + types.uint64(middle < low)
    return types.int64(high) | (middle != types.uint64(0))


@helper
def shortest(mantissa: int, exponent: int, hidden: int) -> tuple[int, int]:
    """Digits and power of ten of a finite number that is not 0; trailing zeros are kept.

    ``mantissa`` and ``exponent`` are the bits as stored, ``hidden`` is the mantissa's width: 52 for
    a double, 23 for a float. Of the shortest texts the nearest is chosen; of two equally near, the
    even.
    """
    bias = 1075 if hidden == 52 else 150
    c = mantissa
    q = 1 - bias
    if exponent:
        c |= 1 << hidden
        q = exponent - bias
    if -hidden - 1 < q <= 0 and c & ((1 << -q) - 1) == 0:
        return c >> -q, 0
    closer = mantissa == 0 and exponent > 1  # the number below is nearer than the one above
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    h = q + ((-k * 1741647) >> 19) + 3
    power = powers() + ((-k - LEAST) << 4)
    odd = c & 1
    low = _round_to_odd(power, (4 * c - 2 + closer) << h) + odd
    value = _round_to_odd(power, 4 * c << h)
    high = _round_to_odd(power, (4 * c + 2) << h) - odd
    s = value >> 2
    if s >= 10:
        ten = divide(s, 10)
        down = low <= 40 * ten
        up = 40 * ten + 40 <= high
        if down != up:
            return ten + up, k + 1
    down = low <= 4 * s
    up = 4 * s + 4 <= high
    if down != up:
        return s + up, k
    middle = 4 * s + 2
    return s + (value > middle or (value == middle and s & 1)), k


@helper
def put_float(out: int, bits: int, hidden: int, least: int, most: int, python: int) -> int:
    """Write a finite double (``hidden`` 52) or float (23), shortest; 26 bytes at most.

    ``least`` and ``most`` limit the decimal point's distance from the first digit, for a text
    without
    exponent. ``python`` chooses ``1e+20`` and ``1e-07`` instead of ``1e20`` and ``1e-7``.
    """
    mantissa = bits & ((1 << hidden) - 1)
    exponent = (bits >> hidden) & (0x7FF if hidden == 52 else 0xFF)
    negative = (bits >> (63 if hidden == 52 else 31)) & 1
    put8(out, 0x2D)
    out += negative
    if mantissa == 0 and exponent == 0:
        put32(out, 0x302E30)  # 0.0
        return out + 3
    digits, k = shortest(mantissa, exponent, hidden)
    ten = divide(digits, 10)
    while ten * 10 == digits:
        digits = ten
        k += 1
        ten = divide(digits, 10)
    end = put_unsigned(out + 1, digits)
    count = end - out - 1
    point = count + k
    if least <= point and (point <= most or (count > point and not python)):
        if point <= 0:
            put64(out, 0x3030303030302E30)
            put64(out + 8, 0x3030303030303030)
            return put_unsigned(out + 2 - point, digits)
        if point >= count:
            put64(end, 0x3030303030303030)
            put64(end + 8, 0x3030303030303030)
        for i in range(point):
            put8(out + i, u8(out + i + 1))
        put8(out + point, 0x2E)
        if point >= count:
            put8(out + point + 1, 0x30)
            return out + point + 2
        return end
    put8(out, u8(out + 1))
    put8(out + 1, 0x2E)
    end -= count == 1
    point -= 1
    put8(end, 0x65)
    end += 1
    if point < 0:
        put8(end, 0x2D)
        point = -point
        end += 1
    elif python:
        put8(end, 0x2B)
        end += 1
    if python and point < 10:
        put8(end, 0x30)
        end += 1
    return put_unsigned(end, point)
