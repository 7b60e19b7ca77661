"""A server that speaks the real protocol, with a real log, up to where it is told to turn hostile.

    with FakeServer({"SHOW BINARY LOGS": endless_rows}) as server:
        tailrace.open(server.url("start=now"))

``turns`` says by point what is done there in place of the usual: a function that gets the `Talk`.
Where it gives True the server goes on as if it had answered, else it closes the connection. Points:
"greeting", "tls" (where TLS was asked for), "login" (the client's login came), "register", "dump",
"events" (behind the first two of a dump, a log's name and its description), and what a statement
begins with. Nothing is taken from `tailrace`: what it gets wrong is not to be answered in kind.
"""

from __future__ import annotations

import datetime as dt
import functools
import socket
import ssl
import struct
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from zlib import crc32

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Turn = Callable[["Talk"], object]

SHOP: Final = Path(__file__).parents[3] / "examples" / "shop"
"""Logs that a real MySQL 9.7 and a real MariaDB 11.8 wrote."""
PASSWORD: Final = "s3cret-that-nobody-may-learn"
NONCE: Final = b"abcdefghijklmnopqrst"
UUID: Final = "896e7882-18fe-11ef-ab88-22222d34d411"
VERSIONS: Final = {"mysql": "9.7.0", "mariadb": "11.8.5-MariaDB-log"}
_WAYS: Final = {"mysql": "caching_sha2_password", "mariadb": "mysql_native_password"}
_CAPABILITIES: Final = 0x0009_A20D
"""LONG_PASSWORD, FOUND_ROWS off; CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION,
PLUGIN_AUTH: what is needed, and neither EOF-less results nor compression.
"""
_SSL: Final = 0x0800
_U32: Final = 0xFFFFFFFF
_ROTATE, _DESCRIPTION, _PREVIOUS_GTIDS = 4, 15, 35
_ARTIFICIAL: Final = 0x20


