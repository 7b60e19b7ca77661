"""What a family of column types says about each of its types; `registry` collects the families.

A family is a module with a constant ``FAMILY``. Everything is resolved once per column, never per
value.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from json.encoder import encode_basestring
from operator import index
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from tailrace.constants import ColumnType, Flavour
from tailrace.errors import SchemaError, ValueRejected
from tailrace.events.column_metadata import ColumnSpec
from tailrace.printable import short_repr
from tailrace.values.charsets import BINARY, default_collation, longest_character
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from tailrace.values.schema import Column, ColumnDefinition

Loader = Callable[[bytes], Any]
"""The bytes of one value, without a length prefix, to a Python object.

It may rely on the number of bytes matching the column's `Width`. It raises only Tailrace's errors.
"""
Dumper = Callable[[Any], bytes]
"""A Python object that is not None to the bytes of one value, without a length prefix.

It raises only `ValueRejected`, for a value that the column cannot hold exactly.
"""
Key = ColumnType | Logical
"""What determines how a value's bytes are read: the type code, for strings the logical type."""
JsonWriter = Callable[[Any], str]
"""A value as its loader gives it, not None, to JSON."""
MOST_BYTES: Final = 65535
"""The maximum bytes of a column that is not a blob."""


class Width(NamedTuple):
    """The width of a value in a row image: ``size`` bytes, or a length of ``prefix`` bytes
    followed by at most ``most`` bytes.
    """

    size: int
    prefix: int = 0
    most: int = 0


def sized(size: int) -> Callable[[int], Width]:
    """The width of a type that always takes ``size`` bytes."""
    return lambda _metadata: Width(size)


def prefixed(metadata: int) -> Width | None:
    """The width of a type whose metadata is the number of its length bytes."""
    return Width(0, metadata, (1 << 8 * metadata) - 1) if 1 <= metadata <= 4 else None


text_json: Final[JsonWriter] = encode_basestring
"""A str as a JSON string; only characters that must be escaped are."""


def ascii_json(value: str) -> str:
    """Text in which no character needs to be escaped, as a JSON string."""
    return f'"{value}"'


def base64_json(value: bytes) -> str:
    """Bytes as a JSON string."""
    return f'"{base64.b64encode(value).decode("ascii")}"'


def _as_str(_column: Column) -> JsonWriter:
    return str


