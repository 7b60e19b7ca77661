"""WL#10956: what no other test of the storage shows."""

import ast
import os
import re
from pathlib import Path

import pytest

import tailrace
from tailrace import storage
from tailrace.errors import StorageError, TruncatedEvent, UsageError
from tailrace.storage import BinlogCache, EventData, Events, LogFile, find, keyring
from tailrace.storage.binlog_file import BinlogFile
from tailrace.storage.encryption.folder import StoredInput
from tailrace.storage.local import LocalFolder, LocalStore
from tailrace.storage.memory import MemoryFolder, forget_memory
from tailrace.storage.pipe import Pipe
from tailrace.storage.streams.base import RandomInput
from tailrace.storage.streams.file import FileInput
from tests.cases import each_case
from tests.recorded import CORPUS, ROOT


def test_the_public_names_and_the_page_about_them():
    """Interface specification: each of the worklog's classes is in an example of the guide."""
    names = storage.__all__
    assert list(names) == sorted(set(names))
    assert all(getattr(storage, name).__doc__ for name in names)
    page = (ROOT / "docs" / "guide" / "streams.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    imported = {
        alias.name
        for example in examples
        for node in ast.walk(ast.parse(example))
        if isinstance(node, ast.ImportFrom) and node.module == "tailrace.storage"
        for alias in node.names
    }
    assert {"BinlogFile", "BinlogCache", "EventData", "Events", "Layer", "stacked"} <= imported
    assert imported <= set(names)


def test_sync_hands_everything_to_the_disk_and_flush_to_the_system(tmp_path, monkeypatch):
    path = tmp_path / "binlog.000001"
    file = BinlogFile(LocalFolder(tmp_path), path.name)
    file.create(b"head")
    synced = []
    fsync = os.fsync

    def noting(handle):
        fsync(handle)
        synced.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", noting)
    file.write(b"one")
    assert (path.read_bytes(), file.position) == (b"head", 7)
    file.flush()
    assert (path.read_bytes(), synced) == (b"headone", [])
    file.write(b"two")
    file.sync()
    assert synced == [b"headonetwo"]
    file.close()


def disk(_):
    return str(CORPUS / "mysql-9.7.interleaved" / "binlog.000001")


def memory(_):
    forget_memory("inputs")
    with tailrace.create("memory:inputs", flavour="mysql", server_id=1):
        pass
    return "memory:inputs"


def stored(name):
    folder = CORPUS / name
    keys = next(path for path in folder.iterdir() if path.name in {"keys", "keyring"})
    return lambda _: LogFile.at(folder / "binlog.000002", keyring.open(keys))


def pipe(tmp_path):
    return LogFile(Pipe(FileInput(disk(tmp_path)), "pipe"), "pipe", 0)


def in_store(tmp_path):
    """As a `WritableStore` reads its own files."""

    class Stored(LocalStore):
        def open(self, name):
            return StoredInput(LocalFolder(self.folder), name)

    path = Path(disk(tmp_path))
    return LogFile.there(Stored(path.parent), path.name)


SOURCES = {
    "a file": disk,
    "in memory": memory,
    "MySQL's encryption": stored("mysql-9.7.encrypted"),
    "MariaDB's encryption": stored("mariadb-11.8.encrypted"),
    "a pipe": pipe,
    "in a writable store": in_store,
}


@each_case("source", SOURCES)
def test_an_input_file_says_whether_it_is_open_and_seeks_as_all_do(tmp_path, source):
    """Basic_binlog_ifile::opened; Basic_seekable_istream::seek to where nothing is; a closed one."""
    made = SOURCES[source](tmp_path)
    file = find(made)[0].files[0] if isinstance(made, str) else made
    stream = file.open()
    assert stream.is_open
    assert stream.read(4) == b"\xfebin"
    with pytest.raises(UsageError, match="there is no offset -1: the first byte is at 0"):
        stream.seek(-1)
    for count in (-1, None):
        with pytest.raises(UsageError, match="read takes a number of bytes"):
            stream.read(count)
    assert stream.tell() == 4
    assert stream.read(1)
    if isinstance(stream, RandomInput):
        assert stream.seek(10**30) == 10**30
        assert (stream.read(4), stream.readinto(bytearray(4))) == (b"", 0)
    stream.close()
    stream.close()
    assert not stream.is_open
    for call in (
        lambda: stream.read(1),
        lambda: stream.readinto(bytearray(1)),
        lambda: stream.seek(0),
        stream.size,
    ):
        with pytest.raises(StorageError, match="it was closed"):
            call()


@each_case("read", [tailrace.open, tailrace.changes])
def test_a_file_of_only_the_magic_is_truncated(tmp_path, read):
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"\xfebin")
    with pytest.raises(TruncatedEvent, match="nothing but its magic") as caught:
        list(read(path))
    assert caught.value.offset == 4


SHOP = CORPUS / "mysql-9.7.interleaved" / "binlog.000001"
WRONG = {
    **{
        f"layers={wrong!r}": (lambda wrong=wrong: find(SHOP, layers=wrong), "layers are a Layer")
        for wrong in (5, b"zstd", [None], ["zstd", 5])
    },
    "open, layers": (lambda: tailrace.open(SHOP, layers=5), "layers are a Layer"),
    "keyring": (lambda: tailrace.open(SHOP, keyring=5), "a keyring is a path"),
    **{
        f"start={wrong!r}": (lambda wrong=wrong: EventData(SHOP, wrong), "there is no offset")
        for wrong in ("4", -1, 1.5)
    },
    "format_description": (
        lambda: Events(SHOP, 158, format_description="x"),
        "format_description: 'x'",
    ),
    **{
        f"allocate gives {type(wrong).__name__}": (
            lambda wrong=wrong: list(EventData(SHOP, allocate=lambda _: wrong)),
            "allocate returned a .* no memory in one piece",
        )
        for wrong in (None, "text", memoryview(bytes(1 << 20))[::2])
    },
    "event.write": (
        lambda: next(iter(Events(SHOP))).write("x"),
        "a str is no output",
    ),
    "a file's folder": (
        lambda: BinlogFile("folder", "binlog.000001"),
        "BinlogFile needs a WritableStore",
    ),
    "a file's name": (
        lambda: BinlogFile(MemoryFolder("x"), 5),
        "name is text, not 5",
    ),
    "a cache's limit": (lambda: BinlogCache(-1), "limit: -1"),
    "open": (lambda: tailrace.open(object()), "a log is a path"),
    "create to -": (
        lambda: tailrace.create("-", flavour="mysql", server_id=1),
        "not to standard output",
    ),
}


@each_case("name", WRONG)
def test_wrong_arguments_are_our_error(name, tmp_path, monkeypatch):
    """WL#10956, all of its classes: a wrong argument is a UsageError where it is given."""
    monkeypatch.chdir(tmp_path)
    call, told = WRONG[name]
    with pytest.raises(UsageError, match=told):
        call()
    assert list(tmp_path.iterdir()) == []
