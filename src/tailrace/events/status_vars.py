"""The status variables of a query event: the state of its session (facts sheet 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import EventEncodeError
from tailrace.events.fields import Builder, Cursor, integer, member, name, parts, text
from tailrace.events.layout import U8, U16, U24, U32, U64, Repeated, Text, TupleOf, Unsigned

if TYPE_CHECKING:
    from tailrace.events.layout import Codec

_TOO_MANY_DATABASES: Final = 254
_ALTER_ENDS: Final = 0x0C  # GTID flags: a COMMIT ALTER or ROLLBACK ALTER
_MOST_BYTES: Final = 0xFFFF
_VARIABLE: Final = "a status variable"


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
    (AUTO_INCREMENT: increment, offset; CHARSET: client, connection and server collation ids;
    INVOKER: user, host; UPDATED_DB_NAMES: the names, None for too many; GTID_FLAGS3: flags,
    sequence number or None; CHARACTER_SET_COLLATIONS: pairs of ids). ``unparsed`` holds the bytes
    from the first unknown code on: the format gives no length to skip it.
    """

    values: Mapping[StatusVariable, Any]
    unparsed: bytes


class _CatalogCodec:
    """A name, and a zero byte."""

    def read(self, cursor: Cursor, what: str) -> str:
        said: str = _NAME.read(cursor, what)
        cursor.skip(1, "a name's zero byte")
        return said

    def write(self, out: Builder, value: Any, what: str) -> None:
        _NAME.write(out, value, what)
        out.zeros(1)


class _DatabasesCodec:
    """Names, each ended by a zero byte, after their number; None for too many."""

    def read(self, cursor: Cursor, _what: str) -> tuple[str, ...] | None:
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

    def write(self, out: Builder, value: Any, what: str) -> None:
        if value is None:
            out.u8(_TOO_MANY_DATABASES, what)
            return
        names = parts(value, None, what)
        out.u8(integer(len(names), what, 0, _TOO_MANY_DATABASES - 1), what)
        for each in names:
            out.raw(name(each, what) + b"\0", what)


class _GtidFlagsCodec:
    """Flags, and the ALTER's sequence number if they announce it (else None)."""

    def read(self, cursor: Cursor, _what: str) -> tuple[int, int | None]:
        flags = cursor.u8("GTID flags")
        return flags, cursor.u64("the ALTER's sequence number") if flags & _ALTER_ENDS else None

    def write(self, out: Builder, value: Any, what: str) -> None:
        flags, seq_no = parts(value, 2, what)
        out.u8(flags, what)
        if bool(flags & _ALTER_ENDS) != (seq_no is not None):
            raise EventEncodeError(f"{what}: flags {flags:#04x} and sequence number {seq_no}")
        if seq_no is not None:
            out.u64(seq_no, what)


_V = StatusVariable
_U16: Final = U16, _VARIABLE
_NAME: Final = Text(U8, "a name's length", 0xFF)
_CODECS: Final[dict[int, tuple[Codec, str]]] = {
    _V.FLAGS2: (U32, _VARIABLE),
    _V.SQL_MODE: (U64, _VARIABLE),
    _V.CATALOG: (_CatalogCodec(), "a name"),
    _V.AUTO_INCREMENT: (TupleOf((_U16, _U16)), _VARIABLE),
    _V.CHARSET: (TupleOf((_U16, _U16, _U16)), _VARIABLE),
    _V.TIME_ZONE: (_NAME, "a name"),
    _V.CATALOG_NZ: (_NAME, "a name"),
    _V.LC_TIME_NAMES: (U16, _VARIABLE),
    _V.CHARSET_DATABASE: (U16, _VARIABLE),
    _V.TABLE_MAP_FOR_UPDATE: (U64, _VARIABLE),
    _V.MASTER_DATA_WRITTEN: (U32, _VARIABLE),
    _V.INVOKER: (TupleOf(((_NAME, "a name"), (_NAME, "a name"))), "a name"),
    _V.UPDATED_DB_NAMES: (_DatabasesCodec(), _VARIABLE),
    _V.MICROSECONDS: (U24, _VARIABLE),
    _V.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: (U8, _VARIABLE),
    _V.DDL_LOGGED_WITH_XID: (U64, _VARIABLE),
    _V.DEFAULT_COLLATION_FOR_UTF8MB4: (U16, _VARIABLE),
    _V.SQL_REQUIRE_PRIMARY_KEY: (U8, _VARIABLE),
    _V.DEFAULT_TABLE_ENCRYPTION: (U8, _VARIABLE),
    _V.ENABLE_CASCADE_TRIGGERS: (U8, _VARIABLE),
    _V.HRNOW: (U24, _VARIABLE),
    _V.XID: (U64, _VARIABLE),
    _V.GTID_FLAGS3: (_GtidFlagsCodec(), _VARIABLE),
    _V.CHARACTER_SET_COLLATIONS: (
        Repeated(
            U8, "the number of collations", TupleOf(((U16, "a charset"), (U16, "a collation")))
        ),
        _VARIABLE,
    ),
}
"""How each variable is stored, and what errors in reading call it."""
_READERS: Final = {
    int(code): (_V(code), codec.size if isinstance(codec, Unsigned) else 0, codec.read, what)
    for code, (codec, what) in _CODECS.items()
}


def parse_status(body: bytes, start: int, end: int) -> StatusVariables:
    """The status variables in ``body[start:end]``, in any order. Raises EventDecodeError."""
    cursor = Cursor(body, start, end)
    values: dict[StatusVariable, Any] = {}
    while cursor.pos < cursor.end:
        known = _READERS.get(body[cursor.pos])
        if known is None:
            break
        cursor.pos += 1
        code, size, read, what = known
        end = cursor.pos + size
        if size and end <= cursor.end:  # a number
            values[code] = int.from_bytes(body[cursor.pos : end], "little")
            cursor.pos = end
        else:
            values[code] = read(cursor, what)
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
        if code not in _CODECS:
            raise EventEncodeError(f"status: no server writes {code.name}")
        out.u8(code, "status")
        _CODECS[code][0].write(out, value, f"status, {code.name}")
    out.raw(status.unparsed, "status")
    if len(out) > _MOST_BYTES:
        raise EventEncodeError(f"status: {len(out)} bytes, the format holds {_MOST_BYTES}")
    return out.done()
