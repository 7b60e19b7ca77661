"""The list of exact conversions: what ALTER TABLE makes of a column's values, where that is known.

A log has no rows for it, so whoever keeps a table's rows (a lake, an index, another database)
computes the new values. That is right for the conversions of this list only, which
``tools/campaign/alters.py`` compares with all servers, value by value. Any other conversion is not
known: `conversion` returns None for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Final

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import SchemaError
from tailrace.values.charsets import BINARY, holds, longest_character
from tailrace.values.resolve import declared_column
from tailrace.values.schema import BLOB_TYPES, STRING_TYPES, Column, Logical
from tailrace.values.sql_type import sql_type

if TYPE_CHECKING:
    from tailrace.values.schema import ColumnDefinition

_T = ColumnType
_STRICT: Final = 1 << 21 | 1 << 22
"""``STRICT_TRANS_TABLES`` and ``STRICT_ALL_TABLES``: a value that does not fit is an error."""
_NO_ZEROS: Final = 1 << 23 | 1 << 24
"""``NO_ZERO_IN_DATE`` and ``NO_ZERO_DATE``."""
_PADS: Final = 1 << 31
"""``PAD_CHAR_TO_FULL_LENGTH``: a CHAR has its spaces at the end."""
_TRUNCATES: Final = 1 << 32
"""MySQL's mode ``TIME_TRUNCATE_FRACTIONAL``."""
_ROUNDS: Final = 1 << 34
"""MariaDB's mode ``TIME_ROUND_FRACTIONAL``."""


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of a statement that matter to what it makes of values."""

    strict: bool = False
    pads: bool = False
    rounds: bool = True
    zeros: bool = False
    """Zero dates are allowed."""

    @classmethod
    def of(cls, sql_mode: int, flavour: Flavour, *, ignores: bool = False) -> Modes:
        """The modes of a session; a statement that ``ignores`` errors (ALTER IGNORE) is lenient."""
        mysql = flavour is Flavour.MYSQL
        return cls(
            bool(sql_mode & _STRICT) and not ignores,
            bool(sql_mode & _PADS),
            not sql_mode & _TRUNCATES if mysql else bool(sql_mode & _ROUNDS),
            not sql_mode & _NO_ZEROS,
        )


class How(Enum):
    """How the new value is made of the old one."""

    SAME = auto()
    """It is the old one."""
    NUMBER = auto()
    """The same number, in another type of numbers: between ``least`` and ``most``."""
    REAL = auto()
    """A floating-point number, rounded to ``digits``."""
    DIGITS = auto()
    """The number as text."""
    TEXT = auto()
    """The same text; a CHAR loses the spaces at its end."""
    BYTES = auto()
    """The same bytes; a BINARY gets zeros at its end."""
    MEMBER = auto()
    """The member, or the members, of the same names."""
    FRACTION = auto()
    """A moment or a time with other digits after its seconds, or the midnight of a DATE."""


class Sure(IntEnum):
    """For which values an entry of the list holds."""

    FITTING = 0
    """For those that fit: others become values that are not known, or fail."""
    STRICT = 1
    """The same, and in a strict ``sql_mode`` the statement fails for others."""
    ALWAYS = 2
    """For all values of the old type."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What is known of a conversion. ``width`` is the most characters, bytes or digits.

    ``ascii_only``: of texts those that are ASCII.
    """

    how: How
    sure: Sure
    old: Column
    new: Column
    modes: Modes
    width: int | None = None
    ascii_only: bool = False
    digits: tuple[int, int] | None = None

    @property
    def keeps(self) -> bool:
        """Whether all values stay as they are."""
        return self.how is How.SAME


@dataclass(frozen=True, slots=True)
class Redeclared:
    """A column as an ALTER TABLE declares it; None if that is not known.

    ``digits`` are those of ``DOUBLE(m,d)``, which the log has not. ``was_nullable`` and
    ``nullable`` say whether a NULL may have become a value.
    """

    column: Column | None
    modes: Modes
    digits: tuple[int, int] | None = None
    was_nullable: bool = True
    nullable: bool = True

    @property
    def checks_nulls(self) -> bool:
        """Whether a NULL would have become a value, or an error."""
        return self.was_nullable and not self.nullable

    @property
    def declared(self) -> str:
        """The type as SQL."""
        if self.column is None:
            return "another type"
        base = sql_type(self.column)
        return f"{base}({self.digits[0]},{self.digits[1]})" if self.digits else base


def redeclared(
    new: ColumnDefinition, flavour: Flavour, modes: Modes, old: ColumnDefinition | None = None
) -> Redeclared:
    """The column that a statement defines; ``old`` is the one before, if it is known.

    Raises `SchemaError` for a type that the flavour does not have.
    """
    column = replace(declared_column(new, flavour), collation=new.collation)
    if column.collation is None and column.logical is Logical.BINARY:
        column = replace(column, collation=BINARY)
    found = re.fullmatch(r"(?:float|double)\((\d+),(\d+)\).*", new.declared)
    digits = (int(found[1]), int(found[2])) if found else None
    was = old is None or old.nullable
    return Redeclared(column, modes, digits, was, new.nullable)


def shows_same(
    old: ColumnDefinition, new: ColumnDefinition, flavour: Flavour, modes: Modes
) -> bool:
    """Whether all values of a column look the same in its new type."""
    if replace(old, name=new.name, visible=new.visible) == new:
        return True
    try:
        to = redeclared(new, flavour, modes, old)
        was = redeclared(old, flavour, modes).column
    except SchemaError:
        return False
    found = None if was is None else conversion(was, to)
    if found is None or to.checks_nulls or old.generated or new.generated:
        return False
    whole = all(each.type in _INTEGERS for each in (found.old, found.new))
    return found.keeps or (whole and found.sure is Sure.ALWAYS)


def may_be_narrower(to: Redeclared) -> bool:
    """Whether values may be rounded or cut, without an error, whatever the column was before."""
    new = to.column
    if new is None:
        return False
    family = _family(new)
    if family in {"time", "datetime", "timestamp"}:
        return new.metadata < _MOST_FRACTION
    if family in {"text", "bytes"}:
        return new.type not in BLOB_TYPES and not to.modes.strict
    return to.digits is not None or (family == "bit" and not to.modes.strict)


_MOST_FRACTION: Final = 6


def conversion(old: Column, to: Redeclared) -> Conversion | None:
    """The entry of the list for a column's values in another type; None if there is none."""
    new = to.column
    if new is None:
        return None
    found = Conversion(How.SAME, Sure.ALWAYS, old, new, to.modes, digits=to.digits)
    one, two = _family(old), _family(new)
    if _is_same(old, new, one, two) and not (one == "real" and to.digits):
        return found
    rule = _RULES.get((one, two))
    return None if rule is None else rule(found)


