"""FORMAT_DESCRIPTION: the layout of the events after it (facts sheet 1.3, 1.4)."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    FILE_FLAGS_AT,
    FLAGS_AT,
    HEADER_SIZE,
    LOG_POS_AT,
    MAGIC,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    Flavour,
)
from tailrace.errors import (
    BadMagic,
    ChecksumMismatch,
    EventDecodeError,
    EventEncodeError,
    LogError,
    TruncatedEvent,
)
from tailrace.events.base import Event
from tailrace.events.description import (
    STANDARD_POST_HEADERS,
    STANDARD_VERSIONS,
    FormatDescription,
    flavour_of,
    version_of,
)
from tailrace.events.fields import Builder, binary, made, member, name, text
from tailrace.events.layout import derived

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.base import LogState


_FIXED: Final = Struct("<H50sIB")  # binlog version, server version, created, header length
_FIXED_SIZE: Final = _FIXED.size
_CREATED_AT: Final = HEADER_SIZE + 52
_AWARE_SINCE: Final = {Flavour.MYSQL: (5, 6, 1), Flavour.MARIADB: (5, 3, 0)}
_MOST_TYPES_UNAWARE: Final = 30  # MySQL 5.5 knew 27 types; a longer array precedes a checksum

_LONGEST_OURS: Final = 48
"""Bytes of the version of a log that has Tailrace's mark: a zero byte and the mark follow."""


def _server(raw: bytes | memoryview) -> tuple[bytes, Flavour, bool]:
    """Version text, flavour, and whether its events may carry checksums, from a whole event."""
    return _aware(bytes(raw[HEADER_SIZE + 2 : HEADER_SIZE + 52]).split(b"\0", 1)[0])


def _aware(version: bytes) -> tuple[bytes, Flavour, bool]:
    """The same, from the version text."""
    text = version.decode("latin-1")
    flavour = flavour_of(text)
    return version, flavour, (version_of(text) or (0, 0, 0)) >= _AWARE_SINCE[flavour]


def frame_end(raw: bytes | memoryview) -> int:
    """Where the body of a whole format description event ends: before its checksum, if it has one.

    The byte with the checksum algorithm belongs to the body.
    """
    size = len(raw)
    aware = _server(raw)[2]
    if size < HEADER_SIZE + _FIXED_SIZE + (1 + CHECKSUM_SIZE if aware else 0):
        raise TruncatedEvent(f"a format description event of {size} bytes is too short")
    return size - CHECKSUM_SIZE if aware else size


def verify(raw: bytes | memoryview, end: int, stored: int) -> None:
    """Compare the checksum of a whole format description event; raises ChecksumMismatch.

    It is computed with the IN_USE flag cleared. A server that writes no checksums still gives this
    event one; but MySQL's sender does not recompute it after it has zeroed ``log_pos``, and old
    MariaDBs did not fill it in.
    """
    clear = marked(raw[:end], in_use=False)
    computed = crc32(clear)
    if computed == stored:
        return
    if clear[-1] == ChecksumAlgorithm.NONE:
        from_file = any(clear[LOG_POS_AT : LOG_POS_AT + 4])
        mariadb = _server(raw)[1] is Flavour.MARIADB
        clear[-1] = ChecksumAlgorithm.CRC32
        was_switched_off = crc32(clear) == stored
        if not was_switched_off and (mariadb or not from_file):
            return
    raise ChecksumMismatch(f"its checksum is {stored:#010x}, that of its bytes {computed:#010x}")


def stamp(raw: bytes | memoryview) -> bytes:
    """The part of a whole event that does not depend on how it is sent.

    It is all but ``log_pos``, flags, ``created`` and the checksum, which senders change (facts
    sheet 4.7): the second in which the file was created, the server, its version.
    """
    whole = bytes(raw)
    rest = whole[_CREATED_AT + 4 : -CHECKSUM_SIZE]
    return whole[:LOG_POS_AT] + whole[HEADER_SIZE:_CREATED_AT] + rest


