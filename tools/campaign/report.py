"""What came of a campaign, and how it is printed: a table in Markdown, the number of failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Report(ABC):
    """What came of one part; subclasses count what was done."""

    failures: list[str] = field(default_factory=list, kw_only=True)

    @abstractmethod
    def cells(self) -> list[object]:
        """The cells of its row of the table, but for the last: the number of failures."""

    def line(self) -> str:
        """Its row of the table."""
        return f"| {' | '.join(map(str, [*self.cells(), len(self.failures)]))} |"


@dataclass
class Tries:
    """What came of a campaign that tries one thing with many random changes."""

    seed: int
    tried: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list, kw_only=True)

    def conclude(self, says: str) -> int:
        """Print it, after ``says``; gives the command's status."""
        for failure in self.failures:
            print(f"FAILED {failure}")
        print(f"seed {self.seed}: {says}")
        for outcome, number in sorted(self.outcomes.items()):
            print(f"{number:8} {outcome}")
        print(f"{len(self.failures)} failures")
        return int(bool(self.failures))


def conclude(header: str, reports: Sequence[Report], *says: str) -> int:
    """Print the table and what else there is to say; gives the command's status."""
    print(header)
    for report in reports:
        print(report.line())
    for text in says:
        print(text)
    failures = sum(len(report.failures) for report in reports)
    print(f"{failures} failures")
    return int(bool(failures))
