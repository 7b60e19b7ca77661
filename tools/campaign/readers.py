"""Five readers of each lake agree with the server: Spark SQL, DuckDB, delta-rs, pyiceberg, polars.

The shop's logs, of MySQL and MariaDB, are mirrored in small batches whose deleted rows are kept
separately from the files. Each reader's rows of a current table are compared with what SELECT gave
when the logs were recorded, its changelogs and histories with those of the format's own reader.

DuckDB reads Delta and Iceberg by its own extensions. PyPI has these for an older DuckDB than the
project's, so uv runs them in an environment of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from unittest import mock

import pyarrow.parquet as pq

from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.jars import CATALOG
from tailrace.spark.lake.parquet.tables import COMMON_METADATA
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.lake_options import FORMATS
from tailrace.spark.state.current import patching
from tools.campaign.mirrored_here import mirrored
from tools.campaign.mirrored_lake import LakeReader, compare
from tools.campaign.process import Wrong
from tools.campaign.report import Failures, Report
from tools.shop import SHOP, SHOP_TABLES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    Read = Callable[[str, str], pa.Table]

ROOT: Final = Path(__file__).parents[2]
_BATCH_BYTES: Final = 100_000
PARTS: Final = ("current", "changelog", "history")
DUCKDB: Final = "1.5.5"
_EXTENSIONS: Final = {
    "parquet": [],
    "delta": ["duckdb-extension-delta"],
    "iceberg": ["duckdb-extension-avro", "duckdb-extension-iceberg"],
}


@dataclass
class ReadersReport(Report):
    """What one reader made of one format's lake."""

    columns: ClassVar = "Format | Reader | Batches | Tables | Rows | Deleted rows in vectors"
    format: str
    reader: str
    batches: int = 0
    tables: int = 0
    rows: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Lake:
    """A lake, its format, and its tables: current state, changelog and history of each."""

    folder: Path
    format: str
    names: Sequence[str]

    def place(self, name: str, part: str) -> Path:
        """Where a table's files are."""
        if self.format == "parquet":
            return self.folder / name / part
        return self.folder / (name if part == "current" else f"{name}_{part}")


def own(lake: Lake) -> Read:
    """pyarrow, delta-rs or pyiceberg."""
    reader = LakeReader(lake.folder, lake.format)
    return lambda name, part: getattr(reader, part)(name)


def polars(lake: Lake) -> Read:
    """polars, which reads Delta's log by itself, and Iceberg's metadata by pyiceberg."""
    import polars as pl  # noqa: PLC0415 - it takes long to import

    def read(name: str, part: str) -> pa.Table:
        place = lake.place(name, part)
        if lake.format == "parquet":
            # without a schema it is that of the first file, which an ALTER TABLE may be newer than
            common = place / COMMON_METADATA
            schema = pl.Schema(pq.read_schema(common)) if common.exists() else None
            found = pl.scan_parquet(
                place / "*.parquet",
                schema=schema,
                missing_columns="insert",
                cast_options=pl.ScanCastOptions(missing_struct_fields="insert"),
            )
        elif lake.format == "delta":
            found = pl.scan_delta(str(place))
        else:
            found = pl.scan_iceberg(own_catalog(lake.folder).load_table(place.name))
        return found.collect().to_arrow()

    return read


def duckdb(lake: Lake) -> Read:
    """DuckDB's own extensions."""
    packages = ["duckdb", "duckdb-extensions", *_EXTENSIONS[lake.format]]
    given = [word for package in packages for word in ("--with", f"{package}=={DUCKDB}")]
    uv = os.environ.get("UV", "uv")
    return _copied(lake, "duckdb", [uv, "run", "--no-project", "--quiet", *given, "python"])


def spark(lake: Lake) -> Read:
    """Spark SQL with the format's own jars."""
    return _copied(lake, "spark", [sys.executable])


READERS: Final = {"own": own, "polars": polars, "duckdb": duckdb, "spark": spark}
"""For each a function that gives, for a lake, what reads a part of one of its tables."""


def _copied(lake: Lake, reader: str, python: Sequence[str]) -> Read:
    """A reader in a process of its own, which copies all tables to Parquet files."""
    out = lake.folder.parent / reader
    out.mkdir()
    tables = {
        str(out / f"{name}.{part}.parquet"): _called(lake, name, part, reader)
        for name in lake.names
        for part in PARTS
    }
    given = json.dumps([reader, lake.format, str(lake.folder), tables])
    done = subprocess.run(
        [*python, str(Path(__file__).with_name("readers_copy.py")), given],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Wrong(f"{reader} ended with {done.returncode}: {done.stderr[-2000:]}")
    return lambda name, part: pq.read_table(out / f"{name}.{part}.parquet")


def _called(lake: Lake, name: str, part: str, reader: str) -> str:
    """By what a reader finds a table: its folder, or in Iceberg its name or its metadata's file."""
    place = lake.place(name, part)
    if lake.format != "iceberg":
        return str(place)
    if reader == "spark":
        return f"{CATALOG}.{place.name}"
    return own_catalog(lake.folder).load_table(place.name).metadata_location


def check(lake: Lake, reader: str, report: ReadersReport) -> None:
    """Compare what a reader makes of all tables."""
    read, known = READERS[reader](lake), own(lake)
    for name in lake.names:
        with report.noting(f"{lake.format}, {reader}: {name}"):
            rows = read(name, "current")
            compare(name, rows, SHOP_TABLES[name])
            report.tables += 1
            report.rows += rows.num_rows
            for part in ("changelog", "history"):
                found, wanted = (_moments(each(name, part)) for each in (read, known))
                if found != wanted:
                    raise Wrong(f"{name}: {len(found)} rows of the {part}, and not {len(wanted)}")


def _moments(rows: pa.Table) -> list[tuple[Any, ...]]:
    """A row's moment, and what a version of a row adds."""
    names = [each for each in ("_seq", "_op", "_is_current") if each in rows.schema.names]
    return sorted(zip(*(rows.column(each).to_pylist() for each in names), strict=True))


def reports(given: argparse.Namespace) -> Iterator[Report]:
    for format in given.format or FORMATS:  # noqa: A001 - the command's word
        with Failures().in_folder(format) as folder:
            limits = replace(patching.DEFAULT_PATCHES, least=0, share=1)
            with mock.patch.object(patching, "DEFAULT_PATCHES", limits):
                mirrored(SHOP, folder / "lake", format, batch_bytes=_BATCH_BYTES, keep=PARTS)
            manifest = LakeView.open(folder / "lake").manifest
            states = [each.current for each in manifest.tables.values() if each.current]
            deleted = sum(file.deleted for each in states for file in each.data)
            lake = Lake(folder / "lake", format, [*SHOP_TABLES])
            for reader in READERS:
                report = ReadersReport(format, reader, manifest.version, deleted=deleted)
                with report.noting(f"{format}, {reader}"):
                    check(lake, reader, report)
                yield report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this one")
