"""MySQL's GTID events: GTID, ANONYMOUS_GTID, GTID_TAGGED, PREVIOUS_GTIDS (facts sheet 2.5)."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError, GtidError
from tailrace.events.base import Event, lazy
from tailrace.events.fields import Cursor
from tailrace.events.serialization import read_signed, read_unsigned
from tailrace.gtid import Gtid, GtidSet, format_uuid
from tailrace.gtid.mysql import GNO_END, parse_tag

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext
    from tailrace.events.header import EventHeader

_SHORT: Final = Struct("<B16sq")  # flags, uuid, gno: all that MySQL 5.6 writes
_CLOCK: Final = Struct("<Bqq")  # its type, last committed, sequence number
_LOGICAL_CLOCK: Final = 2
_STAMP_SIZE: Final = 7
_HAS_ORIGINAL_STAMP: Final = 1 << 55
_HAS_ORIGINAL_VERSION: Final = 1 << 31
_MESSAGE_VERSION: Final = 1


class GtidEvent(Event, types=(EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)):
    """GTID (33), ANONYMOUS_GTID (34), GTID_TAGGED (42): a transaction begins.

    ``flags``: 1 where statements may be logged as such. ``last_committed`` and
    ``sequence_number`` order transactions for parallel appliers (None in logs of 5.6). Commit
    timestamps are in microseconds UTC: ``original`` on the server where the transaction was
    committed first, ``immediate`` on the one that wrote this log. ``transaction_length`` is in
    bytes, this event included. What the log has not is None.
    """

    __slots__ = (
        "commit_group_ticket",
        "flags",
        "gno",
        "immediate_commit_timestamp",
        "immediate_server_version",
        "last_committed",
        "original_commit_timestamp",
        "original_server_version",
        "sequence_number",
        "tag",
        "transaction_length",
        "uuid_bytes",
    )

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

    flags: int
    uuid_bytes: bytes
    tag: str
    gno: int
    last_committed: int | None
    sequence_number: int | None
    immediate_commit_timestamp: int | None
    original_commit_timestamp: int | None
    transaction_length: int | None
    immediate_server_version: int | None
    original_server_version: int | None
    commit_group_ticket: int | None

    def __init__(self, header: EventHeader, body: bytes) -> None:
        super().__init__(header, body)
        self.tag = ""
        self.last_committed = self.sequence_number = None
        self.immediate_commit_timestamp = self.original_commit_timestamp = None
        self.transaction_length = None
        self.immediate_server_version = self.original_server_version = None
        self.commit_group_ticket = None

    def read_body(self, _context: DecodeContext, /) -> None:
        """33 and 34: fixed fields, then optional ones to the end; 42: a serialized message."""
        if self.header.type == EventType.GTID_TAGGED:
            self._read_message(self.body)
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
        """When the transaction was committed where it was committed first, in microseconds UTC."""
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

    def _read_message(self, body: bytes) -> None:
        end = len(body)
        version, pos = read_unsigned(body, 0, end)
        if version != _MESSAGE_VERSION:
            raise EventDecodeError(f"serialization version {version} is not known")
        size, pos = read_unsigned(body, pos, end)
        if size != end:
            raise EventDecodeError(f"the message says it has {size} bytes, here are {end}")
        last_needed, pos = read_unsigned(body, pos, end)
        if last_needed > _LAST_FIELD + 1:
            raise EventDecodeError(
                f"field {last_needed - 1} must be understood and is not known:"
                " a newer Tailrace may know it"
            )
        seen = -1
        while pos < end:
            field, pos = read_unsigned(body, pos, end)
            if field <= seen:
                raise EventDecodeError(f"field {field} comes after field {seen}")
            if field > _LAST_FIELD:
                break  # what a newer server added, and lets us pass over
            seen = field
            pos = self._read_field(field, body, pos, end)
        if not hasattr(self, "gno") or not hasattr(self, "uuid_bytes"):
            raise EventDecodeError("the message holds no GTID")
        if self.original_commit_timestamp is None:
            self.original_commit_timestamp = self.immediate_commit_timestamp
        if self.original_server_version is None:
            self.original_server_version = self.immediate_server_version

    def _read_field(self, field: int, body: bytes, pos: int, end: int) -> int:
        if field == _UUID_FIELD:
            uuid = []
            for _ in range(16):
                byte, pos = read_unsigned(body, pos, end)
                uuid.append(byte)
            if max(uuid) > 0xFF:
                raise EventDecodeError("a byte of the UUID is none")
            self.uuid_bytes = bytes(uuid)
            return pos
        if field == _TAG_FIELD:
            length, pos = read_unsigned(body, pos, end)
            if length > 32 or length > end - pos:
                raise EventDecodeError(f"a tag of {length} bytes")
            try:
                self.tag = parse_tag(body[pos : pos + length].decode("latin-1")) if length else ""
            except GtidError as error:
                raise EventDecodeError(str(error)) from None
            return pos + length
        name, signed = _MESSAGE_FIELDS[field]
        value, pos = (read_signed if signed else read_unsigned)(body, pos, end)
        setattr(self, name, value)
        return pos


_UUID_FIELD: Final = 1
_TAG_FIELD: Final = 3
_MESSAGE_FIELDS: Final = {
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
"""The message's plain fields by id: attribute, and whether it is signed."""
_LAST_FIELD: Final = 11


class PreviousGtidsEvent(Event, types=(EventType.PREVIOUS_GTIDS,)):
    """PREVIOUS_GTIDS (35): the GTIDs of all earlier files."""

    __slots__ = ()

    FIELDS = ("gtids",)

    @lazy
    def gtids(self) -> GtidSet:
        """The set; a copy of one's own is `GtidSet.copy`."""
        try:
            return GtidSet.decode(self.body)
        except GtidError as error:
            raise EventDecodeError(str(error)) from None
