"""FORMAT_DESCRIPTION: how the events after it are laid out (facts sheet 1.3, 1.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    Flavour,
)
from tailrace.errors import ChecksumMismatch, EventDecodeError, TruncatedEvent
from tailrace.events.base import Event, event_name
from tailrace.events.fields import text

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext

_FIXED: Final = Struct("<H50sIB")  # binlog version, server version, created, header length
_FIXED_SIZE: Final = _FIXED.size
_TRIPLE: Final = re.compile(rb"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_AWARE_SINCE: Final = {Flavour.MYSQL: (5, 6, 1), Flavour.MARIADB: (5, 3, 0)}
_MOST_TYPES_UNAWARE: Final = 30  # MySQL 5.5 knew 27 types; a longer array has a checksum behind it
_FLAGS_AT: Final = 17
_LOG_POS_AT: Final = 13
_POST_HEADERS: Final[dict[int, int]] = {
    EventType.QUERY: 13,
    EventType.ROTATE: 8,
    EventType.INTVAR: 0,
    EventType.RAND: 0,
    EventType.USER_VAR: 0,
    EventType.XID: 0,
    EventType.APPEND_BLOCK: 4,
    EventType.DELETE_FILE: 4,
    EventType.BEGIN_LOAD_QUERY: 4,
    EventType.EXECUTE_LOAD_QUERY: 26,
    EventType.INCIDENT: 2,
    EventType.TABLE_MAP: 8,
    EventType.QUERY_COMPRESSED: 13,
}
"""The post-header sizes that we know, of the types whose parsers step over a longer one."""


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """What a format description event says.

    ``created`` is in seconds UTC, and not 0 only in the first log after the server's start.
    ``post_headers`` holds the size of each type's fixed part, a byte a type, from type 1 on.
    """

    binlog_version: int
    server_version: str
    created: int
    post_headers: bytes
    checksum_algorithm: ChecksumAlgorithm
    flavour: Flavour
    differs: bool = field(init=False, repr=False, compare=False)
    """Whether any fixed part is longer or shorter than the known one."""
    table_map_id_size: int = field(init=False, repr=False, compare=False)
    """Bytes of a table id in a table map: 6, or 4 in old logs."""

    def __post_init__(self) -> None:
        fixed = _POST_HEADERS.items()
        differs = any(self.post_header(code, size) != size for code, size in fixed)
        object.__setattr__(self, "differs", differs)
        old = self.post_header(EventType.TABLE_MAP, 8) == 6
        object.__setattr__(self, "table_map_id_size", 4 if old else 6)

    def post_header(self, code: int, otherwise: int) -> int:
        """The size of a type's fixed part; ``otherwise`` where the array ends before the type."""
        return self.post_headers[code - 1] if code <= len(self.post_headers) else otherwise

    def extra_post_header(self, code: int) -> int:
        """By how many bytes the log's fixed part of a type is longer than ours.

        Raises EventDecodeError where it is shorter: fields that we read are not there.
        """
        known = _POST_HEADERS.get(code)
        extra = 0 if known is None else self.post_header(code, known) - known
        if extra < 0:
            raise EventDecodeError(
                f"the log's fixed part of {event_name(code)} is {-extra} bytes shorter than that"
                " of MySQL 5.0: such old logs cannot be read"
            )
        return extra


def _server(raw: bytes | memoryview) -> tuple[bytes, Flavour, bool]:
    """Version text, flavour, and whether its events may carry checksums, from a whole event."""
    version = bytes(raw[HEADER_SIZE + 2 : HEADER_SIZE + 52]).split(b"\0", 1)[0]
    flavour = Flavour.MARIADB if b"mariadb" in version.lower() else Flavour.MYSQL
    match = _TRIPLE.match(version)
    triple = tuple(int(part) for part in match.groups()) if match else (0, 0, 0)
    return version, flavour, triple >= _AWARE_SINCE[flavour]


def frame_end(raw: bytes | memoryview) -> int:
    """Where the body of a whole format description event ends: before its checksum if it has one.

    The checksum algorithm's byte belongs to the body.
    """
    size = len(raw)
    aware = _server(raw)[2]
    if size < HEADER_SIZE + _FIXED_SIZE + (1 + CHECKSUM_SIZE if aware else 0):
        raise TruncatedEvent(f"a format description event of {size} bytes lacks fields")
    return size - CHECKSUM_SIZE if aware else size


