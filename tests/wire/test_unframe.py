"""`unframe`: packets made into a file's bytes. What D's kernel does is held equal to it elsewhere."""

import struct
from array import array

from hypothesis import given
from hypothesis import strategies as st

from tailrace.wire.packets import frame
from tailrace.wire.unframe import (
    ANSWER,
    BAD_LENGTH,
    BEGIN,
    CONTINUED,
    CONTROL,
    COUNT,
    END,
    FULL,
    HOLE,
    MORE,
    NEED,
    OFFSET,
    PLAIN,
    READ,
    STATE_WORDS,
    WRITE,
    look,
    unframe,
)
from tests.cases import each_case

LOW = 0xFFFFFFFF
PLAIN_TYPES = [2, 3, 16, 19, 23, 30, 33, 35, 40, 42, 162, 163, 250]


def event(body, kind, log_pos, flags=0, said=None):
    size = 19 + len(body)
    header = struct.pack("<IBIIIH", 1, kind, 7, size if said is None else said, log_pos, flags)
    return header + body


class Run:
    """A buffer, its state, and the calls on it."""

    def __init__(self, packets, offset, *, before=0, room=100):
        self.data = memoryview(bytearray(b"\xaa" * before + packets + bytes(64)))
        self.starts = array("q", [-1]) * room
        self.state = array("q", [0]) * STATE_WORDS
        self.state[READ] = self.state[BEGIN] = self.state[WRITE] = before
        self.state[END] = before + len(packets)
        self.state[OFFSET] = offset

    def go(self):
        return unframe(self.data, self.starts, self.state)

    @property
    def chunk(self):
        return bytes(self.data[self.state[BEGIN] : self.state[WRITE]])


@st.composite
def logs(draw):
    """Events as they stand behind one another in a file, from an offset on."""
    offset = draw(st.sampled_from([4, 1000, LOW - 50, (1 << 33) + 9]))
    events, at = [], offset
    for _ in range(draw(st.integers(0, 8))):
        body = draw(st.binary(max_size=60))
        at += 19 + len(body)
        log_pos = draw(st.sampled_from([0, at & LOW]))
        flags = draw(st.sampled_from([0, 8, 0x80, 0x8000]))
        events.append(event(body, draw(st.sampled_from(PLAIN_TYPES)), log_pos, flags))
    return offset, events


@given(logs(), st.integers(0, 255), st.integers(0, 30))
def test_whole_packets_become_the_files_bytes(log, sequence, before):
    offset, events = log
    packets = b"".join(frame(b"\0" + each, (sequence + n) & 255) for n, each in enumerate(events))
    run = Run(packets, offset, before=before)
    assert run.go() == MORE
    assert run.chunk == b"".join(events)
    assert run.state[COUNT] == len(events)
    assert run.state[READ] == run.state[END]
    assert run.state[OFFSET] == offset + len(run.chunk)
    assert run.state[NEED] == 4
    ends = [0]
    for each in events:
        ends.append(ends[-1] + len(each))
    assert list(run.starts[: len(events)]) == ends[:-1]
    assert set(run.starts[len(events) :]) == {-1}
    assert bytes(run.data[:before]) == b"\xaa" * before


@given(logs(), st.data())
def test_cut_anywhere_it_goes_on_when_more_has_come(log, data):
    offset, events = log
    packets = b"".join(frame(b"\0" + each) for each in events)
    run = Run(packets, offset)
    at = 0
    while at < len(packets):
        at = data.draw(st.integers(at + 1, len(packets)))
        run.state[END] = at
        assert run.go() == MORE
        assert run.state[READ] + run.state[NEED] > at
        if at < len(packets):
            assert run.state[READ] + run.state[NEED] <= len(packets)
    assert run.chunk == b"".join(events)


