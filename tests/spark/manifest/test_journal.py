"""A lake's journal: what it writes, what is read of it, and what it keeps."""

import json
import pickle
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from tailrace.errors import PipelineError
from tailrace.position import Position
from tailrace.spark.manifest import document, journal, json_file
from tailrace.spark.manifest.document import difference, patched
from tailrace.spark.manifest.journal import Journal
from tailrace.spark.manifest.lake_options import KEEP, LakeOptions
from tailrace.spark.manifest.manifest import (
    INCOMPLETE,
    SET_ASIDE,
    DataFile,
    Manifest,
    SourceState,
    Status,
    TableRows,
    TableState,
)
from tailrace.spark.manifest.manifest_json import Histories, lake_json, table_json, table_of
from tailrace.spark.manifest.on_disk import LocalObjects
from tailrace.storage.objects.bucket import ObjectExists, bucket_of
from tailrace.storage.objects.url import ObjectUrl
from tests.spark.lake.journals import come_back

COLUMNS = pa.schema([("id", pa.int32()), *((f"column_{n}", pa.string()) for n in range(10))])
LISTS = ("tables", "whole")
HISTORY = {
    "version": 2,
    "tables": [
        {"database": "shop", "table": f"t{n:03}", "columns": [{"name": "id", "type": "int"}] * 11}
        for n in range(300)
    ],
    "databases": {"shop": None},
    "whole": [["shop", f"t{n:03}"] for n in range(300)],
}
LARGE = SourceState("binlog.000001", 4, {}, "head", "tail", HISTORY)
SMALL = replace(LARGE, tables={name: each[:9] for name, each in HISTORY.items() if name in LISTS})


@pytest.fixture(params=["disk", "memory"])
def objects(request, tmp_path):
    """A folder, or a store of objects: the same requests."""
    if request.param == "disk":
        return LocalObjects(tmp_path)
    return bucket_of(ObjectUrl.parse(f"memory://{tmp_path.name}-{random.random()}"))


def table(number, batch=1):
    name = f"t{number:03}"
    files = tuple(
        DataFile(f"part-000001-3152080966-6b1f0c2d{n:04}.parquet", 100, 5000, 7000)
        for n in range(16)
    )
    shapes = dict.fromkeys(("changelog", "current"), COLUMNS)
    parts = {"changelog": f"{name}_changelog", "current": name}
    state = TableState("shop", name, "mysql", "log", COLUMNS, folder=f"shop.{name}", parts=parts)
    current = TableRows(COLUMNS, ("id",), files)
    return after(replace(state, current=current, shapes=shapes), batch)


def after(state, batch):
    """The table after a batch of one row."""
    file = DataFile(f"part-{batch:06}-3152080966-6b1f0c2d9a3e.parquet", 1, 2000, 100)
    current = state.current or TableRows(COLUMNS, ("id",))
    current = replace(current, tails=(*current.tails, file))
    sums = (DataFile("", batch, 2000 * batch, 100 * batch),)
    small = {"changelog": (*state.small.get("changelog", ()), file)[-64:]}
    return replace(state, current=current, changelog=sums, small=small)


def begun(count=3, source=SMALL):
    tables = {f"shop.t{n:03}": table(n) for n in range(count)}
    return Manifest(1, LakeOptions.of({"format": "delta"}), {"mysql": source}, tables)


def following(manifest, *touched):
    """The manifest of a batch with one row in each of some tables."""
    number = manifest.next
    tables = dict(manifest.tables)
    for key in touched:
        tables[key] = after(tables[key], number)
    source = replace(manifest.sources["mysql"], offset=100 * number, tail=f"tail {number}")
    history = {**source.tables, "tables": [dict(each) for each in source.tables["tables"]]}
    sources = {"mysql": replace(source, tables=history)}  # equal, and made again
    return replace(manifest, version=number, tables=tables, sources=sources, withdrawn=0)


def commit(written, manifest, steps=()):
    written.prepare(manifest, list(steps))
    written.done(manifest)
    written.clean()


def read(objects):
    found = Journal(objects)
    found.read()
    return found


