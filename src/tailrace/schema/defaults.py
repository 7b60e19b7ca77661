"""What an added column has in the rows that a table has: the value of its DEFAULT, or the server's.

The log has no rows for it. What is not sure to be the server's value is rejected (`SchemaError`).
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import SchemaError
from tailrace.schema.columns import BLOBS, TEXTUAL
from tailrace.schema.tokens import Kind, TokenCursor
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.schema.tokens import SqlToken
    from tailrace.values.schema import ColumnDefinition

INTEGERS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_EMPTY: Final = {"date": "0000-00-00", "datetime": "0000-00-00 00:00:00", "time": "00:00:00"}
_PATTERNS: Final = {
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "datetime": re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?"),
    "time": re.compile(r"-?\d{2,3}:\d\d:\d\d(?:\.\d{1,6})?"),
}
_OFFSET: Final = re.compile(r"([+-])(\d\d):(\d\d)")
_EXACT: Final = Context(prec=100)
_DECLARED: Final = re.compile(r"(\w+)(?:\((.*)\))?((?: unsigned| compressed)*)", re.DOTALL)
_MEMBER: Final = re.compile(r"'((?:[^'\\]|'')*)'(?:,|\Z)")


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A column's type by its parts; ``members`` of an ENUM or SET are None if they are unknown."""

    declared: str
    base: str
    numbers: tuple[int, ...] = ()
    members: tuple[str, ...] | None = None
    unsigned: bool = False

    @classmethod
    def of(cls, declared: str) -> DeclaredType:
        """The type that is declared so (``decimal(10,2) unsigned``)."""
        found = _DECLARED.fullmatch(declared)
        if found is None:
            return cls(declared, declared)
        base, inside, rest = found[1], found[2] or "", found[3]
        unsigned = " unsigned" in rest
        if base in {"enum", "set"}:
            members = tuple(each.replace("''", "'") for each in _MEMBER.findall(inside))
            same = ",".join("'" + each.replace("'", "''") + "'" for each in members) == inside
            return cls(declared, base, (), members if same and members else None)
        numbers = tuple(map(int, re.findall(r"\d+", inside)))
        return cls(declared, base, () if base in INTEGERS else numbers, None, unsigned)

    @property
    def size(self) -> int:
        """Characters, bytes or digits of a fraction; 0 if none are given."""
        return self.numbers[0] if self.numbers else 0

    @property
    def scale(self) -> int:
        """Digits of a DECIMAL after its point."""
        return self.numbers[1] if len(self.numbers) > 1 else 0


@dataclass(frozen=True, slots=True)
class Session:
    """What a statement's defaults depend on: its start in microseconds UTC, its time zone where the
    log has it, and ``explicit_defaults_for_timestamp`` (None: unknown).
    """

    micros: int
    time_zone: str | None = None
    explicit_timestamps: bool | None = None

    def now(self, kind: DeclaredType, tokens: Sequence[SqlToken]) -> str:
        """The time of the statement, in a column that has it as its default."""
        given = [token.value for token in tokens[2:3] if tokens[1].key == "("]
        if (given[0] if given and given[0] != ")" else "0") != str(kind.size):
            raise SchemaError("is a time with other digits than the column")
        if kind.base not in {"timestamp", "datetime"}:
            raise SchemaError(f"is a time, which becomes a {kind.declared}")
        zone = dt.timedelta()
        if kind.base == "datetime":
            offset = _OFFSET.fullmatch(
                "+00:00" if self.time_zone == "UTC" else self.time_zone or ""
            )
            if offset is None:
                zone_name = self.time_zone or "of the source"
                raise SchemaError(f"is a time in the time zone {zone_name}")
            zone = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
            zone = -zone if offset[1] == "-" else zone
        seconds, fraction = divmod(self.micros, 1_000_000)
        local = dt.datetime.fromtimestamp(seconds, dt.UTC) + zone
        whole = local.strftime("%Y-%m-%d %H:%M:%S")
        return whole + (f".{fraction:06}"[: kind.size + 1] if kind.size else "")


