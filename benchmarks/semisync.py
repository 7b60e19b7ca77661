"""Commits per second under semi-synchronous replication: our receiver, and a real replica.

One source of each flavour; in each round, for 1, 8 and 32 clients, one after the other reads from
it: `tailrace receive --plugin semisync.replica`, which syncs before it acknowledges, to disk, or
into the bucket of a local S3 server (which stores on the same disk, and does not sync); and the I/O
thread of a real replica of the same version (nothing is applied), with ``sync_relay_log=1``, the
setting that makes its acknowledgements as good, and with the default, whose acknowledgements a
power cut may belie. What ``sync_relay_log=1`` means: the servers sync behind each event (MySQL 9.7:
five of them in a transaction of one row, by its performance schema), ours behind all that arrived
together. Rounds count by their own ratios. The source does not sync its own log
(``sync_binlog=0``), so that what is measured is the replica, not the source's disk. Everything
lies in the folder for temporary files: with ``TMPDIR=/dev/shm`` syncing costs nothing, and what
each does besides is compared.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.s3 import S3Server
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.semisync_clients import Commits

ROOT: Final = Path(__file__).resolve().parents[1]
_CLIENTS: Final = (1, 8, 32)
NEVER: Final = 4294967295
WAIT: Final = 60.0
_OURS: Final = "our receiver"
_STORED: Final = "our receiver, into S3"
_DURABLE: Final = "replica, sync_relay_log=1"
_LAX: Final = "replica, sync_relay_log=10000"


class _Bench:
    """A source, a replica, and who reads now."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        mysql = name.startswith("mysql")
        self.word, self.other = ("source", "replica") if mysql else ("master", "slave")
        never = f"--rpl-semi-sync-{self.word}-timeout={NEVER}"
        plugins = ["--plugin-load-add=semisync_source.so", "--gtid-mode=OFF"] if mysql else []
        self.source = stack.enter_context(Server(name, [*plugins, never]))
        plugins = ["--plugin-load-add=semisync_replica.so", "--gtid-mode=OFF"] if mysql else []
        enabled = f"--rpl-semi-sync-{self.other}-enabled=1"
        options = [*plugins, enabled, "--relay-log=relay", "--skip-replica-start"]
        if not mysql:
            options[-1] = "--skip-slave-start"
        self.replica = stack.enter_context(Server(name, options, server_id=2))
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-semi")))
        self.bucket = S3Server(log=False)
        self.bucket.bucket("bench")
        stack.enter_context(self.bucket)
        self.source.execute("CREATE DATABASE bench")
        self.source.execute(
            "CREATE TABLE bench.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100)) ENGINE=InnoDB"
        )

    def contenders(self) -> dict[str, Callable[[int, float], tuple[float, float]]]:
        """Each runs so many clients for so many seconds: commits a second, microseconds of one."""

        def run(
            attached: Callable[[], Iterator[None]],
        ) -> Callable[[int, float], tuple[float, float]]:
            def measured(number: int, seconds: float) -> tuple[float, float]:
                with contextmanager(attached)():
                    return clients(self.source.port, number, seconds)[:2]

            return measured

        return {
            _OURS: run(lambda: self._ours(str(self.folder))),
            _STORED: run(lambda: self._ours("s3://bench")),
            _DURABLE: run(lambda: self._real(1)),
            _LAX: run(lambda: self._real(10000)),
        }

    def _fresh(self) -> str:
        """The source's new log file: everybody begins there."""
        self.source.execute("FLUSH BINARY LOGS")
        return str(self.source.query("SHOW BINARY LOGS")[-1][0])

    def _ours(self, into: str) -> Iterator[None]:
        url = f"mysql://root@127.0.0.1:{self.source.port}/?ssl-mode=DISABLED&start=now"
        folder = f"{into}/{self._fresh()}"
        arguments = ["receive", url, "--follow", "--into", folder, "--plugin", "semisync.replica"]
        command = [sys.executable, "-m", "tailrace", *arguments]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | self.bucket.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            yield from self._attached()
            process.terminate()
            _, said = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the receiver ended with {process.returncode}: {said.decode()}")

    def _real(self, sync: int) -> Iterator[None]:
        replica, file = self.replica, self._fresh()
        replica.execute(f"SET GLOBAL sync_relay_log = {sync}")
        if replica.flavour == "mysql":
            replica.execute(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='root', "
                f"SOURCE_PORT={self.source.port}, SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1, "
                f"SOURCE_LOG_FILE='{file}', SOURCE_LOG_POS=4"
            )
            replica.execute("START REPLICA IO_THREAD")
        else:
            replica.execute(
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='root', "
                f"MASTER_PORT={self.source.port}, MASTER_SSL=0, MASTER_USE_GTID=no, "
                f"MASTER_LOG_FILE='{file}', MASTER_LOG_POS=4"
            )
            replica.execute("START SLAVE IO_THREAD")
        yield from self._attached()
        replica.execute("STOP REPLICA" if replica.flavour == "mysql" else "STOP SLAVE")

    def _attached(self) -> Iterator[None]:
        """Wait until the source's replica has all that there is; then, until it is gone."""
        source = self.source
        source.execute(f"SET GLOBAL rpl_semi_sync_{self.word}_enabled = 1")
        self._until("clients", "1")
        self._until("status", "ON")
        clients(source.port, 1, 0.0)  # returns when all before it is acknowledged
        before = self._counter("no_tx")
        yield
        if self._counter("no_tx") != before:
            raise RuntimeError("commits returned without an acknowledgement")
        source.execute(f"SET GLOBAL rpl_semi_sync_{self.word}_enabled = 0")

    def gone(self) -> None:
        """Wait until the source has no replica any more."""
        deadline = time.monotonic() + WAIT
        while self.source.query(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        )[0][0]:
            self.source.execute("INSERT INTO bench.t (v) VALUES ('')")  # its thread finds out
            if time.monotonic() > deadline:
                raise RuntimeError("the source still has a replica")
            time.sleep(0.05)

    def _counter(self, name: str) -> str:
        like = f"Rpl_semi_sync_{self.word}_{name}"
        return str(self.source.query(f"SHOW GLOBAL STATUS LIKE '{like}'")[0][1])

    def _until(self, name: str, value: str) -> None:
        deadline = time.monotonic() + WAIT
        while (now := self._counter(name)) != value:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} is {now}, not {value}, after {WAIT:.0f} s")
            time.sleep(0.02)


