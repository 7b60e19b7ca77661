"""Changelog files: what goes into which, how they are written, and how Spark reads them."""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.errors import PipelineError, UnsupportedType
from tailrace.position import sequence
from tailrace.spark.parquet.file import DataFolder, ParquetFile, file_schema
from tailrace.spark.record.types import plain_type, spark_schema
from tailrace.spark.state.changelog import ChangelogFiles, Limits
from tests.spark.batches import OneFolder, batch, changelog

COLUMNS = pa.schema([("id", pa.int32()), ("v", pa.string())])


def inserts(count, first=1):
    return [("insert", None, {"id": first + n, "v": f"v{n}"}) for n in range(count)]


def test_one_file_a_table_with_figures(tmp_path):
    files = ChangelogFiles(OneFolder(DataFolder(tmp_path)), limits=Limits(group_rows=10))
    row, other = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}
    files.add(batch(inserts(4), COLUMNS, start=100), 0.5)
    files.add(batch([("insert", None, row)], COLUMNS, table="customers", start=200))
    files.add(batch([("update", row, other), ("delete", other, None)], COLUMNS, start=300), 0.25)
    customers, orders = sorted(files.finish(), key=lambda each: each.name)
    assert (customers.name, customers.rows) == ("shop.customers", 1)
    assert (orders.name, orders.rows, orders.source) == ("shop.orders", 6, "mysql")
    assert orders.operations == {"insert": 4, "update": 1, "delete": 1, "snapshot": 0}
    assert (orders.first, orders.last) == (sequence(1, 100, 0), sequence(1, 300, 1))
    assert (orders.columns, orders.key, orders.names) == (COLUMNS, ("id",), "log")
    assert orders.seconds > 0.75
    assert orders.size == (tmp_path / orders.path).stat().st_size
    assert not orders.partial
    assert pq.read_table(orders.path).column("_op").to_pylist() == [
        *["insert"] * 4,
        "update",
        "delete",
    ]


def test_row_groups(tmp_path):
    batches = (batch(inserts(4, 4 * number), COLUMNS, start=100 + number) for number in range(7))
    (written,) = changelog(tmp_path / "c", *batches, group_rows=10)
    found = pq.ParquetFile(written.path)
    assert [found.metadata.row_group(n).num_rows for n in range(found.num_row_groups)] == [
        12,
        12,
        4,
    ]


def test_what_is_kept_is_bounded(tmp_path):
    files = ChangelogFiles(OneFolder(DataFolder(tmp_path)), limits=Limits(kept_bytes=1))
    files.add(batch(inserts(3), COLUMNS))
    assert files._kept == 0
    (written,) = files.finish()
    assert written.rows == 3


def test_open_files_are_bounded(tmp_path):
    batches = (
        batch(inserts(1), COLUMNS, table=table, start=100 + number)
        for number, table in enumerate("abcab")
    )
    written = changelog(tmp_path / "c", *batches, group_rows=1, open_files=2)
    assert [each.table for each in written] == ["a", "b", "c", "a", "b"]
    assert len({each.path for each in written}) == 5


def test_other_columns_or_another_key_begin_another_file(tmp_path):
    more = COLUMNS.append(pa.field("w", pa.int64()))
    first, second, third = changelog(
        tmp_path / "c",
        batch(inserts(1), COLUMNS, start=100),
        batch([("insert", None, {"id": 2, "v": None, "w": 5})], more, start=200),
        batch([("insert", None, {"id": 3, "v": "", "w": 5})], more, key=("w",), start=300),
    )
    assert (first.columns, second.columns, third.columns) == (COLUMNS, more, more)
    assert (second.key, third.key) == (("id",), ("w",))


def test_partial_images_and_moved_keys_are_noted(tmp_path):
    changes = {"a": {"v": "x"}, "b": {"id": 2}}
    stays, moves = changelog(
        tmp_path / "c",
        *(
            batch([("update", {"id": 1}, new)], COLUMNS, table=table)
            for table, new in changes.items()
        ),
    )
    assert (stays.partial, stays.moved) == (True, False)
    assert (moves.partial, moves.moved) == (True, True)


