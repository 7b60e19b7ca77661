"""INTVAR, RAND, USER_VAR: what the next statement reads from its session (facts sheet 2.1)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event
from tailrace.events.fields import Cursor, text

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext

_UNSIGNED: Final = 1
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


class IntVarEvent(Event, types=(EventType.INTVAR,)):
    """INTVAR (5): the statement's LAST_INSERT_ID() or its first auto-increment value."""

    __slots__ = ("kind", "value")

    FIELDS = ("kind", "value")

    kind: IntVarKind
    value: int

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: kind u8, value u64."""
        cursor = Cursor(self.body)
        cursor.skip(context.extra_post_header(EventType.INTVAR), "the post-header")
        kind = cursor.u8("the kind")
        if kind > IntVarKind.INSERT_ID:
            raise EventDecodeError(f"kind {kind} of an integer variable is not known")
        self.kind = IntVarKind(kind)
        self.value = cursor.u64("the value")
        cursor.finish("INTVAR")


class RandEvent(Event, types=(EventType.RAND,)):
    """RAND (13): the seeds of the statement's RAND()."""

    __slots__ = ("seed1", "seed2")

    FIELDS = ("seed1", "seed2")

    seed1: int
    seed2: int

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: two seeds u64."""
        cursor = Cursor(self.body)
        cursor.skip(context.extra_post_header(EventType.RAND), "the post-header")
        self.seed1 = cursor.u64("the first seed")
        self.seed2 = cursor.u64("the second seed")
        cursor.finish("RAND")


class UserVarEvent(Event, types=(EventType.USER_VAR,)):
    """USER_VAR (14): a user variable's value.

    ``value_type`` and ``collation`` are None for NULL; ``raw_value`` holds the value's bytes.
    """

    __slots__ = ("collation", "raw_value", "unsigned", "value_type", "variable")

    FIELDS = ("variable", "value", "value_type", "collation", "unsigned")

    variable: str
    value_type: UserVarType | None
    collation: int | None
    raw_value: bytes | None
    unsigned: bool

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: name, is null u8; else type u8, collation u32, value, [flags u8]."""
        cursor = Cursor(self.body)
        cursor.skip(context.extra_post_header(EventType.USER_VAR), "the post-header")
        length = cursor.u32("the name's length")
        self.variable = text(cursor.take(length, "the name"), "the variable's name")
        self.value_type = self.collation = self.raw_value = None
        self.unsigned = False
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
            if cursor.remaining:
                self.unsigned = bool(cursor.u8("the flags") & _UNSIGNED)
        cursor.finish("USER_VAR")

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
