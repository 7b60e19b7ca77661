"""The lake's versions: what is seen before, at and after each step of a commit."""

import os
import shutil
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.errors import PipelineError
from tailrace.spark.lake.folder import format_of
from tailrace.spark.lake.lake import open_store
from tailrace.spark.manifest import journal
from tailrace.spark.manifest.journal import Journal
from tailrace.spark.manifest.lake_options import KEEP, LakeOptions
from tailrace.spark.manifest.manifest import (
    SET_ASIDE,
    DataFile,
    Manifest,
    SourceState,
    Status,
    TableRows,
    TableState,
)
from tailrace.spark.manifest.names import Folders, folder_name, made_by
from tailrace.spark.manifest.on_disk import LocalObjects
from tests.spark.lake.journals import come_back
from tests.spark.lake.making import COLUMNS, batch, changes, made, row, state
from tests.spark.lake.test_killed import CrashError, Fatal
from tests.spark.replay import run

TWO_COLUMNS = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC"))])


def commit(path):
    """Commit a batch with one table, whose rows are the first ones of the table so far."""
    with open_store(path) as lake:
        lake.commit(batch(lake, len(seen(path, "changelog")) // 10))


def seen(path, part):
    """What a reader sees: the numbers of the changes, or of the rows."""
    folder = path / "shop.orders" / part
    files = [pq.read_table(each) for each in folder.glob("*.parquet")]
    name = "_seq" if part == "changelog" else "id"
    return sorted(int(each) for rows in files for each in rows[name].to_pylist())


def check(path, batches):
    """A reader sees so many batches, in both parts."""
    assert seen(path, "changelog") == list(range(1, 10 * batches + 1))
    assert seen(path, "current") == list(range(10 * batches))


def left(path):
    """All data files, folders of tables, and versions; not the spare folders of links."""
    patterns = ("tables/*/[a-z]*/*", "tables/*/[0-9]*", "versions/*")
    found = [each for pattern in patterns for each in (path / "_tailrace").glob(pattern)]
    return [each for each in found if each.parent.suffix != ".spare"]


def linked(path):
    """What of these the last two versions have."""
    versions = sorted((path / "_tailrace" / "versions").glob("??????"))
    tables = [each.resolve() for version in versions for each in version.iterdir()]
    parts = [each.resolve().parent for table in tables for each in table.iterdir()]
    files = [each.resolve() for table in tables for each in table.glob("*/part-*")]
    return {*files, *parts, *tables, *versions}


def test_versions(tmp_path):
    path = tmp_path / "lake"
    commit(path)
    check(path, 1)
    assert all(each.is_symlink() for each in (path / "shop.orders").glob("*/*"))
    pinned = (path / "shop.orders").resolve()
    commit(path)
    check(path, 2)
    rows = [pq.read_table(each)["id"].to_pylist() for each in (pinned / "current").iterdir()]
    assert sorted(each for some in rows for each in some) == list(range(10))
    commit(path)
    check(path, 3)
    assert not pinned.exists()
    assert {*left(path)} == linked(path)
    with open_store(path) as lake:
        assert lake.manifest.version == 3


def two_tables(store, number, *names):
    """A batch of tables: each gets a row in its changelog, and has one row."""
    files = {
        each: [changes(store.staging / each, [row(1)], COLUMNS, number, each)] for each in names
    }
    built = {each: state(store.staging / each / "s", [row(1)], COLUMNS) for each in names}
    return made(store, files, built, number, touched=frozenset(names))


def test_tables_that_a_batch_is_not_about_are_linked_whole(tmp_path, monkeypatch):
    path = tmp_path / "lake"
    links = []
    symlink = Path.symlink_to
    with open_store(path) as lake:
        lake.commit(two_tables(lake, 1, "shop.a", "shop.b"))
        folders = [(path / name).resolve() for name in ("shop.a", "shop.b")]
        monkeypatch.setattr(
            Path, "symlink_to", lambda to, at: (links.append(to.name), symlink(to, at))
        )
        for number in range(2, 12):
            links.clear()
            lake.commit(two_tables(lake, number, "shop.a"))
            files = [each for each in links if "part" in each]
            assert sorted({*links}.difference(files)) == ["now", "shop.a", "shop.b"]
            changelog = [each.name for each in (path / "shop.a" / "changelog").iterdir()]
            assert sorted(made_by(each)[0] for each in changelog) == [*range(1, number + 1)]
            assert number < 4 or len(files) < 6  # the others are those of a version that is gone
        assert (path / "shop.a").resolve() != folders[0]
        assert (path / "shop.b").resolve() == folders[1]
        assert len(list((path / "shop.b" / "changelog").iterdir())) == 1
    assert {*left(path)} == linked(path)


STEPS = ["symlink_to", "replace", "mkdir", "write_text", "write_bytes", "unlink", "hardlink_to"]


def test_a_crash_at_any_step_leaves_one_version_or_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_MOST", 3)  # a checkpoint after the second batch
    fatal, undone = 0, 0
    while not (after := crashed(tmp_path / str(fatal), fatal))[0]:
        undone += after[1] == 2
        fatal += 1
    assert (fatal > 40, undone > 20, fatal - undone > 5) == (True, True, True)


def crashed(path, fatal):
    """A third commit that ends before a step: whether it has fewer steps, and how many batches a
    reader sees then. The next process finishes what was prepared.
    """
    for _ in range(2):
        commit(path)
    dying = Fatal(fatal)
    with pytest.MonkeyPatch.context() as patch:
        try:
            with open_store(path) as lake:
                work = batch(lake, 2)
                for name in STEPS:
                    patch.setattr(Path, name, dying(getattr(Path, name)))
                patch.setattr(os, "fsync", dying(os.fsync))
                patch.setattr(shutil, "rmtree", dying(shutil.rmtree))
                lake.commit(work)
                patch.undo()
            done = True
        except CrashError:
            done = False
    after = len(seen(path, "changelog")) // 10
    assert after in (2, 3), fatal
    check(path, after)
    prepared = (path / "_tailrace" / "journal" / "000003.jsonl").exists()
    with open_store(path) as lake:
        assert lake.manifest.version == (3 if prepared else 2)
    check(path, 3 if prepared else 2)
    if not prepared:
        commit(path)
    check(path, 3)
    assert {*left(path)} == linked(path), fatal
    names = [each.name for each in (path / "_tailrace" / "journal").iterdir()]
    assert not [each for each in names if each.endswith(".tmp")], fatal
    return done, after


def test_what_a_run_left_over_goes_away(tmp_path):
    path = tmp_path / "lake"
    commit(path)
    inner = path / "_tailrace"
    (inner / "staging" / "0" / "x").mkdir(parents=True)
    (inner / "now.0000000000").mkdir()
    with open_store(path) as lake:
        assert lake.manifest.version == 1
        assert not (inner / "staging" / "0").exists()
        (own,) = inner.glob("now.*")
        assert own.name != "now.0000000000"
    check(path, 1)


def test_a_link_that_was_removed_comes_back(tmp_path):
    """With the next batch of its table. A data file does not: the table is set aside."""
    path = tmp_path / "lake"
    commit(path)
    gone = next((path / "shop.orders" / "changelog").iterdir())
    file = gone.resolve()
    gone.unlink()
    with open_store(path) as lake:
        assert lake.refresh(run) == {}
        lake.commit(batch(lake, 1))
    check(path, 2)
    file.unlink()
    with open_store(path) as lake, pytest.raises(PipelineError, match=rf"{file} is gone: bring"):
        lake.refresh(run)


def test_only_one_process_writes(lake):
    code = (
        "import sys\n"
        "from tailrace.spark.lake.lake import open_store\n"
        "with open_store(sys.argv[1]):\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    other = subprocess.Popen([sys.executable, "-c", code, lake], **pipes, text=True)
    try:
        assert other.stdout.readline() == "open\n"
        with (
            pytest.raises(PipelineError, match=rf"another process \(.*pid {other.pid}\)"),
            open_store(lake),
        ):
            pass
    finally:
        other.kill()
        other.wait()
    with open_store(lake):
        pass


def test_closed_again_it_leaves_the_next_writer_alone(tmp_path):
    with open_store(tmp_path / "lake") as first:
        pass
    with open_store(tmp_path / "lake") as second:
        first.close()
        assert second.staging.is_dir()


def test_a_path_that_is_not_utf8(tmp_path):
    path = tmp_path / os.fsdecode(b"lake\xff")
    with pytest.raises(PipelineError, match="must be UTF-8"), open_store(path):
        pass
    assert not path.exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(PipelineError, match="no lake"), open_store(tmp_path):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    with pytest.raises(PipelineError, match="cannot be written"), open_store(tmp_path / "file"):
        pass


def test_manifest_comes_back(tmp_path):
    file = DataFile("part-000002-0.parquet", 5, 6, 7)
    current = TableRows(TWO_COLUMNS, ("id",), (file, None), None, 2, ("note",), ("g",))
    table = TableState(
        "shop", "orders", "mysql", "log", TWO_COLUMNS, (file,), current, folder="a.b"
    )
    refused = replace(current, files=(), refused="no key")
    past = TableRows(
        TWO_COLUMNS, (), (None,), "a type was changed", closed=(file,)
    )  # ended, then refused
    source = SourceState("binlog.000002", 500, {"binlog.000001": 9}, "h", "t", {"version": 1})
    point = replace(source, offset=7)
    parts = {"current": "binlog.000002:7"}
    status = Status(SET_ASIDE, "why", "binlog.000002:7", "what", parts, (), 3)
    manifest = Manifest(
        2,
        LakeOptions.of({"tables": "shop.*", "keep": KEEP}),
        {"mysql": source},
        {
            "shop.aside": replace(table, table="aside", folder="a.aside", states=(status,)),
            "shop.orders": table,
            "shop.old": replace(table, table="old", folder="a.old", current=None, dropped=True),
            "shop.none": replace(table, table="none", folder="a.none", current=refused),
            "shop.past": replace(table, table="past", folder="a.past", history=past),
            "shop.gone": replace(
                table, table="gone", folder="a.gone", history=replace(past, refused=None)
            ),
        },
        points={"mysql": {"binlog.000002:7": point}},
    )
    placed = {
        key: replace(
            each,
            parts={part: f"{each.folder}.{part}" for part in KEEP},
            shapes=dict.fromkeys(KEEP, TWO_COLUMNS),
        )
        for key, each in manifest.tables.items()
    }
    manifest = replace(manifest, tables=placed)
    assert come_back(tmp_path, Manifest(1), manifest) == manifest


def test_a_document_that_is_damaged_or_of_another_layout(tmp_path):
    journal = Journal(LocalObjects(tmp_path))
    path = tmp_path / "journal" / "000001.all.jsonl"
    path.parent.mkdir()
    for content, says in (
        *((text, "journal") for text in ("", "{}", "[]", '{"layout": 5}', "\n", "\0")),
        ('{"layout": 5, "batch": 1, "tables": {}}\n', "journal"),
        ('{"layout": 5, "batch": 2, "tables": {}}\n', "of another batch"),
        ('{"layout": 5, "batch": 1, "tables": {"a": 9}}\n', "'a' is missing"),
        ('{"layout": 5, "batch": 1, "tables": {}}\nx', "more lines than tables"),
        ('{"layout": 99}\n', "layout 99"),
        ('{"layout": [5]}\n', r"layout \[5\]"),
    ):
        path.write_text(content)
        with pytest.raises(PipelineError, match=says) as caught:
            journal.read()
        assert "000001.all.jsonl" in str(caught.value)


NAMES = {
    ("shop", "orders"): "shop.orders",
    ("a.b", "c"): "a@002eb.c",
    ("a", "b.c"): "a.b@002ec",
    ("a/b", "@x y"): "a@002fb.@0040x@0020y",
    ("_tailrace", "now"): "_tailrace.now",
    ("größe", "表"): "größe.表",
    ("a", "😀"): "a.@d83d@de00",
    ("a$b", "my-t_1"): "a$b.my-t_1",
    ("shop", "表" * 45): f"shop.{'表' * 45}",
    ("表" * 45, "表" * 45): f"{'表' * 30}.{'表' * 30}@-2b99adaeeb9730d2",
    ("d", "%" * 64): f"d.{'@0025' * 18}@-e745747ddda448d8",
}


def test_folder_names():
    assert {names: folder_name(*names) for names in NAMES} == NAMES
    of_hostile_logs = [folder_name(*names) for names in (("", "t"), ("d", ""), ("", ""))]
    assert len({*of_hostile_logs}) == 3
    assert all("@-" in folder for folder in of_hostile_logs)


def test_folders_differ_on_every_file_system():
    """Whatever a file system does not tell apart: case, composed letters, what is cut off."""
    names = [
        "t",
        "T",
        "größe",
        "GRÖSSE",
        "gro\u0308ße",
        "表" * 64,
        "表" * 63 + "面",
        "ﬁ",
        "fi",
        "\u212a",  # the sign for kelvin
        "K",
    ]
    folders = Folders(())
    found = [
        folders.of(database, name) for database in ("表" * 64, "shop", "Shop") for name in names
    ]
    assert len({unicodedata.normalize("NFKD", each).casefold() for each in found}) == len(found)
    assert max(len(each.encode()) for each in found) < 230
    assert all(each.count(".") == 1 for each in found)
    assert folders.of("shop", "t") == "shop.t"
    assert folders.of("shop", "T").startswith("shop.T@-")


def test_a_table_keeps_its_folder():
    """The first of two has the plain name, also when the second is older in the alphabet."""
    first = Folders(())
    states = [
        TableState("shop", name, "mysql", "log", TWO_COLUMNS, folder=first.of("shop", name))
        for name in ("t", "T")
    ]
    again = Folders(states)
    assert [again.of("shop", name) for name in ("T", "t")] == [first.of("shop", "T"), "shop.t"]


def test_a_first_batch_that_was_killed_is_a_parquet_lakes(tmp_path):
    """Its versions are gone, and the journal has the number of the batch."""
    for name in ("versions", "journal"):
        (tmp_path / "_tailrace" / name).mkdir(parents=True)
    assert format_of(tmp_path) is None
    (tmp_path / "_tailrace" / "journal" / "000001.done.jsonl").write_text("{}")
    assert format_of(tmp_path) == "parquet"
