"""Outputs, folders, the index, and where a log is said to lie."""

import pytest

from tailrace.errors import StorageError, UsageError
from tailrace.log_name import LogName
from tailrace.storage.index import LogIndex
from tailrace.storage.local import LocalFolder
from tailrace.storage.memory import forget_memory, memory_folder
from tailrace.storage.target import first_name, last_name, place


@pytest.fixture(params=["disk", "memory"])
def folder(request, tmp_path):
    if request.param == "disk":
        return LocalFolder(tmp_path / "made" / "here")
    forget_memory("test")
    return memory_folder("test")


def test_the_index(folder):
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


def test_a_draft_that_is_another_name_of_a_log(tmp_path):
    """A writer was killed after it had named its file, and before it took the draft's name away."""
    folder = LocalFolder(tmp_path)
    folder.create("one", b"held").close()
    (tmp_path / "two.new").hardlink_to(tmp_path / "one")
    folder.create("two", b"other").close()
    assert folder.read("one", 0, 9) == b"held"
    assert sorted(folder.names()) == ["one", "two"]


def test_a_refusing_disk(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"file/sub: Not a directory"):
        LocalFolder(tmp_path / "file" / "sub").create("x", b"")


def test_places(tmp_path):
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
