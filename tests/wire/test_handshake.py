"""A login's packets: both ways, whole, cut short, with more behind; and what servers and clients send."""

import dataclasses
import socket

from hypothesis import given, settings

from tailrace.wire.handshake import (
    AuthSwitch,
    Capability,
    Handshake,
    HandshakeResponse,
    more_data,
)
from tailrace.wire.packets import payloads
from tests.wire.test_both_ways import U32, responses


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


def test_more_data():
    assert more_data(b"\x04") == b"\x01\x04"


def test_a_response_hides_what_could_be_a_password():
    assert "proof" not in repr(HandshakeResponse(0, "u", b"proof"))
    assert "secret-nonce" not in repr(AuthSwitch("x", b"secret-nonce"))


# --- real servers --------------------------------------------------------------------------------


def test_a_real_servers_handshake(server):
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
