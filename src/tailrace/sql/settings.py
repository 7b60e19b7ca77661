"""What statements need of their session, and the SQL that sets it and puts it back."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour, RowsFlag
from tailrace.sql.text import name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Settings = tuple[tuple[str, str], ...]
"""Session variables and their values as SQL."""

_COMMON: Final = (
    ("character_set_client", "utf8mb4"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("time_zone", "'+00:00'"),
)
_STRICT: Final = "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
_LENIENT: Final = "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
_WITHOUT_OLD: Final = {"timestamp": "DEFAULT"}
"""Variables whose value is not to be put back as it was: the clock goes on."""


@cache
def of_rows(flavour: Flavour, flags: int, *, lenient: bool, restores: bool = False) -> Settings:
    """What rows need: modes that take every value as it is, and the checks that were on.

    The checks of foreign keys are off where the log itself has what they do to other tables, and
    with ``restores``, for a row that was there before and may have come without checks; an insert
    makes them do nothing else. CHECK constraints are off for the same reason, where a session can
    have that (MariaDB).
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
    """The statement that sets what is not so now."""
    changed = _changed(now, settings)
    return "SET " + ", ".join(f"@@session.{key} = {value}" for key, value in changed)


class SessionState:
    """A session that statements are run in: what it was set to, and what it was before."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._last: Settings = ()
        self._database: str | None = None

    def change(self, settings: Settings, database: str | None) -> Iterator[str]:
        """The statements that make the session so, from what it is; None: in any database."""
        if database is not None and database != self._database:
            self._database = database
            yield f"USE {name(database)}"
        if settings is self._last or settings == self._last:
            return
        self._last = settings
        new = dict(_changed(self._now, settings))
        saved = [key for key in new if key not in self._now and key not in _WITHOUT_OLD]
        if saved:
            yield "SET " + ", ".join(f"@tailrace_{key} = @@session.{key}" for key in saved)
        if new:
            yield difference(self._now, settings)
        self._now |= new

    def was_changed(self, settings: Settings) -> None:
        """Statements that were run made the session so."""
        self._last = settings
        self._now |= dict(settings)

    def forget_database(self) -> None:
        """A statement may have dropped the database that is used, and made it anew."""
        self._database = None

    def restore(self) -> Iterator[str]:
        """The statements that give the session back what it had."""
        if self._now:
            old = (
                f"@@session.{key} = {_WITHOUT_OLD.get(key, f'@tailrace_{key}')}"
                for key in self._now
            )
            yield "SET " + ", ".join(old)
