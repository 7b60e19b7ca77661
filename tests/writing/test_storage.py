"""Outputs, folders, the index, and where a log is said to lie."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tailrace.errors import StorageError, UsageError
from tailrace.log_name import LogName
from tailrace.storage.index import LogIndex
from tailrace.storage.local import LocalFolder
from tailrace.storage.memory import forget_memory, memory_folder
from tailrace.storage.target import first_name, last_name, place

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.storage.store import WritableStore


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> WritableStore:
    if request.param == "disk":
        return LocalFolder(tmp_path / "made" / "here")
    forget_memory("test")
    return memory_folder("test")


def test_a_file_that_is_there(folder: WritableStore) -> None:
    out = folder.create("log.1", b"head")
    with pytest.raises(StorageError, match="another writer"):
        folder.reopen("log.1")
    with pytest.raises(StorageError, match="exists"):
        folder.create("log.1", b"")
    out.close()


def test_what_is_not_there(folder: WritableStore) -> None:
    folder.create("one", b"").close()
    for act in (folder.reopen, folder.remove, folder.size, lambda name: folder.read(name, 0, 1)):
        with pytest.raises(StorageError, match=r"none: [Nn]o such file"):
            act("none")


def test_the_index(folder: WritableStore) -> None:
    folder.create("binlog.000001", b"").close()
    index = LogIndex(folder, "binlog")
    assert index.names == []
    index.add("binlog.000001")
    index.add("binlog.000002")
    assert folder.read("binlog.index", 0, 100) == b"./binlog.000001\n./binlog.000002\n"
    again = LogIndex(folder, "binlog")
    assert again.names == ["binlog.000001", "binlog.000002"]
    again.drop("binlog.000001")
    assert folder.read("binlog.index", 0, 100) == b"./binlog.000002\n"
    assert "binlog.000002" in again
    assert "binlog.000001" not in again
    folder.replace("binlog.index", b"\n/a\xff/binlog.000009\r\n\n")
    odd = LogIndex(folder, "binlog")
    odd.add("binlog.000010")
    assert odd.names == ["binlog.000009", "binlog.000010"]
    text = folder.read("binlog.index", 0, 100)
    assert text == b"/a\xff/binlog.000009\n/a\xff/binlog.000010\n"


def test_a_draft_that_is_another_name_of_a_log(tmp_path: Path) -> None:
    """A writer was killed after it had named its file, and before it took the draft's name away."""
    folder = LocalFolder(tmp_path)
    folder.create("one", b"held").close()
    (tmp_path / "two.new").hardlink_to(tmp_path / "one")
    folder.create("two", b"other").close()
    assert folder.read("one", 0, 9) == b"held"
    assert sorted(folder.names()) == ["one", "two"]


def test_a_refusing_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"file/sub: Not a directory"):
        LocalFolder(tmp_path / "file" / "sub").create("x", b"")


def test_threads_share_memory() -> None:
    forget_memory("shared")
    folder = memory_folder("shared")
    out = folder.create("x", b"")
    seen: list[bool] = []

    def read() -> None:
        for _ in range(300):
            with folder.lock:
                data = bytes(folder.files["x"])
            seen.append(len(data) % 8 == 0)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(300):
        out.write(b"12345678")
    reader.join()
    assert all(seen)
    assert memory_folder("shared") is folder
    forget_memory("shared")
    assert memory_folder("shared") is not folder
    forget_memory("shared")


def test_names() -> None:
    assert LogName.parse("binlog.000009") == LogName.of("binlog", 9, 6)
    assert str(LogName.of("binlog", 9, 6).next) == "binlog.000010"
    assert str(LogName.of("a.b", 99, 2).next) == "a.b.100"
    assert LogName.parse("binlog") is None
    assert LogName.parse("binlog.index") is None


def test_places(tmp_path: Path) -> None:
    assert place(f"file://{tmp_path}/binlog.000003")[1] == "binlog.000003"
    assert place(tmp_path)[1] == ""
    assert place("memory:a/b.000001")[0] is memory_folder("a")
    assert first_name(tmp_path)[1] == LogName.of("binlog", 1)
    assert first_name(tmp_path / "mine")[1] == LogName.of("mine", 1)
    assert first_name(tmp_path / "mine.0007")[1] == LogName.of("mine", 7, 4)
    with pytest.raises(UsageError, match="not its index"):
        first_name(tmp_path / "mine.index")
    with pytest.raises(StorageError, match="no number"):
        last_name(tmp_path / "mine")
    with pytest.raises(StorageError):
        place("https://host/binlog.000001")
    forget_memory("a")
