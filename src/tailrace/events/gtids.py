"""MySQL's GTID events: GTID, ANONYMOUS_GTID, GTID_TAGGED, PREVIOUS_GTIDS (facts sheet 2.5)."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, EventEncodeError, GtidError
from tailrace.events.base import Event, lazy
from tailrace.events.fields import Builder, Cursor, binary, integer, made
from tailrace.events.layout import REQUIRED, derived, field
from tailrace.events.serialization import (
    read_signed,
    read_unsigned,
    write_message,
    write_signed,
    write_unsigned,
)
from tailrace.gtid import Gtid, GtidSet, format_uuid
from tailrace.gtid.ids import GNO_END, decode_tag, parse_tag, parse_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

_SHORT: Final = Struct("<B16sq")  # flags, uuid, gno: all that MySQL 5.6 writes
_CLOCK: Final = Struct("<Bqq")  # its type, last committed, sequence number
_LOGICAL_CLOCK: Final = 2
_STAMP_SIZE: Final = 7
_HAS_ORIGINAL_STAMP: Final = 1 << 55
_HAS_ORIGINAL_VERSION: Final = 1 << 31


class GtidEvent(Event, types=(EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)):
    """GTID (33), ANONYMOUS_GTID (34), GTID_TAGGED (42): a transaction begins.

    ``flags``: 1 if statements may be logged as such. ``last_committed`` and ``sequence_number``
    order transactions for parallel appliers (None in logs of 5.6). Commit timestamps are in
    microseconds UTC: ``original`` from the server where the transaction was committed first,
    ``immediate`` from the one that wrote this log. ``transaction_length`` is in bytes, including
    this event. Fields that the log does not have are None. Of a GTID_TAGGED, ``last_needed`` is one
    more than the number of the last field that a reader must know (0: none), and ``unknown_fields``
    holds what a newer server added. ``unknown_clock`` holds a clock other than the logical one,
    instead of ``last_committed`` and ``sequence_number``. For `make`, an original that is left out
    is the same as the immediate one.
    """

    FIELDS = (
        "gtid",
        "flags",
        "last_committed",
        "sequence_number",
        "original_commit_timestamp",
        "immediate_commit_timestamp",
        "transaction_length",
        "original_server_version",
        "immediate_server_version",
        "commit_group_ticket",
    )
    MADE_OF: ClassVar[Mapping[str, Any]] = {"gtid": REQUIRED}

    flags: int = field(default=0)
    uuid_bytes: bytes = derived()
    tag: str = derived()
    gno: int = derived()
    last_committed: int | None = field(default=None)
    sequence_number: int | None = field(default=None)
    immediate_commit_timestamp: int | None = field(default=None)
    original_commit_timestamp: int | None = field(default=None)
    transaction_length: int | None = field(default=None)
    immediate_server_version: int | None = field(default=None)
    original_server_version: int | None = field(default=None)
    commit_group_ticket: int | None = field(default=None)
    last_needed: int = field(default=0)
    unknown_fields: bytes = field(default=b"")
    unknown_clock: bytes = field(default=b"")

    def read_body(self, _form: FormatDescription, /) -> None:
        """33 and 34: fixed fields, then optional ones to the end; 42: a serialized message."""
        self.tag = ""
        self.last_committed = self.sequence_number = None
        self.immediate_commit_timestamp = self.original_commit_timestamp = None
        self.transaction_length = None
        self.immediate_server_version = self.original_server_version = None
        self.commit_group_ticket = None
        self.last_needed, self.unknown_fields, self.unknown_clock = 0, b"", b""
        if self.header.type == EventType.GTID_TAGGED:
            _read_message(self, self.body)
        else:
            self._read_fields(self.body)
        if self.header.type != EventType.ANONYMOUS_GTID and not 1 <= self.gno < GNO_END:
            raise EventDecodeError(f"transaction number {self.gno} is out of range")

    @property
    def anonymous(self) -> bool:
        """Whether the transaction has no GTID."""
        return self.header.type == EventType.ANONYMOUS_GTID

    @lazy
    def gtid(self) -> Gtid | None:
        """The transaction's GTID, None for an anonymous one."""
        if self.anonymous:
            return None
        return Gtid(format_uuid(self.uuid_bytes), self.tag, self.gno)

    @property
    def commit_timestamp(self) -> int | None:
        """The commit time where the transaction was committed first, in microseconds UTC."""
        return self.original_commit_timestamp or self.immediate_commit_timestamp

    def _read_fields(self, body: bytes) -> None:
        if len(body) < _SHORT.size:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {_SHORT.size}")
        self.flags, self.uuid_bytes, self.gno = _SHORT.unpack_from(body)
        if len(body) == _SHORT.size:
            return
        pos = _SHORT.size + _CLOCK.size
        if len(body) < pos:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {pos}")
        clock, last_committed, sequence_number = _CLOCK.unpack_from(body, _SHORT.size)
        if clock == _LOGICAL_CLOCK:
            self.last_committed, self.sequence_number = last_committed, sequence_number
        else:
            self.unknown_clock = body[_SHORT.size : pos]
        if len(body) > pos:
            self._read_optional(body, pos)

    def _read_optional(self, body: bytes, pos: int) -> None:
        stamp_end = pos + _STAMP_SIZE
        stamp = int.from_bytes(body[pos:stamp_end], "little")
        cursor = Cursor(body, min(stamp_end, len(body)))
        if stamp_end > len(body):
            raise EventDecodeError(f"a commit timestamp of {len(body) - pos} bytes")
        if stamp & _HAS_ORIGINAL_STAMP:
            self.immediate_commit_timestamp = stamp & ~_HAS_ORIGINAL_STAMP
            stamp = cursor.unsigned(_STAMP_SIZE, "the original commit timestamp")
            self.original_commit_timestamp = stamp
        else:
            self.immediate_commit_timestamp = self.original_commit_timestamp = stamp
        if cursor.remaining:
            self.transaction_length = cursor.lenenc("the transaction's length")
        if cursor.remaining:
            version = cursor.u32("the server version")
            self.immediate_server_version = version & ~_HAS_ORIGINAL_VERSION
            self.original_server_version = (
                cursor.u32("the original server version")
                if version & _HAS_ORIGINAL_VERSION
                else version
            )
        if cursor.remaining:
            self.commit_group_ticket = cursor.u64("the commit group's ticket")
        cursor.finish(self.name)

    @classmethod
    def type_of(cls, fields: Mapping[str, Any], _form: FormatDescription, /) -> int:
        """ANONYMOUS_GTID without a GTID, GTID_TAGGED for one with a tag, else GTID."""
        gtid = fields["gtid"]
        if gtid is None:
            return EventType.ANONYMOUS_GTID
        return EventType.GTID_TAGGED if made(gtid, Gtid, "gtid").tag else EventType.GTID

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        uuid, tag, gno = self._checked_gtid()
        for (each, least, most), value in zip(_LIMITS, _LIMITED(self), strict=True):
            if value is None and each not in _REQUIRED:
                continue
            if not (isinstance(value, int) and least <= value <= most):
                integer(value, each, least, most)
        self._complete()
        if self.header.type == EventType.GTID_TAGGED:
            if self.unknown_clock:
                raise EventEncodeError("unknown_clock: a GTID_TAGGED has none")
            return _write_message(self, uuid, tag, gno)
        if self.unknown_fields or self.last_needed:
            raise EventEncodeError("unknown_fields, last_needed: only GTID_TAGGED has these")
        out = Builder()
        out.data += _SHORT.pack(self.flags, uuid, gno)
        self._write_fields(out)
        return out.done()

    def _checked_gtid(self) -> tuple[bytes, str, int]:
        gtid = self.gtid
        code = self.header.type
        if code == EventType.ANONYMOUS_GTID:
            if gtid is not None:
                raise EventEncodeError("gtid: an ANONYMOUS_GTID has none")
            return bytes(16), "", 0
        gtid = made(gtid, Gtid, "gtid")
        uuid, tag, gno = gtid.uuid, gtid.tag, gtid.gno
        raw = _checked_uuid(uuid, tag)
        if tag and code == EventType.GTID:
            raise EventEncodeError("gtid: a GTID event has no tag, GTID_TAGGED has")
        return raw, tag, integer(gno, "gtid", 1, GNO_END - 1)

    def _complete(self) -> None:
        """Fill in originals equal to the immediate ones; raise an error for missing fields."""
        for original, immediate in _PAIRS:
            value = getattr(self, immediate)
            if getattr(self, original) is None:
                setattr(self, original, value)
            elif value is None:
                raise EventEncodeError(f"{immediate}: {original} is given without it")
        if self.header.type == EventType.GTID_TAGGED:
            return
        order = self._in_order()
        if order is _USUAL_ORDER and None not in _USUAL(self):
            return
        missing = None
        for each in order:
            if getattr(self, each) is None:
                missing = missing or each
            elif missing:
                raise EventEncodeError(f"{missing}: it is missing, but {each} after it is given")
        if missing == "sequence_number":
            raise EventEncodeError("sequence_number: it is missing, but last_committed is given")

    def _in_order(self) -> tuple[str, ...]:
        """The optional fields of 33 and 34, in the order of the layout."""
        clock = binary(self.unknown_clock, "unknown_clock")
        if not clock:
            return _USUAL_ORDER
        if len(clock) != _CLOCK.size or clock[0] == _LOGICAL_CLOCK:
            raise EventEncodeError(
                f"unknown_clock: {clock.hex()} is not {_CLOCK.size} bytes of one"
            )
        if not self.last_committed is self.sequence_number is None:
            raise EventEncodeError("unknown_clock: not valid with last_committed, sequence_number")
        return _AFTER_THE_CLOCK

    def _write_fields(self, out: Builder) -> None:
        """Write the optional fields of 33 and 34, up to the first that is missing."""
        if self.unknown_clock:
            out.raw(self.unknown_clock, "unknown_clock")
        elif self.last_committed is None or self.sequence_number is None:
            return
        else:
            out.data += _CLOCK.pack(_LOGICAL_CLOCK, self.last_committed, self.sequence_number)
        stamp, original = self.immediate_commit_timestamp, self.original_commit_timestamp
        if stamp is None or original is None:
            return
        if stamp == original:
            out.data += stamp.to_bytes(_STAMP_SIZE, "little")
        else:
            out.data += (stamp | _HAS_ORIGINAL_STAMP).to_bytes(_STAMP_SIZE, "little")
            out.data += original.to_bytes(_STAMP_SIZE, "little")
        if self.transaction_length is None:
            return
        out.lenenc(self.transaction_length, "transaction_length")
        version, original = self.immediate_server_version, self.original_server_version
        if version is None or original is None:
            return
        if version == original:
            out.u32(version, "immediate_server_version")
        else:
            out.u32(version | _HAS_ORIGINAL_VERSION, "immediate_server_version")
            out.u32(original, "original_server_version")
        if self.commit_group_ticket is not None:
            out.u64(self.commit_group_ticket, "commit_group_ticket")


