"""What a server is sent for each change."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tailrace.constants import HEADER_SIZE, ChecksumAlgorithm, RowsFlag
from tailrace.errors import UnsupportedType
from tailrace.events import FormatDescriptionEvent
from tailrace.events.description import FormatDescription
from tailrace.generators import StatementLoadQuery
from tailrace.schema.classify import StatementKind, classify, is_temporary
from tailrace.sql.logged import statement_of_query

if TYPE_CHECKING:
    from tailrace.events.rows import RowsEvent
    from tailrace.generators import StatementQuery
    from tailrace.sql.statement import Statement

_PLAIN: Final = ChecksumAlgorithm.NONE
_LENGTH_AT: Final = 9
"""Where an event's length is in its header."""
_FLAGS_AT: Final = 6
"""Where the flags are in a rows event's body, after its table id."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement to send, or ``count`` of them. ``ends``: nothing may follow it in its packet, as
    only the server knows where it ends. ``begins``: nothing may be before it, as it needs the
    session's character set. ``blocks`` is the file of a LOAD DATA, ``error_code`` the error that it
    ended with.
    """

    text: bytes
    count: int = 1
    ends: bool = False
    begins: bool = False
    blocks: bytes | None = None
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A statement of the log. ``alone``: it commits by itself."""

    statement: Statement
    error_code: int
    blocks: bytes | None
    alone: bool
    creates: bool
    """Whether it is a CREATE TABLE whose rows follow."""

    @classmethod
    def of(cls, event: StatementQuery, blocks: bytes | None) -> LoggedStatement:
        """From the accessors of its event."""
        statement = statement_of_query(event)
        if isinstance(event, StatementLoadQuery):
            statement = replace(statement, sql=_local(event))
        text = event.query_string
        return cls(
            statement,
            event.error_code or 0,
            blocks,
            statement.alone and not is_temporary(text),
            classify(text) is StatementKind.CREATE_SELECT,
        )

    def step(self) -> Step:
        """What is sent after the statements that prepare the session."""
        text = self.statement.text.encode("utf-8", "surrogateescape")
        return Step(
            text,
            ends=True,
            begins=not text.isascii(),
            blocks=self.blocks,
            error_code=self.error_code,
        )


FLUSH: Final = Step(b"")
"""Send what is before it: what comes after depends on its success."""


def _local(event: StatementLoadQuery) -> str:
    """The statement with a file of the client's instead of its own."""
    raw, (start, end) = event.query_bytes, event.file_name_at
    head = raw[:start].rstrip()
    for word in (b"INFILE", b"LOCAL"):
        if head.upper().endswith(word):
            head = head[: -len(word)].rstrip()
    duplicates = {"replace": b" REPLACE", "ignore": b" IGNORE"}.get(event.duplicates or "", b"")
    text = head + b" LOCAL INFILE 'tailrace'" + duplicates + b" INTO" + raw[end:]
    return text.decode("utf-8", "surrogateescape")


def can_be_binlog(event: RowsEvent) -> bool:
    """Whether servers take a rows event in a BINLOG statement: they take no compressed one."""
    return not event.compressed


def rows_event(event: RowsEvent) -> bytes:
    """A rows event with its table map before it."""
    return event.table_map.encode(_PLAIN) + event.encode(_PLAIN)


def ended(events: list[bytes]) -> bytes:
    """Events of which the last ends its statement, whether its source said so or not."""
    last = bytearray(events[-1])
    size = int.from_bytes(last[_LENGTH_AT : _LENGTH_AT + 4], "little")  # of the table map
    last[size + HEADER_SIZE + _FLAGS_AT] |= int(RowsFlag.STMT_END)
    return b"".join((*events[:-1], bytes(last)))


def binlog(events: bytes) -> bytes:
    """The statement that has a server apply events."""
    return b"BINLOG '" + b64encode(events) + b"'"


@lru_cache(maxsize=64)
def description(form: FormatDescription) -> bytes:
    """The statement that tells the server the format of the events after it.

    It has no time of creation, at which a server would end transactions as after a crash.
    """
    plain = FormatDescription(
        form.binlog_version,
        form.server_version,
        0,
        form.post_headers,
        _PLAIN,
        form.flavour,
    )
    return binlog(FormatDescriptionEvent.of(plain).encode())


def too_large(text: bytes, most: int, what: str) -> UnsupportedType:
    """The error for a statement that the target does not take."""
    return UnsupportedType(
        f"{what}: a statement of {len(text):,} bytes is more than the target's max_allowed_packet"
        f" ({most:,}): set it to 1G there"
    )
