"""The message in a GTID_TAGGED event: numbered fields, and their integers (facts sheet 2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.errors import EventDecodeError, EventEncodeError, GtidError
from tailrace.events.fields import Builder, binary
from tailrace.gtid.mysql import decode_tag

if TYPE_CHECKING:
    from tailrace.events.gtids import GtidEvent

_VERSION: Final = 1
_UUID: Final = 1
_GNO: Final = 2
_TAG: Final = 3
_FIELDS: Final = {
    0: ("flags", False),
    2: ("gno", True),
    4: ("last_committed", True),
    5: ("sequence_number", True),
    6: ("immediate_commit_timestamp", False),
    7: ("original_commit_timestamp", False),
    8: ("transaction_length", False),
    9: ("immediate_server_version", False),
    10: ("original_server_version", False),
    11: ("commit_group_ticket", False),
}
"""The plain fields by number: attribute, and whether it is signed."""
_LAST: Final = 11
_SIZES: Final = bytes(
    next(ones for ones in range(9) if ones == 8 or not first >> ones & 1) + 1
    for first in range(256)
)
"""A number's size in bytes by its first byte: one more than that byte's trailing 1-bits."""


def read_message(event: GtidEvent, body: bytes) -> None:
    """Set the event's slots from the message. Raises EventDecodeError."""
    end = len(body)
    version, pos = read_unsigned(body, 0, end)
    if version != _VERSION:
        raise EventDecodeError(f"serialization version {version} is not known")
    size, pos = read_unsigned(body, pos, end)
    if size != end:
        raise EventDecodeError(f"the message's size is {size} bytes, but {end} are there")
    event.last_needed, pos = read_unsigned(body, pos, end)
    if event.last_needed > _LAST + 1:
        raise EventDecodeError(
            f"field {event.last_needed - 1} must be understood and is not known:"
            " a newer Tailrace may know it"
        )
    seen = -1
    event.flags, event.uuid_bytes = 0, b""
    numbered = False
    while pos < end:
        at = pos
        field, pos = read_unsigned(body, pos, end)
        if field <= seen:
            raise EventDecodeError(f"field {field} comes after field {seen}")
        if field > _LAST:
            event.unknown_fields = body[at:]  # a newer server's fields that may be skipped
            break
        seen = field
        numbered |= field == _GNO
        pos = _read_field(event, field, body, pos)
    if not event.uuid_bytes or not numbered:
        raise EventDecodeError("the message holds no GTID")
    if event.original_commit_timestamp is None:
        event.original_commit_timestamp = event.immediate_commit_timestamp
    if event.original_server_version is None:
        event.original_server_version = event.immediate_server_version


def _read_field(event: GtidEvent, field: int, body: bytes, pos: int) -> int:
    end = len(body)
    if field == _UUID:
        uuid = []
        for _ in range(16):
            byte, pos = read_unsigned(body, pos, end)
            uuid.append(byte)
        if max(uuid) > 0xFF:
            raise EventDecodeError("a byte of the UUID is more than 255")
        event.uuid_bytes = bytes(uuid)
        return pos
    if field == _TAG:
        length, pos = read_unsigned(body, pos, end)
        if length > 32 or length > end - pos:
            raise EventDecodeError(f"a tag of {length} bytes")
        try:
            event.tag = decode_tag(body[pos : pos + length])
        except GtidError as error:
            raise EventDecodeError(str(error)) from None
        return pos + length
    name, signed = _FIELDS[field]
    value, pos = (read_signed if signed else read_unsigned)(body, pos, end)
    setattr(event, name, value)
    return pos


def _checked_rest(rest: bytes) -> bytes:
    """Check that fields are unknown, by the first of them. Raises EventEncodeError."""
    raw = binary(rest, "unknown_fields")
    try:
        if raw and read_unsigned(raw, 0, len(raw))[0] <= _LAST:
            raise EventEncodeError(f"unknown_fields: field {raw[0] >> 1} is known")
    except EventDecodeError as error:
        raise EventEncodeError(f"unknown_fields: {error.message}") from None
    return raw


def write_tagged(event: GtidEvent, uuid: bytes, tag: str, gno: int) -> bytes:
    """The message with the event's slots, which are checked. Originals that equal the immediate
    ones are left out, as the server does. Raises EventEncodeError.
    """
    values = {name: getattr(event, name) for name, _ in _FIELDS.values() if name != "gno"}
    for name in ("commit_timestamp", "server_version"):
        if values[f"original_{name}"] == values[f"immediate_{name}"]:
            values[f"original_{name}"] = None
    values["gno"] = gno
    out = Builder()
    out.data += write_unsigned(event.last_needed)
    for field in range(_LAST + 1):
        if field == _UUID:
            out.data += write_unsigned(field) + b"".join(map(write_unsigned, uuid))
        elif field == _TAG:
            out.data += write_unsigned(field) + write_unsigned(len(tag)) + tag.encode()
        else:
            name, signed = _FIELDS[field]
            if values[name] is not None:
                write = write_signed if signed else write_unsigned
                out.data += write_unsigned(field) + write(values[name])
    out.data += _checked_rest(event.unknown_fields)
    return write_message(_VERSION, out.done())


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