_PAIRS: Final = (
    ("original_commit_timestamp", "immediate_commit_timestamp"),
    ("original_server_version", "immediate_server_version"),
)
_AFTER_THE_CLOCK: Final = (
    "immediate_commit_timestamp",
    "original_commit_timestamp",
    "transaction_length",
    "immediate_server_version",
    "original_server_version",
    "commit_group_ticket",
)
_USUAL_ORDER: Final = ("last_committed", "sequence_number", *_AFTER_THE_CLOCK)
_USUAL: Final = attrgetter(*_USUAL_ORDER[:-1])
"""What MySQL 8.0 and later write; the ticket is of an extension."""
_LIMITS: Final = (
    ("flags", 0, 0xFF),
    ("last_committed", -(1 << 63), (1 << 63) - 1),
    ("sequence_number", -(1 << 63), (1 << 63) - 1),
    ("immediate_commit_timestamp", 0, _HAS_ORIGINAL_STAMP - 1),
    ("original_commit_timestamp", 0, _HAS_ORIGINAL_STAMP - 1),
    ("transaction_length", 0, (1 << 64) - 1),
    ("immediate_server_version", 0, _HAS_ORIGINAL_VERSION - 1),
    ("original_server_version", 0, _HAS_ORIGINAL_VERSION - 1),
    ("commit_group_ticket", 0, (1 << 64) - 1),
    ("last_needed", 0, 12),
)
"""The allowed values of the fields."""
_LIMITED: Final = attrgetter(*(each for each, _, _ in _LIMITS))
_REQUIRED: Final = frozenset({"flags", "last_needed"})
"""Those of them that are never None."""


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


