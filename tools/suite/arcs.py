"""The arcs that coverage recorded: which test functions went from a line to another."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PACKAGE = "src/tailrace/"


class Arc(NamedTuple):
    """A step from a line to a line of one file; a line that is not positive is an entry or exit."""

    path: str
    test: str
    source: int
    target: int


def arcs(data: Path) -> Iterator[Arc]:
    """All arcs of a combined data file, with paths relative to ``src/tailrace``."""
    with sqlite3.connect(data) as connection:
        found = connection.execute(
            "SELECT path, context, fromno, tono FROM arc"
            " JOIN file ON file.id = file_id JOIN context ON context.id = context_id"
        )
        for path, context, source, target in found:
            if _PACKAGE in path:
                # The context of a process, and after the bar the one that its test has set.
                yield Arc(path.rpartition(_PACKAGE)[2], context.rpartition("|")[2], source, target)


def tests_by_line(data: Path) -> dict[tuple[str, int], set[str]]:
    """The test functions that execute each line."""
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    for arc in arcs(data):
        if arc.test and arc.target > 0:
            found[arc.path, arc.target].add(arc.test)
    return found
