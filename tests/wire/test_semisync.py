"""Semi-synchronous replication's two bytes and its acknowledgement, both ways."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket
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


@each_case("begin", [bytes(4), b"\xef\0\0\0", b"\xef\1\x17\0"])
def test_event_of_a_record_with_the_two_bytes_and_without(begin):
    """Also of an event whose time stamp begins as they do."""
    event = begin + bytes(5) + (23).to_bytes(4, "little") + bytes(10)
    for record in (event, wrap(event, wanted=True), wrap(event, wanted=False)):
        assert event_of(memoryview(bytearray(record))) == event
