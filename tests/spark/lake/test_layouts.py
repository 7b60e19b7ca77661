"""Golden lakes and indexes of earlier commits: read, continued, or rejected (golden/README.md)."""

import copy
import json
import lzma
import shutil
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tailrace.errors import PipelineError
from tailrace.schema.catalogue_json import to_json
from tailrace.spark import mirror
from tailrace.spark.input.header_index import IndexPlanner
from tailrace.spark.input.saved_index import SavedIndices
from tailrace.spark.lake.lake import open_store
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest import document
from tailrace.spark.manifest.manifest_json import Histories, lake_json, table_json
from tailrace.spark.search import index
from tailrace.spark.verify import verify
from tailrace.storage import find
from tailrace.table_name import TableName
from tests.spark.following import Follow
from tests.spark.history.landing import FORMATS, parquet_rows
from tests.spark.lake.journals import documents, rewrite, saved
from tests.spark.lake.patching import READERS
from tests.spark.replay import differences
from tools.shop import SHOP, SHOP_TABLES

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


@pytest.fixture(params=FORMATS)
def lake(request, tmp_path, monkeypatch):
    """A golden lake, and next to it the folder of the logs it was made of.

    The path is that of the run that made it (Iceberg keeps whole ones).
    """
    layout = 5 if request.param == "parquet" else 4
    unpack(f"layout-{layout}.{request.param}", tmp_path)
    monkeypatch.chdir(tmp_path)
    for source in ("mariadb", "odd"):
        Path("logs", source).mkdir(parents=True)
    shutil.copy(SHOP / "mariadb" / "binlog.000001", "logs/mariadb")
    second = SHOP / "mariadb" / "binlog.000002"
    for name, path in zip(READ, (second, ODD), strict=True):
        Path("logs", name).write_bytes(path.read_bytes()[: READ[name]])
    return Path("/proc/self/cwd", request.param)


def unpack(name, folder):
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        packed.extractall(folder)


def of(*formats):
    """Golden lakes of these formats."""
    return pytest.mark.parametrize("lake", formats, indirect=True)


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
    assert dict(known.options.keys) == {str(ASIDE): ("id",), str(PLAIN): ("id",)}
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


def test_what_is_written_of_a_lake_is_as_it_was(lake):
    _, whole, tables = saved(lake)
    known = LakeView.open(lake).manifest
    assert lake_json(known, Histories()) == whole
    for key, state in known.tables.items():  # marks come after a commit
        assert {**table_json(state), "marks": None} == {**tables[key], "marks": None}


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
    assert left == {"journal", *(("now", "tables", "versions") if lake.name == "parquet" else ())}
    for state in after.tables.values():
        assert state.history.rows > state.current.rows
        assert sum(file.rows for file in state.changelog) > state.current.rows


def test_it_keeps_its_folders(lake):
    """Whatever a table would be called now: a name that a later layout would shorten, say."""
    name = "x" * 240

    number, whole, tables = saved(lake)
    tables[f"warehouse.{name}"] = tables.pop("warehouse.stock") | {"table": name}
    rewrite(lake, number, whole, tables)
    with open_store(lake, lake.name) as store:
        state = store.manifest.tables[f"warehouse.{name}"]
    assert state.folder == "warehouse.stock"
    assert state.parts["current"].removesuffix(".current") == "warehouse.stock"


def test_a_prepared_batch(lake):
    """A process died after the commits of a batch. Of a Parquet lake the link decides."""
    documents(lake)["000002.done.jsonl"].unlink()
    if lake.name == "parquet":
        check_as_made(lake)
    else:
        assert LakeView.open(lake).manifest.version == 1
    follow(lake, 1)
    check_as_made(lake)
    assert "000002.done.jsonl" in documents(lake)


@pytest.mark.parametrize("layout", [3, document.LAYOUT + 1, None, "5\n"])
def test_another_layout_of_a_document(lake, layout):
    for name, path in documents(lake).items():
        whole = path.read_text()
        first, rest = whole.split("\n", 1)
        path.write_text(f"{json.dumps(json.loads(first) | {'layout': layout})}\n{rest}")
        for use in (lambda path: follow(path, 1), LakeView.open):
            with pytest.raises(PipelineError) as caught:
                use(lake)
            said = f"{name} has layout {layout!r}, and this Tailrace reads layout 5: "
            assert said in str(caught.value)
            assert "recreate the lake (mirror the logs into a new folder)" in str(caught.value)
        path.write_text(whole)
    check_as_made(lake)


