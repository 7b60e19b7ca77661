"""What a comparison of a lake with a server found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["equal", "differs", "incomplete", "unsure"]


@dataclass(frozen=True)
class RowDifference:
    """A row that differs: ``server`` and ``lake`` are its values by column, None where it is not.

    ``columns`` are those that differ where both have it.
    """

    key: dict[str, str | None]
    server: dict[str, str | None] | None
    lake: dict[str, str | None] | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values differ."""
        if self.server is None or self.lake is None:
            return ()
        return tuple(name for name in self.server if self.server[name] != self.lake[name])


@dataclass(frozen=True)
class RangeCount:
    """A range of the key on the server: its rows, and the sum of their checksums modulo 2**64."""

    number: int
    low: tuple[str, ...] | None
    high: tuple[str, ...] | None
    rows: int
    checksum: int
    differing: int = 0


@dataclass(frozen=True)
class TableVerdict:
    """A table's comparison.

    Checksums are sums of the rows' modulo 2**64, of each side. ``missing`` rows are on the server
    only, ``extra`` in the lake only, ``changed`` on both sides with other values; ``doubled`` keys
    are more than once in the lake. ``undecided`` of these differed each time, and changed all the
    time. ``first`` are the first of the rows that differ. ``reason`` says why it could not be
    compared, or what makes tables unlike as wholes; ``notes`` what was left out, and what may be
    the cause. An ``incomplete`` one, of which the lake lacks older rows, is not compared.
    """

    name: str
    server_rows: int = 0
    lake_rows: int = 0
    server_checksum: int = 0
    lake_checksum: int = 0
    missing: int = 0
    extra: int = 0
    changed: int = 0
    doubled: int = 0
    undecided: int = 0
    reason: str | None = None
    compared: bool = True
    ranges: tuple[RangeCount, ...] = ()
    first: tuple[RowDifference, ...] = ()
    notes: tuple[str, ...] = ()
    incomplete: bool = False

    @property
    def differing(self) -> int:
        """Rows that differ."""
        return self.missing + self.extra + self.changed + self.doubled


@dataclass(frozen=True)
class VerifyReport:
    """All tables' comparisons, by name; and how far the lake was behind at the end.

    ``behind`` is bytes of the server's log that the lake does not have, None if that is unknown;
    ``transactions`` how many are in them (at most 1,000 are counted). ``position`` is the lake's,
    ``server`` the server's. ``notes`` name patterns that fit no table.
    """

    tables: tuple[TableVerdict, ...]
    position: str
    server: str
    behind: int | None = 0
    transactions: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """``differs`` where some row does for certain; ``unsure`` where a table is (`unsure`).

        Else ``incomplete`` where a table is, and all others are ``equal``.
        """
        if self.transactions == 0 and any(map(_differs, self.tables)):
            return "differs"
        if self.unsure:
            return "unsure"
        return "incomplete" if any(table.incomplete for table in self.tables) else "equal"

    @property
    def unsure(self) -> tuple[str, ...]:
        """Tables for which it is unknown whether they equal the server's.

        Differences are not certain while the lake is behind the server.
        """
        return tuple(
            table.name
            for table in self.tables
            if not table.incomplete
            and (
                not table.compared
                or (_differs(table) and self.transactions != 0)
                or (table.differing and not _differs(table))
            )
        )


def _differs(table: TableVerdict) -> bool:
    """Whether it was seen to differ, not counting rows that change all the while."""
    return table.compared and bool(table.differing > table.undecided or table.reason)
