"""What came of a campaign, and how it is printed: a table in Markdown, the number of failures."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.campaign.workload import Recorded


REJECTED: Final = "rejected by the source"
"""The outcome of what is no try, since its source did not take it."""


@dataclass
class Failures:
    """What ought not to have come of a campaign."""

    failures: list[str] = field(default_factory=list, kw_only=True)

    @contextmanager
    def noting(self, what: object) -> Iterator[None]:
        """Note an error inside as a failure, and go on: whatever it is, it is looked for."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            where = traceback.extract_tb(error.__traceback__)[-1].name
            text = f"{what}: {type(error).__name__}: {error!s:.2000} ({where})"
            self.failures.append(text.encode("ascii", "backslashreplace").decode())

    @contextmanager
    def in_folder(self, what: object) -> Iterator[Path]:
        """As `noting`, in a temporary folder that is left where it failed."""
        folder = Path(tempfile.mkdtemp(prefix="tailrace-campaign-"))
        with self.noting(f"{what} (left in {folder})"):
            yield folder
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Report(Failures):
    """What came of one part; subclasses count what was done.

    ``columns`` are the table's. A counter has its total and the numbers of ``counted`` there.
    """

    columns: ClassVar[str]
    counted: ClassVar[Sequence[str]] = ()

    def cells(self) -> list[object]:
        """The cells of its row of the table, but for the last: the number of failures."""
        found: list[object] = []
        for value in (getattr(self, each.name) for each in fields(self) if each.name != "failures"):
            if isinstance(value, Counter):
                found += [value.total(), *(value[name] for name in self.counted)]
            else:
                found.append(f"{value:.1f}" if isinstance(value, float) else value)
        return found

    def line(self) -> str:
        """Its row of the table."""
        return f"| {' | '.join(map(str, [*self.cells(), len(self.failures)]))} |"


@dataclass
class SchemasReport(Report):
    """What came of random schemas of a server."""

    server: str
    seed: int
    schemas: int = 0
    tables: int = 0
    rows: int = 0
    types: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def count(self, recorded: Recorded) -> None:
        """Take in one schema's size."""
        self.schemas += 1
        for table in recorded.tables.values():
            self.tables += 1
            self.rows += len(table.rows)
            self.types.update(column.base for column in table.columns.values())


@dataclass
class Tries(Failures):
    """What came of a campaign that tries one thing with many random changes; ``what`` they are."""

    what: str
    tried: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    _began: float = field(default_factory=time.monotonic)

    def take(self, number: object, outcome: str, failure: str = "") -> None:
        """Count a try by its outcome, and note its failure, if it is one."""
        self.tried += outcome != REJECTED
        self.outcomes[outcome] += 1
        if failure:
            self.failures.append(f"{self.what} {number}: {failure[:3000]}")

    def line(self) -> str:
        """The numbers of outcomes, a line for each, after those of tries and seconds."""
        lines = [f"{self.tried} {self.what} in {time.monotonic() - self._began:.0f} s"]
        lines += [f"{number:8} {outcome}" for outcome, number in sorted(self.outcomes.items())]
        return "\n".join(lines)


def conclude(reports: Sequence[Report | Tries], says: str) -> int:
    """Print a table of each kind of report, and ``says``; gives the command's status."""
    for kind in dict.fromkeys(type(each) for each in reports if isinstance(each, Report)):
        head = f"{kind.columns} | Failures |"
        print(f"\n| {head}\n{'|---' * head.count('|')}|")
        for report in reports:
            if type(report) is kind:
                print(report.line())
    failures = sum(len(report.failures) for report in reports)
    print(f"{says}\n{failures} failures")
    return int(bool(failures))
