"""MariaDB's UUID, INET4 and INET6: fixed bytes to the text that MariaDB prints, and back.

The log leaves out trailing zero bytes, as it does for BINARY. Facts sheet section 3.1, "Padding".
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from tailrace.constants import ColumnType
from tailrace.errors import EventDecodeError, ValueRejected
from tailrace.printable import short_repr
from tailrace.values.family import Declaration, Format, TypeFamily, ascii_json
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from tailrace.values.family import Dumper, Loader

_T = TypeVar("_T", UUID, IPv4Address, IPv6Address)

UUID_SIZE: Final = 16
INET4_SIZE: Final = 4
INET6_SIZE: Final = 16


def padded(data: bytes, size: int) -> bytes:
    """Restore the zeros that the log leaves out; `EventDecodeError` if there are too many bytes."""
    if len(data) > size:
        raise EventDecodeError(f"a value of {size} bytes has {len(data)}")
    return data.ljust(size, b"\0")


def load_uuid(data: bytes) -> str:
    """UUID: 32 hexadecimal digits with hyphens, lower case."""
    text = padded(data, UUID_SIZE).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def load_inet4(data: bytes) -> str:
    """INET4: four decimal numbers with dots."""
    return ".".join(map(str, padded(data, INET4_SIZE)))


def load_inet6(data: bytes) -> str:
    """INET6 with its longest (the first of equal ones) run of zero groups left out.

    The last 32 bits are an IPv4 address if the rest indicates one (``::ffff:1.2.3.4``,
    ``::1.2.3.4``).
    """
    raw = padded(data, INET6_SIZE)
    groups = [int.from_bytes(raw[i : i + 2], "big") for i in range(0, INET6_SIZE, 2)]
    start, length = _longest_zeros(groups)
    if start == 0 and (length == 6 or (length == 5 and groups[5] == 0xFFFF)):
        return f"{'::' if length == 6 else '::ffff:'}{load_inet4(raw[12:])}"
    if length == 0:
        return ":".join(f"{group:x}" for group in groups)
    head = ":".join(f"{group:x}" for group in groups[:start])
    tail = ":".join(f"{group:x}" for group in groups[start + length :])
    return f"{head}::{tail}"


def _longest_zeros(groups: list[int]) -> tuple[int, int]:
    best, start = (0, 0), 0
    for index, group in enumerate([*groups, 1]):
        if group:
            if index - start > best[1]:
                best = (start, index - start)
            start = index + 1
    return best


def dump_uuid(value: Any) -> bytes:
    """UUID: a `uuid.UUID`, or its text with or without hyphens. `ValueRejected` otherwise."""
    return _of(UUID, value, "UUID").bytes.rstrip(b"\0")


def dump_inet4(value: Any) -> bytes:
    """INET4: an `ipaddress.IPv4Address`, or its text. `ValueRejected` for anything else."""
    return _of(IPv4Address, value, "IPv4 address").packed.rstrip(b"\0")


def dump_inet6(value: Any) -> bytes:
    """INET6: an `ipaddress.IPv6Address` without a scope, or its text. `ValueRejected` otherwise."""
    known = _of(IPv6Address, value, "IPv6 address")
    if known.scope_id is not None:
        raise ValueRejected(f"{short_repr(value)} has a scope, which an INET6 does not hold")
    return known.packed.rstrip(b"\0")


def _of(kind: type[_T], value: Any, what: str) -> _T:
    """The value itself, or the value of its text."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        with suppress(ValueError):
            return kind(value)
    raise ValueRejected(f"{short_repr(value)} is no {what}")


def _declared(logical: Logical, size: int) -> Declaration:
    return Declaration(
        logical.value,
        frozenset({ColumnType.STRING}),
        lambda declared: declared.binary(ColumnType.STRING, size),
        logical,
        only_mariadb=True,
    )


def _format(load: Loader, dump: Dumper, size: int) -> Format:
    return Format.of(load, dump, ascii_json, lambda data: padded(data, size))


FAMILY: Final = TypeFamily(
    formats={
        Logical.UUID: _format(load_uuid, dump_uuid, UUID_SIZE),
        Logical.INET4: _format(load_inet4, dump_inet4, INET4_SIZE),
        Logical.INET6: _format(load_inet6, dump_inet6, INET6_SIZE),
    },
    names={
        "uuid": _declared(Logical.UUID, UUID_SIZE),
        "inet4": _declared(Logical.INET4, INET4_SIZE),
        "inet6": _declared(Logical.INET6, INET6_SIZE),
    },
)
