"""What a server may cost that says nothing, too little or too much: time, memory, an interrupt.

The hostile server is the campaign's (``tools/campaign/hostile/fake.py``), which has more of it.
"""

import gc
import math
import select
import socket
import struct
import sys
import tempfile
import threading
import time
from contextlib import ExitStack

import pytest

import tailrace
from tailrace.errors import ConnectionLost, MalformedPacket, ServerError
from tailrace.live.chunks import END
from tailrace.live.connect import connect
from tailrace.live.driver import SSCursor
from tailrace.live.dump import SIZE, Arrivals
from tailrace.live.feed import Feed
from tailrace.live.session import OLDEST
from tailrace.live.sockets import Patience
from tailrace.live.url import Source
from tailrace.observers import RelayIoObserver
from tailrace.replication.receiver import Receiver
from tailrace.wire.packets import LARGEST
from tests.cases import each_case
from tests.live.feeding import opened
from tests.waiting import DEADLINE, ended, in_thread
from tools.campaign.hostile import fake
from tools.campaign.hostile.fake import OK, FakeServer, cell, column, header, reaching

LONG = 10 * DEADLINE
"""Seconds that no test waits for: what ends sooner did not wait for that."""


def connected(server):
    given = Source.parse(server.url())
    return connect(given, given.hosts[0])


def silent(talk):
    talk.wait()


def drips(talk):
    talk.raw(header(50_000, talk.sequence))
    while True:
        talk.raw(b"\x01")
        time.sleep(0.02)


def drips_in_tls(talk):
    talk.raw(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB
    while True:
        talk.raw(b"\x02")
        time.sleep(0.02)


TURNS = [(point, turn) for point in ("greeting", "login", "SET NAMES") for turn in (silent, drips)]


@pytest.mark.slow
@each_case(("point", "turn"), [*TURNS, ("tls", silent), ("tls", drips_in_tls)])
def test_connect_timeout_is_for_the_connection_as_a_whole(point, turn):
    """Whatever the heartbeat, which says how long an answer may take later."""
    for server in reaching({point: turn}, tls=point == "tls"):
        given = Source.parse(server.url(), heartbeat=LONG)
        with pytest.raises(ConnectionLost):
            connect(given, given.hosts[0])


def test_an_answer_that_drips_has_one_deadline():
    for server in reaching({"SHOW BINARY LOGS": drips}):
        with (
            pytest.raises(ConnectionLost, match="in time"),
            connected(server) as connection,
        ):
            connection.query("SHOW BINARY LOGS")


def signalling():
    """A turn that says nothing, and the event that it sets when it is reached."""
    there = threading.Event()

    def reached(talk):
        there.set()
        talk.wait()

    return reached, there


@each_case("point", ["greeting", "login", "tls", "SELECT VERSION()", "SHOW REPLICAS"])
def test_close_ends_a_connection_that_is_being_made(point):
    reached, there = signalling()
    with FakeServer({point: reached}, tls=point == "tls") as server:
        feed = Feed(Source.parse(server.url(), connect_timeout=LONG, heartbeat=LONG))
        taking = in_thread(feed.take)
        assert there.wait(DEADLINE)
        feed.close()
        assert ended(taking) == [END]


def test_a_wait_ends_where_its_reader_was_closed_before():
    server, wake = socket.socketpair()
    with server:
        wake.close()
        with pytest.raises(ConnectionLost, match="the reader was closed"):
            Patience(wake).wait(server, select.POLLIN)


@each_case("start", ["now", "oldest"])
def test_stop_ends_a_receiver_that_connects(tmp_path, start):
    reached, there = signalling()
    with FakeServer({"SELECT VERSION()": reached}, connect_timeout=LONG) as server:
        receiver = Receiver(server.url(f"start={start}"), tmp_path / "copy", follow=True)
        thread = in_thread(receiver.run)
        assert there.wait(DEADLINE)
        receiver.stop()
        ended(thread)
        assert receiver.state == "stopped"


def test_the_addresses_of_a_host_share_the_time(monkeypatch):
    """One that takes no connection leaves half of the time for the next."""
    shares = []

    def first_is_over_soon(seconds):
        if shares or seconds > LONG / 2:
            return math.ceil(seconds * 1000)
        shares.append(seconds)
        return 300

    monkeypatch.setattr("tailrace.live.sockets._milliseconds", first_is_over_soon)
    with (
        socket.socket() as full,
        FakeServer(connect_timeout=LONG) as server,
        ExitStack() as waiting,
    ):
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # the queue is full then, and further ones get no answer
            sock = waiting.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        monkeypatch.setattr(
            socket, "getaddrinfo", resolver(full.getsockname(), ("127.0.0.1", server.port))
        )
        connected(server).close()
    assert shares[0] > LONG / 3


def resolver(*addresses):
    def getaddrinfo(*_, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]

    return getaddrinfo


class Resolver:
    """One that never finds a name; `asked` is set when it is asked."""

    def __init__(self, monkeypatch):
        self.asked = threading.Event()
        self.over = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, *_, **__):
        self.asked.set()
        self.over.wait(LONG)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")


