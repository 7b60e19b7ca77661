"""PyMySQL: what is used of it, its errors as Tailrace's own, and its answers, checked."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import ConnectionLost, MalformedPacket
from tailrace.extras import importing
from tailrace.live.server_errors import server_error

with importing("live", "reading a server"):
    from pymysql import err
    from pymysql.connections import Connection
    from pymysql.constants import CLIENT, CR, ER
    from pymysql.cursors import Cursor, SSCursor
    from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.errors import TailraceError

__all__ = [
    "CLIENT",
    "CR",
    "ER",
    "Connection",
    "Cursor",
    "FieldDescriptorPacket",
    "MysqlPacket",
    "SSCursor",
    "ServerAnswer",
    "err",
    "numbered_error",
    "translated",
]

_LONGEST_NUMBER: Final = 40


def numbered_error(error: err.MySQLError, name: str, *, needs: str = "") -> TailraceError | None:
    """The Tailrace error for one of PyMySQL's that has a number; None if it has none.

    ``name`` is the server's name in errors, ``needs`` as for `server_error`.
    """
    code, text = (*error.args, "", "")[:2]
    if not isinstance(code, int) or not code:
        return None
    sqlstate = getattr(error, "sqlstate", None)
    return server_error(code, sqlstate, str(text), name, needs=needs)


@contextmanager
def translated(name: str, *, needs: str = "") -> Iterator[None]:
    """Raise PyMySQL's errors inside as Tailrace's own; arguments as for `numbered_error`."""
    try:
        yield
    except err.MySQLError as error:
        own = numbered_error(error, name, needs=needs)
        raise own or ConnectionLost(f"{name}: the connection is gone: {error}") from error


class ServerAnswer:
    """The rows of ``server``'s answer to the query ``asked``, each of ``width`` columns or more.

    Every method raises MalformedPacket where the value is missing or of another kind.
    """

    def __init__(
        self, rows: Sequence[Sequence[Any]], width: int, *, server: str, asked: str
    ) -> None:
        self._rows = rows
        self._server = server
        self._asked = asked
        if any(len(row) < width for row in rows):
            raise self._malformed(f"with a row of fewer than {width} columns")

    def __len__(self) -> int:
        return len(self._rows)

    def text(self, column: int = 0, row: int = 0) -> str:
        """A value that must be text."""
        value = self.text_or_none(column, row)
        if value is None:
            raise self._malformed(f"with NULL in column {column + 1}")
        return value

    def text_or_none(self, column: int = 0, row: int = 0) -> str | None:
        """A value that must be text or NULL."""
        value = self._value(column, row)
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise self._malformed(f"with bytes that are no text: {value[:40]!r}") from None
        return None if value is None else str(value)

    def whole(self, column: int = 0, row: int = 0) -> int:
        """A value that must be a whole number, not negative."""
        text = self.text(column, row)
        if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
            raise self._malformed(f"with {text[:40]!r}, which is no number")
        return int(text)

    def number(self, column: int = 0, row: int = 0) -> float:
        """A value that must be a number."""
        text = self.text(column, row)
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._malformed(f"with {text[:40]!r}, which is no number")
        return number

    def _value(self, column: int, row: int) -> Any:
        if row >= len(self._rows):
            raise self._malformed(f"with {len(self._rows)} rows")
        found = self._rows[row]
        return found[column]

    def _malformed(self, what: str) -> MalformedPacket:
        return MalformedPacket(f"{self._server}: {self._asked} was answered {what}")
