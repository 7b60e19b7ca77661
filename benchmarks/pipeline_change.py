"""Small batches into large tables: what one costs, and all bytes that many of them write.

A Delta lake with a table's current rows is made from a log of inserts. Then each batch is a log of
transactions that update one row at a random key. A batch of one must cost the same whatever the
table's size; batches of sixty, as a second of load makes them, write some times the log's bytes.
Seconds are those of `mirror` in a process that runs already, bytes are what this process
reads and writes by system calls.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

import tailrace
from benchmarks.pipeline_rows import Row, tail
from tailrace.spark import mirror

if TYPE_CHECKING:
    from benchmarks.pipeline_rows import Options

_STEP: Final = 250_000
_BATCHES: Final = 8
_WARM: Final = 2
"""Batches that do not count."""
_EACH: Final = 60
_KEYS: Final = {"BIGINT": "id BIGINT PRIMARY KEY", "CHAR(36)": "id CHAR(36) PRIMARY KEY"}
_COLUMNS: Final = "customer INT, amount DECIMAL(12,2), note VARCHAR(40), made DATETIME(6), x DOUBLE"


def measure(options: Options) -> list[Row]:
    """Seconds and bytes of a batch, by the table's size and key; and bytes for each byte of log."""
    sizes = (50_000, 200_000) if options.quick else (1_000_000, 4_000_000, 16_000_000)
    cases = [("BIGINT", rows) for rows in sizes] + [("CHAR(36)", rows) for rows in sizes[:2]]
    found = []
    for kind, rows in cases:
        batches = _batches(kind, rows, _BATCHES, 1)[_WARM:]
        seconds, read, written, _ = (statistics.median(each) for each in zip(*batches, strict=True))
        found.append(
            Row(
                "change",
                f"one of {rows:,} rows, {kind} key, Delta",
                f"{seconds:.2f} s, {read / 1e6:.2f} MB read, {written / 1e3:.0f} kB written",
                "the same at each size",
            )
        )
    for rows in (50_000,) if options.quick else (500_000, 4_000_000):
        batches = _batches("BIGINT", rows, 50 if options.quick else 3600, _EACH)
        seconds, read, written, logged = (sum(each) for each in zip(*batches, strict=True))
        found.append(
            Row(
                "change",
                f"{len(batches):,} batches of {_EACH} in {rows:,} rows, BIGINT key, Delta",
                f"{written / logged:.1f} bytes written and {read / logged:.1f} read for each byte "
                f"of log, {tail([each[0] for each in batches]):.2f} s (99 %)",
                "10 written at most",
            )
        )
    return found


def _batches(kind: str, rows: int, batches: int, each: int) -> list[tuple[float, int, int, int]]:
    """Seconds, bytes read, bytes written, and bytes of log of each batch."""
    created = f"CREATE TABLE bench.orders ({_KEYS[kind]}, {_COLUMNS}) CHARSET utf8mb4"
    table = tailrace.Table.parse(created, flavour="mysql")
    rng = random.Random(1)
    found = []
    with tempfile.TemporaryDirectory(prefix="tailrace-change-") as folder:
        logs, lake = Path(folder, "logs"), Path(folder, "lake")
        logs.mkdir()
        log_file = logs / "binlog.000001"
        with tailrace.create(log_file, flavour="mysql", server_id=1) as log:
            with log.transaction() as trx:
                trx.query(created, database="bench")
            for start in range(0, rows, _STEP):
                with log.transaction() as trx:
                    trx.insert(table, _rows(kind, start, min(_STEP, rows - start)))
            mirror(logs, lake, format="delta", keep=("current",))
            for number in range(batches):
                size = log_file.stat().st_size
                for _ in range(each):
                    row = _rows(kind, rng.randrange(rows), 1)
                    changed = row.set_column(1, "customer", pa.array([number], pa.int32()))
                    with log.transaction() as trx:
                        trx.update(table, row, changed)
                began, before = time.perf_counter(), _counted()
                mirror(logs, lake)
                took, after = time.perf_counter() - began, _counted()
                read, written = (after[name] - before[name] for name in ("rchar", "wchar"))
                found.append((took, read, written, log_file.stat().st_size - size))
    return found


def _rows(kind: str, start: int, count: int) -> pa.Table:
    number = np.arange(start, start + count, dtype=np.int64)
    mixed = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    ids: Any = number
    if kind != "BIGINT":
        ids = [
            str(uuid.UUID(int=int(each) << 64 | int(at)))
            for each, at in zip(mixed, number, strict=True)
        ]
    return pa.table(
        {
            "id": pa.array(ids),
            "customer": pa.array(number * 31 % 1_048_573, pa.int32()),
            "amount": pa.array(number * 7919 % 1_000_000, pa.int32()).cast(pa.decimal128(12, 2)),
            "note": pa.array([f"note {each % (1 << 40)}" for each in mixed.tolist()]),
            "made": pa.array(number * 1_000_003 + 1_700_000_000_000_000, pa.timestamp("us")),
            "x": pa.array(number * 0.37),
        }
    )


def _counted() -> dict[str, int]:
    """Bytes that this process has read and written by system calls so far."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return {name: int(count) for name, _, count in (line.partition(": ") for line in lines)}
