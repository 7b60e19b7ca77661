"""Lakes of earlier layouts: read, continued, and rewritten. ``golden`` was made by them."""

import base64
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tailrace.errors import PipelineError
from tailrace.schema.catalogue_json import to_json
from tailrace.spark.lake.open import open_store
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.manifest import LAYOUT, Manifest
from tailrace.spark.stream_index import IndexPlanner
from tailrace.spark.stream_saved import SavedIndices
from tailrace.storage import find
from tests.spark.following import Follow
from tests.spark.history.landing import FORMATS, READERS
from tests.spark.replay import SHOP, SHOP_TABLES, differences

GOLDEN = Path(__file__).parent / "golden"
STOCK = SHOP_TABLES["warehouse.stock"]
READ = 11169
"""Bytes of the second log that the lakes were made of."""
OPTIONS = {
    "tables": ["shop.*", "warehouse.stock"],
    "keep": ["changelog", "current", "history"],
    "spark": lambda: pytest.fail("Spark is not needed"),
}


LAYOUTS = (1, 2)


@pytest.fixture(params=[f"{layout}.{name}" for layout in LAYOUTS for name in FORMATS])
def lake(request, tmp_path, monkeypatch):
    """A lake of an earlier layout, and the folder of the logs it was made of, in the test's folder.

    The path is that of the release that made it (Iceberg keeps whole ones).
    """
    with tarfile.open(GOLDEN / f"layout-{request.param}.tar.xz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        packed.extractall(tmp_path)
    logs = tmp_path / "logs" / "mariadb"
    logs.mkdir(parents=True)
    shutil.copy(SHOP / "mariadb" / "binlog.000001", logs)
    second = (SHOP / "mariadb" / "binlog.000002").read_bytes()
    (logs / "binlog.000002").write_bytes(second[:READ])
    monkeypatch.chdir(tmp_path)
    return Path("/proc/self/cwd", request.param.partition(".")[2])


def manifest(lake):
    return json.loads((lake / "_tailrace" / "now" / "manifest.json").read_text())


def check_history(known):
    """Which tables there are where the second log begins."""
    assert known["version"] in {1, 2}
    tables = {each["table"]: each for each in known["tables"]}
    assert {"deliveries", "stock", "suppliers"} <= set(tables)
    stock = tables["stock"]
    assert stock["primary_key"] == STOCK["key"]
    assert [each["name"] for each in stock["columns"]] == STOCK["columns"]


def follow(lake, batches, **options):
    """Mirror until so many batches were looked for."""
    with Follow(Path("logs", "mariadb"), lake, format=lake.name, **OPTIONS, **options) as run:
        while len(run.moments) < batches and run.error is None:
            run._thread.join(0.01)
    return run


def test_it_is_read_and_rewritten_by_the_next_run(lake):
    """Who only reads rewrites nothing; a run does, also one that finds nothing new."""
    before = manifest(lake)
    assert before["layout"] in LAYOUTS
    view = LakeView.open(lake)
    table = view.manifest.tables["warehouse.stock"]
    assert table.folder == "warehouse.stock"
    assert sum(part.num_rows for file in view.current(table) for part in file.rows(["sku"])) == 360
    check_history(view.manifest.sources["mariadb"].tables)
    assert manifest(lake) == before
    read = READERS[lake.name](lake, "warehouse.stock")
    follow(lake, 1)
    after = manifest(lake)
    assert after["layout"] == LAYOUT
    assert after["version"] == before["version"] == 1
    check_history(after["sources"]["mariadb"]["tables"])
    before["sources"]["mariadb"]["tables"] = after["sources"]["mariadb"]["tables"]
    before["tables"]["warehouse.stock"] |= {"folder": "warehouse.stock", "states": []}
    assert after == {"exclude": [], "points": {}, "cascades": "name"} | before | {"layout": LAYOUT}
    assert READERS[lake.name](lake, "warehouse.stock").equals(read)


def test_it_is_continued(lake):
    """With the logs that came since, the lake is what the server's SELECT said."""
    for number in (2, 3):
        shutil.copy(SHOP / "mariadb" / f"binlog.00000{number}", Path("logs", "mariadb"))
    follow(lake, 2)
    assert differences(READERS[lake.name](lake, "warehouse.stock"), STOCK) == []
    after = manifest(lake)
    assert after["layout"] == LAYOUT
    assert after["tables"]["warehouse.stock"]["folder"] == "warehouse.stock"
    assert Manifest.read(lake / "_tailrace" / "now").sources["mariadb"].file == "binlog.000003"
    changes = LakeView.open(lake).manifest.tables["warehouse.stock"]
    assert changes.history is not None
    assert sum(file.rows for file in changes.changelog) > 360


def test_it_keeps_its_folders(lake):
    """Whatever a table would be called now: a name that a later layout would shorten, say."""
    path = lake / "_tailrace" / "now" / "manifest.json"
    content = json.loads(path.read_text())
    table = content["tables"].pop("warehouse.stock")
    name = "x" * 240
    kept = table.get("folder", f"warehouse.{name}")  # layout 1 did not say it
    content["tables"][f"warehouse.{name}"] = table | {"table": name}
    path.write_text(json.dumps(content))
    with open_store(lake, lake.name) as store:
        (state,) = store.manifest.tables.values()
    assert state.folder == kept
    assert state.parts.get("current", "warehouse.stock") == "warehouse.stock"


@pytest.mark.parametrize("lake", ["1.delta", "2.iceberg"], indirect=True)
def test_a_prepared_batch(lake):
    """A process of that release died behind the first of a batch's commits: it is finished."""
    (lake / "_tailrace" / "now").unlink()
    follow(lake, 1)
    assert manifest(lake)["layout"] == LAYOUT
    assert LakeView.open(lake).manifest.version == 1
    assert READERS[lake.name](lake, "warehouse.stock").num_rows == 360


@pytest.mark.parametrize("lake", ["1.parquet", "2.delta"], indirect=True)
def test_a_layout_to_come(lake):
    path = lake / "_tailrace" / "now" / "manifest.json"
    now = manifest(lake)["layout"]
    path.write_text(path.read_text().replace(f'"layout": {now}', f'"layout": {LAYOUT + 1}'))
    with pytest.raises(
        PipelineError, match=f"layout {LAYOUT + 1}, and this Tailrace knows {LAYOUT}"
    ):
        follow(lake, 1)


def put(content, path, value):
    *outer, last = path.split()
    for name in outer:
        content = content[int(name) if name.isdigit() else name]
    content[last] = value


def too_many_hidden(content):
    file = content["tables"]["warehouse.stock"]["current"]["files"][0]
    file["hidden"] = base64.b64encode(bytes(file["rows"] + 1)).decode()


def a_status_of_another_release(content):
    content["layout"], content["points"] = LAYOUT, {}
    for table in content["tables"].values():
        table["folder"] = "warehouse.stock"
        table["states"] = [
            {"kind": "x", "reason": "", "since": "", "needs": "", "parts": {}, "origins": []}
            | {"batch": 0}
        ]
    for source in content["sources"].values():
        source["tables"] = {"version": 1, "tables": []}


NAMELESS = {"changelog": [{"name": None, "rows": 1, "size": 1, "memory": 1}]}
ALTERED = (
    (
        "tables warehouse.stock current key",
        ["no such column"],
        "a column of the key is 'no such column'",
    ),
    (
        "tables warehouse.stock history key",
        ["sku", "no such column"],
        "a column of the key is 'no such column'",
    ),
    ("tables warehouse.stock small", NAMELESS, "a data file's name is None"),
    (
        "tables warehouse.stock current files 0 name",
        "_common_metadata",
        "'_common_metadata' is no data file of a lake",
    ),
    (too_many_hidden, None, "the deleted rows of .* are none of its rows"),
    (a_status_of_another_release, None, "a status is 'x'"),
    ("tables warehouse.stock table", "another", "it is called 'warehouse.another' there"),
    ("keep", ["a\nb", "current", "history"], "what is kept is 'a.*b'"),
)


@pytest.mark.parametrize("lake", ["1.parquet", "2.iceberg"], indirect=True)
def test_a_manifest_whose_parts_do_not_fit(lake):
    """It is rejected where it is read, by who reads and by who writes."""
    path = lake / "_tailrace" / "now" / "manifest.json"
    whole = json.dumps(manifest(lake))
    for where, value, said in ALTERED:
        content = json.loads(whole)
        where(content) if callable(where) else put(content, where, value)
        path.write_text(json.dumps(content))
        for use in (LakeView.open, lambda path: follow(path, 1)):
            with pytest.raises(PipelineError, match=said) as caught:
                use(lake)
            assert "manifest.json" in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("lake", ["2.parquet"], indirect=True)
def test_a_data_file_without_a_column(lake):
    """The table is set aside, and the reason names the file."""
    (path,) = (lake / "_tailrace" / "now" / "warehouse.stock" / "current").glob("part-*")
    rows = pq.read_table(path)
    pq.write_table(rows.drop_columns(["_raw"]), path)
    shutil.copy(SHOP / "mariadb" / "binlog.000002", Path("logs", "mariadb"))
    follow(lake, 2)
    state = LakeView.open(lake).manifest.tables["warehouse.stock"]
    assert state.set_aside is not None
    assert f"{path.name} cannot be read: " in state.set_aside.reason
    assert "_raw" in state.set_aside.reason


def without_whole(known):
    """What a catalogue has, but for what version 1 of it did not."""
    return {name: each for name, each in to_json(known).items() if name != "whole"}


def test_an_index_of_layout_2(tmp_path):
    (series,) = find(SHOP / "mariadb")
    log = series.files[0]
    shutil.copy(GOLDEN / "index.layout-2.npz", tmp_path / f"{log.name}.npz")
    kept = SavedIndices(tmp_path)
    planner = IndexPlanner()
    planner.look(series)
    made = planner.files[log.name]
    for _ in range(2):
        found = kept.load(log)
        assert found is not None
        assert [(at, without_whole(known)) for at, known in found.tables] == [
            (at, without_whole(known)) for at, known in made.tables
        ]
        assert found.begins.tolist() == made.begins.tolist()
        assert (found.end, found.left_out, found.tagged) == (made.end, made.left_out, made.tagged)
        (tmp_path / f"{log.name}.npz").unlink()
        kept.save(made)  # as this release keeps it, the second time
