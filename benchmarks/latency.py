"""Milliseconds from a commit to a consumer that has its row: ours, and mysql-replication's.

A client commits one-row transactions at a modest rate, each with the time of day of the clock that
all processes share; a consumer in a process of its own notes when it has a row's value. Consumers
take turns, in rounds. The time holds the server's own part, from the statement's sending on: what
the client waits for its answer stands beside it.
"""

from __future__ import annotations

import json
import math
import selectors
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RATE: Final = 200
_WARM: Final = 50
"""Rows that are not counted, at the start of each turn; kernels are loaded in them."""
_READY_SECONDS: Final = 60.0
_OPTIONS: Final = {"binlog_row_metadata": "FULL", "sync_binlog": "0", "max_connections": "40"}
_ROOT: Final = Path(__file__).resolve().parent.parent
_TABLE: Final = (
    "CREATE TABLE bench.ticks (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL, "
    "sent BIGINT NOT NULL, name VARCHAR(60) NOT NULL)"
)
_FIRST: Final = -1
"""The ``n`` of rows that are written until a consumer has its first."""


@dataclass
class _Contender:
    milliseconds: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        every = sorted(self.milliseconds)
        tail = every[math.ceil(len(every) * 0.99) - 1]
        rounds = f"{min(self.medians):.2f} to {max(self.medians):.2f}"
        return (
            f"  {name:34} median {statistics.median(every):6.2f} ms (by round {rounds})"
            f"   99 % {tail:6.2f} ms   most {every[-1]:7.2f} ms"
        )


def run(*, quick: bool) -> None:
    """Print median and 99th percentile of each consumer, for two servers."""
    rounds, rows = (2, 300) if quick else (5, 1000)
    for name in ("mysql-9.7", "mariadb-11.8"):
        with Server(name, _OPTIONS) as server:
            server.execute("CREATE DATABASE bench")
            server.execute(_TABLE)
            _one(server, rounds, rows)


def _one(server: Server, rounds: int, rows: int) -> None:
    found = {name: _Contender() for name in _READERS}
    commits: list[float] = []
    for _ in range(rounds):
        for name, contender in found.items():
            server.rotate()
            took = _turn(server, name, rows, commits)
            contender.milliseconds += took
            contender.medians.append(statistics.median(took))
    print(
        f"{server.name}: {_RATE} commits/s of a row each, {rounds} turns of {rows} rows;"
        f" the client has its answer after {statistics.median(commits):.2f} ms (median)"
    )
    for name, contender in found.items():
        print(contender.line(name))


def _turn(server: Server, name: str, rows: int, commits: list[float]) -> list[float]:
    """Write rows while a consumer reads: the milliseconds that each took."""
    with _reader(server, name, rows) as process, server.connect() as client:
        if process.stdout is None:
            raise RuntimeError("the consumer has no pipe")
        cursor = client.cursor()
        statement = (
            "INSERT INTO bench.ticks (n, sent, name) VALUES (%s, %s, 'a name of some length')"
        )
        deadline = time.monotonic() + _READY_SECONDS
        ready = _Line(process)
        while not ready.arrived(0.05):
            cursor.execute(statement, (_FIRST, 0))
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"{name}: no row arrived")
        start = time.monotonic_ns()
        for number in range(_WARM + rows):
            due = start + number * 1_000_000_000 // _RATE
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
            sent = time.monotonic_ns()
            cursor.execute(statement, (number, sent))
            commits.append((time.monotonic_ns() - sent) / 1e6)
        took: dict[str, float] = json.loads(process.stdout.readline())
    if len(took) != _WARM + rows:
        raise RuntimeError(f"{name}: {len(took)} rows of {_WARM + rows} arrived")
    return [took[str(number)] for number in range(_WARM, _WARM + rows)]


class _Line:
    """Whether a process has written a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is None:
            raise RuntimeError("the consumer has no pipe")
        self._pipe = process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pipe, selectors.EVENT_READ)

    def arrived(self, seconds: float) -> bool:
        """Wait for it that long; it is read."""
        return bool(self._selector.select(seconds)) and bool(self._pipe.readline())


@contextmanager
def _reader(server: Server, name: str, rows: int) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "benchmarks.latency", name, str(server.port), str(_WARM + rows)]
    process = subprocess.Popen(argv, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
        process.wait(10)
    finally:
        process.kill()
        process.wait()


# --- the consumers, each in a process ------------------------------------------------------------

Row = tuple[int, int]
"""A row's ``n`` and ``sent``."""


def _url(port: int) -> str:
    return f"mysql://root@127.0.0.1:{port}/?start=now&ssl_mode=DISABLED"


def _events(port: int) -> Iterator[Row]:
    import tailrace  # noqa: PLC0415 - each consumer loads what it needs
    from tailrace.events import WriteRowsEvent  # noqa: PLC0415
    from tailrace.values.row import RowSet  # noqa: PLC0415

    for event in tailrace.open(_url(port), follow=True):
        if isinstance(event, WriteRowsEvent) and event.table_map.table == "ticks":
            for row in RowSet(event, event.table_map):
                if row.after is not None:
                    _, n, sent, _ = row.after.values
                    yield n, sent


def _batches(port: int) -> Iterator[Row]:
    import tailrace  # noqa: PLC0415

    for batch in tailrace.changes(_url(port), follow=True):
        for after in batch.column("after").to_pylist():
            yield after["n"], after["sent"]


def _incumbent(port: int) -> Iterator[Row]:
    from pymysqlreplication import BinLogStreamReader  # noqa: PLC0415 - warns when it is imported
    from pymysqlreplication.row_event import WriteRowsEvent  # noqa: PLC0415

    stream = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": port, "user": "root", "passwd": ""},
        server_id=4711,
        blocking=True,
        only_events=[WriteRowsEvent],
    )
    for event in stream:
        for row in event.rows:
            values = row["values"]
            yield values["n"], values["sent"]


_READERS: Final[dict[str, Callable[[int], Iterator[Row]]]] = {
    "tailrace.open, row values": _events,
    "tailrace.changes, record batches": _batches,
    "mysql-replication": _incumbent,
}


def _consume(name: str, port: int, count: int) -> None:
    """Say a word at the first row, and at the end the milliseconds of all by their numbers."""
    took: dict[int, float] = {}
    said = False
    for number, sent in _READERS[name](port):
        arrived = time.monotonic_ns()
        if not said:
            print("ready", flush=True)
            said = True
        if number != _FIRST:
            took[number] = (arrived - sent) / 1e6
            if len(took) == count:
                print(json.dumps(took), flush=True)
                return


if __name__ == "__main__":
    _consume(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
