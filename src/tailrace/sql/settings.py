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

_COMMON: Final = (
    ("character_set_client", "utf8mb4"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("time_zone", "'+00:00'"),
)
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
    """A session in which statements are executed: its current and its original settings."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._last: Settings = ()
        self._database: str | None = None

    def change(self, settings: Settings, database: str | None) -> Iterator[str]:
        """The statements that change the session to these settings; ``database`` None: any."""
        if database is not None and database != self._database:
            self._database = database
            yield f"USE {quoted_name(database)}"
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