@dataclass(frozen=True, slots=True)
class Format:
    """How values are converted between bytes and Python objects, and to JSON.

    ``octets``: where the loader gives no bytes, what a user gets who asks for a value's bytes, from
    those in the row image; None if there is nothing but these.
    """

    loader: Callable[[Column], Loader]
    dumper: Callable[[Column], Dumper]
    json: Callable[[Column], JsonWriter] = _as_str
    octets: Callable[[bytes], bytes] | None = None

    @classmethod
    def of(
        cls,
        load: Loader,
        dump: Dumper,
        json: JsonWriter = str,
        octets: Callable[[bytes], bytes] | None = None,
    ) -> Format:
        """A format that is the same for every column of its type."""
        return cls(lambda _column: load, lambda _column: dump, lambda _column: json, octets)


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared column being converted to its logged form.

    ``base`` is the type's name in lower case, ``numbers`` are those in its parentheses.
    """

    column: ColumnDefinition
    base: str
    numbers: tuple[int, ...]
    flavour: Flavour

    def number(self, default: int, least: int, most: int, at: int = 0) -> int:
        """The number in the parentheses; `SchemaError` if no server accepts it."""
        value = self.numbers[at] if len(self.numbers) > at else default
        if not least <= value <= most:
            self.reject(f"{value} is not between {least} and {most}")
        return value

    def reject(self, reason: str) -> NoReturn:
        """Raise a `SchemaError` about the column."""
        raise SchemaError(f"column {self.column.name}: {self.column.declared!r}: {reason}")

    @property
    def collation(self) -> int:
        """The column's collation, or that of the flavour's utf8mb4 if it is unknown."""
        collation = self.column.collation
        if collation is None:
            collation = default_collation("utf8mb4", self.flavour)
        return BINARY if collation is None else collation

    def size(self, default: int, most: int) -> int:
        """The bytes of the declared number of characters."""
        size = self.number(default, 0, most) * longest_character(self.collation)
        if size > MOST_BYTES:
            self.reject(f"{size} bytes, a column holds {MOST_BYTES}")
        return size

    def spec(self, type_: ColumnType, metadata: int = 0) -> ColumnSpec:
        """The logged column: this type, and the attributes that every column has."""
        column = self.column
        return ColumnSpec(
            type_, metadata, column.nullable, name=column.name, visible=column.visible
        )

    def numeric(self, type_: ColumnType, metadata: int = 0) -> ColumnSpec:
        """A logged column with a sign."""
        return replace(self.spec(type_, metadata), unsigned=self.column.unsigned)

    def text(self, type_: ColumnType, metadata: int) -> ColumnSpec:
        """A logged column with a character set."""
        return replace(self.spec(type_, metadata), collation=self.collation)

    def binary(self, type_: ColumnType, metadata: int) -> ColumnSpec:
        """A logged column of bytes."""
        return replace(self.spec(type_, metadata), collation=BINARY)


def _agrees(_spec: ColumnSpec, _declared: Declared) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Declaration:
    """A type's name in SQL.

    ``name`` is the servers' own name of it. ``fits`` are the type codes that may be logged for it,
    and ``trouble`` says how a logged column of such a type contradicts the declaration, as the end
    of a sentence. ``spec`` gives what a server logs for a column declared so, and raises
    `SchemaError` if no server accepts it; None for a name that a definition cannot have.
    ``numbers`` are what a server puts in the parentheses where a statement has none.
    """

    name: str
    fits: frozenset[ColumnType]
    spec: Callable[[Declared], ColumnSpec] | None
    logical: Logical = Logical.PLAIN
    unsigned: bool = False
    only_mariadb: bool = False
    numbers: tuple[int, ...] = ()
    trouble: Callable[[ColumnSpec, Declared], str | None] = _agrees


def named(declaration: Declaration, *synonyms: str) -> dict[str, Declaration]:
    """A declaration under the servers' name of the type and under its synonyms."""
    return dict.fromkeys((declaration.name, *synonyms), declaration)


@dataclass(frozen=True, slots=True)
class TypeFamily:
    """What one module contributes to the registry.

    ``widths``: by type code, the width of its values for a column's metadata (None if no row image
    has such metadata). ``formats``: by type code, for strings by logical type. ``names``: by the
    name in SQL, in lower case.
    """

    widths: Mapping[ColumnType, Callable[[int], Width | None]] = field(default_factory=dict)
    formats: Mapping[Key, Format] = field(default_factory=dict)
    names: Mapping[str, Declaration] = field(default_factory=dict)


_MOST_DIGITS: Final = 20
"""Digits of the largest 64-bit number."""
_BYTES: Final = (bytes, bytearray, memoryview)


def whole_number(value: Any) -> int:
    """An int from anything that is a whole number by type, or a Decimal with a whole value.

    (Arrow has unsigned 64-bit columns as decimals.) `ValueRejected` for floats, text and others.
    """
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _MOST_DIGITS:
        whole = value.to_integral_value()
        if whole == value:
            return int(whole)
    try:
        return index(value)
    except TypeError:
        raise ValueRejected(f"{short_repr(value)} is not a whole number of 64 bits") from None


def given_bytes(value: Any) -> bytes:
    """Bytes from any object that holds bytes; `ValueRejected` for text and anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, _BYTES):
        return bytes(value)
    raise ValueRejected(f"{short_repr(value)} is not bytes")


def given_text(value: Any) -> str:
    """A str; `ValueRejected` for bytes and anything else."""
    if isinstance(value, str):
        return value
    raise ValueRejected(f"{short_repr(value)} is not text")
