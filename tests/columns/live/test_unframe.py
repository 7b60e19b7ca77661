"""The kernel that makes packets into log is `tailrace.wire.unframe`, on all that may come."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.columns.frames import unframe as unframe_words
from tailrace.columns.live.unframe import unframe as by_kernel
from tailrace.constants import EventFlag, EventType
from tailrace.storage import EventReader, find
from tailrace.wire import unframe as wire
from tailrace.wire.commands import BinlogDump, DumpFlag
from tests.cases import each_case
from tests.recorded import folders

FOLDERS = folders("encrypted")


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


def packets_of(folder):
    for series in find(folder):
        for file in series.files:
            yield [(offset, bytes(raw)) for offset, raw in EventReader(file)]


@pytest.mark.slow
@each_case("folder", FOLDERS, ids=lambda path: path.name)
def test_recorded_events_as_packets(folder):
    choose = random.Random(folder.name)
    for events in packets_of(folder):
        start = events[1][0]
        data = b"".join(packet(raw, i) for i, (_, raw) in enumerate(events[1:]))
        if len(data) > 1 << 20:
            continue
        for _ in range(4):
            begin = choose.choice([0, 7, 40])
            lead = begin + choose.choice([0, 1, 5, 30])
            end = lead + choose.choice([len(data), choose.randrange(len(data) + 1)])
            state = [lead, end, begin, begin, start, 0, 0]
            room = choose.choice([0, 1, 3, 1 << 16])
            _, memory, starts, words = assert_same(bytes(lead) + data, state, room)
            whole = memory[begin : words[wire.WRITE]]
            raws = b"".join(raw for _, raw in events[1 : 1 + words[wire.COUNT]])
            assert whole == raws
            assert starts[: words[wire.COUNT]] == [o - start for o, _ in events[1:]][: words[5]]


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


def dump_of(server, file):
    """The packets of a whole file as a server sends them, up to its answer that there is no more."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")
        cursor.execute("set @mariadb_slave_capability = 4")
        flags = DumpFlag.NON_BLOCK | DumpFlag.ANNOTATE_ROWS  # on MySQL: another heartbeat
        command = BinlogDump(file, 4, 4712, flags).encode()
        connection._execute_command(command[0], command[1:])
        data = b""
        while True:
            head = connection._rfile.read(4)
            body = connection._rfile.read(int.from_bytes(head[:3], "little"))
            data += head + body
            if body[0]:
                return data


def test_what_a_server_sends(flavour_server):
    """Packets as they came from a server, cut anywhere; the server's own answers among them."""
    server = flavour_server
    server.execute("create database if not exists unframe")
    server.execute("create table if not exists unframe.t (n int, v longtext)")
    server.execute("delete from unframe.t")
    for size in (1, 200, 9_000, 70_000):
        server.execute("insert into unframe.t values (%s, repeat('x', %s))", (size, size))
    file = server.binlogs()[-1].name
    data = dump_of(server, file)
    read, offset, reasons, events = 0, 4, set(), 0
    while read < len(data):
        state = [read, len(data), 0, 0, offset, 0, 0]
        reason, memory, _, words = assert_same(data, state, 1 << 16)
        reasons.add(reason)
        events += words[wire.COUNT]
        read, offset = words[wire.READ], words[wire.OFFSET]
        data = memory[read:]
        read = 0
        if reason in {wire.ANSWER, wire.MORE, wire.CONTINUED}:
            break
        length = int.from_bytes(data[:3], "little")
        event = data[5 : 4 + length]
        if event[4] == EventType.FORMAT_DESCRIPTION:
            offset = 4 + len(event)
        read = 4 + length
    assert reason == wire.ANSWER
    assert wire.CONTROL in reasons
    assert events > 10
