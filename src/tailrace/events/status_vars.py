"""The status variables of a query event: the session's state it ran in (facts sheet 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from tailrace.events.fields import Cursor, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TOO_MANY_DATABASES: Final = 254


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

    ``values`` by code: numbers; text for names; tuples for what has several parts (AUTO_INCREMENT:
    increment, offset; CHARSET: client, connection and server collation ids; INVOKER: user, host;
    UPDATED_DB_NAMES: the names, None for too many; GTID_FLAGS3: flags, sequence number or None;
    CHARACTER_SET_COLLATIONS: pairs of ids). ``unparsed`` holds the bytes from the first code on
    that is not known: the format gives no length to step over it.
    """

    values: Mapping[StatusVariable, Any]
    unparsed: bytes


def _number(size: int) -> Callable[[Cursor], Any]:
    return lambda cursor: cursor.unsigned(size, "a status variable")


def _numbers(*sizes: int) -> Callable[[Cursor], Any]:
    return lambda cursor: tuple(cursor.unsigned(size, "a status variable") for size in sizes)


def _name(cursor: Cursor) -> str:
    return text(cursor.take(cursor.u8("a name's length"), "a name"), "a name")


def _zero_ended_name(cursor: Cursor) -> str:
    name = _name(cursor)
    cursor.skip(1, "a name's zero byte")
    return name


def _invoker(cursor: Cursor) -> tuple[str, str]:
    return _name(cursor), _name(cursor)


def _databases(cursor: Cursor) -> tuple[str, ...] | None:
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


def _gtid_flags3(cursor: Cursor) -> tuple[int, int | None]:
    flags = cursor.u8("GTID flags")
    return flags, cursor.u64("the ALTER's sequence number") if flags & 0x0C else None


def _collation_pairs(cursor: Cursor) -> tuple[tuple[int, int], ...]:
    count = cursor.u8("the number of collations")
    return tuple((cursor.u16("a charset"), cursor.u16("a collation")) for _ in range(count))


_PARSERS: Final[dict[int, Callable[[Cursor], Any]]] = {
    StatusVariable.FLAGS2: _number(4),
    StatusVariable.SQL_MODE: _number(8),
    StatusVariable.CATALOG: _zero_ended_name,
    StatusVariable.AUTO_INCREMENT: _numbers(2, 2),
    StatusVariable.CHARSET: _numbers(2, 2, 2),
    StatusVariable.TIME_ZONE: _name,
    StatusVariable.CATALOG_NZ: _name,
    StatusVariable.LC_TIME_NAMES: _number(2),
    StatusVariable.CHARSET_DATABASE: _number(2),
    StatusVariable.TABLE_MAP_FOR_UPDATE: _number(8),
    StatusVariable.MASTER_DATA_WRITTEN: _number(4),
    StatusVariable.INVOKER: _invoker,
    StatusVariable.UPDATED_DB_NAMES: _databases,
    StatusVariable.MICROSECONDS: _number(3),
    StatusVariable.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: _number(1),
    StatusVariable.DDL_LOGGED_WITH_XID: _number(8),
    StatusVariable.DEFAULT_COLLATION_FOR_UTF8MB4: _number(2),
    StatusVariable.SQL_REQUIRE_PRIMARY_KEY: _number(1),
    StatusVariable.DEFAULT_TABLE_ENCRYPTION: _number(1),
    StatusVariable.ENABLE_CASCADE_TRIGGERS: _number(1),
    StatusVariable.HRNOW: _number(3),
    StatusVariable.XID: _number(8),
    StatusVariable.GTID_FLAGS3: _gtid_flags3,
    StatusVariable.CHARACTER_SET_COLLATIONS: _collation_pairs,
}


def parse_status(body: bytes, start: int, end: int) -> StatusVariables:
    """The status variables in ``body[start:end]``, in any order. Raises EventDecodeError."""
    cursor = Cursor(body, start, end)
    values: dict[StatusVariable, Any] = {}
    while cursor.pos < cursor.end:
        parser = _PARSERS.get(body[cursor.pos])
        if parser is None:
            break
        code = StatusVariable(cursor.u8("a status variable's code"))
        values[code] = parser(cursor)
    return StatusVariables(values, cursor.rest())