def clients(port: int, number: int, seconds: float) -> Commits:
    """Run so many clients of a server for so long."""
    command = [sys.executable, "-m", "benchmarks.semisync_clients", *map(str, (port, number))]
    done = subprocess.run(
        [*command, str(seconds)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    count, took, median, late = map(float, done.stdout.split())
    return count / took, median, late


def run(*, quick: bool) -> None:
    """Print commits per second, and ours in the ratio to each of the others, by round."""
    rounds, seconds = (2, 1.0) if quick else (5, 2.0)
    for name in ("mysql-9.7", "mariadb-11.8"):
        with ExitStack() as stack:
            bench = _Bench(name, stack)
            print(f"{name}, {rounds} rounds of {seconds:g} s:")
            for number in _CLIENTS:
                _compare(bench, number, rounds, seconds)


def _compare(bench: _Bench, number: int, rounds: int, seconds: float) -> None:
    contenders = bench.contenders()
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for at in range(len(contenders)):
            contender = list(contenders)[(at + turn) % len(contenders)]
            rate, took = contenders[contender](number, seconds)
            bench.gone()
            if turn:
                rates[contender].append(rate)
                times[contender].append(took)
    print(f"  {number} clients")
    for contender, found in rates.items():
        line = f"    {contender:30} {statistics.median(found):8,.0f} commits/s"
        line += f"  {statistics.median(times[contender]):8,.0f} us each"
        if contender != _OURS:
            ratios = sorted(a / b for a, b in zip(rates[_OURS], found, strict=True))
            line += f"  ours {statistics.median(ratios):.0%} ({ratios[0]:.0%} to {ratios[-1]:.0%})"
        print(line)