def names(objects):
    return sorted(objects.list("journal").objects)


def size(objects, name):
    return objects.list("journal").objects[name]


def test_a_batch_writes_what_it_changed(objects):
    written, manifest = Journal(objects), begun(300, LARGE)
    commit(written, manifest)
    assert size(objects, "000001.jsonl") > 1_000_000
    steps = [{"table": "t005", "adds": ["part-000002-000000.parquet"]}]
    manifest = following(manifest, "shop.t005")
    commit(written, manifest, steps)
    assert size(objects, "000002.jsonl") < 1024
    assert size(objects, "000002.done.jsonl") < 64
    found = read(objects).manifest
    assert found == manifest
    assert pickle.loads(pickle.dumps(found)) == manifest


def test_a_state_comes_back_whatever_happens(objects, monkeypatch):
    """Random batches; each time the next process reads what this one holds, and goes on."""
    monkeypatch.setattr(journal, "_LEAST", 2000)
    rng = random.Random(1)
    manifest = begun(6)
    commit(Journal(objects), manifest)
    for _ in range(60):
        written = read(objects)
        assert written.manifest == manifest
        assert list(written.manifest.tables) == sorted(manifest.tables)
        for _ in range(rng.randint(1, 4)):
            manifest = altered(written.manifest, rng)
            commit(written, manifest)
    assert max(int(name[:6]) for name in names(objects)) == manifest.version > 60
    assert len(names(objects)) < 30


def altered(before, rng):
    manifest = following(before, *rng.sample(sorted(before.tables), 1))
    tables, sources = dict(manifest.tables), dict(manifest.sources)
    points = dict(manifest.points)
    key = rng.choice(sorted(tables))
    state = tables[key]
    match rng.randrange(10):
        case 0 if state.current:  # the same files in another order
            tails = list(state.current.tails)
            rng.shuffle(tails)
            state = replace(state, current=replace(state.current, tails=tuple(tails)))
        case 1 if state.current:  # fewer buckets, of which one is empty
            files = (*state.current.files[: rng.randrange(5)], None)
            state = replace(state, current=replace(state.current, files=files, tails=()))
        case 2:
            state = replace(state, current=None, dropped=True, small={}, changelog=())
        case 3:
            file = DataFile("closed-000001-000000.parquet", 1, 2, 3)
            added = (("x", None, None), ("y", "1", "why"))
            history = TableRows(
                COLUMNS,
                ("id",),
                (None, file),
                added=added,
                closed=(DataFile("", 1, 2, 3),),
                gaps=("gap",),
            )
            state = replace(state, history=history, parts={**state.parts, "history": f"{key}_h"})
            state = replace(state, shapes={**state.shapes, "history": COLUMNS})
        case 4 if len(tables) > 2:
            del tables[key]
            state = None
        case 5:
            number = rng.randrange(100, 900)
            tables[f"shop.t{number}"] = table(number)
        case 6:
            at = str(sources["mysql"].position)
            points = {"mysql": {**points.get("mysql", {}), at: sources["mysql"]}}
            status = Status(SET_ASIDE, "why", at, "what", {"current": at}, (key,), 3, unnamed=True)
            state = state.with_status(SET_ASIDE, status)
        case 7:
            state = state.with_status(INCOMPLETE, Status(INCOMPLETE, "its begin is missing", ""))
        case 8:
            state = replace(state, states=())
        case _:
            log = sources["mysql"]
            known = {**log.tables, "whole": log.tables["whole"][rng.randrange(9) :]}
            known["databases"] = {"shop": rng.choice([None, 45])}
            sources["mysql"] = replace(
                log,
                file=f"binlog.{rng.randrange(1, 9):06}",
                files={"binlog.000001": rng.randrange(9)},
                tables=known,
                seen=Position("binlog.000002", 9),
            )
    if state is None:
        tables = {
            each: replace(one, states=()) if one.states else one for each, one in tables.items()
        }
    else:
        tables[key] = state
    options = replace(manifest.options, keep=KEEP)
    return replace(manifest, tables=tables, sources=sources, points=points, options=options)


