"""Finding logs, and reading their bytes."""

import tracemalloc
from pathlib import Path

import pytest

from tailrace.constants import EventType
from tailrace.errors import (
    KeyMissing,
    StorageError,
    TruncatedEvent,
    UsageError,
)
from tailrace.log import open as open_log
from tailrace.log_name import base_and_number
from tailrace.storage import EventReader, LogFile, files, find, find_all
from tailrace.storage.files import find_one
from tailrace.storage.local import LocalStore
from tailrace.storage.streams import file as streams
from tailrace.writing import create
from tests.cases import each_case
from tests.events.made import log, raw_event, raw_format, write
from tests.handlers.made import BEGIN, DDL, XID

E = EventType


def names(source):
    return {one.name: [file.name for file in one.files] for one in find(source)}


def test_a_file_is_a_series(tmp_path):
    path = log(tmp_path, 3)
    (series,) = find(path)
    assert series.name == "binlog"
    (file,) = series.files
    assert file == LogFile(LocalStore(tmp_path), "binlog.000003", path.stat().st_size)
    assert (file.base, file.number) == ("binlog", 3)
    assert file.path == str(path)
    assert base_and_number("snapshot") == ("snapshot", None)


def test_a_number_that_no_server_gives_is_part_of_the_name(tmp_path):
    """A new log written next to such a file is not of the same series, and both can be read."""
    path = log(tmp_path, 1)
    path.rename(tmp_path / "binlog.2147483648")
    create(tmp_path / "binlog.000001", flavour="mysql", server_id=7).close()
    assert [*names(tmp_path).values()] == [["binlog.000001"], ["binlog.2147483648"]]


def test_a_folder_is_ordered_by_number(tmp_path):
    folder = tmp_path / "a shop"
    for number in (1_000_000, 999_999, 1_000_001):
        log(folder, number)
    (folder / "notes.txt").write_text("no log")
    (folder / "binlog.000001.idx").write_bytes(b"no log either")
    (folder / "empty.000001").write_bytes(b"")
    assert names(folder) == {"a shop": ["binlog.999999", "binlog.1000000", "binlog.1000001"]}
    assert names(f"file://{tmp_path}/a%20shop") == names(folder)
    assert names(folder / "." / "..") == names(folder)


def test_folders_in_a_folder_are_named_by_it(tmp_path):
    log(tmp_path / "mysql", 1)
    log(tmp_path / "mysql", 2)
    log(tmp_path / "mariadb", 7)
    (tmp_path / "empty").mkdir()
    assert names(tmp_path) == {
        "mariadb": ["binlog.000007"],
        "mysql": ["binlog.000001", "binlog.000002"],
    }


def test_several_base_names_are_several_series(tmp_path):
    folder = tmp_path / "data"
    log(folder, 4)
    log(folder, 9, base="relay-bin")
    assert names(folder) == {
        "data/binlog": ["binlog.000004"],
        "data/relay-bin": ["relay-bin.000009"],
    }


def test_one_series_that_can_be_read_again(tmp_path):
    path = log(tmp_path, 1)
    assert find_one(path, why="") == find(path)[0]
    log(tmp_path, 1, base="relay")
    with pytest.raises(UsageError, match=r"several logs .*binlog, .*relay\): one, please"):
        find_one(tmp_path, why="one, please")


def test_an_index_lists_files_beside_it_and_elsewhere(tmp_path):
    far, near = tmp_path / "far", tmp_path / "near"
    first, second = log(far, 1), log(far, 2)
    log(near, 3)
    index = near / "binlog.index"
    index.write_text(f"/gone/binlog.000000\n{first}\n../far/{second.name}\n./binlog.000003\n\n")
    expected = ["binlog.000001", "binlog.000002", "binlog.000003"]
    assert names(near) == {"near": expected}
    assert names(index) == {"binlog": expected}
    assert Path(find(near)[0].files[0].path).parent.resolve() == far


