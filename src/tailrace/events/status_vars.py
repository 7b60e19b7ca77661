"""The status variables of a query event: the state of its session (facts sheet 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.errors import EventEncodeError
from tailrace.events.build import Builder, integer, member, name, parts, utf8
from tailrace.events.fields import Cursor, text

if TYPE_CHECKING:
    from collections.abc import Callable

_TOO_MANY_DATABASES: Final = 254
_ALTER_ENDS: Final = 0x0C  # GTID flags: a COMMIT ALTER or ROLLBACK ALTER
_MOST_BYTES: Final = 0xFFFF


class StatusVariable(IntEnum):
    """Codes of status variables; from 128 on MariaDB's own."""

    FLAGS2 = 0
    SQL_MODE = 1
    CATALOG = 2
    AUTO_INCREMENT = 3
    CHARSET = 4
    TIME_ZONE = 5
    CATALOG_NZ = 6
    LC_TIME_NAMES = 7
    CHARSET_DATABASE = 8
    TABLE_MAP_FOR_UPDATE = 9
    MASTER_DATA_WRITTEN = 10
    INVOKER = 11
    UPDATED_DB_NAMES = 12
    MICROSECONDS = 13
    COMMIT_TS = 14
    COMMIT_TS2 = 15
    EXPLICIT_DEFAULTS_FOR_TIMESTAMP = 16
    DDL_LOGGED_WITH_XID = 17
    DEFAULT_COLLATION_FOR_UTF8MB4 = 18
    SQL_REQUIRE_PRIMARY_KEY = 19
    DEFAULT_TABLE_ENCRYPTION = 20
    ENABLE_CASCADE_TRIGGERS = 21
    HRNOW = 128
    XID = 129
    GTID_FLAGS3 = 130
    CHARACTER_SET_COLLATIONS = 131


@dataclass(frozen=True, slots=True)
class StatusVariables:
    """A query's status variables.

    ``values`` by code: numbers; text for names; tuples for variables of several parts
    (AUTO_INCREMENT:
    increment, offset; CHARSET: client, connection and server collation ids; INVOKER: user, host;
    UPDATED_DB_NAMES: the names, None for too many; GTID_FLAGS3: flags, sequence number or None;
    CHARACTER_SET_COLLATIONS: pairs of ids). ``unparsed`` holds the bytes from the first unknown
    code
    on: the format gives no length to skip it.
    """

    values: Mapping[StatusVariable, Any]
    unparsed: bytes


class _Codec(NamedTuple):
    """How a status variable is read and written. The writer raises EventEncodeError."""

    read: Callable[[Cursor], Any]
    write: Callable[[Builder, Any, str], None]


def _number(size: int) -> _Codec:
    return _Codec(
        lambda cursor: cursor.unsigned(size, "a status variable"),
        lambda out, value, what: out.unsigned(value, size, what),
    )


def _numbers(*sizes: int) -> _Codec:
    def read(cursor: Cursor) -> tuple[int, ...]:
        return tuple(cursor.unsigned(size, "a status variable") for size in sizes)

    def write(out: Builder, value: Any, what: str) -> None:
        for number, size in zip(parts(value, len(sizes), what), sizes, strict=True):
            out.unsigned(number, size, what)

    return _Codec(read, write)


def _read_name(cursor: Cursor) -> str:
    return text(cursor.take(cursor.u8("a name's length"), "a name"), "a name")


def _write_name(out: Builder, value: Any, what: str) -> None:
    raw = utf8(value, what, 0xFF)
    out.u8(len(raw), what)
    out.raw(raw, what)


def _read_zero_ended_name(cursor: Cursor) -> str:
    said = _read_name(cursor)
    cursor.skip(1, "a name's zero byte")
    return said


def _write_zero_ended_name(out: Builder, value: Any, what: str) -> None:
    _write_name(out, value, what)
    out.zeros(1)


def _read_invoker(cursor: Cursor) -> tuple[str, str]:
    return _read_name(cursor), _read_name(cursor)


def _write_invoker(out: Builder, value: Any, what: str) -> None:
    for each in parts(value, 2, what):
        _write_name(out, each, what)


def _read_databases(cursor: Cursor) -> tuple[str, ...] | None:
    count = cursor.u8("the number of databases")
    if count == _TOO_MANY_DATABASES:
        return None
    names = []
    for _ in range(count):
        end = cursor.buf.find(b"\0", cursor.pos, cursor.end)
        size = (cursor.end if end < 0 else end) - cursor.pos
        names.append(text(cursor.take(size, "a database's name"), "a database's name"))
        cursor.skip(1, "a database's zero byte")
    return tuple(names)


