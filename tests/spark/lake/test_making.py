"""Files of a batch in the making: where tasks put them, and what becomes of those of none."""

import json

import pyarrow as pa
import pytest

from tailrace.errors import PipelineError
from tailrace.spark import mirror
from tailrace.spark.lake import plan
from tailrace.spark.lake.iceberg.tables import IcebergTables
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.plan import Places
from tailrace.spark.manifest.journal import Journal
from tailrace.spark.manifest.making import Making
from tailrace.spark.manifest.manifest import Manifest
from tailrace.spark.manifest.names import folder_name, made_by
from tailrace.table_name import TableName
from tests.spark.history.landing import FORMATS, READERS
from tests.spark.lake.making import COLUMNS, batch, begun
from tools.shop import SHOP

ORDERS = TableName("shop", "orders")


@pytest.fixture(params=FORMATS)
def name(request):
    return request.param


def data_files(lake):
    return {each for each in lake.rglob("*.parquet") if not each.is_symlink() and each.is_file()}


def notes(lake):
    return list((lake / "_tailrace").glob("*making*"))


def put(store, table=ORDERS):
    """What a batch puts into the folders of a table's parts."""
    changelogs = store.places.changelogs(None)
    changelogs.note([changelogs.changelog(table).path])
    folders = [changelogs.changelog(table), store.places.folder(table, "current", COLUMNS)]
    store.places.note()
    files = [each.file("part") for each in folders]
    for each in files:
        each.write(pa.table({"id": [1]}))
        each.close()
    return {each.path for each in files}


def test_files_of_a_batch_that_is_not_committed(tmp_path, name):
    """They go with the next batch, with the end of the process, or with the next one."""
    lake = begun(tmp_path, name)
    before = data_files(lake)
    with open_store(lake, name) as store:
        mine = put(store)
        assert data_files(lake) - before == mine
        store.begin()
        assert data_files(lake) == before
        put(store, TableName("shop", "new"))
    assert (data_files(lake), notes(lake)) == (before, [])
    assert not list(lake.rglob("shop.new*"))
    store = open_store(lake, name)
    store.__enter__()
    mine = put(store)
    store._claim.release()  # the process ends
    (path,) = (each for each in mine if "changelog" in str(each))
    number, generation = made_by(path.name)
    others = [
        path.with_name(f"part-{number + 1:06}-{generation:06}-0123456789ab.parquet"),
        path.with_name(f"part-{number:06}-{10**9 * 9:06}-0123456789ab.parquet"),
        path.with_name(f"part-{number:06}-000000.parquet"),
    ]
    for each in others:
        each.touch()
    with open_store(lake, name):
        assert data_files(lake) == before | set(others)
        assert notes(lake) == []


def test_an_error_while_a_batch_is_prepared_leaves_its_files(tmp_path, name, monkeypatch):
    """The journal may have the batch: whoever opens the lake next finds out."""
    lake = begun(tmp_path, name)
    prepare = Journal.prepare

    def lost(journal, *arguments):
        prepare(journal, *arguments)
        journal.prepared = 0
        raise OSError(5, "the answer is lost")

    with open_store(lake, name) as store, monkeypatch.context() as patch:
        patch.setattr(Journal, "prepare", lost)
        with pytest.raises(PipelineError, match="the answer is lost"):
            store.commit(batch(store, 1))
    with open_store(lake, name) as store:
        assert store.manifest.version == 2
    assert READERS[name](lake, "shop.orders", "current").num_rows == 20


def test_a_note_of_an_earlier_build(tmp_path, name):
    """Its name has no generation; the files of its batch go, and so does the note."""
    lake = begun(tmp_path, name)
    note = lake / "_tailrace" / "making.0123456789ab.json"
    note.write_text(json.dumps({"version": 2, "folders": ["shop.orders/data"]}))
    file = lake / "shop.orders" / "data" / "part-000002-000001-0123456789ab.parquet"
    file.parent.mkdir(exist_ok=True)
    file.touch()
    with open_store(lake, name):
        assert not file.exists()
        assert not note.exists()


@pytest.mark.parametrize(
    "note",
    [
        {"version": 2, "folders": ["../victim"]},
        {"version": 2, "folders": ["/tmp"]},
        {"version": 2, "folders": [2]},
        {"version": 2, "files": []},
        {"folders": []},
    ],
)
def test_a_note_removes_nothing_else(tmp_path, name, note):
    lake = begun(tmp_path, name)
    (tmp_path / "victim").mkdir()
    victim = tmp_path / "victim" / "part-000002-000001-0123456789ab.parquet"
    victim.write_text("mine")
    (lake / "_tailrace" / "making.1.x.json").write_text(json.dumps(note))
    with (
        pytest.raises(PipelineError, match=r"making\.1\.x\.json cannot be read|outside"),
        open_store(lake, name),
    ):
        pass
    assert victim.read_text() == "mine"


def test_the_folders_of_changelogs(tmp_path, name):
    """What a task works out of a table's name is what the lake finds."""
    with open_store(tmp_path, name) as store:
        changelogs = store.places.changelogs(None)
        for table in (ORDERS, TableName("a.b", "c d"), TableName("x" * 150, "y" * 150)):
            tables = store.tables
            path = tables.folder(tables.name(folder_name(*table), "changelog"))
            assert changelogs.changelog(table).path == path


def test_the_folder_of_a_changelog_in_a_namespace(tmp_path):
    """In a user's catalogue a table is named after its database, too."""
    tables = IcebergTables(None, tmp_path, "lake.shop")
    making = Making(tmp_path, tmp_path, 1, 1, plain=True)
    changelogs = Places(tables, Manifest(), making).changelogs(None)
    for table in (ORDERS, TableName("<table>", "<database>")):
        path = tables.folder(tables.name(folder_name(*table), "changelog"))
        assert changelogs.changelog(table).path == path


@pytest.mark.slow
def test_tasks_write_final_files(spark, tmp_path, name, monkeypatch):
    """Nothing is copied, and no file is in a table's folder that is not the table's."""

    def copies(*arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr(plan, "Copy", copies)
    keep = ("changelog", "current", "history")
    mirror(SHOP, tmp_path / "lake", spark=spark, format=name, keep=keep)
    with open_store(tmp_path / "lake", name) as store:
        parts = [one for state in store.manifest.tables.values() for one in state.parts.values()]
        listed = {
            store.tables.folder(part) / file
            for part in parts
            for file in store.tables.content(part).files
        }
    assert listed == data_files(tmp_path / "lake")
