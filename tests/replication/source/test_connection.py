"""A replica's connection: packets both ways, in two threads, until one side ends it."""

import socket
import ssl
import time
from contextlib import suppress

import pytest

from tailrace.errors import ConnectionLost, MalformedPacket
from tailrace.replication.source.connection import (
    LONGEST_COMMAND,
    PartialPackets,
    ReplicaConnection,
)
from tailrace.wire.packets import LARGEST, frame, payloads
from tests.waiting import DEADLINE, ended, in_thread, wait_for


class Ends:
    """A connection, and the replica's end of it."""

    def __init__(self, ours, theirs, **settings):
        theirs.settimeout(DEADLINE)
        self.theirs = theirs
        self.connection = ReplicaConnection(
            ours, user="repl", host="127.0.0.1", port=4711, thread_id=7, **settings
        )

    def received(self, size):
        got = bytearray()
        while len(got) < size:
            piece = self.theirs.recv(size - len(got))
            assert piece, "it was closed"
            got += piece
        return bytes(got)


@pytest.fixture(scope="module")
def contexts(certificate):
    authority, cert, key = certificate
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=authority)


def _pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    return ours, theirs


@pytest.fixture(params=["plain", "tls"])
def make(request, contexts):
    made = []

    def start(**settings):
        ours, theirs = _pair()
        if request.param == "tls":
            wrapping = in_thread(contexts[0].wrap_socket, ours, server_side=True)
            theirs = contexts[1].wrap_socket(theirs, server_hostname="localhost")
            (ours,) = ended(wrapping)
        ends = Ends(ours, theirs, **settings)
        made.append(ends)
        return ends

    yield start
    for ends in made:
        ends.connection.release()
        ends.theirs.close()


def test_a_command_and_its_answer(make):
    ends = make()
    ends.theirs.sendall(frame(b"\x03SELECT 1", 0))
    assert ends.connection.read_command() == b"\x03SELECT 1"
    ends.connection.write(b"one")
    ends.connection.write(b"two")
    ends.connection.flush()
    assert list(payloads(ends.received(14))) == [(1, b"one"), (2, b"two")]
    assert ends.connection.sequence == 3
    ends.connection.sequence = 255  # 0 follows; and what was framed already what was written
    ends.connection.write(b"a")
    ends.connection.write(b"b")
    ends.connection.send(frame(b"c", 1))
    assert list(payloads(ends.received(15))) == [(255, b"a"), (0, b"b"), (1, b"c")]


def test_a_payload_over_16_mib_both_ways(make):
    ends = make()
    payload = bytes(range(256)) * (LARGEST // 256 + 10)
    sender = in_thread(ends.theirs.sendall, frame(payload, 0))
    assert ends.connection.read_command() == payload
    assert ends.connection.sequence == 2
    ended(sender)
    sender = in_thread(lambda: (ends.connection.write(payload), ends.connection.flush()))
    assert list(payloads(ends.received(len(payload) + 8))) == [(2, payload)]
    ended(sender)
    assert ends.connection.sequence == 4


def test_a_packet_that_comes_byte_by_byte(make):
    ends = make()
    raw = frame(b"\x0e") + frame(b"\x01")
    for at in range(len(raw)):
        assert ends.connection.poll() is None or at in (5, 6, 7, 8, 9)
        ends.theirs.sendall(raw[at : at + 1])
        time.sleep(0.001)
        if at == 4:
            wait_for(lambda: ends.connection.poll() == b"\x0e")
    wait_for(lambda: ends.connection.poll() == b"\x01")


def test_poll_and_pending_do_not_wait(make):
    """What TLS has decrypted, or what was read with the packet before, no selector shows."""
    ends = make()
    assert ends.connection.poll() is None
    assert not ends.connection.pending()
    ends.theirs.sendall(frame(b"one") + frame(b"two"))
    wait_for(lambda: ends.connection.poll() == b"one")
    assert ends.connection.pending()
    assert ends.connection.poll() == b"two"
    assert not ends.connection.pending()


def test_one_thread_sends_while_another_reads(make):
    """As a dump and its acknowledgements do."""
    ends = make()
    block, count = b"".join(frame(bytes(1000), at % 256) for at in range(256)), 64

    def client():
        for at in range(count):
            assert ends.received(len(block)) == block
            ends.theirs.sendall(frame(b"acknowledged %d" % at))

    answering = in_thread(client)
    reading = in_thread(lambda: [ends.connection.read() for _ in range(count)])
    for _ in range(count):
        ends.connection.send(block)
    _, read = ended(answering, reading)
    assert read == [b"acknowledged %d" % at for at in range(count)]
    assert ends.connection.sequence == 0  # an acknowledgement does not number what is sent


def test_the_client_ends_it(make):
    ends = make()
    assert not ends.connection.is_gone()
    ends.theirs.close()
    wait_for(ends.connection.is_gone)
    with pytest.raises(ConnectionLost, match=r"repl@127\.0\.0\.1:4711"):
        ends.connection.read()
    with pytest.raises(ConnectionLost):
        ends.connection.send(b"x")


def test_is_gone_eats_nothing_and_sees_the_end_behind_what_is_unread(make):
    ends = make()
    ends.theirs.sendall(frame(b"\xefacknowledged"))
    for _ in range(100):
        assert not ends.connection.is_gone()
    ends.theirs.sendall(frame(b"\x01"))
    ends.theirs.close()
    wait_for(ends.connection.is_gone)
    assert ends.connection.poll() == b"\xefacknowledged"


@pytest.mark.parametrize("call", ["read", "send"])
def test_another_thread_closes_it(make, call):
    ends = make()

    def run():
        while True:
            ends.connection.read() if call == "read" else ends.connection.send(bytes(1 << 20))

    running = in_thread(run)
    time.sleep(0.2)
    ends.connection.close("an administrator killed it")
    with pytest.raises(ConnectionLost, match="an administrator killed it"):
        ended(running)
    ends.connection.write(b"x")
    for method, given in (("poll", []), ("flush", []), ("read", []), ("send", [b"x"])):
        with pytest.raises(ConnectionLost):
            getattr(ends.connection, method)(*given)
    assert ends.connection.is_gone()


def test_a_client_that_reads_nothing(make):
    ends = make(write_timeout=0.3)
    with pytest.raises(ConnectionLost, match="read nothing"):
        ends.connection.send(bytes(100 << 20))


def test_a_client_that_says_nothing(make):
    ends = make()
    with pytest.raises(ConnectionLost, match="sent nothing"):
        ends.connection.read_command(timeout=0.1)


def test_too_large_a_packet_is_rejected_before_its_bytes_are_kept(make):
    ends = make()

    def flood():
        for at in range(LONGEST_COMMAND // LARGEST + 1):
            ends.theirs.sendall(b"\xff\xff\xff" + bytes([at]) + bytes(LARGEST))

    flooding = in_thread(flood)
    with pytest.raises(MalformedPacket):
        ends.connection.read()
    ends.connection.release()  # which ends the other side's sending
    with suppress(OSError):
        ended(flooding)


def test_what_a_closed_connection_still_holds_counts():
    """Another one waits until it is released: together they never hold more."""
    partial = PartialPackets(1 << 20)
    ends = [Ends(*socket.socketpair(), partial=partial) for _ in range(2)]
    first, second = (each.connection for each in ends)
    partial.hold(first, 900_000)
    waiting = in_thread(partial.hold, second, 800_000)
    wait_for(lambda: first.is_closed)
    assert not waiting.done()
    assert not second.is_closed
    first.release()
    ended(waiting)
    partial.hold(second, 2 << 20)
    assert second.is_closed
    second.release()
