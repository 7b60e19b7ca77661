"""What a server may cost that says nothing, too little or too much: time, memory, an interrupt.

The hostile server is the campaign's (``tools/campaign/hostile/fake.py``), which has more of it.
"""

from __future__ import annotations

import socket
import threading
import time

import pytest

import tailrace
from tailrace.errors import ConnectionLost, MalformedPacket
from tailrace.live.arrivals import SIZE, Arrivals
from tailrace.live.connect import connect
from tailrace.live.feed import Feed
from tailrace.live.identity import Identity
from tailrace.live.session import OLDEST, Session
from tailrace.live.url import Source
from tailrace.replication.receiver import Receiver
from tools.campaign.hostile import fake
from tools.campaign.hostile.fake import OK, FakeServer, Talk, cell, column, header

SOON = 5.0
"""Seconds that mean at once, on a machine with much else to do; what is waited for takes longer."""


def silent(talk: Talk) -> None:
    talk.wait()


def drips(talk: Talk) -> None:
    talk.raw(header(50_000, talk.sequence))
    while True:
        talk.raw(b"\x01")
        time.sleep(0.02)


def drips_in_tls(talk: Talk) -> None:
    talk.raw(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB
    while True:
        talk.raw(b"\x02")
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("point", "turn"),
    [
        *(
            (point, turn)
            for point in ("greeting", "login", "SET NAMES")
            for turn in (silent, drips)
        ),
        ("tls", silent),
        ("tls", drips_in_tls),
    ],
)
def test_connect_timeout_is_for_the_connection_as_a_whole(point, turn):
    """Whatever the heartbeat, which says how long an answer may take later."""
    with FakeServer({point: turn}, tls=point == "tls") as server:
        given = Source.parse(server.url(), connect_timeout=0.3, heartbeat=30)
        began = time.monotonic()
        with pytest.raises(ConnectionLost):
            connect(given, given.hosts[0])
        assert time.monotonic() - began < SOON


def test_an_answer_that_drips_has_one_deadline():
    with FakeServer({"SHOW BINARY LOGS": drips}) as server:
        given = Source.parse(server.url(), connect_timeout=0.5, heartbeat=0.1)
        began = time.monotonic()
        with connect(given, given.hosts[0]) as connection, pytest.raises(ConnectionLost):
            connection.query("SHOW BINARY LOGS")
        assert time.monotonic() - began < SOON


@pytest.mark.parametrize("point", ["greeting", "login", "tls", "SELECT VERSION()", "SHOW REPLICAS"])
def test_close_ends_a_connection_that_is_being_made(point):
    there = threading.Event()

    def reached(talk: Talk) -> None:
        there.set()
        talk.wait()

    with FakeServer({point: reached}, tls=point == "tls") as server:
        feed = Feed(Source.parse(server.url(), connect_timeout=60, heartbeat=60))
        taken: list[object] = []
        thread = threading.Thread(target=lambda: taken.append(feed.take()), daemon=True)
        thread.start()
        assert there.wait(SOON)
        began = time.monotonic()
        feed.close()
        thread.join(SOON)
        assert time.monotonic() - began < SOON
        assert [repr(item) for item in taken] == [repr(tailrace.live.chunks.END)]


@pytest.mark.parametrize("start", ["now", "oldest"])
def test_stop_ends_a_receiver_that_connects(tmp_path, start):
    there = threading.Event()

    def reached(talk: Talk) -> None:
        there.set()
        talk.wait()

    with FakeServer({"SELECT VERSION()": reached}) as server:
        url = server.url(f"start={start}").replace("=0.5", "=60")
        receiver = Receiver(url, tmp_path / "copy")
        thread = threading.Thread(target=receiver.run, daemon=True)
        thread.start()
        assert there.wait(SOON)
        receiver.stop()
        thread.join(SOON)
        assert receiver.state == "stopped"


def test_the_addresses_of_a_host_share_the_time():
    """A host's addresses share the time: one that says nothing leaves some for the next."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        given = Source.parse(f"mysql://u@localhost:{port}/?connect_timeout=0.3")
        began = time.monotonic()
        with pytest.raises(ConnectionLost, match="in time"):
            connect(given, given.hosts[0])
        assert time.monotonic() - began < SOON


def endless(payload: bytes, *before: bytes):
    def turn(talk: Talk) -> None:
        for each in before:
            talk.send(each)
        while True:
            talk.send(payload)

    return turn


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (endless(column("c"), b"\xfc\xff\xff"), "more than 4096 columns"),
        (endless(cell("x" * 60_000), b"\x01", column("c"), fake.END), "more than 4194304 bytes"),
        (endless(OK[:3] + b"\x0a" + OK[4:]), "several results"),
    ],
)
def test_an_answer_without_end(turn, told):
    with FakeServer({"SHOW BINARY LOGS": turn}) as server:
        given = Source.parse(server.url(), connect_timeout=30)
        with (
            connect(given, given.hosts[0]) as connection,
            pytest.raises(MalformedPacket, match=told),
            connection.cursor() as cursor,
        ):
            cursor.execute("SHOW BINARY LOGS")


@pytest.mark.parametrize("payload", [b"", b"\x00", OK[:1] + b"\xfe" + OK[2:], b"\xfb/etc/passwd"])
def test_a_registration_that_is_answered_with_what_is_no_ok(payload):
    """The one command besides statements that is answered before the dump."""
    with FakeServer({"register": lambda talk: talk.send(payload)}) as server:
        source = Source.parse(server.url())
        with (
            Session.open(source, source.hosts[0], Identity()) as session,
            pytest.raises(MalformedPacket, match=f"mysql://u@127.0.0.1:{server.port}"),
        ):
            session.prepare(OLDEST)


def test_a_login_without_end():
    with FakeServer({"login": endless(b"\x01\x03")}) as server:
        given = Source.parse(server.url(), connect_timeout=30)
        with pytest.raises(MalformedPacket, match="more than 262144 bytes"):
            connect(given, given.hosts[0])


def test_memory_grows_with_what_comes():
    """Not with what was announced: 1 GiB, by the header of an event of which little is there."""
    near, far = socket.socketpair()
    with near, far:
        arrivals = Arrivals(near, name="a source", silence=0)
        far.sendall(bytes(1000))
        assert arrivals.fill(1000, 1 << 30, None)
        assert len(arrivals.data) < 2 * SIZE
        far.setblocking(True)
        sender = threading.Thread(target=far.sendall, args=(bytes(3 * SIZE),), daemon=True)
        sender.start()
        while not arrivals.fill(3 * SIZE, 1 << 30, time.monotonic() + SOON):
            pass
        assert len(arrivals.data) < 8 * SIZE
        arrivals.close()
        sender.join(SOON)
