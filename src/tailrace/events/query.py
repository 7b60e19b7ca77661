"""QUERY and MariaDB's QUERY_COMPRESSED: a statement (facts sheet 2.1, 2.8)."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventType, Flavour, QueryFlag
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event, lazy
from tailrace.events.compression import compress, decompress
from tailrace.events.fields import Builder, Cursor, name, statement, text
from tailrace.events.layout import FIXED_REST, REQUIRED, derived, field
from tailrace.events.status_vars import (
    StatusVariable,
    StatusVariables,
    parse_status,
    write_status,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription

_FIXED: Final = Struct("<IIBHH")  # thread, seconds, database's length, error, status's length


class QueryEvent(Event, types=(EventType.QUERY,)):
    """QUERY (2): a statement, its default database and the session's state.

    ``exec_time`` is in seconds. The statement's bytes are in the client's character set
    (`client_collation`), the database's name in UTF-8. For `make`, ``sql`` is text or bytes,
    ``status`` a mapping of `StatusVariable` to values, as `StatusVariables` has them.
    """

    FIELDS: ClassVar[tuple[str, ...]] = (
        "database",
        "sql",
        "thread_id",
        "exec_time",
        "error_code",
        "status",
    )
    MADE_OF: ClassVar[Mapping[str, Any]] = {
        "sql": REQUIRED,
        "status": StatusVariables({}, b""),
    }
    MADE_FROM: ClassVar[Mapping[str, str]] = {"sql": "sql_bytes", "status": "status_variables"}

    thread_id: int = field(default=0)
    exec_time: int = field(default=0)
    error_code: int = field(default=0)
    fixed_rest: bytes = FIXED_REST
    database: str = field(default="")
    _status_at: int = derived()
    _sql_at: int = derived()

    def read_body(self, form: FormatDescription, /) -> None:
        """Layout: the fixed part, status variables, database, zero byte, SQL to the end."""
        self._read_from(_FIXED.size, form)

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The inverse of `read_body`."""
        return self._written()

    def _written(self, fixed: bytes = b"") -> bytes:
        """The body, with ``fixed`` after the fixed part that all statements have."""
        database = name(self.database, "database", 0xFF)
        status = write_status(self.status_variables)
        out = Builder()
        out.u32(self.thread_id, "thread_id")
        out.u32(self.exec_time, "exec_time")
        out.u8(len(database), "database")
        out.u16(self.error_code, "error_code")
        out.u16(len(status), "status")
        out.raw(fixed, "the fixed part")
        FIXED_REST.write(self, out)
        out.raw(status, "status")
        out.raw(database + b"\0", "database")
        out.raw(self._stored_sql(), "sql")
        return out.done()

    def _stored_sql(self) -> bytes:
        return statement(self.sql_bytes, "sql")

    def _read_from(self, rest_at: int, form: FormatDescription) -> None:
        body = self.body
        if len(body) < rest_at:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {rest_at}")
        status_at = rest_at
        self.fixed_rest = b""
        if form.differs:
            cursor = Cursor(body, rest_at)
            FIXED_REST.read(self, cursor)
            status_at = cursor.pos
        self.thread_id, self.exec_time, database_length, self.error_code, status_length = (
            _FIXED.unpack_from(body)
        )
        database_at = status_at + status_length
        sql_at = database_at + database_length + 1
        if sql_at > len(body) or body[sql_at - 1]:
            raise EventDecodeError("status variables and database's name run past the event's end")
        self.database = text(body[database_at : sql_at - 1], "the database's name")
        self._status_at = status_at
        self._sql_at = sql_at

    def check_fields(self) -> None:
        """Decode all fields: of the others none can fail."""
        self._read()
        self.status_variables  # noqa: B018 - it is decoded
        self.sql_bytes  # noqa: B018 - as above

    @property
    def sql_bytes(self) -> bytes:
        """The statement's bytes."""
        return self.body[self._sql_at :]

    @property
    def sql(self) -> str:
        """The statement, read as UTF-8; invalid bytes are shown in hex."""
        return self.sql_bytes.decode(errors="backslashreplace")

    @property
    def status_bytes(self) -> bytes:
        """The status variables as they are stored."""
        return self.body[self._status_at : self._sql_at - 1 - self.body[8]]

    @lazy
    def status_variables(self) -> StatusVariables:
        """The status variables, and the bytes of them that could not be parsed."""
        database_at = self._sql_at - 1 - self.body[8]
        return parse_status(self.body, self._status_at, database_at)

    @property
    def status(self) -> dict[str, Any]:
        """The status variables by name."""
        return {code.name: value for code, value in self.status_variables.values.items()}

    def status_value(self, code: StatusVariable) -> Any:
        """One status variable, or None if the event does not have it."""
        return self.status_variables.values.get(code)

    @property
    def client_collation(self) -> int | None:
        """The collation id of the client's character set, in which the statement is written."""
        charset = self.status_value(StatusVariable.CHARSET)
        return charset[0] if charset else None

    @property
    def explicit_timestamps(self) -> bool | None:
        """``explicit_defaults_for_timestamp`` of the session; None if the log lacks it.

        MySQL has a status variable, MariaDB a flag.
        """
        known = self.status_value(StatusVariable.EXPLICIT_DEFAULTS_FOR_TIMESTAMP)
        if known is None and self.form.flavour is Flavour.MARIADB:
            flags = self.status_value(StatusVariable.FLAGS2)
            known = None if flags is None else flags & QueryFlag.EXPLICIT_DEFAULTS_FOR_TIMESTAMP
        return None if known is None else bool(known)

    @property
    def timestamp_us(self) -> int:
        """The statement's start: microseconds UTC if the log has them, else the second."""
        fraction = self.status_value(StatusVariable.MICROSECONDS)
        if fraction is None:
            fraction = self.status_value(StatusVariable.HRNOW)
        return self.header.timestamp * 1_000_000 + (fraction or 0)


class QueryCompressedEvent(QueryEvent, types=(EventType.QUERY_COMPRESSED,)):
    """QUERY_COMPRESSED (165), MariaDB: a QUERY whose statement is a compressed block."""

    __slots__ = ()

    def _stored_sql(self) -> bytes:
        return compress(super()._stored_sql())

    @lazy
    def sql_bytes(self) -> bytes:
        """The statement's bytes, decompressed."""
        return decompress(self.body, self._sql_at)
