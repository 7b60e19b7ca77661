"""Logins at the listener: real clients, and everything that is none."""

import os
import select
import socket
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager

import pymysql
import pytest

from tailrace.errors import UsageError
from tailrace.replication.source.listener import LONGEST_LOGIN, Limits, Listener
from tailrace.replication.source.login import CAPABILITIES, Login, State
from tailrace.replication.source.users import Users
from tailrace.wire.authentication import (
    METHODS,
    CachingSha2Password,
    NativePassword,
)
from tailrace.wire.handshake import (
    AuthSwitch,
    Capability,
    Handshake,
    HandshakeResponse,
    OkPacket,
    TlsRequest,
)
from tailrace.wire.packets import ErrorPacket, frame, payloads
from tests.cases import each_case
from tests.waiting import DEADLINE, wait_for

PASSWORD = "gehäim"
USERS = Users({name: kind.of_password(PASSWORD) for name, kind in METHODS.items()})
BASIC = int(CAPABILITIES)
FULL = ErrorPacket(1040, "08004", "Too many connections")


@pytest.fixture(scope="module")
def tls(certificate):
    authority, cert, key = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, str(authority)


class Echo:
    """A listener whose logged-in clients get an OK for each packet."""

    def __init__(self, **settings):
        self.connections = []
        settings = {"users": USERS, "no_room": lambda _: None} | settings
        self.listener = Listener(
            "127.0.0.1",
            0,
            settings.pop("users"),
            lambda: "9.9.9",
            self._take,
            settings.pop("no_room"),
            **settings,
        )
        self.listener.start()

    def _take(self, connection):
        self.connections.append(connection)
        threading.Thread(target=self._serve, args=[connection], daemon=True).start()
        return True

    def _serve(self, connection):
        try:
            while connection.read_command()[:1] != b"\x01":
                connection.write(OkPacket().encode())
                connection.flush()
        except Exception:  # noqa: BLE001
            pass
        connection.release()

    def connect(self, **settings):
        return pymysql.connect(
            host="127.0.0.1",
            port=self.listener.port,
            **({"password": PASSWORD.encode()} | settings),
        )

    @contextmanager
    def raw(self):
        with socket.create_connection(("127.0.0.1", self.listener.port), DEADLINE) as sock:
            yield sock


@pytest.fixture
def listening():
    with ExitStack() as stack:

        def start(**settings):
            made = Echo(**settings)
            stack.callback(made.listener.stop)
            return made

        yield start


def packet(sock):
    raw = b""
    while len(raw) < 4 or len(raw) < 4 + int.from_bytes(raw[:3], "little"):
        piece = sock.recv(4 if len(raw) < 4 else 4 + int.from_bytes(raw[:3], "little") - len(raw))
        if not piece:
            raise EOFError
        raw += piece
    ((number, payload),) = payloads(raw)
    return number, payload


def refusal(sock):
    """The error, and after it the end of the connection."""
    found = ErrorPacket.decode(packet(sock)[1])
    assert sock.recv(1) == b""
    return found


# --- clients that log in -------------------------------------------------------------------------


@each_case("encrypted", [False, True])
@each_case("user", METHODS)
def test_a_client_logs_in_by_each_method(listening, tls, user, encrypted):
    echo = listening(context=tls[0])
    more = {"ssl": {"ca": tls[1]}} if encrypted else {"ssl_disabled": True}
    with echo.connect(user=user, **more) as client:
        client.ping(reconnect=False)
        assert client.get_server_info() == "9.9.9"
        (connection,) = echo.connections
        assert connection.user == user
        assert connection.is_tls == encrypted
        assert connection.host == "127.0.0.1"
        assert connection.thread_id == client.thread_id()
    assert echo.listener.failed_logins == 0


@each_case("user", [*METHODS, "nobody"])
@each_case("password", ["", "wrong"])
def test_a_wrong_password_is_denied(listening, tls, user, password):
    echo = listening(context=tls[0])
    for more in ({"ssl": {"ca": tls[1]}}, {"ssl_disabled": True}):
        with pytest.raises(pymysql.OperationalError, match="Access denied for user") as caught:
            echo.connect(user=user, password=password, **more)
        assert caught.value.args[0] == 1045
        assert PASSWORD not in str(caught.value)
    assert echo.listener.failed_logins == 2
    assert echo.connections == []


def test_caching_sha2_goes_through_tls_once_then_without(listening, tls):
    """The account of a file has a hash alone: the first login has to be through TLS."""
    stored = CachingSha2Password.of_hash(CachingSha2Password.of_password(PASSWORD).stored)
    echo = listening(users=Users({"repl": stored}), context=tls[0])
    with pytest.raises(pymysql.OperationalError, match="Access denied"):
        echo.connect(user="repl", ssl_disabled=True)
    echo.connect(user="repl", ssl={"ca": tls[1]}).close()
    echo.connect(user="repl", ssl_disabled=True).close()


