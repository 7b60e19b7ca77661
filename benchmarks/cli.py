"""What the command line prints, against ``mysqlbinlog -v``: seconds of the processor in user mode.

All of a process counts, its start too; kernels are in the cache. ``--large`` takes logs that are
some times as large, on which the start is a small part.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from benchmarks import logs
from benchmarks.measure import compare, ratio, user_seconds
from tools.servers import binlog_tool

if TYPE_CHECKING:
    from pathlib import Path

_LOGS: Final = {"plain": 1_000_000, "bulk": 1_000_000, "single": 120_000}
_LARGE: Final = {"plain": 6_000_000, "single": 600_000}
_OUTPUTS: Final = {
    "text": ["log"],
    "json": ["log", "--as", "json"],
    "sql": ["log", "--as", "sql"],
    "undo": ["log", "--as", "undo"],
    "check": ["check"],
    "stat": ["stat"],
}


def command(arguments: list[str]) -> int:
    """Print a table for each log. Words among the arguments name the outputs wanted."""
    quick = "--quick" in arguments
    wanted = [each for each in arguments if not each.startswith("--")] or _OUTPUTS
    chosen = {name: given for name, given in _OUTPUTS.items() if name in wanted}
    sizes = _LARGE if "--large" in arguments else _LOGS
    for name, rows in sizes.items():
        _one(name, logs.log(name, rows=rows), rows, chosen, rounds=2 if quick else 5)
    return 0


def _one(name: str, path: Path, rows: int, chosen: dict[str, list[str]], rounds: int) -> None:
    tool = [*binlog_tool("mysql-9.7"), "-v", "--base64-output=DECODE-ROWS", str(path)]
    contenders = {"mysqlbinlog -v": lambda: user_seconds(tool)}
    for given in chosen.values():
        line = [sys.executable, "-m", "tailrace", *given, str(path)]
        contenders[f"tailrace {' '.join(given)}"] = lambda line=line: user_seconds(line)  # type: ignore[misc]
    found = compare(contenders, rounds)
    size = path.stat().st_size
    print(f"\n{name}: {size / 1e6:.0f} MB, {rows:,} rows; user seconds, medians of {rounds} rounds")
    reference = found["mysqlbinlog -v"]
    for series in found.values():
        low, middle, high = ratio(reference, series)
        print(
            f"  {series.name:22} {series.median:8.2f} s {series.peak_bytes / 1e6:6.0f} MB peak "
            f"{middle:6.2f} x ({low:.2f} to {high:.2f})"
        )
