"""Decoded values as the server's SELECT would print them (session time zone UTC).

Values that SELECT gives as bytes are in base64, as `tools.dumps` has them. Floating-point numbers
are told by Python's ``repr``: of FLOAT, SELECT shows six digits only, so `query` asks for DOUBLE.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tools.dumps import quoted

_ZERO_FILL = "zerofill"
_SIZE = re.compile(r"\((\d+)")


@dataclass(frozen=True)
class Declared:
    """A column as information_schema tells it: its COLUMN_TYPE, and whether SELECT gives bytes."""

    name: str
    type: str
    binary: bool

    @property
    def base(self) -> str:
        """The type's name."""
        return re.split(r"[ (]", self.type, maxsplit=1)[0].lower()

    @property
    def size(self) -> int:
        """The first number in brackets, or 0."""
        match = _SIZE.search(self.type)
        return int(match[1]) if match else 0


def expression(name: str, column_type: str) -> str:
    """What to select so that nothing of the column's values is lost in print."""
    if column_type.lower().startswith("float"):
        return f"CAST({quoted(name)} AS DOUBLE)"
    return quoted(name)


def canonical(column: Declared, text: str | None) -> str | None:
    """SELECT's text, in the form that `from_json` and `from_arrow` give."""
    if text is None:
        return None
    if column.base in {"float", "double"}:
        return repr(float(text))
    if _ZERO_FILL in column.type:
        return str(Decimal(text))
    return text


Writer = Callable[[Any], str]


def _lenient(write: Writer) -> Writer:
    """A writer that gives values of another type than the column's, as before an ALTER, plainly.

    Where that is wrong, the texts differ from SELECT's, and the comparison finds it.
    """

    def attempt(value: Any) -> str:
        try:
            return write(value)
        except (AttributeError, TypeError, ValueError, OverflowError):
            return str(value)

    return attempt


def from_json(column: Declared) -> Writer:
    """A writer of the values of ``tailrace log --as json`` (parsed with `parse`)."""
    return _lenient(_from_json(column))


def _from_json(column: Declared) -> Writer:
    match column.base:
        case "float":
            return lambda value: repr(struct.unpack("<f", struct.pack("<f", float(value.text)))[0])
        case "double":
            return lambda value: repr(float(value.text))
        case "year":
            return lambda value: f"{int(value.text):04}"
        case "bit":
            return _bits(column, lambda value: int(value.text))
        case "vector":
            return lambda value: _vector([float(each.text) for each in value])
        case "json":
            return _json_text
        case _:
            return _json_plain(column)


def _json_plain(column: Declared) -> Writer:
    zero_fill = _ZERO_FILL in column.type

    def write(value: Any) -> str:
        text = value.text if isinstance(value, Number) else str(value)
        return str(Decimal(text)) if zero_fill else text

    return write


def _bits(column: Declared, number: Callable[[Any], int]) -> Writer:
    size = (max(column.size, 1) + 7) // 8
    return lambda value: base64.b64encode(number(value).to_bytes(size, "big")).decode()


def _vector(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@dataclass(frozen=True)
class Number:
    """A number of a JSON text, as it stands there."""

    text: str


def parse(line: str) -> Any:
    """A JSON text whose numbers keep their digits and whose inner objects keep their order."""
    return json.loads(line, parse_int=Number, parse_float=Number)


def _json_text(value: Any) -> str:
    """A document as one text, whatever the white space was."""
    return repr(_ordered(value))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _ordered(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    return value


def as_document(column: Declared, text: str | None) -> str | None:
    """SELECT's text as `from_json` has it: JSON whatever its white space."""
    if column.base != "json" or text is None:
        return text
    return _json_text(parse(text))


def from_arrow(column: Declared) -> Writer:
    """A writer of what Arrow's ``to_pylist`` gives."""
    return _lenient(_from_arrow(column))


def _from_arrow(column: Declared) -> Writer:
    match column.base:
        case "float" | "double":
            return repr
        case "year":
            return lambda value: f"{value:04}"
        case "bit":
            return _bits(column, int)
        case "vector":
            return _vector
        case "datetime" | "timestamp":
            return lambda value: _moment(value, column.size)
        case "time":
            return lambda value: _duration(value, column.size)
        case _:
            return _arrow_plain


def _arrow_plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def _moment(value: datetime, digits: int) -> str:
    text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return text[: 20 + digits] if digits else text[:19]


def _duration(value: timedelta, digits: int) -> str:
    total = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    sign, total = ("-", -total) if total < 0 else ("", total)
    seconds, part = divmod(total, 1_000_000)
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{part:06}"[: len(text) + 1 + digits] if digits else text
