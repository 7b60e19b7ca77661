"""A lake's own state: what a commit writes of it, and how long it takes to read, at 10,000 tables.

The lake is a Delta one, simulated: no table has files, but the journal has all that a mirror of
such a server knows of them. Each batch has a row for some tables. A checkpoint is written after a
commit, seldom, and is a row of its own. A mirror's batches change a row of one real table, in lakes
of 10 and of very many tables: they should take as long.
"""

from __future__ import annotations

import math
import resource
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pyarrow as pa

import tailrace
from benchmarks.pipeline_rows import Row, spread
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.spark import mirror
from tailrace.spark.lake.delta.tables import DeltaTables
from tailrace.spark.lake.lake import Lake
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.lake.tables import Step, steps_json
from tailrace.spark.manifest.journal import Journal
from tailrace.spark.manifest.lake_options import LakeOptions
from tailrace.spark.manifest.manifest import DataFile, Manifest, SourceState, TableRows, TableState
from tailrace.spark.manifest.on_disk import LocalObjects
from tailrace.spark.mirror import batch

if TYPE_CHECKING:
    from benchmarks.pipeline_rows import Options
    from tailrace.spark import Moment

_COLUMNS: Final = {
    "id": ("bigint", pa.int64()),
    "customer": ("int", pa.int32()),
    "amount": ("decimal(12,2)", pa.decimal128(12, 2)),
    "note": ("varchar(40)", pa.string()),
    "made": ("datetime(6)", pa.timestamp("us")),
    "x": ("double", pa.float64()),
    "state": ("varchar(12)", pa.string()),
    "seen": ("timestamp", pa.timestamp("us", "UTC")),
    "city": ("varchar(60)", pa.string()),
    "code": ("char(8)", pa.string()),
}
_SCHEMA: Final = pa.schema([(name, kind) for name, (_, kind) in _COLUMNS.items()])
_BUCKETS: Final = 4
_CREATE: Final = "CREATE TABLE bench.t (id INT PRIMARY KEY, n INT NOT NULL)"
_BATCHES: Final = 8


