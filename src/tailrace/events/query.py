"""QUERY and MariaDB's QUERY_COMPRESSED: a statement (facts sheet 2.1, 2.8)."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventType
from tailrace.errors import EventDecodeError
from tailrace.events.base import Event, lazy
from tailrace.events.compression import decompress
from tailrace.events.fields import text
from tailrace.events.status_vars import StatusVariable, StatusVariables, parse_status

if TYPE_CHECKING:
    from tailrace.events.context import DecodeContext

_FIXED: Final = Struct("<IIBHH")  # thread, seconds, database's length, error, status's length


class QueryEvent(Event, types=(EventType.QUERY,)):
    """QUERY (2): a statement, its default database and the session's state.

    ``exec_time`` is in seconds. The statement's bytes are in the client's character set
    (`client_collation`), the database's name in UTF-8.
    """

    __slots__ = ("_sql_at", "_status_at", "database", "error_code", "exec_time", "thread_id")

    FIELDS: ClassVar[tuple[str, ...]] = (
        "database",
        "sql",
        "thread_id",
        "exec_time",
        "error_code",
        "status",
    )

    thread_id: int
    exec_time: int
    error_code: int
    database: str
    _status_at: int
    _sql_at: int

    def read_body(self, context: DecodeContext, /) -> None:
        """Layout: the fixed part, status variables, database, zero byte, SQL to the end."""
        self._read_from(_FIXED.size + context.extra_post_header(self.header.type))

    def _read_from(self, status_at: int) -> None:
        body = self.body
        if len(body) < status_at:
            raise EventDecodeError(f"{len(body)} bytes, the fixed part needs {status_at}")
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

    @property
    def sql_bytes(self) -> bytes:
        """The statement's bytes."""
        return self.body[self._sql_at :]

    @property
    def sql(self) -> str:
        """The statement, read as UTF-8; bytes that are not are shown in hex."""
        return self.sql_bytes.decode(errors="backslashreplace")

    @lazy
    def status_variables(self) -> StatusVariables:
        """The status variables, and what could not be parsed of them."""
        database_at = self._sql_at - 1 - self.body[8]
        return parse_status(self.body, self._status_at, database_at)

    @property
    def status(self) -> dict[str, Any]:
        """The status variables by name."""
        return {code.name: value for code, value in self.status_variables.values.items()}

    def status_value(self, code: StatusVariable) -> Any:
        """One status variable, or None where the event has it not."""
        return self.status_variables.values.get(code)

    @property
    def client_collation(self) -> int | None:
        """The collation id of the client's character set, which the statement is written in."""
        charset = self.status_value(StatusVariable.CHARSET)
        return charset[0] if charset else None

    @property
    def timestamp_us(self) -> int:
        """When the statement began: microseconds UTC where the log has them, else the second."""
        fraction = self.status_value(StatusVariable.MICROSECONDS)
        if fraction is None:
            fraction = self.status_value(StatusVariable.HRNOW)
        return self.header.timestamp * 1_000_000 + (fraction or 0)


class QueryCompressedEvent(QueryEvent, types=(EventType.QUERY_COMPRESSED,)):
    """QUERY_COMPRESSED (165), MariaDB: a QUERY whose statement is a compressed block."""

    __slots__ = ()

    @lazy
    def sql_bytes(self) -> bytes:
        """The statement's bytes, decompressed."""
        return decompress(self.body, self._sql_at)
