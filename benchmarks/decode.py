"""Decoding to Arrow, checksums verified, against ``mysqlbinlog -v`` and mysql-replication.

``--part NAME`` measures one of the logs of `LOGS`, ``incumbent`` mysql-replication, and ``corners``
each setting that the owner of a server can choose; without it all but ``corners``.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from benchmarks import corners, logs
from benchmarks.measure import Series, Worker, compare, pin, ratio, run_command
from tailrace.columns import changes
from tools.servers import Server, binlog_tool

if TYPE_CHECKING:
    from pathlib import Path

LOGS: Final = ("bulk", "single", "tables", "writes", "many", "tpcc")
_SETUP: Final = "from tailrace.columns import changes"
_FRESH: Final = "import tailrace, sys\nfor batch in tailrace.changes(sys.argv[1]): pass"


def command(arguments: list[str]) -> int:
    """Print a table for each log: MB/s, rows/s, peak memory, and the ratios."""
    parser = argparse.ArgumentParser(prog="benchmarks decode", description=__doc__)
    parser.add_argument("--part", action="append", choices=[*LOGS, "incumbent", "corners"])
    parser.add_argument("--only", default="", help="of the corners, those with this text")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller corners")
    chosen = parser.parse_args(arguments)
    parts = chosen.part or [*LOGS, "incumbent"]
    paths = {name: logs.log(name) for name in LOGS if name in parts}
    incumbent = _incumbent(2_000 if chosen.quick else 20_000) if "incumbent" in parts else None
    if "corners" in parts:
        corners.make(chosen.only, quick=chosen.quick)
    pin()
    for name, path in paths.items():
        _one(name, path, rounds=3 if chosen.quick else 7)
    if incumbent is not None:
        print(f"\nmysql-replication (Python, live, one-row transactions): {incumbent:,.0f} rows/s")
    if "corners" in parts:
        corners.run(chosen.only, quick=chosen.quick)
    return 0


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
    rows = sum(batch.num_rows for batch in changes(path))
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
