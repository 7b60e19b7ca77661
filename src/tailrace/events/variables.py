"""INTVAR, RAND, USER_VAR: session values that the next statement reads (facts sheet 2.1)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, EventEncodeError
from tailrace.events.base import Event
from tailrace.events.fields import Builder, Cursor, made, member, statement, text, utf8
from tailrace.events.layout import FIXED_REST, REQUIRED, U64, Member, derived, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

_UNSIGNED: Final = 1
_NO_BYTE: Final = -1  # the usual byte is missing
_BINARY: Final = 63
_F64: Final = Struct("<d")


class IntVarKind(IntEnum):
    """Which variable an INTVAR sets."""

    INVALID = 0
    LAST_INSERT_ID = 1
    INSERT_ID = 2


class UserVarType(IntEnum):
    """A user variable's type (the server's Item_result)."""

    STRING = 0
    REAL = 1
    INT = 2
    ROW = 3
    DECIMAL = 4


def _type_of(value: Any) -> UserVarType:
    for python, kind in ((int, UserVarType.INT), (float, UserVarType.REAL)):
        if isinstance(value, python):
            return kind
    return UserVarType.STRING


def _raw_value(value: Any, kind: UserVarType, *, unsigned: bool) -> bytes:
    """A value's bytes. Raises EventEncodeError."""
    out = Builder()
    if kind is UserVarType.INT:
        (out.u64 if unsigned else out.i64)(value, "value")
    elif kind is UserVarType.REAL:
        out.f64(value, "value")
    elif kind is UserVarType.ROW:
        raise EventEncodeError("value_type: no variable holds a ROW")
    else:
        out.raw(statement(value, "value", 0xFFFFFFFF), "value")
    return out.done()


class IntVarEvent(Event, types=(EventType.INTVAR,)):
    """INTVAR (5): the statement's LAST_INSERT_ID() or its first auto-increment value."""

    fixed_rest: bytes = FIXED_REST
    kind: IntVarKind = field(
        Member(IntVarKind, "kind {} of an integer variable is not known"), "the kind"
    )
    value: int = field(U64, "the value")


class RandEvent(Event, types=(EventType.RAND,)):
    """RAND (13): the seeds of the statement's RAND()."""

    fixed_rest: bytes = FIXED_REST
    seed1: int = field(U64, "the first seed")
    seed2: int = field(U64, "the second seed")


class UserVarEvent(Event, types=(EventType.USER_VAR,)):
    """USER_VAR (14): a user variable's value.

    ``value_type`` and ``collation`` are None for NULL; ``raw_value`` holds the value's bytes.
    ``flags_byte`` normally follows only numbers of type INT; it is kept if it differs (else None).
    For `make`, ``value_type`` follows from the value's Python type, except for DECIMAL.
    """

    FIELDS = ("variable", "value", "value_type", "collation", "unsigned")
    MADE_OF: ClassVar[Mapping[str, Any]] = {"value": REQUIRED}

    fixed_rest: bytes = FIXED_REST
    variable: str = field()
    value_type: UserVarType | None = field(default=None)
    collation: int | None = field(default=None)
    raw_value: bytes | None = derived()
    unsigned: bool = field(default=False)
    flags_byte: int | None = field(default=None)

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: name, is null u8; else type u8, collation u32, value, [flags u8]."""
        cursor = Cursor(self.body)
        FIXED_REST.read(self, cursor)
        length = cursor.u32("the name's length")
        self.variable = text(cursor.take(length, "the name"), "the variable's name")
        self.value_type = self.collation = self.raw_value = None
        self.unsigned = False
        self.flags_byte = None
        if not cursor.u8("the null mark"):
            kind = cursor.u8("the type")
            if kind > UserVarType.DECIMAL or kind == UserVarType.ROW:
                raise EventDecodeError(f"type {kind} of a user variable is not known")
            self.value_type = UserVarType(kind)
            self.collation = cursor.u32("the collation")
            length = cursor.u32("the value's length")
            self.raw_value = cursor.take(length, "the value")
            if kind in {UserVarType.INT, UserVarType.REAL} and length != 8:
                raise EventDecodeError(f"{length} bytes for a number of 8")
            flags = cursor.u8("the flags") if cursor.remaining else None
            self.unsigned = bool((flags or 0) & _UNSIGNED)
            if flags != (self.unsigned if kind == UserVarType.INT else None):
                self.flags_byte = _NO_BYTE if flags is None else flags
        cursor.finish("USER_VAR")

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """All fields; another value has its own type and sign."""
        fields = super().carried(changes)
        if "value" in changes:
            for name in ("value_type", "unsigned", "flags_byte"):
                fields.pop(name, None)
            if changes["value"] is None or self.value is None:
                fields.pop("collation", None)
        return fields

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        variable = utf8(self.variable, "variable")
        value, kind, unsigned = self.value, self.value_type, made(self.unsigned, bool, "unsigned")
        out = Builder()
        FIXED_REST.write(self, out)
        out.u32(len(variable), "variable")
        out.raw(variable, "variable")
        out.u8(value is None, "value")
        if value is None:
            for each in ("value_type", "collation", "flags_byte", "unsigned"):
                if getattr(self, each) is not None and getattr(self, each) is not False:
                    raise EventEncodeError(f"{each}: NULL has none")
            return out.done()
        kind = _type_of(value) if kind is None else member(UserVarType, kind, "value_type")
        raw = _raw_value(value, kind, unsigned=unsigned)
        out.u8(kind, "value_type")
        out.u32(_BINARY if self.collation is None else self.collation, "collation")
        out.u32(len(raw), "value")
        out.raw(raw, "value")
        if self.flags_byte is None:
            if kind is UserVarType.INT:
                out.u8(unsigned, "unsigned")
            elif unsigned:
                raise EventEncodeError("unsigned: only an INT is")
        elif self.flags_byte != _NO_BYTE:
            out.u8(self.flags_byte, "flags_byte")
        return out.done()

    @property
    def is_null(self) -> bool:
        """Whether the value is NULL."""
        return self.raw_value is None

    @property
    def value(self) -> int | float | bytes | None:
        """The value: a number, a string's bytes, or a decimal's packed bytes (precision, scale,
        digits); None for NULL.
        """
        raw = self.raw_value
        if raw is None:
            return None
        if self.value_type is UserVarType.INT:
            return int.from_bytes(raw, "little", signed=not self.unsigned)
        if self.value_type is UserVarType.REAL:
            number: float = _F64.unpack(raw)[0]
            return number
        return raw