@pytest.fixture(params=FORMATS)
def old(request, tmp_path, monkeypatch):
    """The own state of a lake of layout 3, which 764da2c8 wrote."""
    unpack("layout-3", tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    shutil.copy(SHOP / "mariadb" / "binlog.000001", "logs")
    return Path("/proc/self/cwd", request.param)


@pytest.mark.parametrize("shown", [True, False])
def test_layout_3(old, shown):
    """Every command rejects it, in one line that says how to recreate it; nothing is written.

    So it does a lake whose first batch was only prepared.
    """
    if not shown:
        (old / "_tailrace" / "now").unlink()
    before = sorted(old.rglob("*"))
    uses = [
        *(partial(mirror, "logs", format=each, **OPTIONS) for each in (None, *FORMATS)),
        *(LakeView.open, LakeView.is_there, partial(index, into="index")),
        partial(verify, "mysql://root@127.0.0.1:1/"),
    ]
    for use in uses:
        with pytest.raises(PipelineError) as caught:
            use(old)
        assert str(caught.value) == (
            f"{old} has layout 3 or an older one, and this Tailrace reads layout 5: recreate the "
            "lake (mirror the logs into a new folder), or use the Tailrace that wrote it"
        )
        assert sorted(old.rglob("*")) == before
    with pytest.raises(PipelineError, match="layout 3 or an older one"):
        open_store(old, old.name).__enter__()


def test_parquet_of_layout_4(tmp_path, monkeypatch):
    """Its versions have the data files: it is rejected, and nothing is written."""
    unpack("layout-4.parquet", tmp_path)
    monkeypatch.chdir(tmp_path)
    old = Path("/proc/self/cwd/parquet")
    before = sorted(old.rglob("*"))
    for use in (partial(mirror, "logs", **OPTIONS), LakeView.open, partial(index, into="index")):
        with pytest.raises(PipelineError, match="layout 4, and this Tailrace reads layout 5: rec"):
            use(old)
    assert sorted(old.rglob("*")) == before


def test_what_layout_3_left_in_a_lake(lake):
    """A lake of Parquet with a journal may still have a version of layout 3."""
    for name in ("versions", "batches") if lake.name == "parquet" else ("batches",):
        left = lake / "_tailrace" / name / "000001" / "manifest.json"
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_text("{}")
        if name == "versions":
            check_as_made(lake)
    with pytest.raises(PipelineError, match="layout 3 or an older one"):
        LakeView.open(lake)


@of("parquet")
def test_a_journal_that_is_gone(lake):
    """A lake that shows a version has not become a new one."""
    shutil.rmtree(lake / "_tailrace" / "journal")
    for use in (LakeView.open, LakeView.is_there, lambda path: follow(path, 1)):
        with pytest.raises(
            PipelineError, match=r"bring (it back|back what was removed), or create"
        ):
            use(lake)


def put(content, path, value):
    *outer, last = [each.replace("_", " ") for each in path.split()]
    for name in outer:
        content = content[int(name) if isinstance(content, list) else name]
    content[last] = value


def too_many_deleted(content):
    file = content["tables"]["warehouse.stock"]["current"]["files"]["0"]
    file["deleted"] = file["rows"] + 1


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
    ("tables warehouse.stock small", {"changelog": {"x": {}}}, "'x' is no data file of a lake"),
    ("tables warehouse.stock small", {"changelog": {"": {"rows": -1}}}, "-1 is no number"),
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
    ("lake keep", ["a\nb", "current", "history"], "keep is .* and not 'a.*b'"),
    ("lake sources mariadb tables", [], "object has no attribute"),
)


def all_tables(lake):
    return list(LakeView.open(lake).manifest.tables.values())


@of("parquet", "iceberg")
def test_a_state_whose_parts_do_not_fit(lake):
    """It is rejected where it is read, by who reads and by who writes."""
    number, *before = saved(lake)
    for where, value, said in ALTERED:
        content = dict(zip(("lake", "tables"), copy.deepcopy(before), strict=True))
        where(content) if callable(where) else put(content, where, value)
        rewrite(lake, number, whole=content["lake"], tables=content["tables"])
        for use in (all_tables, lambda path: follow(path, 1)):
            with pytest.raises(PipelineError, match=said) as caught:
                use(lake)
            assert "000002.all.jsonl" in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1


@of("parquet")
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