def test_a_file_that_an_index_lists_with_a_later_one_is_whole(tmp_path, monkeypatch):
    """The index is read after the listing: its server wrote more in between, and rotated."""
    for name in ("binlog.000001", "binlog.000002"):
        write(tmp_path / name, raw_format())
    (tmp_path / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n")
    real = files.read_index

    def read_index(store, name):
        write(tmp_path / "binlog.000002", raw_format(), raw_event(EventType.STOP, b""))
        write(tmp_path / "binlog.000003", raw_format())
        with (tmp_path / "binlog.index").open("a") as index:
            index.write("./binlog.000003\n")
        return real(store, name)

    monkeypatch.setattr(files, "read_index", read_index)
    (series,) = find(tmp_path)
    assert [each.number for each in series.files] == [1, 2, 3]
    assert all(each.size == Path(each.path).stat().st_size for each in series.files)


def test_what_an_index_lists_must_be_there(tmp_path):
    log(tmp_path, 2)
    index = tmp_path / "binlog.index"
    index.write_text("./binlog.000001\n./binlog.000002\n./binlog.000003\n")
    with pytest.raises(StorageError, match=r"lists \./binlog\.000003, which is missing after"):
        find(tmp_path)
    index.write_text("./binlog.000007\n")
    with pytest.raises(StorageError, match="none of the logs"):
        find(index)


def test_a_hole_is_an_error_that_names_the_missing_file(tmp_path):
    for number in (1, 2, 4):
        log(tmp_path, number)
    with pytest.raises(StorageError, match=r"binlog\.000003 is missing between binlog\.000002 and"):
        find(tmp_path)
    with pytest.raises(StorageError, match=r"binlog\.000003 is missing"):
        find_all([tmp_path / "binlog.000002", tmp_path / "binlog.000004"])


def test_the_same_number_twice(tmp_path):
    log(tmp_path, 1)
    write(tmp_path / "binlog.01", raw_format())
    with pytest.raises(StorageError, match="the same number"):
        find(tmp_path)


def test_a_file_without_a_number_among_others(tmp_path):
    log(tmp_path, 1)
    write(tmp_path / "binlog", raw_format())
    with pytest.raises(StorageError, match=r"binlog: its name has no number for its order"):
        find(tmp_path)
    assert names(tmp_path / "binlog") == {"binlog": ["binlog"]}
    with pytest.raises(StorageError, match="No such file"):
        LogFile.at(tmp_path / "gone")


def test_find_all_joins_files_of_one_folder(tmp_path):
    one = [log(tmp_path / "a", number) for number in (1, 2)]
    other = log(tmp_path / "b", 1)
    found = find_all([one[1], other, one[0], one[1], tmp_path / "b"])
    assert [[file.path for file in series.files] for series in found] == [
        [str(path) for path in one],
        [str(other)],
    ]


@each_case(
    ("source", "words"),
    [
        ("nowhere", "no such file or folder"),
        ("mysql://localhost", "URLs name no files"),
        ("ftp://bucket/logs", "URLs name no files"),
        ("file://host/logs", "names no host"),
    ],
)
def test_what_is_not_found(source, words):
    with pytest.raises(StorageError, match=words):
        find(source)


def test_a_log_that_may_not_be_read(tmp_path, monkeypatch):
    log(tmp_path, 1)
    (tmp_path / "private.pem").write_text("key")
    open_file = streams.FileIO

    def refuse(path):  # root may read everything
        if Path(path).name in {"binlog.000002", "private.pem"}:
            raise PermissionError(13, "Permission denied")
        return open_file(path)

    monkeypatch.setattr(streams, "FileIO", refuse)
    assert names(tmp_path)[tmp_path.name] == ["binlog.000001"]
    log(tmp_path, 2)
    with pytest.raises(StorageError, match=r"binlog\.000002: Permission denied"):
        find(tmp_path)


def test_events_and_offsets(tmp_path):
    large = raw_event(E.ROWS_QUERY, b"\0" + b"x" * (3 << 20))
    events = [raw_format(), BEGIN, large, XID, *[BEGIN, XID] * 20_000]
    path = write(tmp_path / "binlog.000001", *events)
    offset = 4
    for raw, (at, got) in zip(events, EventReader(path), strict=True):
        assert (at, got) == (offset, raw)
        offset += len(raw)


def test_an_encrypted_log_of_mariadb(tmp_path):
    body = b"\1\7\0\0\0" + bytes(12)
    path = write(tmp_path / "b.1", raw_format(), raw_event(E.START_ENCRYPTION, body), b"?" * 99)
    with pytest.raises(KeyMissing, match="encrypted with the key 1, version 7"):
        list(open_log(path))
    streamed = raw_event(E.START_ENCRYPTION, body, flags=0x80)
    clear = write(tmp_path / "b.2", raw_format(), streamed, DDL)
    assert len(list(open_log(clear))) == 3


def test_a_length_past_the_end_of_the_file_allocates_nothing(tmp_path):
    damaged = BEGIN[:9] + (1 << 30).to_bytes(4, "little") + BEGIN[13:]
    path = write(tmp_path / "b.1", raw_format(), damaged)
    tracemalloc.start()
    with pytest.raises(TruncatedEvent, match="has 1073741824 bytes, and the file ends after"):
        list(EventReader(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_reading_holds_a_piece_not_the_file(tmp_path):
    block = raw_event(E.ROWS_QUERY, b"\0" + bytes(8000)) * 100
    path = write(tmp_path / "b.1", raw_format(), *[block] * 40)
    tracemalloc.start()
    count = sum(1 for _ in open_log(path).transport.read(None, follow=False))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4001
    assert peak < 6 << 20


def test_an_index_that_its_server_did_not_put_in_place(tmp_path):
    """A server was killed after it deleted the index, before it renamed the new one."""
    first, near = log(tmp_path / "far", 1), tmp_path / "near"
    log(near, 2)
    (near / "binlog.index_crash_safe").write_text(f"{first}\n./binlog.000002\n")
    assert names(near) == {"near": ["binlog.000001", "binlog.000002"]}
    assert names(near / "binlog.index") == {"binlog": ["binlog.000001", "binlog.000002"]}


def test_an_index_whose_logs_were_all_purged_since_it_was_read(tmp_path, monkeypatch):
    """A server purged all that it listed a moment before: it is read again."""
    index = tmp_path / "binlog.index"
    index.write_text("./binlog.000001\n")

    def later(_seconds):
        log(tmp_path, 2)
        index.write_text("./binlog.000002\n")

    monkeypatch.setattr("tailrace.storage.files.sleep", later)
    assert names(index) == {"binlog": ["binlog.000002"]}
