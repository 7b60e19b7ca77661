"""Lakes that are mirrored from files without Spark, and a history of one as its readers see it."""

from __future__ import annotations

import threading
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tailrace.spark import mirror
from tailrace.spark.current import jobs
from tailrace.spark.lake.iceberg_catalog import own_catalog
from tests.spark.following import no_spark

FORMATS = ("parquet", "delta", "iceberg")


def land(logs, lake, moments=None, **options):
    """Mirror all that is in the logs, in this process; its moments are added to a list."""
    stop = threading.Event()

    def on_moment(moment):
        if moments is not None:
            moments.append(moment)
        if moment.report is None:
            stop.set()

    return mirror(
        logs,
        lake,
        spark=no_spark,
        follow=True,
        trigger=0.02,
        stop=stop,
        on_moment=on_moment,
        **options,
    )


def failing(column="a_bad_column", error=None, shard=None):
    """Folds of the tables that have a column fail; with a ``shard`` only of that one."""
    real = jobs.fold

    def fold(job, report=None):
        if column in job.target.columns.names and shard in {None, job.target.shard}:
            raise error or ZeroDivisionError("so it goes")
        return real(job, report)

    return mock.patch.object(jobs, "fold", fold)


def parquet_rows(lake, table, part="current"):
    folder = lake / table / part
    common = folder / "_common_metadata"
    schema = pq.read_schema(common) if common.exists() else None
    return ds.dataset(folder, schema=schema).to_table()


def delta_rows(lake, table, part="current"):
    name = table if part == "current" else f"{table}_{part}"
    return pa.table(DeltaTable(str(lake / name)).to_pyarrow_table())


def iceberg_rows(lake, table, part="current"):
    name = table if part == "current" else f"{table}_{part}"
    return own_catalog(lake).load_table(name).scan().to_arrow()


READERS = {"parquet": parquet_rows, "delta": delta_rows, "iceberg": iceberg_rows}
"""Each format's own reader: pyarrow, delta-rs, pyiceberg."""
