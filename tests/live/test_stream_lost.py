"""A stream whose connection goes: what it says, and what the connection can do then."""

import socket
import time
from contextlib import contextmanager

import pytest

from tailrace.errors import ConnectionLost, LocalProtocolError, MalformedPacket
from tailrace.live.connect import connect as server_connection
from tailrace.live.stream import BinlogStream
from tailrace.live.url import Source
from tailrace.wire.packets import LARGEST, frame, payloads
from tests.cases import each_case
from tests.live.dumps import ALL, connect, events_of, is_artificial, write_log
from tests.waiting import ended, in_thread, wait_for

ID = 4713


@pytest.fixture
def waiting(server):
    """A stream at the end of the log, which waits for more."""
    connection = connect(server)
    yield at_the_end(server, connection)
    if connection.open:
        connection.close()


def at_the_end(server, connection):
    server.settle()  # nothing comes that the test does not make
    current = server.binlogs()[-1]
    stream = BinlogStream.open(
        connection, filename=current.name, position=current.stat().st_size, server_id=ID
    )
    assert [stream.fetch()[4], stream.fetch()[4]] == [4, 15]
    return stream


def check_is_lost(stream):
    """Nothing more can be had; nothing else can be sent; the close is clean."""
    assert (stream.buffer, stream.size) == (None, -1)
    with pytest.raises(LocalProtocolError, match="fetch: the stream ended with an error"):
        stream.fetch()
    with pytest.raises(LocalProtocolError):
        stream.connection.query("SELECT 1")
    assert not stream.connection.open
    stream.close()
    stream.connection.close()


def test_killed_by_the_server(server, waiting):
    server.execute(f"KILL {waiting.connection.thread_id()}")
    with pytest.raises(ConnectionLost, match=f"127.0.0.1:{server.port}"):
        list(waiting)
    check_is_lost(waiting)


def test_nothing_came_in_time(server):
    connection = connect(server)
    stream = at_the_end(server, connection)
    connection._read_timeout = 0.3
    connection._sock.settimeout(0.3)
    began = time.monotonic()
    with pytest.raises(ConnectionLost, match=r"sent nothing for 0\.3 s \(the connection's read_t"):
        stream.fetch()
    assert time.monotonic() - began > 0.25
    check_is_lost(stream)


def test_the_command_cannot_be_sent(server):
    connection = connect(server)
    connection._sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectionLost, match="the request for the dump was not sent"):
        BinlogStream.open(connection, server_id=ID, announce_checksum=False)
    assert not connection.open
    connection.close()


def waiting_thread(stream):
    """A thread that fetches, and has begun to."""
    fetching = in_thread(stream.fetch)
    wait_for(lambda: stream.size == -1)
    return fetching


@each_case("closes", ["stream", "connection"])
@each_case("tls", [False, True])
@each_case("of", ["pymysql", "tailrace"])
def test_close_wakes_a_fetch_of_another_thread(server, of, tls, closes):
    """WL#7672, FR3: closing the stream or its connection ends the wait at once."""
    if of == "pymysql":
        connection = connect(server, ssl_disabled=not tls)
    else:
        mode = "PREFERRED" if tls else "DISABLED"  # MariaDB 10.11 has none
        source = Source.parse(f"mysql://root@127.0.0.1:{server.port}/?ssl_mode={mode}")
        connection = server_connection(source, source.hosts[0])
        connection.query("SET @source_binlog_checksum='CRC32', @master_binlog_checksum='CRC32'")
        connection.query("SET @mariadb_slave_capability=4")
    stream = at_the_end(server, connection)
    fetching = waiting_thread(stream)
    ended(in_thread({"stream": stream, "connection": connection}[closes].close))
    if closes == "stream":
        assert ended(fetching) == [None]
        assert (stream.buffer, stream.size) == (None, 0)
        connection.close()
    else:
        told = f"^the connection to 127.0.0.1:{server.port} was closed$"
        with pytest.raises(LocalProtocolError, match=told):
            ended(fetching)
        assert (stream.buffer, stream.size) == (None, -1)
    with pytest.raises(
        LocalProtocolError, match=r"fetch: the stream (was closed|ended with an er)"
    ):
        stream.fetch()
    stream.close()
    assert not connection.open


class Undecrypted:
    """A connection's reader that is closed as it reads: TLS then gives what it did not decrypt."""

    def __init__(self, connection):
        self._connection = connection

    def read(self, size):
        if size == 4:
            return b"\x08\0\0\1"
        ended(in_thread(self._connection.close))
        return b"\x17" * size

    def close(self):
        pass


