"""Golden lakes and indexes of earlier commits: read, and continued (golden/README.md)."""

import base64
import copy
import json
import lzma
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import tailrace
from tailrace.errors import PipelineError
from tailrace.schema.catalogue_json import to_json
from tailrace.spark.input.header_index import IndexPlanner
from tailrace.spark.input.saved_index import SavedIndices
from tailrace.spark.lake import steps
from tailrace.spark.lake.open import open_store
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest import document, layout_3
from tailrace.spark.manifest.on_disk import LocalObjects
from tailrace.storage import find
from tailrace.table_name import TableName
from tests.spark.following import Follow
from tests.spark.history.landing import FORMATS, parquet_rows
from tests.spark.lake.journals import documents, rewrite, saved
from tests.spark.lake.patching import READERS
from tests.spark.lake.test_killed import CrashError
from tests.spark.replay import SHOP, SHOP_TABLES, differences

GOLDEN = Path(__file__).parent / "golden"
ODD = GOLDEN / "odd.binlog.000001"
STOCK = SHOP_TABLES["warehouse.stock"]
ASIDE, PLAIN = TableName("co", "b d"), TableName("co", "x y")
READ = {"mariadb/binlog.000002": 11169, "odd/binlog.000001": 2040}
"""Bytes of each source's last log that the lakes were made of."""
OPTIONS = {
    "tables": ["shop.*", "warehouse.stock", "co.*"],
    "keep": ["changelog", "current", "history"],
    "spark": lambda: pytest.fail("Spark is not needed"),
}


