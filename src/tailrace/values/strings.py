"""CHAR, VARCHAR, BINARY, TEXT and BLOB. Facts sheet section 3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import ValueRejected
from tailrace.printable import short_repr
from tailrace.values.charsets import BINARY, decoder, encoder, longest_character
from tailrace.values.family import (
    MOST_BYTES,
    Declaration,
    Format,
    TypeFamily,
    Width,
    base64_json,
    given_bytes,
    given_text,
    named,
    prefixed,
    text_json,
)
from tailrace.values.network import padded
from tailrace.values.schema import BLOB_TYPES, Logical

if TYPE_CHECKING:
    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper, Loader
    from tailrace.values.schema import Column

_T = ColumnType


def text_loader(column: Column) -> Loader:
    """Text of the column's character set; CHAR is without trailing spaces, as in ``SELECT``."""
    return decoder(column.charset)


def _load_bytes(data: bytes) -> bytes:
    return data


def _binary_loader(column: Column) -> Loader:
    """VARBINARY and BLOB as they are; BINARY with the trailing zeros that the log leaves out."""
    if column.type is not _T.STRING:
        return _load_bytes
    size = column.metadata
    return lambda data: padded(data, size)


def _longest(column: Column) -> int | None:
    """The most characters that a CHAR or VARCHAR holds; None if unknown, and for TEXT."""
    if column.type in BLOB_TYPES or column.collation is None or column.collation == BINARY:
        return None
    most = column.metadata - (column.type is _T.VARCHAR_COMPRESSED)
    return most // longest_character(column.collation)


def text_dumper(column: Column) -> Dumper:
    """A str that the column holds; CHAR's trailing spaces are not logged."""
    encode, longest, trims = encoder(column.charset), _longest(column), column.type is _T.STRING

    def dump_text(value: Any) -> bytes:
        text = value if type(value) is str else given_text(value)
        if trims:
            text = text.rstrip(" ")
        if longest is not None and len(text) > longest:
            raise ValueRejected(
                f"{short_repr(text)} has {len(text)} characters, the column {longest}"
            )
        return encode(text)

    return dump_text


def _binary_dumper(column: Column) -> Dumper:
    """VARBINARY and BLOB as they are; BINARY without trailing zero bytes."""
    if column.type is not _T.STRING:
        return given_bytes
    size = column.metadata

    def dump_binary(value: Any) -> bytes:
        data = given_bytes(value)
        if len(data) > size:
            raise ValueRejected(f"{len(data)} bytes, the column holds {size}")
        return data.rstrip(b"\0")

    return dump_binary


def variable(metadata: int) -> Width:
    """The width of a type whose metadata is the maximum bytes of a value."""
    return Width(0, 1 if metadata < 256 else 2, metadata)


def _char(declared: Declared) -> ColumnSpec:
    return declared.text(_T.STRING, declared.size(1, 255))


def _binary(declared: Declared) -> ColumnSpec:
    return declared.binary(_T.STRING, declared.number(1, 0, 255))


def _compressed(declared: Declared, size: int) -> tuple[ColumnType, int]:
    """VARCHAR or VARBINARY; if compressed, it has an additional byte for the method."""
    if not declared.column.compressed:
        return _T.VARCHAR, size
    return _T.VARCHAR_COMPRESSED, size + 1


def _varchar(declared: Declared) -> ColumnSpec:
    if not declared.numbers:
        declared.reject("how many characters?")
    return declared.text(*_compressed(declared, declared.size(0, MOST_BYTES)))


def _varbinary(declared: Declared) -> ColumnSpec:
    if not declared.numbers:
        declared.reject("how many bytes?")
    return declared.binary(*_compressed(declared, declared.number(0, 0, MOST_BYTES)))


def blob_type(declared: Declared) -> ColumnType:
    """The type code of a BLOB or TEXT of any length."""
    return _T.BLOB_COMPRESSED if declared.column.compressed else _T.BLOB


def _text(name: str, prefix: int) -> Declaration:
    return Declaration(
        name, BLOB_TYPES, lambda declared: declared.text(blob_type(declared), prefix)
    )


def _blob(name: str, prefix: int) -> Declaration:
    return Declaration(
        name, BLOB_TYPES, lambda declared: declared.binary(blob_type(declared), prefix)
    )


_VARCHAR: Final = frozenset({_T.VARCHAR, _T.VAR_STRING, _T.VARCHAR_COMPRESSED})
_FITS: Final = _VARCHAR | {_T.STRING}
_TEXT: Final = Format(text_loader, text_dumper, lambda _column: text_json, bytes)
FAMILY: Final = TypeFamily(
    widths={
        **dict.fromkeys((_T.STRING, *_VARCHAR), variable),
        **dict.fromkeys(BLOB_TYPES, prefixed),
    },
    formats={
        Logical.PLAIN: _TEXT,
        Logical.TEXT: _TEXT,
        Logical.BINARY: Format(_binary_loader, _binary_dumper, lambda _column: base64_json),
    },
    names={
        **named(Declaration("char", _FITS, _char), "character", "nchar"),
        **named(Declaration("varchar", _FITS, _varchar), "varchar2", "nvarchar", "varcharacter"),
        "national": Declaration("char", _FITS, None),
        "binary": Declaration("binary", _FITS, _binary),
        **named(Declaration("varbinary", _FITS, _varbinary), "raw"),
        "long": Declaration("mediumtext", BLOB_TYPES, None),
        "tinytext": _text("tinytext", 1),
        "text": _text("text", 2),
        "mediumtext": _text("mediumtext", 3),
        **named(_text("longtext", 4), "clob"),
        "tinyblob": _blob("tinyblob", 1),
        "blob": _blob("blob", 2),
        "mediumblob": _blob("mediumblob", 3),
        "longblob": _blob("longblob", 4),
    },
)