def _write_databases(out: Builder, value: Any, what: str) -> None:
    if value is None:
        out.u8(_TOO_MANY_DATABASES, what)
        return
    names = parts(value, None, what)
    out.u8(integer(len(names), what, 0, _TOO_MANY_DATABASES - 1), what)
    for each in names:
        out.raw(name(each, what) + b"\0", what)


def _read_gtid_flags3(cursor: Cursor) -> tuple[int, int | None]:
    flags = cursor.u8("GTID flags")
    return flags, cursor.u64("the ALTER's sequence number") if flags & _ALTER_ENDS else None


def _write_gtid_flags3(out: Builder, value: Any, what: str) -> None:
    flags, seq_no = parts(value, 2, what)
    out.u8(flags, what)
    if bool(flags & _ALTER_ENDS) != (seq_no is not None):
        raise EventEncodeError(f"{what}: flags {flags:#04x} and sequence number {seq_no}")
    if seq_no is not None:
        out.u64(seq_no, what)


def _read_collation_pairs(cursor: Cursor) -> tuple[tuple[int, int], ...]:
    count = cursor.u8("the number of collations")
    return tuple((cursor.u16("a charset"), cursor.u16("a collation")) for _ in range(count))


def _write_collation_pairs(out: Builder, value: Any, what: str) -> None:
    out.u8(len(parts(value, None, what)), what)
    for pair in value:
        for number in parts(pair, 2, what):
            out.u16(number, what)


_NAME: Final = _Codec(_read_name, _write_name)
_CODECS: Final[dict[int, _Codec]] = {
    StatusVariable.FLAGS2: _number(4),
    StatusVariable.SQL_MODE: _number(8),
    StatusVariable.CATALOG: _Codec(_read_zero_ended_name, _write_zero_ended_name),
    StatusVariable.AUTO_INCREMENT: _numbers(2, 2),
    StatusVariable.CHARSET: _numbers(2, 2, 2),
    StatusVariable.TIME_ZONE: _NAME,
    StatusVariable.CATALOG_NZ: _NAME,
    StatusVariable.LC_TIME_NAMES: _number(2),
    StatusVariable.CHARSET_DATABASE: _number(2),
    StatusVariable.TABLE_MAP_FOR_UPDATE: _number(8),
    StatusVariable.MASTER_DATA_WRITTEN: _number(4),
    StatusVariable.INVOKER: _Codec(_read_invoker, _write_invoker),
    StatusVariable.UPDATED_DB_NAMES: _Codec(_read_databases, _write_databases),
    StatusVariable.MICROSECONDS: _number(3),
    StatusVariable.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: _number(1),
    StatusVariable.DDL_LOGGED_WITH_XID: _number(8),
    StatusVariable.DEFAULT_COLLATION_FOR_UTF8MB4: _number(2),
    StatusVariable.SQL_REQUIRE_PRIMARY_KEY: _number(1),
    StatusVariable.DEFAULT_TABLE_ENCRYPTION: _number(1),
    StatusVariable.ENABLE_CASCADE_TRIGGERS: _number(1),
    StatusVariable.HRNOW: _number(3),
    StatusVariable.XID: _number(8),
    StatusVariable.GTID_FLAGS3: _Codec(_read_gtid_flags3, _write_gtid_flags3),
    StatusVariable.CHARACTER_SET_COLLATIONS: _Codec(_read_collation_pairs, _write_collation_pairs),
}

_READERS: Final = {int(code): (StatusVariable(code), codec.read) for code, codec in _CODECS.items()}


def parse_status(body: bytes, start: int, end: int) -> StatusVariables:
    """The status variables in ``body[start:end]``, in any order. Raises EventDecodeError."""
    cursor = Cursor(body, start, end)
    values: dict[StatusVariable, Any] = {}
    while cursor.pos < cursor.end:
        known = _READERS.get(body[cursor.pos])
        if known is None:
            break
        cursor.pos += 1
        code, read = known
        values[code] = read(cursor)
    return StatusVariables(values, cursor.rest())


def write_status(status: StatusVariables | Mapping[StatusVariable, Any]) -> bytes:
    """Their bytes, in the order given. Raises EventEncodeError, naming the variable."""
    if not isinstance(status, StatusVariables):
        status = StatusVariables(status, b"")
    if not isinstance(status.values, Mapping):
        raise EventEncodeError(f"status: {status.values!r} is no mapping of status variables")
    out = Builder()
    for key, value in status.values.items():
        code = member(StatusVariable, key, "status")
        codec = _CODECS.get(code)
        if codec is None:
            raise EventEncodeError(f"status: no server writes {code.name}")
        out.u8(code, "status")
        codec.write(out, value, f"status, {code.name}")
    out.raw(status.unparsed, "status")
    if len(out) > _MOST_BYTES:
        raise EventEncodeError(f"status: {len(out)} bytes, the format holds {_MOST_BYTES}")
    return out.done()
