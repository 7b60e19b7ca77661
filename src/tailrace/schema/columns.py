"""A column definition of CREATE or ALTER TABLE, and the column that it defines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import EventDecodeError
from tailrace.schema.foreign_keys import parse_references
from tailrace.schema.tokens import Kind, SqlMode
from tailrace.values.charsets import BINARY, charset_of, decode, holds, longest_character
from tailrace.values.registry import NAMES
from tailrace.values.schema import ColumnDefinition, Logical

if TYPE_CHECKING:
    from tailrace.schema.foreign_keys import ForeignKey
    from tailrace.schema.session import StatementSession
    from tailrace.schema.tokens import TokenCursor


@dataclass(frozen=True, slots=True)
class WrittenType:
    """A type as written, with synonyms resolved.

    ``base`` is the server's name of it (``int``, ``varchar``, ``mediumtext``), ``arguments`` the
    contents of its parentheses, ``members`` the names of ENUM and SET (as bytes in their character
    set where the statement has a literal of bytes). ``charset`` and
    ``collation`` are names, if given, ``binary`` the BINARY attribute.
    """

    base: str
    arguments: tuple[int, ...] = ()
    members: tuple[str | bytes, ...] | None = None
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
    maxdb = bool(session.sql_mode & SqlMode.MAXDB)
    schema = cursor.accept_any(*_SCHEMAS)
    if schema:
        cursor.expect(".")
        oracle, maxdb = schema == "ORACLE_SCHEMA", schema == "MAXDB_SCHEMA"
    if cursor.token.kind is not Kind.WORD:
        cursor.fail("a column type is expected")
    word = cursor.next().key
    written = _phrase(cursor, word, session) or _single(cursor, word, session)
    if written is None:
        cursor.at -= 1
        raise cursor.error("unknown column type")
    if oracle and word in {"DATE", "NUMBER"}:
        return _of_oracle(written)
    return replace(written, base="datetime") if maxdb and word == "TIMESTAMP" else written


_SCHEMAS: Final = ("MARIADB_SCHEMA", "MYSQL_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA")
"""What may precede a type in MariaDB: whose type of that name is meant."""


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
        if not cursor.accept_any("VARCHAR", "VARCHARACTER") and cursor.ahead().key == "VARYING":
            cursor.accept_any("CHAR", "CHARACTER")
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
    arguments = _arguments(cursor) or known.numbers
    no_size = not any(arguments) if known.name in {"decimal", "bit"} else known.name in _UNSIZED
    if no_size:
        arguments = ()  # DECIMAL(0) and INET6(6), as if none was given
    return WrittenType(known.name, arguments, logical=known.logical)


_UNSIZED: Final = frozenset({"inet4", "inet6", "uuid"})


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


def _members(cursor: TokenCursor) -> tuple[str | bytes, ...]:
    """The names of an ENUM or SET."""
    cursor.expect("(")
    members = []
    while True:
        members.append(cursor.member())
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(members)


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column as written, before its table's defaults are applied."""

    name: str
    type: WrittenType
    nullable: bool = True
    primary: bool = False
    unique: bool = False
    versioned: bool = False
    """WITH SYSTEM VERSIONING (MariaDB) is given: it makes the whole table versioned."""
    visible: bool = True
    generated: bool = False
    stored: bool = False
    """STORED or PERSISTENT is given: a generated column that the table stores."""
    compressed: bool = False
    references: ForeignKey | None = None
    """REFERENCES follows the column, and the server takes it as a foreign key.

    MariaDB does. MySQL before 9.0 ignores it, and from 9.6 on it logs what foreign keys do.
    """

    def define(self, outer: int | None, session: StatementSession) -> ColumnDefinition:
        """The column in a table with the default collation ``outer`` (None: unknown)."""
        written = self.type
        base, collation = written.base, None
        logical = written.logical
        if base in WITH_CHARSET:
            collation = session.choose(written.charset, written.collation, outer)
            if written.binary and written.collation is None:
                collation = session.binary_of(collation)
            base = _sized(base, written.arguments, collation, session)
            base = as_binary(base) if collation == BINARY else base
        elif base in {"blob", "varbinary"}:
            base = _sized(base, written.arguments, BINARY, session)
        if base in BINARY_TYPES:
            logical, collation = Logical.BINARY, BINARY
        elif base in TEXTUAL and logical is Logical.PLAIN:
            logical = Logical.TEXT
        members = written.members
        members = None if members is None else _stored(members, collation)
        return ColumnDefinition(
            name=self.name,
            declared=_declared(base, written, members),
            unsigned=written.unsigned,
            collation=collation,
            members=members,
            logical=logical,
            nullable=self.nullable and not self.primary,
            visible=self.visible,
            generated=self.generated,
            compressed=self.compressed,
        )


