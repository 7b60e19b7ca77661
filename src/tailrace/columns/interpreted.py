"""Runs kernels in Python: a small log is read sooner than a kernel is compiled.

The source is the one that Numba compiles, so that both give the same result. This module imitates
the processor in two things. It cuts sums, differences, products and left shifts to 64 bits, and it
replaces each intrinsic by a function that reads or writes the bytes at the same addresses. A kernel
with an intrinsic that has no replacement here cannot be interpreted.

Python reads about 1 MB of log in a second; machine code reads some hundred.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Function = Callable[..., Any]

_KERNELS: Final = "tailrace.columns.kernels."
_COMPILER: Final = ("numba", "llvmlite")
_CUT: Final = "cut_to_64_bits"
_WORD: Final = (1 << 64) - 1
_LARGEST: Final = (1 << 63) - 1

_memory: Final = memoryview((ctypes.c_uint8 * (1 << 56)).from_address(0)).cast("B")
"""All of the process's memory, by address."""


def interpreted(module: str, name: str) -> Callable[..., int]:
    """The kernel ``name`` of a module below ``kernels``, as a function of numbers and addresses."""
    function = _module(module)[name]

    def kernel(*arguments: int) -> int:
        return int(function(*map(int, arguments)))

    return kernel


@functools.cache
def _module(name: str) -> dict[str, Any]:
    """The names of a module of kernels, its functions for Python."""
    path = Path(__file__).parent / "kernels" / f"{name}.py"
    tree = ast.parse(path.read_bytes(), path)
    own = _REPLACEMENTS.get(name, {})
    names: dict[str, Any] = {"__name__": f"{__name__}.{name}", _CUT: _word}
    body = []
    for part in tree.body:
        if isinstance(part, ast.ImportFrom) and (part.module or "").startswith(_KERNELS):
            found = _module((part.module or "").removeprefix(_KERNELS))
            names |= {
                each.asname or each.name: found.get(each.name, _ABSENT) for each in part.names
            }
        elif isinstance(part, ast.Import | ast.ImportFrom) and _of_compiler(part):
            names |= {each.asname or each.name: _ABSENT for each in part.names}
        elif not (isinstance(part, ast.FunctionDef) and (part.name in own or _is_intrinsic(part))):
            body.append(_Words().visit(part))
    names |= own
    tree.body = body
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), names)  # noqa: S102 - ours
    names |= own
    for table, address in _TABLES.get(name, {}).items():
        names[address] = functools.partial(_address, names[table])
    # Whatever only the compiler has is a NameError from here on, and not a call without an effect.
    for absent in [each for each, value in names.items() if value is _ABSENT]:
        del names[absent]
    return names


def _of_compiler(part: ast.Import | ast.ImportFrom) -> bool:
    first = part.module if isinstance(part, ast.ImportFrom) else part.names[0].name
    return (first or "").startswith(_COMPILER)


def _is_intrinsic(part: ast.FunctionDef) -> bool:
    """Whether a function emits machine code, which only a compiler runs."""
    marks = part.decorator_list
    return any(isinstance(each, ast.Name) and each.id == "intrinsic" for each in marks)


class _Absent:
    """What only a compiler needs."""

    def __getattr__(self, _name: str) -> _Absent:
        return self

    def __call__(self, *_arguments: object, **_options: object) -> _Absent:
        return self

    def __bool__(self) -> bool:
        return False


_ABSENT: Final = _Absent()


