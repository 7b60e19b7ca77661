"""Finding logs, reading their bytes, and the log as an iterable."""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from tailrace.constants import EventType
from tailrace.errors import (
    BadMagic,
    BoundaryError,
    ChecksumMismatch,
    EventDecodeError,
    LogError,
    StorageError,
    TruncatedEvent,
    UnknownEvent,
    UsageError,
)
from tailrace.events import FormatDescriptionEvent, TransactionPayloadEvent, UnknownIgnorableEvent
from tailrace.log import open as open_log
from tailrace.position import Position
from tailrace.storage import EventReader, LogFile, find, find_all
from tests.events.made import raw_event, raw_format, table_map_body
from tests.events.test_families import GTID, query
from tests.events.test_payload import compress, payload_body
from tests.events.test_payload import INNER, PLAIN

E = EventType
MAGIC = b"\xfebin"
CORPUS = Path(__file__).parent / "corpus"
BEGIN = raw_event(E.QUERY, query(b"BEGIN"))
XID = raw_event(E.XID, bytes(8))
DDL = raw_event(E.QUERY, query(b"CREATE TABLE t (id INT)"))


def write(path: Path, *events: bytes, magic: bytes = MAGIC) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(magic + b"".join(events))
    return path


def log(folder: Path, number: int, *events: bytes, base: str = "binlog") -> Path:
    return write(folder / f"{base}.{number:06}", raw_format(), *events)


def names(source: Path | str) -> dict[str, list[str]]:
    return {one.name: [file.name for file in one.files] for one in find(source)}


# --- finding ---------------------------------------------------------------------------------------


def test_a_file_is_a_series(tmp_path: Path) -> None:
    path = log(tmp_path, 3)
    (series,) = find(path)
    assert series.name == "binlog"
    (file,) = series.files
    assert file == LogFile(str(path), "binlog.000003", path.stat().st_size)
    assert (file.base, file.number) == ("binlog", 3)
    assert LogFile("/x/snapshot", "snapshot", 0).base == "snapshot"
    assert LogFile("/x/snapshot", "snapshot", 0).number is None


