"""The lake's versions: what is seen before, at and after each step of a commit."""

import os
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.errors import PipelineError
from tailrace.spark.lake.open import format_of
from tailrace.spark.lake.parquet import versions as store
from tailrace.spark.lake.parquet.versions import Lake
from tailrace.spark.lake.table_files import TableFiles
from tailrace.spark.manifest import journal
from tailrace.spark.manifest.journal import Journal
from tailrace.spark.manifest.lake_options import KEEP, LakeOptions
from tailrace.spark.manifest.manifest import (
    DataFile,
    Manifest,
    SourceState,
    TableRows,
    TableState,
)
from tailrace.spark.manifest.names import Folders, folder_name
from tailrace.spark.manifest.on_disk import LocalObjects
from tailrace.spark.manifest.status import SET_ASIDE, Status
from tests.spark.lake.journals import come_back
from tests.spark.lake.test_killed import CrashError, Fatal

COLUMNS = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC"))])


def commit(path, content):
    """Commit a version with one table of two files that hold ``content``."""
    with Lake(path) as lake:
        number = lake.manifest.next
        old = lake.folder("shop.orders") / "changelog"
        files = TableFiles()
        if lake.manifest.version:
            files.changelog = {each.name: each for each in old.iterdir()}
        for kind, members in (("log", files.changelog), ("now", files.current)):
            fresh = lake.staging / kind
            fresh.write_text(content)
            members[f"{kind}-{number}"] = fresh
        lake.commit(Manifest(number), {"shop.orders": files})


def seen(path):
    """What a reader sees: each file's name and content."""
    top = path / "shop.orders"
    return {f"{each.parent.name}/{each.name}": each.read_text() for each in sorted(top.glob("*/*"))}


FIRST = {"changelog/log-1": "one", "current/now-1": "one"}
SECOND, THIRD = (
    {"changelog/log-1": "one", f"changelog/log-{at}": "two", f"current/now-{at}": "two"}
    for at in (2, 3)
)
"""After the second batch; the third has the number where one that was prepared did not come."""


def test_versions(tmp_path):
    path = tmp_path / "lake"
    commit(path, "one")
    assert seen(path) == FIRST
    pinned = (path / "shop.orders").resolve()
    commit(path, "two")
    assert seen(path) == SECOND
    assert (pinned / "current" / "now-1").read_text() == "one"
    commit(path, "three")
    assert not pinned.exists()
    with Lake(path) as lake:
        assert lake.manifest.version == 3


STEPS = ["symlink_to", "replace", "hardlink_to", "mkdir", "write_text", "write_bytes", "unlink"]


def test_a_crash_at_any_step_leaves_one_version_or_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_MOST", 3)  # a checkpoint after the second batch
    fatal, undone = 0, 0
    while not (after := crashed(tmp_path / str(fatal), fatal))[0]:
        undone += after[1] == FIRST
        fatal += 1
    assert (fatal > 15, undone > 5, fatal - undone > 1) == (True, True, True)


def crashed(path, fatal):
    """A commit that ends before a step: whether it has fewer steps, and what a reader sees then."""
    commit(path, "one")
    dying = Fatal(fatal)
    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(Path, name, dying(getattr(Path, name)))
        patch.setattr(os, "fsync", dying(os.fsync))
        patch.setattr(store.shutil, "rmtree", lambda *_arguments, **_options: None)
        try:
            commit(path, "two")
            done = True
        except CrashError:
            done = False
    after = seen(path)
    assert after in (FIRST, SECOND), fatal
    if done:
        assert after == SECOND
    prepared = (path / "_tailrace" / "journal" / "000002.jsonl").exists()
    if after == FIRST:
        commit(path, "two")
    last = THIRD if after == FIRST and prepared else SECOND
    assert seen(path) == last, fatal
    with Lake(path) as lake:
        assert lake.manifest.version == (2 if last is SECOND else 3)
        left = {each.name for each in (path / "_tailrace" / "versions").iterdir()}
        assert left == {"000001", f"00000{lake.manifest.version}"}, fatal
        names = [each.name for each in (path / "_tailrace" / "journal").iterdir()]
        assert not [each for each in names if each.endswith(".tmp")], fatal
    return done, after


def test_what_a_run_left_over_goes_away(tmp_path):
    path = tmp_path / "lake"
    commit(path, "one")
    inner = path / "_tailrace"
    (inner / "staging" / "0" / "x").mkdir(parents=True)
    (inner / "versions" / "000002").mkdir()
    (path / "shop.gone").symlink_to("_tailrace/now/shop.gone")
    (path / "mine").symlink_to("nowhere")
    with Lake(path) as lake:
        assert lake.manifest.version == 1
        assert not (inner / "staging" / "0").exists()
        assert not (inner / "versions" / "000002").exists()
        assert not (path / "shop.gone").is_symlink()
        assert (path / "mine").is_symlink()
    assert seen(path) == FIRST


def test_only_one_process_writes(lake):
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tailrace.spark.lake.parquet.versions import Lake\n"
        "with Lake(Path(sys.argv[1])):\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    other = subprocess.Popen([sys.executable, "-c", code, lake], **pipes, text=True)
    try:
        assert other.stdout.readline() == "open\n"
        with (
            pytest.raises(PipelineError, match=rf"another process \(.*pid {other.pid}\)"),
            Lake(lake),
        ):
            pass
    finally:
        other.kill()
        other.wait()
    with Lake(lake):
        pass


def test_closed_again_it_leaves_the_next_writer_alone(tmp_path):
    with Lake(tmp_path / "lake") as first:
        pass
    with Lake(tmp_path / "lake") as second:
        first.close()
        assert second.staging.is_dir()


def test_a_path_that_is_not_utf8(tmp_path):
    path = tmp_path / os.fsdecode(b"lake\xff")
    with pytest.raises(PipelineError, match="must be UTF-8"), Lake(path):
        pass
    assert not path.exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(PipelineError, match="no lake"), Lake(tmp_path):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    with pytest.raises(PipelineError, match="cannot be written"), Lake(tmp_path / "file"):
        pass


def test_manifest_comes_back(tmp_path):
    file = DataFile("part-000002-0.parquet", 5, 6, 7)
    current = TableRows(COLUMNS, ("id",), (file, None), None, 2, ("note",), ("g",))
    table = TableState("shop", "orders", "mysql", "log", COLUMNS, (file,), current, folder="a.b")
    refused = replace(current, files=(), refused="no key")
    past = TableRows(
        COLUMNS, (), (None,), "a type was changed", closed=(file,)
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
    assert come_back(tmp_path, Manifest(1), manifest) == manifest


def test_a_document_that_is_damaged_or_of_another_layout(tmp_path):
    journal = Journal(LocalObjects(tmp_path))
    path = tmp_path / "journal" / "000001.all.jsonl"
    path.parent.mkdir()
    for content, says in (
        *((text, "journal") for text in ("", "{}", "[]", '{"layout": 4}', "\n", "\0")),
        ('{"layout": 4, "batch": 1, "tables": {}}\n', "journal"),
        ('{"layout": 4, "batch": 2, "tables": {}}\n', "of another batch"),
        ('{"layout": 4, "batch": 1, "tables": {"a": 9}}\n', "'a' is missing"),
        ('{"layout": 4, "batch": 1, "tables": {}}\nx', "more lines than tables"),
        ('{"layout": 99}\n', "layout 99"),
        ('{"layout": [4]}\n', r"layout \[4\]"),
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
        TableState("shop", name, "mysql", "log", COLUMNS, folder=first.of("shop", name))
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
