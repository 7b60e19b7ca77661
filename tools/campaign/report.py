"""What came of a campaign, and how it is printed: a table in Markdown, the number of failures."""

from __future__ import annotations

import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence


@dataclass
class Report:
    """What came of one part; subclasses count what was done. ``columns`` are the table's."""

    columns: ClassVar[str]
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

    def cells(self) -> list[object]:
        """The cells of its row of the table, but for the last: the number of failures."""
        found = [getattr(self, each.name) for each in fields(self) if each.name != "failures"]
        return [f"{each:.0f}" if isinstance(each, float) else each for each in found]

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


def on_servers(run: Callable[[str, int, int], Tries], what: str, given: argparse.Namespace) -> int:
    """Run a campaign with so many tries of ``what`` on each of the given servers, and print its
    reports; gives the command's status.
    """
    status = 0
    for name in given.server:
        report = run(name, given.size, given.seed)
        status |= report.conclude(f"{report.tried} {what} on {name} in {report.seconds:.0f} s")
    return status


def conclude(reports: Sequence[Report], says: str) -> int:
    """Print a table of each kind of report, and ``says``; gives the command's status."""
    for kind in dict.fromkeys(type(report) for report in reports):
        head = f"{kind.columns} | Failures |"
        print(f"\n| {head}\n{'|---' * head.count('|')}|")
        for report in reports:
            if type(report) is kind:
                print(report.line())
    failures = sum(len(report.failures) for report in reports)
    print(f"{says}\n{failures} failures")
    return int(bool(failures))
