"""Stamping, the cache it reads, and positions past 4 GiB."""

import random
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.columns.write.stamp import stamp_events
from tailrace.events.header import EventHeader
from tailrace.storage.memory import FolderOutput, MemoryFolder, forget_memory
from tailrace.writing import cache as cache_module
from tailrace.writing.cache import EventCache, stamp, stamp_plainly
from tests.cases import each_case
from tests.events.made import raw_event
from tests.writing.made import FLAVOURS, ddl, log, orders, row

BODIES = st.lists(st.binary(max_size=300), min_size=1, max_size=30)
POSITIONS = st.integers(4, 1 << 40) | st.sampled_from([(1 << 32) - 100, (1 << 32) - 19, 1 << 32])


@given(bodies=BODIES, position=POSITIONS, checksum=st.booleans())
def test_stamped_events(bodies, position, checksum):
    """Told from the format: length, end, CRC; all else is as it was."""
    held = b"".join(raw_event(2, body, flags=8) for body in bodies)
    stamped = stamp_plainly(held, position, checksum=checksum)
    at = 0
    for body in bodies:
        header = EventHeader.parse(stamped, at)
        end = at + header.length
        assert header.length == 19 + len(body) + 4 * checksum
        assert header.log_pos == (position + end) & 0xFFFFFFFF
        assert (header.timestamp, header.type, header.flags) == (1_700_000_000, 2, 8)
        assert stamped[at + 19 : at + 19 + len(body)] == body
        if checksum:
            assert int.from_bytes(stamped[end - 4 : end], "little") == crc32(stamped[at : end - 4])
        at = end
    assert at == len(stamped)


@settings(deadline=None)  # the first compiles it
@given(bodies=BODIES, position=POSITIONS, checksum=st.booleans())
def test_the_kernel_gives_the_same_bytes(bodies, position, checksum):
    held = b"".join(raw_event(2, body) for body in bodies)
    plain = stamp_plainly(held, position, checksum=checksum)
    assert stamp_events(held, position, checksum=checksum) == plain
    assert stamp(held, position, checksum=checksum) == plain


def test_large_transactions_go_to_the_kernel(monkeypatch):
    held = raw_event(2, bytes(2 << 20)) * 2
    used = []
    monkeypatch.setattr(cache_module, "stamp_plainly", lambda *_a, **_k: used.append(1))
    assert len(stamp(held, 4, checksum=True)) == len(held) + 8
    assert not used


@each_case("limit", [1, 1000, 1 << 30])
def test_the_cache_gives_whole_events(monkeypatch, limit):
    monkeypatch.setattr(cache_module, "_PIECE", 1000)
    held = EventCache(limit)
    events = [raw_event(2, bytes([n]) * (n * 37 % 2500)) for n in range(199)]
    events.append(raw_event(2, bytes(2400)))
    for event in events[:150]:
        held.append(event)
    mark = held.size, held.count
    held.append(b"".join(events[:3]), 3)
    held.cut(*mark)
    held.append(b"".join(events[150:]), 50)
    assert (held.size, held.count) == (sum(map(len, events)), 200)
    for _ in range(2):
        pieces = [bytes(piece) for piece in held.pieces()]
        assert b"".join(pieces) == b"".join(events)
        for piece in pieces:
            at = 0
            while at < len(piece):
                at += EventHeader.parse(piece, at).length
            assert at == len(piece)
        assert max(map(len, pieces)) < 1000 + 2 * 2519
    held.close()


def test_a_payload_that_no_event_could_hold_is_not_made(monkeypatch):
    held, header = EventCache(1 << 20), {"timestamp": 0, "server_id": 1}
    held.append(raw_event(2, random.Random(1).randbytes(5000)))
    packed = held.compressed(header)
    assert packed is not held
    monkeypatch.setattr(cache_module, "MAX_EVENT_SIZE", packed.size)  # without a checksum
    assert held.compressed(header) is held
    packed.close()
    held.close()


class Far(FolderOutput):
    """A file in memory that says it has 4 GiB more than it has."""

    more = (1 << 32) - 500

    @property
    def size(self):
        return super().size + self.more

    def truncate(self, size):
        super().truncate(size - self.more)


@pytest.fixture
def far(monkeypatch):
    """Logs in memory begin 500 bytes before 4 GiB; what is written to them."""
    written = []

    def reopen(self, name):
        output = Far(self, name)
        write = output.write

        def note(data):
            written.append(bytes(data))
            write(data)

        output.write = note
        return output

    monkeypatch.setattr(MemoryFolder, "reopen", reopen)
    return written


@each_case("flavour", FLAVOURS)
def test_positions_past_4_gib(far, flavour):
    """One transaction goes over the border: the header has the low 32 bits, our count all."""
    forget_memory("far")
    far.clear()
    out = log("memory:far", flavour)
    start = out.position.offset
    assert start < 1 << 32
    object.__setattr__(out.options, "max_size", 1 << 40)  # no server allows that
    with out.transaction() as trx:
        trx.insert(orders(flavour), [row(number) for number in range(500)])
    assert out.position.offset > 1 << 32
    at = start
    ends = []
    for piece in far:
        here = 0
        while here < len(piece):
            header = EventHeader.parse(piece, here)
            here += header.length
            ends.append((header.log_pos, (at + here) & 0xFFFFFFFF))
        at += here
    assert at == out.position.offset
    assert all(said == true for said, true in ends)
    assert [said for said, _ in ends] != sorted(said for said, _ in ends)  # it wrapped
    object.__setattr__(out.options, "max_size", 1 << 30)
    ddl(out, 1)  # the file is past it: the log goes on in the next
    assert out.files == ["binlog.000001", "binlog.000002"]
    forget_memory("far")
