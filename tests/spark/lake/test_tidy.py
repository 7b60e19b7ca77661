"""What commits leave behind goes away, and what is in use stays."""

import shutil
import time
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from tailrace.spark.lake.iceberg import commit as iceberg_commit
from tailrace.spark.lake.iceberg.catalog import own_catalog
from tailrace.spark.lake.iceberg.paths import location
from tailrace.spark.lake.iceberg.tables import IcebergTables
from tailrace.spark.lake.iceberg.tidy import AGE, NAME, SNAPSHOTS, Left, Leftovers, outdated
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.plan import completed
from tailrace.spark.lake.tables import Step
from tests.spark.history.landing import READERS
from tests.spark.lake.making import batch, begun
from tests.spark.lake.test_killed import kills
from tests.spark.lake.test_tables import as_rows, expected

TABLES = ("shop.orders", "shop.orders_changelog")


@pytest.fixture
def clock(monkeypatch):
    """Gives a function that lets seconds pass, for those who tidy."""
    passed = 0.0

    class Clock:
        @staticmethod
        def time():
            return time.time() + passed

    def wait(seconds):
        nonlocal passed
        passed += seconds

    monkeypatch.setattr(iceberg_commit, "time", Clock)
    return wait


def used(lake, table):
    """The files that a table's snapshots use, all of them."""
    found = own_catalog(lake).load_table(table)
    files = set()
    for snapshot in found.metadata.snapshots:
        files.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(found.io):
            files.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(found.io)
            files.update(entry.data_file.file_path for entry in entries)
    return {urlsplit(path).path for path in files}


def there(lake, table):
    """The files in a table's folders, but for its metadata in JSON."""
    files = (lake / table).rglob("*.*")
    return {str(each) for each in files if each.suffix in {".avro", ".parquet"}}


def left_over(lake, table):
    return there(lake, table) - used(lake, table)


def test_old_snapshots_of_iceberg_go_with_their_files(lake, clock):
    with open_store(lake, "iceberg") as store:
        for number in range(4):
            store.commit(batch(store, number))
    for table in TABLES:
        assert len(own_catalog(lake).load_table(table).metadata.snapshots) == 4
    clock(3700)
    with open_store(lake, "iceberg") as store:
        store.commit(batch(store, 4))
    for table in TABLES:
        # the last of them was replaced just now
        assert len(own_catalog(lake).load_table(table).metadata.snapshots) == 2
    removed_by_the_next_commit(lake, 5)
    assert len(list((lake / "shop.orders_changelog" / "data").iterdir())) == 6


def removed_by_the_next_commit(lake, number):
    left = {table: left_over(lake, table) for table in TABLES}
    with open_store(lake, "iceberg") as store:
        store.commit(batch(store, number))
    for table in TABLES:
        assert left[table]
        assert not left[table] & there(lake, table)
        assert used(lake, table) < there(lake, table)
        notes = (lake / table / NAME).read_text()
        assert all(each in notes for each in left_over(lake, table))
        assert not any(each in notes for each in left[table])
    rows = 10 * (number + 1)
    assert as_rows(READERS["iceberg"](lake, "shop.orders")) == expected(range(rows))
    assert READERS["iceberg"](lake, "shop.orders_changelog").num_rows == rows


def test_few_snapshots_of_iceberg_stay_and_their_files_for_an_hour(tmp_path, clock):
    """Who reads a snapshot that is no longer listed goes on."""
    lake = begun(tmp_path, "iceberg")
    before = {}
    for table in TABLES:
        found = own_catalog(lake).load_table(table)
        with found.transaction() as transaction:
            transaction.set_properties({SNAPSHOTS: "3"})
        before[table] = own_catalog(lake).load_table(table)
    with open_store(lake, "iceberg") as store:
        for number in range(1, 9):
            store.commit(batch(store, number))
            assert all(each.scan().to_arrow().num_rows == 10 for each in before.values())
    for table in TABLES:
        metadata = own_catalog(lake).load_table(table).metadata
        assert len(metadata.snapshots) == 3
        assert [each.snapshot_id for each in metadata.snapshots] == [
            each.snapshot_id for each in metadata.snapshot_log
        ]
        assert used(lake, table) < there(lake, table)
    clock(3700)
    with open_store(lake, "iceberg") as store:
        store.commit(batch(store, 9))
    removed_by_the_next_commit(lake, 10)


