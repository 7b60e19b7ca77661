"""The connection service: on real connections, before and while a dump runs; and its sending."""

import socket
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from tailrace.errors import ConnectionLost, LocalProtocolError, ServerError
from tailrace.live.net import NetService
from tailrace.live.stream import BinlogStream
from tailrace.wire.packets import payloads
from tests.cases import each_case
from tests.live.dumps import connect
from tests.waiting import DEADLINE, ended, in_thread, wait_for


@pytest.fixture
def pairs():
    """Two ends of a connection with small buffers, each time."""
    with ExitStack() as stack:

        def make():
            ours, theirs = map(stack.enter_context, socket.socketpair())
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            return ours, theirs

        yield make


def _service(sock, **settings):
    connection = SimpleNamespace(_sock=sock, _rfile=None, open=True, thread_id=lambda: 1)
    return NetService(connection, "the source", **settings)


def test_mysql_net_read_and_write_before_a_dump(flavour_server):
    server = flavour_server
    with server.connect() as connection:
        service = NetService(connection, "the source")
        assert list(service.query("SELECT 1, 'a' UNION SELECT 2, 'b'")) == [(1, "a"), (2, "b")]
        assert list(service.query("SET @x = 5")) == []
        with pytest.raises(ServerError, match="the source: ") as caught:
            service.query("SELECT @@global.no_such_variable")
        assert caught.value.code == 1193
        connection._next_seq_id = 1
        service.write(b"\x0e")  # COM_PING
        service.flush()
        assert service.read()[0] == 0
        connection._next_seq_id = 1
        service.write(b"\x03SELECT nonsense nonsense nonsense")
        service.flush()
        with pytest.raises(ServerError, match="the source: ") as caught:
            service.read()
        assert caught.value.code == 1064


def test_while_a_dump_runs_only_writing(flavour_server):
    server = flavour_server
    with connect(server) as connection:
        service = NetService(connection, "the source")
        stream = BinlogStream.open(connection, server_id=77)
        assert stream.fetch()
        with pytest.raises(LocalProtocolError):
            service.query("SELECT 1")
        with pytest.raises(LocalProtocolError):
            service.read()
        service.write(b"\xef")
        service.flush()
        stream.close()


def test_kill_ends_the_servers_thread(flavour_server):
    server = flavour_server
    with connect(server) as connection:
        service = NetService(connection, "the source")
        thread = connection.thread_id()
        last = server.binlogs()[-1].name
        stream = BinlogStream.open(connection, filename=last, server_id=7070)
        assert thread in {row[0] for row in server.query("SHOW PROCESSLIST")}
        service.kill()
        with pytest.raises(ConnectionLost):
            for _ in stream:
                pass
        wait_for(
            lambda: thread not in {row[0] for row in server.query("SHOW PROCESSLIST")},
            "the thread's end",
        )
        stream.close()
    service.kill()  # gone already, and the connection closed


def test_kill_at_a_server_that_is_gone(fresh_server):
    source = fresh_server("mariadb-11.8")
    service = NetService(source.connect(), "the source")
    source.stop()
    with pytest.raises(ConnectionLost, match="the source"):
        service.kill()


def test_a_closed_connection_has_no_service(mysql97):
    connection = mysql97.connect()
    connection.close()
    with pytest.raises(LocalProtocolError, match="the connection to the source is closed"):
        NetService(connection, "the source")


def test_mysql_net_write_waits_for_mysql_net_flush_or_a_full_buffer():
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    service = _service(ours)
    service.write(b"one")
    service.write(b"two", 5)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    service.flush()
    assert list(payloads(theirs.recv(100))) == [(0, b"one"), (5, b"two")]
    service.flush()
    for _ in range(200):
        service.write(b"x" * 96)
    assert theirs.recv(1)
    ours.close()
    theirs.close()


@each_case("timeout", [None, 0.0, DEADLINE])
def test_all_is_sent_whatever_the_sockets_timeout(pairs, timeout):
    ours, theirs = pairs()
    ours.settimeout(timeout)
    service = _service(ours)
    got = bytearray()

    def read():
        while data := theirs.recv(1000):
            got.extend(data)

    thread = in_thread(read)
    packet = bytes(range(256)) * 4000
    service.write(packet)
    service.flush()
    ours.shutdown(socket.SHUT_WR)
    ended(thread)
    assert list(payloads(got)) == [(0, packet)]
    assert ours.gettimeout() == timeout


def test_a_source_that_takes_nothing_is_lost_and_its_reader_finds_out(pairs):
    ours, theirs = pairs()
    ours.setblocking(False)
    service = _service(ours, patience=0.05)
    service.write(b"x" * (8 << 20))
    with pytest.raises(ConnectionLost, match=r"the source: .*longer than 0.05 s in total"):
        service.flush()
    assert ours.recv(1) == b""  # the stream's end, for whoever reads
    del theirs


def test_a_source_that_is_gone_is_lost(pairs):
    ours, theirs = pairs()
    theirs.close()
    service = _service(ours)
    with pytest.raises(ConnectionLost, match="the source: cannot be written to"):  # noqa: PT012
        for _ in range(3):
            service.write(b"x")
            service.flush()
