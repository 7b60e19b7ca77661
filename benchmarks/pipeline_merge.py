"""Changes at random keys into a large current table: `mirror` into Delta, and Spark's Delta MERGE.

Three fifths of the changes are updates, one deletes and one inserts, in transactions of a thousand,
logged by a real MySQL. `mirror` begins with the log. MERGE has the changes as Parquet, one a key
already, and a table of the same rows that Spark has written in 16 files. Both have a session that
runs, on the same two cores; MERGE's Java has both compilers and 4 GB. Each round begins with a
fresh copy of the table; the rounds take turns.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.logs import FOLDER
from benchmarks.pipeline_rows import CORES, Options, Row, keep_to, spread
from tools.campaign.mirrored_lake import delta_rows
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).resolve().parent.parent
_TABLE: Final = "bench.orders"
_COLUMNS: Final = ("id", "customer", "amount", "state", "note", "made", "n", "x")
_STEP: Final = 10_000
_EACH: Final = 1_000
"""Changes of a transaction."""
_OPTIONS: Final = {
    "binlog_row_metadata": "FULL",
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_buffer_pool_size": "1G",
    "innodb_redo_log_capacity": "1G",
    "max_binlog_size": "1G",
}
_MERGES: Final = {
    "rewriting": "MERGE, files written again",
    "vectors": "MERGE, deletion vectors",
}


def measure(options: Options) -> list[Row]:
    """Seconds of each, and the ratios by round."""
    rows, changes = (500_000, 25_000) if options.quick else (5_000_000, 250_000)
    prepared = _logs(rows, changes)
    keep_to(CORES)
    folder = Path(tempfile.mkdtemp(prefix="tailrace-merge-"))
    _changes(prepared, folder / "changes.parquet")
    ours, spark = (_Contender(name, prepared, folder) for name in ("ours", "spark"))
    try:
        seconds: dict[str, list[float]] = {name: [] for name in ("ours", *_MERGES)}
        for number in range(options.rounds + 1):
            contents = set()
            for name, times in seconds.items():
                took, found = (ours if name == "ours" else spark)(name)
                contents.add(found)
                if number:
                    times.append(took)
            if len(contents) != 1:
                raise RuntimeError(f"the tables differ: {contents}")
    finally:
        ours.close()
        spark.close()
        shutil.rmtree(folder, ignore_errors=True)
    title = f"{changes:,} changes into {rows:,} rows"
    found_rows = [Row("merge", f"{title}: mirror", spread(seconds["ours"], " s"))]
    for name, words in _MERGES.items():
        ratios = [a / b for a, b in zip(seconds[name], seconds["ours"], strict=True)]
        found_rows.append(
            Row(
                "merge",
                f"{title}: {words} {spread(seconds[name], ' s')}",
                f"mirror is {spread(ratios, digits=1)} times as fast",
                "5",
            )
        )
    return found_rows


# --- what is merged ------------------------------------------------------------------------------


def _logs(rows: int, changes: int) -> Path:
    """A folder with two logs of a server's, the rows and the changes; kept for the next run."""
    folder = FOLDER / f"merge-{rows}-{changes}"
    if not (folder / "done").exists():
        print(f"making {folder.name} on a MySQL 9.7", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with Server("mysql-9.7", _OPTIONS) as server:
            _insert(server, rows)
            shutil.copy(server.rotate(), folder / "binlog.000001")
            for sql in _statements(rows, changes):
                server.execute(sql)
            shutil.copy(server.rotate(), folder / "binlog.000002")
        (folder / "done").touch()
    return folder


def _row(number: str) -> str:
    return (
        f"{number}, {number} * 31 % 1048573, {number} * 7919 % 1000000 / 100, "
        f"ELT(1 + {number} % 4, 'open', 'paid', 'sent', 'lost'), "
        f"CONCAT('note ', {number} * 2654435761 % 1099511627776), "
        f"TIMESTAMP('2026-01-01') + INTERVAL {number} * 1000003 MICROSECOND, "
        f"{number} % 99, {number} * 0.37"
    )


def _insert(server: Server, rows: int) -> None:
    server.execute("CREATE DATABASE bench")
    server.execute(
        f"CREATE TABLE {_TABLE} (id BIGINT PRIMARY KEY, customer INT, amount DECIMAL(12,2), "
        "state VARCHAR(10), note VARCHAR(40), made DATETIME(6), n INT, x DOUBLE)"
    )
    server.execute("CREATE TABLE bench.numbers (d INT PRIMARY KEY)")
    digits = ", ".join(f"({number})" for number in range(100))
    server.execute(f"INSERT INTO bench.numbers VALUES {digits}")
    source = "bench.numbers a CROSS JOIN bench.numbers b"
    for base in range(0, rows, _STEP):
        number = f"(a.d * 100 + b.d + {base})"
        server.execute(f"INSERT INTO {_TABLE} SELECT {_row(number)} FROM {source}")


def _statements(rows: int, changes: int) -> Iterator[str]:
    """Updates, deletes and inserts in turn, at random keys."""
    rng = random.Random(1)
    fifth = changes // 5
    hit = rng.sample(range(rows), 4 * fifth)
    updated, deleted = hit[: 3 * fifth], hit[3 * fifth :]
    inserted = rng.sample(range(rows, rows + fifth), fifth)
    for at in range(0, fifth, _EACH):
        for part in range(3):
            keys = updated[(3 * at) + part * _EACH : (3 * at) + (part + 1) * _EACH]
            yield (
                f"UPDATE {_TABLE} SET amount = amount + 1, state = 'new', n = n + 1 "
                f"WHERE id IN ({','.join(map(str, keys))})"
            )
        keys = deleted[at : at + _EACH]
        yield f"DELETE FROM {_TABLE} WHERE id IN ({','.join(map(str, keys))})"
        made = ", ".join(f"({_row(str(key))})" for key in inserted[at : at + _EACH])
        yield f"INSERT INTO {_TABLE} VALUES {made}"


def _changes(prepared: Path, target: Path) -> None:
    """The changes as MERGE takes them: the operation, and the row (of a delete, its key)."""
    import tailrace  # noqa: PLC0415 - after the cores are chosen

    parts = []
    for batch in tailrace.changes(prepared / "binlog.000002"):
        deleted = pc.equal(batch.column("_op").cast(pa.string()), "delete")
        columns = [
            pc.if_else(
                deleted,
                pc.struct_field(batch["before"], name),
                pc.struct_field(batch["after"], name),
            )
            for name in _COLUMNS
        ]
        parts.append(pa.table([deleted, *columns], ["deleted", *_COLUMNS]))
    pq.write_table(pa.concat_tables(parts), target)


# --- the contenders, each in a process -----------------------------------------------------------


class _Contender:
    """A process that merges again and again."""

    def __init__(self, name: str, prepared: Path, folder: Path) -> None:
        argv = [sys.executable, "-m", "benchmarks.pipeline_merge", name, str(prepared), str(folder)]
        self._name = name
        self._process = subprocess.Popen(
            argv, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, name: str) -> tuple[float, tuple[Any, ...]]:
        """Merge in the way of that name: the seconds, and what the table has then."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended: {self._process.wait()}")
        seconds, contents = json.loads(line)
        return seconds, tuple(contents)

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def _contents(table: pa.Table) -> tuple[Any, ...]:
    """By which two tables are told apart."""
    sums = [pc.sum(table[name]).as_py() for name in ("id", "amount", "n")]
    return (table.num_rows, *map(str, sums))


def _ours(prepared: Path, folder: Path) -> None:
    """`mirror` of the second log, into a copy of the lake of the first."""
    from tailrace.spark import mirror, session  # noqa: PLC0415 - of this contender

    spark = session(CORES)
    logs, base, lake = folder / "logs", folder / "base", folder / "lake"
    logs.mkdir()
    shutil.copy(prepared / "binlog.000001", logs)
    given = {"spark": spark, "keep": ("current",), "format": "delta", "tables": [_TABLE]}
    mirror(logs, base, **given)  # type: ignore[arg-type] # as given
    shutil.copy(prepared / "binlog.000002", logs)
    for _ in sys.stdin:
        shutil.copytree(base, lake, symlinks=True)
        began = time.perf_counter()
        mirror(logs, lake, **given)  # type: ignore[arg-type] # as given
        took = time.perf_counter() - began
        rows = delta_rows(lake / _TABLE, ["id", "amount", "n"])
        print(json.dumps([took, _contents(rows)]), flush=True)
        shutil.rmtree(lake)


def _spark(prepared: Path, folder: Path) -> None:
    """Spark's MERGE of the changes into copies of tables of its own, with vectors and without."""
    import tailrace  # noqa: PLC0415 - of this contender

    rows = folder / "rows.parquet"
    writer = None
    for batch in tailrace.changes(prepared / "binlog.000001", tables=[_TABLE]):
        after = pa.table(
            [pc.struct_field(batch["after"], each) for each in _COLUMNS], list(_COLUMNS)
        )
        writer = writer or pq.ParquetWriter(rows, after.schema)
        writer.write_table(after)
    if writer is None:
        raise RuntimeError("the log has no rows")
    writer.close()
    spark = _with_delta()
    for name in _MERGES:
        write = spark.read.parquet(str(rows)).repartition(16).write.format("delta")
        vectors = str(name == "vectors").lower()
        write.option("delta.enableDeletionVectors", vectors).save(str(folder / f"base-{name}"))
    rows.unlink()
    for number, line in enumerate(sys.stdin):
        table = folder / f"table-{number}"
        shutil.copytree(folder / f"base-{line.strip()}", table)
        began = time.perf_counter()
        spark.sql(
            f"MERGE INTO delta.`{table}` t USING parquet.`{folder}/changes.parquet` c "
            "ON t.id = c.id WHEN MATCHED AND c.deleted THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{each} = c.{each}' for each in _COLUMNS)} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(_COLUMNS)}) "
            f"VALUES ({', '.join(f'c.{each}' for each in _COLUMNS)})"
        )
        took = time.perf_counter() - began
        print(json.dumps([took, _contents(delta_rows(table, ["id", "amount", "n"]))]), flush=True)
        shutil.rmtree(table)
    spark.stop()


def _with_delta() -> Any:
    """A session with Delta, whose Java is as Spark starts it."""
    from tailrace.spark import session, settings  # noqa: PLC0415 - of this contender

    return session(
        CORES,
        conf={
            **settings("delta"),
            "spark.driver.memory": "4g",
            "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
            "spark.sql.shuffle.partitions": "4",
            "spark.databricks.delta.snapshotPartitions": "2",
        },
    )


def _contend(name: str, prepared: Path, folder: Path) -> None:
    keep_to(CORES)
    if name == "ours":
        _ours(prepared, folder)
    else:
        _spark(prepared, folder)


if __name__ == "__main__":
    _contend(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
