"""A file's events as verified bytes and as objects, from an offset on, in memory of the caller's."""

import io
import pickle
import re
import shutil
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
import zstandard

import tailrace
from tailrace.constants import ChecksumAlgorithm, EventType
from tailrace.errors import (
    ChecksumMismatch,
    KeyMissing,
    LogError,
    OutOfMemory,
    StorageError,
    TruncatedEvent,
    UsageError,
)
from tailrace.events import FormatDescriptionEvent
from tailrace.events.rows import RowsEvent
from tailrace.storage import (
    BinlogCache,
    BinlogFile,
    FileInput,
    LocalFolder,
    LogFile,
    MemoryInput,
    MemoryOutput,
    find,
    keyring,
    layer,
    memory_folder,
)
from tailrace.storage.event_streams import EventData, Events
from tailrace.storage.memory import forget_memory
from tests.cases import each_case
from tests.recorded import CORPUS
from tools.servers import binlog_tool

NAMES = ("mysql-9.7.interleaved", "mariadb-11.8.interleaved", "mysql-9.7.relay-log")
PLACE = re.compile(rb"^# at (\d+)$", re.MULTILINE)


def path_of(name):
    return Path(find(CORPUS / name)[0].files[0].path)


def places(name):
    """Where the servers' own tool sees events."""
    tool = [*binlog_tool(name.partition(".")[0] + "." + name.split(".")[1]), str(path_of(name))]
    shown = subprocess.run(tool, capture_output=True, check=True).stdout
    return sorted({int(place) for place in PLACE.findall(shown)})


@each_case("name", NAMES)
def test_bytes_and_objects_stand_where_the_tool_sees_them(name):
    raw = path_of(name).read_bytes()
    data = list(EventData(path_of(name)))
    assert set(places(name)) <= {offset for offset, _ in data}
    assert b"".join(bytes(each) for _, each in data) == raw[4:]
    events = list(Events(path_of(name)))
    assert [event.offset for event in events] == [offset for offset, _ in data]
    assert [event.encode() for event in events] == [bytes(each) for _, each in data]


@each_case("name", NAMES[:2])
def test_the_format_description_is_fetched_or_given(name):
    path = path_of(name)
    whole = list(Events(path))
    first = whole[0]
    assert isinstance(first, FormatDescriptionEvent)
    begins = [each.offset for each in whole if "GTID" in each.name and "LIST" not in each.name]
    for start in begins[1:]:
        fetched = list(Events(path, start))
        given = list(Events(path, start, format_description=first))
        assert [each.offset for each in fetched] == [4, *[each.offset for each in given]]
        assert given[0].offset == start
        assert [each.fields() for each in given] == [
            each.fields() for each in whole if each.offset >= start
        ]
        verified = EventData(path, start, format_description=first)
        assert [offset for offset, _ in verified] == [each.offset for each in given]
    with pytest.raises(StorageError, match="no event begins at 7"):
        list(Events(path, 7, format_description=first))
    with pytest.raises(StorageError, match="no position"):
        list(Events(path, 1 << 40, format_description=first))


def files_of(name):
    return [Path(file.path) for file in find(CORPUS / name)[0].files]


