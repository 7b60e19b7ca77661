"""What a format description says of the events after it (facts sheet 1.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from tailrace.constants import ChecksumAlgorithm, EventType, Flavour, event_name
from tailrace.errors import EventDecodeError
from tailrace.events.build import member

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


STANDARD_VERSIONS: Final = {
    Flavour.MYSQL: "9.7.4",
    Flavour.MARIADB: "11.8.9-MariaDB-log",
}
"""The servers whose logs ours are laid out like, where no version is given."""
STANDARD_POST_HEADERS: Final = {
    # MySQL 9.7.4: types 1 to 42.
    Flavour.MYSQL: bytes.fromhex(
        "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
    ),
    # MariaDB 10.11 and 11.8: types 1 to 171, none from 42 to 159.
    Flavour.MARIADB: bytes.fromhex(
        "380d000800120004040404120000e400041a08000000080808020000000a0a0a0000000000000a0a0a"
    )
    + bytes(119)
    + bytes.fromhex("041304000d0808080a0a0a"),
}
"""The fixed parts' sizes as these servers write them (tests/corpus)."""


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
        differs = any(map(self.other_post_header, _POST_HEADERS))
        object.__setattr__(self, "differs", differs)
        old = self.post_header(EventType.TABLE_MAP, 8) == 6
        object.__setattr__(self, "table_map_id_size", 4 if old else 6)

    @classmethod
    def of(
        cls,
        flavour: Flavour,
        *,
        server_version: str | None = None,
        created: int = 0,
        checksum_algorithm: ChecksumAlgorithm = ChecksumAlgorithm.CRC32,
    ) -> Self:
        """That of a log that is to be written: as MySQL 9.7 or MariaDB 11.8 lays it out.

        Raises EventEncodeError for a flavour that is none.
        """
        flavour = member(Flavour, flavour, "flavour")
        version = STANDARD_VERSIONS[flavour] if server_version is None else server_version
        fixed = STANDARD_POST_HEADERS[flavour]
        return cls(4, version, created, fixed, checksum_algorithm, flavour)

    def post_header(self, code: int, otherwise: int) -> int:
        """The size of a type's fixed part; ``otherwise`` where the array ends before the type."""
        return self.post_headers[code - 1] if code <= len(self.post_headers) else otherwise

    def other_post_header(self, code: int) -> bool:
        """Whether the fixed part of a type has another size than the known one."""
        known = _POST_HEADERS.get(code)
        return known is not None and self.post_header(code, known) != known

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


NO_FORMAT: Final = FormatDescription(4, "", 0, b"", ChecksumAlgorithm.NONE, Flavour.MYSQL)
"""Where none is known: MySQL's, and each fixed part as it is known."""
