"""Framing, and the packets that end a dump: both ways, whole, cut short, and with more behind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket, UsageError
from tailrace.wire.packets import (
    HEADER_SIZE,
    LARGEST,
    EndPacket,
    ErrorPacket,
    frame,
    is_end,
    is_error,
    payloads,
)
from tests.cases import each_case


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300))))
def test_payloads_is_the_mirror_of_frame(packets):
    raw = b"".join(frame(payload, sequence) for sequence, payload in packets)
    assert list(payloads(raw)) == packets
    assert len(raw) == sum(HEADER_SIZE + len(payload) for _, payload in packets)


def test_a_header_is_three_bytes_of_length_and_one_of_sequence():
    assert frame(b"abc", 7) == bytes.fromhex("03000007") + b"abc"
    assert frame(b"") == bytes(4)


@each_case(
    ("size", "lengths"),
    [
        (LARGEST - 1, [LARGEST - 1]),
        (LARGEST, [LARGEST, 0]),
        (LARGEST + 1, [LARGEST, 1]),
        (2 * LARGEST, [LARGEST, LARGEST, 0]),
        (2 * LARGEST + 5, [LARGEST, LARGEST, 5]),
    ],
)
def test_what_is_too_large_for_one_packet_goes_on_in_the_next(size, lengths):
    payload = b"ab" * (size // 2) + b"c" * (size % 2)
    raw = frame(payload, 254)
    found, at = [], 0
    for number in range(len(lengths)):
        length = int.from_bytes(raw[at : at + 3], "little")
        assert raw[at + 3] == (254 + number) % 256
        found.append(length)
        at += HEADER_SIZE + length
    assert found == lengths
    assert at == len(raw)
    assert list(payloads(raw)) == [(254, payload)]


@each_case("cut", [1, 3, 4, 6])
def test_a_packet_that_is_not_there_whole(cut):
    raw = frame(b"whole") + frame(b"cut")[:cut]
    with pytest.raises(MalformedPacket, match=r"at byte 9 of .* incomplete"):
        list(payloads(raw))


def test_a_payload_that_does_not_go_on():
    raw = frame(bytes(LARGEST))
    with pytest.raises(MalformedPacket, match="incomplete"):
        list(payloads(raw[:-HEADER_SIZE]))
    with pytest.raises(MalformedPacket, match="number 9, after 1 from 0 on"):
        list(payloads(raw[:-1] + b"\x09"))


@each_case("sequence", [-1, 256, True, 1.0])
def test_a_sequence_number_has_a_byte(sequence):
    with pytest.raises(UsageError, match="sequence number"):
        frame(b"", sequence)


def test_an_error_as_a_server_sends_it():
    raw = bytes.fromhex("ffd404") + b"#HY000" + "Datei «a» fehlt".encode()
    assert ErrorPacket.decode(raw) == ErrorPacket(1236, "HY000", "Datei «a» fehlt")
    too_early = bytes.fromhex("ff1004") + b"Too many connections"
    assert ErrorPacket.decode(too_early) == ErrorPacket(1040, None, "Too many connections")


def test_a_message_in_another_character_set_can_be_read():
    raw = bytes.fromhex("ffd404") + b"#HY000caf\xe9"
    assert ErrorPacket.decode(raw).message == r"caf\xe9"


@each_case(
    ("raw", "what"),
    [
        ("", "byte 0 of 0: its first byte needs 1 bytes, 0 remain"),
        ("00d404", "its first byte is 0xFF, not 0x00"),
        ("ff", "the error code needs 2"),
        ("ffd4", "byte 1 of 2: the error code needs 2 bytes, 1 remain"),
        ("ffd40423", "the SQL state needs 5 bytes, 0 remain"),
        ("ffd40423485930", "the SQL state needs 5 bytes, 3 remain"),
        ("ffd4042348592d3030", "no SQL state"),
        ("ffd40423ffffffffff", "the SQL state is not UTF-8"),
    ],
)
def test_what_is_no_error_packet(raw, what):
    with pytest.raises(MalformedPacket, match=what):
        ErrorPacket.decode(bytes.fromhex(raw))


@each_case(
    ("packet", "what"),
    [
        (ErrorPacket(1 << 16, None, ""), "code must lie between 0 and 65535, not 65536"),
        (ErrorPacket(1, "HY00", ""), "five"),
        (ErrorPacket(1, "HY-00", ""), "five"),
        (ErrorPacket(1, None, "#1 is gone"), "begins with #"),
    ],
)
def test_an_error_that_has_no_form(packet, what):
    with pytest.raises(UsageError, match=what):
        packet.encode()


@each_case("packet", [EndPacket(1 << 16), EndPacket(0, -1)])
def test_an_end_that_has_no_form(packet):
    with pytest.raises(UsageError, match="65535"):
        packet.encode()


def test_an_event_is_neither_error_nor_end():
    for payload in (b"", b"\0", b"\0\xff\xfe", b"\xfe" + bytes(8)):
        assert not is_error(payload)
        assert not is_end(payload)