class _Words(ast.NodeTransformer):
    """Cuts the numbers that a kernel's functions compute to words of 64 bits, with their sign."""

    def __init__(self) -> None:
        self._inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        before = self._inside
        self._inside = before or _is_compiled(node)
        self.generic_visit(node)
        self._inside = before
        node.returns = None
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        grows = isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.LShift)
        return _cut(node) if self._inside and grows else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        plain = isinstance(node.operand, ast.Constant) or not isinstance(node.op, ast.USub)
        return node if plain or not self._inside else _cut(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        target = node.target
        if not self._inside or not isinstance(target, ast.Name):
            return self.generic_visit(node)  # type: ignore[return-value] # a statement's
        value = ast.BinOp(ast.Name(target.id, ast.Load()), node.op, node.value)
        return ast.Assign([target], self.visit(value), lineno=node.lineno)


def _is_compiled(node: ast.FunctionDef) -> bool:
    """Whether Numba compiles a function: helpers, and kernels, which have a public name."""
    marks = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
    return bool(marks & {"helper", "each_row"}) or not node.name.startswith("_")


def _cut(value: ast.expr) -> ast.expr:
    """``(_ if -2**63 <= (_ := value) < 2**63 else _CUT(_))``."""
    made = ast.NamedExpr(ast.Name("_", ast.Store()), value)
    least, most = ast.UnaryOp(ast.USub(), ast.Constant(_LARGEST + 1)), ast.Constant(_LARGEST)
    fits = ast.Compare(least, [ast.LtE(), ast.LtE()], [made, most])
    there = ast.Name("_", ast.Load())
    return ast.IfExp(fits, there, ast.Call(ast.Name(_CUT, ast.Load()), [there], []))


def _word(value: int) -> int:
    value &= _WORD
    return value if value <= _LARGEST else value - _WORD - 1


def _same(function: Function) -> Function:
    return function


def _address(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def _load(form: str) -> Function:
    unpack = struct.Struct(form).unpack_from

    def load(address: int) -> int:
        return unpack(_memory, address)[0]  # type: ignore[no-any-return] # a number

    return load


def _store(size: int) -> Function:
    mask = (1 << 8 * size) - 1

    def store(address: int, value: int) -> None:
        _memory[address : address + size] = (value & mask).to_bytes(size, "little")

    return store


def _copy_of(size: int) -> Function:
    return lambda target, source: _copy(target, source, size)


def _copy(target: int, source: int, size: int) -> None:
    if size > 0:
        _memory[target : target + size] = _memory[source : source + size]


def _xor_of(size: int) -> Function:
    def xor(target: int, one: int, other: int) -> None:
        left = int.from_bytes(_memory[one : one + size], "little")
        right = int.from_bytes(_memory[other : other + size], "little")
        _memory[target : target + size] = (left ^ right).to_bytes(size, "little")

    return xor


def _copy_in(target: int, source: int, size: int, _end: int) -> None:
    _copy(target, source, size)


def _same_bytes(a: int, b: int, size: int) -> int:
    return int(size <= 0 or _memory[a : a + size] == _memory[b : b + size])


def _little(size: int) -> Function:
    return lambda address: int.from_bytes(_memory[address : address + size], "little")


_unpack_word: Final = struct.Struct("<q").unpack_from
_pack_word: Final = struct.Struct("<q").pack_into


def _get(frame: int, word: int) -> int:
    return _unpack_word(_memory, frame + 8 * word)[0]  # type: ignore[no-any-return] # a number


def _put(frame: int, word: int, value: int) -> None:
    _pack_word(_memory, frame + 8 * word, value)


def _put64(address: int, value: int) -> None:
    _pack_word(_memory, address, value)


def _put8(address: int, value: int) -> None:
    _memory[address] = value & 255


def _umulh(a: int, b: int) -> int:
    return _word((a & _WORD) * (b & _WORD) >> 64)


def _divide(value: int, by: int) -> int:
    return _word((value & _WORD) // (by & _WORD))


def _low_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1


def _bswap64(value: int) -> int:
    return int.from_bytes((value & _WORD).to_bytes(8, "big"), "little", signed=True)


def _crc32(p: int, size: int, _tables: int) -> int:
    return zlib.crc32(_memory[p : p + size])


def _round_to_odd(power: int, scaled: int) -> int:
    by = scaled & _WORD
    low, high = (int(each) for each in struct.unpack_from("<QQ", _memory, power))
    middle = high * by + (low * by >> 64)
    return _word(middle >> 64) | int(middle & _WORD != 0)


def _marks(wanted: Callable[[int], bool]) -> Function:
    """Copies 16 bytes, and gives a bit for each that is wanted."""
    table = bytes(map(wanted, range(256)))

    def copy(target: int, source: int) -> int:
        data = _memory[source : source + 16].tobytes()
        _memory[target : target + 16] = data
        return sum(table[byte] << index for index, byte in enumerate(data))

    return copy


def _copying16(marked: tuple[int, ...], *, plain_ascii: bool) -> Function:
    return _marks(lambda byte: byte in marked or (plain_ascii and not 0x20 <= byte < 0x80))


def _copy16_one_line(target: int, source: int) -> None:
    data = _memory[source : source + 16].tobytes()
    _memory[target : target + 16] = data.replace(b"\n", b" ").replace(b"\r", b" ")


_REPLACEMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "each_row": {"njit": lambda **_options: _same},
    "memory": {
        "helper": _same,
        "u8": _memory.__getitem__,
        "i8": _load("<b"),
        "u16": _load("<H"),
        "i16": _load("<h"),
        "u32": _load("<I"),
        "i32": _load("<i"),
        "i64": _load("<q"),
        "be16": _load(">H"),
        "be32": _load(">I"),
        "be64": _load(">q"),
        "le24": _little(3),
        "le48": _little(6),
        "put8": _put8,
        "put16": _store(2),
        "put32": _store(4),
        "put64": _put64,
        "copy16": _copy_of(16),
        "copy32": _copy_of(32),
        "xor16": _xor_of(16),
        "xor32": _xor_of(32),
        "umulh": _umulh,
        "popcount": lambda value: (value & _WORD).bit_count(),
        "bswap64": _bswap64,
        "prefetch": lambda _address: None,
        "get": _get,
        "put": _put,
        "move": _copy,
        "copy_exactly": _copy,
        "copy_in": _copy_in,
        "same_bytes": _same_bytes,
    },
    "crc": {"crc32": _crc32},
    "charset": {"_copy16_high": _marks(lambda byte: byte > 0x7F)},
    "number_text": {
        "low_zeros": _low_zeros,
        "divide": _divide,
        "_round_to_odd": _round_to_odd,
    },
    "strings": {"copying16": _copying16, "_copy16_one_line": _copy16_one_line},
}
"""By module, the functions that replace its intrinsics, and its loops over single bytes."""
_TABLES: Final = {"number_text": {"_POWERS": "powers"}, "json_check": {"_TABLE": "_table_address"}}
"""By module, its constant tables, with the intrinsic that gives the address of each."""
