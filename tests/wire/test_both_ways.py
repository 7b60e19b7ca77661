"""All packets both ways: whole, cut short, with more behind, and whatever else comes."""

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket
from tailrace.gtid import GtidSet
from tailrace.wire.commands import LONGEST_NAME, BinlogDump, BinlogDumpGtid, RegisterReplica
from tailrace.wire.handshake import (
    AuthSwitch,
    Capability,
    Handshake,
    HandshakeResponse,
    OkPacket,
    TlsRequest,
    is_tls_request,
)
from tailrace.wire.packets import EndPacket, ErrorPacket, is_end, is_error
from tailrace.wire.semisync import Acknowledgement

U = "896e7882-18fe-11ef-ab88-22222d34d411"
V = "196e7882-18fe-11ef-ab88-22222d34d411"
U8, U16, U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))
NONCES = st.binary(min_size=20, max_size=20)
STATE = st.from_regex(r"[0-9A-Z]{5}", fullmatch=True)


def texts(most, least=0):
    letters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    text = st.text(letters, min_size=least, max_size=most)
    return text.filter(lambda given: len(given.encode()) <= most)


NAMES = texts(60)


@st.composite
def gtid_sets(draw):
    runs = {}
    for tsid in draw(
        st.sets(st.tuples(st.sampled_from([U, V]), st.sampled_from(["", "a_1", "z"])))
    ):
        starts = draw(st.sets(st.integers(1, 1000), min_size=1, max_size=5))
        runs[tsid] = [(start * 10, start * 10 + draw(st.integers(1, 10))) for start in starts]
    return GtidSet(runs)


@st.composite
def handshakes(draw):
    capabilities = draw(U32) | Capability.PLUGIN_AUTH
    extended = 0 if capabilities & Capability.LONG_PASSWORD else draw(U32)
    return Handshake(
        draw(NAMES),
        draw(U32),
        draw(NONCES),
        capabilities,
        draw(NAMES),
        draw(U8),
        draw(U16),
        extended,
    )


@st.composite
def responses(draw):
    capabilities = draw(U32) | Capability.PROTOCOL_41

    def has(bit):
        return capabilities & bit

    lenenc = has(Capability.PLUGIN_AUTH_LENENC)
    most = 500 if lenenc else 255
    answers = st.binary(max_size=most)
    if not lenenc and not has(Capability.SECURE_CONNECTION):
        answers = answers.map(lambda raw: raw.replace(b"\0", b"x"))
    return HandshakeResponse(
        capabilities,
        draw(NAMES),
        draw(answers),
        draw(NAMES) if has(Capability.PLUGIN_AUTH) else "",
        draw(NAMES) if has(Capability.CONNECT_WITH_DB) else "",
        draw(st.dictionaries(NAMES, NAMES, max_size=4)) if has(Capability.CONNECT_ATTRS) else {},
        draw(U32),
        draw(U8),
        0 if has(Capability.LONG_PASSWORD) else draw(U32),
    )


@st.composite
def requests(draw):
    capabilities = draw(U32) | Capability.SSL
    extended = 0 if capabilities & Capability.LONG_PASSWORD else draw(U32)
    return TlsRequest(capabilities, draw(U32), draw(U8), extended)


PACKETS = {
    Handshake: handshakes(),
    HandshakeResponse: responses(),
    TlsRequest: requests(),
    AuthSwitch: st.builds(AuthSwitch, NAMES, st.binary(min_size=1, max_size=32)),
    OkPacket: st.builds(OkPacket, U64, U64, U16, U16, st.binary(max_size=300)),
    ErrorPacket: st.builds(ErrorPacket, U16, STATE, st.text())
    | st.builds(ErrorPacket, U16, st.none() | STATE, st.text().filter(lambda s: s[:1] != "#")),
    EndPacket: st.builds(EndPacket, U16, U16),
    RegisterReplica: st.builds(
        RegisterReplica, U32, texts(255), texts(255), texts(255), U16, U32, U32
    ),
    BinlogDump: st.builds(BinlogDump, texts(LONGEST_NAME), U32, U32, U16),
    BinlogDumpGtid: st.builds(BinlogDumpGtid, gtid_sets(), U32, U16, texts(LONGEST_NAME), U64),
    Acknowledgement: st.builds(Acknowledgement, texts(LONGEST_NAME, 1), U64),
}
OPEN = {AuthSwitch: 2, OkPacket: 1, ErrorPacket: 3, BinlogDump: 11, Acknowledgement: 10}
"""How many bytes are needed of those whose last field goes to the end."""
EACH = pytest.mark.parametrize("kind", PACKETS)


@EACH
@settings(deadline=None)
@given(data=st.data())
def test_both_ways(kind, data):
    packet = data.draw(PACKETS[kind])
    raw = packet.encode()
    assert kind.decode(raw) == packet
    assert kind.decode(memoryview(bytearray(raw))) == packet
    if kind in (TlsRequest, HandshakeResponse):
        assert is_tls_request(raw) is (kind is TlsRequest)
    if kind in (ErrorPacket, EndPacket):
        assert (is_error(raw), is_end(raw)) == (kind is ErrorPacket, kind is EndPacket)


@EACH
@settings(deadline=None)
@given(data=st.data())
def test_cut_short_or_with_more_behind(kind, data):
    raw = data.draw(PACKETS[kind]).encode()
    at = data.draw(st.integers(0, len(raw) - 1))
    try:
        again = kind.decode(raw[:at])
    except MalformedPacket as error:
        if kind.__module__.endswith(("commands", "semisync")):
            assert re.match(r"(COM_\w+|an acknowledgement), byte \d+ of \d+: ", str(error))  # noqa: PT017 - one of two
    else:
        assert at >= OPEN[kind]
        assert kind is ErrorPacket or len(again.encode()) <= len(raw)
    if kind not in OPEN and kind is not Handshake:
        with pytest.raises(MalformedPacket, match="2 bytes follow"):
            kind.decode(raw + b"ab")


@EACH
@settings(deadline=None)
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(kind, raw):
    try:
        packet = kind.decode(raw)
    except MalformedPacket:
        return
    assert dataclasses.is_dataclass(packet)
