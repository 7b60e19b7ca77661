"""The integers and messages of MySQL's serialization library, which GTID_TAGGED uses (facts sheet
2.5).
"""

from __future__ import annotations

from typing import Final

from tailrace.errors import EventDecodeError

_SIZES: Final = bytes(
    next(ones for ones in range(9) if ones == 8 or not first >> ones & 1) + 1
    for first in range(256)
)
"""A number's size in bytes by its first byte: one more than that byte's trailing 1-bits."""


def read_unsigned(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """An unsigned integer at ``pos``, and where it ends. Raises EventDecodeError."""
    if pos >= end:
        raise EventDecodeError("the message ends before an integer")
    size = _SIZES[buf[pos]]
    after = pos + size
    if after > end:
        raise EventDecodeError(f"an integer needs {size} bytes, {end - pos} remain")
    if size == 9:
        return int.from_bytes(buf[pos + 1 : after], "little"), after
    return int.from_bytes(buf[pos:after], "little") >> size, after


def read_signed(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """A signed integer at ``pos``, and where it ends; its sign is the low bit. Raises."""
    folded, after = read_unsigned(buf, pos, end)
    return (-(folded >> 1) - 1 if folded & 1 else folded >> 1), after


def write_unsigned(value: int) -> bytes:
    """An unsigned integer below 2**64, in the fewest bytes."""
    for size in range(1, 9):
        if value < 1 << 7 * size:
            return (value << size | (1 << size - 1) - 1).to_bytes(size, "little")
    return b"\xff" + value.to_bytes(8, "little")


def write_signed(value: int) -> bytes:
    """A signed integer of 64 bits, in the fewest bytes; its sign is the low bit."""
    return write_unsigned(-(value + 1) << 1 | 1 if value < 0 else value << 1)


def write_message(version: int, body: bytes) -> bytes:
    """A message: its version, its total size in bytes, and the body."""
    head = write_unsigned(version)
    size = len(head) + len(body) + 1
    while len(head) + len(write_unsigned(size)) + len(body) != size:
        size += 1
    return head + write_unsigned(size) + body