def measure(options: Options) -> list[Row]:
    """Bytes that a commit writes, by the tables that it touches; seconds to open the lake."""
    count = 500 if options.quick else 10_000
    found = []
    with tempfile.TemporaryDirectory(prefix="tailrace-state-") as text:
        lake = Path(text)
        journal = Journal(LocalObjects(lake / "_tailrace"))
        manifest = _begun(count)
        _commit(journal, manifest, [])
        for touched in (1, 100):
            times, sizes = [], []
            for _ in range(10):
                manifest = _next(manifest, touched)
                took, size = _commit(journal, manifest, list(manifest.tables)[:touched])
                times.append(took)
                sizes.append(size / 1024)
            found.append(
                Row(
                    "state",
                    f"{count:,} tables, a commit of {touched}",
                    f"{spread(sizes, ' KiB', 1)} written, {spread(times, ' s', 3)}",
                    f"{64 + touched} KiB",
                )
            )
        began = time.perf_counter()
        journal._checkpoint()  # noqa: SLF001 - whether one is due or not
        took = time.perf_counter() - began
        size = (lake / "_tailrace" / "journal" / f"{manifest.version:06}.all.jsonl").stat().st_size
        found.append(
            Row("state", f"{count:,} tables, a checkpoint", f"{size / 1e6:.1f} MB, {took:.2f} s")
        )
        for name, begin in (("after the checkpoint", 0), ("and 400 batches", 400)):
            for _ in range(begin // (40 if options.quick else 1)):
                manifest = _next(manifest, 1)
                _commit(journal, manifest, [])
            found.append(_opened(lake, f"{count:,} tables, {name}", manifest))
    return [*found, _mirrored(10), _mirrored(count)]


def _mirrored(count: int) -> Row:
    """Seconds of the processor that a mirror's batch of one row takes; the first does not count."""
    stop, seconds = threading.Event(), []
    with tempfile.TemporaryDirectory(prefix="tailrace-state-") as text:
        made, logs, lake = (Path(text, name) for name in ("made", "logs", "lake"))
        made.mkdir()
        logs.mkdir()
        table = tailrace.Table.parse(_CREATE, flavour="mysql")
        with tailrace.create(
            made / "binlog.000001", flavour="mysql", server_id=1, sync="none"
        ) as log:
            for number in range(_BATCHES + 2):
                with log.transaction() as trx:
                    if number:
                        trx.insert(table, [(number, 0)])
                    else:
                        trx.query(_CREATE, database="bench")
                if number:
                    log.rotate()
        files = sorted(made.glob("binlog.0*"))

        def receive() -> float:
            file = files.pop(0)
            (logs / file.name).hardlink_to(file)
            return time.process_time()

        began = receive()
        mirror(logs, lake, format="delta")
        _more_tables(lake, count)
        began = receive()

        def on_moment(moment: Moment) -> None:
            nonlocal began
            if moment.report is not None:
                seconds.append(time.process_time() - began)
                if moment.set_aside or not files:
                    stop.set()
                else:
                    began = receive()

        with patch.object(batch, "_LOOK_SECONDS", math.inf):  # the other tables have no files
            mirror(
                *(logs, lake),
                format="delta",
                follow=True,
                trigger=0.05,
                stop=stop,
                on_moment=on_moment,
            )
    if files:
        raise RuntimeError("tables are set aside")
    what = f"{count:,} tables, a mirror's batch of one row (Delta)"
    return Row("state", what, f"CPU {spread(seconds[1:], ' s', 3)}")


def _more_tables(lake: Path, count: int) -> None:
    """Simulate other tables, as a batch of the lake's."""
    journal = Journal(LocalObjects(lake / "_tailrace"))
    journal.read()
    before, tables = journal.manifest, dict(journal.manifest.tables)
    (state,) = tables.values()
    for number in range(count - 1):
        name = f"x{number:05}"
        parts = {part: f"bench.{name}_{part}" for part in state.parts}
        folder = f"bench.{name}"
        tables[folder] = replace(state, table=name, folder=folder, parts=parts, marks={})
    manifest = replace(before, version=before.next, tables=tables)
    journal.prepare(manifest, [])
    journal.done(manifest)
    journal.clean()


def _opened(lake: Path, what: str, manifest: Manifest) -> Row:
    """Seconds to open the lake, to read and to write; and to parse all of its tables."""
    readers, writers = [], []
    for _ in range(5):
        began = time.perf_counter()
        view = LakeView.open(lake)
        readers.append(time.perf_counter() - began)
        began = time.perf_counter()
        with Lake(lake, "delta", DeltaTables(lake), label="lake"):
            writers.append(time.perf_counter() - began)
    began = time.perf_counter()
    if view.manifest != manifest:
        raise RuntimeError("the lake is not what was committed")
    whole = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return Row(
        "state",
        what,
        f"opened in {spread(readers, ' s')} to read, {spread(writers, ' s')} to write; all tables "
        f"parsed in {whole:.2f} s; {memory} MiB at most",
        "1 s",
    )


def _begun(count: int) -> Manifest:
    names = [f"table_{number:05}" for number in range(count)]
    columns = [{"name": name, "type": kind} for name, (kind, _) in _COLUMNS.items()]
    tables: list[dict[str, Any]] = [
        {"database": "bench", "table": name, "columns": columns, "primary_key": ["id"]}
        for name in names
    ]
    whole = [["bench", name] for name in names]
    catalogue = from_json({"version": 2, "tables": tables, "whole": whole})
    source = SourceState("binlog.000001", 4, {}, "0" * 64, "0" * 64, to_json(catalogue))
    states = {f"bench.{name}": _table(name) for name in names}
    options = LakeOptions.of({"format": "delta"})
    return Manifest(1, options, {"mysql": source}, states)


def _table(name: str) -> TableState:
    files = tuple(
        DataFile(f"part-000001-3152080966-6b1f0c2d{n:04}.parquet", 9999, 999999, 999999)
        for n in range(4)
    )
    return TableState(
        "bench",
        name,
        "mysql",
        "log",
        _SCHEMA,
        (DataFile("", 40_000, 4_000_000, 5_000_000),),
        TableRows(_SCHEMA, ("id",), files),
        parts={"changelog": f"bench.{name}_changelog", "current": f"bench.{name}"},
        shapes={"changelog": _SCHEMA, "current": _SCHEMA},
        folder=f"bench.{name}",
    )


def _next(manifest: Manifest, touched: int) -> Manifest:
    number = manifest.next
    tables = dict(manifest.tables)
    for key in list(tables)[:touched]:
        state = tables[key]
        if (current := state.current) is None:
            raise RuntimeError(key)
        log = DataFile(f"part-{number:06}-3152080966-6b1f0c2d9a3e.parquet", 1, 4000, 300)
        tail = replace(log, name=f"part-{number:06}-3152080966-6b1f0c2d9a3f.parquet")
        small = {"changelog": (*state.small.get("changelog", ()), log)[-64:]}
        current = replace(current, tails=(*current.tails[-8:], tail))
        tables[key] = replace(state, small=small, current=current)
    source = manifest.sources["mysql"]
    source = replace(source, offset=source.offset + 500, tail=f"{number:064}")
    return replace(manifest, version=number, tables=tables, sources={"mysql": source})


def _commit(journal: Journal, manifest: Manifest, touched: list[str]) -> tuple[float, int]:
    """Seconds, and bytes of the batch's documents."""
    name = f"part-{manifest.version:06}-3152080966-6b1f0c2d9a3e.parquet"
    steps = [
        step
        for key in touched
        for step in (Step(f"{key}_changelog", (name,)), Step(key, (name,), "", base="17"))
    ]
    began = time.perf_counter()
    journal.prepare(manifest, steps_json(steps))
    journal.done(manifest)
    took = time.perf_counter() - began
    journal.clean()
    folder = Path(journal._path(0, "")).parent  # noqa: SLF001 - where it writes
    paths = [folder / f"{manifest.version:06}{kind}.jsonl" for kind in ("", ".done")]
    return took, sum(path.stat().st_size for path in paths)
