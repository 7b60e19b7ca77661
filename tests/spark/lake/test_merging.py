"""Small files are put together as batches go by, and no change is lost or doubled."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tailrace.columns.arrays import constant
from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.rewriting import due, put_together
from tailrace.spark.manifest.manifest import DataFile, TableRows
from tailrace.spark.parquet.file import DataFolder, ParquetFile
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.built import Built, ClosedFile
from tailrace.spark.state.history import HISTORY_FIELDS
from tests.spark.batches import data_folder
from tests.spark.history.landing import FORMATS, READERS
from tests.spark.lake.making import BEGIN, COLUMNS, changes, made, row
from tests.spark.lake.test_foreign import DELETE, committing
from tests.spark.lake.test_tables import as_rows, expected
from tests.spark.replay import run

SPAN = pa.duration("us")
SEQ = pa.decimal128(38, 0)


def append(store, first, columns=COLUMNS, rows=3):
    """A batch that has nothing but changes."""
    new = [row(each, columns) for each in range(first, first + rows)]
    files = {"shop.orders": [changes(store.staging / "c", new, columns, first)]}
    store.commit(made(store, files, {}, first + rows - 1, keep=("changelog",)))


def data_files(lake, name, part="changelog"):
    """The names of a part's files, as the format's own reader knows them."""
    if name == "parquet":
        return {path.name for path in (lake / "shop.orders" / part).glob("*.parquet")}
    if name == "delta":
        paths = DeltaTable(str(lake / f"shop.orders_{part}")).file_uris()
    else:
        table = own_catalog(lake).load_table(f"shop.orders_{part}")
        paths = [task.file.file_path for task in table.scan().plan_files()]
    return {path.rpartition("/")[2] for path in paths}


def numbers(rows):
    return sorted(int(each) for each in rows["_seq"].to_pylist())


@pytest.mark.parametrize("name", FORMATS)
def test_small_files_are_put_together(lake, name):
    counts = []
    with open_store(lake, name) as store:
        for number in range(36):
            append(store, 3 * number + 1)
            counts.append(len(data_files(lake, name)))
            rows = READERS[name](lake, "shop.orders", "changelog")
            assert numbers(rows) == list(range(1, 3 * number + 4))
        state = store.manifest.tables["shop.orders"]
    kept = state.changelog if name == "parquet" else state.small["changelog"]
    assert {file.name for file in kept} == data_files(lake, name)
    after = as_rows(pa.Table.from_struct_array(rows["after"].combine_chunks()))
    assert set(rows["_op"].to_pylist()) == {"insert"}
    assert counts[15:18] == [16, 2, 3]  # a batch after there are sixteen
    assert max(counts) <= 17
    if name == "parquet":
        assert sum(file.rows for file in kept) == 108
        assert after == [row(each) for each in range(1, 109)]
        path = lake / "shop.orders" / "changelog" / kept[0].name
        assert pq.read_schema(path).field("_op").type == pa.dictionary(pa.int8(), pa.string())
    else:
        assert after == expected(range(1, 109))


def test_who_follows_a_changelog_sees_each_change_once(tmp_path):
    """A merge is a change of no data to Delta, and a snapshot of its own to Iceberg."""
    lake = tmp_path / "delta"
    with open_store(lake, "delta") as store:
        for number in range(18):
            append(store, 3 * number + 1)
    log = lake / "shop.orders_changelog" / "_delta_log"
    actions = [
        action
        for path in sorted(log.glob("*.json"))
        for action in map(json.loads, path.read_text("utf-8").splitlines())
    ]
    fresh = [each["add"] for each in actions if each.get("add", {}).get("dataChange")]
    assert len(fresh) == 18
    assert all(not each["remove"]["dataChange"] for each in actions if "remove" in each)
    lake = tmp_path / "iceberg"
    with open_store(lake, "iceberg") as store:
        for number in range(18):
            append(store, 3 * number + 1)
    table = own_catalog(lake).load_table("shop.orders_changelog")
    operations = [each.summary.operation.value for each in table.metadata.snapshots]
    assert operations == [*["append"] * 17, "replace", "append"]
    assert table.current_snapshot().summary["total-records"] == "54"
    assert table.current_snapshot().summary["total-data-files"] == "3"


def test_a_merge_is_left_out_where_others_come_between(lake, name, monkeypatch):
    """They take a row out of one of its files when it is made and not committed yet."""
    folder = lake / "shop.orders_changelog"
    merged = []

    def others(table, count):
        files = folder.rglob("part-*.parquet")
        merged.extend(each for each in files if pq.read_metadata(each).num_rows == 48)
        DELETE[name](lake, table, 5, "_seq")

    with open_store(lake, name) as store:
        for number in range(16):
            append(store, 3 * number + 1)
        with monkeypatch.context() as patch:
            committing(patch, others)
            append(store, 49)
        assert len(merged) == 1
        assert numbers(READERS[name](lake, "shop.orders_changelog")) == [
            each for each in range(1, 52) if each != 5
        ]
        assert merged[0].name not in data_files(lake, name)
        assert name == "delta" or not merged[0].exists()
        for number in range(17, 50):
            append(store, 3 * number + 1)
    assert numbers(READERS[name](lake, "shop.orders_changelog")) == [
        each for each in range(1, 151) if each != 5
    ]
    assert len(data_files(lake, name)) < 40


def test_files_of_other_columns_stay_apart(lake):
    fewer = pa.schema([field for field in COLUMNS if field.name != "data"])
    with open_store(lake) as store:
        for number in range(17):
            append(store, number + 1, COLUMNS if number != 7 else fewer, rows=1)
        assert len(store.manifest.tables["shop.orders"].changelog) == 17


def written(folder, tables):
    """Files of tables, and where they are."""
    files, paths = [], [folder / f"{number}.parquet" for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        file = ParquetFile(path)
        file.write(table)
        files.append(DataFile(path.name, table.num_rows, file.close(), 1))
    return files, paths


def test_row_groups_are_put_together_too(tmp_path):
    tables = [pa.table({"n": pa.array([number], pa.int8())}) for number in range(16)]
    files, paths = written(tmp_path, tables)
    assert list(due(files)) == files
    assert due([*files[:15], DataFile("large", 1, 5 << 20, 1)]) == ()
    found = put_together(files, paths, DataFolder(tmp_path / "new", 7), "part")
    assert (found.name[:12], found.rows, found.memory) == ("part-000007-", 16, 16)
    metadata = pq.read_metadata(tmp_path / "new" / found.name)
    assert (metadata.num_rows, metadata.num_row_groups) == (16, 1)


def test_shards_have_one_schema_beside_their_files(lake):
    wide = COLUMNS.append(pa.field("note", pa.string()))
    with open_store(lake) as store:
        files = {
            f"{source}/shop.orders": [
                changes(store.staging / source, [row(1, columns)], columns, 1, source=source)
            ]
            for source, columns in (("a", wide), ("b", COLUMNS))
        }
        store.commit(made(store, files, {}, 1, keep=("changelog",), shards=True))
    folder = lake / "shop.orders" / "changelog"
    assert len(list(folder.glob("*.parquet"))) == 2
    common = pq.read_schema(folder / "_common_metadata")
    assert common.field("after").type == pa.struct(list(wide))
    assert common.names[common.get_field_index("_server_id") + 1] == "_source"


def versions(path, numbers, current):
    """A file of a history's versions."""
    count = len(numbers)
    rows = pa.table({"id": pa.array(numbers, pa.int32()), "span": pa.array(numbers, SPAN)})
    begin = pa.array([BEGIN] * count, pa.timestamp("us", "UTC"))
    values = [begin, begin if not current else pa.nulls(count, begin.type)]
    values += [pa.array([current] * count), pa.array(numbers, pa.int64()).cast(SEQ)]
    values.append(pa.nulls(count, HISTORY_FIELDS[4].type))
    for field, value in zip(HISTORY_FIELDS, values, strict=True):
        rows = rows.append_column(field, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = ParquetFile(path, plain=data_folder(path.parent).plain)
    file.write(rows)
    return DataFile("", count, file.close(), rows.nbytes)


@pytest.mark.parametrize("name", FORMATS)
def test_ended_versions_are_put_together(lake, name):
    columns = pa.schema([("id", pa.int32()), ("span", SPAN)])
    counts = []
    with open_store(lake, name) as store:
        for number in range(20):
            known = store.manifest.tables.get("shop.orders")
            closed = () if known is None else known.history.closed
            ended = store.staging / "ended.parquet"
            opened = store.staging / "open.parquet"
            file = versions(ended, [2 * number, 2 * number + 1], current=False)
            history = TableRows(
                columns, ("id",), (versions(opened, [1000], current=True),), closed=closed
            )
            built = Built(history, (str(opened),), (ClosedFile(file, str(ended), columns),))
            log = [changes(store.staging / "c", [row(number)], COLUMNS, number + 1)]
            store.commit(
                made(
                    store,
                    {"shop.orders": log},
                    {},
                    number + 1,
                    keep=("changelog", "history"),
                    histories={"shop.orders": built},
                )
            )
            files = data_files(lake, name, "history")
            counts.append(sum(each.startswith("closed-") for each in files))
            assert len(files) == counts[-1] + 1
            store.refresh(run)
            assert store.manifest.version == number + 1
        assert store.manifest.tables["shop.orders"].history.rows == 41
    rows = READERS[name](lake, "shop.orders", "history")
    assert name != "parquet" or rows.schema.field("span").type == SPAN
    ended = rows.filter(pc.invert(rows["_is_current"]))
    assert sorted(ended["id"].to_pylist()) == list(range(40))
    assert rows.num_rows == 41
    assert max(counts) < 18
    assert counts[-1] < 6


def test_rows_of_more_log_files_than_a_byte_counts(tmp_path):
    names = [f"binlog.{number:06}" for number in range(160)]
    tables = [
        pa.table({"_file": pa.chunked_array([constant(name, 1) for name in names[at : at + 10]])})
        for at in range(0, 160, 10)
    ]
    files, paths = written(tmp_path, tables)
    found = put_together(files, paths, DataFolder(tmp_path), "part")
    assert found.rows == 160
    (rows,) = row_groups(str(tmp_path / found.name))
    assert rows["_file"].to_pylist() == names