def added_value(new: ColumnDefinition, tokens: Sequence[SqlToken], session: Session) -> Any:
    """What a column has in a table's rows when it is added; ``tokens`` are its definition.

    Raises SchemaError where that is not known, with the end of a sentence about its default.
    """
    kind = DeclaredType.of(new.declared)
    try:
        default = _default_of(tokens)
        if default is not None:
            return session.now(kind, default) if _is_now(default) else _literal(default, kind, new)
        depends = kind.base == "timestamp" and not _says_null(tokens)
        if depends and session.explicit_timestamps is not True:
            raise SchemaError("depends on explicit_defaults_for_timestamp")
        return None if new.nullable else implicit_value(kind)
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise SchemaError(f"is not understood: {error}") from None


def _says_null(tokens: Sequence[SqlToken]) -> bool:
    """Whether NULL or NOT NULL is among a column's attributes."""
    return any(token.key == "NULL" for token in tokens)


def _default_of(tokens: Sequence[SqlToken]) -> list[SqlToken] | None:
    """The tokens after DEFAULT, None if it has none or NULL."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if token.key == "DEFAULT" and not depth:
            found = list(tokens[at + 1 :])
            if (number := _constant(found)) is not None:
                told = token._replace(kind=Kind.NUMBER, value=str(abs(number)), key="")
                return [token._replace(key="-"), told] if number < 0 else [told]
            inside = 0
            while found and found[0].key == "(":
                found = found[1:]
                inside += 1
            end = 2 if found and found[0].key in {"+", "-"} else 1
            if any(each.key != ")" for each in found[end : end + inside]):
                raise SchemaError("is an expression")
            return None if found and found[0].key == "NULL" else found
    return None


def _constant(tokens: Sequence[SqlToken]) -> int | None:
    """The value of an expression in parentheses, of integers that are added and multiplied.

    None if it is anything else, or larger than what the servers compute it with.
    """
    if not tokens or tokens[0].key != "(":
        return None
    place = 0

    def operand() -> int:
        nonlocal place
        token = tokens[place]
        place += 1
        if token.key == "-":
            return -operand()
        if token.key == "(":
            value = total()
            place += 1
            if tokens[place - 1].key != ")":
                raise ValueError
            return value
        if token.kind is not Kind.NUMBER or len(token.value) > _SAFE_DIGITS:
            raise ValueError
        return int(token.value)

    def product() -> int:
        nonlocal place
        value = operand()
        while tokens[place].key == "*":
            place += 1
            value *= operand()
        return value

    def total() -> int:
        nonlocal place
        value = product()
        while tokens[place].key in {"+", "-"}:
            sign = -1 if tokens[place].key == "-" else 1
            place += 1
            value += sign * product()
        return value

    try:
        value = operand()
    except (ValueError, IndexError, RecursionError):
        return None
    return value if abs(value) < 1 << 62 else None


_SAFE_DIGITS: Final = 9


def _is_now(tokens: Sequence[SqlToken]) -> bool:
    return bool(tokens) and tokens[0].key in {
        "CURRENT_TIMESTAMP",
        "NOW",
        "LOCALTIME",
        "LOCALTIMESTAMP",
    }


def _literal(tokens: list[SqlToken], kind: DeclaredType, column: ColumnDefinition) -> Any:
    """The value of a literal default as a row of the log has it."""
    end = [tokens[-1]._replace(kind=Kind.END, value="", key="")] if tokens else []
    cursor = TokenCursor([*tokens, *end])
    sign = "-" if cursor.accept("-") else ""
    cursor.accept("+")
    token = cursor.token
    if token.kind is Kind.NUMBER:
        return _number(Decimal(sign + token.value), sign + token.value, kind)
    if token.key in {"TRUE", "FALSE"}:
        number = int(token.key == "TRUE")
        return _number(Decimal(number), str(number), kind)
    if token.kind is Kind.BYTES and kind.base in {*INTEGERS, "bit", "year"}:
        return _number(Decimal(_of_bytes(token.value)), token.value, kind)
    if token.kind is Kind.STRING:
        return _string(cursor.text(), kind, column)
    raise SchemaError(f"is no literal: {token.value!r}")


def _of_bytes(text: str) -> int:
    digits = text[2:].rstrip("'")
    return int(digits or "0", 2 if text[0] in "bB" or text[:2].lower() == "0b" else 16)


def _number(number: Decimal, text: str, kind: DeclaredType) -> Any:
    base = kind.base
    if "e" in text.lower() and base not in {"double", "float"} and number != int(number):
        raise SchemaError(f"is {text}, which is rounded to a {base}")
    if base == "year" and not (number == 0 or 1901 <= number <= 2155):
        raise SchemaError(f"is {text}, which becomes a year")
    if base in {"double", "float"} and kind.numbers and number != 0:
        raise SchemaError(f"is {text}, which becomes a {kind.declared}")
    if base in INTEGERS or base in {"bit", "year"}:
        return int(number.quantize(Decimal(1), ROUND_HALF_UP, _EXACT))
    if base == "decimal":
        return number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _EXACT)
    if base == "double":
        return float(number)
    if base == "float":
        return struct.unpack("<f", struct.pack("<f", float(number)))[0]
    if base in TEXTUAL and re.fullmatch(r"-?(?:0|[1-9]\d*)", text):
        return text
    raise SchemaError(f"is {text}, which becomes a {base}")


def _string(text: str, kind: DeclaredType, column: ColumnDefinition) -> Any:
    base = kind.base
    if base in {*INTEGERS, "bit", "year", "decimal", "double", "float"}:
        if (
            not re.fullmatch(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", text)
            or base == "bit"
            or (base == "year" and len(text) != 4)
        ):
            raise SchemaError(f"is {text!r}, which becomes a {base}")
        return _number(Decimal(text), text, kind)
    if column.logical is Logical.JSON or base in TEXTUAL:
        return text.rstrip(" ") if base == "char" else text
    if base in {"enum", "set"} and kind.members is not None:
        wanted = [text] if base == "enum" else [each for each in text.split(",") if each]
        if all(each in kind.members for each in wanted):
            return ",".join(sorted(wanted, key=kind.members.index))
    if base in {"binary", "varbinary", *BLOBS} and text.isascii():
        return text.encode().ljust(kind.size if base == "binary" else 0, b"\0")
    pattern = _PATTERNS.get(base)
    if pattern is not None and pattern.fullmatch(text):
        if base == "date":
            return text
        whole, _, fraction = text.partition(".")
        if base == "datetime" and " " not in whole:
            whole += " 00:00:00"
        if len(fraction) <= kind.size:
            return whole + (f".{fraction:0<{kind.size}}" if kind.size else "")
    raise SchemaError(f"is {text!r}, which becomes a {kind.declared}")


def value_of_null(kind: DeclaredType) -> Any:
    """What NULL becomes when ALTER TABLE forbids it: of an ENUM, the error value."""
    return "" if kind.base == "enum" else implicit_value(kind)


def implicit_value(kind: DeclaredType) -> Any:
    """The value of a column that has no default and cannot be NULL."""
    base = kind.base
    if base in INTEGERS or base in {"bit", "year", "decimal", "double", "float"}:
        return _number(Decimal(0), "0", kind)
    if base in TEXTUAL or base == "set":
        return ""
    if base == "enum" and kind.members:
        return kind.members[0]
    if base in {"varbinary", *BLOBS}:
        return b""
    if base == "binary":
        return bytes(kind.size)
    if base in _EMPTY:
        return _EMPTY[base] + (f".{'0' * kind.size}" if kind.size and base != "date" else "")
    raise SchemaError(f"is that of {kind.declared} without DEFAULT")
