"""Integers as decimal text.

Every function takes the address to write at and returns the address after what it wrote. Stores
may run up to 8 bytes past that.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.kernels.memory import helper, put8, put64

ZEROS = 0x3030303030303030


@intrinsic
def low_zeros(typingctx: Any, value: Any) -> Any:
    """Count the zero bits below the lowest set one; the value must not be 0."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def divide(typingctx: Any, value: Any, by: Any) -> Any:
    """Divide as unsigned 64-bit numbers, so that a constant divisor becomes a multiplication."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.udiv(args[0], args[1])

    return types.int64(types.int64, types.int64), codegen


@helper
def digits8(value: int) -> int:
    """Give a number below 10**8 as eight digits (0..9) in the bytes of a word, first one lowest."""
    top = divide(value, 10000)
    pair = top | ((value - top * 10000) << 32)
    top = ((pair * 10486) >> 20) & 0x7F0000007F
    pair = top | ((pair - top * 100) << 16)
    top = ((pair * 103) >> 10) & 0x000F000F000F000F
    return top | ((pair - top * 10) << 8)


@helper
def put_unsigned(out: int, value: int) -> int:
    """Write an unsigned 64-bit number in decimal."""
    if 0 <= value < 100000000:
        word = digits8(value)
        skip = low_zeros(word | (1 << 56)) & 56
        put64(out, (word | ZEROS) >> skip)
        return out + 8 - (skip >> 3)
    high = divide(value, 100000000)
    low = value - high * 100000000
    top = divide(high, 100000000)
    word = digits8(top or high)
    skip = low_zeros(word | (1 << 56)) & 56
    put64(out, (word | ZEROS) >> skip)
    out += 8 - (skip >> 3)
    if top:
        put64(out, digits8(high - top * 100000000) | ZEROS)
        out += 8
    put64(out, digits8(low) | ZEROS)
    return out + 8


@helper
def put_signed(out: int, value: int) -> int:
    """Write a signed 64-bit number in decimal."""
    put8(out, 0x2D)
    negative = (value >> 63) & 1
    return put_unsigned(out + negative, (value ^ -negative) + negative)
