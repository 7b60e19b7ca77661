"""The JSON type: MySQL's is binary (`jsonb`), MariaDB's is text that must be JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import ValueRejected
from tailrace.printable import short_repr
from tailrace.values.family import Declaration, Format, TypeFamily, prefixed, text_json
from tailrace.values.jsonb import JsonText, dump_json, load_json
from tailrace.values.schema import BLOB_TYPES, Logical
from tailrace.values.strings import blob_type, text_dumper, text_loader
from tailrace.values.surrogates import in_json

if TYPE_CHECKING:
    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper, Loader
    from tailrace.values.schema import Column


def _text_loader(column: Column) -> Loader:
    load = text_loader(column)
    return lambda data: JsonText(load(data))


def _text_dumper(column: Column) -> Dumper:
    """MariaDB's JSON is text: a str is kept as it is, objects become JSON."""
    dump = text_dumper(column)
    return lambda value: dump(value if isinstance(value, str) else _text_of(value))


def _text_of(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueRejected(f"{short_repr(value)} cannot be written as JSON: {error}") from None


JSON_SPACE: Final = " \t\n\r"
"""The whitespace that may surround a document."""
_LINE_ENDS: Final = re.compile(r"[\r\n]")


def _no_constant(name: str) -> None:
    raise ValueError(name)


def declared_json(value: str) -> str:
    """A MariaDB document as JSON. It is text from a user and is kept as it is.

    Text that is not valid JSON becomes a string. Line breaks in JSON can only be between values;
    they become spaces, as a record is one line.
    """
    try:
        json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return in_json(text_json(value))
    return in_json(_LINE_ENDS.sub(" ", value))


_MARIADB_COLLATION: Final = 46  # utf8mb4_bin


def _spec(declared: Declared) -> ColumnSpec:
    """MySQL has a type for it; MariaDB's is LONGTEXT."""
    if declared.flavour is Flavour.MYSQL:
        return declared.spec(ColumnType.JSON, 4)
    spec = declared.text(blob_type(declared), 4)
    known = declared.column.collation is not None
    return spec if known else replace(spec, collation=_MARIADB_COLLATION)


FAMILY: Final = TypeFamily(
    widths={ColumnType.JSON: prefixed},
    formats={
        ColumnType.JSON: Format.of(
            load_json, dump_json, octets=lambda data: str(load_json(data)).encode()
        ),
        Logical.JSON: Format(_text_loader, _text_dumper, lambda _column: declared_json, bytes),
    },
    names={
        "json": Declaration("json", BLOB_TYPES | {ColumnType.JSON}, _spec, Logical.JSON),
    },
)