_BYTES: Final = (255, 65535, 16777215)


def as_binary(base: str) -> str:
    """The type that a text type becomes with CHARACTER SET binary."""
    if base in TEXTS:
        return BLOBS[TEXTS.index(base)]
    return {"char": "binary", "varchar": "varbinary"}.get(base, base)


def widened(declared: str, old: int | None, new: int | None) -> str:
    """The larger TEXT type that CONVERT TO CHARACTER SET needs for the same number of
    characters.
    """
    if declared not in TEXTS[:3] or old is None or new is None:
        return declared
    characters = _BYTES[TEXTS.index(declared)] // longest_character(old)
    wanted = fitting(TEXTS, characters * longest_character(new))
    return max(declared, wanted, key=TEXTS.index)


def fitting(family: tuple[str, ...], size: int) -> str:
    """The smallest of the four BLOB or TEXT types that holds this many bytes."""
    return family[sum(size > most for most in _BYTES)]


def _sized(
    base: str, arguments: tuple[int, ...], collation: int | None, session: StatementSession
) -> str:
    """TEXT(n) and BLOB(n) are the smallest type for n characters (MariaDB: 0 counts as absent).

    So is a VARCHAR or VARBINARY that is longer than a row may be (without a strict ``sql_mode``).
    """
    if base not in {"text", "blob", "varchar", "varbinary"} or not arguments:
        return base
    if not arguments[0] and session.flavour is Flavour.MARIADB:
        return base
    binary = base in {"blob", "varbinary"}
    size = arguments[0] * (1 if binary else longest_character(collation or BINARY))
    if base.startswith("var") and size <= _LONGEST[session.flavour]:
        return base
    return fitting(BLOBS if binary else TEXTS, size)


_LONGEST: Final = {Flavour.MYSQL: 65535, Flavour.MARIADB: 65532}
"""Maximum bytes of a VARCHAR."""


def _stored(members: tuple[str | bytes, ...], collation: int | None) -> tuple[str, ...] | None:
    """The names of an ENUM or SET as a server stores them; None if that is unknown.

    Trailing spaces are removed, unless the names are binary. A character that is not in the
    character set becomes a question mark.
    """
    charset = None if collation is None else charset_of(collation)
    names: list[str] = []
    for name in members:
        if isinstance(name, str):
            shown = (
                name if charset is None else "".join(c if holds(charset, c) else "?" for c in name)
            )
        elif charset is None:
            return None
        else:
            width = 2 if charset in {"ucs2", "utf16", "utf16le"} else 4 if charset == "utf32" else 1
            try:
                shown = decode(charset, bytes(-len(name) % width) + name)
            except EventDecodeError:
                return None
        names.append(shown if collation == BINARY else shown.rstrip(" "))
    return tuple(names)


def reinterpreted(column: ColumnDefinition, collation: int | None) -> ColumnDefinition:
    """An ENUM or SET column after CONVERT TO.

    Both servers keep the bytes of its names and read them in the new character set. So only names
    in ASCII stay the same; others become unknown.
    """
    kept = all(
        number is not None and charset_of(number) not in _WIDE
        for number in (column.collation, collation)
    ) and all(name.isascii() for name in column.members or ())
    members = column.members if kept or column.collation == collation else None
    return replace(column, collation=collation, members=members)


_WIDE: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32"})


