"""A file's events as verified bytes and as objects, from an offset on, in memory of the caller's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tailrace.constants import EventType
from tailrace.errors import ChecksumMismatch, StorageError
from tailrace.events import FormatDescriptionEvent
from tailrace.storage import LogFile, find, keyring
from tailrace.storage.event_streams import EventData, Events
from tests.recorded import CORPUS
from tools.servers import binlog_tool

NAMES = ("mysql-9.7.interleaved", "mariadb-11.8.interleaved", "mysql-9.7.relay-log")
PLACE = re.compile(rb"^# at (\d+)$", re.MULTILINE)


def path_of(name: str) -> Path:
    return Path(find(CORPUS / name)[0].files[0].path)


def places(name: str) -> list[int]:
    """Where the servers' own tool sees events."""
    tool = [*binlog_tool(name.partition(".")[0] + "." + name.split(".")[1]), str(path_of(name))]
    shown = subprocess.run(tool, capture_output=True, check=True).stdout
    return sorted({int(place) for place in PLACE.findall(shown)})


@pytest.mark.parametrize("name", NAMES)
def test_bytes_and_objects_stand_where_the_tool_sees_them(name: str) -> None:
    raw = path_of(name).read_bytes()
    data = list(EventData(path_of(name)))
    assert set(places(name)) <= {offset for offset, _ in data}
    assert b"".join(bytes(each) for _, each in data) == raw[4:]
    events = list(Events(path_of(name)))
    assert [event.offset for event in events] == [offset for offset, _ in data]
    assert [event.encode() for event in events] == [bytes(each) for _, each in data]


@pytest.mark.parametrize("name", NAMES[:2])
def test_the_format_description_is_fetched_or_given(name: str) -> None:
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


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_what_the_caller_gives(name: str) -> None:
    path = path_of(name)
    memory = bytearray(1 << 20)
    asked: list[int] = []

    def allocate(size: int) -> bytearray:
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


@pytest.mark.parametrize("name", NAMES[:2])
def test_checksums_are_verified_if_asked(name: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_an_encrypted_file(name: str) -> None:
    folder = CORPUS / f"{name}.encrypted"
    keys = next(path for path in folder.iterdir() if path.name in {"keys", "keyring"})
    file = LogFile.at(folder / "binlog.000002", keyring.open(keys))
    data = list(EventData(file))
    assert sum(len(raw) for _, raw in data) + 4 == file.size
    assert any(b"secret" in bytes(raw) for _, raw in data)
    assert b"secret" not in Path(file.path).read_bytes()
