"""Unaligned loads, stores and copies at raw addresses, as single machine instructions.

Kernels work on addresses (``int64``), not on arrays. Numba checks no bounds of these, so every
kernel checks lengths itself before it reads. If a kernel says so, loads may run up to `PADDING`
bytes past the requested bytes; buffers given to kernels have that much slack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

_I8 = ir.IntType(8)
_I64 = ir.IntType(64)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _load(bits: int, *, signed: bool = False, swap: bool = False) -> Any:
    """Make an intrinsic that loads an integer of ``bits`` and widens it to int64."""
    kind = ir.IntType(bits)

    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(_pointer(builder, args[0], kind), align=1)
            if swap:
                value = builder.bswap(value)
            if bits == 64:
                return value
            return builder.sext(value, _I64) if signed else builder.zext(value, _I64)

        return types.int64(types.int64), codegen

    return load


def _store(bits: int) -> Any:
    kind = ir.IntType(bits)

    @intrinsic
    def store(typingctx: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = args[1]
            if bits < 64:
                value = builder.trunc(value, kind)
            builder.store(value, _pointer(builder, args[0], kind), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return store


def _copy(size: int) -> Any:
    kind = ir.VectorType(_I8, size)

    @intrinsic
    def copy(typingctx: Any, target: Any, source: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(_pointer(builder, args[1], kind), align=1)
            builder.store(value, _pointer(builder, args[0], kind), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return copy


def _xor(size: int) -> Any:
    kind = ir.VectorType(_I8, size)

    @intrinsic
    def xor(typingctx: Any, target: Any, one: Any, other: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            left = builder.load(_pointer(builder, args[1], kind), align=1)
            right = builder.load(_pointer(builder, args[2], kind), align=1)
            builder.store(builder.xor(left, right), _pointer(builder, args[0], kind), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen

    return xor


u8 = _load(8)
i8 = _load(8, signed=True)
u16 = _load(16)
i16 = _load(16, signed=True)
u32 = _load(32)
i32 = _load(32, signed=True)
i64 = _load(64)
be16 = _load(16, swap=True)
be32 = _load(32, swap=True)
be64 = _load(64, swap=True)
put8 = _store(8)
put16 = _store(16)
put32 = _store(32)
put64 = _store(64)
copy16 = _copy(16)
copy32 = _copy(32)
xor16 = _xor(16)
xor32 = _xor(32)


@intrinsic
def umulh(typingctx: Any, a: Any, b: Any) -> Any:
    """High 64 bits of the product of two words taken as unsigned."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _I64)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def popcount(typingctx: Any, value: Any) -> Any:
    """Set bits of a 64-bit word."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), codegen


@intrinsic
def bswap64(typingctx: Any, value: Any) -> Any:
    """The eight bytes of a word in reverse order."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.int64(types.int64), codegen


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Ask for the cache line at an address, which need not be valid, without waiting for it."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer, i32 = ir.PointerType(), ir.IntType(32)
        call = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32]),
            "llvm.prefetch.p0",
        )
        read, keep, data = (ir.Constant(i32, number) for number in (0, 3, 1))
        builder.call(call, [builder.inttoptr(args[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def get(typingctx: Any, frame: Any, word: Any) -> Any:
    """A word of a frame."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = builder.add(args[0], builder.mul(args[1], ir.Constant(_I64, 8)))
        return builder.load(_pointer(builder, address, _I64), align=1)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def put(typingctx: Any, frame: Any, word: Any, value: Any) -> Any:
    """Set a word of a frame."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = builder.add(args[0], builder.mul(args[1], ir.Constant(_I64, 8)))
        builder.store(args[2], _pointer(builder, address, _I64), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def _pieces(low_bits: int, high_bits: int) -> Any:
    """Make an intrinsic that loads ``low_bits`` and, after them, ``high_bits``."""

    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            low = builder.load(_pointer(builder, args[0], ir.IntType(low_bits)), align=1)
            behind = builder.add(args[0], ir.Constant(_I64, low_bits // 8))
            high = builder.load(_pointer(builder, behind, ir.IntType(high_bits)), align=1)
            shifted = builder.shl(builder.zext(high, _I64), ir.Constant(_I64, low_bits))
            return builder.or_(builder.zext(low, _I64), shifted)

        return types.int64(types.int64), codegen

    return load


le24 = _pieces(16, 8)
le48 = _pieces(32, 16)


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call, for ``int64`` arguments, once.

    The explicit types keep Numba from compiling it again for each constant that it is called with.
    It is never called from Python.
    """
    arguments = (types.int64,) * function.__code__.co_argcount
    return njit(arguments, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )


@helper
def move(target: int, source: int, size: int) -> None:
    """Copy ``size`` bytes in 32-byte steps: reads and writes up to 31 bytes past the end."""
    done = 0
    while done < size:
        copy32(target + done, source + done)
        done += 32


@helper
def copy_exactly(target: int, source: int, size: int) -> None:
    """Copy ``size`` bytes: none after them is read or written."""
    done = 0
    while size - done >= 8:
        put64(target + done, i64(source + done))
        done += 8
    while done < size:
        put8(target + done, u8(source + done))
        done += 1


@helper
def copy_in(target, source, size, end):
    """Copy ``size`` bytes, which end at ``end`` or before; reads no byte at or after ``end``."""
    if end - source >= size + 31:
        move(target, source, size)
        return
    copy_exactly(target, source, size)


@helper
def prefix(p, size):
    """The length before a variable-length value."""
    if size == 1:
        return u8(p)
    if size == 2:
        return u16(p)
    if size == 3:
        return le24(p)
    return u32(p)


@helper
def length_encoded(p, end):
    """A length-encoded integer: (value, address after it), or (-1, p) if it does not fit."""
    if p >= end:
        return -1, p
    first = u8(p)
    if first < 251:
        return first, p + 1
    if first == 0xFC and end - p >= 3:
        return u16(p + 1), p + 3
    if first == 0xFD and end - p >= 4:
        return le24(p + 1), p + 4
    if first == 0xFE and end - p >= 9 and i64(p + 1) >= 0:
        return i64(p + 1), p + 9
    return -1, p


@helper
def json_length(p: int, end: int) -> int:
    """A length in binary JSON, 7 bits a byte, lowest first; -1 if it passes the end or 32 bits."""
    length = 0
    for i in range(min(5, end - p)):
        byte = u8(p + i)
        length |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return length if length >> 32 == 0 else -1
    return -1


@helper
def behind_json_length(p: int, end: int) -> int:
    """The address after a length that `json_length` could read."""
    while p < end and u8(p) >= 0x80:
        p += 1
    return p + 1


@helper
def same_bytes(a, b, size):
    """Whether the bytes at two addresses are equal; no others are read."""
    while size >= 8:
        if i64(a) != i64(b):
            return 0
        a += 8
        b += 8
        size -= 8
    while size > 0:
        if u8(a) != u8(b):
            return 0
        a += 1
        b += 1
        size -= 1
    return 1
