"""The kernel that makes packets into log is `tailrace.wire.unframe`, on all that may come."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.columns.frames import unframe as unframe_words
from tailrace.columns.live.unframe import unframe as by_kernel
from tailrace.constants import EventFlag, EventType
from tailrace.replication import unframe as of_receivers
from tailrace.wire import unframe as wire


def run(unframe, data, state, room, margin=0):
    """What a call leaves behind: reason, memory, starts, words."""
    memory = bytearray(data) + bytes(margin)
    starts, words = array("q", [-7] * room), array("q", state)
    reason = unframe(memoryview(memory)[: len(data)], starts, words)
    assert memory[len(data) :] == bytes(margin)
    return reason, bytes(memory), starts.tolist(), words.tolist()


def assert_same(data, state, room=64):
    expected = run(wire.unframe, data, state, room, margin=64)
    assert run(by_kernel, data, state, room, margin=64) == expected
    return expected


def test_the_words_are_the_same():
    names = ["READ", "END", "BEGIN", "WRITE", "OFFSET", "COUNT", "NEED"]
    names += ["MORE", "FULL", "ANSWER", "CONTINUED", "CONTROL", "HOLE", "BAD_LENGTH", "PLAIN"]
    for name in names:
        assert getattr(unframe_words, name) == getattr(wire, name), name
    for name in ("ROTATE", "FORMAT_DESCRIPTION", "HEARTBEAT", "HEARTBEAT_V2", "START_ENCRYPTION"):
        assert getattr(unframe_words, name) == EventType[name]
        assert EventType[name] in wire.CONTROL_TYPES
    assert len(wire.CONTROL_TYPES) == 5
    assert unframe_words.ARTIFICIAL == EventFlag.ARTIFICIAL


def packet(event, sequence=0, status=0):
    return (len(event) + 1).to_bytes(3, "little") + bytes([sequence & 255, status]) + event


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=300), st.data())
def test_random_bytes(data, draw):
    begin = draw.draw(st.integers(0, len(data)))
    write = draw.draw(st.integers(begin, len(data)))
    read = draw.draw(st.integers(write, len(data)))
    end = draw.draw(st.integers(read, len(data)))
    count = draw.draw(st.integers(0, 3))
    assert_same(data + b"\0", [read, end, begin, write, 1 << 33, count, 5], room=4)


_header = st.tuples(
    st.sampled_from([2, 4, 15, 16, 19, 27, 30, 41, 164, 33]),
    st.integers(0, 80),
    st.sampled_from([0, 0, 0, 1, -1, 100]),  # what its length says too much
    st.sampled_from(["end", "end", "end", "zero", "other"]),
    st.sampled_from([0, 0, 0, 0x20, 0x80, 0x8000, 0xFFFF]),
    st.sampled_from([0, 0, 0, 0, 0, 0xFE, 0xFF, 1]),
)


@settings(max_examples=600, deadline=None)
@given(st.lists(_header, max_size=12), st.integers(4, 1 << 40), st.integers(0, 30), st.data())
@pytest.mark.slow
def test_packets_of_all_kinds(headers, offset, gap, draw):
    at, out = offset, b""
    for kind, size, more, place, flags, status in headers:
        length = 19 + size
        said = {"end": (at + length) & 0xFFFFFFFF, "zero": 0, "other": 12345}[place]
        event = bytes(4) + bytes([kind]) + bytes(4) + (length + more).to_bytes(4, "little")
        event += said.to_bytes(4, "little") + flags.to_bytes(2, "little")
        event += bytes(range(size))
        out += packet(event, 0, status)
        at += length
    data = (
        bytes(gap) + out + draw.draw(st.sampled_from([b"", b"\xff\xff\xff", b"\0\0\0\0", b"\5\0"]))
    )
    end = draw.draw(st.sampled_from([len(data), max(gap, len(data) - 1)]))
    room = draw.draw(st.sampled_from([0, 2, 20]))
    assert_same(data + b"\0", [gap, end, 0, 0, offset, 0, 0], room=room)


def test_a_receiver_begins_in_python(monkeypatch):
    """And continues with the kernel once that pays; what it makes of the bytes does not change."""
    event = bytes(4) + b"\x02" + bytes(4) + (40).to_bytes(4, "little") + bytes(27)
    data = bytes(packet(event)) * 3 + b"\0"
    state = [0, len(data), 0, 0, 4, 0, 0]
    monkeypatch.setattr(of_receivers, "SMALL", 2 * 3 * len(event))
    unframe = of_receivers.GrowingUnframe()
    for expected in (wire.unframe, by_kernel, by_kernel):
        assert run(unframe, data, state, 8) == run(wire.unframe, data, state, 8)
        assert unframe._unframe is expected