def _declared(base: str, written: WrittenType, members: tuple[str, ...] | None) -> str:
    """The type as the servers print it."""
    arguments = written.arguments
    if members is not None:
        names = ",".join("'" + name.replace("'", "''") + "'" for name in members)
        return f"{base}({names})"
    if base in TEXTS or base in BLOBS or not arguments:
        shown = _WITHOUT_ARGUMENTS.get(base, base)
    elif base == "decimal" and len(arguments) == 1:
        shown = f"decimal({arguments[0]},0)"
    elif base == "year" or (base in _FRACTIONAL and arguments == (0,)):
        shown = base
    else:
        shown = f"{base}({','.join(map(str, arguments))})"
    return f"{shown} unsigned" if written.unsigned else shown


_FRACTIONAL: Final = frozenset({"time", "datetime", "timestamp"})
_WITHOUT_ARGUMENTS: Final = {
    "decimal": "decimal(10,0)",
    "bit": "bit(1)",
    "char": "char(1)",
    "binary": "binary(1)",
}


def parse_column(cursor: TokenCursor, session: StatementSession) -> WrittenColumn:
    """``name type attributes…``, up to a comma, a parenthesis, FIRST, AFTER or the end.

    Raises `NotUnderstoodError` for an unknown attribute.
    """
    name = cursor.column()
    serial = cursor.sees("SERIAL")
    type_ = parse_type(cursor, session)
    column = WrittenColumn(name, type_, nullable=not serial, unique=serial)
    while not _ends(cursor):
        column = _attribute(cursor, column)
    return column if session.flavour is Flavour.MARIADB else replace(column, references=None)


def _ends(cursor: TokenCursor) -> bool:
    token = cursor.token
    if token.kind is Kind.END or token.key in {",", ")", ";", "FIRST", "AFTER"}:
        return True
    # ADD COLUMN may be followed by table options or partitions without a comma in between.
    return cursor.sees("PARTITION", "BY") or cursor.sees("REMOVE", "PARTITIONING")


def _attribute(cursor: TokenCursor, column: WrittenColumn) -> WrittenColumn:
    """One attribute after a column's type; those that change no value are skipped."""
    type_ = column.type
    key = cursor.next().key
    match key:
        case "UNSIGNED" | "ZEROFILL":
            return replace(column, type=replace(type_, unsigned=True))
        case "CHARACTER" | "CHAR" | "CHARSET" | "ASCII" | "UNICODE" | "BYTE" | "BINARY" | "COLLATE":
            return replace(column, type=_charset(cursor, key, type_))
        case "NOT":
            if cursor.accept("NULL"):
                return replace(column, nullable=False)
            if not cursor.accept_any("ENFORCED", "SECONDARY"):
                cursor.fail("NULL expected")
        case "NULL":
            return replace(column, nullable=True)
        case "AUTO_INCREMENT" | "AUTOINCREMENT":
            return replace(column, nullable=False)
        case "SERIAL":
            cursor.expect("DEFAULT", "VALUE")
            return replace(column, nullable=False, unique=True)
        case "PRIMARY":
            cursor.accept("KEY")
            return replace(column, primary=True)
        case "KEY":
            return replace(column, primary=True)
        case "UNIQUE":
            cursor.accept("KEY")
            return replace(column, unique=True)
        case "WITH":
            cursor.expect("SYSTEM", "VERSIONING")
            return replace(column, versioned=True)
        case "INVISIBLE":
            return replace(column, visible=False)
        case "GENERATED" | "AS":
            if key == "GENERATED":
                cursor.expect("ALWAYS", "AS")
            if not (cursor.accept("ROW", "START") or cursor.accept("ROW", "END")):
                cursor.skip_parentheses()
            return replace(column, generated=True)
        case "STORED" | "PERSISTENT":
            return replace(column, stored=True)
        case "COMPRESSED":
            if cursor.accept("="):
                cursor.next()
            return replace(column, compressed=True)
        case "CHECK" if _checks_json(cursor, column.name):
            cursor.skip_parentheses()
            if type_.base in TEXTUAL:
                return replace(column, type=replace(type_, logical=Logical.JSON))
        case "REFERENCES":
            return replace(column, references=parse_references(cursor, (column.name,)))
        case "CONSTRAINT":
            constraint = "" if cursor.token.key in {"CHECK", "REFERENCES"} else cursor.name()
            if cursor.accept("REFERENCES"):
                references = parse_references(cursor, (column.name,), constraint)
                return replace(column, references=references)
            cursor.expect("CHECK")
            cursor.skip_parentheses()
        case _ if key in _PLAIN_ATTRIBUTES:
            pass
        case _ if key in _ONE_VALUE:
            cursor.accept("=")
            cursor.next()
        case _:
            _clause(cursor, key)
    return column


