"""Arrow to rows events against rows events to Arrow: the same rows, in turn, on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import logs
from benchmarks.measure import Series, Worker, compare, pin, ratio

if TYPE_CHECKING:
    from pathlib import Path

_SETUP = """
import pyarrow as pa
from tailrace.columns import changes
from tailrace.columns.write.rows import encode_rows, present_of
from tailrace.columns.write.stamp import stamp_events
from tailrace.events import RowsEvent
from tailrace.log import Log
from tailrace.schema.catalogue import Catalogue
from tailrace.storage import find
(series,) = find({path!r})
log = Log(series)
event = next(each for each in log if isinstance(each, RowsEvent))
schema = Catalogue().resolve(event.table_map, log.format.flavour)
head = event.header.encode() + event.body[: len(event.body) - len(event.row_data)]
names = [column.name for column in schema.columns if {json} or column.logical != "json"]
def prefix(rows):
    bits = len(event.present_after)
    return head[:-bits] + present_of(schema, rows)
def decode():
    return sum(batch.num_rows for batch in changes({path!r}, columns=names))
tables = [
    pa.RecordBatch.from_struct_array(batch["after"]).select(names)
    for batch in (changes({path!r}) if {keep} else ())
]
def encode(rows):
    return encode_rows(schema, "insert", None, rows, prefix=prefix(rows), most=8192)
"""


def run(*, quick: bool) -> None:
    """Print, with JSON and without, seconds of either way and how many times decoding takes."""
    path = logs.log("bulk")
    pin()
    for json in (True, False):
        _one(path, json=json, rounds=5 if quick else 15)


def _one(path: Path, *, json: bool, rounds: int) -> None:
    reads = _SETUP.format(path=str(path), json=json, keep=False)
    writes = _SETUP.format(path=str(path), json=json, keep=True)
    workers = {
        "decode (checksums verified)": Worker(reads, "decode()"),
        "encode": Worker(writes, "for rows in tables: encode(rows)"),
        "encode and stamp (checksums)": Worker(
            writes,
            "for rows in tables: stamp_events(encode(rows).data, 4, checksum=True)",
        ),
    }
    found = compare(dict(workers), rounds)
    for worker in workers.values():
        worker.close()
    rows = int(path.parent.name.rsplit("-", 1)[-1])
    columns = "all columns" if json else "all columns but JSON"
    print(f"\nbulk, {columns}: {rows:,} rows; medians of {rounds} rounds, one core")
    decode = found["decode (checksums verified)"]
    for series in found.values():
        _line(series, rows, decode)


def _line(series: Series, rows: int, decode: Series) -> None:
    low, middle, high = ratio(series, decode)
    print(
        f"  {series.name:30} {series.median:7.3f} s {rows / series.median:12,.0f} rows/s "
        f"{series.peak_bytes / 1e6:6.0f} MB peak {middle:6.2f} x decoding's time "
        f"({low:.2f} to {high:.2f})"
    )