@each_case("server", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_the_format_description_is_given_for_relay_logs(server):
    """WL#10956, Basic_binlog_file_reader::open: the relay log's own, or either of its source's."""
    own = next(iter(Events(path_of(f"{server}.interleaved"))))
    assert isinstance(own, FormatDescriptionEvent)
    sources = 0
    for path in files_of(f"{server}.relay-log"):
        whole = list(Events(path))
        there = [event for event in whole if isinstance(event, FormatDescriptionEvent)]
        sources += len(there) - 1
        inside = False  # a statement's rows need its table map
        for number, event in enumerate(whole):
            for given in (*there, own):
                found = EventData(path, event.offset, format_description=given)
                assert [offset for offset, _ in found] == [e.offset for e in whole[number:]]
                if not inside:
                    objects = Events(path, event.offset, format_description=given)
                    assert [e.fields() for e in objects] == [e.fields() for e in whole[number:]]
            inside = event.type == EventType.TABLE_MAP
        for given in (*there, own):
            with pytest.raises(StorageError, match="no event begins at 7"):
                list(Events(path, 7, format_description=given))
    assert sources == 3


def test_a_relay_log_whose_source_has_no_checksums(tmp_path):
    """The description given is the relay log's own, and its source's is in force."""
    relay = files_of("mysql-9.7.relay-log")[0]
    source = path_of("mysql-9.7.checksum-none")
    wanted = list(Events(source))
    path = tmp_path / "relay.000001"
    path.write_bytes(relay.read_bytes() + source.read_bytes()[4:])
    own = next(iter(Events(relay)))
    assert isinstance(own, FormatDescriptionEvent)
    start = len(relay.read_bytes()) + wanted[0].header.length
    found = list(Events(path, start, format_description=own))
    assert [event.fields() for event in found] == [event.fields() for event in wanted[1:]]
    data = EventData(path, start, format_description=own)
    assert [bytes(raw) for _, raw in data] == [event.encode() for event in wanted[1:]]


@each_case("name", NAMES)
def test_memory_is_what_the_caller_gives(name):
    path = path_of(name)
    memory = bytearray(1 << 20)
    asked = []

    def allocate(size):
        asked.append(size)
        return memory

    wanted = [(offset, bytes(raw)) for offset, raw in EventData(path)]
    made = []
    for offset, raw in EventData(path, allocate=allocate):
        assert isinstance(raw, memoryview)
        assert raw.obj is memory
        assert memory[: len(raw)] == raw
        made.append((offset, bytes(raw)))
    assert made == wanted
    assert asked == [len(raw) for _, raw in wanted]


@each_case("name", [*NAMES, "mariadb-10.11.relay-log"])
def test_objects_in_memory_that_the_caller_gives(name):
    """WL#10956, read_event_object: allocator: one memory serves all events, also table maps."""
    path = files_of(name)["relay" in name]  # the second of the relay logs has rows
    memory = bytearray(1 << 20)
    whole = list(Events(path))
    seen = 0
    for event, wanted in zip(Events(path, allocate=lambda _: memory), whole, strict=True):
        assert event.encode() == memory[: event.header.length]
        assert event == wanted
        assert pickle.loads(pickle.dumps(event)) == wanted
        assert event.fields() == wanted.fields()
        if isinstance(event, RowsEvent):
            assert event.table_map == wanted.table_map
            seen += 1
    assert seen
    start = whole[-1].offset
    asked = []
    last = Events(path, start, format_description=whole[0], allocate=bytearray)
    assert [event.encode() for event in last] == [whole[-1].encode()]
    data = EventData(
        path,
        start,
        format_description=whole[0],
        allocate=lambda size: asked.append(size) or memory,
    )
    assert len(list(data)) == len(asked) == 1


class SeveralFiles(EventData):
    """As mysqlbinlog reads standard input: each file's magic is passed over."""

    def read_header(self, header, offset):
        assert len(header) == 19
        self.seen = offset
        return 4 if header.startswith(b"\xfebin") else 0


@each_case("memory", [None, bytearray])
@each_case("server", ["mysql-9.7", "mariadb-11.8"])
def test_read_header_is_overridden(server, memory, tmp_path):
    """WL#10956, Binlog_event_data_istream::read_header: several files, one after the other."""
    names = ("checksum-crc32", "checksum-none", "interleaved", "checksum-crc32")
    paths = [path_of(f"{server}.{name}") for name in names]
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"".join(each.read_bytes() for each in paths))
    wanted = [event for each in paths for event in Events(each)]
    data = SeveralFiles(path, allocate=memory)
    assert [bytes(raw) for _, raw in data] == [event.encode() for event in wanted]
    assert [event.fields() for event in Events(data)] == [event.fields() for event in wanted]
    whole = path.read_bytes()
    for offset, raw in data:
        assert whole[offset : offset + len(raw)] == raw
    assert data.seen == whole.rindex(bytes(raw))
    with pytest.raises(LogError):
        list(EventData(path))
    with pytest.raises(UsageError, match="give these arguments to the EventData"):
        Events(data, 4)


def test_what_read_header_may_return():
    class Wrong(EventData):
        def read_header(self, header, offset):
            return 20

    with pytest.raises(UsageError, match="read_header returned 20: it is shown 19 bytes"):
        list(Wrong(path_of(NAMES[0])))


