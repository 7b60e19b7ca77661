"""`python -m tools.suite.packages DATA [OLDER]`: lines and branches covered, by package."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Mapping


def shares(data: str) -> Mapping[str, tuple[float, float]]:
    """By package, the lines and branches that are covered, in percent."""
    coverage = Coverage(data_file=data, config_file="tools/suite/coverage.ini")
    coverage.load()
    counts: dict[str, Counter[str]] = {}
    for path in coverage.get_data().measured_files():
        inside = path.rpartition("src/tailrace/")[2]
        numbers = coverage._analyze(path).numbers  # noqa: SLF001 - no public way is as quick
        for package in (inside.partition("/")[0] if "/" in inside else "(files)", "all"):
            count = counts.setdefault(package, Counter())
            count["lines"] += numbers.n_statements
            count["executed"] += numbers.n_executed
            count["branches"] += numbers.n_branches
            count["taken"] += numbers.n_executed_branches
    return {
        package: (
            100 * count["executed"] / max(count["lines"], 1),
            100 * count["taken"] / max(count["branches"], 1),
        )
        for package, count in sorted(counts.items())
    }


def main(files: list[str]) -> None:
    """Print the table; with an older file, its figures and the differences, too."""
    tables = [shares(file) for file in files]
    for package, now in tables[0].items():
        found = [table.get(package, (0.0, 0.0)) for table in tables]
        row = "".join(f"{line:8.2f} {branch:8.2f}" for line, branch in found)
        change = [new - old for new, old in zip(now, found[-1], strict=True)]
        print(f"{package:14}{row}  {change[0]:+.2f} {change[1]:+.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