def _checks_json(cursor: TokenCursor, name: str) -> bool:
    """After CHECK: ``(json_valid(name))``, by which MariaDB itself recognizes its JSON columns."""
    marks = [cursor.ahead(steps).key for steps in (0, 1, 2, 4, 5)]
    named = cursor.ahead(3).value.casefold() == name.casefold()
    return named and marks == ["(", "JSON_VALID", "(", ")", ")"]


_PLAIN_ATTRIBUTES: Final = frozenset({"SIGNED", "VISIBLE", "VIRTUAL", "ENFORCED"})
_ONE_VALUE: Final = frozenset(
    {"COMMENT", "COLUMN_FORMAT", "STORAGE", "SRID", "REF_SYSTEM_ID", "ENGINE_ATTRIBUTE"}
    | {"SECONDARY_ENGINE_ATTRIBUTE"}
)


def _clause(cursor: TokenCursor, key: str) -> None:
    """An attribute of several words that does not affect the column's values."""
    match key:
        case "DEFAULT":
            skip_default(cursor)
        case "ON":
            cursor.expect("UPDATE")
            skip_default(cursor)
        case "CHECK":
            cursor.skip_parentheses()
        case "WITHOUT":
            cursor.expect("SYSTEM", "VERSIONING")
        case _:
            cursor.at -= 1
            if cursor.ahead().key != "=":  # MariaDB's engines have attributes of their own
                cursor.fail("unknown attribute")
            cursor.name()
            cursor.next()
            cursor.next()


def _charset(cursor: TokenCursor, key: str, type_: WrittenType) -> WrittenType:
    match key:
        case "CHARACTER" | "CHAR" | "CHARSET":
            if key != "CHARSET":
                cursor.expect("SET")
            return replace(type_, charset=charset_name(cursor))
        case "ASCII":
            return replace(type_, charset="latin1")
        case "UNICODE":
            return replace(type_, charset="ucs2")
        case "BYTE":
            return replace(type_, charset="binary")
        case "COLLATE":
            return replace(type_, collation=charset_name(cursor))
        case _:
            return replace(type_, binary=type_.base in TEXTUAL | WITH_CHARSET)


def charset_name(cursor: TokenCursor) -> str:
    """The name after CHARACTER SET or COLLATE: a word, a quoted name or a string."""
    cursor.accept("=")
    return cursor.text() if cursor.token.kind is Kind.STRING else cursor.name()


def skip_default(cursor: TokenCursor) -> None:
    """The value of DEFAULT or ON UPDATE: a literal, a call, or an expression in parentheses."""
    cursor.accept_any("+", "-")
    token = cursor.next()
    if token.key == "(":
        cursor.at -= 1
        cursor.skip_parentheses()
    elif token.key == "CASE":
        _skip_case(cursor)
    elif token.key == "{":  # {d'2020-01-01'}, as ODBC writes it
        while not cursor.done and cursor.next().key != "}":
            pass
    elif token.key in {"NEXT", "PREVIOUS"} and cursor.accept("VALUE", "FOR"):
        cursor.qualified()
    elif token.kind is Kind.WORD or token.kind is Kind.NAME:
        while cursor.accept("."):
            cursor.name()
        if cursor.token.key == "(":
            cursor.skip_parentheses()
        elif token.key.startswith("_") and cursor.token.kind is Kind.BYTES:  # _latin1 X'41'
            cursor.next()
    elif token.kind is Kind.MARK or token.kind is Kind.END:
        cursor.at -= token.kind is Kind.MARK
        cursor.fail("a default value is expected")
    while cursor.token.kind is Kind.STRING:  # also after _latin1 and DATE
        cursor.next()


def _skip_case(cursor: TokenCursor) -> None:
    depth = 1
    while depth:
        token = cursor.next()
        if token.kind is Kind.END:
            cursor.fail("CASE without END")
        depth += (token.key == "CASE") - (token.key == "END")