@each_case("server", ["mysql-9.7", "mariadb-11.8"])
def test_the_algorithm_of_the_checksums_is_given(server, tmp_path):
    """WL#10956, read_event_data: checksum_alg: it counts, and not the format description's."""
    sound, none = path_of(f"{server}.checksum-crc32"), path_of(f"{server}.checksum-none")
    other = next(iter(Events(none)))
    assert isinstance(other, FormatDescriptionEvent)
    wanted = list(Events(sound))
    path = Path(shutil.copy(sound, tmp_path))
    damaged = bytearray(sound.read_bytes())
    damaged[-1] ^= 1  # the last event's checksum
    path.write_bytes(damaged)
    assert len(list(EventData(path, checksum_algorithm=ChecksumAlgorithm.NONE))) == len(wanted)
    start = wanted[-1].offset
    given = {"format_description": other, "checksum_algorithm": ChecksumAlgorithm.CRC32}
    for kind in (EventData, Events):
        assert len(list(kind(sound, start, **given))) == 1
        assert len(list(kind(path, start, format_description=other))) == 1
        with pytest.raises(ChecksumMismatch):
            list(kind(path, start, **given))
    (event,) = Events(sound, start, **given)
    assert (event.body, event.checksum) == (wanted[-1].body, wanted[-1].checksum)
    with pytest.raises(ChecksumMismatch):
        list(EventData(none, checksum_algorithm=ChecksumAlgorithm.CRC32))


@each_case("kind", [EventData, Events])
def test_the_algorithm_is_a_member_or_its_name(kind, tmp_path):
    """WL#10956, read_event_data: checksum_alg: what is neither does not switch it off."""
    path = Path(shutil.copy(path_of("mysql-9.7.checksum-crc32"), tmp_path))
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1  # the last event's checksum
    path.write_bytes(damaged)
    for given in (ChecksumAlgorithm.CRC32, "crc32"):
        with pytest.raises(ChecksumMismatch):
            list(kind(path, checksum_algorithm=given))
    unverified = len(list(EventData(path, verify_checksums=False)))
    for given in (ChecksumAlgorithm.NONE, "none"):
        assert len(list(kind(path, checksum_algorithm=given))) == unverified
    wrong = [1, 5, "CRC32", "", "xx", [], ChecksumAlgorithm.UNDEFINED]
    for given in wrong:
        with pytest.raises(UsageError, match=r"checksum_algorithm: .* neither 'crc32' nor 'none'"):
            kind(path, checksum_algorithm=given)
        with pytest.raises(UsageError, match=r"checksum: .* neither 'crc32' nor 'none'"):
            tailrace.create("memory:x", flavour="mysql", server_id=1, checksum=given)


LARGE = 40 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A log with an event of 40 MiB, of a type that may be passed over."""
    head = path_of("mysql-9.7.checksum-none").read_bytes()
    head = head[: 4 + int.from_bytes(head[13:17], "little")]
    event = struct.pack("<IBIIIH", 0, 200, 1, LARGE, len(head) + LARGE, 0x80)
    path = tmp_path_factory.mktemp("large") / "binlog.000001"
    path.write_bytes(head + event + bytes(range(256)) * (LARGE // 256 - 1) + bytes(256 - 19))
    return path


@each_case("kind", [EventData, Events])
def test_an_event_is_read_into_that_memory(large, kind):
    """WL#10956, read_event_data: allocator: there is no second copy of the event."""
    memory = bytearray(LARGE)
    reading = iter(kind(large, allocate=lambda _: memory))
    tracemalloc.start()
    try:
        next(reading)
        next(reading)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert memory == large.read_bytes()[-LARGE:]
    assert peak < 4 << 20


@each_case("name", ["large", *NAMES])
@each_case("kind", [EventData, Events])
@each_case(
    ("allocate", "said"),
    [
        (lambda size: bytearray(size - 1), r"allocate gave \d+ bytes of memory for the \d+ bytes"),
        (lambda size: memoryview(bytes(size)), "memory that is read-only"),
        (lambda size: bytearray(1 << 62), "there is no memory for the"),
    ],
    ids=["too little", "read-only", "none"],
)
def test_too_little_memory(large, name, kind, allocate, said):
    """WL#10956, MEM_ALLOCATE: an error of ours, with the event's place."""
    path = large if name == "large" else path_of(name)
    second = [offset for offset, _ in EventData(path)][1]
    calls = 0

    def give(size):
        nonlocal calls
        calls += 1
        return bytearray(size) if calls == 1 else allocate(size)

    with pytest.raises(OutOfMemory, match=said) as caught:
        list(kind(path, allocate=give))
    assert (caught.value.file, caught.value.offset) == (str(path), second)