def _read_message(event: GtidEvent, body: bytes) -> None:
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


def _write_message(event: GtidEvent, uuid: bytes, tag: str, gno: int) -> bytes:
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
    for number in range(_LAST + 1):
        if number == _UUID:
            out.data += write_unsigned(number) + b"".join(map(write_unsigned, uuid))
        elif number == _TAG:
            out.data += write_unsigned(number) + write_unsigned(len(tag)) + tag.encode()
        else:
            name, signed = _FIELDS[number]
            if values[name] is not None:
                write = write_signed if signed else write_unsigned
                out.data += write_unsigned(number) + write(values[name])
    out.data += _checked_rest(event.unknown_fields)
    return write_message(_VERSION, out.done())


@lru_cache(maxsize=256)
def _checked_uuid(uuid: str, tag: str) -> bytes:
    """A GTID's UUID as bytes. Raises EventEncodeError, also for the tag."""
    check_tsid(uuid, tag, "gtid")
    return bytes.fromhex(uuid.replace("-", ""))


def check_tsid(uuid: str, tag: str, what: str) -> None:
    """Raise EventEncodeError for a UUID or a tag that is not in the form of logs."""
    try:
        good = parse_uuid(uuid) == uuid and (tag == "" or parse_tag(tag) == tag)
    except (GtidError, AttributeError) as error:
        raise EventEncodeError(f"{what}: {error}") from None
    if not good:
        raise EventEncodeError(f"{what}: {uuid!r} and tag {tag!r} are not in their plain form")


