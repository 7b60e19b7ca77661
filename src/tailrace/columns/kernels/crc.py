"""CRC-32 (zlib's polynomial) of short and long runs of bytes, at memory speed.

Where the processor multiplies without carry (x86's PCLMULQDQ), 64 bytes at a time are folded as in
Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ" (Intel, 2009).
Elsewhere, and for the remaining bytes, eight tables of 256 entries process eight bytes in a step.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.kernels.memory import helper, i64, u8, u32

_V2 = ir.VectorType(ir.IntType(64), 2)
_I8 = ir.IntType(8)

HAS_CLMUL: Final = bool(llvm.get_host_cpu_features().get("pclmul"))

# x^n mod P, bit-reflected, for the distances by which 128 bits are folded (Intel's paper, table 1).
_FOLD_512_LOW: Final = 0x0154442BD4
_FOLD_512_HIGH: Final = 0x01C6E41596
_FOLD_128_LOW: Final = 0x01751997D0
_FOLD_128_HIGH: Final = 0x00CCAA009E


@intrinsic
def _fold(
    typingctx: Any, low: Any, high: Any, by_low: Any, by_high: Any, next_low: Any, next_high: Any
) -> Any:
    """Advance 128 bits (low, high) by a distance's constants and add the next 128 bits."""
    del typingctx, low, high, by_low, by_high, next_low, next_high
    result = types.UniTuple(types.int64, 2)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def pair(first: Any, second: Any) -> Any:
            vector = ir.Constant(_V2, ir.Undefined)
            vector = builder.insert_element(vector, first, ir.Constant(ir.IntType(32), 0))
            return builder.insert_element(vector, second, ir.Constant(ir.IntType(32), 1))

        multiply = builder.module.declare_intrinsic(
            "llvm.x86.pclmulqdq", (), ir.FunctionType(_V2, [_V2, _V2, _I8])
        )
        value, by, after = pair(*args[0:2]), pair(*args[2:4]), pair(*args[4:6])
        low_part = builder.call(multiply, [value, by, ir.Constant(_I8, 0x00)])
        high_part = builder.call(multiply, [value, by, ir.Constant(_I8, 0x11)])
        folded = builder.xor(builder.xor(low_part, high_part), after)
        parts = [
            builder.extract_element(folded, ir.Constant(ir.IntType(32), lane)) for lane in (0, 1)
        ]
        return context.make_tuple(builder, sig.return_type, parts)

    return result(*[types.int64] * 6), codegen


@helper
def _crc_tables(crc: int, p: int, size: int, tables: int) -> int:
    """CRC-32 by eight tables; ``crc`` as input and result is the raw (inverted) register."""
    end = p + size
    while end - p >= 8:
        low = u32(p) ^ crc
        high = u32(p + 4)
        crc = (
            u32(tables + 7 * 1024 + (low & 255) * 4)
            ^ u32(tables + 6 * 1024 + ((low >> 8) & 255) * 4)
            ^ u32(tables + 5 * 1024 + ((low >> 16) & 255) * 4)
            ^ u32(tables + 4 * 1024 + (low >> 24) * 4)
            ^ u32(tables + 3 * 1024 + (high & 255) * 4)
            ^ u32(tables + 2 * 1024 + ((high >> 8) & 255) * 4)
            ^ u32(tables + 1 * 1024 + ((high >> 16) & 255) * 4)
            ^ u32(tables + (high >> 24) * 4)
        )
        p += 8
    if end - p >= 4:
        low = u32(p) ^ crc
        crc = (
            u32(tables + 3 * 1024 + (low & 255) * 4)
            ^ u32(tables + 2 * 1024 + ((low >> 8) & 255) * 4)
            ^ u32(tables + 1 * 1024 + ((low >> 16) & 255) * 4)
            ^ u32(tables + (low >> 24) * 4)
        )
        p += 4
    while p < end:
        crc = u32(tables + ((crc ^ u8(p)) & 255) * 4) ^ (crc >> 8)
        p += 1
    return crc


if HAS_CLMUL:

    @helper
    def crc32(p: int, size: int, tables: int) -> int:
        """CRC-32 of ``size`` bytes at ``p``; ``tables`` is the address of eight tables."""
        if size < 32:
            return _crc_tables(0xFFFFFFFF, p, size, tables) ^ 0xFFFFFFFF
        end = p + size
        a0, a1 = i64(p) ^ 0xFFFFFFFF, i64(p + 8)
        p += 16
        if end - p >= 112:
            b0, b1 = i64(p), i64(p + 8)
            c0, c1 = i64(p + 16), i64(p + 24)
            d0, d1 = i64(p + 32), i64(p + 40)
            p += 48
            while end - p >= 64:
                a0, a1 = _fold(a0, a1, _FOLD_512_LOW, _FOLD_512_HIGH, i64(p), i64(p + 8))
                b0, b1 = _fold(b0, b1, _FOLD_512_LOW, _FOLD_512_HIGH, i64(p + 16), i64(p + 24))
                c0, c1 = _fold(c0, c1, _FOLD_512_LOW, _FOLD_512_HIGH, i64(p + 32), i64(p + 40))
                d0, d1 = _fold(d0, d1, _FOLD_512_LOW, _FOLD_512_HIGH, i64(p + 48), i64(p + 56))
                p += 64
            a0, a1 = _fold(a0, a1, _FOLD_128_LOW, _FOLD_128_HIGH, b0, b1)
            a0, a1 = _fold(a0, a1, _FOLD_128_LOW, _FOLD_128_HIGH, c0, c1)
            a0, a1 = _fold(a0, a1, _FOLD_128_LOW, _FOLD_128_HIGH, d0, d1)
        while end - p >= 16:
            a0, a1 = _fold(a0, a1, _FOLD_128_LOW, _FOLD_128_HIGH, i64(p), i64(p + 8))
            p += 16
        # The rest, 128 bits and fewer than 16 bytes, goes through the tables.
        crc = 0
        for word in (a0, a1):
            low = (word & 0xFFFFFFFF) ^ crc
            high = (word >> 32) & 0xFFFFFFFF
            crc = (
                u32(tables + 7 * 1024 + (low & 255) * 4)
                ^ u32(tables + 6 * 1024 + ((low >> 8) & 255) * 4)
                ^ u32(tables + 5 * 1024 + ((low >> 16) & 255) * 4)
                ^ u32(tables + 4 * 1024 + (low >> 24) * 4)
                ^ u32(tables + 3 * 1024 + (high & 255) * 4)
                ^ u32(tables + 2 * 1024 + ((high >> 8) & 255) * 4)
                ^ u32(tables + 1 * 1024 + ((high >> 16) & 255) * 4)
                ^ u32(tables + (high >> 24) * 4)
            )
        return _crc_tables(crc, p, end - p, tables) ^ 0xFFFFFFFF

else:

    @helper
    def crc32(p: int, size: int, tables: int) -> int:
        """CRC-32 of ``size`` bytes at ``p``; ``tables`` is the address of eight tables."""
        return _crc_tables(0xFFFFFFFF, p, size, tables) ^ 0xFFFFFFFF


def verify_events(p: int, end: int, tables: int) -> int:
    """Where the first event is that is not whole before ``end``, or does not match its CRC-32.

    The checksums are not looked at if ``tables`` is 0.
    """
    while end - p >= 19:
        size = u32(p + 9)
        if size < 23 or size > end - p:
            break
        if tables and crc32(p, size - 4, tables) != u32(p + size - 4):
            break
        p += size
    return p
