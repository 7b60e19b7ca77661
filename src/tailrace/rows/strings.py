"""CHAR, VARCHAR, BINARY, TEXT, BLOB, ENUM, SET and BIT. Facts sheet section 3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import EventDecodeError
from tailrace.rows.charsets import decoder
from tailrace.rows.network import padded

if TYPE_CHECKING:
    from collections.abc import Callable


def text_loader(charset: str) -> Callable[[bytes], str]:
    """Text of a character set; CHAR comes without the spaces that ``SELECT`` drops too."""
    return decoder(charset)


def load_bytes(data: bytes) -> bytes:
    """VARBINARY and BLOB: the bytes as they are."""
    return data


def binary_loader(size: int) -> Callable[[bytes], bytes]:
    """BINARY(size): with the trailing zero bytes that the log leaves out."""
    return lambda data: padded(data, size)


def load_bit(data: bytes) -> int:
    """BIT: up to 8 bytes, big-endian."""
    return int.from_bytes(data, "big")


def enum_loader(members: tuple[str, ...] | None) -> Callable[[bytes], str | int]:
    """ENUM: the name, or the number where the names are unknown; 0 is the error value ''."""
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
    """SET: the names with commas, in the declared order, or the bits where they are unknown.

    As ``SELECT`` has it, no comma is at the beginning: an empty name that comes first is not seen.
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
