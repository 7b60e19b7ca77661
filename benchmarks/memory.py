"""Peak memory of a process that decodes one transaction, and logs that unpack to much.

The bound is 400 MB.
"""

from __future__ import annotations

import sys

from benchmarks import logs
from benchmarks.measure import run_command

_DECODE = "import tailrace, sys\nfor batch in tailrace.changes(sys.argv[1]): pass"
_ITERATE = "import tailrace, sys\nfor event in tailrace.open(sys.argv[1]): pass"
_JSON = "import sys\nsys.argv[1:1] = ['log', '--as', 'json']\nfrom tailrace.cli import main\nmain()"
_LIMIT = 400e6
_ODD = {
    "wide": ("990 columns, nearly all NULL", (("columns", _DECODE),)),
    "even": ("1 GiB in a payload of 99 kB", (("columns", _DECODE), ("events", _ITERATE))),
    "squeezed": ("65,000 compressed values of 40 KB", (("columns", _DECODE), ("events", _ITERATE))),
    "broad": ("10,000,000 rows in an event", (("columns", _DECODE), ("events", _ITERATE))),
    "values": (
        "values of 60 MB",
        (("columns", _DECODE), ("events", _ITERATE), ("json", _JSON)),
    ),
}


def run(*, quick: bool) -> None:
    """Print size, seconds and peak memory; fails where the peak is past 400 MB."""
    rows = 10_000_000 if quick else 20_000_000
    over = []
    for title, options in (("plain", {}), ("compressed", {"binlog_transaction_compression": "ON"})):
        path = logs.log("huge", rows=rows, options=options)
        for way, code in (("columns", _DECODE), ("events", _ITERATE)):
            if way == "events" and title == "plain" and quick:
                continue
            seconds, peak = run_command([sys.executable, "-c", code, str(path)])
            size = path.stat().st_size
            print(
                f"{title:10} {way:8} {size / 1e6:6.0f} MB, {rows:,} rows in one transaction: "
                f"{seconds:6.1f} s, peak {peak / 1e6:4.0f} MB"
            )
            if peak > _LIMIT:
                over.append((title, way))
    for name, (what, ways) in _ODD.items():
        path = logs.log(name)
        for way, code in ways:
            seconds, peak = run_command([sys.executable, "-c", code, str(path)])
            print(f"{name:10} {way:8} {what}: {seconds:6.1f} s, peak {peak / 1e6:4.0f} MB")
            if peak > _LIMIT:
                over.append((name, way))
    if over:
        raise SystemExit(f"past 400 MB: {over}")
