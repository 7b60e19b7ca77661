"""The server's binary JSON written by a few lines of Python, for documents without SQL types."""

from __future__ import annotations

import struct
from typing import Any


def jsonb(value: Any) -> bytes:
    kind, data, _ = _value(value, large=False)
    return bytes([kind]) + data


def varlen(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varlen(rest) if rest else bytes([low])


def opaque(field: int, data: bytes) -> bytes:
    return bytes([15, field]) + varlen(len(data)) + data


def _value(value: Any, *, large: bool) -> tuple[int, bytes, bool]:
    """Type, bytes, and whether they fit into the value's entry."""
    if value is None or isinstance(value, bool):
        return 4, bytes([0 if value is None else 2 - value]), True
    if isinstance(value, int):
        for kind, letter, inline in ((5, "h", True), (7, "i", large), (9, "q", False)):
            size = struct.calcsize(letter)
            if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
                return kind, struct.pack(f"<{letter}", value), inline
        return 10, struct.pack("<Q", value), False
    if isinstance(value, float):
        return 11, struct.pack("<d", value), False
    if isinstance(value, str):
        data = value.encode()
        return 12, varlen(len(data)) + data, False
    if not large:
        try:
            return _container(value, large=False)
        except (struct.error, OverflowError):
            pass
    return _container(value, large=True)


def _container(value: Any, *, large: bool) -> tuple[int, bytes, bool]:
    offset = "<I" if large else "<H"
    width = struct.calcsize(offset)
    keys: list[bytes] = []
    values = value
    if isinstance(value, dict):
        pairs = sorted((len(key.encode()), key.encode(), child) for key, child in value.items())
        keys, values = [key for _, key, _ in pairs], [child for _, _, child in pairs]
    at = 2 * width + len(keys) * (width + 2) + len(values) * (width + 1)
    head = tail = b""
    for key in keys:
        head += struct.pack(offset, at) + struct.pack("<H", len(key))
        tail += key
        at += len(key)
    for child in values:
        kind, data, inline = _value(child, large=large)
        if not large and kind in {1, 3}:
            raise OverflowError
        if inline:
            head += bytes([kind]) + data.ljust(width, b"\0")
        else:
            head += bytes([kind]) + struct.pack(offset, at)
            tail += data
            at += len(data)
    kind = (0 if isinstance(value, dict) else 2) + large
    return kind, struct.pack(offset, len(values)) + struct.pack(offset, at) + head + tail, False
