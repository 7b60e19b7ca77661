"""Splits SQL text into tokens, as the servers' own lexers do; and a cursor over them, with the few
moves of a parser of definitions.

The text of a logged statement is what the client sent. Its meaning depends on the session's
``sql_mode`` (``ANSI_QUOTES``, ``NO_BACKSLASH_ESCAPES``), which the query event carries. Versioned
comments (``/*!80023 INVISIBLE */``) in a log were executed, so their content counts here: in those
that a server skips, it replaces the ``!`` by a space (``sql_lex``).
"""

from __future__ import annotations

import functools
import re
from enum import Enum, IntFlag, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.schema.letter_case import lowered
from tailrace.transaction.statements import COMMENT_REST
from tailrace.values.surrogates import in_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_KEPT: Final = 1 << 13
"""Characters of the longest statement of which anything is kept: programs repeat theirs."""


def quoted_name(identifier: str) -> str:
    """An identifier in backticks, as every ``sql_mode`` reads it."""
    return f"`{identifier.replace('`', '``')}`"


def quoted_table(database: str, table: str) -> str:
    """A table's name with its database, in backticks."""
    return f"{quoted_name(database)}.{quoted_name(table)}"


class SqlMode(IntFlag):
    """The bits of ``sql_mode`` that change how a statement is parsed (the same in both
    flavours).
    """

    NONE = 0
    REAL_AS_FLOAT = 1 << 0
    ANSI_QUOTES = 1 << 2
    ORACLE = 1 << 9
    MAXDB = 1 << 12
    NO_BACKSLASH_ESCAPES = 1 << 20


class Kind(Enum):
    """The kind of a token."""

    WORD = auto()
    """A keyword or an identifier without quotes."""
    NAME = auto()
    """An identifier in quotes."""
    STRING = auto()
    NUMBER = auto()
    BYTES = auto()
    """A hexadecimal or bit literal; the value is its text."""
    MARK = auto()
    """Punctuation and operators, one character each."""
    VARIABLE = auto()
    END = auto()


class SqlToken(NamedTuple):
    """A token: its kind, its value (quotes and escapes resolved) and where it begins.

    ``key`` is the value in upper case for words and marks, and empty for all others, so that a
    quoted name or a string never matches a keyword.
    """

    kind: Kind
    value: str
    key: str
    start: int


class NotUnderstoodError(SchemaError):
    """A statement is not understood; this error is caught inside this package."""


_SINGLE: Final = r"'[^'\\]*+(?:(?:''|\\.)[^'\\]*+)*+'"
_DOUBLE: Final = r'"[^"\\]*+(?:(?:""|\\.)[^"\\]*+)*+"'
_PLAIN_SINGLE: Final = r"'[^']*+(?:''[^']*+)*+'"
_PLAIN_DOUBLE: Final = r'"[^"]*+(?:""[^"]*+)*+"'


@functools.cache
def _token_pattern(*, plain: bool) -> re.Pattern[str]:
    """The pattern of one token; ``plain``: ``sql_mode`` has NO_BACKSLASH_ESCAPES.

    All repeats are possessive: what was read once is not tried again in parts. A failed match reads
    at most as many characters as the token that matches instead. So the time is proportional to the
    text's length, for any text. After a name and its point (``shop.2024_orders``), a name follows.
    The pattern is compiled at its first use: a command that reads a
    log without DDL starts faster.
    """
    single, double = (_PLAIN_SINGLE, _PLAIN_DOUBLE) if plain else (_SINGLE, _DOUBLE)
    return re.compile(
        rf"""
          (?P<space>\s++|--(?=\s|\Z)[^\n]*+|\#[^\n]*+)
        | (?P<versioned>/\*(?P<maria>M)?!(?P<version>\d{{6}}|\d{{5}})?)
        | (?P<comment>/\*)
        | (?P<close>\*/)
        | (?P<point>(?<=[\w$\x80-\U0010ffff])\.)
        | (?P<part>(?<=[\w$\x80-\U0010ffff]\.)[\w$\x80-\U0010ffff]++)
        | (?P<hex>[xX]'[0-9A-Fa-f]*+'|[bB]'[01]*+'
            |0x[0-9A-Fa-f]++(?![\w$\x80-\U0010ffff])|0b[01]++(?![\w$\x80-\U0010ffff]))
        | (?P<number>(?:\d++(?:\.\d*+)?|\.\d++)[eE][+-]?\d++|\d++\.\d*+|\.\d++
            |\d++(?![\w$\x80-\U0010ffff]))
        | (?P<variable>@@?[\w.$]*+)
        | (?P<word>[\w$\x80-\U0010ffff]++)
        | (?P<tick>`[^`]*+(?:``[^`]*+)*+`)
        | (?P<single>{single})
        | (?P<double>{double})
        | (?P<mark>.)
        """,
        re.VERBOSE | re.DOTALL | re.ASCII,
    )