@pytest.fixture(params=[f"layout-{layout}.{each}" for layout in (3, 4) for each in FORMATS])
def lake(request, tmp_path, monkeypatch):
    """A golden lake, and next to it the folder of the logs it was made of.

    The path is that of the run that made it (Iceberg keeps whole ones).
    """
    with tarfile.open(GOLDEN / f"{request.param}.tar.xz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        packed.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    for source in ("mariadb", "odd"):
        Path("logs", source).mkdir(parents=True)
    shutil.copy(SHOP / "mariadb" / "binlog.000001", "logs/mariadb")
    second = SHOP / "mariadb" / "binlog.000002"
    for name, path in zip(READ, (second, ODD), strict=True):
        Path("logs", name).write_bytes(path.read_bytes()[: READ[name]])
    return Path("/proc/self/cwd", request.param.partition(".")[2])


def of(layout, *formats):
    """Golden lakes of a layout."""
    names = [f"layout-{layout}.{each}" for each in formats or FORMATS]
    return pytest.mark.parametrize("lake", names, indirect=True)


def manifest(lake):
    """The manifest of a lake of layout 3."""
    return json.loads((lake / "_tailrace" / "now" / "manifest.json").read_text())


def layout_3_in(lake):
    return (lake / "_tailrace" / "now" / "manifest.json").exists()


def files(lake):
    """What the lake's state is in."""
    paths = [*lake.glob("_tailrace/*/**/*.json"), *lake.glob("_tailrace/journal/*")]
    return {path: path.read_bytes() for path in paths}


def follow(lake, batches, **options):
    """Mirror until so many batches were looked for."""
    with Follow("logs", lake, format=lake.name, **OPTIONS, **options) as run:
        while len(run.moments) < batches and run.error is None:
            run._thread.join(0.01)
    return run


def rows(lake, name):
    """The rows of a table as the format's own reader gives them."""
    reader = READERS.get(lake.name, parquet_rows)  # those that know deleted rows
    return reader(lake, LakeView.open(lake).manifest.tables[str(name)].folder)


def texts(lake, name, column):
    found = rows(lake, name)
    return dict(zip(found["id"].to_pylist(), found[column].to_pylist(), strict=True))


def check_as_made(lake):
    """The lake has what it had when it was made: three tables, of which one is set aside."""
    known = LakeView.open(lake).manifest
    assert known.version == 2
    assert set(known.tables) == {"warehouse.stock", str(ASIDE), str(PLAIN)}
    assert dict(known.keys) == {str(ASIDE): ("id",), str(PLAIN): ("id",)}
    aside = known.tables[str(ASIDE)].set_aside
    assert (aside.since, set(aside.parts)) == ("binlog.000001:1178", {"current", "history"})
    assert set(known.points["odd"]) == {aside.since}
    stock = known.tables["warehouse.stock"].current
    deleted = sum(file.rows - file.live for file in stock.data)
    assert (stock.rows, deleted) == (360, 0 if lake.name == "parquet" else 12)
    assert rows(lake, "warehouse.stock").num_rows == 360
    assert texts(lake, PLAIN, "v") == {n: f"x y {n % 10}" for n in (1, 2, 10, 11, 12)}
    assert texts(lake, ASIDE, "bad") == {n: f"b d {n}" for n in range(3)}


def test_it_is_opened_and_read(lake):
    before = files(lake)
    assert before
    check_as_made(lake)
    follow(lake, 1)
    check_as_made(lake)
    assert files(lake) == before


@of(3)
def test_what_layout_3_has(lake):
    found = manifest(lake)
    assert found["layout"] == layout_3.LAYOUT
    assert list(found["tables"]) == ["co.b d", "co.x y", "warehouse.stock"]
    assert found["sources"]["mariadb"]["tables"]["version"] == 2


def test_it_is_continued(lake):
    """With the logs that came since, and the table taken up again, all is what the sources have."""
    for number in (2, 3):
        shutil.copy(SHOP / "mariadb" / f"binlog.00000{number}", "logs/mariadb")
    shutil.copy(ODD, "logs/odd/binlog.000001")
    run = follow(lake, 2, retry_tables=str(ASIDE))
    assert run.report.set_aside == {}
    assert differences(rows(lake, "warehouse.stock"), STOCK) == []
    for name, column in ((PLAIN, "v"), (ASIDE, "bad")):
        wanted = {n: f"{name.table} {n % 10}" for n in (1, 2, 11, 12, 20, 21, 22)}
        assert texts(lake, name, column) == wanted
    after = LakeView.open(lake).manifest
    assert after.sources["mariadb"].file == "binlog.000003"
    assert after.points == {}
    assert set(saved(lake)[2]) == {"warehouse.stock", str(ASIDE), str(PLAIN)}
    left = {each.name for each in (lake / "_tailrace").iterdir()} - {"sources", "claims", "staging"}
    assert left == {"journal", *(("now", "versions") if lake.name == "parquet" else ())}
    for state in after.tables.values():
        assert state.history.rows > state.current.rows
        assert sum(file.rows for file in state.changelog) > state.current.rows


def test_it_keeps_its_folders(lake):
    """Whatever a table would be called now: a name that a later layout would shorten, say."""
    name = "x" * 240

    def renamed(tables):
        tables[f"warehouse.{name}"] = tables.pop("warehouse.stock") | {"table": name}

    if layout_3_in(lake):
        content = manifest(lake)
        renamed(content["tables"])
        (lake / "_tailrace" / "now" / "manifest.json").write_text(json.dumps(content))
    else:
        number, whole, tables = saved(lake)
        renamed(tables)
        rewrite(lake, number, whole, tables)
    with open_store(lake, lake.name) as store:
        state = store.manifest.tables[f"warehouse.{name}"]
    assert state.folder == "warehouse.stock"
    assert state.parts.get("current", "warehouse.stock") == "warehouse.stock"


@of(3, "delta", "iceberg")
def test_a_prepared_batch_of_layout_3(lake):
    """A process died after the first of a batch's commits: the batch is finished."""
    now = lake / "_tailrace" / "now"
    now.unlink()
    now.symlink_to("batches/000001")
    follow(lake, 1)
    check_as_made(lake)
    assert documents(lake)


@of(3)
@pytest.mark.parametrize("put", range(3))
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_in_the_first_batch_that_is_in_the_journal(lake, put, after, monkeypatch):
    """Before or after the checkpoint, the batch and its outcome are written."""
    shutil.copy(SHOP / "mariadb" / "binlog.000002", "logs/mariadb")
    shutil.copy(ODD, "logs/odd/binlog.000001")
    original, puts = LocalObjects.put, []

    def dying(self, key, content, *, new=False):
        if not key.startswith("claims/"):
            puts.append(key)
        if len(puts) <= put or after:
            original(self, key, content, new=new)
        if len(puts) > put:
            raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(LocalObjects, "put", dying)
        with pytest.raises(CrashError):
            follow(lake, 3)
    names = [f"journal/00000{each}.jsonl" for each in ("2.all", "3", "3.done")]
    assert puts == names[: put + 1]
    finished = put == 2 or (put == 1 and after and lake.name != "parquet")
    with open_store(lake, lake.name) as store:
        assert store.manifest.version == (3 if finished else 2)
    shutil.copy(SHOP / "mariadb" / "binlog.000003", "logs/mariadb")
    follow(lake, 2)
    assert differences(rows(lake, "warehouse.stock"), STOCK) == []
    log = LakeView.open(lake).manifest.tables["warehouse.stock"].changelog
    changes = tailrace.rows(SHOP / "mariadb", tables="warehouse.stock")
    assert sum(file.rows for file in log) == sum(1 for _ in changes)  # none is there twice


@of(4)
def test_a_prepared_batch(lake):
    """As above. Of a Parquet lake the link decides, which is in place."""
    documents(lake)["000002.done.jsonl"].unlink()
    if lake.name == "parquet":
        check_as_made(lake)
    else:
        assert LakeView.open(lake).manifest.version == 1
    follow(lake, 1)
    check_as_made(lake)
    assert "000002.done.jsonl" in documents(lake)


@of(4)
@pytest.mark.parametrize("layout", [3, document.LAYOUT + 1, None, "4\n"])
def test_another_layout_of_a_document(lake, layout):
    for name, path in documents(lake).items():
        whole = path.read_text()
        first, rest = whole.split("\n", 1)
        path.write_text(f"{json.dumps(json.loads(first) | {'layout': layout})}\n{rest}")
        for use in (lambda path: follow(path, 1), LakeView.open):
            with pytest.raises(PipelineError) as caught:
                use(lake)
            said = f"{name} has layout {layout!r}, and this Tailrace reads layout 4: "
            assert said in str(caught.value)
            assert "mirror the logs into a new folder" in str(caught.value)
        path.write_text(whole)
    check_as_made(lake)


@pytest.mark.parametrize("layout", [1, 2, 5, None, "3\n"])
@of(3, "parquet", "delta")
def test_another_layout(lake, layout):
    """It is rejected, in one line that says how to create the lake anew; nothing is rewritten."""
    now = lake / "_tailrace" / "now"
    files = {"manifest.json": (layout_3.LAYOUT, now.resolve())}
    if lake.name == "delta":
        files["steps.json"] = (steps.LAYOUT, now.resolve())
    for name, (known, folder) in files.items():
        path = folder / name
        whole = path.read_text()
        if layout == known or (name == "steps.json" and layout == known - 1):
            continue
        path.write_text(json.dumps(json.loads(whole) | {"layout": layout}))
        uses = [lambda path: follow(path, 1)]
        if name == "manifest.json":
            uses.append(LakeView.open)
        else:  # the batch is to be finished
            now.unlink()
            now.symlink_to("batches/000001")
        for use in uses:
            with pytest.raises(PipelineError) as caught:
                use(lake)
            said = f"{name} has layout {layout!r}, and this Tailrace reads layout {known}: "
            assert said in str(caught.value)
            assert "mirror the logs into a new folder" in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1
        assert json.loads(path.read_text())["layout"] == layout
        path.write_text(whole)


@of(3, "parquet")
def test_two_tables_that_may_have_been_one(lake):
    """Earlier releases joined the names of any table by a dot."""
    content = manifest(lake)
    content["tables"]["co.x.y"] = content["tables"].pop("co.x y") | {"table": "x.y"}
    (lake / "_tailrace" / "now" / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(PipelineError, match="may be two tables in it: create a new lake"):
        LakeView.open(lake)


def put(content, path, value):
    *outer, last = [each.replace("_", " ") for each in path.split()]
    for name in outer:
        content = content[int(name) if isinstance(content, list) else name]
    content[last] = value


def too_many_hidden(content):
    file = content["tables"]["warehouse.stock"]["current"]["files"][0]
    file["hidden"] = base64.b64encode(bytes(file["rows"] + 1)).decode()


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
    (too_many_hidden, None, "more deleted rows than rows"),
    ("tables co.b_d states 0 kind", "x", "a status is 'x'"),
    ("points", {}, "what is known at 'binlog.000001:1178' is missing"),
    ("tables warehouse.stock table", "another", "it is called 'warehouse.another' there"),
    ("keep", ["a\nb", "current", "history"], "what is kept is 'a.*b'"),
)


@of(3, "parquet", "iceberg")
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


def too_many_deleted(content):
    file = content["tables"]["warehouse.stock"]["current"]["files"]["0"]
    file["deleted"] = file["rows"] + 1


ALTERED_JOURNAL = (
    *(each for each in ALTERED if isinstance(each[0], str) and " key" in each[0]),
    ("tables warehouse.stock small", {"changelog": {"x": {}}}, "'x' is no data file of a lake"),
    ("tables warehouse.stock small", {"changelog": {"": {"rows": -1}}}, "figure is no number"),
    (
        "tables warehouse.stock current files 0 name",
        "_common_metadata",
        "'_common_metadata' is no data file of a lake",
    ),
    ("tables warehouse.stock current buckets", 0, "there is no bucket 0"),
    ("tables warehouse.stock current buckets", 1 << 40, "are more than a table has"),
    (too_many_deleted, None, "more deleted rows than rows"),
    ("lake states `co`.`b_d` 0 kind", "x", "a status is 'x'"),
    ("lake states", {"no such table": []}, "'no such table' has a status, and is missing"),
    ("lake points", {}, "what is known at 'binlog.000001:1178' is missing"),
    ("tables warehouse.stock table", "another", "it is called 'warehouse.another' there"),
    ("lake keep", ["a\nb", "current", "history"], "what is kept is 'a.*b'"),
    ("lake sources mariadb tables", [], "object has no attribute"),
)


def all_tables(lake):
    return list(LakeView.open(lake).manifest.tables.values())


@of(4, "parquet", "iceberg")
def test_a_state_whose_parts_do_not_fit(lake):
    """It is rejected where it is read, by who reads and by who writes."""
    number, *before = saved(lake)
    for where, value, said in ALTERED_JOURNAL:
        content = dict(zip(("lake", "tables"), copy.deepcopy(before), strict=True))
        where(content) if callable(where) else put(content, where, value)
        rewrite(lake, number, whole=content["lake"], tables=content["tables"])
        for use in (all_tables, lambda path: follow(path, 1)):
            with pytest.raises(PipelineError, match=said) as caught:
                use(lake)
            assert "000002.all.jsonl" in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("lake", ["layout-3.parquet"], indirect=True)
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


def test_an_index_of_layout_3(tmp_path):
    """It is what this release makes of the log; one of another layout is made again."""
    (series,) = find(SHOP / "mariadb")
    log = series.files[0]
    path = tmp_path / f"{log.name}.npz"
    golden = lzma.decompress((GOLDEN / "index.layout-3.npz.xz").read_bytes())
    path.write_bytes(golden)
    kept = SavedIndices(tmp_path)
    planner = IndexPlanner()
    planner.look(series)
    made = planner.files[log.name]
    for _ in range(2):
        found = kept.load(log)
        assert found is not None
        assert [(at, to_json(known)) for at, known in found.tables] == [
            (at, to_json(known)) for at, known in made.tables
        ]
        assert found.begins.tolist() == made.begins.tolist()
        assert (found.end, found.left_out, found.tagged) == (made.end, made.left_out, made.tagged)
        path.unlink()
        kept.save(made)  # as this release keeps it, the second time
    with np.load(path) as saved:
        arrays = dict(saved)
    for layout, is_read in ((3, True), (2, False), (4, False)):
        said = json.loads(str(arrays["said"])) | {"layout": layout}
        np.savez(path, **arrays | {"said": np.array(json.dumps(said))})
        assert (kept.load(log) is not None) == is_read
