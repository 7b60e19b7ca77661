"""Lakes that are mirrored from files without Spark, and a history of one as its readers see it."""

from __future__ import annotations

import datetime as dt
import threading

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tailrace.spark import mirror
from tailrace.spark.lake.iceberg_catalog import own_catalog
from tests.spark.following import no_spark

FORMATS = ("parquet", "delta", "iceberg")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def land(logs, lake, **options):
    """Mirror all that is in the logs, in this process."""
    stop = threading.Event()

    def on_moment(moment):
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


def parquet_rows(lake, table, part):
    folder = lake / table / part
    common = folder / "_common_metadata"
    schema = pq.read_schema(common) if common.exists() else None
    return ds.dataset(folder, schema=schema).to_table()


def delta_rows(lake, table, part):
    name = table if part == "current" else f"{table}_{part}"
    return pa.table(DeltaTable(str(lake / name)).to_pyarrow_table())


def iceberg_rows(lake, table, part):
    name = table if part == "current" else f"{table}_{part}"
    return own_catalog(lake).load_table(name).scan().to_arrow()


READERS = {"parquet": parquet_rows, "delta": delta_rows, "iceberg": iceberg_rows}
"""Each format's own reader: pyarrow, delta-rs, pyiceberg."""


def at(rows, micros):
    """The versions of a moment."""
    moment = pa.scalar(EPOCH + dt.timedelta(microseconds=micros), pa.timestamp("us", "UTC"))
    begun = pc.less_equal(rows.column("_valid_from"), moment)
    ended = pc.fill_null(pc.less_equal(rows.column("_valid_to"), moment), False)
    return rows.filter(pc.and_(begun, pc.invert(ended)))


class Column(list):
    """Values of a column, as a table's column gives them."""

    def to_pylist(self):
        return list(self)


class UnderOneName:
    """Rows of a history in the columns of a table: ``name`` is what is in it or a ``name__type``.

    A version has its value in one of them, and nothing in the others.
    """

    def __init__(self, rows, columns):
        self.schema = pa.schema([(name, pa.null()) for name in columns])
        self.num_rows = rows.num_rows
        self._rows = rows

    def column(self, name):
        if name.startswith("_"):
            return self._rows.column(name)
        names = [
            each
            for each in self._rows.schema.names
            if each.lower() == name.lower() or each.lower().startswith(f"{name.lower()}__")
        ]
        found = Column()
        for values in zip(*(self._rows.column(each).to_pylist() for each in names), strict=True):
            full = [value for value in values if value is not None]
            assert len(full) <= 1, (name, names, values)
            found.append(full[0] if full else None)
        return found