# --- families ------------------------------------------------------------------------------------

_INTEGERS: Final = {_T.TINY: 8, _T.SHORT: 16, _T.INT24: 24, _T.LONG: 32, _T.LONGLONG: 64}
_FAMILIES: Final = {
    **dict.fromkeys(_INTEGERS, "integer"),
    _T.NEWDECIMAL: "decimal",
    **dict.fromkeys((_T.FLOAT, _T.DOUBLE), "real"),
    **dict.fromkeys((_T.DATE, _T.NEWDATE), "date"),
    **dict.fromkeys((_T.TIME, _T.TIME2), "time"),
    **dict.fromkeys((_T.DATETIME, _T.DATETIME2), "datetime"),
    **dict.fromkeys((_T.TIMESTAMP, _T.TIMESTAMP2), "timestamp"),
    **{each: each.name.lower() for each in (_T.ENUM, _T.SET, _T.YEAR, _T.BIT, _T.JSON)},
}
_LIMITS: Final = {1: 255, 2: 65535, 3: 16777215, 4: 4294967295}
"""The most bytes of a TEXT or BLOB, by the bytes of its length."""
_WIDE: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_UTF8: Final = frozenset({"utf8mb3", "utf8mb4", "utf8"})
_MOST_DIGITS: Final = 38
"""A lake has decimals of more digits as texts."""


def _family(column: Column) -> str:
    if column.type not in STRING_TYPES:
        return _FAMILIES.get(column.type, column.type.name)
    if column.logical in {Logical.TEXT, Logical.JSON}:
        return "text"
    return "bytes" if column.logical is Logical.BINARY else column.logical.value


def _charset(column: Column) -> str | None:
    return None if column.collation is None else column.charset


def _is_same(old: Column, new: Column, one: str, two: str) -> bool:
    """Whether the two declare the same values."""
    if one != two or old.members != new.members:
        return False
    if one in {"integer", "decimal", "real"} and old.unsigned != new.unsigned:
        return False  # a YEAR has no sign, whatever a log says of it
    if one in {"text", "enum", "set"} and _charset(old) != _charset(new):
        return False
    if one in {"enum", "set"}:
        return old.members is not None
    if one in {"text", "bytes"}:
        shape = (_is_fixed(old), old.type in BLOB_TYPES)
        if shape != (_is_fixed(new), new.type in BLOB_TYPES):
            return False
        return _characters(old) == _characters(new) and old.logical == new.logical
    if one in {"time", "datetime", "timestamp", "date", "year", "json"}:
        return one in {"date", "year", "json"} or old.metadata == new.metadata
    return old.type is new.type and old.metadata == new.metadata