def test_a_file_is_in_the_way(tmp_path):
    (tmp_path / "file").touch()
    files = ChangelogFiles(OneFolder(DataFolder(tmp_path / "file")), limits=Limits(group_rows=1))
    with pytest.raises(PipelineError, match="cannot write"):
        files.add(batch(inserts(1), COLUMNS))


def test_gtids_are_written_as_suits_them(tmp_path):
    for repeats, encoding in ((1, "DELTA_BYTE_ARRAY"), (100, "RLE_DICTIONARY")):
        texts = pa.array([f"3e11fa47:{row // repeats}" for row in range(1000)]).dictionary_encode()
        file = ParquetFile(tmp_path / f"{repeats}.parquet")
        file.write(pa.table({"_gtid": texts}))
        file.write(pa.table({"_gtid": texts}))
        assert file.close() > 0
        column = pq.ParquetFile(tmp_path / f"{repeats}.parquet").metadata.row_group(1).column(0)
        assert encoding in column.encodings
        found = pq.read_table(tmp_path / f"{repeats}.parquet").column(0)
        assert found.to_pylist() == 2 * texts.to_pylist()


def test_dictionaries_where_values_are_few(tmp_path):
    rows = 10_000
    table = pa.table(
        {
            "after": pa.StructArray.from_arrays(
                [pa.array(range(rows)), pa.array(["new", "paid"] * (rows // 2))], ["id", "status"]
            )
        }
    )
    file = ParquetFile(tmp_path / "x.parquet")
    file.write(table)
    file.close()
    group = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0)
    has = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert not has["after.id"].has_dictionary_page
    assert has["after.status"].has_dictionary_page
    assert has["after.id"].statistics.max == rows - 1
    assert has["after.status"].statistics is None or not has["after.status"].statistics.has_min_max


VALUES = {
    "tiny": (pa.int8(), -128),
    "small": (pa.int16(), 300),
    "whole": (pa.int32(), -5),
    "big": (pa.int64(), 1 << 62),
    "unsigned": (pa.decimal128(20, 0), decimal.Decimal(2**64 - 1)),
    "money": (pa.decimal128(38, 10), decimal.Decimal("-99.0000000001")),
    "single": (pa.float32(), 1.5),
    "double": (pa.float64(), 1e300),
    "day": (pa.date32(), dt.date(1000, 1, 1)),
    "local": (pa.timestamp("us"), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
    "utc": (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
    "span": (pa.duration("us"), -dt.timedelta(hours=838, minutes=59, seconds=59, microseconds=5)),
    "text": (pa.string(), "é😀"),
    "bytes": (pa.binary(), b"\0\xff"),
    "vector": (pa.list_(pa.float32()), [1.0, 2.5]),
    "odd.name` ": (pa.int64(), 1),
}


def test_spark_reads_the_types_that_we_wrote(spark, tmp_path):
    image = pa.struct([pa.field(name, arrow) for name, (arrow, _) in VALUES.items()])
    row = {name: value for name, (_, value) in VALUES.items()}
    table = pa.table(
        {
            "_op": pa.array(["insert", "delete"]).dictionary_encode(),
            "_raw": pa.array(
                [[("after.x", "0000-00-00")], None], pa.map_(pa.string(), pa.string())
            ),
            "after": pa.array([row, None], image),
        }
    )
    file = ParquetFile(tmp_path / "x.parquet")
    file.write(table)
    file.close()
    frame = spark.read.parquet(str(tmp_path))
    found = frame.toArrow()
    assert found.column("_raw").to_pylist() == [[("after.x", "0000-00-00")], None]
    assert found.column("after").to_pylist() == [row, None]
    assert frame.schema == spark_schema(table.schema)
    plain = plain_type(pa.struct(list(table.schema)))
    assert found.schema.field("after").type == plain.field("after").type


def test_a_type_that_spark_has_not():
    with pytest.raises(UnsupportedType, match="uint64"):
        file_schema(pa.schema([("x", pa.uint64())]))