def verify(raw: bytes | memoryview, end: int, stored: int) -> None:
    """Compare the checksum of a whole format description event; raises ChecksumMismatch.

    It is computed with the IN_USE flag cleared. A server that writes no checksums still gives this
    event one; but MySQL's sender does not renew it after it has zeroed ``log_pos``, and old
    MariaDBs did not fill it in.
    """
    clear = bytearray(raw[:end])
    clear[_FLAGS_AT] &= ~EventFlag.IN_USE & 0xFF
    computed = crc32(clear)
    if computed == stored:
        return
    if clear[-1] == ChecksumAlgorithm.NONE:
        from_file = any(clear[_LOG_POS_AT : _LOG_POS_AT + 4])
        mariadb = _server(raw)[1] is Flavour.MARIADB
        clear[-1] = ChecksumAlgorithm.CRC32
        was_switched_off = crc32(clear) == stored
        if not was_switched_off and (mariadb or not from_file):
            return
    raise ChecksumMismatch(f"its checksum is {stored:#010x}, that of its bytes {computed:#010x}")


class FormatDescriptionEvent(Event, types=(EventType.FORMAT_DESCRIPTION,)):
    """FORMAT_DESCRIPTION (15): the first event of a file. It replaces the context's format."""

    __slots__ = ("description",)

    FIELDS = (
        "binlog_version",
        "server_version",
        "created",
        "checksum_algorithm",
        "flavour",
        "in_use",
    )
    CHANGES_CONTEXT = True

    description: FormatDescription

    def read_body(self, _context: DecodeContext, /) -> None:
        """Layout: version u16, server version 50 bytes, created u32, 19, array, [algorithm]."""
        body = self.body  # frame_end has seen that it holds the fixed part
        binlog_version, _, created, header_length = _FIXED.unpack_from(body)
        if binlog_version != 4:
            raise EventDecodeError(
                f"binary log format version {binlog_version}: only version 4 (MySQL 5.0 and later)"
                " can be read"
            )
        if header_length != HEADER_SIZE:
            raise EventDecodeError(f"event headers of {header_length} bytes: only 19 is known")
        version, flavour, aware = _server(self.header.encode() + body[:_FIXED_SIZE])
        algorithm = ChecksumAlgorithm.NONE
        post_headers = body[_FIXED_SIZE:]
        if aware:
            if post_headers[-1:] not in {b"\0", b"\1"}:
                raise EventDecodeError(f"checksum algorithm {post_headers[-1:].hex()} is not known")
            algorithm = ChecksumAlgorithm(post_headers[-1])
            post_headers = post_headers[:-1]
        elif len(post_headers) > _MOST_TYPES_UNAWARE:
            raise EventDecodeError(
                f"server version {version!r} does not go with {len(post_headers)} event types"
            )
        self.description = FormatDescription(
            binlog_version,
            text(version, "the server version"),
            created,
            post_headers,
            algorithm,
            flavour,
        )

    @property
    def binlog_version(self) -> int:
        """The format's version: 4."""
        return self.description.binlog_version

    @property
    def server_version(self) -> str:
        """The version of the server that wrote the log, as ``9.7.4`` or ``11.8.9-MariaDB-log``."""
        return self.description.server_version

    @property
    def created(self) -> int:
        """Seconds UTC of the server's start, in the first log after it; else 0."""
        return self.description.created

    @property
    def checksum_algorithm(self) -> ChecksumAlgorithm:
        """Whether the events that follow carry checksums."""
        return self.description.checksum_algorithm

    @property
    def flavour(self) -> Flavour:
        """Whose log it is."""
        return self.description.flavour

    @property
    def in_use(self) -> bool:
        """Whether the file was open when it was read: its server runs, or crashed."""
        return bool(self.header.flags & EventFlag.IN_USE)

    def update(self, context: DecodeContext) -> None:
        """A new format; no table map outlives it."""
        context.format = self.description
        context.checksum_algorithm = self.description.checksum_algorithm
        context.table_maps.clear()
