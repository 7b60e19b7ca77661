"""Which transport reads what."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from tailrace.constants import EventType
from tailrace.errors import StorageError, UsageError
from tailrace.position import Position
from tailrace.storage import find
from tailrace.storage.memory import forget_memory, memory_folder
from tailrace.transports import SeriesTransport, register, registry, schemes
from tests.cases import each_case
from tests.events.made import log
from tests.generators.test_another_package import package
from tests.handlers.made import DDL

E = EventType


@pytest.fixture
def folder(tmp_path):
    for number in (8, 9, 10, 11):
        log(tmp_path, number, *[DDL] * number)
    return tmp_path


@pytest.fixture
def own_schemes(monkeypatch):
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))


def files_of(source):
    with tailrace.open(source) as opened:
        return list(dict.fromkeys(event.file or "" for event in opened))


def test_paths_urls_folders_and_lists(folder):
    all_four = [f"binlog.{number:06}" for number in (8, 9, 10, 11)]
    assert files_of(folder) == files_of(str(folder)) == files_of(f"file://{folder}") == all_four
    assert files_of(f"file:{folder}") == files_of(f"FILE://localhost{folder}") == all_four
    (folder / "binlog.index").write_text("./binlog.000009\n./binlog.000010\n")
    assert files_of(folder / "binlog.index") == all_four[1:3]
    assert (
        files_of(folder / "binlog.000010")
        == files_of(f"file://{folder}/binlog.000010")
        == all_four[2:3]
    )
    paths = [folder / name for name in all_four]
    random.Random(1).shuffle(paths)
    assert files_of(paths) == files_of(tuple(map(str, paths))) == all_four
    assert files_of([folder / "binlog.000010", folder / "binlog.000009"]) == all_four[1:3]


def test_lists_that_are_no_series(folder, tmp_path):
    with pytest.raises(StorageError, match=r"binlog\.000009 is missing between"):
        tailrace.open([folder / "binlog.000010", folder / "binlog.000008"])
    with pytest.raises(UsageError, match="give a log"):
        tailrace.open([])
    other = log(tmp_path, 12, base="relay")
    with pytest.raises(UsageError, match="several logs"):
        tailrace.open([folder / "binlog.000008", other])


def test_a_name_with_a_colon_is_a_path(folder, monkeypatch):
    (folder / "odd:binlog.000001").write_bytes((folder / "binlog.000008").read_bytes())
    monkeypatch.chdir(folder)
    assert files_of("odd:binlog.000001") == ["odd:binlog.000001"]
    (folder / "memory:x").write_bytes((folder / "binlog.000008").read_bytes())
    assert files_of(Path("memory:x")) == ["memory:x"]


@each_case("url", ["oracle://root:secret@host/db", "ftp://bucket/x?key=secret"])
def test_an_unknown_scheme_is_refused(url):
    with pytest.raises(UsageError) as caught:
        tailrace.open(url)
    text = str(caught.value)
    assert "secret" not in text
    assert "known are abfs, abfss, az, file, gs, mariadb, memory, mysql" in text
    assert "tailrace.transports" in text
    assert url.partition(":")[0] in text


@pytest.mark.usefixtures("own_schemes")
def test_registering_a_scheme(folder):
    seen = []

    def factory(url):
        seen.append(url)
        return SeriesTransport(find(folder)[0])

    register("My-Own", factory)
    assert "my-own" in schemes()
    assert len(files_of("my-own:anything?x=1")) == len(files_of("MY-OWN://anything")) == 4
    assert seen == ["my-own:anything?x=1", "MY-OWN://anything"]
    for wrong in ("", "x", "a b", "1a", "a:"):
        with pytest.raises(UsageError, match="not a URL scheme"):
            register(wrong, factory)


def test_entry_points(tmp_path, folder):
    """A package that is installed joins by its metadata alone."""
    site = tmp_path / "site"
    source = (
        "from tailrace.storage import find\n"
        "from tailrace.transports import SeriesTransport\n"
        "def make(url):\n"
        "    return SeriesTransport(find(url.removeprefix('other://'))[0])\n"
    )
    package(site, "other_logs", source, "[tailrace.transports]\nother = other_logs:make\n")
    code = (
        "import sys, tailrace; from tailrace.transports import schemes\n"
        f"print(schemes(), len(list(tailrace.open('other://{folder}'))))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(site)},
    )
    assert (
        run.stdout.strip()
        == "['abfs', 'abfss', 'az', 'file', 'gs', 'mariadb', 'memory', 'mysql', 'other', 's3', 's3a']"
        " 42"
    )


@pytest.fixture
def memory(folder):
    held = memory_folder("test-registry")
    for path in sorted(folder.iterdir(), reverse=True):
        held.replace(path.name, path.read_bytes())
    held.replace("binlog.index", b"./binlog.000008\n")
    yield "test-registry"
    forget_memory("test-registry")


def test_memory(memory, folder):
    opened = tailrace.open(f"memory:{memory}")
    bare = tailrace.open(folder)
    assert list(opened) == list(bare)
    assert opened.position == bare.position
    assert [event.file for event in tailrace.open(f"memory:{memory}/binlog.000009")][
        -1
    ] == "binlog.000009"
    middle = Position("binlog.000010", list(bare)[-20].offset or 0)
    assert list(tailrace.open(f"memory:{memory}", start=middle)) == list(
        tailrace.open(folder, start=middle)
    )


def test_memory_that_is_not_there(memory):
    with pytest.raises(StorageError, match="no log of that name in this process"):
        tailrace.open("memory:nowhere")
    with pytest.raises(StorageError, match=r"memory:test-registry/binlog\.1: no log"):
        tailrace.open(f"memory:{memory}/binlog.1")
    with pytest.raises(UsageError, match="needs a name"):
        tailrace.open("memory:")
    memory_folder(memory).replace(
        "relay.000001", memory_folder(memory).read("binlog.000008", 0, 999)
    )
    with pytest.raises(
        UsageError,
        match=r"the source has several logs \(test-registry/binlog, test-registry/relay\)",
    ):
        tailrace.open(f"memory:{memory}")
    memory_folder(memory).remove("binlog.000009")
    memory_folder(memory).remove("relay.000001")
    with pytest.raises(StorageError, match=r"binlog\.000009 is missing"):
        tailrace.open(f"memory:{memory}")
