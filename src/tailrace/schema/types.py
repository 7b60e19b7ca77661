"""Column types as written, converted to the servers' names for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.schema.tokens import Kind, SqlMode
from tailrace.values.registry import NAMES
from tailrace.values.schema import Logical

if TYPE_CHECKING:
    from tailrace.schema.cursor import TokenCursor
    from tailrace.schema.session import StatementSession


@dataclass(frozen=True, slots=True)
class WrittenType:
    """A type as written, with synonyms resolved.

    ``base`` is the server's name of it (``int``, ``varchar``, ``mediumtext``), ``arguments`` the
    contents of its parentheses, ``members`` the names of ENUM and SET. ``charset`` and
    ``collation`` are names, if given, ``binary`` the BINARY attribute.
    """

    base: str
    arguments: tuple[int, ...] = ()
    members: tuple[str, ...] | None = None
    unsigned: bool = False
    charset: str | None = None
    collation: str | None = None
    binary: bool = False
    logical: Logical = Logical.PLAIN


_NATIONAL: Final = "utf8mb3"
TEXTS: Final = ("tinytext", "text", "mediumtext", "longtext")
BLOBS: Final = ("tinyblob", "blob", "mediumblob", "longblob")
TEXTUAL: Final = frozenset({"char", "varchar", *TEXTS})
"""The types that become another type when their character set is ``binary``."""
WITH_CHARSET: Final = TEXTUAL | {"enum", "set"}
BINARY_TYPES: Final = frozenset({"binary", "varbinary", *BLOBS})


def parse_type(cursor: TokenCursor, session: StatementSession) -> WrittenType:
    """A type with its parentheses; attributes (UNSIGNED, ...) are not read.

    Raises `NotUnderstoodError` for an unknown type.
    """
    oracle = bool(session.sql_mode & SqlMode.ORACLE)
    schema = cursor.accept_any("MARIADB_SCHEMA", "MYSQL_SCHEMA", "ORACLE_SCHEMA")
    if schema:
        cursor.expect(".")
        oracle = schema == "ORACLE_SCHEMA"
    if cursor.token.kind is not Kind.WORD:
        cursor.fail("a column type is expected")
    word = cursor.next().key
    written = _phrase(cursor, word, session) or _single(cursor, word, session)
    if written is None:
        cursor.at -= 1
        raise cursor.error("unknown column type")
    if oracle and word in {"DATE", "NUMBER"}:
        return _of_oracle(written)
    return written


def _phrase(cursor: TokenCursor, word: str, session: StatementSession) -> WrittenType | None:
    """Types of several words."""
    if word in {"CHAR", "CHARACTER"}:
        return _characters(cursor, None)
    if word == "NCHAR":
        return _characters(cursor, _NATIONAL)
    if word == "NVARCHAR":
        return WrittenType("varchar", _arguments(cursor), charset=_NATIONAL)
    if word == "NATIONAL":
        if cursor.accept_any("CHAR", "CHARACTER"):
            return _characters(cursor, _NATIONAL)
        if cursor.accept_any("VARCHAR", "VARCHARACTER"):
            return WrittenType("varchar", _arguments(cursor), charset=_NATIONAL)
        cursor.fail("CHAR or VARCHAR expected")
    if word == "LONG":
        if cursor.accept("VARBINARY"):
            return WrittenType("mediumblob")
        if not cursor.accept_any("VARCHAR", "VARCHARACTER") and cursor.accept_any(
            "CHAR", "CHARACTER"
        ):
            cursor.expect("VARYING")
        return WrittenType("mediumtext")
    if word in {"FLOAT", "FLOAT4", "REAL"}:
        return _float(cursor, word, session)
    return None


def _characters(cursor: TokenCursor, charset: str | None) -> WrittenType:
    """After CHAR, CHARACTER and NCHAR."""
    varying = cursor.accept_any("VARYING", "VARCHAR", "VARCHARACTER")
    base = "varchar" if varying else "char"
    return WrittenType(base, _arguments(cursor), charset=charset)


def _float(cursor: TokenCursor, word: str, session: StatementSession) -> WrittenType:
    """FLOAT(p) is a double from 25 bits on; REAL is one unless ``sql_mode`` has REAL_AS_FLOAT."""
    arguments = _arguments(cursor)
    if word == "REAL":
        single = bool(session.sql_mode & SqlMode.REAL_AS_FLOAT)
        return WrittenType("float" if single else "double", arguments)
    if len(arguments) == 1:
        return WrittenType("float" if arguments[0] <= 24 else "double")
    return WrittenType("float", arguments)


def _single(cursor: TokenCursor, word: str, session: StatementSession) -> WrittenType | None:
    """Types of one word, by the servers' own name of each."""
    if word in {"BOOL", "BOOLEAN"}:
        return WrittenType("tinyint", (1,))
    if word == "SERIAL":
        return WrittenType("bigint", unsigned=True)
    if word in {"ENUM", "SET"}:
        return WrittenType(word.lower(), members=_members(cursor))
    if word == "JSON":
        if session.flavour is Flavour.MYSQL:
            return WrittenType("json", logical=Logical.JSON)
        return WrittenType("longtext", collation="utf8mb4_bin", logical=Logical.JSON)
    known = NAMES.get(word.lower())
    if known is None:
        return None
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    arguments = _arguments(cursor)
    if word == "VECTOR":
        arguments = arguments or (2048,)
    return WrittenType(known.name, arguments, logical=known.logical)


def _of_oracle(written: WrittenType) -> WrittenType:
    """MariaDB's ``sql_mode=ORACLE``: DATE includes a time, NUMBER without digits is a double."""
    if written.base == "date":
        return replace(written, base="datetime")
    return written if written.arguments else replace(written, base="double")


def _arguments(cursor: TokenCursor) -> tuple[int, ...]:
    """``(10)`` or ``(10,2)``; empty if there is no parenthesis."""
    if not cursor.accept("("):
        return ()
    arguments = [cursor.number()]
    if cursor.accept(","):
        arguments.append(cursor.number())
    cursor.accept_any("CHAR", "BYTE")  # VARCHAR2(10 CHAR)
    cursor.expect(")")
    return tuple(arguments)


def _members(cursor: TokenCursor) -> tuple[str, ...]:
    """The names of an ENUM or SET."""
    cursor.expect("(")
    members = []
    while True:
        members.append(cursor.text())
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(members)
