"""All packets both ways: whole, cut short, with more behind, and whatever else comes."""

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket, UsageError
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
from tests.cases import each_case

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


NO_NAME = "12 04000000 0000 07000000"
NO_FILE = "1e 0000 07000000 00000000 0400000000000000"


@each_case(
    ("kind", "raw", "what"),
    [
        (ErrorPacket, "", "byte 0 of 0: its first byte needs 1 bytes, 0 remain"),
        (ErrorPacket, "00d404", "its first byte is 0xFF, not 0x00"),
        (ErrorPacket, "ff", "the error code needs 2"),
        (ErrorPacket, "ffd4", "byte 1 of 2: the error code needs 2 bytes, 1 remain"),
        (ErrorPacket, "ffd40423", "the SQL state needs 5 bytes, 0 remain"),
        (ErrorPacket, "ffd40423485930", "the SQL state needs 5 bytes, 3 remain"),
        (ErrorPacket, "ffd4042348592d3030", "no SQL state"),
        (ErrorPacket, "ffd40423ffffffffff", "the SQL state is not UTF-8"),
        (Acknowledgement, "00" + "00" * 8 + "61", "its first byte is 0xEF, not 0x00"),
        (Acknowledgement, "ef" + "00" * 8 + "6100", "byte 9 of 11: no log file's name"),
        (Acknowledgement, "ef" + "00" * 8 + "ff", "not UTF-8"),
        (Acknowledgement, "ef" + "00" * 8 + "61" * 512, "no log file's name"),
        (RegisterReplica, "03" * 40, "byte 0 of 40: the command is 0x15, not 0x03"),
        (BinlogDump, "03" * 40, "byte 0 of 40: the command is 0x12, not 0x03"),
        (BinlogDump, f"{NO_NAME} ff", "the log file's name is not UTF-8"),
        (BinlogDump, NO_NAME + "61" * 512, "name of 512 bytes"),
        (BinlogDumpGtid, "03" * 40, "byte 0 of 40: the command is 0x1E, not 0x03"),
        (
            BinlogDumpGtid,
            "1e 0000 07000000 00020000" + "61" * 600,
            "byte 11 of 611: a log file's name of 512",
        ),
        (BinlogDumpGtid, f"{NO_FILE} 00000000", "a GTID set needs 8 bytes, 0"),
        (
            BinlogDumpGtid,
            f"{NO_FILE} 08000000 0100000000000000",
            "byte 23 of 31: the GTID set ends inside a source",
        ),
        (BinlogDumpGtid, f"{NO_FILE} 09000000 {'00' * 9}", "1 bytes follow the GTID set"),
    ],
)
def test_malformed(kind, raw, what):
    with pytest.raises(MalformedPacket, match=what):
        kind.decode(bytes.fromhex(raw))


@each_case(
    ("packet", "what"),
    [
        (ErrorPacket(1 << 16, None, ""), "code must lie between 0 and 65535, not 65536"),
        (ErrorPacket(1, "HY00", ""), "five"),
        (ErrorPacket(1, "HY-00", ""), "five"),
        (ErrorPacket(1, None, "#1 is gone"), "begins with #"),
        (EndPacket(1 << 16), "65535"),
        (EndPacket(0, -1), "65535"),
        (Acknowledgement("", 4), "needs the log file's name"),
        (Acknowledgement("a" * 512, 4), "at most 511"),
        (Acknowledgement("a", 1 << 64), "the position must lie"),
        (BinlogDump("", 1 << 32, 7, 0), "the position must lie between 0 and 4294967295"),
        (BinlogDump("", 4, -1, 0), "the server id must lie"),
        (BinlogDump("", 4, 7, 1 << 16), "the flags must lie"),
        (BinlogDump("a" * 512, 4, 7, 0), "name has at most 511 bytes, none of them 0; 512 were"),
        (BinlogDump("é" * 256, 4, 7, 0), "512 were given"),
        (BinlogDump("a\0b", 4, 7, 0), "none of them 0"),
        (BinlogDump("\ud800", 4, 7, 0), "UTF-8"),
        (BinlogDump(b"binlog.000001", 4, 7, 0), "is text, not bytes"),
        (BinlogDump("", "4", 7, 0), "the position is a whole number, not '4'"),
        (BinlogDump("", True, 7, 0), "the position is a whole number, not True"),
        (BinlogDumpGtid(GtidSet(), 7, 0, "", 1 << 64), "the position must lie"),
        (BinlogDumpGtid(f"{U}:1", 7, 0), "gtids is a GtidSet, not str"),
        (RegisterReplica(1 << 32), "the server id must lie"),
        (RegisterReplica(7, "h" * 256), "the host has at most 255"),
        (RegisterReplica(7, port=65536), "the port must lie"),
        (Handshake("8", 1, b"short", 0, "x"), None),
        (Handshake("8\0", 1, bytes(20), 0, "x"), None),
        (TlsRequest(1 << 32), None),
        (HandshakeResponse(Capability.SECURE_CONNECTION, "u", bytes(256)), None),
        (HandshakeResponse(0, "u\0", b""), None),
        (AuthSwitch("x\0", b""), None),
    ],
)
def test_what_no_field_holds(packet, what):
    with pytest.raises(UsageError, match=what):
        packet.encode()
