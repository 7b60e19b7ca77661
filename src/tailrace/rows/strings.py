"""CHAR, VARCHAR, BINARY, TEXT, BLOB, ENUM, SET and BIT. Facts sheet section 3.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tailrace.errors import EventDecodeError, ValueRefused
from tailrace.printable import short_repr
from tailrace.rows.charsets import decoder, encoder
from tailrace.rows.network import padded
from tailrace.rows.user_values import given_bytes, given_text, whole_number


def text_loader(charset: str) -> Callable[[bytes], str]:
    """Text of a character set; CHAR is without trailing spaces, as in ``SELECT``."""
    return decoder(charset)


def load_bytes(data: bytes) -> bytes:
    """VARBINARY and BLOB: the bytes as they are."""
    return data


def binary_loader(size: int) -> Callable[[bytes], bytes]:
    """BINARY(size): with the trailing zero bytes restored that the log leaves out."""
    return lambda data: padded(data, size)


def load_bit(data: bytes) -> int:
    """BIT: up to 8 bytes, big-endian."""
    return int.from_bytes(data, "big")


def enum_loader(members: tuple[str, ...] | None) -> Callable[[bytes], str | int]:
    """ENUM: the name, or the number if the names are unknown; 0 is the error value ''."""
    if members is None:
        return lambda data: int.from_bytes(data, "little")
    names = ("", *members)

    def load_enum(data: bytes) -> str:
        number = int.from_bytes(data, "little")
        if number >= len(names):
            raise EventDecodeError(f"value {number} of an ENUM with {len(names) - 1} names")
        return names[number]

    return load_enum


def set_loader(members: tuple[str, ...] | None) -> Callable[[bytes], str | int]:
    """SET: the names with commas, in the declared order, or the bits if the names are unknown.

    As in ``SELECT``, there is no comma at the beginning: an empty first name is not visible.
    """
    if members is None:
        return lambda data: int.from_bytes(data, "little")
    names = members

    def load_set(data: bytes) -> str:
        bits = int.from_bytes(data, "little")
        if bits >> len(names):
            raise EventDecodeError(f"value {bits:#x} of a SET with {len(names)} names")
        return ",".join(name for index, name in enumerate(names) if bits >> index & 1).lstrip(",")

    return load_set


def text_dumper(charset: str, *, longest: int | None, trims: bool) -> Callable[[Any], bytes]:
    """The dumper of text, of at most ``longest`` characters.

    ``trims``: for CHAR, whose trailing spaces are not logged. `ValueRefused` if it is not a str, is
    too long, or has a character that is not in the column's character set.
    """
    encode = encoder(charset)

    def dump_text(value: Any) -> bytes:
        text = value if type(value) is str else given_text(value)
        if trims:
            text = text.rstrip(" ")
        if longest is not None and len(text) > longest:
            raise ValueRefused(
                f"{short_repr(text)} has {len(text)} characters, the column {longest}"
            )
        return encode(text)

    return dump_text


def binary_dumper(size: int) -> Callable[[Any], bytes]:
    """The dumper of BINARY(size): trailing zero bytes are not logged."""

    def dump_binary(value: Any) -> bytes:
        data = given_bytes(value)
        if len(data) > size:
            raise ValueRefused(f"{len(data)} bytes, the column holds {size}")
        return data.rstrip(b"\0")

    return dump_binary


def bit_dumper(bits: int) -> Callable[[Any], bytes]:
    """The dumper of a BIT(bits) column: a whole number."""
    size = (bits + 7) // 8

    def dump_bit(value: Any) -> bytes:
        number = whole_number(value)
        if number < 0 or number >> bits:
            raise ValueRefused(f"{short_repr(number)} is not between 0 and {(1 << bits) - 1}")
        return number.to_bytes(size, "big")

    return dump_bit


def enum_dumper(members: tuple[str, ...] | None, size: int) -> Callable[[Any], bytes]:
    """The dumper of an ENUM column of ``size`` bytes: a name as declared, or its number.

    Numbers count from 1. The error value is 0, or an empty text if that is not a name. If the names
    are unknown, only numbers are accepted.
    """
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
            raise ValueRefused(f"{short_repr(number)} is not between 0 and {most}")
        return number.to_bytes(size, "little")

    return dump_enum


def set_dumper(members: tuple[str, ...] | None, size: int) -> Callable[[Any], bytes]:
    """The dumper of a SET column of ``size`` bytes: names with commas, an iterable of names, or the
    number made of their bits. If the names are unknown, only numbers are accepted.
    """
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
            raise ValueRefused(f"{short_repr(number)} is not between 0 and {most}")
        return number.to_bytes(size, "little")

    return dump_set


def _no_member(value: Any, members: tuple[str, ...] | None) -> ValueRefused:
    if members is None:
        return ValueRefused(
            f"{short_repr(value)}: the names of this ENUM or SET are unknown; give its number, or"
            " a table definition that names them"
        )
    return ValueRefused(f"{short_repr(value)} is none of the column's names, {short_repr(members)}")
