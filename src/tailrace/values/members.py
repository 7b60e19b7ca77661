"""ENUM and SET: the number of a name, or a bit for each name. Facts sheet section 3.1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.charsets import charset_of, encode
from tailrace.values.family import Declaration, Format, TypeFamily, Width, text_json, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events.column_metadata import ColumnSpec
    from tailrace.values.family import Declared, Dumper, JsonWriter, Loader
    from tailrace.values.schema import Column

_T = ColumnType


def _enum_loader(column: Column) -> Loader:
    """ENUM: the name, or the number if the names are unknown; 0 is the error value ''."""
    if column.members is None:
        return lambda data: int.from_bytes(data, "little")
    names = ("", *column.members)

    def load_enum(data: bytes) -> str:
        number = int.from_bytes(data, "little")
        if number >= len(names):
            raise EventDecodeError(f"value {number} of an ENUM with {len(names) - 1} names")
        return names[number]

    return load_enum


def _set_loader(column: Column) -> Loader:
    """SET: the names with commas, in the declared order, or the bits if the names are unknown.

    As in ``SELECT``, there is no comma at the beginning: an empty first name is not visible.
    """
    if column.members is None:
        return lambda data: int.from_bytes(data, "little")
    names = column.members

    def load_set(data: bytes) -> str:
        bits = int.from_bytes(data, "little")
        if bits >> len(names):
            raise EventDecodeError(f"value {bits:#x} of a SET with {len(names)} names")
        return ",".join(name for index, name in enumerate(names) if bits >> index & 1).lstrip(",")

    return load_set


def _enum_dumper(column: Column) -> Dumper:
    """A name as declared, or its number; if the names are unknown, only its number.

    Numbers count from 1. The error value is 0, or an empty text if that is not a name.
    """
    members, size = column.members, column.metadata
    most = (1 << 8 * size) - 1 if members is None else len(members)
    numbers = {name: number for number, name in reversed([*enumerate(members or (), 1)])}
    if members is not None:
        numbers.setdefault("", 0)

    def dump_enum(value: Any) -> bytes:
        if isinstance(value, str):
            known = numbers.get(value)
            if known is None:
                raise _no_member(value, members)
            return known.to_bytes(size, "little")
        number = whole_number(value)
        if not 0 <= number <= most:
            raise ValueRejected(f"{short_repr(number)} is not between 0 and {most}")
        return number.to_bytes(size, "little")

    return dump_enum


def _set_dumper(column: Column) -> Dumper:
    """Names with commas, an iterable of names, or the number made of their bits.

    If the names are unknown, only numbers are accepted.
    """
    members, size = column.members, column.metadata
    most = (1 << (8 * size if members is None else len(members))) - 1
    bits = {name: 1 << place for place, name in reversed([*enumerate(members or ())])}

    def bits_of(names: Iterable[Any]) -> int:
        number = 0
        for name in names:
            bit = bits.get(name) if isinstance(name, str) else None
            if bit is None:
                raise _no_member(name, members)
            number |= bit
        return number

    def dump_set(value: Any) -> bytes:
        if isinstance(value, str):
            number = bits_of(value.split(",") if value else ())
        elif isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, memoryview)):
            number = bits_of(value)
        else:
            number = whole_number(value)
        if not 0 <= number <= most:
            raise ValueRejected(f"{short_repr(number)} is not between 0 and {most}")
        return number.to_bytes(size, "little")

    return dump_set


def _no_member(value: Any, members: tuple[str, ...] | None) -> ValueRejected:
    if members is None:
        return ValueRejected(
            f"{short_repr(value)}: the names of this ENUM or SET are unknown; give its number, or"
            " a table definition that names them"
        )
    return ValueRejected(
        f"{short_repr(value)} is none of the column's names, {short_repr(members)}"
    )


def _json(column: Column) -> JsonWriter:
    return str if column.members is None else text_json


def _names(declared: Declared) -> tuple[bytes, ...]:
    """The names of an ENUM or SET in the column's character set."""
    names = declared.column.members
    if not names:
        declared.reject("its names are not known")
    charset = charset_of(declared.collation)
    return tuple(encode(charset, name) for name in names)


def _enum_size(count: int) -> int:
    return 1 if count < 256 else 2


def _set_size(count: int) -> int:
    """Bytes of a SET: 1, 2, 3, 4 or 8, a bit for each name."""
    size = (count + 7) // 8
    return size if size <= 4 else 8


def _enum_spec(declared: Declared) -> ColumnSpec:
    names = _names(declared)
    return replace(declared.text(_T.ENUM, _enum_size(len(names))), members=names)


def _set_spec(declared: Declared) -> ColumnSpec:
    names = _names(declared)
    if len(names) > 64:
        declared.reject(f"{len(names)} names, a SET holds 64")
    return replace(declared.text(_T.SET, _set_size(len(names))), members=names)


def _declared(
    name: str,
    type_: ColumnType,
    spec: Callable[[Declared], ColumnSpec],
    size_of: Callable[[int], int],
) -> Declaration:
    def trouble(logged: ColumnSpec, declared: Declared) -> str | None:
        members = declared.column.members
        if members is None or size_of(len(members)) == logged.metadata:
            return None
        return f"the log stores it in {logged.metadata} bytes"

    return Declaration(name, frozenset({type_}), spec, trouble=trouble)


def _up_to(most: int) -> Callable[[int], Width | None]:
    return lambda size: Width(size) if 1 <= size <= most else None


FAMILY: Final = TypeFamily(
    widths={_T.ENUM: _up_to(2), _T.SET: _up_to(8)},
    formats={
        _T.ENUM: Format(_enum_loader, _enum_dumper, _json),
        _T.SET: Format(_set_loader, _set_dumper, _json),
    },
    names={
        "enum": _declared("enum", _T.ENUM, _enum_spec, _enum_size),
        "set": _declared("set", _T.SET, _set_spec, _set_size),
    },
)
