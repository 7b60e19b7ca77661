"""Checks whether a text is JSON, like Python's parser: what RFC 8259 allows and no more.

The grammar is an automaton: the step for a byte's class in a state is one byte of a table.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tailrace.columns.frames.text import DEPTH
from tailrace.columns.kernels.memory import helper, put8, u8


class _S(IntEnum):
    """The state before the next byte."""

    REFUSED = 0
    END = auto()
    """A whole value."""
    VALUE = auto()
    """A value must follow; FIRST: or the array's end."""
    FIRST = auto()
    KEY = auto()
    """A key must follow; FIRST_KEY: or the object's end."""
    FIRST_KEY = auto()
    IN_KEY = auto()
    COLON = auto()
    STRING = auto()
    MINUS = auto()
    ZERO = auto()
    WHOLE = auto()
    POINT = auto()
    FRACTION = auto()
    E = auto()
    SIGN = auto()
    EXPONENT = auto()
    # After a backslash and inside of \u, in strings; in keys the same states, KEY_ESCAPE higher.
    ESCAPE = auto()
    U1 = auto()
    U2 = auto()
    U3 = auto()
    U4 = auto()
    KEY_ESCAPE = auto()
    KEY_U1 = auto()
    KEY_U2 = auto()
    KEY_U3 = auto()
    KEY_U4 = auto()
    # The letters of null, true and false that must still follow.
    ULL = auto()
    LL = auto()
    L = auto()
    RUE = auto()
    UE = auto()
    ALSE = auto()
    LSE = auto()
    SE = auto()
    LAST_E = auto()
    # Not states but other actions.
    OPEN_OBJECT = 64
    OPEN_ARRAY = auto()
    CLOSE_OBJECT = auto()
    CLOSE_ARRAY = auto()
    COMMA = auto()


_CLASSES: Final = [
    *(bytes([byte]) for byte in b'{}[],:"\\/-+.0abeEflnrstu '),
    b"\t\n\r",
    b"123456789",
    b"cdABCDF",
]
_OTHER: Final = len(_CLASSES)
"""A byte that is allowed only in strings."""
_CONTROL: Final = _OTHER + 1
_WIDTH: Final = 32
"""Entries of one state in the table: one for each class."""
_MOST_DIGITS: Final = 4300
"""The longest whole number that Python converts by default."""


def _class_of(byte: int) -> int:
    for number, members in enumerate(_CLASSES):
        if byte in members:
            return number
    return _CONTROL if byte < 0x20 else _OTHER


