"""A cursor in a list of tokens, with the few moves of a parser of definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.schema.tokens import Kind, NotUnderstoodError, SqlToken
from tailrace.values.surrogates import in_json

if TYPE_CHECKING:
    from collections.abc import Sequence


class TokenCursor:
    """Examines one token and moves on. The last token is an END token, which is never passed."""

    def __init__(self, tokens: Sequence[SqlToken]) -> None:
        self.tokens = tokens
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
        """An identifier, with or without quotes; surrogates in it are escaped, so it is UTF-8."""
        token = self.token
        if token.kind is not Kind.WORD and token.kind is not Kind.NAME:
            raise self.error("a name is expected")
        self.at += 1
        return in_json(token.value)

    def qualified(self) -> tuple[str | None, str]:
        """``table``, ``database.table`` or (MariaDB) ``.table``: the database, if any, and name."""
        if self.accept("."):
            return None, self.name()
        first = self.name()
        if self.accept("."):
            return first, self.name()
        return None, first

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
        """A whole number."""
        token = self.token
        if token.kind is not Kind.NUMBER or not token.value.isdecimal() or len(token.value) > 20:
            raise self.error("a number is expected")
        self.at += 1
        return int(token.value)

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
