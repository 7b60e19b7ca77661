"""Fan-out: 50 replicas read a log from our source, and from mysqld; bytes in a second, and memory.

The replicas are one program in C (`serve_readers.c`), pinned to one core, the source to another.
Both sources send the same files, byte for byte, from the operating system's cache, to connections
that have logged in before; neither encrypts. Seconds of the source's processor are counted besides
those of the clock: other work on the machine disturbs them less. With ``--apart`` the packets of
each replica have other numbers, so that ours has to rewrite them; else all are in step.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from tailrace.constants import ChecksumAlgorithm
from tailrace.errors import TailraceError
from tailrace.replication.source.connection import ReplicaConnection
from tailrace.replication.source.request import DumpRequest
from tailrace.replication.source.series import ServedLogs
from tailrace.replication.source.transmit import Transmit
from tailrace.wire.commands import BinlogDump, DumpFlag
from tailrace.wire.packets import frame
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_READERS: Final = 50
_ROUNDS: Final = 5
_HERE: Final = Path(__file__).parent
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_KINDS: Final = {
    "large": "transactions of 8 KiB events",
    "small": "transactions of one row, five events each",
}


def command(arguments: list[str]) -> int:
    """Print a table for each kind of log. Words among the arguments name those wanted."""
    if arguments[:1] == ["--source"]:
        return _serve(arguments[1])
    rounds = 2 if "--quick" in arguments else _ROUNDS
    apart = "--apart" in arguments
    kinds = [each for each in arguments if not each.startswith("--")] or [*_KINDS]
    with tempfile.TemporaryDirectory(prefix="tailrace-serve-") as folder:
        readers = Path(folder) / "readers"
        subprocess.run(["cc", "-O2", "-o", readers, _HERE / "serve_readers.c"], check=True)
        for kind in kinds:
            _compare(kind, readers, rounds, apart=apart)
    return 0


def _compare(kind: str, readers: Path, rounds: int, *, apart: bool) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(Server("mysql-9.7", [f"--max-connections={_READERS + 20}"]))
        _fill(server, kind)
        size = sum(path.stat().st_size for path in server.binlogs())
        process, port = stack.enter_context(_source(server.data))
        contenders: dict[str, tuple[int, Callable[[int], socket.socket]]] = {
            "mysqld": (server.pid or 0, lambda _: _logged_in(server)),
            "tailrace": (process.pid, lambda _: socket.create_connection(("127.0.0.1", port))),
        }
        print(f"\n{_KINDS[kind]}: {size / 1e6:.0f} MB, {_READERS} readers, {rounds} rounds")
        rates: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        idle = _memory(process.pid)
        for _ in range(rounds):
            for name, (pid, connect) in contenders.items():
                rates[name].append(_read(readers, pid, connect, apart=apart and name == "tailrace"))
        for name, found in rates.items():
            wall, cpu = (statistics.median(each) for each in zip(*found, strict=True))
            print(f"  {name:10} {wall / 1e6:7.0f} MB/s {cpu / 1e6:7.0f} MB per processor second")
        for number, what in enumerate(("wall", "processor")):
            ratios = [
                ours[number] / theirs[number]
                for ours, theirs in zip(rates["tailrace"], rates["mysqld"], strict=True)
            ]
            low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
            print(f"  {what}: {middle:.2f} x ({low:.2f} to {high:.2f})")
        grown = (_memory(process.pid, "VmHWM") - idle) / _READERS
        print(f"  memory of each replica, with the shared blocks: {grown / 1e6:.2f} MB at most")


def _fill(server: Server, kind: str) -> None:
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(200), c INT)")
    if kind == "large":
        server.execute("INSERT INTO d.t (b, c) VALUES (REPEAT('x', 150), 1)")
        for _ in range(17):
            server.execute("INSERT INTO d.t (b, c) SELECT b, c FROM d.t")
    else:
        server.execute(
            "CREATE PROCEDURE d.p() BEGIN DECLARE n INT DEFAULT 0; WHILE n < 40000 DO"
            " INSERT INTO d.t (b, c) VALUES (REPEAT('x', 60), n); SET n = n + 1; END WHILE; END"
        )
        server.execute("CALL d.p()")
    server.rotate()


def _read(
    readers: Path, pid: int, connect: Callable[[int], socket.socket], *, apart: bool
) -> tuple[float, float]:
    """Bytes in a second of the clock, and in one of the source's processor."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(connect(number)) for number in range(_READERS)]
        _pin(pid, 0)
        for each in sockets:
            os.set_inheritable(each.fileno(), True)
        asked = BinlogDump("", 4, 0, DumpFlag.NON_BLOCK)
        request = readers.with_name("request")
        request.write_bytes(frame(asked.encode()))
        before = _cpu(pid)
        done = subprocess.run(
            [
                *("taskset", "-c", str(max(os.sched_getaffinity(0))), readers, request),
                *(str(each.fileno()) for each in sockets),
                *(["--apart"] if apart else []),
            ],
            stdout=subprocess.PIPE,
            check=True,
            close_fds=False,
            timeout=600,
        )
        spent = _cpu(pid) - before
    size, _, ended, seconds = done.stdout.split()
    if int(ended) != _READERS:
        raise RuntimeError(f"{_READERS - int(ended)} dumps ended with an error")
    return int(size) / float(seconds), int(size) / max(spent, 1 / _TICKS)


def _logged_in(server: Server) -> socket.socket:
    """A connection to the server, without TLS, that a replica would begin its dump on."""
    connection = server.connect(ssl_disabled=True)
    with connection.cursor() as cursor:
        cursor.execute("SET @source_binlog_checksum = 'CRC32'")
    taken = socket.socket(fileno=os.dup(connection._sock.fileno()))  # type: ignore[attr-defined] # noqa: SLF001
    taken.setblocking(True)
    connection._sock.close()  # type: ignore[attr-defined] # noqa: SLF001 - closed without COM_QUIT
    return taken


def _pin(pid: int, core: int) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), {core})
        except ProcessLookupError:
            continue


def _cpu(pid: int) -> float:
    """The seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory(pid: int, what: str = "VmRSS") -> int:
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in text.splitlines() if line.startswith(what))
    return int(line.split()[1]) * 1024


@contextmanager
def _source(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Our source in a process of its own, and its port."""
    line = [sys.executable, "-m", "benchmarks", "serve", "--source", str(folder)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, int(process.stdout.readline())  # type: ignore[union-attr]
        finally:
            process.kill()


def _serve(folder: str) -> int:
    """Serve dumps to whoever connects, without a login."""
    logs = ServedLogs(folder)
    with socket.create_server(("127.0.0.1", 0), backlog=_READERS) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            Thread(target=_dump, args=(logs, listening.accept()[0]), daemon=True).start()


def _dump(logs: ServedLogs, sock: socket.socket) -> None:
    connection = ReplicaConnection(sock, user="reader", host="127.0.0.1", port=0, thread_id=0)
    try:
        asked = BinlogDump.decode(connection.read_command())
        request = DumpRequest(
            asked.server_id,
            asked.file,
            asked.position,
            flags=asked.flags,
            checksum=ChecksumAlgorithm.CRC32,
        )
        Transmit(logs, request, connection).run()
    except TailraceError as error:
        print(error, file=sys.stderr)
    finally:
        connection.release()
