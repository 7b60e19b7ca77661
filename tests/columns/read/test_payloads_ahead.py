"""Small payloads are uncompressed together: unusual ones among them are read like any other."""

from collections import Counter

import pytest
import zstandard

from tailrace.columns import changes
from tailrace.columns.read.decoder import LogDecoder
from tailrace.constants import ChecksumAlgorithm
from tailrace.errors import LogError
from tailrace.events import GtidEvent
from tailrace.events.payload import Compression, TransactionPayloadEvent
from tailrace.events.query import QueryEvent
from tailrace.log import Log
from tailrace.log.changes import Changes
from tailrace.log.reader import Reader
from tailrace.storage import find
from tests.cases import each_case
from tests.columns.oracle import assert_equal_paths
from tests.recorded import CORPUS

FULL = CORPUS / "mysql-9.7.payload-full"


def written(folder, change):
    """The recorded log, each payload event as ``change`` makes it of its number and itself."""
    (series,) = find(FULL)
    log = Log(series, expand_payloads=False)
    parts, number = [b"\xfebin"], 0
    for event in log:
        raw = event
        if isinstance(event, TransactionPayloadEvent):
            raw = change(number, event)
            number += 1
        parts.append(raw.encode(ChecksumAlgorithm.CRC32))
    path = folder / "binlog.000001"
    path.write_bytes(b"".join(parts))
    return path


def plain(event):
    return b"".join(event.pieces())


def pack(data, *, size=True):
    return zstandard.ZstdCompressor(write_content_size=size).compress(data)


def two_frames(_number, event):
    data = plain(event)
    return event.replace(payload=pack(data[:50]) + pack(data[50:]), uncompressed_size=len(data))


def first_frame_said(_number, event):
    data = plain(event)
    return event.replace(payload=pack(data[:50]) + pack(data[50:]), uncompressed_size=50)


def size_not_in_frame(_number, event):
    data = plain(event)
    return event.replace(payload=pack(data, size=False), uncompressed_size=len(data))


def size_not_said(_number, event):
    return event.replace(uncompressed_size=None)


def not_compressed(_number, event):
    return event.replace(payload=plain(event), compression=Compression.NONE)


def with_savepoint(_number, event):
    inside = list(event.events())
    point = QueryEvent.make(sql="SAVEPOINT `a`", form=event.form)
    return TransactionPayloadEvent.of([*inside[:1], point, *inside[1:]], form=event.form)


KINDS = (two_frames, first_frame_said, size_not_in_frame, size_not_said, not_compressed)


@each_case("kind", [*KINDS, with_savepoint])
@each_case("step", [1, 3])
@pytest.mark.slow
def test_unusual_payloads_among_others(kind, step, tmp_path):
    path = written(tmp_path, lambda n, event: event if n % step else kind(n, event))
    (series,) = find(path)
    (recorded,) = find(FULL)
    assert assert_equal_paths(series) == assert_equal_paths(recorded) == 45


def cut_frame(event):
    return event.replace(payload=event.payload[:-3])


def cut_inside(event):
    return event.replace(payload=pack(plain(event)[:-3]))


def cut_header(event):
    return event.replace(payload=pack(plain(event)[:9]))


def no_event(event):
    return event.replace(payload=pack(b""))


def nested(event):
    data = bytearray(plain(event))
    data[4] = int(event.type)
    return event.replace(payload=pack(bytes(data)))


@each_case("damage", [cut_frame, cut_inside, cut_header, no_event, nested])
def test_damage_is_that_of_the_object_path(damage, tmp_path):
    path = written(tmp_path, lambda n, event: damage(event) if n == 9 else event)
    with pytest.raises(LogError) as wanted:
        list(Changes(Reader(find(path)[0])))
    with pytest.raises(LogError) as found:
        list(changes(path))
    assert str(found.value) == str(wanted.value)


@each_case("size", [300, 2000, 1 << 20])
def test_blocks_and_batches_of_any_size(size, monkeypatch):
    monkeypatch.setattr("tailrace.columns.read.blocks.BLOCK", size)
    monkeypatch.setattr("tailrace.columns.batches.BLOCK", size)
    monkeypatch.setattr("tailrace.columns.read.walk._ENTRIES", 3)
    (series,) = find(FULL)
    assert assert_equal_paths(series) == 45


def test_python_handles_no_small_payload(monkeypatch):
    """What takes microseconds for each transaction."""
    counts = Counter()
    handle = LogDecoder._payload

    def counted(self, event):
        counts["payloads"] += 1
        return handle(self, event)

    monkeypatch.setattr(LogDecoder, "_payload", counted)
    (series,) = find(FULL)
    assert sum(batch.num_rows for batch in changes(series)) == 45
    assert counts["payloads"] == 0


def test_payloads_are_uncompressed_once(tmp_path, monkeypatch):
    """Those that Python handles among others, here for want of a GTID, are passed over after it."""
    (series,) = find(FULL)
    events = list(Log(series, expand_payloads=False))
    followed = zip(events, [*events[1:], events[-1]], strict=True)
    heads = [
        event
        for event, after in followed
        if isinstance(event, GtidEvent) and isinstance(after, TransactionPayloadEvent)
    ]
    kept = [event.encode(ChecksumAlgorithm.CRC32) for event in events if event not in heads[::2]]
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"".join([b"\xfebin", *kept]))
    counts = Counter()
    ahead, handle = LogDecoder._unpack_ahead, LogDecoder._payload

    def counted_ahead(self):
        found = ahead(self)
        counts["ahead"] += found
        return found

    def counted(self, event):
        counts["by Python"] += 1
        return handle(self, event)

    monkeypatch.setattr(LogDecoder, "_unpack_ahead", counted_ahead)
    monkeypatch.setattr(LogDecoder, "_payload", counted)
    assert sum(batch.num_rows for batch in changes(path)) == 45
    assert counts["by Python"] == len(heads[::2]) > 10
    assert counts["ahead"] == 1