_WITH_BODIES: Final = frozenset({"PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"})


_NAMED: Final = frozenset({"CREATE", "ALTER", "LANGUAGE", *_WITH_BODIES})
_DOLLAR_QUOTED: Final = re.compile(r"AS\s++(\$\w*+\$)", re.IGNORECASE)


@functools.cache
def _one_pattern(*, plain: bool) -> re.Pattern[str]:
    """Matches what certainly belongs to a text's first statement. It stops at a semicolon, and at
    what only tokens can decide. Large values cost it little. ``plain`` is that of `_token_pattern`.
    """
    single, double = (_PLAIN_SINGLE, _PLAIN_DOUBLE) if plain else (_SINGLE, _DOUBLE)
    return re.compile(
        rf"(?:[^;'\"`\#/-]++|{single}|{double}|`[^`]*+(?:``[^`]*+)*+`|--(?=\s|\Z)[^\n]*+|\#[^\n]*+"
        rf"|/\*(?!M?!){COMMENT_REST}|/(?!\*)|-(?!-(?:\s|\Z))|(?!))*+",
        re.DOTALL | re.ASCII,
    )


def is_several(sql: str, flavour: Flavour, sql_mode: int) -> bool:
    """Whether a text is several statements. One that defines a routine, a trigger or an event may
    contain semicolons, inside the blocks of its body, or in MySQL's dollar quotes.

    Raises `NotUnderstoodError` as `tokenize`.
    """
    one = _one_pattern(plain=bool(sql_mode & SqlMode.NO_BACKSLASH_ESCAPES)).match(sql)
    if one is not None and one.end() == len(sql):
        return False
    words: set[str] = set()
    first: list[SqlToken] = []
    tokens = _tokens(sql, flavour, sql_mode)
    for token in tokens:
        key = token.key
        first.append(token)
        if key == ";":
            break
        if key in _NAMED:
            words.add(key)
        if key == "AS" and {"CREATE", "LANGUAGE"} <= words and flavour is Flavour.MYSQL:
            quote = _DOLLAR_QUOTED.match(sql, token.start)
            if quote is not None:
                _, end, rest = sql[quote.end() :].partition(quote[1])
                after = _tokens(rest, flavour, sql_mode)
                return not end or any(each.key != ";" for each in after if each.kind != Kind.END)
    if words & {"CREATE", "ALTER"} and words & _WITH_BODIES:
        every = [*first, *tokens]
        ends_at = _body_end(every, oracle=bool(sql_mode & SqlMode.ORACLE))
        tokens = iter(every[ends_at:])
    return any(token.key != ";" and token.kind is not Kind.END for token in tokens)


_INSIDE: Final = frozenset({".", ",", "(", "=", "@", "SELECT", "WHERE", "AND", "OR", "BY", "ON"})
"""What BEGIN and END are a column's name after."""