def _is_fixed(column: Column) -> bool:
    """Whether it is a CHAR or BINARY."""
    return column.type is _T.STRING


def _characters(column: Column) -> int:
    """The most characters of a text, or the most bytes of other strings and of a TEXT."""
    if column.type in BLOB_TYPES:
        return _LIMITS.get(column.metadata, _LIMITS[4])
    size = column.metadata - (column.type is _T.VARCHAR_COMPRESSED)
    if column.logical is Logical.BINARY or _family(column) == "bytes":
        return size
    return size // (4 if column.collation is None else longest_character(column.collation))


# --- numbers -------------------------------------------------------------------------------------


def bounds(column: Column) -> tuple[int, int, int]:
    """The least and the greatest number of a column, times ten to the power of the last result."""
    if column.type is _T.NEWDECIMAL:
        most = 10 ** (column.metadata >> 8) - 1
        return (0 if column.unsigned else -most), most, column.metadata & 255
    if column.type is _T.YEAR:
        return 0, 2155, 0
    if column.type is _T.BIT:
        return 0, (1 << column.metadata) - 1, 0
    bits = _INTEGERS[column.type]
    return (0, (1 << bits) - 1, 0) if column.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1, 0)


def _number(found: Conversion) -> Conversion | None:
    """Between integers and decimals: no digit may be lost."""
    if any(
        each.type is _T.NEWDECIMAL and each.metadata >> 8 > _MOST_DIGITS
        for each in (found.old, found.new)
    ):
        return None
    least, most, scale = bounds(found.old)
    low, high, digits = bounds(found.new)
    shift = 10 ** max(digits - scale, 0)
    fits = low <= least * shift and most * shift <= high
    sure = Sure.ALWAYS if fits else Sure.STRICT
    if digits < scale:
        sure = Sure.FITTING  # others are rounded, whatever the mode
    return replace(found, how=How.NUMBER, sure=sure)


def _real(found: Conversion) -> Conversion | None:
    old, new = found.old, found.new
    if found.digits is None and old.type in {_T.FLOAT, new.type} and old.unsigned >= new.unsigned:
        return replace(found, how=How.NUMBER)
    return replace(found, how=How.REAL, sure=Sure.FITTING)


def _whole_real(found: Conversion) -> Conversion | None:
    """An integer as a floating-point number, if that has all of its bits."""
    old, new = found.old, found.new
    holds_all = _INTEGERS[old.type] <= (32 if new.type is _T.DOUBLE else 16)
    signs = old.unsigned or not new.unsigned
    sure = Sure.ALWAYS if holds_all and signs and found.digits is None else Sure.FITTING
    return replace(found, how=How.REAL, sure=sure)


def _digits(found: Conversion) -> Conversion | None:
    """A number as text. That of an unsigned one may have zeros in front (ZEROFILL)."""
    if found.old.unsigned or not _is_text(found.new):
        return None
    if found.old.type is _T.NEWDECIMAL and found.old.metadata >> 8 > _MOST_DIGITS:
        return None
    least, most, scale = bounds(found.old)
    width = max(len(str(most)), scale + 1) + (least < 0) + (scale > 0)
    room = _characters(found.new)
    return replace(
        found, how=How.DIGITS, sure=Sure.ALWAYS if width <= room else Sure.STRICT, width=room
    )


# --- texts and bytes -----------------------------------------------------------------------------


def _is_text(column: Column) -> bool:
    return column.logical is Logical.TEXT


def _holds_all(old: Column, new: Column) -> bool:
    """Whether a character set has all characters of another one."""
    one, two = _charset(old), _charset(new)
    if one is None or two is None:
        return two == "utf8mb4"
    return two in {one, "utf8mb4"} or one == "ascii" or (one == "ucs2" and two in _UTF8)


def _text(found: Conversion) -> Conversion | None:
    """Between texts: as many characters, of a character set that has them."""
    old, new, modes = found.old, found.new, found.modes
    if modes.pads and _is_fixed(old) and not _is_fixed(new):
        return None
    long_, longs = old.type in BLOB_TYPES, new.type in BLOB_TYPES
    characters = _characters(old)
    if long_ and not longs:
        fits = False
    elif longs:
        width = 1 if long_ and _charset(old) == _charset(new) else _longest(new)
        fits = characters * width <= _characters(new)
    else:
        fits = characters <= _characters(new)
    return _as_text(found, fits=fits, holds=_holds_all(old, new))


def _longest(column: Column) -> int:
    return 4 if column.collation is None else longest_character(column.collation)


