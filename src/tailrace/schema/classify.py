"""The kind of a logged statement, determined from its first words without parsing it."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from tailrace.schema.tokens import (
    LONGEST_KEPT,
    NotUnderstoodError,
    TokenCursor,
    tokenize,
)
from tailrace.transaction.statements import BETWEEN_WORDS


class StatementKind(StrEnum):
    """The kind of a statement, as far as it matters to a reader of rows."""

    CONTROL = "transaction control"
    DDL_TABLE = "table definition"
    """The catalogue must see it: tables, databases and sequences created, altered or dropped."""
    CREATE_SELECT = "table made and filled"
    """``CREATE TABLE … SELECT`` as typed: a new table whose rows are not in the log."""
    DDL_OTHER = "other definition"
    """Users, grants, views, routines, settings, maintenance: it changes no table's columns."""
    DML = "data change"
    """Rows changed by a statement: they are not in the log."""
    UNKNOWN = "unknown"

    @property
    def changes_schema(self) -> bool:
        """Whether the catalogue must see it."""
        return self is _K.DDL_TABLE or self is _K.CREATE_SELECT

    @property
    def changes_rows(self) -> bool:
        """Whether it changes rows without logging their images. (Unknown statements may.)"""
        return self is _K.DML or self is _K.CREATE_SELECT or self is _K.UNKNOWN


_K = StatementKind
_SKIPPED: Final = rf"\(|;|{BETWEEN_WORDS}|(?!)"
_WORD: Final = re.compile(rf"(?:{_SKIPPED})*+([A-Za-z_]\w*+|\Z|.)", re.DOTALL)

_FIRST: Final[dict[str, StatementKind]] = {
    **dict.fromkeys(("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "XA"), _K.CONTROL),
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "REPLACE", "CALL", "DO", "SELECT"), _K.DML),
    **dict.fromkeys(("WITH", "HANDLER", "VALUES", "TABLE"), _K.DML),
    **dict.fromkeys(("TRUNCATE", "CREATE", "ALTER", "DROP", "RENAME"), _K.DDL_TABLE),
    **dict.fromkeys(("GRANT", "REVOKE", "INSTALL", "UNINSTALL", "KILL"), _K.DDL_OTHER),
    **dict.fromkeys(("CHECK", "CHECKSUM", "FLUSH", "OPTIMIZE", "REPAIR"), _K.DDL_OTHER),
    **dict.fromkeys(("RESET", "PURGE", "CHANGE", "STOP", "SHUTDOWN", "USE"), _K.DDL_OTHER),
    **dict.fromkeys(("LOCK", "UNLOCK", "SHOW", "EXPLAIN", "HELP", "CACHE", "SET"), _K.DDL_OTHER),
}
_MAINTENANCE: Final = frozenset({"ANALYZE", "CHECK", "CHECKSUM", "FLUSH", "OPTIMIZE", "REPAIR"})
_DATABASES: Final = frozenset({"DATABASE", "SCHEMA"})
_TABLES: Final = frozenset({"TABLE", "TABLES", "DATABASE", "SCHEMA", "SEQUENCE"})
_OTHERS: Final = frozenset(
    {"AGGREGATE", "ALGORITHM", "DEFINER", "EVENT", "EXTERNAL", "FULLTEXT", "FUNCTION"}
    | {"INDEX", "INSTANCE", "JSON", "LIBRARY", "LOGFILE", "MATERIALIZED", "PACKAGE", "PREPARE"}
    | {"PROCEDURE", "RESOURCE", "ROLE", "SERVER", "SPATIAL", "SQL", "TABLESPACE", "TRIGGER"}
    | {"UNDO", "UNIQUE", "USER", "VECTOR", "VIEW"}
)


def classify(sql: str) -> StatementKind:
    """Determine a statement's kind, in microseconds (a ``CREATE TABLE`` is split into tokens).

    Comments before and between the first words, including versioned ones, make no difference, and
    neither does MariaDB's ``SET STATEMENT … FOR``. An empty statement is `DDL_OTHER`: it changes
    nothing.
    """
    return _kept_kind(sql) if len(sql) <= LONGEST_KEPT else _kind(sql)


def _kind(sql: str) -> StatementKind:
    found = _WORD.match(sql)
    word = found[1].upper() if found else ""
    if not word:
        return _K.DDL_OTHER
    kind = _FIRST.get(word)
    if kind is _K.DML or kind is None:
        return _by_second(sql, word)
    if kind is _K.DDL_TABLE:
        return _definition(sql, word)
    if word == "SET" and _sets_statement(sql):
        inner = _after_set_statement(sql)
        return classify(inner) if inner and not _sets_statement(inner) else _K.UNKNOWN
    if word == "BEGIN" and "NOT" in _words(sql, 2):  # BEGIN NOT ATOMIC: a block of statements
        return _K.UNKNOWN
    return kind