def test_a_folder_is_ordered_by_number(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    for number in (1_000_000, 999_999, 1_000_001):
        log(folder, number)
    (folder / "notes.txt").write_text("no log")
    (folder / "binlog.000001.idx").write_bytes(b"no log either")
    (folder / "empty.000001").write_bytes(b"")
    assert names(folder) == {"shop": ["binlog.999999", "binlog.1000000", "binlog.1000001"]}
    assert names(f"file://{folder}") == names(folder)
    assert names(f"file://localhost{folder}") == names(folder)
    assert names(folder / "." / "..") == {"shop": names(folder)["shop"]}


def test_a_url_is_unquoted(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    log(folder, 1)
    assert names(f"file://{tmp_path}/a%20b") == {"a b": ["binlog.000001"]}


def test_folders_in_a_folder_are_named_by_it(tmp_path: Path) -> None:
    log(tmp_path / "mysql", 1)
    log(tmp_path / "mysql", 2)
    log(tmp_path / "mariadb", 7)
    (tmp_path / "empty").mkdir()
    assert names(tmp_path) == {
        "mariadb": ["binlog.000007"],
        "mysql": ["binlog.000001", "binlog.000002"],
    }


def test_several_base_names_are_several_series(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    log(folder, 4)
    log(folder, 9, base="relay-bin")
    assert names(folder) == {"data/binlog": ["binlog.000004"], "data/relay-bin": ["relay-bin.000009"]}


def test_an_index_lists_files_beside_it_and_elsewhere(tmp_path: Path) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    first, second = log(far, 1), log(far, 2)
    log(near, 3)
    index = near / "binlog.index"
    index.write_text(f"/gone/binlog.000000\n{first}\n../far/{second.name}\n./binlog.000003\n\n")
    expected = ["binlog.000001", "binlog.000002", "binlog.000003"]
    assert names(near) == {"near": expected}
    assert names(index) == {"binlog": expected}
    assert Path(find(near)[0].files[0].path).parent.resolve() == far


def test_what_an_index_lists_must_be_there(tmp_path: Path) -> None:
    log(tmp_path, 2)
    index = tmp_path / "binlog.index"
    index.write_text("./binlog.000001\n./binlog.000002\n./binlog.000003\n")
    with pytest.raises(StorageError, match=r"lists \./binlog\.000003, which is missing after"):
        find(tmp_path)
    index.write_text("./binlog.000007\n")
    with pytest.raises(StorageError, match="none of the logs"):
        find(index)


def test_a_hole_is_an_error_that_names_the_missing_file(tmp_path: Path) -> None:
    for number in (1, 2, 4):
        log(tmp_path, number)
    with pytest.raises(StorageError, match=r"binlog\.000003 is missing between binlog\.000002 and"):
        find(tmp_path)
    with pytest.raises(StorageError, match=r"binlog\.000003 is missing"):
        find_all([tmp_path / "binlog.000002", tmp_path / "binlog.000004"])


def test_the_same_number_twice(tmp_path: Path) -> None:
    log(tmp_path, 1)
    write(tmp_path / "binlog.01", raw_format())
    with pytest.raises(StorageError, match="the same number"):
        find(tmp_path)


def test_find_all_joins_files_of_one_folder(tmp_path: Path) -> None:
    one = [log(tmp_path / "a", number) for number in (1, 2)]
    other = log(tmp_path / "b", 1)
    found = find_all([one[1], other, one[0], one[1], tmp_path / "b"])
    assert [[file.path for file in series.files] for series in found] == [
        [str(path) for path in one],
        [str(other)],
    ]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere", "no such file or folder"),
        ("mysql://localhost", "read from files and folders"),
        ("s3://bucket/logs", "read from files and folders"),
        ("file://host/logs", "names no host"),
    ],
)
def test_what_is_not_found(source: str, words: str) -> None:
    with pytest.raises(StorageError, match=words):
        find(source)


def test_a_folder_without_logs(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file.000001").write_bytes(b"text")
    with pytest.raises(StorageError, match="no log in this folder, nor in its sub-folders"):
        find(tmp_path)


def test_a_log_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(tmp_path, 1)
    open_path = Path.open

    def refuse(path: Path, *arguments: str, **more: str) -> object:  # root may read everything
        if path.name in {"binlog.000002", "private.pem"}:
            raise PermissionError(13, "Permission denied")
        return open_path(path, *arguments, **more)

    monkeypatch.setattr(Path, "open", refuse)
    (tmp_path / "private.pem").write_text("key")
    assert names(tmp_path)[tmp_path.name] == ["binlog.000001"]
    log(tmp_path, 2)
    with pytest.raises(StorageError, match="binlog.000002: Permission denied"):
        find(tmp_path)


# --- bytes -----------------------------------------------------------------------------------------


def test_events_and_offsets(tmp_path: Path) -> None:
    large = raw_event(E.ROWS_QUERY, b"\0" + b"x" * (3 << 20))
    events = [raw_format(), BEGIN, large, XID, *[BEGIN, XID] * 20_000]
    path = write(tmp_path / "binlog.000001", *events)
    offset = 4
    for raw, (at, got) in zip(events, EventReader(path), strict=True):
        assert (at, got) == (offset, raw)
        offset += len(raw)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"\xfe", "not a binary log: it begins with FE,"),
        (b"PAR1 and so on", "not a binary log: it begins with 50 41 52 31"),
        (b"\xfdbin\x01\x01\x05key_1\x02" + bytes(500), "is encrypted with the key key_1; "),
        (b"\xfdbin\x01", "is encrypted; "),
        (b"\xfdbin\x01\x01\x05\x00\xff", "is encrypted; "),
    ],
)
def test_what_is_no_log(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(content)
    for read in (lambda: list(EventReader(path)), lambda: open_log(path)):
        with pytest.raises(BadMagic, match=words) as caught:
            read()
        assert caught.value.file == str(path)
        assert caught.value.offset == 0
        assert "\n" not in str(caught.value)


def test_an_encrypted_log_of_mariadb(tmp_path: Path) -> None:
    body = b"\1\7\0\0\0" + bytes(12)
    path = write(tmp_path / "b.1", raw_format(), raw_event(E.START_ENCRYPTION, body), b"?" * 99)
    with pytest.raises(BadMagic, match="encrypted with key 1, version 7"):
        list(open_log(path))
    streamed = raw_event(E.START_ENCRYPTION, body, flags=0x80)
    clear = write(tmp_path / "b.2", raw_format(), streamed, DDL)
    assert len(list(open_log(clear))) == 3


@pytest.mark.parametrize("in_use", [False, True])
def test_each_truncation(tmp_path: Path, in_use: bool) -> None:
    events = [raw_format(flags=int(in_use)), BEGIN, XID]
    edges = [4]
    for raw in events:
        edges.append(edges[-1] + len(raw))
    whole = MAGIC + b"".join(events)
    path = tmp_path / "binlog.000001"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        reader = EventReader(path)
        if size < 4:
            with pytest.raises(BadMagic):
                list(reader)
        elif size == 4 or (size not in edges and not (in_use and size >= edges[0] + 19)):
            with pytest.raises(TruncatedEvent) as caught:
                list(reader)
            assert caught.value.offset == max(edge for edge in edges if edge <= size)
        elif size in edges:
            assert len(list(reader)) == edges.index(size)
            assert reader.torn_tail_offset is None
        else:
            seen = len(list(reader))
            assert reader.torn_tail_offset == edges[seen]
            assert edges[seen] < size < edges[seen + 1]


@pytest.mark.parametrize("length", [0, 18, (1 << 30) + 1, 0xFFFFFFFF])
def test_impossible_lengths(tmp_path: Path, length: int) -> None:
    damaged = BEGIN[:9] + length.to_bytes(4, "little") + BEGIN[13:]
    path = write(tmp_path / "b.1", raw_format(flags=1), damaged, bytes(5000))
    with pytest.raises(TruncatedEvent, match=rf"b\.1 at \d+ \(QUERY\): an event has 19 to .*not {length}"):
        list(EventReader(path))


def test_a_length_past_the_end_of_the_file_allocates_nothing(tmp_path: Path) -> None:
    damaged = BEGIN[:9] + (1 << 30).to_bytes(4, "little") + BEGIN[13:]
    path = write(tmp_path / "b.1", raw_format(), damaged)
    tracemalloc.start()
    with pytest.raises(TruncatedEvent, match="has 1073741824 bytes, and the file ends after"):
        list(EventReader(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_reading_holds_a_piece_not_the_file(tmp_path: Path) -> None:
    block = raw_event(E.ROWS_QUERY, b"\0" + bytes(8000)) * 100
    path = write(tmp_path / "b.1", raw_format(), *[block] * 40)
    tracemalloc.start()
    count = sum(1 for _ in open_log(path)._outer_events())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4001
    assert peak < 6 << 20


# --- the log ---------------------------------------------------------------------------------------


def test_a_log_over_several_files(tmp_path: Path) -> None:
    rotate = raw_event(E.ROTATE, bytes([4, *bytes(7)]) + b"binlog.000002")
    log(tmp_path, 1, BEGIN, XID, rotate)
    log(tmp_path, 2, DDL)
    with open_log(tmp_path) as opened:
        assert [event.name for event in opened] == [
            *["FORMAT_DESCRIPTION", "QUERY", "XID", "ROTATE"],
            *["FORMAT_DESCRIPTION", "QUERY"],
        ]
        assert [event.file for event in opened][3:5] == ["binlog.000001", "binlog.000002"]
        assert opened.created == 1_700_000_000
        assert opened.format.server_version == "9.7.4"
        assert (opened.incomplete, opened.ignored, opened.torn_tail) == (False, 0, None)
        kinds = [(one.kind, len(one.events)) for one in opened.transactions()]
        assert kinds == [("commit", 2), ("ddl", 1)]


def test_the_position_moves_after_delivery_and_only_to_a_transactions_end(tmp_path: Path) -> None:
    path = log(tmp_path, 1, BEGIN, XID, DDL, BEGIN)
    opened = open_log(path)
    start = Position("binlog.000001", 4)
    assert opened.position == start
    seen = []
    ends = [event.end_offset for event in opened]
    for _ in opened:
        seen.append(opened.position.offset)
    head, _, xid, ddl, _ = ends
    assert seen == [4, head, head, xid, ddl]
    assert opened.position == Position("binlog.000001", ddl or 0)
    assert opened.incomplete
    positions = []
    for transaction in opened.transactions():
        positions.append(opened.position.offset)
        assert transaction.end is not None
    assert positions == [head, xid, ddl]
    assert [one.complete for one in opened.transactions()] == [True, True, False]
    assert opened.position == Position("binlog.000001", ddl or 0)


def test_payloads_are_opened(tmp_path: Path) -> None:
    gtid = raw_event(E.GTID, GTID)
    payload = raw_event(E.TRANSACTION_PAYLOAD, payload_body(compress(PLAIN)))
    path = log(tmp_path, 1, gtid, payload)
    opened = open_log(path)
    names_ = [event.name for event in opened]
    assert names_[2:] == ["TRANSACTION_PAYLOAD", "QUERY", "TABLE_MAP", "WRITE_ROWS", "XID"]
    assert len(names_[3:]) == len(INNER)
    seen = {event.name: opened.position.offset for event in opened}
    assert len(set(seen.values())) == 2  # it moves over the payload in one step
    assert opened.position.offset == path.stat().st_size
    closed = list(open_log(path, expand_payloads=False))
    assert isinstance(closed[-1], TransactionPayloadEvent)
    (transaction,) = opened.transactions()
    assert len(transaction.events) == 2
    assert len(list(transaction.all_events())) == 6


def test_ignored_events_are_counted(tmp_path: Path) -> None:
    unknown = raw_event(99, b"x", flags=0x80)
    inside = raw_event(E.TRANSACTION_PAYLOAD, payload_body(compress(INNER[0] + unknown + INNER[3])))
    path = log(tmp_path, 1, unknown, DDL, inside)
    opened = open_log(path)
    found = [event for event in opened if isinstance(event, UnknownIgnorableEvent)]
    assert len(found) == opened.ignored == 2
    assert len(list(opened.transactions())) == 2
    assert opened.ignored == 1
    with pytest.raises(UnknownEvent, match=r"binlog\.000002 at \d+ \(UNKNOWN_99\)"):
        list(open_log(log(tmp_path, 2, raw_event(99, b"x"))))


def test_a_torn_tail_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "binlog.000001", raw_format(flags=1), BEGIN, XID, BEGIN, XID[:-3])
    opened = open_log(path)
    events = list(opened)
    assert opened.torn_tail == Position("binlog.000001", events[-1].end_offset or 0)
    assert opened.incomplete
    assert opened.position == Position("binlog.000001", events[2].end_offset or 0)
    list(opened.transactions())
    assert opened.torn_tail is not None


def test_a_wrong_order_stops_the_log(tmp_path: Path) -> None:
    with pytest.raises(BoundaryError, match=r"binlog\.000001 at \d+ \(XID\): it cannot come between"):
        list(open_log(log(tmp_path, 1, XID)))


def test_checksums_can_be_left_unverified(tmp_path: Path) -> None:
    damaged = bytearray(raw_event(E.QUERY, query(b"CREATE TABLE t"), checksum=True))
    damaged[-1] ^= 1
    path = write(tmp_path / "b.1", raw_format(algorithm=1), bytes(damaged))
    with pytest.raises(ChecksumMismatch):
        list(open_log(path))
    assert len(list(open_log(path, verify_checksums=False))) == 2


def test_the_first_event_must_be_a_format_description(tmp_path: Path) -> None:
    path = write(tmp_path / "b.1", XID)
    with pytest.raises(EventDecodeError, match=rf"{re.escape(str(path))} at 4 \(XID\): no format"):
        open_log(path)
    rotate = write(tmp_path / "b.2", raw_event(E.ROTATE, bytes(8) + b"x"))
    with pytest.raises(LogError, match="begins with a format description event"):
        open_log(rotate)
    torn = write(tmp_path / "b.3", raw_format(flags=1)[:60])
    with pytest.raises(StorageError, match="ends inside its first event"):
        open_log(torn)


def test_several_series_cannot_be_opened_as_one(tmp_path: Path) -> None:
    log(tmp_path / "a", 1)
    log(tmp_path / "b", 1)
    with pytest.raises(UsageError, match=r"several logs \(a, b\); open one of them"):
        open_log(tmp_path)
    assert len(list(open_log(find(tmp_path)[1]))) == 1


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    path = log(tmp_path, 1, DDL)
    opened = open_log(path)
    path.unlink()
    with pytest.raises(StorageError, match="No such file"):
        list(opened)


def test_closing_ends_the_iteration(tmp_path: Path) -> None:
    opened = open_log(log(tmp_path, 1, DDL))
    opened.close()
    with opened:
        running = iter(opened)
        assert isinstance(next(running), FormatDescriptionEvent)
    assert list(running) == []
    transactions = opened.transactions()
    opened.close()
    assert list(transactions) == []


def test_resuming_at_every_transactions_end(tmp_path: Path) -> None:
    log(tmp_path, 1, BEGIN, XID, DDL, BEGIN, XID)
    log(tmp_path, 2, DDL, BEGIN, raw_event(E.TABLE_MAP, table_map_body(b"\3")), XID)
    whole = list(open_log(tmp_path).transactions())
    for number, done in enumerate(whole):
        resumed = open_log(tmp_path, start=done.end)
        assert resumed.position == done.end
        events = list(resumed)
        assert isinstance(events[0], FormatDescriptionEvent)
        assert resumed.position == open_log_end(tmp_path)
        assert [one.events for one in resumed.transactions()] == [
            one.events for one in whole[number + 1 :]
        ]


def open_log_end(source: Path) -> Position:
    opened = open_log(source)
    list(opened)
    return opened.position


def test_positions_that_are_no_start(tmp_path: Path) -> None:
    end = 4 + len(raw_format())
    raw = raw_event(E.QUERY, query(b"CREATE TABLE t"), log_pos=end + len(DDL))
    path = log(tmp_path, 1, raw, DDL)
    for offset, words in ((end + 5, "no event begins at"), (1 << 40, "no position 1099511627776")):
        with pytest.raises(StorageError, match=words):
            list(open_log(path, start=Position("binlog.000001", offset)))
    with pytest.raises(UsageError, match=r"binlog\.000007 is not among the logs of binlog"):
        open_log(path, start=Position("binlog.000007", 4))
    for offset in (0, 4, end):
        assert len(list(open_log(path, start=Position("binlog.000001", offset)))) == 3
    at_end = open_log(path, start=Position("binlog.000001", path.stat().st_size))
    assert [event.name for event in at_end] == ["FORMAT_DESCRIPTION"]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recorded logs (tests/corpus)")
@pytest.mark.parametrize("case", ["mysql-9.7.checksum-crc32", "mariadb-11.8.xa", "mysql-9.7.payload-full"])
def test_resuming_in_real_logs(case: str) -> None:
    source = CORPUS / case
    whole = list(open_log(source).transactions())
    assert len(whole) > 5
    for number in range(0, len(whole), 3):
        resumed = open_log(source, start=whole[number].end).transactions()
        assert [one.events for one in resumed] == [one.events for one in whole[number + 1 :]]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recorded logs (tests/corpus)")
@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-11.8"])
@pytest.mark.parametrize("checksums", ["crc32", "none"])
def test_each_byte_of_a_real_log_flipped(tmp_path: Path, server: str, checksums: str) -> None:
    """With checksums every flip is noticed; without, whatever is raised is of the tree."""
    whole = (CORPUS / f"{server}.checksum-{checksums}" / "binlog.000001").read_bytes()[:2500]
    path = tmp_path / "binlog.000001"
    in_use = 4 + 17
    whole = whole[:in_use] + b"\1" + whole[in_use + 1 :]  # so that its end may be torn
    for at in range(4, len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x15
        path.write_bytes(bytes(damaged))
        try:
            opened = open_log(path)
            for event in opened:
                event.fields()
        except (LogError, StorageError):
            continue
        # The last event's length alone may be damaged: then the log seems to end inside it.
        assert checksums == "none" or opened.torn_tail is not None


def test_the_object_path_imports_nothing_heavy() -> None:
    code = (
        "import sys, tailrace.log, tailrace.events, tailrace.storage\n"
        "heavy = {'numpy', 'pyarrow', 'numba', 'pyspark', 'pandas', 'rich', 'sqlglot'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
