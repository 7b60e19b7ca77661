"""Decoding to Arrow, checksums verified, against ``mysqlbinlog -v`` and mysql-replication."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from benchmarks import logs
from benchmarks.measure import Series, Worker, compare, pin, ratio, run_command
from tools.servers import Server, binlog_tool

if TYPE_CHECKING:
    from pathlib import Path

_SETUP = "from tailrace.columns import changes"
_FRESH = "import tailrace, sys\nfor batch in tailrace.changes(sys.argv[1]): pass"


def run(*, quick: bool) -> None:
    """Print a table for each log: MB/s, rows/s, peak memory, and the ratios."""
    names = ("bulk", "single", "tables")
    paths = {name: logs.log(name) for name in names}
    incumbent = _incumbent(2_000 if quick else 20_000)
    pin()
    for name, path in paths.items():
        _one(name, path, rounds=3 if quick else 7)
    print(
        f"\nmysql-replication (Python, live server, one-row transactions): {incumbent:,.0f} rows/s"
    )


def _one(name: str, path: Path, rounds: int) -> None:
    size = path.stat().st_size
    tool = [*binlog_tool("mysql-9.7"), "-v", "--base64-output=DECODE-ROWS", str(path)]
    decode = Worker(
        f"{_SETUP}\npath = {str(path)!r}",
        "rows = sum(batch.num_rows for batch in changes(path))",
    )
    found = compare(
        {
            "mysqlbinlog -v": lambda: run_command(tool),
            "tailrace, warm": decode,
            "tailrace, fresh process": lambda: run_command(
                [sys.executable, "-c", _FRESH, str(path)]
            ),
        },
        rounds,
    )
    decode.close()
    rows = int(path.parent.name.rsplit("-", 1)[-1])
    print(f"\n{name}: {size / 1e6:.0f} MB, {rows:,} rows; medians of {rounds} rounds, one core")
    reference = found["mysqlbinlog -v"]
    for series in found.values():
        _line(series, size, rows, reference)


def _line(series: Series, size: int, rows: int, reference: Series) -> None:
    low, middle, high = ratio(reference, series)
    print(
        f"  {series.name:24} {series.median:7.3f} s {size / series.median / 1e6:8.0f} MB/s "
        f"{rows / series.median:12,.0f} rows/s {series.peak_bytes / 1e6:6.0f} MB peak "
        f"{middle:6.1f} x ({low:.1f} to {high:.1f})"
    )


def _incumbent(rows: int) -> float:
    """Rows a second of mysql-replication, reading one-row transactions from a live server."""
    from pymysqlreplication import BinLogStreamReader  # noqa: PLC0415 - warns when it is imported
    from pymysqlreplication.row_event import WriteRowsEvent  # noqa: PLC0415

    with Server("mysql-9.7", {"binlog_row_metadata": "FULL", "sync_binlog": "0"}) as server:
        server.execute("create database bench")
        server.execute("create table bench.t (id int primary key, name varchar(40), v double)")
        server.rotate()
        server.execute(
            "create procedure bench.fill(most int) begin declare n int default 0; "
            "while n < most do insert into bench.t values (n, concat('name ', n), n * 0.5); "
            "set n = n + 1; end while; end"
        )
        server.execute(f"call bench.fill({rows})")
        stream = BinLogStreamReader(
            connection_settings={
                "host": server.host,
                "port": server.port,
                "user": server.user,
                "passwd": "",
            },
            server_id=4711,
            only_events=[WriteRowsEvent],
        )
        start, seen = time.perf_counter(), 0
        for event in stream:
            seen += len(event.rows)
        seconds = time.perf_counter() - start
        stream.close()
    if seen != rows:
        raise RuntimeError(f"mysql-replication gave {seen} rows of {rows}")
    return rows / seconds
