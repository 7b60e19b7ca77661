"""Mutated logins and packets at a source: each is rejected cleanly, and harms nobody.

A recorded login by each method, through which packets are changed, cut, repeated and mixed with
others; and sessions that send changed commands. Meanwhile a dump of another client must get every
byte, a login must work, and the process's memory and threads must not grow.
"""

from __future__ import annotations

import logging
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pymysql
from pymysql import _auth

import tailrace
from tailrace.errors import MalformedPacket, TailraceError
from tailrace.gtid import GtidSet
from tailrace.replication.source.listener import Limits
from tailrace.wire.authentication import METHODS
from tailrace.wire.commands import BinlogDump, BinlogDumpGtid, DumpFlag, RegisterReplica
from tailrace.wire.handshake import Capability, Handshake, HandshakeResponse, TlsRequest
from tailrace.wire.packets import ErrorPacket, frame, payloads
from tools.campaign.process import ROOT
from tools.campaign.report import Tries

if TYPE_CHECKING:
    from collections.abc import Callable

PASSWORD: Final = "secret of the campaign"
SIZES: Final = {"small": 1_500, "full": 1_000_000}
_LOGS: Final = ROOT / "examples" / "shop" / "mysql"
_BASE: Final = (
    Capability.LONG_PASSWORD
    | Capability.PROTOCOL_41
    | Capability.SECURE_CONNECTION
    | Capability.PLUGIN_AUTH
    | Capability.PLUGIN_AUTH_LENENC
    | Capability.CONNECT_ATTRS
)
_GROWTH: Final = 24 << 20
"""Bytes by which the process may grow after its first tenth of the campaign."""
_SECONDS: Final = 20.0
_WORKERS: Final = 4
_PAUSE: Final = 0.2
"""Seconds between two dumps of the other client: what it decodes would take most of the time."""


@dataclass
class LoginsReport(Tries):
    """What became of the tries."""

    grown: int = 0
    dumps: int = 0
    """Whole dumps that another client read meanwhile."""

    def line(self) -> str:
        more = f"{self.dumps} whole dumps meanwhile, memory grew by {self.grown >> 10} KiB"
        return f"{super().line()}\n{more}"