class Talk:
    """One connection, from the server's side."""

    def __init__(self, server: FakeServer, sock: socket.socket) -> None:
        self.server = server
        self.sock = sock
        self.sequence = 0
        self.semisync = False
        self.asked = b""
        """The last payload that the client sent."""

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.sock.sendall(data)

    def send(self, payload: bytes, sequence: int | None = None) -> None:
        """Send a payload of less than 16 MiB in its packet."""
        number = self.sequence if sequence is None else sequence
        self.raw(header(len(payload), number) + payload)
        self.sequence = (number + 1) & 0xFF

    def result(self, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Send a result set of texts; None is NULL."""
        self.send(integer(len(names)))
        for name in names:
            self.send(column(name))
        self.send(END)
        for row in rows:
            self.send(b"".join(cell(value) for value in row))
        self.send(END)

    def read(self) -> bytes:
        """The client's next payload. Raises EOFError at the connection's end."""
        head = self._bytes(4)
        self.sequence = (head[3] + 1) & 0xFF
        self.asked = self._bytes(int.from_bytes(head[:3], "little"))
        return self.asked

    def wait(self) -> None:
        """Say nothing more, until the client goes."""
        with suppress(OSError):
            while piece := self.sock.recv(1 << 16):
                self.server.heard += piece

    def _bytes(self, size: int) -> bytes:
        out = b""
        while len(out) < size:
            piece = self.sock.recv(size - len(out))
            if not piece:
                raise EOFError
            self.server.heard += piece
            out += piece
        return out


class FakeServer:
    """Listens on a port of the loopback; a thread for each connection. A context manager.

    ``log`` is its log's name, ``events`` are what stands behind its description: by default those
    of the first log of `SHOP`. ``way`` is what its greeting names as the way of authentication,
    ``tls`` whether it offers TLS, with a certificate of its own making, ``offers`` the bits of more
    that it says it can, and cannot. ``heard`` is all that
    clients sent, out of TLS; ``reached`` are the points whose turns ran. ``connect_timeout`` is
    what its URL says: short where that wait is what is tested, and then by `reaching`.
    """

    def __init__(
        self,
        turns: Mapping[str, Turn] | None = None,
        *,
        flavour: str = "mysql",
        log: str = "binlog.000001",
        events: Sequence[bytes] | None = None,
        way: str | None = None,
        tls: bool = False,
        offers: int = 0,
        version: str | None = None,
        connect_timeout: float = 30,
    ) -> None:
        self.turns = dict(turns or {})
        self.flavour = flavour
        self.version = VERSIONS[flavour] if version is None else version
        self.log = log
        own = shop_events(flavour)
        self.description = own[0]
        self.events = own[1:] if events is None else list(events)
        self.way = _WAYS[flavour] if way is None else way
        self.tls = tls
        self.offers = offers
        self.connect_timeout = connect_timeout
        self.heard = bytearray()
        self.reached: set[str] = set()
        self.connected = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []

    def url(self, options: str = "") -> str:
        """The URL of this server: it is given up after its ``connect_timeout``, and not retried."""
        times = f"connect_timeout={self.connect_timeout:g}&heartbeat=0.25&retry=0"
        more = f"&{options}" if options else ""
        return f"mysql://u:{PASSWORD}@127.0.0.1:{self.port}/?{times}{more}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._listener, *self._open]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _listen(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connected.set()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        talk = Talk(self, sock)
        with suppress(OSError, EOFError, _Ended):
            self._enter(talk)
            while True:
                self._command(talk, talk.read())
        with suppress(OSError):
            talk.sock.shutdown(socket.SHUT_RDWR)
        talk.sock.close()

    def _turned(self, point: str, talk: Talk) -> bool:
        """Whether what is usual at a point was done otherwise."""
        turn = self.turns.get(point)
        if turn is None:
            return False
        self.reached.add(point)
        if turn(talk) is not True:
            raise _Ended
        return True

    # --- the login -------------------------------------------------------------------------------

    def _enter(self, talk: Talk) -> None:
        if not self._turned("greeting", talk):
            talk.send(self.greeting())
        response = talk.read()
        if self.tls and len(response) == 32:
            if not self._turned("tls", talk):
                talk.sock = _tls().wrap_socket(talk.sock, server_side=True)
                self._open.append(talk.sock)
            response = talk.read()
        if self._turned("login", talk):
            return
        if self.way == "caching_sha2_password":
            talk.send(b"\x01\x03")
        talk.send(OK)

    def greeting(self) -> bytes:
        """The first packet, as both servers make it."""
        capabilities = _CAPABILITIES | self.offers | (_SSL if self.tls else 0)
        prefix = "5.5.5-" if self.flavour == "mariadb" else ""
        return (
            b"\x0a"
            + f"{prefix}{self.version}".encode("latin1")
            + struct.pack("<xI", 7)
            + NONCE[:8]
            + struct.pack("<xHBHHB10x", capabilities & 0xFFFF, 255, 2, capabilities >> 16, 21)
            + NONCE[8:]
            + b"\0"
            + self.way.encode()
            + b"\0"
        )

    # --- commands --------------------------------------------------------------------------------

    def _command(self, talk: Talk, payload: bytes) -> None:
        code = payload[0]
        if code == 0x03:
            self._query(talk, payload[1:].decode())
        elif code == 0x15:
            if not self._turned("register", talk):
                talk.send(OK)
        elif code in {0x12, 0x1E}:
            if not self._turned("dump", talk):
                self._dump(talk, waits=not payload[5 if code == 0x12 else 1] & 1)
        elif code == 0x01:
            raise _Ended
        else:
            talk.send(error(1047, "08S01", "Unknown command"))

    def _query(self, talk: Talk, sql: str) -> None:
        for point in self.turns:
            if sql.startswith(point) and self._turned(point, talk):
                return
        for begin, names, row in self._answers():
            if sql.startswith(begin):
                talk.result(names, [] if row is None else [row])
                return
        if sql.startswith(("SET", "KILL")):
            talk.semisync |= "@rpl_semi_sync" in sql
            talk.send(OK)
        else:
            talk.send(error(1193, "HY000", f"Unknown system variable in {sql}"))

    def _answers(self) -> Iterator[tuple[str, Sequence[str], Sequence[object] | None]]:
        size = 4 + len(self.description) + sum(map(len, self.events))
        place = (self.log, size, "", "", "")
        for begin, names, row in (
            ("SELECT VERSION()", "abc", (self.version, "1790000000.5", 1)),
            ("SELECT @@GLOBAL.server_uuid", "a", (UUID,)),
            ("SELECT @@GLOBAL.gtid_mode", "a", ("ON",)),
            ("SELECT @@GLOBAL.gtid_owned", "ab", ("", f"{UUID}:1-9")),
            ("SELECT @@GLOBAL.gtid_executed", "a", (f"{UUID}:1-9",)),
            ("SELECT @@GLOBAL.gtid_purged", "a", ("",)),
            ("SELECT @@GLOBAL.gtid_binlog_state", "a", ("0-1-9",)),
            ("SELECT BINLOG_GTID_POS", "a", ("",)),
            ("SELECT @master_binlog_checksum", "a", ("CRC32",)),
            ("SHOW BINARY LOGS", "abc", (self.log, size, "No")),
            ("SHOW BINARY LOG STATUS", "abcde", place),
            ("SHOW MASTER STATUS", "abcd", place[:4]),
            ("SHOW REPLICAS", "abcde", None),
            ("SHOW SLAVE HOSTS", "abcd", None),
            ("SELECT @@global.rpl_semi_sync_source_enabled", "a", (1,)),
            ("SELECT table_schema, table_name FROM information_schema", "ab", None),
            ("SELECT constraint_schema", "abcde", None),
            ("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'", "ab", None),
            ("SHOW VARIABLES LIKE 'rpl_semi", "ab", ("rpl_semi_sync_master_enabled", "ON")),
        ):
            yield begin, list(names), row

    # --- the dump --------------------------------------------------------------------------------

    def _dump(self, talk: Talk, *, waits: bool) -> None:
        self.event(talk, rotate(self.log, 4))
        self.event(talk, self.description)
        if self._turned("events", talk):
            return
        for each in self.events:
            self.event(talk, each)
        if waits:
            talk.wait()
            raise _Ended
        talk.send(END)

    @staticmethod
    def event(talk: Talk, event: bytes) -> None:
        """Send an event."""
        before = b"\xef\x01" if talk.semisync else b""  # an acknowledgement is asked for
        talk.send(b"\0" + before + event)


def reaching(turns: Mapping[str, Turn], **options: Any) -> Iterator[FakeServer]:
    """Servers that are given up soon, each later than the last, until one's turns all ran.

    For what waits until the client gives up: a short time is enough on a machine that is idle, and
    one that is busy may need more of it to come as far as the turn. Raises AssertionError where
    none came so far.
    """
    for seconds in (0.5, 5, 30):
        with FakeServer(turns, connect_timeout=seconds, **options) as server:
            yield server
            if server.reached >= turns.keys():
                return
    raise AssertionError(f"no turn was taken at {', '.join(turns.keys() - server.reached)}")


class _Ended(Exception):
    """A connection is at its end."""


# --- packets -------------------------------------------------------------------------------------

OK: Final = b"\x00\x00\x00\x02\x00\x00\x00"
END: Final = b"\xfe\x00\x00\x02\x00"


def header(size: int, sequence: int) -> bytes:
    """A packet's header."""
    return size.to_bytes(3, "little") + bytes((sequence & 0xFF,))


def error(code: int, state: str, text: bytes | str) -> bytes:
    """An ERR packet."""
    raw = text.encode() if isinstance(text, str) else text
    return b"\xff" + struct.pack("<H", code) + b"#" + state.encode() + raw


def integer(value: int) -> bytes:
    """A length-encoded integer."""
    if value < 0xFB:
        return bytes((value,))
    if value < 1 << 16:
        return b"\xfc" + struct.pack("<H", value)
    if value < 1 << 24:
        return b"\xfd" + struct.pack("<I", value)[:3]
    return b"\xfe" + struct.pack("<Q", value)


def cell(value: object) -> bytes:
    """A value of a row."""
    if value is None:
        return b"\xfb"
    raw = value if isinstance(value, bytes) else str(value).encode()
    return integer(len(raw)) + raw


def column(name: bytes | str, kind: int = 253, charset: int = 255) -> bytes:
    """A column's definition."""
    return (
        cell("def")
        + b"\0\0\0"
        + cell(name)
        + cell(name)
        + struct.pack("<BHIBHBH", 12, charset, 1024, kind, 0, 0, 0)
    )


# --- events --------------------------------------------------------------------------------------


def event(
    kind: int,
    body: bytes,
    *,
    end: int = 0,
    flags: int = 0,
    checksum: bool = True,
    size: int | None = None,
    timestamp: int = 0,
) -> bytes:
    """An event; ``size`` is what its header says, ``end`` where it says that it ends."""
    length = 19 + len(body) + 4 * checksum
    said = length if size is None else size
    raw = struct.pack("<IBIIIH", timestamp, kind, 1, said, end & _U32, flags) + body
    return raw + struct.pack("<I", crc32(raw)) if checksum else raw


def rotate(log: bytes | str, offset: int, *, artificial: bool = True, end: int = 0) -> bytes:
    """A ROTATE: the name that comes before a file's events, or the last event of one."""
    name = log.encode() if isinstance(log, str) else log
    flags = _ARTIFICIAL if artificial else 0
    return event(_ROTATE, struct.pack("<Q", offset) + name, end=end, flags=flags)


@functools.cache
def shop_events(flavour: str) -> list[bytes]:
    """The events of the first log of `SHOP`, the description first."""
    return split(min((SHOP / flavour).glob("*.000001")).read_bytes())


def split(log: bytes) -> list[bytes]:
    """The events of a log file."""
    events, at = [], 4
    while at < len(log):
        size = int.from_bytes(log[at + 9 : at + 13], "little")
        events.append(log[at : at + size])
        at += size
    return events


# --- keys ----------------------------------------------------------------------------------------


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_key() -> bytes:
    """The key that the server would have passwords encrypted with."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return _key().public_key().public_bytes(serialization.Encoding.PEM, form)


def decrypted(data: bytes) -> bytes:
    """The password in what a client encrypted for `public_key`; empty where there is none."""
    try:
        hidden = _key().decrypt(
            data, padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
        )
    except ValueError:
        return b""
    return bytes(letter ^ NONCE[at % len(NONCE)] for at, letter in enumerate(hidden))


@functools.cache
def _tls() -> ssl.SSLContext:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(_key().public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(_key(), hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(made.public_bytes(serialization.Encoding.PEM))
        file.write(
            _key().private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        file.flush()
        context.load_cert_chain(file.name)
    return context
