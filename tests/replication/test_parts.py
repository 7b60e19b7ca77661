"""The receiver's small parts: what is kept, when it is synced, what is remembered, the lock."""

import json
import os

import pytest

from tailrace.errors import StorageError, UsageError
from tailrace.replication.copy import folder as copy_folder
from tailrace.replication.copy.folder import LOCK_NAME, open_folder
from tailrace.replication.copy.scan import Mark
from tailrace.replication.copy.writer import MOST_BYTES, SyncPolicy
from tailrace.replication.retain import Retention
from tailrace.replication.state import STATE_NAME, ReceiverState
from tailrace.storage.index import LogIndex
from tailrace.storage.memory import MemoryFolder
from tests.cases import each_case


@each_case(
    ("text", "seconds", "size"),
    [
        ("30d", 30 * 86400, None),
        ("12h", 43200, None),
        ("90m", 5400, None),
        ("2w", 14 * 86400, None),
        ("500GB", None, 500 * 10**9),
        ("1.5 TB", None, 1500 * 10**9),
        ("64MiB", None, 64 << 20),
        ("1000B", None, 1000),
        ("10 kb", None, 10_000),
    ],
)
def test_retention(text, seconds, size):
    assert Retention.parse(text) == Retention(seconds, size)


@each_case("text", ["", "30", "d", "0d", "-1d", "30D", "1EB", "5 days", "1e3B", "٣d"])
def test_what_is_no_retention(text):
    with pytest.raises(UsageError, match="retain"):
        Retention.parse(text)


def numbered(sizes, second=0):
    """Files of these sizes, each begun a day after the one before, and their index."""
    folder = MemoryFolder("retain")
    index = LogIndex(folder, "binlog")
    for number, size in enumerate(sizes, 1):
        name = f"binlog.{number:06}"
        begun = second + number * 86400
        folder.files[name] = bytearray(b"\xfebin" + begun.to_bytes(4, "little")).ljust(size, b"\0")
        index.add(name)
    return folder, index


@each_case(
    ("limit", "left"),
    [(1, 1), (299, 1), (300, 1), (400, 2), (699, 2), (800, 3), (999, 3), (1000, 4)],
)
def test_retain_by_size(limit, left):
    folder, index = numbered([200, 400, 100, 300])
    gone = Retention(size=limit).apply(index, folder)
    assert len(index.names) == left
    assert gone + index.names == [f"binlog.{number:06}" for number in (1, 2, 3, 4)]
    assert set(folder.files) == {*index.names, "binlog.index"}


def test_retain_by_age(monkeypatch):
    folder, index = numbered([50, 50, 50, 50])
    monkeypatch.setattr("time.time", lambda: 5.5 * 86400)
    # The second was begun, and so the first closed, 3.5 days ago.
    assert Retention(seconds=3.6 * 86400).apply(index, folder) == []
    assert Retention(seconds=3.4 * 86400).apply(index, folder) == ["binlog.000001"]
    assert Retention(seconds=1).apply(index, folder) == ["binlog.000002", "binlog.000003"]
    assert index.names == ["binlog.000004"]
    assert Retention(seconds=1).apply(index, folder) == []


def test_sync_policy():
    group = SyncPolicy.of("group")
    assert group.is_due(lambda: False, 1, 0.0)
    assert not group.is_due(lambda: True, 1, 0.0)
    assert group.is_due(lambda: True, MOST_BYTES, 0.0)
    assert group.is_due(lambda: True, 1, 1.0)
    timed = SyncPolicy.of("2.5")
    assert not timed.is_due(lambda: False, MOST_BYTES, 2.4)
    assert timed.is_due(lambda: True, 1, 2.5)
    for wrong in ("never", "0", "-1", "nan", "inf", "1e9"):
        with pytest.raises(UsageError, match="sync"):
            SyncPolicy.of(wrong)


def test_state():
    folder = MemoryFolder("state")
    assert ReceiverState.load(folder) is None
    state = ReceiverState(
        server_id=7, source_uuid="u", flavour="mysql", base="b", mark=Mark("b.000001", 9, 4, 16)
    )
    state.save(folder)
    assert ReceiverState.load(folder) == state
    whole = json.loads(bytes(folder.files[STATE_NAME]))
    for damage, said in (
        ("[" * 100_000, "it is not JSON"),
        ("{", "it is not JSON"),
        ('{"version": 1, "uuid": 5}', "uuid is 5"),
        ({"base": "../x"}, "base is '../x'"),
        ({"mark": {"file": 1}}, "mark is"),
        ({"mark": {"file": "b"}}, ""),
        ({"version": 2}, ""),
        ({"server_id": "7"}, ""),
        ({"flavour": "oracle"}, ""),
        ({"uuid": None}, ""),
    ):
        text = damage if isinstance(damage, str) else json.dumps(whole | damage)
        other = MemoryFolder("damaged")
        other.files[STATE_NAME] = bytearray(text.encode())
        with pytest.raises(StorageError, match=f"{STATE_NAME}: {said}"):
            ReceiverState.load(other)


def test_lock(tmp_path):
    for into in (tmp_path / "new" / "copy", "memory:locked"):
        unlock = open_folder(into).lock()
        with pytest.raises(StorageError, match="another receiver"):
            open_folder(into).lock()
        unlock()
        open_folder(into).lock()()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_removes_what_it_made_and_nothing_else(tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    open_folder(copy).lock()()
    assert list(copy.iterdir()) == []
    unlock = open_folder(copy).lock()
    (copy / "binlog.000001").touch()
    unlock()
    assert {each.name for each in copy.iterdir()} == {LOCK_NAME, "binlog.000001"}


@each_case(("module", "name"), [(os, "open"), (copy_folder, "flock")])
def test_a_lock_that_is_removed_as_it_is_taken_is_taken_anew(tmp_path, monkeypatch, module, name):
    """Another that received nothing ends between our mkdir and our open, or open and flock."""
    copy, real, ended = tmp_path / "copy", getattr(module, name), []
    unlock = open_folder(copy).lock()

    def meanwhile(*given):
        if not ended:
            ended.append(unlock())
        return real(*given)

    monkeypatch.setattr(module, name, meanwhile)
    held = open_folder(copy).lock()
    assert (copy / LOCK_NAME).exists()
    with pytest.raises(StorageError, match="another receiver"):
        open_folder(copy).lock()
    held()
    assert not copy.exists()


def test_a_lock_where_no_folder_can_be(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for folder in ("copy", "."):
        with pytest.raises(StorageError, match=f"{LOCK_NAME}: No such file or directory"):
            open_folder(folder).lock()