@pytest.fixture
def resolver_in_silence(monkeypatch):
    found = Resolver(monkeypatch)
    yield found
    found.over.set()


@pytest.mark.usefixtures("resolver_in_silence")
def test_a_name_that_is_not_resolved_in_time():
    given = Source.parse("mysql://u@db.example/?connect_timeout=0.2")
    with pytest.raises(ConnectionLost, match=r"db\.example.* was not resolved"):
        connect(given, given.hosts[0])


def test_close_ends_the_wait_for_a_name(resolver_in_silence):
    feed = Feed(Source.parse(f"mysql://u@db.example/?connect_timeout={LONG}"))
    thread = in_thread(feed.take)
    assert resolver_in_silence.asked.wait(DEADLINE)
    feed.close()
    ended(thread)


def test_what_a_resolver_says(monkeypatch):
    def getaddrinfo(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    given = Source.parse("mysql://u@db.example/")
    with pytest.raises(ConnectionLost, match="cannot be reached: Name or service not known"):
        connect(given, given.hosts[0])


def test_a_connect_timeout_of_a_month():
    with FakeServer(connect_timeout=3_000_000) as server:
        connected(server).close()


def test_a_socket_that_another_thread_closed():
    near, far = socket.socketpair()
    with far:
        near.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            Patience().wait(near, select.POLLIN)


def test_an_answer_of_as_many_columns_as_a_table_may_have():
    def wide(talk):
        talk.result([f"c{number}" for number in range(4096)], [range(4096)] * 3)

    with (
        FakeServer({"SHOW BINARY LOGS": wide}) as server,
        connected(server) as connection,
        connection.cursor() as cursor,
    ):
        assert cursor.execute("SHOW BINARY LOGS") == 3
        assert list(map(int, cursor.fetchall()[2])) == list(range(4096))


def endless(payload, *before):
    def turn(talk):
        for each in before:
            talk.send(each)
        while True:
            talk.send(payload)

    return turn


ONE_COLUMN = (b"\x01", column("c"), fake.END)


@each_case(
    ("turn", "cursor", "told"),
    [
        (endless(column("c"), b"\xfc\xff\xff"), None, "more than 4096 columns"),
        (endless(cell("x" * 60_000), *ONE_COLUMN), None, "more than 4194304 bytes"),
        (endless(OK[:3] + b"\x0a" + OK[4:]), None, "several results"),
        (endless(column("c"), b"\xfc\xff\xff"), SSCursor, "it has more than 4096 columns"),
        (endless(column("c" * 60_000), b"\xfc\x00\x10"), SSCursor, "more than 4194304 bytes"),
    ],
)
def test_an_answer_without_end(turn, cursor, told):
    """Of rows that are read one by one: what is before them."""
    with (
        FakeServer({"SHOW BINARY LOGS": turn}) as server,
        connected(server) as connection,
        pytest.raises(MalformedPacket, match=told),
        connection.cursor(cursor) as executing,
    ):
        executing.execute("SHOW BINARY LOGS")


@pytest.fixture
def unraisable(monkeypatch):
    """What was raised where nobody hears it, as when an object goes."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda said: found.append(said.exc_value))
    return found


def parts_without_end(talk):
    """A row in packets of which none is the last."""
    for each in ONE_COLUMN:
        talk.send(each)
    while True:
        talk.raw(header((1 << 24) - 1, talk.sequence) + bytes((1 << 24) - 1))
        talk.sequence += 1


def test_rows_that_are_read_one_by_one_are_bounded_one_by_one(monkeypatch, unraisable):
    monkeypatch.setattr("tailrace.live.connect._ROW", 20 << 20)
    rows = endless(cell("x" * 60_000), *ONE_COLUMN)
    with FakeServer({"SELECT rows": rows, "SELECT row": parts_without_end}) as server:
        with connected(server) as connection:
            cursor = connection.cursor(SSCursor)
            cursor.execute("SELECT rows")
            for _ in range(50):  # 1 MB each
                assert 17 <= len(connection.parsed_rows(cursor, 100, 1_000_000)) <= 18
            assert len(connection.parsed_rows(cursor, 2, 1_000_000)) == 2
        with pytest.raises(ConnectionLost, match="is closed"):
            connection.parsed_rows(cursor, 2, 1_000_000)
        with connected(server) as connection:
            cursor = connection.cursor(SSCursor)
            cursor.execute("SELECT row")
            with pytest.raises(MalformedPacket, match="a row of it has more than 20971520 bytes"):
                connection.parsed_rows(cursor, 2, 1_000_000)
            cursor.close()
        del cursor, connection
        gc.collect()
    assert unraisable == []


def test_a_long_text_of_a_servers_error():
    """It is cut before its meaning is looked for: the patterns take time squared."""
    long = fake.error(1236, "HY000", "requested to start from GTID " * 40_000)
    with (
        FakeServer({"SHOW BINARY LOGS": lambda talk: talk.send(long)}) as server,
        opened(Source.parse(server.url())) as session,
        pytest.raises(ServerError, match="requested to start from GTID") as caught,
    ):
        session.logs()
    assert 1000 < len(str(caught.value)) < 1100
    assert len(str(caught.value.__cause__)) > 1_000_000


@each_case("payload", [b"", b"\x00", OK[:1] + b"\xfe" + OK[2:], b"\xfb/etc/passwd"])
def test_a_registration_that_is_answered_with_what_is_no_ok(payload):
    """The one command besides statements that is answered before the dump."""
    with (
        FakeServer({"register": lambda talk: talk.send(payload)}) as server,
        opened(Source.parse(server.url())) as session,
        pytest.raises(MalformedPacket, match=f"mysql://u@127.0.0.1:{server.port}"),
    ):
        session.prepare(OLDEST)


def test_a_login_without_end():
    with (
        FakeServer({"login": endless(b"\x01\x03")}) as server,
        pytest.raises(MalformedPacket, match="more than 262144 bytes"),
    ):
        connected(server)


def test_memory_grows_with_what_comes():
    """Not with what was announced: 1 GiB, by the header of an event of which little is there."""
    near, far = socket.socketpair()
    with near, far:
        arrivals = Arrivals(near, name="a source", silence=0)
        far.sendall(bytes(1000))
        assert arrivals.fill(1000, 1 << 30, None)
        assert len(arrivals.data) < 2 * SIZE
        far.setblocking(True)
        sender = in_thread(far.sendall, bytes(3 * SIZE))
        while not arrivals.fill(3 * SIZE, 1 << 30, time.monotonic() + DEADLINE):
            pass
        assert len(arrivals.data) < 8 * SIZE
        arrivals.close()
        ended(sender)


@each_case(
    ("size", "sent", "told", "connections"),
    [
        (1 << 30, 5, "has more than 16,777,215 bytes, but each of 3 connections", 3),
        (1 << 24, 5, "has more than 16,777,215 bytes, but each of 3 connections", 3),
        ((1 << 30) + 1, 5, "announces 1073741825 bytes, and", 1),
        (1 << 24, 1 << 20, "no connection for", None),
    ],
)
@pytest.mark.parametrize("reads", ["opens", "receives"])
@each_case("ends", [True, False])
@pytest.mark.slow
def test_a_large_event_that_does_not_come(size, sent, told, connections, ends, reads, tmp_path):
    """The retry time is for connections that break, and for those that are silent from the start."""
    dumps = []
    if reads == "receives" and size > 1 << 30:  # an observer may take off a prefix of each event
        told, connections = "each of 3 connections", 3

    def turn(talk):
        dumps.append(talk)
        head = struct.pack("<IBIIIH", 0, 30, 1, size, 0, 0)
        talk.raw(header(LARGEST, talk.sequence) + b"\0" + head + bytes(sent))
        if not ends:
            talk.wait()

    def read(url):
        if reads == "opens":
            list(tailrace.open(url))
        else:
            tailrace.receive(url, tempfile.mkdtemp(dir=tmp_path), observers=[RelayIoObserver()])

    retry = LONG if connections else 2
    with FakeServer({"events": turn}) as server:
        url = server.url().replace("retry=0", f"retry={retry}")
        with pytest.raises((MalformedPacket, ConnectionLost), match=told):
            read(url)
    assert connections in (len(dumps), None)