def file_mark(raw: bytes | memoryview) -> str:
    """A digest of a file's first event by which it is known again, read from a file or a server."""
    return blake2b(stamp(raw), digest_size=8).hexdigest()


def is_by_tailrace(body: bytes | memoryview) -> bool:
    """Whether Tailrace wrote a log, by its first event's body: the mark, or the version that
    earlier releases recorded.
    """
    version = bytes(body[2:52])
    return _has_mark(version) or version.partition(b"\0")[0].endswith(b"-tailrace")


def _has_mark(version: bytes) -> bool:
    return version[49:] == b"T" and 0 in version[:49]


def check_magic(head: bytes, file: str) -> None:
    """Raise BadMagic if the first bytes of a plain file are not a log's."""
    magic = head[: len(MAGIC)]
    if not magic:
        raise BadMagic("the file is empty", file=file, offset=0)
    if magic != MAGIC:
        raise BadMagic(
            f"not a binary log: it begins with {magic.hex(' ').upper()}, a log with"
            f" {MAGIC.hex(' ').upper()}",
            file=file,
            offset=0,
        )


def file_flags(head: bytes | memoryview) -> int:
    """The flags of a log's first event (IN_USE, RELAY_LOG), from the first bytes of its plain file.

    0 if they do not hold the magic and a whole header.
    """
    whole = head[: len(MAGIC)] == MAGIC and len(head) >= len(MAGIC) + HEADER_SIZE
    return head[FILE_FLAGS_AT] if whole else 0


def with_in_use(flags: int, *, in_use: bool) -> int:
    """The first byte of a first event's flags, in a file that is being written or a closed one."""
    return flags | EventFlag.IN_USE if in_use else flags & ~EventFlag.IN_USE


def marked(raw: bytes | memoryview, *, in_use: bool) -> bytearray:
    """The event's bytes as in a file that is being written, or as in a closed one."""
    made = bytearray(raw)
    made[FLAGS_AT] = with_in_use(made[FLAGS_AT], in_use=in_use)
    return made


def first_event(event: Event) -> FormatDescriptionEvent:
    """The same event, which is the first of a log. Raises LogError for another type."""
    if not isinstance(event, FormatDescriptionEvent):
        raise event.error("a log begins with a format description event", LogError)
    return event


