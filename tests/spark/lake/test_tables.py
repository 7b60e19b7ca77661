"""Lakes of Delta and Iceberg tables, read back with the formats' own readers."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from tailrace.errors import PipelineError
from tailrace.spark.lake.asides import Asides
from tailrace.spark.lake.delta import tables as delta_tables
from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.iceberg.tables import IcebergTables
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.plan import completed
from tailrace.spark.lake.tables import Step
from tailrace.spark.manifest.journal import Journal
from tailrace.spark.manifest.manifest import TableRows
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.built import Built
from tailrace.spark.state.failure import Failure
from tests.spark.history.landing import READERS
from tests.spark.lake.making import COLUMNS, batch, begun, changes, made, row, state
from tests.spark.replay import run


@pytest.fixture
def read(name):
    return READERS[name]


def as_rows(table):
    """Rows of the columns that tests make, by key; spans are microseconds in a table."""
    return sorted(table.select(COLUMNS.names).to_pylist(), key=lambda each: each["id"])


def expected(numbers, columns=COLUMNS):
    rows = [row(number, columns) for number in numbers]
    return [each | {"span": each["span"] // dt.timedelta(microseconds=1)} for each in rows]


def test_batches_come_back_as_they_were(lake, name, read):
    for number in range(3):
        with open_store(lake, name) as store:
            assert store.manifest.version == number
            store.refresh(run)
            assert store.manifest.version == number
            manifest = store.commit(batch(store, number))
            assert manifest.version == number + 1
        assert as_rows(read(lake, "shop.orders")) == expected(range(10 * (number + 1)))
        log = read(lake, "shop.orders_changelog")
        assert sorted(int(seq) for seq in log["_seq"].to_pylist()) == list(
            range(1, 10 * (number + 1) + 1)
        )
        after = pa.Table.from_struct_array(log["after"].combine_chunks())
        assert as_rows(after) == expected(range(10 * (number + 1)))
        assert set(log["_op"].to_pylist()) == {"insert"}
        own = ("_log_file", "_log_pos") if name == "iceberg" else ("_file", "_pos")
        assert set(log[own[0]].to_pylist()) == {"binlog.000001"}
        assert sorted(set(log[own[1]].to_pylist())) == [10 * each + 1 for each in range(number + 1)]
    with open_store(lake, name) as store:
        assert store.manifest.sources["mysql"].offset == 300
        (sums,) = store.manifest.tables["shop.orders"].changelog
        assert sums.rows == 30
        assert all(Path(path).exists() for path in store.paths("shop.orders", "current"))


def test_a_bucket_that_did_not_change_is_not_written_again(tmp_path, name, read):
    lake = begun(tmp_path, name)
    with open_store(lake, name) as store:
        before = store.paths("shop.orders", "current")
        known = (store.manifest.tables["shop.orders"].current.files, before)
        built = state(store.staging, [row(n) for n in range(10)], COLUMNS, keep=(0,), known=known)
        store.commit(made(store, {}, {"shop.orders": built}, 200))
        after = store.paths("shop.orders", "current")
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]
    assert as_rows(read(lake, "shop.orders")) == expected(range(10))


def test_a_table_that_is_dropped_or_refused_is_empty(tmp_path, name, read):
    lake = begun(tmp_path, name)
    with open_store(lake, name) as store:
        refused = Built(TableRows(pa.schema([]), (), refused="no key"))
        store.commit(made(store, {}, {"shop.orders": refused}, 200))
        assert store.manifest.tables["shop.orders"].current.refused == "no key"
    assert read(lake, "shop.orders").num_rows == 0
    assert read(lake, "shop.orders_changelog").num_rows == 10
    with open_store(lake, name) as store:
        store.commit(batch(store, 1))
    assert as_rows(read(lake, "shop.orders")) == expected(range(20))
    with open_store(lake, name) as store:
        store.commit(made(store, {}, {}, 400))
        assert store.manifest.tables["shop.orders"].dropped
    assert read(lake, "shop.orders").num_rows == 0


def test_names_that_are_taken(lake, name, read):
    other = "shop.orders_changelog"
    with open_store(lake, name) as store:
        store.commit(batch(store, 0))
        new = [row(number) for number in range(5)]
        files = {other: [changes(store.staging / "c", new, COLUMNS, 50, other)]}
        known = store.manifest.tables["shop.orders"].current
        built = {
            "shop.orders": Built(known, store.paths("shop.orders", "current")),
            other: state(store.staging / "s", new, COLUMNS),
        }
        store.commit(made(store, files, built, 200))
        parts = store.manifest.tables[other].parts
    assert parts == {"changelog": f"{other}_changelog", "current": f"{other}_"}
    assert as_rows(read(lake, f"{other}_")) == expected(range(5))
    assert read(lake, other).num_rows == 10


def test_shards_share_a_table(lake, name, read):
    wide = COLUMNS.append(pa.field("note", pa.string()))
    with open_store(lake, name) as store:
        files, built = {}, {}
        for number, (source, columns) in enumerate((("a", COLUMNS), ("b", wide))):
            key = f"{source}/shop.orders"
            rows = [row(each, columns, note="b") for each in range(5)]
            folder = store.staging / source
            files[key] = [
                changes(folder, rows, columns, 1 + 9 * number, source=source, shard=source)
            ]
            built[key] = sourced(state(folder, rows, columns), source)
        store.commit(made(store, files, built, 200, shards=True))
    now = read(lake, "shop.orders").to_pylist()
    assert sorted((each["_source"], each["id"]) for each in now) == [
        (source, number) for source in "ab" for number in range(5)
    ]
    assert {each["note"] for each in now if each["_source"] == "a"} == {None}
    assert {each["note"] for each in now if each["_source"] == "b"} == {"b"}
    log = read(lake, "shop.orders_changelog")
    assert sorted(log["_source"].to_pylist()) == ["a"] * 5 + ["b"] * 5


def sourced(built, source):
    for path in built.paths:
        rows = pq.read_table(path)
        pq.write_table(rows.append_column("_source", pa.array([source] * rows.num_rows)), path)
    return built


def test_delta_statistics_let_readers_skip_files(lake):
    with open_store(lake, "delta") as store:
        for number in range(3):
            store.commit(batch(store, number))
    found = DeltaTable(str(lake / "shop.orders_changelog"))
    log = sorted((lake / "shop.orders_changelog" / "_delta_log").glob("*.json"))
    (added,) = [
        action["add"]
        for line in log[1].read_text().splitlines()
        if "add" in (action := json.loads(line))
    ]
    figures = json.loads(added["stats"])
    least, most = (figures[each]["after"] for each in ("minValues", "maxValues"))
    assert (figures["numRecords"], least["id"], most["id"]) == (10, 10, 19)
    assert least["price"] == 10.25
    assert '"price": 10.25' in added["stats"]
    assert most["big"] == 2**64 - 1 - 10
    assert least["seen"] == "2024-01-01T00:00:10.000000Z"
    assert least["at"] == "2020-01-01T10:00:00.123456"
    assert least["born"] == "2000-01-11"
    assert [figures["nullCount"][each]["id"] for each in ("after", "before")] == [0, 10]
    assert len(found.file_uris()) == 3
    assert found.transaction_version("tailrace") == 3


def test_files_are_plain_for_every_reader_and_typed_for_tasks(tmp_path, name):
    with open_store(tmp_path / "lake", name) as store:
        store.commit(batch(store, 0))
        (path, _) = store.paths("shop.orders", "current")
        assert pq.read_schema(path).field("span").type == pa.int64()
        (rows,) = row_groups(path)
        assert rows.schema.field("span").type == pa.duration("us")
        wanted = {each["id"]: each["span"] for each in map(row, range(10))}
        assert rows["span"].to_pylist() == [wanted[each] for each in rows["id"].to_pylist()]


def test_a_lake_of_another_format(tmp_path, name):
    lake = begun(tmp_path, name)
    other = "iceberg" if name == "delta" else "delta"
    for wrong in (other, "parquet"):
        with pytest.raises(PipelineError, match="format"), open_store(lake, wrong):
            pass
    with open_store(lake, name) as store:
        assert store.manifest.version == 1


def both(lake, name):
    """The rows of the changelog, and those of the current state."""
    return [READERS[name](lake, "shop.orders", part) for part in ("changelog", "current")]


@pytest.mark.parametrize("name", ["parquet", "delta", "iceberg"])
def test_what_does_not_fit_together_is_not_committed(lake, name):
    with open_store(lake, name) as store:
        store.commit(batch(store, 0))
        before = both(lake, name)
        asides = Asides(store.manifest, store.manifest.options.keep)
        state = store.manifest.tables["shop.orders"]
        asides.fail_state("shop.orders", state, Failure("so", ("shop.gone",)), all=False)
        wrong = batch(store, 1)
        wrong = made(store, wrong.files, {}, 200, asides=asides)
        said = r"000002\.jsonl: .* table 'shop\.orders': a table is 'shop\.gone'; .* report it"
        with pytest.raises(PipelineError, match=said):
            store.commit(wrong)
    assert both(lake, name) == before
    with open_store(lake, name) as store:
        assert store.manifest.version == 1
        assert store.manifest.tables["shop.orders"].set_aside is None
        assert both(lake, name) == before
        store.commit(batch(store, 1))
    assert [each.num_rows for each in both(lake, name)] == [20, 20]


def test_a_table_of_iceberg_that_two_processes_create(tmp_path, monkeypatch):
    """Two that do the same prepared batch: the second finds the table with it."""
    lake = begun(tmp_path, "iceberg")
    with open_store(lake, "iceberg") as store:
        (step,) = completed([Step("shop.orders")], store.manifest)
    step = replace(step, table="shop.fresh")
    first, second = (IcebergTables(own_catalog(lake), lake) for _ in range(2))
    create, marks = SqlCatalog.create_table, []

    def late(*arguments, **options):
        monkeypatch.undo()
        marks.append(second.commit(step, 2))
        return create(*arguments, **options)

    monkeypatch.setattr(SqlCatalog, "create_table", late)
    assert first.commit(step, 2) == marks[0]


def test_delta_commits_are_on_disk_before_the_batch_is_done(lake, monkeypatch):
    synced, order = [], []
    to_disk, done = delta_tables.to_disk, Journal.done

    def noted(paths):
        synced.extend(found := list(paths))
        to_disk(found)

    def ends(journal, manifest):
        order.append(set(synced))
        done(journal, manifest)

    monkeypatch.setattr(delta_tables, "to_disk", noted)
    monkeypatch.setattr(Journal, "done", ends)
    folders = {lake / name for name in ("shop.orders", "shop.orders_changelog")}
    with open_store(lake, "delta") as store:
        for number in range(2):
            synced.clear()
            store.commit(batch(store, number))
            assert order[-1] >= {folder / "_delta_log" for folder in folders}
            assert (order[-1] >= folders) == (number == 0)  # their logs are new then
    # a process that was killed had made the commit
    synced.clear()
    tables = delta_tables.DeltaTables(lake)
    tables.commit(Step("shop.orders"), 2)
    assert synced == []
    tables.show(2)
    assert set(synced) == {lake / "shop.orders", lake / "shop.orders" / "_delta_log"}


def test_delta_commits_of_ours_are_not_read_again(lake, monkeypatch):
    """Only those that set columns or properties are."""
    reads, update = [], DeltaTable.update_incremental

    def noted(table):
        reads.append(table)
        update(table)

    monkeypatch.setattr(DeltaTable, "update_incremental", noted)
    with open_store(lake, "delta") as store:
        store.commit(batch(store, 0))
        store.refresh(run)
        reads.clear()
        for number in (1, 2, 3):
            store.refresh(run)
            store.commit(batch(store, number))
        assert reads == []
    assert as_rows(READERS["delta"](lake, "shop.orders")) == expected(range(40))
