"""Compressed packets: the layer both ways, in pieces of any size, and what damage and lies cost."""

import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket, UsageError
from tailrace.wire.compressed import Algorithm, ConnectionCompression, Decompressor, compressed
from tailrace.wire.packets import LARGEST, frame
from tests.cases import each_case

WAYS = [
    ConnectionCompression(Algorithm.ZLIB),
    ConnectionCompression(Algorithm.ZSTD),
    ConnectionCompression(Algorithm.ZSTD, 22),
]


def packet(body, length, sequence=0):
    """A compressed packet by the protocol's layout, whatever is in it."""
    return (
        len(body).to_bytes(3, "little") + bytes((sequence,)) + length.to_bytes(3, "little") + body
    )


def pack(way, plain):
    if way.algorithm is Algorithm.ZLIB:
        return zlib.compress(plain)
    return zstandard.ZstdCompressor(level=way.level).compress(plain)


def read(way, raw, step=1 << 20):
    decompressor, out = Decompressor(way, "a server"), b""
    for at in range(0, len(raw), step):
        decompressor.feed(raw[at : at + step])
        while (plain := decompressor.take()) is not None:
            assert plain
            out += plain
    assert decompressor.wanted == 7, "something is left"
    return out


@settings(deadline=None)
@given(
    st.sampled_from(WAYS),
    st.lists(st.binary(max_size=200) | st.integers(0, 3000).map(bytes)),
    st.integers(1, 40),
)
def test_what_is_sent_is_what_is_read(way, payloads, step):
    raw = b"".join(frame(payload, number & 0xFF) for number, payload in enumerate(payloads))
    assert read(way, compressed(raw, way), step) == raw


@each_case("way", WAYS)
def test_the_layout(way):
    small, large = frame(b"\x03SELECT 1"), frame(b"\x03" + b"x" * 500)
    assert compressed(small, way) == packet(small, 0)
    sent = compressed(large, way)
    assert sent == packet(pack(way, large), len(large))
    assert len(sent) < len(large)
    noise = frame(zlib.compress(bytes(range(256)) * 4))
    assert compressed(noise, way) == packet(noise, 0), "it would not become smaller"


@each_case("size", [LARGEST - 5, LARGEST - 4, LARGEST - 3, LARGEST + 3])
def test_a_packet_that_is_too_large_for_one(size):
    way = WAYS[0]
    raw = frame(b"a" * size)
    sent = compressed(raw, way)
    numbers, lengths, at = [], [], 0
    while at < len(sent):
        numbers.append(sent[at + 3])
        lengths.append(int.from_bytes(sent[at + 4 : at + 7], "little"))
        at += 7 + int.from_bytes(sent[at : at + 3], "little")
    assert numbers == list(range(len(numbers)))
    assert max(lengths) <= LARGEST
    assert read(way, sent) == raw


def test_each_command_begins_at_0():
    way = WAYS[0]
    first, second = frame(b"one"), frame(b"two")
    assert compressed(first + second, way) == packet(first, 0) + packet(second, 0)
    more = frame(b"three", 1)
    assert compressed(first + more, way) == packet(first, 0) + packet(more, 0, 1)


@each_case("raw", [b"\x01", b"\x05\0\0\0abc", frame(b"abc") + b"\x01\0"])
def test_only_whole_packets_are_sent(raw):
    with pytest.raises(UsageError, match="incomplete"):
        compressed(raw, WAYS[0])


HELLO = b"hello, hello, hello"
BROKEN = {
    "empty": lambda way: packet(b"", 0),
    "empty, of something": lambda way: packet(b"", 5),
    "shorter than it says": lambda way: packet(pack(way, HELLO), 20),
    "longer than it says": lambda way: packet(pack(way, HELLO), 18),
    "cut": lambda way: packet(pack(way, HELLO)[:-3], 19),
    "with more behind": lambda way: packet(pack(way, HELLO) + b"x", 19),
    "two streams": lambda way: packet(pack(way, HELLO) * 2, 38),
    "no stream": lambda way: packet(HELLO, 19),
    "16 MiB that say 50 bytes": lambda way: packet(pack(way, bytes(LARGEST)), 50),
    "more than 16 MiB": lambda way: packet(pack(way, bytes(LARGEST + 1)), LARGEST),
    "64 MiB": lambda way: packet(pack(way, bytes(64 << 20)), LARGEST),
}


@each_case("way", WAYS[:2])
@each_case("what", BROKEN)
def test_what_does_not_hold_what_it_says(way, what):
    raw = BROKEN[what](way)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedPacket, match="a server: a packet that is compressed by z"):
            read(way, raw)
        assert tracemalloc.get_traced_memory()[1] < 36 << 20
    finally:
        tracemalloc.stop()


def test_a_frame_of_zstd_that_lies_of_itself():
    way = WAYS[1]
    magic = b"\x28\xb5\x2f\xfd"
    huge = magic + b"\xe0" + (1 << 62).to_bytes(8, "little")  # a content of 2**62 bytes
    window = magic + b"\x00" + b"\xa8" + b"\x01\x00\x00"  # a window of 2 GiB; an empty last block
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    for body, length in ((huge, LARGEST), (window, 10), (skipped, 5), (magic, 4), (b"x", 1)):
        with pytest.raises(MalformedPacket):
            read(way, packet(body, length))
    unsaid = zstandard.ZstdCompressor(write_content_size=False).compress(b"hello" * 100)
    assert read(way, packet(unsaid, 500)) == b"hello" * 100


@settings(deadline=None)
@given(st.sampled_from(WAYS[:2]), st.binary(min_size=1, max_size=300), st.integers(0, LARGEST))
def test_noise_is_a_malformed_packet_or_plain(way, body, length):
    try:
        plain = read(way, packet(body, length))
    except MalformedPacket:
        return
    assert len(plain) == (length or len(body))


@each_case(
    ("text", "wanted"),
    [
        ("zlib", ConnectionCompression(Algorithm.ZLIB)),
        ("ZSTD", ConnectionCompression(Algorithm.ZSTD, 3)),
        ("zstd:1", ConnectionCompression(Algorithm.ZSTD, 1)),
        ("zstd:22", ConnectionCompression(Algorithm.ZSTD, 22)),
    ],
)
def test_what_may_be_asked_for(text, wanted):
    assert ConnectionCompression.parse(text) == wanted


@each_case(
    "text", ["", "gzip", "zlib:3", "zstd:", "zstd:0", "zstd:23", "zstd:x", "zstd:-1", "zstd:٣"]
)
def test_what_may_not(text):
    with pytest.raises(UsageError):
        ConnectionCompression.parse(text)
