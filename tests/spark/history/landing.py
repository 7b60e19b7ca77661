"""Lakes that are mirrored from files without Spark, and a history of one as its readers see it."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tailrace.spark import mirror
from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.runtime.workers import Workers
from tailrace.spark.state.current import jobs
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


@contextmanager
def in_this_process():
    """Runs that end by themselves do without Spark, however much there is to read."""
    real = Workers.__init__

    def here(self, spark, **more):
        real(self, spark, **{**more, "here": True})

    with (
        mock.patch.object(Workers, "__init__", here),
        mock.patch.object(Workers, "session", return_value=None),
        mock.patch.object(Workers, "start", return_value=None),
    ):
        yield


def failing(column="a_bad_column", error=None, shard=None):
    """Folds of the tables that have a column fail; with a ``shard`` only of that one."""
    real = jobs.FoldJob.do

    def fold(job):
        if column in job.target.columns.names and shard in {None, job.target.shard}:
            raise error or ZeroDivisionError("so it goes")
        return real(job)

    return mock.patch.object(jobs.FoldJob, "do", fold)


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


class Logged:
    """What a server's log has of some databases, copied file by file, and the lake made of that."""

    def __init__(self, server, folder, kind="parquet", **options):
        self.server, self.kind, self.options = server, kind, options
        self.logs, self.lake = folder / "logs", folder / "lake"
        self.logs.mkdir(parents=True)

    def begin(self, *databases):
        """Create empty databases: nothing that was before is in the copies."""
        for each in databases:
            self.server.execute(f"DROP DATABASE IF EXISTS {each}")
        self.server.rotate()
        self.say(*(f"CREATE DATABASE {each}" for each in databases))

    def say(self, *statements):
        for sql in statements:
            self.server.execute(sql)

    def take(self):
        """Copy the log since the last time."""
        shutil.copy(self.server.rotate(), self.logs)

    def land(self, **more):
        return land(self.logs, self.lake, format=self.kind, **self.options, **more)

    def step(self, *statements):
        """Statements, which are a batch of the lake."""
        self.say(*statements)
        self.take()
        return self.land()

    def states(self):
        """The tables of the lake that are not dropped."""
        tables = LakeView.open(self.lake).manifest.tables
        return {name: state for name, state in tables.items() if not state.dropped}

    def rows(self, table, *columns):
        found = READERS[self.kind](self.lake, table).select(list(columns)).to_pylist()
        return sorted((tuple(row.values()) for row in found), key=str)