def _body_end(tokens: Sequence[SqlToken], *, oracle: bool) -> int:
    """Where the semicolon is that ends the definition of a routine, a trigger or an event.

    Blocks: BEGIN, CASE, IF, LOOP, REPEAT, WHILE and FOR, each up to its END. In sql_mode ORACLE,
    declarations before BEGIN belong to its block, WHILE and FOR to their LOOP's; a package is one.
    """
    open_: list[str] = []
    lead = ""
    for at, token in enumerate(tokens):
        key, before = token.key, tokens[at - 1].key if at else ";"
        lead = lead if before != ";" and lead else key
        if key == ";":
            if not open_:
                return at
        elif key == "END" and before not in _INSIDE:
            if open_:
                open_.pop()
        elif key == "BEGIN" and open_ and open_[-1] == "declares":
            open_[-1] = key
        elif before != "END" and _opens(tokens, at, oracle=oracle):
            open_.append(key)
            lead = ""
        elif oracle and (
            (key in {"AS", "IS"} and lead in {"CREATE", "PROCEDURE", "FUNCTION"})
            or (key == "DECLARE" and (lead == key or before == "ROW"))
        ):
            open_.append("declares")
            lead = "declares"
    return len(tokens)


def _opens(tokens: Sequence[SqlToken], at: int, *, oracle: bool) -> bool:
    """Whether a block begins with a word."""
    following = tokens[at + 1] if at + 1 < len(tokens) else tokens[at]
    match tokens[at].key:
        case "BEGIN":
            named = {"FROM", "UNION", "WHERE", "AS"}
            word = following.kind in {Kind.WORD, Kind.NAME} and following.key not in named
            return word and (at == 0 or tokens[at - 1].key not in _INSIDE)
        case "CASE" | "LOOP":
            return True
        case "REPEAT":
            return following.key != "("
        case "WHILE":
            return not oracle
        case "FOR":
            return not oracle and at + 2 < len(tokens) and tokens[at + 2].key == "IN"
        case "IF":
            return _has_then(tokens, at + 1)
        case _:
            return False


def _has_then(tokens: Sequence[SqlToken], at: int) -> bool:
    """Whether IF is a statement: THEN follows its condition. A function's arguments end before."""
    names = at + (tokens[at].key == "NOT")  # IF EXISTS, IF NOT EXISTS
    if tokens[names].key == "EXISTS" and tokens[names + 1].key != "(":
        return False
    depth = 0
    for token in tokens[at:]:
        key = token.key
        if key in {"(", "CASE"}:
            depth += 1
        elif key == ")" or (key == "END" and depth):
            depth -= 1
        elif not depth and key in {"THEN", ";", "WHEN", "ELSE", "END", ","}:
            return key == "THEN"
        if depth < 0:
            return False
    return False


_COMMENT_MARK: Final = re.compile(r"/\*|\*/")
_ESCAPE: Final = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPE_DOUBLE: Final = re.compile(r'\\(.)|""', re.DOTALL)
_ESCAPES: Final = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}


def tokenize(
    sql: str, flavour: Flavour = Flavour.MYSQL, sql_mode: int = SqlMode.NONE
) -> list[SqlToken]:
    """Split a text into tokens; an END token closes the list.

    The time is proportional to the text's length. Raises `NotUnderstoodError` for a string, name or
    comment that does not end.
    """
    return list(_tokens(sql, flavour, sql_mode))


def _tokens(sql: str, flavour: Flavour, sql_mode: int) -> Iterator[SqlToken]:
    at, end, depth = 0, len(sql), 0
    plain = bool(sql_mode & SqlMode.NO_BACKSLASH_ESCAPES)
    pattern = _token_pattern(plain=plain)
    while at < end:
        match = pattern.match(sql, at)
        if match is None:  # the pattern's last branch takes any character
            raise NotUnderstoodError(f"no token at character {at}")
        kind, text = match.lastgroup or "", match[0]
        start, at = at, match.end()
        if kind == "space":
            continue
        if kind == "comment":
            at = sql.find("*/", at) + 2
            if at < 2:
                raise NotUnderstoodError(f"a comment that begins at character {start} has no end")
        elif kind == "versioned":
            if _executed(text, flavour):
                depth += 1
            else:
                at = _comment_end(sql, at)
        elif kind == "close" and depth:
            depth -= 1
        elif kind == "close":
            at = start + 1
            yield SqlToken(Kind.MARK, "*", "*", start)
        else:
            yield _token(kind, text, start, plain, sql_mode)
    yield SqlToken(Kind.END, "", "", end)


