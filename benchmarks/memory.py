"""Peak memory of a process that decodes a log that is one transaction, plain and compressed."""

from __future__ import annotations

import sys

from benchmarks import logs
from benchmarks.measure import command

_DECODE = "import tailrace, sys\nfor batch in tailrace.changes(sys.argv[1]): pass"
_ITERATE = "import tailrace, sys\nfor event in tailrace.open(sys.argv[1]): pass"
_LIMIT = 400e6


def run(*, quick: bool) -> None:
    """Print size, seconds and peak memory; fails where the peak is past 400 MB."""
    rows = 10_000_000 if quick else 20_000_000
    over = []
    for title, options in (("plain", {}), ("compressed", {"binlog_transaction_compression": "ON"})):
        path = logs.log("huge", rows=rows, options=options)
        for way, code in (("columns", _DECODE), ("events", _ITERATE)):
            if way == "events" and title == "plain" and quick:
                continue
            seconds, peak = command([sys.executable, "-c", code, str(path)])
            size = path.stat().st_size
            print(
                f"{title:10} {way:8} {size / 1e6:6.0f} MB, {rows:,} rows in one transaction: "
                f"{seconds:6.1f} s, peak {peak / 1e6:4.0f} MB"
            )
            if peak > _LIMIT:
                over.append((title, way))
    if over:
        raise SystemExit(f"past 400 MB: {over}")
