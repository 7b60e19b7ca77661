import pytest

from tailrace.errors import TruncatedEvent
from tailrace.events import EventHeader
from tests.cases import each_case

HEADER = EventHeader(0x65000000, 19, 7, 62, 0x690, 0x80)
# 4 bytes timestamp, type, server id, length, end position, flags: all little-endian
RAW = bytes.fromhex("00000065 13 07000000 3e000000 90060000 8000")


def test_parse_and_encode_are_inverse():
    assert EventHeader.parse(RAW) == HEADER
    assert HEADER.encode() == RAW


def test_parse_takes_an_offset_and_a_memoryview():
    assert EventHeader.parse(memoryview(b"xx" + RAW + b"yy"), 2) == HEADER


@each_case("offset", [-1, 1, 19, 1000])
def test_an_offset_outside_is_refused(offset):
    with pytest.raises(TruncatedEvent):
        EventHeader.parse(RAW, offset)
