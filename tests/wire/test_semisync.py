"""Semi-synchronous replication's two bytes and its acknowledgement, both ways."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket, UsageError
from tailrace.wire.semisync import Acknowledgement, event_of, unwrap, wrap
from tests.cases import each_case


@settings(deadline=None)
@given(st.binary(), st.booleans())
def test_unwrap_is_the_mirror_of_wrap(event, wanted):
    packet = memoryview(wrap(event, wanted))
    found, body = unwrap(packet)
    assert found is wanted
    assert body == event
    assert body.obj is packet.obj
    assert packet[:2] == bytes((0xEF, wanted))


@each_case(
    ("raw", "what"),
    [
        ("", "this one of 0 bytes with nothing"),
        ("ef", "this one of 1 bytes with EF"),
        ("ef02aa", "this one of 3 bytes with EF 02"),
        ("00ef01", "with 00 EF"),
    ],
)
def test_without_the_two_bytes(raw, what):
    with pytest.raises(MalformedPacket, match=what):
        unwrap(memoryview(bytes.fromhex(raw)))


def test_the_bytes_of_an_acknowledgement():
    assert Acknowledgement("binlog.000001", 0x1122334455).encode() == (
        bytes.fromhex("ef 5544332211000000") + b"binlog.000001"
    )


@each_case(
    ("raw", "what"),
    [
        (b"\x00" + bytes(8) + b"a", "its first byte is 0xEF, not 0x00"),
        (b"\xef" + bytes(8) + b"a\0", "byte 9 of 11: no log file's name"),
        (b"\xef" + bytes(8) + b"\xff", "not UTF-8"),
        (b"\xef" + bytes(8) + b"a" * 512, "no log file's name"),
    ],
)
def test_what_is_no_acknowledgement(raw, what):
    with pytest.raises(MalformedPacket, match=what):
        Acknowledgement.decode(raw)


@each_case(
    ("sent", "what"),
    [
        (Acknowledgement("", 4), "needs the log file's name"),
        (Acknowledgement("a" * 512, 4), "at most 511"),
        (Acknowledgement("a", 1 << 64), "the position must lie"),
    ],
)
def test_an_acknowledgement_that_has_no_form(sent, what):
    with pytest.raises(UsageError, match=what):
        sent.encode()


@each_case("begin", [bytes(4), b"\xef\0\0\0", b"\xef\1\x17\0"])
def test_event_of_a_record_with_the_two_bytes_and_without(begin):
    """Also of an event whose time stamp begins as they do."""
    event = begin + bytes(5) + (23).to_bytes(4, "little") + bytes(10)
    for record in (event, wrap(event, wanted=True), wrap(event, wanted=False)):
        assert event_of(memoryview(bytearray(record))) == event
