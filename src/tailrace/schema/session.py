"""The session settings that a statement's meaning depends on: modes and default collations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventFlag, Flavour
from tailrace.errors import LogError
from tailrace.events.description import version_of
from tailrace.events.status_vars import StatusVariable
from tailrace.schema.tokens import NotUnderstoodError, SqlMode
from tailrace.transaction.statements import without_start_transaction
from tailrace.values.charsets import charset_of, collation_id, decode, default_collation

if TYPE_CHECKING:
    from tailrace.events.query import QueryEvent

_MARIADB_COMPILED: Final = {"utf8mb3": 33, "ucs2": 35, "utf8mb4": 45, "utf16": 54, "utf32": 60}
"""MariaDB's own defaults, unless ``character_set_collations`` has others (it does from 11.5 on, and
the query event carries it)."""

_HALF_ALTERS: Final = 0x02 | 0x08
"""MariaDB's flags of an ALTER that started, or was rolled back: COMMIT ALTER repeats it."""
_MODES: Final = int(sum(SqlMode))
_THREAD_SPECIFIC: Final = int(EventFlag.THREAD_SPECIFIC)


@dataclass(frozen=True, slots=True)
class StatementSession:
    """The session in which a statement is parsed.

    ``default_collation`` is the collation id of a database of which nothing is known (the session's
    ``collation_server``, in the query event's CHARSET variable); None if that is unknown.
    ``charset_collations`` has the default collation ids, by name, of character sets for which the
    session differs from its flavour (MySQL's ``default_collation_for_utf8mb4``, MariaDB's
    ``character_set_collations``). ``thread_specific`` means that the statement used a temporary
    table (header flag 0x4). ``lowers_names``: names of databases and tables are put into lower case
    (`tailrace.schema.letter_case`).
    """

    flavour: Flavour = Flavour.MYSQL
    default_collation: int | None = None
    sql_mode: int = SqlMode.NONE
    charset_collations: tuple[tuple[str, int], ...] = ()
    thread_specific: bool = False
    lowers_names: bool = False

    def of_charset(self, charset: str) -> int:
        """The default collation of a character set; `NotUnderstoodError` if it does not exist."""
        folded = charset.lower()
        folded = "utf8mb3" if folded == "utf8" else folded
        found = dict(self.charset_collations).get(folded)
        if found is None and self.flavour is Flavour.MARIADB:
            found = _MARIADB_COMPILED.get(folded)
        if found is None:
            found = default_collation(folded, self.flavour)
        if found is None:
            raise NotUnderstoodError(f"{self.flavour} has no character set {charset!r}")
        return found

    def of_name(self, collation: str, charset: str | None = None) -> int:
        """A collation by name; MariaDB's ``uca1400_ai_ci`` is completed by the character set.

        Raises `NotUnderstoodError` if the flavour has no collation of that name.
        """
        found = collation_id(collation, self.flavour)
        if found is None and charset is not None:
            found = collation_id(f"{charset}_{collation}", self.flavour)
        if found is None:
            raise NotUnderstoodError(f"{self.flavour} has no collation {collation!r}")
        return found

    def choose(self, charset: str | None, collation: str | None, outer: int | None) -> int | None:
        """The collation by CHARACTER SET and COLLATE, if given; ``outer`` is the enclosing
        object's.
        """
        if charset is not None and charset.upper() == "DEFAULT":
            charset, outer = None, self._default_of(outer)
        if collation is None or collation.upper() == "DEFAULT":
            return outer if charset is None else self.of_charset(charset)
        context = charset or (None if outer is None else charset_of(outer))
        return self.of_name(collation, context or "utf8mb4")

    def _default_of(self, outer: int | None) -> int | None:
        """CHARACTER SET DEFAULT: MySQL takes the enclosing collation, MariaDB its character
        set's.
        """
        if outer is None or self.flavour is Flavour.MYSQL:
            return outer
        charset = charset_of(outer)
        return _MARIADB_COMPILED.get(charset) or default_collation(charset, self.flavour)

    def binary_of(self, collation: int | None) -> int | None:
        """The ``_bin`` collation of a collation's character set (the BINARY attribute)."""
        if collation is None:
            return None
        return collation_id(f"{charset_of(collation)}_bin", self.flavour) or collation


_session: Final = lru_cache(maxsize=64)(StatementSession)


def is_half(event: QueryEvent) -> bool:
    """Whether it is the first half of MariaDB's two-phase ALTER, or one that was rolled back."""
    flags = event.status_value(StatusVariable.GTID_FLAGS3)
    return flags is not None and bool(flags[0] & _HALF_ALTERS)


def session_of_event(event: QueryEvent, flavour: Flavour) -> tuple[StatementSession | None, str]:
    """The session of a query event, and its statement in the client's character set.

    There is no session for what `is_half` says of: it takes effect when COMMIT ALTER repeats it.
    """
    if is_half(event):
        return None, ""
    status = event.status_variables.values.get
    client, _, server = status(StatusVariable.CHARSET) or (None, None, None)
    overrides: list[tuple[str, int]] = []
    if (utf8mb4 := status(StatusVariable.DEFAULT_COLLATION_FOR_UTF8MB4)) is not None:
        overrides.append(("utf8mb4", utf8mb4))
    for charset, collation in status(StatusVariable.CHARACTER_SET_COLLATIONS) or ():
        overrides.append((charset_of(charset), collation))
    mode = (status(StatusVariable.SQL_MODE) or 0) & _MODES
    specific = event.header.flags & _THREAD_SPECIFIC != 0
    found = _session(flavour, server, mode, tuple(overrides), specific, event.form.lowers_names)
    return found, _text(event, client)


def client_of(event: QueryEvent) -> str:
    """The session that ran a statement, whose temporary tables are its own."""
    return f"{event.header.server_id}:{event.thread_id}"


_GENERATED: Final = re.compile(rb"CREATE (?:OR REPLACE )?TABLE [^\n]*\(\n  `")


_LOGS_XID: Final = (10, 6, 0)
"""MariaDB's first release whose definitions have their XID, except for generated ones."""


def is_generated(event: QueryEvent) -> bool | None:
    """Whether a server generated a statement (``CREATE TABLE … SELECT``, for example): it is UTF-8
    then, whatever the client's character set in the event. None if that cannot be told: a client
    may send the text of SHOW CREATE TABLE. Where both would mean the same, the answer is False.
    """
    raw = event.sql_bytes
    if raw.isascii() or _GENERATED.match(raw) is None:
        return False
    values = event.status_variables.values
    client = (values.get(StatusVariable.CHARSET) or (None,))[0]
    try:
        text = raw.decode()
        if client is None or decode(charset_of(client), raw) == text:
            return False
    except UnicodeDecodeError:
        return False
    except LogError:
        return True
    if event.form.flavour is Flavour.MARIADB:
        since = version_of(event.form.server_version) or (0, 0, 0)
        return True if StatusVariable.XID not in values and since >= _LOGS_XID else None
    return True if without_start_transaction(raw) is not None else None


def _text(event: QueryEvent, collation: int | None) -> str:
    """The statement; as UTF-8 if its character set is unknown or does not fit."""
    raw = event.sql_bytes
    if collation is not None and not raw.isascii() and not is_generated(event):
        try:
            return decode(charset_of(collation), raw)
        except LogError:
            pass
    return event.sql