FIRST = event(b"first", 2, 104)
CASES = {
    "an error": (frame(b"\xff\xd4\x04#HY000text"), ANSWER),
    "the end": (frame(b"\xfe\0\0\2\0"), ANSWER),
    "an empty packet": (frame(b""), ANSWER),
    "only 00": (frame(b"\0"), BAD_LENGTH),
    "no header": (frame(b"\0" + bytes(18)), BAD_LENGTH),
    "semi-sync": (frame(b"\0\xef\1" + event(b"", 2, 123)), BAD_LENGTH),
    "another length": (frame(b"\0" + event(b"x", 2, 0, said=19)), BAD_LENGTH),
    "a rotate": (frame(b"\0" + event(b"", 4, 123)), CONTROL),
    "a description": (frame(b"\0" + event(b"", 15, 123)), CONTROL),
    "a heartbeat": (frame(b"\0" + event(b"", 27, 123)), CONTROL),
    "a long heartbeat": (frame(b"\0" + event(b"", 41, 123)), CONTROL),
    "an encryption": (frame(b"\0" + event(b"", 164, 123, 0x80)), CONTROL),
    "an artificial list": (frame(b"\0" + event(b"", 163, 123, 0x20)), CONTROL),
    "a hole": (frame(b"\0" + event(b"", 2, 124)), HOLE),
    "it goes on": (frame(b"\0" + event(bytes(0xFFFFFF - 20), 2, 0)), CONTINUED),
    "it goes on, and has only begun": (b"\xff\xff\xff\0", CONTINUED),
}


@each_case("case", CASES)
def test_it_stops_before_what_is_not_simply_the_next_event(case):
    packets, reason = CASES[case]
    last = frame(b"\0" + event(b"last", 2, 0))
    first = frame(b"\0" + FIRST)
    run = Run(first + packets + last, 80)
    before = bytes(run.data)
    for _ in range(2):
        assert run.go() == reason
        assert run.chunk == FIRST
        assert run.state[READ] == len(first)
        assert run.state[OFFSET] == 104
        assert run.state[COUNT] == 1
    assert bytes(run.data[len(first) :]) == before[len(first) :]


def test_a_hole_is_told_by_the_low_32_bits():
    for offset in (LOW - 18, 3 * (LOW + 1) - 19):  # it ends at 0 by its header: not said
        run = Run(frame(b"\0" + event(b"", 2, 0)), offset)
        assert run.go() == MORE
    run = Run(frame(b"\0" + event(b"", 2, 5)), (1 << 32) - 14)
    assert run.go() == MORE
    assert run.state[OFFSET] == (1 << 32) + 5


def test_a_full_chunk_is_gone_on_with():
    events = [event(bytes([n]), 2, 0) for n in range(7)]
    run = Run(b"".join(frame(b"\0" + each) for each in events), 4, room=3)
    given_events = b""
    reasons = []
    for _ in range(3):
        reasons.append(run.go())
        given_events += run.chunk
        run.state[BEGIN] = run.state[WRITE] = run.state[READ]
        run.state[COUNT] = 0
    assert reasons == [FULL, FULL, MORE]
    assert given_events == b"".join(events)


@given(st.binary(max_size=200), st.sampled_from([4, LOW, 1 << 40]))
def test_any_bytes_stop_it_somewhere(packets, offset):
    run = Run(packets, offset)
    assert run.go() in {MORE, ANSWER, CONTINUED, CONTROL, HOLE, BAD_LENGTH}
    assert run.state[BEGIN] <= run.state[WRITE] <= run.state[READ] <= run.state[END]
    assert run.state[OFFSET] == offset + run.state[WRITE]


@given(
    st.binary(max_size=30),
    st.integers(0, 255),
    st.integers(0, 0xFFFF),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([4, LOW - 30, 1 << 33]),
)
def test_one_event_is_looked_at_by_the_same_rules(body, kind, flags, where, offset):
    end = (offset + 19 + len(body)) & LOW
    raw = event(body, kind, (0, end, end ^ 1)[where], flags)
    reason = Run(frame(b"\0" + raw), offset).go()
    assert look(memoryview(raw), offset) == (PLAIN if reason == MORE else reason)
    assert look(memoryview(raw)[:-1], offset) == BAD_LENGTH
