"""Numbers of JSON texts, read like MySQL's parser; doubles are the nearest ones.

Decimal digits become a double by Clinger's method if both number and power are exact. Otherwise one
product with a power of ten of 126 bits (the table of `floats`) decides, except for numbers next to
the midpoint of two doubles: those are left to Python.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames import encode as f
from tailrace.columns.kernels.floats import LEAST, MOST, powers
from tailrace.columns.kernels.memory import helper, i64, put, u8, umulh

_EXACT = tuple(10.0**power for power in range(23))
_LONGEST = 19  # the digits that fit into a word


@intrinsic
def _bits_of(typingctx: Any, value: Any) -> Any:
    """A double's bits as a number."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _leading_zeros(typingctx: Any, value: Any) -> Any:
    """Count the zero bits above the highest set one; the value must not be 0."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@helper
def double_bits(digits: int, exponent: int) -> int:
    """The double nearest to digits * 10**exponent, as bits; `BY_HAND` if undetermined.

    ``digits`` is an unsigned word. The double is never negative here.
    """
    if digits == 0:
        return 0
    if 0 < digits <= 1 << 53 and -22 <= exponent <= 22:
        value = float(digits)
        if exponent < 0:
            return _bits_of(value / _EXACT[-exponent])
        return _bits_of(value * _EXACT[exponent])
    if exponent < LEAST or exponent > MOST:
        return f.BY_HAND
    zeros = _leading_zeros(digits)
    digits <<= zeros
    power = powers() + ((exponent - LEAST) << 4)
    high = umulh(i64(power + 8), digits)
    low = i64(power + 8) * digits
    carried = low + umulh(i64(power), digits)
    # The sum's carry, from bit 63 of all three.
    high += ((low & ~carried) | ((low ^ ~carried) & umulh(i64(power), digits))) >> 63 & 1
    if carried in (0, -1):  # the power's last bit may be one too high, so the result is unclear
        return f.BY_HAND
    extra = 8 - _leading_zeros(high) + 3  # bits of `high` below the 53 of a double
    mantissa = (high >> extra) + ((high >> (extra - 1)) & 1)
    biased = extra + 3 - zeros + ((exponent * 1741647) >> 19) + 1075
    if mantissa >> 53:
        mantissa >>= 1
        biased += 1
    if biased < 1 or biased > 2046:
        return f.BY_HAND
    return biased << 52 | (mantissa & ((1 << 52) - 1))


@helper
def _is_digit(p: int, end: int) -> int:
    return p < end and 0x30 <= u8(p) <= 0x39


@helper
def _whole(node: int, value: int, negative: int) -> int:
    """Set type, data and size of a whole number; ``value`` is an unsigned word without its sign."""
    if negative and (value < 0 and value != -(1 << 63)):
        return f.BY_HAND
    number = -value if negative else value
    kind, size = 9, 8
    if -0x8000 <= number < 0x8000 and value >= 0:
        kind, size = 5, 2
    elif -0x80000000 <= number < 0x80000000 and value >= 0:
        kind, size = 7, 4
    elif not negative and (value < 0 or value > 0xFFFFFFFF):
        kind = 10
    put(node, f.V_TYPE, kind)
    put(node, f.V_DATA, number)
    put(node, f.V_SIZE, size)
    return 1


@helper
def read_number(p: int, end: int, node: int) -> int:
    """Read the number at ``p`` into a node: returns the address after it, or `BY_HAND`."""
    negative = int(u8(p) == 0x2D)
    p += negative
    start = p
    value = 0
    while _is_digit(p, end):
        value = value * 10 + u8(p) - 0x30
        p += 1
    count = p - start
    if count == 0 or (u8(start) == 0x30 and count > 1) or count > _LONGEST:
        return f.BY_HAND
    if p >= end or (u8(p) != 0x2E and u8(p) | 0x20 != 0x65):
        return p if _whole(node, value, negative) > 0 else f.BY_HAND
    exponent = 0
    if u8(p) == 0x2E:
        p += 1
        behind = p
        while _is_digit(p, end):
            value = value * 10 + u8(p) - 0x30
            p += 1
        exponent = behind - p
        # Leading zeros are not digits of the word.
        at = start
        while at < p and (u8(at) == 0x30 or u8(at) == 0x2E):
            at += 1
        if exponent == 0 or p - at - (at < behind) > _LONGEST:
            return f.BY_HAND
    if p < end and u8(p) | 0x20 == 0x65:
        p += 1
        sign = 1
        if p < end and (u8(p) == 0x2B or u8(p) == 0x2D):
            sign = 0x2C - u8(p)
            p += 1
        if not _is_digit(p, end):
            return f.BY_HAND
        power = 0
        while _is_digit(p, end):
            power = min(power * 10 + u8(p) - 0x30, 100000)
            p += 1
        exponent += sign * power
    bits = double_bits(value, exponent)
    if bits < 0:
        return f.BY_HAND
    put(node, f.V_TYPE, 11)
    put(node, f.V_DATA, bits | negative << 63)
    put(node, f.V_SIZE, 8)
    return p
