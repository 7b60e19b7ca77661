"""How a statement is logged: as its own transaction or inside one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from tailrace.errors import UsageError
from tailrace.schema.classify import StatementKind, classify
from tailrace.transactions.statements import savepoint_of_rollback, savepoint_set, xa_end

_DEFINITIONS: Final = frozenset(
    {StatementKind.DDL_TABLE, StatementKind.CREATE_SELECT, StatementKind.DDL_OTHER}
)
_TEMPORARY: Final = re.compile(r"\s*(?:CREATE|DROP)\s+TEMPORARY\b", re.IGNORECASE)
_RELEASE: Final = re.compile(r"\s*RELEASE\b", re.IGNORECASE)
_OF_DATABASE: Final = re.compile(
    r"\s*(?:CREATE(?:\s+OR\s+REPLACE)?|ALTER|DROP)\s+(?:DATABASE|SCHEMA)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Standing:
    """``alone``: it commits by itself. ``definition``: it is DDL, GRANT or the like.

    ``of_database``: it makes, changes or drops a database, and must not be run in one.
    """

    alone: bool
    definition: bool
    of_database: bool

    @classmethod
    def of(cls, sql: str) -> Self:
        """Classify this text. Raises UsageError for the begin or end of a transaction."""
        kind = classify(sql)
        ends_xa = xa_end(sql.encode()) is not None
        inside = savepoint_set(sql) or savepoint_of_rollback(sql) or _RELEASE.match(sql)
        if kind is StatementKind.CONTROL and not ends_xa and not inside:
            raise UsageError(
                f"{sql[:40]!r}: a transaction begins and ends with the `with` block, not by SQL"
            )
        definition = kind in _DEFINITIONS and not _TEMPORARY.match(sql)
        return cls(ends_xa or definition, definition, bool(_OF_DATABASE.match(sql)))