def _token(kind: str, text: str, start: int, plain: bool, sql_mode: int) -> SqlToken:
    match kind:
        case "word" | "part":
            return SqlToken(Kind.WORD, text, text.upper(), start)
        case "mark" | "point":
            if text in "'\"`":
                raise NotUnderstoodError(f"a quotation that begins at character {start} has no end")
            return SqlToken(Kind.MARK, text, text, start)
        case "tick":
            return SqlToken(Kind.NAME, text[1:-1].replace("``", "`"), "", start)
        case "double" if sql_mode & SqlMode.ANSI_QUOTES:
            return SqlToken(Kind.NAME, text[1:-1].replace('""', '"'), "", start)
        case "single" | "double":
            return SqlToken(Kind.STRING, _unescape(text, plain=plain), "", start)
        case "number":
            return SqlToken(Kind.NUMBER, text, "", start)
        case "hex":
            return SqlToken(Kind.BYTES, text, "", start)
        case _:
            return SqlToken(Kind.VARIABLE, text, "", start)


def _unescape(text: str, *, plain: bool) -> str:
    quote, inner = text[0], text[1:-1]
    if plain:
        return inner.replace(quote * 2, quote)
    if "\\" not in inner and quote not in inner:
        return inner
    pattern = _ESCAPE if quote == "'" else _ESCAPE_DOUBLE
    return pattern.sub(
        lambda found: quote if found[1] is None else _ESCAPES.get(found[1], found[1]), inner
    )


def _executed(opener: str, flavour: Flavour) -> bool:
    """Whether a server of this flavour executed what follows this opener.

    MariaDB skips versions 5.7 to 9.x of the plain form, which are meant for MySQL; MySQL skips
    every ``/*M!`` form.
    """
    if opener.startswith("/*M"):
        return flavour is Flavour.MARIADB
    version = opener[3:]
    return not (flavour is Flavour.MARIADB and version and 50700 <= int(version) <= 99999)


def _comment_end(sql: str, at: int) -> int:
    """The end of a skipped comment; nested comments count (``sql_lex``)."""
    depth = 1
    for found in _COMMENT_MARK.finditer(sql, at):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    raise NotUnderstoodError("a comment has no end")


_NUMBER: Final = re.compile(r"(\d{0,20})(?:\d*\.\d*)?")
_BYTES: Final = {"0x": 16, "x'": 16, "0b": 2, "b'": 2}
"""The base of a literal of bytes, by how it begins."""


_AFTER_BMP: Final = re.compile("[^\u0000-\uffff]")


