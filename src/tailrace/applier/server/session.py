"""The session settings of a log's statements, as another server has them.

A server of the other flavour, or of another release, lacks some variables, modes and collations.
What has no effect there is left out, what is called otherwise is translated, and what would change
the meaning of a statement is rejected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import SchemaError
from tailrace.sql.text import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tailrace.sql.settings import Settings

_OF_MYSQL: Final = "default_collation_for_utf8mb4"
_OF_MARIADB: Final = "character_set_collations"
OPTIONAL: Final = (
    _OF_MARIADB,
    "check_constraint_checks",
    _OF_MYSQL,
    "default_table_encryption",
    "explicit_defaults_for_timestamp",
    "sql_if_exists",
    "sql_require_primary_key",
    "system_versioning_insert_history",
)
"""Variables that not all servers have. Those that are not mentioned below say what a statement must
be like to succeed, which it did on its source, or how the source stores a table."""
_COLLATIONS: Final = frozenset({"collation_connection", "collation_server"})

_MYSQL_TRUNCATES: Final = 1 << 32
"""TIME_TRUNCATE_FRACTIONAL: without it, MySQL rounds."""
_MARIADB_ROUNDS: Final = 1 << 34
"""TIME_ROUND_FRACTIONAL: without it, MariaDB truncates."""
_COMMON_MODES: Final = 0xEFFC00EF
"""What both flavours have, by the same bits. MariaDB's others change neither rows nor tables
(NO_AUTO_CREATE_USER, IGNORE_BAD_TABLE_OPTIONS, and what SHOW CREATE leaves out), but for these:"""
_ONLY_MARIADB: Final = {
    1 << 9: "ORACLE",
    1 << 12: "MAXDB",
    1 << 32: "EMPTY_STRING_IS_NULL",
    1 << 33: "SIMULTANEOUS_ASSIGNMENT",
}

_MYSQL_UCA: Final = re.compile(r"utf8mb4_0900_(ai_ci|as_ci|as_cs)")
_MARIADB_UCA: Final = re.compile(r"utf8mb4_uca1400_(?:nopad_)?(ai_ci|as_ci|as_cs)")
_BINARY: Final = {"utf8mb4_0900_bin": "utf8mb4_nopad_bin", "utf8mb4_nopad_bin": "utf8mb4_0900_bin"}
_OF_UTF8MB4: Final = "utf8mb4_general_ci"
"""MariaDB's default collation of utf8mb4, up to release 11.4."""
_TO_CHOOSE: Final = frozenset({"utf8mb4_0900_ai_ci", "utf8mb4_general_ci"})
"""What MySQL's default_collation_for_utf8mb4 may be."""


class TargetSession:
    """What a target has: ``variables`` of `OPTIONAL`, and ``collations``."""

    def __init__(
        self, flavour: Flavour, variables: Collection[str], collations: Collection[str]
    ) -> None:
        self._flavour = flavour
        self._variables = frozenset(variables)
        self._collations = frozenset(collations)
        self._known: dict[tuple[Settings, Flavour], Settings] = {}

    def settings(self, of: Settings, source: Flavour) -> Settings:
        """The settings for a statement of a source. Raises SchemaError for one that the target
        cannot have.
        """
        found = self._known.get((of, source))
        if found is None:
            if len(self._known) > 1000:
                self._known.clear()
            found = self._known[of, source] = tuple(self._translated(of, source))
        return found

    def _translated(self, of: Settings, source: Flavour) -> Iterator[tuple[str, str]]:
        for name, value in of:
            if name == "sql_mode" and value.isdecimal() and source is not self._flavour:
                yield name, str(self._modes(int(value)))
            elif name in _COLLATIONS:
                yield name, self.collation(value)
            elif name not in OPTIONAL or name in self._variables:
                yield name, value
            elif name == _OF_MYSQL and _OF_MARIADB in self._variables:
                yield _OF_MARIADB, quoted(f"utf8mb4={self.collation(value)}")
        if source is Flavour.MARIADB and _OF_MYSQL in self._variables:
            given = dict(of)
            pairs = re.findall(r"utf8mb4=(\w+)", given.get(_OF_MARIADB, ""))
            collation = self.collation(pairs[0] if pairs else _OF_UTF8MB4)
            if "timestamp" in given and collation in _TO_CHOOSE:  # a statement of the log
                yield _OF_MYSQL, collation

    def _modes(self, given: int) -> int:
        if self._flavour is Flavour.MARIADB:
            rounds = 0 if given & _MYSQL_TRUNCATES else _MARIADB_ROUNDS
            return given & ~_MYSQL_TRUNCATES | rounds
        for mode, name in _ONLY_MARIADB.items():
            if given & mode:
                raise SchemaError(
                    f"a statement was executed with the sql_mode {name}, which MySQL does not have"
                )
        truncates = 0 if given & _MARIADB_ROUNDS else _MYSQL_TRUNCATES
        return given & _COMMON_MODES | truncates

    def collation(self, name: str) -> str:
        """The collation itself, or the target's with the same order. Raises SchemaError."""
        if name in self._collations or name.partition("_")[2] in self._collations:
            return name
        found = _BINARY.get(name, "")
        if order := _MYSQL_UCA.fullmatch(name):
            found = f"utf8mb4_uca1400_nopad_{order[1]}"
        elif order := _MARIADB_UCA.fullmatch(name):
            found = f"utf8mb4_0900_{order[1]}"
        if not (found in self._collations or found.partition("_")[2] in self._collations):
            raise SchemaError(
                f"a statement was executed with the collation {name}, which the target does not"
                " have, nor one of the same order"
            )
        return found
