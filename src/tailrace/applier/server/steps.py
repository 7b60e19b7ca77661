"""What a server is sent for each change."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tailrace.applier.server.definitions import as_on_replica
from tailrace.constants import ChecksumAlgorithm, Flavour, RowsFlag
from tailrace.errors import UnsupportedType
from tailrace.events import FormatDescriptionEvent
from tailrace.events.description import FormatDescription
from tailrace.generators import StatementLoadQuery
from tailrace.schema.classify import is_temporary
from tailrace.sql.logged import statement_of_query
from tailrace.sql.text import encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events.rows import RowsEvent
    from tailrace.generators import StatementQuery
    from tailrace.sql.statement import Statement

_PLAIN: Final = ChecksumAlgorithm.NONE


@dataclass(frozen=True, slots=True)
class Step:
    """A statement to send, or ``count`` of them. ``ends``: nothing may follow it in its packet, as
    only the server knows where it ends. ``begins``: nothing may be before it, as it needs the
    session's character set, or is ``one``: then the server rejects it if it is several, as it would
    for a replica. ``blocks`` is the file of a LOAD DATA, ``error_code`` the error that it
    ended with. ``row`` is set for a change that fails if it finds no row: which; ``place`` is that
    for the row of the channel. ``guards``: it is a guard of `tailrace.sql.triggers`, whose error
    has the reason in quotes.
    """

    text: bytes
    count: int = 1
    ends: bool = False
    begins: bool = False
    one: bool = False
    blocks: bytes | None = None
    error_code: int = 0
    row: str = ""
    place: str = ""
    guards: bool = False


FAIL: Final = b"(SELECT 1 UNION SELECT 2)"
"""An expression whose evaluation fails."""


def found_one(change: bytes, *, row: str = "", place: str = "") -> Step:
    """An UPDATE or DELETE, and a statement that fails unless it found one row: together, as another
    statement between them would have a count of its own.
    """
    check = b"SET @tailrace_found = IF(ROW_COUNT() = 1, 1, " + FAIL + b")"
    return Step(change + b";\n" + check, count=2, row=row, place=place)


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A statement of the log. ``alone``: it commits by itself."""

    statement: Statement
    flavour: Flavour
    error_code: int
    blocks: bytes | None
    alone: bool

    @classmethod
    def of(
        cls,
        event: StatementQuery,
        blocks: bytes | None,
        flavour: Flavour,
        collation: Callable[[str], str],
    ) -> LoggedStatement:
        """From the accessors of its event; ``flavour`` is that of its source, ``collation`` gives
        the target's collation for one of the source's.
        """
        statement = statement_of_query(event, collation=collation)
        if isinstance(event, StatementLoadQuery):
            statement = replace(statement, sql=_local(event))
        elif (changed := as_on_replica(event, flavour)) is not None:
            statement = replace(statement, sql=changed.decode("utf-8", "surrogateescape"))
        text = event.query_string
        return cls(
            statement,
            flavour,
            event.error_code or 0,
            blocks,
            statement.alone and not is_temporary(text),
        )

    def step(self) -> Step:
        """What is sent after the statements that prepare the session."""
        text = encoded(self.statement.sql)
        may_be_several = b";" in text
        return Step(
            text,
            ends=True,
            begins=may_be_several or not text.isascii(),
            one=may_be_several,
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


class RowsEvents:
    """Rows events for a BINLOG statement, with their table maps.

    All table maps of a statement come before its first rows: there the server opens its tables. It
    passes over the rows of a table that it did not open.
    """

    def __init__(self) -> None:
        self.size = 0
        """Bytes of what is held."""
        self._held = bytearray()
        self._maps: dict[int, bytes] = {}
        self._rows: list[bytes] = []
        self._last: RowsEvent | None = None

    @property
    def inside(self) -> bool:
        """Whether the statement of the last event has not ended."""
        return self._last is not None

    def size_with(self, event: RowsEvent) -> int:
        """What ``size`` is after `add`, at most."""
        return self.size + event.table_map.header.length + event.header.length

    def add(self, event: RowsEvent) -> None:
        """Add an event."""
        self._put_last()
        table = event.table_map
        if table.table_id not in self._maps:
            self._maps[table.table_id] = table.encode(_PLAIN)
            self.size += table.header.length
        self._last = event
        self.size += event.header.length
        if event.stmt_end:
            self._end()

    def _put_last(self) -> None:
        if self._last is not None:
            self._rows.append(self._last.encode(_PLAIN))
            self._last = None

    def _end(self) -> None:
        self._put_last()
        self._held += b"".join((*self._maps.values(), *self._rows))
        self._maps, self._rows = {}, []

    def take(self) -> bytes:
        """The BINLOG statement of what is held, which is nothing then; it ends the statement of the
        last event, whether its source said so or not.
        """
        last = self._last
        if last is not None:
            self._last = last.replace(flags=last.flags | RowsFlag.STMT_END)
            self._end()
        held, self._held, self.size = self._held, bytearray(), 0
        return binlog(held)


def binlog(events: bytes | bytearray) -> bytes:
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