_kept_kind: Final = lru_cache(maxsize=256)(_kind)


def _by_second(sql: str, word: str) -> StatementKind:
    """Statements whose kind depends on the second word."""
    if word not in {"START", "LOAD", "CLONE", "RESTART", "ANALYZE"}:
        return _FIRST.get(word, _K.UNKNOWN)
    second = (*_words(sql, 2), "")[1]
    if word == "START":
        return _K.CONTROL if second == "TRANSACTION" else _K.DDL_OTHER
    if word == "LOAD":
        return _K.DDL_OTHER if second == "INDEX" else _K.DML
    if word == "ANALYZE":  # MariaDB's ANALYZE UPDATE carries out the update
        of_tables = second in {"TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"}
        return _K.DDL_OTHER if of_tables else _K.DML
    return _K.DDL_OTHER


def _definition(sql: str, word: str) -> StatementKind:
    """CREATE, ALTER, DROP, RENAME and TRUNCATE: of tables or of other objects."""
    if word == "TRUNCATE":
        return _K.DDL_TABLE
    words = _words(sql, 6)
    for what in words[1:]:
        if what in _TABLES:
            made = word == "CREATE" and what == "TABLE" and "TEMPORARY" not in words
            return _K.CREATE_SELECT if made and fills_table(sql) else _K.DDL_TABLE
        if what == "INDEX" and word == "DROP":  # it may be the one named PRIMARY
            return _K.DDL_TABLE
        if what in _OTHERS:
            break
    return _K.DDL_OTHER


def of_database(sql: str) -> bool:
    """Whether it creates, alters or drops a database as a whole, and must not be run in one."""
    verb, what = _verb_and_object(sql)
    return verb in {"CREATE", "ALTER", "DROP"} and what in _DATABASES


def is_temporary(sql: str) -> bool:
    """Whether it creates or drops a temporary table or sequence, which commits nothing."""
    verb, what = _verb_and_object(sql)
    return verb in {"CREATE", "DROP"} and what == "TEMPORARY"


def _verb_and_object(sql: str) -> tuple[str, str]:
    """The first word, and the next one, after OR REPLACE; empty if there is none."""
    words = leading_words(sql, 4)
    if words[1:3] == ["OR", "REPLACE"]:
        del words[1:3]
    return (*words, "", "")[0], (*words, "", "")[1]


def changes_nothing(sql: str) -> bool:
    """Whether it changes neither data nor definitions: maintenance of tables, FLUSH, a comment."""
    words = leading_words(sql, 1)
    return classify(sql) is _K.DDL_OTHER and (not words or words[0] in _MAINTENANCE)


def leading_words(sql: str, count: int) -> list[str]:
    """The first words of a statement, at most ``count``, in upper case.

    Comments before and between them do not count, nor does MariaDB's ``SET STATEMENT … FOR``. They
    end before anything that is not a word.
    """
    return _words(_after_set_statement(sql) if _sets_statement(sql) else sql, count)


def _words(sql: str, count: int) -> list[str]:
    """The first words, at most ``count``, in upper case; stops before anything that is not a
    word.
    """
    words: list[str] = []
    at = 0
    while len(words) < count:
        found = _WORD.match(sql, at)
        if found is None or not (found[1][:1].isalpha() or found[1][:1] == "_"):
            break
        words.append(found[1].upper())
        at = found.end()
    return words


_QUERY: Final = re.compile(r"\b(?:select|values|table|with)\b", re.IGNORECASE)


def fills_table(sql: str) -> bool:
    """Whether a ``CREATE TABLE`` takes its rows from a query; queries in the column list don't
    count.

    False for a text that cannot be split into tokens.
    """
    first = _QUERY.search(sql)
    if first is None or _QUERY.search(sql, first.end()) is None:
        return False  # one is CREATE TABLE's own
    try:
        cursor = TokenCursor(tokenize(sql))
        while cursor.next().key not in {"TABLE", ""}:
            pass
        while not cursor.done:
            if cursor.query_begins():
                return True
            if cursor.token.key == "(":
                cursor.skip_parentheses()
            else:
                cursor.next()
    except NotUnderstoodError:
        pass
    return False


def _sets_statement(sql: str) -> bool:
    return _words(sql, 2) == ["SET", "STATEMENT"]


def _after_set_statement(sql: str) -> str:
    """The statement after MariaDB's ``SET STATEMENT … FOR``; empty if there is none.

    If they are nested, it is the statement after the innermost one.
    """
    try:
        cursor = TokenCursor(tokenize(sql))
        while cursor.accept_any("(", ";"):
            pass
        while cursor.accept("SET", "STATEMENT"):
            while not cursor.accept("FOR"):
                if cursor.done:
                    return ""
                if cursor.token.key == "(":
                    cursor.skip_parentheses()
                else:
                    cursor.next()
        return sql[cursor.token.start :]
    except NotUnderstoodError:
        return ""