def _table() -> bytes:
    """First the class of each byte, then for each state its step for each class."""
    moves = [[_S.REFUSED] * _WIDTH for _ in range(_S.OPEN_OBJECT)]

    def on(states: list[_S], members: bytes, then: _S) -> None:
        for state in states:
            for byte in members:
                moves[state][_class_of(byte)] = then

    ends = [_S.END, _S.ZERO, _S.WHOLE, _S.FRACTION, _S.EXPONENT]
    values = [_S.VALUE, _S.FIRST]
    for state in (*values, _S.KEY, _S.FIRST_KEY, _S.COLON):
        on([state], b" \t\n\r", state)
    on(ends, b" \t\n\r", _S.END)
    on(ends, b",", _S.COMMA)
    on([*ends, _S.FIRST], b"]", _S.CLOSE_ARRAY)
    on([*ends, _S.FIRST_KEY], b"}", _S.CLOSE_OBJECT)
    on(values, b"{", _S.OPEN_OBJECT)
    on(values, b"[", _S.OPEN_ARRAY)
    on([_S.KEY, _S.FIRST_KEY], b'"', _S.IN_KEY)
    on([_S.COLON], b":", _S.VALUE)
    on(values, b'"', _S.STRING)
    for inside, escape, behind in (
        (_S.STRING, _S.ESCAPE, _S.END),
        (_S.IN_KEY, _S.KEY_ESCAPE, _S.COLON),
    ):
        moves[inside][:_CONTROL] = [inside] * _CONTROL
        on([inside], b"\t\n\r", _S.REFUSED)
        on([inside], b'"', behind)
        on([inside], b"\\", escape)
        on([escape], b'"\\/bfnrt', inside)
        on([escape], b"u", _S(escape + 1))
        for step in range(1, 5):
            then = inside if step == 4 else _S(escape + step + 1)
            on([_S(escape + step)], b"0123456789abcdefABCDEF", then)
    on(values, b"-", _S.MINUS)
    on([*values, _S.MINUS], b"0", _S.ZERO)
    on([*values, _S.MINUS, _S.WHOLE], b"123456789", _S.WHOLE)
    on([_S.WHOLE], b"0", _S.WHOLE)
    on([_S.ZERO, _S.WHOLE], b".", _S.POINT)
    on([_S.POINT, _S.FRACTION], b"0123456789", _S.FRACTION)
    on([_S.ZERO, _S.WHOLE, _S.FRACTION], b"eE", _S.E)
    on([_S.E], b"+-", _S.SIGN)
    on([_S.E, _S.SIGN, _S.EXPONENT], b"0123456789", _S.EXPONENT)
    words = (
        (b"null", (_S.ULL, _S.LL, _S.L)),
        (b"true", (_S.RUE, _S.UE, _S.LAST_E)),
        (b"false", (_S.ALSE, _S.LSE, _S.SE, _S.LAST_E)),
    )
    for word, states in words:
        on(values, word[:1], states[0])
        for state, byte, then in zip(states, word[1:], (*states[1:], _S.END), strict=True):
            on([state], bytes([byte]), then)
    return bytes(map(_class_of, range(256))) + bytes(move for row in moves for move in row)


_TABLE: Final = _table()


@intrinsic
def _table_address(typingctx: Any) -> Any:
    """The address of the table, which is part of the machine code."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.ArrayType(ir.IntType(8), len(_TABLE))
        table = ir.GlobalVariable(builder.module, kind, "tailrace.json.grammar")
        table.linkage = "internal"
        table.global_constant = True
        table.initializer = ir.Constant(kind, bytearray(_TABLE))
        return builder.ptrtoint(table, ir.IntType(64))

    return types.int64(), codegen


_VALUE = int(_S.VALUE)
_KEY = int(_S.KEY)
_END = int(_S.END)
_FIRST = int(_S.FIRST)
_FIRST_KEY = int(_S.FIRST_KEY)
_WHOLE = int(_S.WHOLE)
_POINT = int(_S.POINT)
_E = int(_S.E)
_OPEN_OBJECT = int(_S.OPEN_OBJECT)
_OPEN_ARRAY = int(_S.OPEN_ARRAY)
_CLOSE_OBJECT = int(_S.CLOSE_OBJECT)
_CLOSE_ARRAY = int(_S.CLOSE_ARRAY)


@helper
def is_json(p: int, stop: int, levels: int) -> int:
    """1 for JSON of at most DEPTH levels; ``levels`` is the address of DEPTH bytes."""
    table = _table_address()
    state = _VALUE
    depth = 0
    digits = 0
    while p <= stop:
        # a blank after the last byte ends a number
        move = u8(table + 256 + _WIDTH * state + u8(table + (u8(p) if p < stop else 0x20)))
        p += 1
        if state == _WHOLE and digits > _MOST_DIGITS and move not in (_WHOLE, _POINT, _E):
            return 0
        digits = digits + 1 if move == _WHOLE else 0
        if move < _OPEN_OBJECT:
            if move == 0:
                return 0
            state = move
        elif move <= _OPEN_ARRAY:
            if depth == DEPTH:
                return 0
            put8(levels + depth, move)
            depth += 1
            state = _FIRST_KEY if move == _OPEN_OBJECT else _FIRST
        else:
            inside = u8(levels + depth - 1) if depth else 0
            if move <= _CLOSE_ARRAY:
                if move - _CLOSE_OBJECT + _OPEN_OBJECT != inside:
                    return 0
                depth -= 1
                state = _END
            elif inside:
                state = _KEY if inside == _OPEN_OBJECT else _VALUE
            else:
                return 0
    return depth == 0 and state == _END
