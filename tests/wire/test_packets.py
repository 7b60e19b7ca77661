"""Framing, and the packets that end a dump: both ways, whole, cut short, and with more behind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket, UsageError
from tailrace.wire.packets import (
    HEADER_SIZE,
    LARGEST,
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


def test_an_event_is_neither_error_nor_end():
    for payload in (b"", b"\0", b"\0\xff\xfe", b"\xfe" + bytes(8)):
        assert not is_error(payload)
        assert not is_end(payload)