def test_a_tagged_snapshot_of_iceberg_keeps_all(lake, clock):
    with open_store(lake, "iceberg") as store:
        for number in range(3):
            store.commit(batch(store, number))
    table = own_catalog(lake).load_table("shop.orders")
    first = table.metadata.snapshots[0].snapshot_id
    later = int(time.time() * 1000) + 3_700_000
    assert len(outdated(table.metadata, later)) == 3
    table.manage_snapshots().create_tag(first, "mine").commit()
    table = own_catalog(lake).load_table("shop.orders")
    assert outdated(table.metadata, later) == []
    clock(3700)
    with open_store(lake, "iceberg") as store:
        store.commit(batch(store, 3))
    table = own_catalog(lake).load_table("shop.orders")
    assert table.scan(snapshot_id=first).to_arrow().num_rows == 10


def test_files_that_a_batch_brings_back_stay(tmp_path, clock):
    """A user's compaction, which a batch has overruled, expires: its files are in use again."""
    lake = begun(tmp_path, "iceberg")
    with open_store(lake, "iceberg") as store:
        (step,) = completed([Step(TABLES[0])], store.manifest)
    tables = IcebergTables(own_catalog(lake), lake)
    base, files = tables.mark(TABLES[0]), tables.content(TABLES[0]).files
    user = own_catalog(lake).load_table(TABLES[0])
    with user.transaction() as transaction:
        transaction.set_properties({SNAPSHOTS: "1"})
    user.overwrite(user.scan().to_arrow())
    tables.commit(replace(step, goes="", stays=tuple(files), base=base), 2, overrule=True)
    for number in range(3, 7):
        clock(3700)
        name = f"new-{number}.parquet"
        shutil.copy(tables.folder(TABLES[0]) / min(files), tables.folder(TABLES[0]) / name)
        tables.commit(replace(step, adds=(name,)), number)
    assert tables.content(TABLES[0]).files > files
    assert used(lake, TABLES[0]) <= there(lake, TABLES[0])


def test_leftovers_outlive_a_process(tmp_path):
    class Metadata:
        location, properties = "here", {}

        def __init__(self, number):
            self.snapshots = [type("Snapshot", (), {"sequence_number": number})]

    table, elsewhere = tmp_path / "my table", tmp_path / "elsewhere"
    for folder in (table, elsewhere):
        folder.mkdir()
    names = {name: location(table / name) for name in "abcd"}
    for name in names:
        (table / name).touch()
    (elsewhere / "e").touch()
    (table / "link").symlink_to(elsewhere)
    others = (location(elsewhere / "e"), location(table / "link" / "e"), "s3://bucket/e", "")

    hour = 3_600_000
    Leftovers(table).note([Left(1000, 5, (names["a"], names["b"])), Left(2000, 6, (names["c"],))])
    with (table / NAME).open("a") as file:
        file.write('\n{"at": 10, "sin')
    Leftovers(table).note([Left(3000, 7, (names["d"], *others))])
    left = Leftovers(table)
    assert left.remove(PyArrowFileIO(), Metadata(9), hour + 1000) == 0
    left.keep([names["b"], "other"])
    assert (
        left.remove(PyArrowFileIO(), Metadata(4), hour + 9000) == 0
    )  # snapshots are there that need them
    assert left.remove(PyArrowFileIO(), Metadata(6), hour + 2500) == 2
    assert {each for each in names if (table / each).exists()} == {"b", "d"}
    assert Leftovers(table).remove(PyArrowFileIO(), Metadata(7), hour + 9000) == 1
    assert {each for each in names if (table / each).exists()} == {"b"}
    assert (elsewhere / "e").exists()


def test_killed_while_snapshots_go(tmp_path):
    """With a table that keeps one snapshot, and no file of the ones before."""
    lake = begun(tmp_path, "iceberg")
    for table in TABLES:
        with own_catalog(lake).load_table(table).transaction() as transaction:
            transaction.set_properties({SNAPSHOTS: "1", AGE: "-1000"})
    for now in kills(lake, "iceberg", stride=2):
        for table in TABLES:
            assert used(lake, table) <= there(lake, table)
        assert as_rows(READERS["iceberg"](lake, "shop.orders")) == expected(range(10 * now))
        assert READERS["iceberg"](lake, "shop.orders_changelog").num_rows == 10 * now
    for _ in range(2):
        with open_store(lake, "iceberg") as store:
            store.commit(batch(store, store.manifest.version))
    for table in TABLES:
        assert len(own_catalog(lake).load_table(table).metadata.snapshots) <= 2
        data = {each for each in there(lake, table) if each.endswith(".parquet")}
        gone = {each for each in data if each not in used(lake, table)}
        assert len(gone) <= 2  # of the snapshot that was replaced just now