class PreviousGtidsEvent(Event, types=(EventType.PREVIOUS_GTIDS,)):
    """PREVIOUS_GTIDS (35): the GTIDs of all earlier files.

    ``tagged`` says whether the set is stored in the form that has tags; MySQL 9.7 uses it for
    some sets without any. `make` uses it for sets with tags as well.
    """

    FIELDS = ("gtids",)
    MADE_OF: ClassVar[Mapping[str, Any]] = {"gtids": REQUIRED}

    tagged: bool = field(default=False)

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: a GTID set; the eighth byte is 1 in the form with tags."""
        self.tagged = self.body[7:8] == b"\1"

    def carried(self, changes: Mapping[str, Any], /) -> dict[str, Any]:
        """All fields; another set has its own form."""
        fields = super().carried(changes)
        if "gtids" in changes:
            fields.pop("tagged", None)
        return fields

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The set's binary form."""
        gtids = made(self.gtids, GtidSet, "gtids")
        for (uuid, tag), runs in gtids.sources.items():
            check_tsid(uuid, tag, "gtids")
            for start, end in runs:
                integer(start, "gtids", 1, GNO_END - 1)
                integer(end, "gtids", start + 1, GNO_END)
        return gtids.encode(tagged=made(self.tagged, bool, "tagged"))

    @lazy
    def gtids(self) -> GtidSet:
        """The set, which must not be changed; `GtidSet.copy` gives a copy of your own."""
        try:
            return GtidSet.decode(self.body)
        except GtidError as error:
            raise EventDecodeError(str(error)) from None