@pytest.fixture
def native(listening):
    """A listener for one account, whose password has to be answered by the native method."""
    return listening(users=Users({"repl": NativePassword.of_password(PASSWORD)}))


def scrambled(nonce):
    return pymysql._auth.scramble_native_password(PASSWORD.encode(), nonce)


def response(sock):
    """A right answer to the listener's greeting."""
    nonce = Handshake.decode(packet(sock)[1]).nonce
    return HandshakeResponse(BASIC, "repl", scrambled(nonce), "mysql_native_password").encode()


def test_clients_that_name_another_method_are_switched(native):
    with native.raw() as sock:
        packet(sock)
        sock.sendall(frame(HandshakeResponse(BASIC, "repl", b"x", "dialog").encode(), 1))
        number, raw = packet(sock)
        switch = AuthSwitch.decode(raw)
        assert (number, switch.plugin) == (2, "mysql_native_password")
        sock.sendall(frame(scrambled(switch.data[:20]), 3))
        assert packet(sock) == (4, OkPacket().encode())


def test_a_client_from_before_authentication_methods(native):
    with native.raw() as sock:
        answer = scrambled(Handshake.decode(packet(sock)[1]).nonce)
        old = Capability.PROTOCOL_41 | Capability.SECURE_CONNECTION
        sock.sendall(frame(HandshakeResponse(old, "repl", answer).encode(), 1))
        assert packet(sock) == (2, OkPacket().encode())


@each_case("size", [1, 1000])
def test_a_login_in_pieces_and_what_follows_it_at_once(native, size):
    """The connection gets the first command, though it came in one piece with the login's end."""
    with native.raw() as sock:
        raw = frame(response(sock), 1) + frame(b"\x0e", 0)
        for at in range(0, len(raw), size):
            sock.sendall(raw[at : at + size])
        assert packet(sock) == (2, OkPacket().encode())
        assert packet(sock) == (1, OkPacket().encode())


# --- TLS -----------------------------------------------------------------------------------------


def login(**settings):
    settings = {"offers_tls": True, "must_encrypt": True} | settings
    return Login(USERS, "9.9.9", 1, "192.0.2.1", **settings)


@each_case("offers", [True, False])
def test_other_machines_must_use_tls(offers):
    """Even with the right password: the error comes before any question about it."""
    given = login(offers_tls=offers)
    raw = HandshakeResponse(BASIC, "caching_sha2_password", bytes(32), "caching_sha2_password")
    (error,) = given.receive(raw.encode())
    assert ErrorPacket.decode(error).code == 3159
    assert given.state is State.OUT
    assert not given.denied


def test_other_machines_may_log_in_with_tls():
    given = login()
    assert given.receive(TlsRequest(BASIC | Capability.SSL).encode()) == []
    assert given.state is State.TLS
    given.secured()
    nonce = Handshake.decode(given.greeting).nonce
    answer = pymysql._auth.scramble_caching_sha2(PASSWORD.encode(), nonce)
    name = "caching_sha2_password"
    sent = given.receive(HandshakeResponse(BASIC, name, answer, name).encode())
    assert given.state is State.IN
    assert sent == [b"\x01\x03", OkPacket().encode()]


def test_tls_that_is_not_offered_cannot_be_asked_for(listening):
    echo = listening()
    with echo.raw() as sock:
        assert not Handshake.decode(packet(sock)[1]).capabilities & Capability.SSL
        sock.sendall(frame(TlsRequest(BASIC | Capability.SSL).encode(), 1))
        assert refusal(sock).code == 1043


def test_what_was_sent_in_clear_before_tls_is_not_read_as_sent_through_it(listening, tls):
    """An attacker between the two could put it there (CVE-2011-0411)."""
    echo = listening(context=tls[0])
    with echo.raw() as sock:
        answer = scrambled(Handshake.decode(packet(sock)[1]).nonce)
        name = "mysql_native_password"
        response = HandshakeResponse(BASIC, name, answer, name).encode()
        request = TlsRequest(BASIC | Capability.SSL).encode()
        sock.sendall(frame(request, 1) + frame(response, 2))
        wait_for(lambda: echo.listener.pending == 0)
    assert echo.connections == []


def test_a_tls_handshake_that_is_none(listening, tls):
    echo = listening(context=tls[0])
    with echo.raw() as sock:
        packet(sock)
        sock.sendall(frame(TlsRequest(BASIC | Capability.SSL).encode(), 1) + os.urandom(500))
        wait_for(lambda: echo.listener.pending == 0)


# --- what is no login ----------------------------------------------------------------------------