class Served:
    """``tailrace.serve`` in a process of its own, so that its memory can be measured."""

    def __init__(
        self,
        folder: Path,
        *,
        seconds: float = 5.0,
        cert: Path | None = None,
        key: Path | None = None,
    ) -> None:
        users = folder / "users"
        lines = [
            f"{name} {name} 0x{kind.of_password(PASSWORD).stored.hex()}"
            for name, kind in METHODS.items()
        ]
        lines += [line.replace("mysql_native", "repl", 1) for line in lines if "native" in line]
        users.write_text("\n".join(lines), "utf-8")  # most accounts' method is the first asked
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tools.campaign.logins", str(_LOGS), str(users)),
                *(str(seconds), str(cert or ""), str(key or "")),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._line())

    def _line(self) -> str:
        if self._process.stdout is None:
            raise RuntimeError("no output")
        return self._process.stdout.readline()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def figure(self) -> tuple[int, int, int]:
        """Resident bytes, threads, and clients that are logging in or have."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("utf-8")
        found = dict(line.split(":", 1) for line in status.splitlines())
        if self._process.stdin is None:
            raise RuntimeError("no input")
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        clients = int(self._line())
        return int(found["VmRSS"].split()[0]) << 10, int(found["Threads"]), clients

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


# --- what is sent --------------------------------------------------------------------------------


def _flip(rng: random.Random, raw: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if raw:
            raw[rng.randrange(len(raw))] = rng.choice((0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFE, 0xFF))


def _cut(rng: random.Random, raw: bytearray) -> None:
    del raw[rng.randrange(len(raw) + 1) :]


def _more(rng: random.Random, raw: bytearray) -> None:
    raw += rng.randbytes(rng.choice((1, 10, 1000, 40_000)))


def _insert(rng: random.Random, raw: bytearray) -> None:
    at = rng.randrange(len(raw) + 1)
    raw[at:at] = rng.randbytes(rng.choice((1, 4, 300)))


def _nothing(_rng: random.Random, _raw: bytearray) -> None:
    pass


_CHANGES: Final[tuple[Callable[[random.Random, bytearray], None], ...]] = (
    *(_flip, _flip, _flip, _cut, _more, _insert, _nothing),
)


def _changed(rng: random.Random, payload: bytes, sequence: int) -> bytes:
    """A payload with its header, one of the two changed."""
    raw = bytearray(payload)
    rng.choice(_CHANGES)(rng, raw)
    framed = bytearray(frame(bytes(raw), sequence & 0xFF))
    if rng.random() < 0.15:
        head = bytearray(framed[:4])
        _flip(rng, head)
        framed[:4] = head[:4].ljust(4, b"\0")
    return bytes(framed)


def _packet(sock: socket.socket, held: bytearray) -> bytes:
    """The next packet's payload. Raises EOFError at the connection's end."""
    while len(held) < 4 or len(held) < 4 + int.from_bytes(held[:3], "little"):
        piece = sock.recv(1 << 16)
        if not piece:
            raise EOFError
        held += piece
    end = 4 + int.from_bytes(held[:3], "little")
    ((_, payload),) = payloads(bytes(held[:end]))
    del held[:end]
    return payload


def _answer(method: str, nonce: bytes) -> bytes:
    raw = PASSWORD.encode()
    if method == "mysql_native_password":
        return bytes(_auth.scramble_native_password(raw, nonce[:20]))
    if method == "caching_sha2_password":
        return bytes(_auth.scramble_caching_sha2(raw, nonce[:20]))
    return bytes(_auth.ed25519_password(raw, nonce))


def _response(rng: random.Random, greeting: Handshake, user: str) -> bytes:
    plugin = METHODS[user].plugin if user in METHODS else "mysql_native_password"
    answer = _answer(user, greeting.nonce) if user != "ed25519" else b""
    capabilities = int(_BASE)
    if rng.random() < 0.2:
        capabilities ^= 1 << rng.randrange(32)
    attributes = {"_client_role": "x" * rng.choice((0, 10, 5_000))}
    packet = HandshakeResponse(capabilities, user, answer, plugin, "", attributes)
    return packet.encode()


def _commands(rng: random.Random) -> list[bytes]:
    statements = (
        "SELECT @@global.server_id",
        "SET @source_binlog_checksum = 'CRC32', @a = 1",
        "SHOW BINARY LOGS",
        "SELECT UNIX_TIMESTAMP(NOW(6)), VERSION() AS v",
        "SHOW VARIABLES LIKE 'gtid%'",
    )
    gtids = GtidSet.parse("896e7882-18fe-11ef-ab88-22222d34d411:1-5:8")
    return [
        *(b"\x03" + rng.choice(statements).encode() for _ in range(2)),
        RegisterReplica(rng.randrange(1, 1 << 32), "host", "user", "", 3306).encode(),
        rng.choice(
            (b"\x0e", b"\x09", b"\x1b\0\0", b"\x1f", b"\x02x", b"\x04t\0", rng.randbytes(9))
        ),
        rng.choice(
            (
                BinlogDump("binlog.000001", 4, 0, DumpFlag.NON_BLOCK).encode(),
                BinlogDumpGtid(gtids, 0, DumpFlag.NON_BLOCK).encode(),
            )
        ),
    ]


def _one(rng: random.Random, port: int) -> str:
    """One connection; gives what became of it. Raises OSError, MalformedPacket."""
    with socket.create_connection(("127.0.0.1", port), _SECONDS) as sock:
        held = bytearray()
        greeting = Handshake.decode(_packet(sock, held))
        # mysql_native_password alone logs in without TLS and without a switch
        user = rng.choice((*METHODS, "nobody", "mysql_native_password", "mysql_native_password"))
        payload = _response(rng, greeting, user)
        valid = rng.random() < 0.3
        if not valid and rng.random() < 0.1:
            payload = TlsRequest(int(_BASE | Capability.SSL)).encode()
        sock.sendall(frame(payload, 1) if valid else _changed(rng, payload, 1))
        if not valid and rng.random() < 0.3:
            sock.sendall(
                _changed(rng, rng.randbytes(rng.choice((20, 64, 300))), rng.choice((2, 3)))
            )
        if not valid or rng.random() < 0.3:
            with suppress(OSError):  # the source has ended it
                sock.shutdown(socket.SHUT_WR)
        first = _packet(sock, held)
        if first[:1] != b"\0":
            with suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
            return _rest(sock, held, first)
        for command in _commands(rng):
            try:
                sock.sendall(_changed(rng, command, 0))
            except OSError:
                return "ended by the source"
        with suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
        return "logged in: " + _rest(sock, held, _packet(sock, held))


def _rest(sock: socket.socket, held: bytearray, first: bytes) -> str:
    """Read to the connection's end; the last error, or what came."""
    last = ""
    try:
        while True:
            if first[:1] == b"\xff":
                last = f"error {ErrorPacket.decode(first).code}"
            elif first[:1] == b"\xfe" and not last:
                last = "asked for another method"
            first = _packet(sock, held)
    except EOFError:
        return last or "answered"