def test_what_is_read_as_the_connection_is_closed_is_no_record(server):
    connection = connect(server)
    connection._rfile = Undecrypted(connection)
    stream = BinlogStream(connection, server_id=ID, announce_checksum=False)
    with pytest.raises(LocalProtocolError, match=f"127.0.0.1:{server.port} was closed"):
        stream.fetch()


def test_close_ends_a_loop_over_records(server):
    """Also where the loop was not waiting, but at work."""
    log = write_log(server)
    connection = connect(server)
    stream = BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL)
    count = 0
    for count, _ in enumerate(stream, 1):
        if count == 3:
            ended(in_thread(stream.close))
    assert count == 3
    connection.close()


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_the_server_shuts_down(fresh_server, name):
    server = fresh_server(name)
    stream = at_the_end(server, connect(server))
    stopped = in_thread(server.stop, keep=True)
    with pytest.raises(ConnectionLost):
        list(stream)
    check_is_lost(stream)
    server.kill()  # MySQL goes on waiting for its dump threads for some seconds
    ended(stopped)


# --- what no server sends ------------------------------------------------------------------------


@contextmanager
def fed(server, *packets):
    """A stream that is sent these bytes in place of a server's, and is lost in the end."""
    connection = connect(server, ssl_disabled=True)
    ours, theirs = socket.socketpair()
    connection._sock.close()
    connection._rfile.close()
    connection._sock, connection._rfile = ours, ours.makefile("rb")
    stream = BinlogStream(connection, server_id=ID, flags=ALL, announce_checksum=False)

    def send():
        with theirs:
            theirs.recv(100)  # the command; what is not read would reset the connection
            theirs.sendall(b"".join(packets))

    sending = in_thread(send)
    yield stream
    check_is_lost(stream)
    ended(sending)


@each_case(
    ("packet", "what"),
    [
        (frame(b""), "a record of 0 bytes that begins with nothing"),
        (frame(b"\x01abc"), "a record of 4 bytes that begins with 01 61 62 63 is neither an ev"),
        (frame(b"\xfe" + bytes(8)), "a record of 9 bytes"),
        (frame(b"\xff\x01"), "a record of 2 bytes that begins with ff 01 is neither"),
        (frame(bytes(LARGEST))[:-1] + b"\x05", r"packet 5 does not continue packet 0"),
    ],
)
def test_what_is_no_record(mysql97, packet, what):
    with fed(mysql97, packet) as stream, pytest.raises(MalformedPacket, match=what):
        stream.fetch()


@each_case("cut", [0, 2, 4, 10])
def test_ended_in_mid_packet(mysql97, cut):
    event = bytes(19)
    with fed(mysql97, frame(b"\0" + event), frame(b"\0" + event, 1)[:cut]) as stream:
        assert stream.fetch() == event
        with pytest.raises(ConnectionLost, match="ended the connection without an error message"):
            stream.fetch()


# --- detach --------------------------------------------------------------------------------------


@each_case("tls", [False, True])
def test_detach_hands_over_the_socket_with_all_that_comes(server, tls):
    log = write_log(server)
    connection = connect(server, read_timeout=9, ssl_disabled=not tls)
    stream = BinlogStream.open(connection, filename=log.name, server_id=ID, flags=ALL)
    sock = stream.detach()
    assert sock.gettimeout() == 9
    came = bytearray()
    while came[-9:-6] + came[-5:-4] != b"\5\0\0\xfe":  # the EOF packet, with any number
        more = sock.recv(1 << 16)
        assert more
        came += more
    events = [raw[1:] for _, raw in payloads(came)]
    assert is_artificial(events[0])
    assert events[1 : len(events_of(log)) + 1] == events_of(log)
    with pytest.raises(LocalProtocolError, match="fetch: the stream was detached"):
        stream.fetch()
    with pytest.raises(LocalProtocolError, match="detach: the stream was detached"):
        stream.detach()
    with pytest.raises(LocalProtocolError, match="a binary log dump runs"):
        connection.ping()
    stream.close()
    connection.close()


def test_detach_is_for_the_beginning(waiting):
    with pytest.raises(LocalProtocolError, match="detach: the stream was fetched from"):
        waiting.detach()
    waiting.close()
    with pytest.raises(LocalProtocolError, match="detach: the stream was closed"):
        waiting.detach()
