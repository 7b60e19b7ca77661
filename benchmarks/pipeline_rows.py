"""What parts of the pipeline's benchmark have in common: their rows, options, and cores."""

from __future__ import annotations

import math
import os
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER: Final = "| Part | What | Result | Asked |\n|---|---|---|---|"
CORES: Final = 2
"""Cores that a part takes, unless it says otherwise."""


@dataclass(frozen=True)
class Options:
    """``quick`` takes fewer rounds of less; the others are of some parts each."""

    quick: bool = False
    minutes: float | None = None
    gigabytes: float | None = None
    rounds: int = 5
    servers: tuple[str, ...] = ("mysql-9.7",)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    part: str
    what: str
    result: str
    asked: str = ""

    def __str__(self) -> str:
        return f"| {self.part} | {self.what} | {self.result} | {self.asked} |"


def spread(values: Sequence[float], unit: str = "", digits: int = 2) -> str:
    """The median, and from where to where they go."""
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f}{unit} ({low:.{digits}f} to {high:.{digits}f})"


def tail(values: Sequence[float], part: float = 0.99) -> float:
    """That which so many of the values do not exceed."""
    return sorted(values)[math.ceil(len(values) * part) - 1]


def keep_to(cores: int) -> None:
    """Keep this process, and those that it starts, on so many cores."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[-cores:]))