@each_case(
    ("sent", "code"),
    [
        (frame(b"", 1), 1043),
        (frame(b"\x03SELECT 1", 1), 1043),
        (frame(bytes(32), 1), 1043),
        (frame(b"\xff" * 300, 1), 1043),
        (frame(bytes(10), 0), 1156),
        (b"\xff\xff\xff\x01", 1153),
        (b"\x00\x00\x01\x01", 1153),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1153),
    ],
)
def test_anything_else_is_rejected_cleanly(listening, sent, code):
    echo = listening()
    with echo.raw() as sock:
        packet(sock)
        sock.sendall(sent)
        assert refusal(sock).code == code
    wait_for(lambda: echo.listener.pending == 0)
    assert echo.listener.failed_logins == 0


def test_a_login_has_to_be_complete_in_time(listening):
    """A client that says nothing, or one byte after the other, is dropped."""
    echo = listening(limits=Limits(seconds=0.5))
    started = time.monotonic()
    with echo.raw() as silent, echo.raw() as slow:
        packet(silent)
        packet(slow)
        for byte in frame(bytes(200), 1):
            try:
                slow.sendall(bytes([byte]))
            except OSError:
                break
            time.sleep(0.05)
        else:
            pytest.fail("it was not dropped")
        assert silent.recv(1) == b""
        assert time.monotonic() - started > 0.4
    assert echo.listener.pending == 0


def test_a_client_that_does_not_read_is_dropped_in_time(listening):
    echo = listening(limits=Limits(seconds=0.5))
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        sock.connect(("127.0.0.1", echo.listener.port))
        ended = select.poll()
        ended.register(sock, select.POLLRDHUP)
        assert ended.poll(DEADLINE * 1000)
        wait_for(lambda: echo.listener.pending == 0)


def test_a_client_sends_at_most_64_kib_before_it_has_logged_in(native):
    """Also in several packets: a method's further answers."""
    attributes = {"a" * 30: "b" * (31 << 10)}
    with native.raw() as sock:
        packet(sock)
        raw = HandshakeResponse(BASIC, "repl", b"", "dialog", attributes=attributes).encode()
        sock.sendall(frame(raw, 1))
        assert AuthSwitch.decode(packet(sock)[1])
        sock.sendall((33 << 10).to_bytes(3, "little") + b"\x03" + bytes(33 << 10))
        assert ErrorPacket.decode(packet(sock)[1]).code == 1153
    assert LONGEST_LOGIN == 64 << 10


def test_a_wrong_password_counts_and_the_address_is_turned_away(listening):
    echo = listening(limits=Limits(failures=3))
    for _ in range(3):
        with pytest.raises(pymysql.OperationalError, match="Access denied"):
            echo.connect(user="nobody")
    with pytest.raises(pymysql.OperationalError, match="blocked") as caught:
        echo.connect(user="mysql_native_password")
    assert caught.value.args[0] == 1129
    assert echo.listener.failed_logins == 3


@each_case("answers", [[FULL], [None, FULL]])
def test_no_room_for_one_more(listening, answers):
    """Nor for one that was greeted before others were faster."""
    left = iter(answers)
    echo = listening(no_room=lambda _: next(left, FULL))
    with pytest.raises(pymysql.OperationalError, match="Too many connections") as caught:
        echo.connect(user="mysql_native_password")
    assert caught.value.args[0] == 1040
    assert echo.connections == []


def test_limits_of_a_process():
    assert Limits().within_files(20_000) == Limits()
    limits = Limits().within_files(1024)
    assert (limits.logins, limits.connections) == (256, 368)
    limits = Limits(logins=5, connections=7).within_files(1024)
    assert (limits.logins, limits.connections) == (5, 7)


def test_too_many_that_do_not_log_in_drop_their_own_oldest(listening):
    """And a client that does still gets in."""
    echo = listening(limits=Limits(logins=5))
    with ExitStack() as stack:
        socks = [stack.enter_context(echo.raw()) for _ in range(7)]
        wait_for(lambda: echo.listener.pending == 5)
        echo.connect(user="mysql_native_password").close()
        socks[0].settimeout(DEADLINE)
        while socks[0].recv(1000):
            pass
        assert packet(socks[-1])
        socks[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            socks[-1].recv(1)


def test_stop_drops_them(listening):
    echo = listening()
    with echo.raw() as sock:
        packet(sock)
        echo.listener.stop()
        assert sock.recv(1) == b""
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", echo.listener.port), 2)


# --- the address ---------------------------------------------------------------------------------


def test_a_port_that_is_taken(listening):
    echo = listening()
    with pytest.raises(UsageError, match="cannot listen"):
        Listener("127.0.0.1", echo.listener.port, USERS, lambda: "", lambda _: True, lambda: True)
