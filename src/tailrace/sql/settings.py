"""The session settings that statements need, and the SQL that sets and restores them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour, RowsFlag
from tailrace.schema.tokens import quoted_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Settings = tuple[tuple[str, str], ...]
"""Session variables and their values as SQL."""

OWN: Final = (
    ("character_set_client", "utf8mb4"),
    ("collation_connection", "utf8mb4_general_ci"),
)
"""The character set of all statements of our own. In another one, such as gbk or sjis, a byte of a
UTF-8 character and the quote after it may be one character: what follows in a name would then be
executed. Where no byte of a multi-byte character is ASCII, a quote is always a quote.
"""
_TEXT: Final = frozenset(dict(OWN))
"""The variables that only a logged statement's own bytes are read by."""
_COMMON: Final = (*OWN, ("time_zone", "'+00:00'"))
_STRICT: Final = "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
_LENIENT: Final = "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
_WITHOUT_OLD: Final = {"timestamp": "DEFAULT"}
"""Variables that are not restored to their old value: the clock continues."""


@cache
def of_rows(flavour: Flavour, flags: int, *, lenient: bool, restores: bool = False) -> Settings:
    """The settings for rows: modes that accept every value unchanged, and the checks that were on.

    Foreign key checks are off if the log itself has the keys' effects on other tables. With
    ``restores`` they are also off: the row existed before and may have been inserted without
    checks; for an insert, checks have no other effect. CHECK constraints are off for the same
    reason, where a session can switch them off (MariaDB).
    """
    unchecked = RowsFlag.NO_FOREIGN_KEY_CHECKS | RowsFlag.USE_SQL_FOREIGN_KEY
    settings = (
        ("sql_mode", _LENIENT if lenient else _STRICT),
        *_COMMON,
        ("foreign_key_checks", "0" if restores or flags & unchecked else "1"),
        ("unique_checks", "0" if flags & RowsFlag.RELAXED_UNIQUE_CHECKS else "1"),
    )
    if flavour is Flavour.MYSQL:
        return settings
    return (*settings, ("check_constraint_checks", "0"))


def _changed(now: Mapping[str, str], settings: Settings) -> Iterator[tuple[str, str]]:
    return ((key, value) for key, value in settings if now.get(key) != value)


def difference(now: Mapping[str, str], settings: Settings) -> str:
    """The statement that sets the variables that differ."""
    changed = _changed(now, settings)
    return "SET " + ", ".join(f"@@session.{key} = {value}" for key, value in changed)


class SessionState:
    """A session in which statements are executed: its current and its original settings.

    Between statements it has a character set of our own (`OWN`). Around a logged statement
    `enter_text` and `leave_text` change to that statement's, and back.
    """

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._last: Settings = ()
        self._database: str | None = None

    def change(
        self, settings: Settings, database: str | None, *, logged: bool = False
    ) -> Iterator[str]:
        """The statements that change the session to these settings; ``database`` None: any.

        ``logged``: they are those of a logged statement, whose character set is for `enter_text`.
        """
        if logged:
            settings = tuple(each for each in settings if each[0] not in _TEXT)
            if not self._is_own():
                settings = (*OWN, *settings)
        if settings is not self._last and settings != self._last:
            self._last = settings
            new = dict(_changed(self._now, settings))
            saved = [key for key in new if key not in self._now and key not in _WITHOUT_OLD]
            if saved:
                yield "SET " + ", ".join(f"@tailrace_{key} = @@session.{key}" for key in saved)
            if new:
                yield difference(self._now, settings)
            self._now |= new
        if database is not None and database != self._database:
            self._database = database
            yield f"USE {quoted_name(database)}"

    def _is_own(self) -> bool:
        """Whether our own statements are read as they were written; any order of utf8mb4 does."""
        charset, collation = (self._now.get(name, "") for name, _ in OWN)
        return charset == "utf8mb4" and collation.startswith("utf8mb4_")

    def enter_text(self, settings: Settings) -> Iterator[str]:
        """The statement to execute directly before a logged statement, after all others."""
        text = tuple(each for each in settings if each[0] in _TEXT)
        if any(self._now.get(key) != value for key, value in text):
            self._now |= text
            self._last = ()
            yield difference({}, text)

    def leave_text(self) -> Iterator[str]:
        """The statement to execute directly after it."""
        if not self._is_own():
            self._now |= OWN
            yield difference({}, OWN)

    def was_changed(self, settings: Settings) -> None:
        """Statements that were executed changed the session to these settings."""
        self._last = settings
        self._now |= dict(settings)

    def forget_database(self) -> None:
        """A statement may have dropped and recreated the current database."""
        self._database = None

    def restore(self) -> Iterator[str]:
        """The statements that restore the session's original settings."""
        if self._now:
            old = (
                f"@@session.{key} = {_WITHOUT_OLD.get(key, f'@tailrace_{key}')}"
                for key in self._now
            )
            yield "SET " + ", ".join(old)