# --- the campaign --------------------------------------------------------------------------------


def _reader(port: int, report: LoginsReport, stop: threading.Event) -> None:
    """Dump after dump by another client, the last after the last try: each has every event."""
    url = f"mysql://mysql_native_password:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/"
    expected = sum(1 for _ in tailrace.open(_LOGS))
    ended = False
    while True:
        try:
            with tailrace.open(url) as log:
                found = sum(1 for _ in log)
        except TailraceError as error:
            report.failures.append(f"another's dump: {type(error).__name__}: {error}")
            return
        if found != expected:
            report.failures.append(f"another's dump has {found} events, not {expected}")
        report.dumps += 1
        if ended:
            return
        ended = stop.wait(_PAUSE)


def run(count: int, seed: int) -> LoginsReport:
    """Try so many connections."""
    report = LoginsReport("connections")
    lock = threading.Lock()
    numbers = iter(range(count))
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder))
        stop = threading.Event()
        reader = threading.Thread(target=_reader, args=[served.port, report, stop])
        reader.start()
        base = [0]

        def work() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                    if number is None or len(report.failures) > 20:
                        return
                    if report.tried == max(count // 10, 1):
                        base[0] = served.figure()[0]
                try:
                    outcome = _one(random.Random(f"{seed}-{number}"), served.port)
                except EOFError:
                    outcome = "ended without a word"
                except (ConnectionResetError, BrokenPipeError):
                    outcome = "ended by the source"
                except (OSError, MalformedPacket) as error:
                    outcome = type(error).__name__
                    report.failures.append(f"{seed}-{number}: {type(error).__name__}: {error}")
                with lock:
                    report.tried += 1
                    report.outcomes[outcome] += 1

        threads = [threading.Thread(target=work) for _ in range(_WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        reader.join()
        _after(served, report, base[0])
        served.close()
    return report


def _after(served: Served, report: LoginsReport, base: int) -> None:
    """The source is as it was: it runs, has forgotten all clients, and did not grow."""
    if not served.alive:
        report.failures.append("the source has ended")
        return
    try:
        pymysql.connect(
            host="127.0.0.1", port=served.port, user="mysql_native_password", password=PASSWORD
        ).close()
    except pymysql.Error as error:
        report.failures.append(f"a login afterwards: {error}")
    deadline = time.monotonic() + _SECONDS
    size, threads, clients = served.figure()
    while clients and time.monotonic() < deadline:
        time.sleep(0.1)
        size, threads, clients = served.figure()
    if clients:
        report.failures.append(f"{clients} clients are left")
    if threads > 6:
        report.failures.append(f"{threads} threads are left")
    report.grown = size - base
    if base and report.grown > _GROWTH:
        report.failures.append(f"it grew by {report.grown} bytes")


def serve(logs: str, users: str, seconds: str, cert: str = "", key: str = "") -> None:
    """The source, in its process: prints its port, and for each line how many clients it has."""
    logging.disable()  # a line for each
    limits = Limits(failures=1 << 60, seconds=float(seconds))
    with tailrace.serve(
        logs, server_id=99, users=users, tls_cert=cert or None, tls_key=key or None, limits=limits
    ) as server:
        print(server.port, flush=True)
        for _ in sys.stdin:
            print(len(server.sessions) + server.pending_logins, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
