"""A login's packets: both ways, whole, cut short, with more behind; and what servers and clients send."""

from __future__ import annotations

import dataclasses
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import MalformedPacket, UsageError
from tailrace.wire.handshake import (
    AuthSwitch,
    Capability,
    Handshake,
    HandshakeResponse,
    OkPacket,
    TlsRequest,
    is_tls_request,
    more_data,
)
from tailrace.wire.packets import payloads
from tests.cases import each_case

if TYPE_CHECKING:
    from tools.servers import Server

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
U8, U16, U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))
NONCES = st.binary(min_size=20, max_size=20)


@st.composite
def handshakes(draw) -> Handshake:
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
def responses(draw) -> HandshakeResponse:
    capabilities = draw(U32) | Capability.PROTOCOL_41
    has = lambda bit: capabilities & bit  # noqa: E731
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
def requests(draw) -> TlsRequest:
    capabilities = draw(U32) | Capability.SSL
    extended = 0 if capabilities & Capability.LONG_PASSWORD else draw(U32)
    return TlsRequest(capabilities, draw(U32), draw(U8), extended)


PACKETS = {
    Handshake: handshakes(),
    HandshakeResponse: responses(),
    TlsRequest: requests(),
    AuthSwitch: st.builds(AuthSwitch, NAMES, st.binary(min_size=1, max_size=32)),
    OkPacket: st.builds(OkPacket, U64, U64, U16, U16, st.binary(max_size=300)),
}


@pytest.mark.parametrize("kind", PACKETS)
@settings(deadline=None)
@given(data=st.data())
def test_both_ways(kind, data):
    packet = data.draw(PACKETS[kind])
    raw = packet.encode()
    assert kind.decode(raw) == packet
    assert kind.decode(memoryview(bytearray(raw))) == packet
    assert (kind is TlsRequest) == (kind is not HandshakeResponse or is_tls_request(raw)) or (
        kind not in (TlsRequest, HandshakeResponse)
    )


@pytest.mark.parametrize("kind", PACKETS)
@settings(deadline=None)
@given(data=st.data())
def test_cut_short_or_with_more_behind(kind, data):
    raw = data.draw(PACKETS[kind]).encode()
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    try:
        again = kind.decode(cut)
    except MalformedPacket:
        pass
    else:  # what ends with the packet may be shorter
        assert kind in (OkPacket, AuthSwitch)
        assert len(again.encode()) <= len(raw)
    if kind in (TlsRequest, HandshakeResponse):
        with pytest.raises(MalformedPacket):
            kind.decode(raw + b"x")


@pytest.mark.parametrize("kind", PACKETS)
@settings(deadline=None)
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(kind, raw):
    try:
        packet = kind.decode(raw)
    except MalformedPacket:
        return
    assert dataclasses.is_dataclass(packet)


@settings(deadline=None)
@given(packet=responses(), offered=U32)
def test_a_capability_that_was_not_offered_does_not_count(packet, offered):
    """A client lays its response out by what the source is capable of (libmysqlclient does)."""
    offered |= Capability.PROTOCOL_41 | Capability.LONG_PASSWORD
    laid = dataclasses.replace(packet, capabilities=packet.capabilities & offered)
    answer = packet.answer.replace(b"\0", b"")[:255]
    raw = dataclasses.replace(laid, answer=answer).encode()
    raw = packet.capabilities.to_bytes(4, "little") + raw[4:]
    found = HandshakeResponse.decode(raw, offered)
    assert found.capabilities == packet.capabilities & offered
    assert (found.user, found.answer) == (packet.user, answer)


@each_case(
    "wrong",
    [
        lambda: Handshake("8", 1, b"short", 0, "x").encode(),
        lambda: Handshake("8\0", 1, bytes(20), 0, "x").encode(),
        lambda: TlsRequest(1 << 32).encode(),
        lambda: HandshakeResponse(Capability.SECURE_CONNECTION, "u", bytes(256)).encode(),
        lambda: HandshakeResponse(0, "u\0", b"").encode(),
        lambda: AuthSwitch("x\0", b"").encode(),
    ],
)
def test_what_does_not_fit_is_rejected(wrong):
    with pytest.raises(UsageError):
        wrong()


def test_more_data():
    assert more_data(b"\x04") == b"\x01\x04"


def test_a_response_hides_what_could_be_a_password():
    assert "proof" not in repr(HandshakeResponse(0, "u", b"proof"))
    assert "secret-nonce" not in repr(AuthSwitch("x", b"secret-nonce"))


# --- real servers --------------------------------------------------------------------------------


def test_a_real_servers_handshake(server: Server):
    with socket.create_connection((server.host, server.port)) as sock:
        raw = sock.recv(1000)
    ((sequence, payload),) = payloads(raw)
    assert sequence == 0
    found = Handshake.decode(payload)
    assert found.version.removeprefix("5.5.5-") == server.version
    assert len(found.nonce) == 20
    assert found.capabilities & Capability.PLUGIN_AUTH
    assert bool(found.mariadb_capabilities) == (server.flavour == "mariadb")
    assert found.encode() == payload
