"""Text copied up to the first byte that needs an escape, 16 bytes at a time."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.kernels.digits import low_zeros
from tailrace.columns.kernels.memory import helper, put8, u8

_KIND = ir.VectorType(ir.IntType(8), 16)
_LOWEST = 0x20


def copying16(marked: tuple[int, ...], *, plain_ascii: bool) -> Any:
    """Make an intrinsic that copies 16 bytes and gives one bit for each that is marked.

    With ``plain_ascii`` control characters and bytes above 127 are marked as well.
    """

    @intrinsic
    def copy(typingctx: Any, target: Any, source: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[1], _KIND.as_pointer()), align=1)
            builder.store(value, builder.inttoptr(args[0], _KIND.as_pointer()), align=1)
            least = _LOWEST if plain_ascii else -0x80
            marks = builder.icmp_signed("<", value, ir.Constant(_KIND, [least] * 16))
            for byte in marked:
                found = builder.icmp_unsigned("==", value, ir.Constant(_KIND, [byte] * 16))
                marks = builder.or_(marks, found)
            return builder.zext(builder.bitcast(marks, ir.IntType(16)), ir.IntType(64))

        return types.int64(types.int64, types.int64), codegen

    return copy


def copying(copy16: Any, marked: tuple[int, ...], *, plain_ascii: bool) -> Any:
    """Make a helper that copies bytes from ``p`` up to ``stop``, at most 16.

    It returns how many come before the first marked byte, and whether there is one. ``copy16``
    is `copying16` of the same bytes. Writes up to 16 bytes; reads nothing from ``end`` on.
    """

    @helper
    def copy(out, p, stop, end):
        step = min(stop - p, 16)
        if end - p >= 16:
            marks = copy16(out, p) & ((1 << step) - 1)
        else:
            byte = u8(p)
            put8(out, byte)
            step = 1
            marks = int(byte in marked or (plain_ascii and (byte < _LOWEST or byte > 0x7F)))
        if marks == 0:
            return step, 0
        return low_zeros(marks), 1

    return copy