def _as_text(found: Conversion, *, fits: bool, holds: bool) -> Conversion:
    """The entry for a text that becomes another one.

    In a strict mode it is an error if it does not fit, or if the set lacks a character.
    """
    new = found.new
    strips = _is_fixed(new) and not _is_fixed(found.old)
    if fits and holds and not strips:
        return found
    room = _characters(new) // (_longest(new) if new.type in BLOB_TYPES else 1)
    sure = Sure.ALWAYS if fits and holds else Sure.STRICT
    ascii_only = not holds and not found.modes.strict
    return replace(
        found, how=How.TEXT, sure=sure, width=None if fits else room, ascii_only=ascii_only
    )


def _names(found: Conversion) -> Conversion | None:
    """The names of an ENUM's or SET's members as text."""
    old, new = found.old, found.new
    if old.members is None or not _is_text(new):
        return None
    sizes = [len(each) for each in old.members]
    most = max(sizes) if old.type is _T.ENUM else sum(sizes) + len(sizes) - 1
    width = _longest(new) if new.type in BLOB_TYPES else 1
    fits = most * width <= _characters(new)
    known = _charset(new)
    all_there = known is not None and all(holds(known, c) for each in old.members for c in each)
    return _as_text(found, fits=fits, holds=all_there)


def _bytes(found: Conversion) -> Conversion | None:
    """Between bytes: a BINARY is filled up with zeros."""
    room = _characters(found.new)
    fits = _characters(found.old) <= room
    if fits and not _is_fixed(found.new):
        return found
    sure = Sure.ALWAYS if fits else Sure.STRICT
    return replace(found, how=How.BYTES, sure=sure, width=room)


def _text_and_bytes(found: Conversion) -> Conversion | None:
    """Between texts and bytes: of ASCII, in a character set that has it as it is."""
    for each in (found.old, found.new):
        if each.logical is not Logical.BINARY and (_charset(each) or "ucs2") in _WIDE:
            return None
        if each.logical is Logical.JSON:
            return None
    if found.modes.pads and _is_fixed(found.old):
        return None
    how = How.BYTES if found.new.logical is Logical.BINARY else How.TEXT
    room = _characters(found.new)
    if found.new.type in BLOB_TYPES and how is How.TEXT:
        room //= _longest(found.new)
    return replace(found, how=how, sure=Sure.FITTING, width=room, ascii_only=True)


# --- members, moments ----------------------------------------------------------------------------


def _members(found: Conversion) -> Conversion | None:
    """The server looks each member up by its name, unless new ones only follow the old ones."""
    old, new = found.old, found.new
    if old.members is None or new.members is None:
        return None
    kept = new.members[: len(old.members)] == old.members
    same = _charset(old) == _charset(new) and _charset(old) is not None
    if kept and (same or all(each.isascii() for each in old.members)):
        return found
    stay = kept_members(found)
    gone = [each for each in old.members if each not in stay]
    folded = {each.casefold() for each in new.members}
    fails = all(each and each.isascii() and each.casefold() not in folded for each in gone)
    sure = Sure.FITTING if not fails else Sure.STRICT if gone else Sure.ALWAYS
    return replace(found, how=How.MEMBER, sure=sure)


def kept_members(found: Conversion) -> dict[str, str]:
    """The members of a `How.MEMBER` that stay, by name: no other name may be meant by theirs."""
    old, new = found.old.members or (), found.new.members or ()
    folded = [each.casefold() for each in (*old, *new)]
    sure = {
        each
        for each in old
        if each and each in new and each.isascii() and not each.isdigit()
        if folded.count(each.casefold()) == 2
    }
    return {each: each for each in old if each in sure}


def _fraction(found: Conversion) -> Conversion | None:
    """Digits after the seconds: they are rounded, or cut off."""
    return replace(found, how=How.FRACTION, digits=(found.new.metadata, found.old.metadata))


def _midnight(found: Conversion) -> Conversion | None:
    return replace(found, how=How.FRACTION, digits=(found.new.metadata, 0))


_RULES: Final = {
    **{(one, two): _number for one in ("integer", "decimal") for two in ("integer", "decimal")},
    ("year", "integer"): _number,
    ("bit", "bit"): _number,
    ("real", "real"): _real,
    ("integer", "real"): _whole_real,
    ("integer", "text"): _digits,
    ("decimal", "text"): _digits,
    ("text", "text"): _text,
    ("enum", "text"): _names,
    ("set", "text"): _names,
    ("bytes", "bytes"): _bytes,
    ("text", "bytes"): _text_and_bytes,
    ("bytes", "text"): _text_and_bytes,
    ("enum", "enum"): _members,
    ("set", "set"): _members,
    **{(each, each): _fraction for each in ("time", "datetime", "timestamp")},
    ("date", "datetime"): _midnight,
}
"""The list, by the families of the old and the new type."""
