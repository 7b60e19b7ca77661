"""What a format description says about the events after it (facts sheet 1.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Self

from tailrace.constants import ChecksumAlgorithm, EventType, Flavour, event_name
from tailrace.errors import EventDecodeError, UsageError
from tailrace.events.fields import member

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
"""The known post-header sizes of the types whose parsers can skip a longer one."""


STANDARD_VERSIONS: Final = {
    Flavour.MYSQL: "9.7.4",
    Flavour.MARIADB: "11.8.9-MariaDB-log",
}
"""The servers whose layout is used for logs that we write, if no version is given."""
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
"""The sizes of the fixed parts that these servers write (tests/corpus)."""


_VERSION: Final = re.compile(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?", re.ASCII)
_REPLICATION_PREFIX: Final = "5.5.5-"
"""MariaDB's greeting puts it before its version, for old replicas."""


def flavour_of(server_version: str) -> Flavour:
    """The flavour of a server by its version's text, ``11.8.9-MariaDB-log``."""
    return Flavour.MARIADB if "mariadb" in server_version.lower() else Flavour.MYSQL


def version_of(server_version: str) -> tuple[int, int, int] | None:
    """The three numbers that a version's text begins with, the last one 0 if it is missing, as
    servers read it (``do_server_version_split``); None if it does not begin with two.
    """
    if flavour_of(server_version) is Flavour.MARIADB:
        server_version = server_version.removeprefix(_REPLICATION_PREFIX)
    found = _VERSION.match(server_version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """The content of a format description event.

    ``created`` is in seconds UTC; it is not 0 only in the first log after the server's start.
    ``post_headers`` holds the size of each type's fixed part, one byte for each type, from type
    1 on.
    """

    binlog_version: int
    server_version: str
    created: int
    post_headers: bytes
    checksum_algorithm: ChecksumAlgorithm
    flavour: Flavour
    lowers_names: bool = False
    """Whether the server puts names of databases and tables into lower case
    (``lower_case_table_names``). It is not in the event: `LogState` has it."""
    differs: bool = field(init=False, repr=False, compare=False)
    """Whether any fixed part has another size than the known one."""
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
        """The description for a log that is to be written, in the layout of MySQL 9.7 or
        MariaDB 11.8.

        Raises EventEncodeError for an unknown flavour.
        """
        flavour = member(Flavour, flavour, "flavour")
        version = STANDARD_VERSIONS[flavour] if server_version is None else server_version
        fixed = STANDARD_POST_HEADERS[flavour]
        return cls(4, version, created, fixed, checksum_algorithm, flavour)

    def post_header(self, code: int, otherwise: int) -> int:
        """The size of a type's fixed part; ``otherwise`` if the array ends before the type."""
        return self.post_headers[code - 1] if code <= len(self.post_headers) else otherwise

    def other_post_header(self, code: int) -> bool:
        """Whether the fixed part of a type has another size than the known one."""
        known = _POST_HEADERS.get(code)
        return known is not None and self.post_header(code, known) != known

    def extra_post_header(self, code: int) -> int:
        """How many bytes longer the log's fixed part of a type is than the known one.

        Raises EventDecodeError if it is shorter: then fields that are read would be missing.
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
"""Used if no description is known: MySQL's, with each fixed part of the known size."""


def checksum_of(given: ChecksumAlgorithm | str, what: str) -> ChecksumAlgorithm:
    """The checksums that an argument means: ``crc32`` or ``none``, or the member. Raises UsageError
    with the argument's name ``what``.
    """
    for each in (ChecksumAlgorithm.CRC32, ChecksumAlgorithm.NONE):
        if given is each or given == each.name.lower():
            return each
    raise UsageError(f"{what}: {given!r} is neither 'crc32' nor 'none'")