class TokenCursor:
    """Examines one token and moves on. The last token is an END token, which is never passed.

    With ``lowers_names`` the names of databases and tables are as such a server has them
    (`tailrace.schema.letter_case`).
    """

    def __init__(self, tokens: Sequence[SqlToken], *, lowers_names: bool = False) -> None:
        self.tokens = tokens
        self._case = lowered if lowers_names else str
        self.at = 0

    @property
    def token(self) -> SqlToken:
        """The token at the cursor."""
        return self.tokens[self.at]

    @property
    def done(self) -> bool:
        """Whether only semicolons are left."""
        while self.token.key == ";":
            self.at += 1
        return self.token.kind is Kind.END

    def ahead(self, steps: int = 1) -> SqlToken:
        """The token this many steps ahead (END past the end)."""
        return self.tokens[min(self.at + steps, len(self.tokens) - 1)]

    def next(self) -> SqlToken:
        """Return the token at the cursor and move past it."""
        token = self.tokens[self.at]
        if token.kind is not Kind.END:
            self.at += 1
        return token

    def accept(self, *keys: str) -> bool:
        """Move past these keywords if all of them follow in this order."""
        if not self.sees(*keys):
            return False
        self.at += len(keys)
        return True

    def accept_any(self, *keys: str) -> str:
        """Move past one of these keywords and return it; empty if none follows."""
        key = self.token.key
        if key and key in keys:
            self.at += 1
            return key
        return ""

    def sees(self, *keys: str) -> bool:
        """Whether these keywords follow in this order."""
        tokens, at = self.tokens, self.at
        return len(tokens) - at > len(keys) and all(
            tokens[at + step].key == key for step, key in enumerate(keys)
        )

    def expect(self, *keys: str) -> None:
        """Move past these keywords, or raise `NotUnderstoodError`."""
        if not self.accept(*keys):
            self.fail(f"{' '.join(keys)} expected")

    def fail(self, why: str) -> None:
        """Raise `NotUnderstoodError` that quotes the current token."""
        raise self.error(why)

    def error(self, why: str) -> NotUnderstoodError:
        """The error that `fail` raises."""
        here = "at the end" if self.token.kind is Kind.END else f"at {self.token.value!r}"
        return NotUnderstoodError(f"{why} {here}")

    def name(self) -> str:
        """An identifier, with or without quotes, as the server has it: MySQL puts ``?`` for each
        character after U+FFFF, and MariaDB rejects it. Surrogates are escaped, so it is UTF-8.
        """
        token = self.token
        if token.kind is not Kind.WORD and token.kind is not Kind.NAME:
            raise self.error("a name is expected")
        self.at += 1
        return in_json(_AFTER_BMP.sub("?", token.value))

    def qualified(self) -> tuple[str | None, str]:
        """``table``, ``database.table`` or (MariaDB) ``.table``: the database, if any, and name."""
        if self.accept("."):
            return None, self._case(self.name())
        first = self._case(self.name())
        if self.accept("."):
            return first, self._case(self.name())
        return None, first

    def column(self) -> str:
        """A column's name; MariaDB takes ``table.column`` and ``database.table.column``, too."""
        self.accept(".")
        name = self.name()
        while self.accept("."):
            name = self.name()
        return name

    def database(self) -> str:
        """The name of a database."""
        return self._case(self.name())

    def text(self) -> str:
        """A string literal; adjacent literals are one string."""
        token = self.token
        if token.kind is not Kind.STRING:
            raise self.error("a string is expected")
        parts = []
        while self.token.kind is Kind.STRING:
            parts.append(self.next().value)
        return "".join(parts)

    def number(self) -> int:
        """A whole number; the servers ignore a fraction."""
        found = _NUMBER.fullmatch(self.token.value) if self.token.kind is Kind.NUMBER else None
        if found is None:
            raise self.error("a number is expected")
        self.at += 1
        return int(found[1] or 0)

    def member(self) -> str | bytes:
        """The name of a member of an ENUM or SET: a string, or the bytes of a literal."""
        if self.token.kind is not Kind.BYTES:
            return self.text()
        base, digits = _BYTES[self.token.value[:2].lower()], self.next().value[2:].rstrip("'")
        size = -(-len(digits) * (4 if base == 16 else 1) // 8)
        return int(digits or "0", base).to_bytes(size, "big")

    def skip_parentheses(self) -> None:
        """Move past a parenthesis and all that it contains."""
        if self.token.key != "(":
            raise self.error("( expected")
        depth = 0
        while True:
            token = self.next()
            if token.kind is Kind.END:
                raise NotUnderstoodError("a parenthesis has no end")
            if token.key == "(":
                depth += 1
            elif token.key == ")":
                depth -= 1
                if not depth:
                    return

    def query_begins(self) -> bool:
        """Whether a query (SELECT, VALUES, TABLE, WITH; in parentheses or not) follows."""
        steps = 0
        while self.ahead(steps).key == "(":
            steps += 1
        key = self.ahead(steps).key
        if key == "WITH":
            return self.ahead(steps + 1).key not in {"SYSTEM", "PARSER"}
        return key in {"SELECT", "VALUES", "TABLE"}
