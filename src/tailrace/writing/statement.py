"""How a statement stands in a log: by itself or inside a transaction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from tailrace.errors import UsageError
from tailrace.schema.classify import StatementKind, classify

_DEFINITIONS: Final = frozenset(
    {StatementKind.DDL_TABLE, StatementKind.CREATE_SELECT, StatementKind.DDL_OTHER}
)
_TEMPORARY: Final = re.compile(r"\s*(?:CREATE|DROP)\s+TEMPORARY\b", re.IGNORECASE)
_INSIDE: Final = re.compile(r"\s*(?:SAVEPOINT|ROLLBACK\s+(?:WORK\s+)?TO|RELEASE)\b", re.IGNORECASE)
_XA_END: Final = re.compile(r"\s*XA\s+(?:COMMIT|ROLLBACK)\b", re.IGNORECASE)
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
        """How this text stands. Raises UsageError for the begin or end of a transaction."""
        kind = classify(sql)
        xa_end = bool(_XA_END.match(sql))
        if kind is StatementKind.CONTROL and not xa_end and not _INSIDE.match(sql):
            raise UsageError(
                f"{sql[:40]!r}: a transaction begins and ends with the `with` block, not by SQL"
            )
        definition = kind in _DEFINITIONS and not _TEMPORARY.match(sql)
        return cls(xa_end or definition, definition, bool(_OF_DATABASE.match(sql)))