@each_case("name", NAMES[:2])
def test_checksums_are_verified_if_asked(name, tmp_path):
    path = Path(shutil.copy(path_of(name), tmp_path))
    events = list(Events(path))
    damaged = bytearray(path.read_bytes())
    victim = events[len(events) // 2]
    damaged[(victim.offset or 0) + 30] ^= 1
    path.write_bytes(damaged)
    assert len(list(EventData(path, verify_checksums=False))) == len(events)
    seen = []
    with pytest.raises(ChecksumMismatch) as caught:
        seen.extend(offset for offset, _ in EventData(path))
    assert (caught.value.file, caught.value.offset) == (str(path), victim.offset)
    assert caught.value.event_type == EventType(victim.type).name
    with pytest.raises(ChecksumMismatch):
        list(Events(path))
    begin = next(e.offset for e in events if (e.offset or 0) > (victim.offset or 0))
    behind = EventData(path, begin, format_description=events[0])
    assert next(iter(behind))[0] == begin


@each_case("name", ["mysql-9.7", "mariadb-11.8"])
def test_an_encrypted_file(name):
    folder = CORPUS / f"{name}.encrypted"
    keys = next(path for path in folder.iterdir() if path.name in {"keys", "keyring"})
    file = LogFile.at(folder / "binlog.000002", keyring.open(keys))
    data = list(EventData(file))
    assert sum(len(raw) for _, raw in data) + 4 == file.size
    assert any(b"secret" in bytes(raw) for _, raw in data)
    assert b"secret" not in Path(file.path).read_bytes()


class Forward:
    """Only `read`, as the worklog's Basic_istream: a few bytes at a time."""

    def __init__(self, raw):
        self._raw = raw
        self._at = 0

    def read(self, count, /):
        piece = self._raw[self._at : self._at + min(count, 100)]
        self._at += len(piece)
        return piece


def streams(path):
    """The same file as different input streams."""
    raw = path.read_bytes()
    return {
        "memory": MemoryInput(raw),
        "file": FileInput(path),
        "buffer": layer("buffer").input(FileInput(path)),
        "zstd": layer("zstd").input(MemoryInput(zstandard.compress(raw))),
        "forward": Forward(raw),
        "python": io.BytesIO(raw),
    }


@each_case("kind", ["memory", "file", "buffer", "zstd", "forward", "python"])
@each_case("name", NAMES)
def test_events_are_read_from_any_input_stream(name, kind):
    """Dev stories, m_istream: whatever is below; the stream is its owner's, and stays open."""
    path = path_of(name)
    wanted = list(EventData(path))
    stream = streams(path)[kind]
    assert list(EventData(stream)) == wanted
    assert getattr(stream, "is_open", True)
    events = list(Events(streams(path)[kind]))
    assert [event.encode() for event in events] == [raw for _, raw in wanted]
    start = wanted[len(wanted) // 2][0]
    late = list(EventData(streams(path)[kind], start))
    assert late == list(EventData(path, start))
    if kind in {"memory", "file", "buffer"}:
        data = EventData(stream, start)
        assert list(data) == list(data) == late
        stream.close()
        with pytest.raises(StorageError, match="closed"):
            list(data)


def test_a_stream_is_named_in_errors_and_has_layers():
    path = path_of(NAMES[0])
    raw = path.read_bytes()
    for stream, place in (
        (MemoryInput(raw[:-7]), "MemoryInput"),
        (Forward(raw[:-7]), "Forward"),
    ):
        with pytest.raises(TruncatedEvent) as caught:
            list(EventData(stream))
        assert str(caught.value).startswith(f"{place} at ")
    packed = zstandard.compress(raw)
    for stream in (MemoryInput(packed), Forward(packed)):
        assert list(EventData(stream, layers="zstd")) == list(EventData(path))
    for wrong in (object(), 5, None, b"bytes"):
        with pytest.raises(UsageError, match="is no file of a log"):
            EventData(wrong)
    with pytest.raises(StorageError, match="read in one process only"):
        pickle.dumps(EventData(MemoryInput(raw)).reader.file)


def test_an_encrypted_stream(tmp_path):
    """With ``keyring=``: of both servers, by path and as a stream."""
    for flavour, key in (("mysql", "MySQLReplicationKey_x_1"), ("mariadb", "1")):
        keys = keyring.make(tmp_path / flavour, key).path
        target = tmp_path / f"{flavour}.000001"
        tailrace.create(target, flavour=flavour, server_id=1, encrypt=True, keyring=keys).close()
        wanted = [event.encode() for event in tailrace.open(target, keyring=keys)]
        for source in (target, str(target), FileInput(target), Forward(target.read_bytes())):
            events = Events(source, keyring=keys)
            assert [event.encode() for event in events] == wanted
        with pytest.raises(KeyMissing):
            list(EventData(FileInput(target)))
        with pytest.raises(UsageError, match="has its own keyring"):
            EventData(find(target, keys)[0].files[0], keyring=keys)


def test_standard_input_memory_and_folders(tmp_path, monkeypatch):
    paths = [path_of(name) for name in NAMES[:2]]
    code = (
        "import sys; from tailrace.storage import EventData, Events\n"
        "made = Events if sys.argv[1] == 'events' else EventData\n"
        "print(sum(1 for _ in made('-')))\n"
    )
    given = b"".join(path.read_bytes() for path in paths)
    wanted = sum(1 for path in paths for _ in EventData(path))
    for made in ("events", "data"):
        run = subprocess.run(
            [sys.executable, "-c", code, made], input=given, capture_output=True, check=True
        )
        assert int(run.stdout) == wanted
    forget_memory("events")
    raw = paths[0].read_bytes()
    memory_folder("events").create("binlog.000001", raw).close()
    for source in ("memory:events", "memory:events/binlog.000001"):
        assert list(EventData(source)) == list(EventData(paths[0]))
        assert list(Events(source)) == list(Events(paths[0]))
    shutil.copy(paths[0], tmp_path / "binlog.000001")
    shutil.copy(paths[0], tmp_path / "binlog.000002")
    with pytest.raises(UsageError, match="it holds 2 files; give one of them"):
        EventData(tmp_path)


@each_case("made", [EventData, Events])
def test_it_is_closed(made, monkeypatch):
    """Basic_binlog_file_reader::close: the file is closed; iterating opens it again."""
    opened = []
    real = LogFile.open

    def opening(file):
        opened.append(real(file))
        return opened[-1]

    monkeypatch.setattr(LogFile, "open", opening)
    with made(path_of(NAMES[0])) as data:
        first, second = iter(data), iter(data)
        next(first), next(second)
        assert [each.is_open for each in opened] == [True, True]
        data.close()
        assert [each.is_open for each in opened] == [False, False]
        assert list(first) == []
        data.close()
        third = iter(data)
        next(third)
        assert opened[-1].is_open
    assert not opened[-1].is_open


@each_case("name", NAMES)
def test_events_are_written_to_any_output_stream(name, tmp_path):
    """Log_event::write: header, body and footer, into a file, a cache, memory, a stack."""
    path = path_of(name)
    raw = path.read_bytes()
    events = list(Events(path))
    memory, packed, python = MemoryOutput(), MemoryOutput(), io.BytesIO()
    stack = layer("zstd").output(packed)
    file = BinlogFile(LocalFolder(tmp_path), "binlog.000001")
    file.create(raw[:4])
    cache = BinlogCache(500)
    for out in (memory, stack, python, cache, file):
        for event in events:
            event.write(out)
    stack.close()
    file.close()
    copied = MemoryOutput()
    cache.copy_to(copied)
    assert bytes(memory.data) == bytes(copied.data) == python.getvalue() == raw[4:]
    assert zstandard.ZstdDecompressor().decompressobj().decompress(packed.data) == raw[4:]
    assert (tmp_path / "binlog.000001").read_bytes() == raw
    other = MemoryOutput()
    events[1].write(other, ChecksumAlgorithm.NONE, log_pos=77)
    assert bytes(other.data) == events[1].encode(ChecksumAlgorithm.NONE, log_pos=77)
    file = BinlogFile(LocalFolder(tmp_path), "binlog.000002")
    with pytest.raises(StorageError, match="not open"):
        events[1].write(file)
