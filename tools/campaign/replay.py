"""Changes replayed into a table's rows, and the rows compared with what SELECT gave."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

Texts = dict[str, str | None]
"""A row image: the columns that it holds, as SELECT's texts."""


class _Unknown:
    """The value of a generated column that an image left out."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final[Any] = _Unknown()


class ReplayError(AssertionError):
    """A change that fits no row, or rows that SELECT did not give."""


@dataclass
class Replayed:
    """A table's rows after the changes that it was given.

    ``defaults`` are the texts of columns that an insert may leave out (images that are not full);
    ``generated`` columns that it leaves out become unknown, and fit anything.
    """

    name: str
    defaults: Texts = field(default_factory=dict)
    generated: frozenset[str] = frozenset()
    rows: list[Texts] = field(default_factory=list)
    sequence: bool = False
    """The one row of a sequence of MariaDB's: each insert changes it."""
    changes: Counter[str] = field(default_factory=Counter)

    def take(self, operation: str, before: Texts | None, after: Texts | None) -> None:
        """Take in one change. Raises `ReplayError` where no row is as ``before``."""
        self.changes[operation] += 1
        if operation == "insert":
            if before is not None or after is None:
                raise ReplayError(f"{self.name}: an insert has an after image and no other")
            if self.sequence:
                self.rows[:] = [{**self.rows[0], **after}]
                return
            unknown = dict.fromkeys(self.generated, UNKNOWN)
            self.rows.append({**self.defaults, **unknown, **after})
            return
        if before is None or (after is None) != (operation == "delete"):
            raise ReplayError(f"{self.name}: {operation} has images {before} and {after}")
        at = next((n for n, row in enumerate(self.rows) if _fits(row, before)), None)
        if at is None:
            raise ReplayError(f"{self.name}: {operation} of a row that is not there: {before}")
        old = self.rows.pop(at)
        if after is not None:
            unknown = dict.fromkeys(self.generated, UNKNOWN)
            self.rows.insert(at, {**old, **unknown, **after})

    def compare(self, selected: list[Texts]) -> None:
        """Raises `ReplayError` where the rows are not those selected, in any order."""
        if len(selected) != len(self.rows):
            raise ReplayError(
                f"{self.name}: {len(self.rows)} rows replayed, {len(selected)} selected"
            )
        left: dict[Any, list[Texts]] = {}
        for row in self.rows:
            left.setdefault(_exact(row), []).append(row)
        missing = []
        for row in selected:
            found = left.get(_exact(row))
            if found:
                found.pop()
            else:
                missing.append(row)
        rest = [row for rows in left.values() for row in rows]
        for row in missing:
            at = next((n for n, other in enumerate(rest) if _fits(other, row)), None)
            if at is None:
                raise ReplayError(_difference(self.name, row, rest))
            rest.pop(at)


def _exact(row: Texts) -> Any:
    return (
        tuple(sorted(row.items(), key=lambda item: item[0]))
        if UNKNOWN not in row.values()
        else None
    )


def _fits(row: Texts, wanted: Texts) -> bool:
    return all(
        name in row and (row[name] == text or row[name] is UNKNOWN or text is UNKNOWN)
        for name, text in wanted.items()
    )


def _difference(name: str, row: Texts, rest: list[Texts]) -> str:
    """The selected row, and in which columns the nearest replayed one differs."""

    def different(other: Texts) -> list[str]:
        return [
            column
            for column, text in row.items()
            if other.get(column, "(absent)") is not UNKNOWN
            and other.get(column, "(absent)") != text
        ]

    nearest = min(rest, key=lambda other: len(different(other)))
    parts = [
        f"{column}: {nearest.get(column, '(absent)')!r:.300} and SELECT {row[column]!r:.300}"
        for column in different(nearest)
    ]
    return f"{name}: {'; '.join(parts)}"