def test_a_prepared_batch_is_finished_or_withdrawn(objects):
    written, manifest = Journal(objects), begun()
    commit(written, manifest)
    second = following(manifest, "shop.t001")
    written.prepare(second, [{"table": "t001"}])
    for number, finish in ((2, False), (3, True)):
        found = read(objects)
        assert (found.manifest, found.prepared) == (
            replace(manifest, withdrawn=number - 2 and 2),
            number,
        )
        coming, steps = found.coming(list)
        assert coming.version == number
        assert steps == [{"table": "t001"}]
        if finish:
            outcome = following(manifest, "shop.t001", "shop.t002")
            found.done(replace(outcome, version=3))
            break
        found.withdraw()
        assert (found.manifest.version, found.manifest.next) == (1, 3)
        found = read(objects)
        assert (found.prepared, found.manifest.next) == (0, 3)
        found.prepare(following(found.manifest, "shop.t001"), [{"table": "t001"}])
    found = read(objects)
    assert (found.manifest.version, found.manifest.withdrawn, found.manifest.next) == (3, 2, 4)
    assert len(found.manifest.tables["shop.t002"].current.tails) == 2


def test_two_writers(objects):
    """The one that is late does nothing, whatever it wanted."""
    commit(Journal(objects), begun())
    one, other = read(objects), read(objects)
    manifest = following(one.manifest, "shop.t001")
    one.prepare(manifest, [])
    with pytest.raises(PipelineError, match=r"000002\.jsonl: another process writes to the lake"):
        other.prepare(following(other.manifest, "shop.t002"), [])
    one.done(manifest)
    assert read(objects).manifest == manifest


def test_an_answer_that_was_lost(objects, monkeypatch):
    """The store has created the document, and says that there was one."""
    put = type(objects).put

    def twice(self, *arguments, **options):
        put(self, *arguments, **options)
        put(self, *arguments, **options)

    monkeypatch.setattr(type(objects), "put", twice)
    commit(Journal(objects), begun())
    assert read(objects).manifest == begun()


def test_what_stays(objects, monkeypatch):
    """Two checkpoints, and the documents since the first of them."""
    monkeypatch.setattr(journal, "_LEAST", 0)
    written, manifest = Journal(objects), begun(1)
    commit(written, manifest)
    wholes = []
    for _ in range(150):
        manifest = following(manifest, "shop.t000")
        commit(written, manifest)
        there = names(objects)
        wholes = sorted({*wholes, *(name for name in there if ".all" in name)})
        assert [name for name in there if ".all" in name] == wholes[-2:]
        first = wholes[-2][:6] if len(wholes) > 1 else "000000"
        assert min(name for name in there if ".all" not in name)[:6] > first
        since = sum(size(objects, name) for name in there if name[:6] > wholes[-1][:6])
        assert since <= size(objects, wholes[-1])
    assert len(wholes) > 3
    assert read(objects).manifest == manifest


def test_many_small_documents(objects, monkeypatch):
    monkeypatch.setattr(journal, "_MOST", 10)
    written, manifest = Journal(objects), begun(1)
    for _ in range(20):
        commit(written, manifest)
        manifest = following(manifest)
    assert [name for name in names(objects) if ".all" in name] == [
        f"{number:06}.all.jsonl" for number in (12, 18)
    ]


@pytest.mark.parametrize("gone", ["000002.jsonl", "000002.done.jsonl"])
def test_a_document_that_is_gone(objects, gone):
    written, manifest = Journal(objects), begun(1)
    for _ in range(3):
        commit(written, manifest)
        manifest = following(manifest, "shop.t000")
    objects.remove(f"journal/{gone}")
    with pytest.raises(PipelineError, match=f"{gone}: no such .*: bring it back"):
        read(objects)