class FormatDescriptionEvent(Event, types=(EventType.FORMAT_DESCRIPTION,)):
    """FORMAT_DESCRIPTION (15): the first event of a file. It replaces the context's format.

    An event that is made has the form that MySQL 9.7 or MariaDB 11.8 writes, unless
    ``server_version`` and ``post_headers`` say otherwise; the version decides the flavour. It
    always has a checksum, also in a log whose other events have none, unless the server of that
    version knew no checksums. ``by_tailrace`` says who writes the log.
    """

    FIELDS = (
        "binlog_version",
        "server_version",
        "created",
        "checksum_algorithm",
        "flavour",
        "in_use",
    )
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        "flavour": None,
        "server_version": None,
        "created": 0,
        "checksum_algorithm": ChecksumAlgorithm.CRC32,
        "post_headers": None,
        "binlog_version": 4,
        "by_tailrace": False,
    }
    CHANGES_CONTEXT = True

    description: FormatDescription = derived()

    def read_body(self, _form: FormatDescription, /) -> None:
        """Layout: version u16, server version 50 bytes, created u32, 19, array, [algorithm].

        The version ends with a zero byte. The last of the 50 is zero in every server's log, and
        no server reads it; `by_tailrace` is stored there.
        """
        body = self.body  # frame_end has checked that it holds the fixed part
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

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        flavour: Flavour | None = self.flavour
        version: str | None = self.server_version
        if flavour is None:
            flavour = (
                Flavour.MYSQL if version is None else _aware(name(version, "server_version"))[1]
            )
        flavour = member(Flavour, flavour, "flavour")
        ours = made(self.by_tailrace, bool, "by_tailrace")
        version = STANDARD_VERSIONS[flavour] if version is None else version
        raw = name(version, "server_version", 50)
        if ours and len(raw) > _LONGEST_OURS:
            raise EventEncodeError(
                f"server_version: {len(raw)} bytes; next to the mark of a log that Tailrace writes"
                f" (by_tailrace) only {_LONGEST_OURS} fit"
            )
        _, whose, aware = _aware(raw)
        if whose is not flavour:
            raise EventEncodeError(f"server_version: {version!r} is none of {flavour.value}")
        said: bytes | None = self.post_headers
        fixed = STANDARD_POST_HEADERS[flavour] if said is None else said
        fixed = binary(fixed, "post_headers", 0xFF)
        if not aware and len(fixed) > _MOST_TYPES_UNAWARE:
            types = f"the {len(fixed)} types of post_headers"
            raise EventEncodeError(f"server_version: {version!r} does not go with {types}")
        algorithm = member(ChecksumAlgorithm, self.checksum_algorithm, "checksum_algorithm")
        if algorithm is ChecksumAlgorithm.UNDEFINED:
            raise EventEncodeError("checksum_algorithm: a log's is NONE or CRC32")
        if algorithm and not aware:
            raise EventEncodeError(f"checksum_algorithm: {version!r} knew no checksums")
        if self.binlog_version != 4:
            raise EventEncodeError(f"binlog_version: {self.binlog_version!r} is not 4")
        out = Builder()
        out.u16(4, "binlog_version")
        out.raw(raw.ljust(49, b"\0") + b"T" if ours else raw.ljust(50, b"\0"), "server_version")
        out.u32(self.created, "created")
        out.u8(HEADER_SIZE, "the header's length")
        out.raw(fixed, "post_headers")
        if aware:
            out.u8(algorithm, "checksum_algorithm")
        return out.done()

    @classmethod
    def of(cls, description: FormatDescription, **header: Any) -> Self:
        """The event with this description. ``header`` is as in `make`. Raises EventEncodeError."""
        return cls.make(
            flavour=description.flavour,
            server_version=description.server_version,
            created=description.created,
            checksum_algorithm=description.checksum_algorithm,
            post_headers=description.post_headers,
            binlog_version=description.binlog_version,
            **header,
        )

    def encode(
        self, checksum: ChecksumAlgorithm | None = None, *, log_pos: int | None = None
    ) -> bytes:
        """The whole event. It has the checksum of a closed file, whatever ``checksum`` says."""
        if checksum is None and log_pos is None and self.checksum is not None:
            return super().encode()
        plain = super().encode(ChecksumAlgorithm.NONE, log_pos=log_pos)
        if not _server(plain)[2]:
            return plain
        header = self.header.resized(len(plain) + CHECKSUM_SIZE, log_pos)
        raw = header.encode() + self.body
        return raw + crc32(marked(raw, in_use=False)).to_bytes(CHECKSUM_SIZE, "little")

    @property
    def binlog_version(self) -> int:
        """The format's version: 4."""
        return self.description.binlog_version

    @property
    def header_length(self) -> int:
        """Bytes of the header of each event: 19."""
        return self.body[_FIXED_SIZE - 1]

    @property
    def server_version(self) -> str:
        """The version of the server that wrote the log, such as ``9.7.4``
        or ``11.8.9-MariaDB-log``.
        """
        return self.description.server_version

    @property
    def by_tailrace(self) -> bool:
        """Whether Tailrace wrote the log, and no server."""
        return _has_mark(bytes(self.body[2:52]))

    @property
    def post_headers(self) -> bytes:
        """The size of each type's fixed part, one byte for each type, from type 1 on."""
        return self.description.post_headers

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
        """The server family that wrote the log."""
        return self.description.flavour

    @property
    def in_use(self) -> bool:
        """Whether the file was open when it was read: its server is running, or crashed."""
        return bool(self.header.flags & EventFlag.IN_USE)

    def update(self, context: LogState) -> None:
        """Set a new format. No table map outlives a server, but a statement may continue in the
        next file (relay logs).
        """
        context.format = self.description
        if context.lowers_names:
            context.format = replace(self.description, lowers_names=True)
        context.checksum_algorithm = self.description.checksum_algorithm
        if self.created:
            context.table_maps.clear()