def test_a_table_is_parsed_when_it_is_asked_for(objects):
    """So damage in one ends what uses it, and the error names the document."""
    commit(Journal(objects), begun())
    path = "journal/000001.jsonl"
    content = bytes(objects.read(path, 0, 1 << 20)[0])
    at = content.index(b'[{"database":"shop","table":"t001"')
    objects.remove(path)
    objects.put(path, content[:at] + b"[{]" + content[at + 3 :], new=True)
    tables = read(objects).manifest.tables
    assert (len(tables), "shop.t001" in tables, "x" in tables) == (3, True, False)
    assert tables["shop.t002"] == table(2)
    assert list(tables) == ["shop.t000", "shop.t001", "shop.t002"]
    with pytest.raises(PipelineError, match=r"000001\.jsonl cannot be read as a document"):
        _ = tables["shop.t001"]


def test_what_could_not_be_read_again_is_not_written(objects, monkeypatch):
    written, manifest = Journal(objects), begun()
    commit(written, manifest)
    second = following(manifest, "shop.t001")
    for place, name, limit, said in (
        (json_file, "_MOST", 3, "it has more values"),
        (json_file, "LARGEST", 100, "it has 0 MiB"),
        (document, "LARGEST_WHOLE", 100, "it has 0 MiB"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, limit)
            with pytest.raises(PipelineError, match=f"could not be read again.*: {said}"):
                written.prepare(second, [])
    assert names(objects) == ["000001.done.jsonl", "000001.jsonl"]
    commit(written, second)
    assert read(objects).manifest == second


def test_merge_patches():
    """The examples of RFC 7396, and their inverse."""
    cases = (
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    )
    for old, patch, new in cases:
        before = json.dumps(old)
        assert patched(old, patch) == new
        assert json.dumps(old) == before
        if isinstance(old, dict) and isinstance(new, dict):
            assert patched(old, difference(old, new)) == new


def test_a_local_folder_creates_what_is_not_there(tmp_path):
    objects = LocalObjects(tmp_path)
    objects.put("a/b", b"one", new=True)
    with pytest.raises(ObjectExists):
        objects.put("a/b", b"two", new=True)
    (tmp_path / "a" / "c").symlink_to(tmp_path / "mine")
    with pytest.raises(ObjectExists):
        objects.put("a/c", b"two", new=True)
    assert not (tmp_path / "mine").exists()
    objects.put("a/b", b"three")
    assert (tmp_path / "a" / "b").read_bytes() == b"three"
    assert objects.list("a").objects.keys() == {"b", "c"}
    assert (objects.list("").folders, objects.list("x").objects) == (["a"], {})


def test_json_forms_leave_out_what_is_empty():
    state = TableState("shop", "t", "mysql", "log", COLUMNS, folder="shop.t")
    assert set(table_json(state)) == {"database", "table", "source", "names", "folder", "columns"}
    assert table_of(table_json(state)) == state
    assert set(lake_json(Manifest(), Histories())) == {"keep", "format", "update_mode", "cascades"}


def test_a_table_that_did_not_change_refers_to_what_is_gone(objects):
    """Its status is checked with each batch: nobody could read the table any more."""
    written, manifest = Journal(objects), begun()
    at = str(SMALL.position)
    aside = Status(SET_ASIDE, "why", at, "what", {"current": at})
    tables = {**manifest.tables, "shop.t001": table(1).with_status(SET_ASIDE, aside)}
    manifest = replace(manifest, tables=tables, points={"mysql": {at: SMALL}})
    commit(written, manifest)
    with pytest.raises(PipelineError, match=f"'shop.t001': what is known at '{at}' is missing"):
        written.prepare(replace(following(manifest, "shop.t002"), points={}), [])
    commit(written, following(manifest, "shop.t002"))


def test_what_is_noted_at_columns_is_kept(tmp_path):
    """An ENUM has other members, say: Arrow takes both schemas for equal."""
    first = begun(2)
    noted = pa.schema([each.with_metadata({"members": "a,b"}) for each in COLUMNS])
    state = replace(table(1), columns=noted)
    tables = {**first.tables, "shop.t001": state}
    found = come_back(tmp_path, first, replace(first, version=2, tables=tables))
    assert found.tables["shop.t001"].columns.equals(noted, check_metadata=True)
