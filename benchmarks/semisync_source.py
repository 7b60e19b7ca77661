"""Commits under semi-synchronous replication: `tailrace.create` as the source, and a real server.

Both have the same replica, the I/O thread of a real server of the same version (nothing is
applied), which acknowledges; in each round it is attached to one after the other. The server's
clients send an INSERT of one row each, which it parses and executes; ours are threads of the
program itself (`benchmarks.semisync_program`), which make the same row's events and commit them:
each transaction has as many bytes in both logs (they are printed). The log is synced for each group
of commits (``sync_binlog=1``, ``sync="transaction"``) or never (``sync_binlog=0``,
``sync="none"``); InnoDB's own log is not (``innodb_flush_log_at_trx_commit=2``), as ours has no
engine. Both wait after the sync. Everything lies in the folder for temporary files.

Ours runs twice, on all processors and on one: Python's threads run one at a time, and hand over to
each other faster there.

Prints commits a second, the median and the 99th percentile of the time that a commit takes, the
time of the processor that the source's process took for one, and how ours compare: above 1 is
better of rates, below 1 of times; medians and ranges of rounds. Where other jobs share the
processors, the processor's time is the steadiest of these. Ours has the clients in it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from benchmarks.semisync import NEVER, ROOT, WAIT, clients
from benchmarks.semisync_program import PASSWORD, TABLE, USER
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.semisync_clients import Commits

_CLIENTS: Final = (1, 8, 32)
_Found = tuple[float, float, float, float]
_SYNCS: Final = {"transaction": 1, "none": 0}


class _Source:
    """One of the two: where it is, and how it is asked."""

    def __init__(self, port: int, user: str, password: str, pid: int) -> None:
        self.port, self.user, self.password, self._pid = port, user, password, pid

    def cpu(self) -> float:
        """Seconds of the processor that its process took."""
        times = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def fresh(self) -> str:
        """Begin a new log file; its name."""
        raise NotImplementedError

    def end(self) -> int:
        """Where its log file ends."""
        raise NotImplementedError

    def replicas(self) -> int:
        """How many semi-synchronous ones are connected."""
        raise NotImplementedError

    def commits(self, number: int, seconds: float) -> Commits:
        """Run so many clients for so long."""
        raise NotImplementedError


class _Theirs(_Source):
    def __init__(self, server: Server, sync: int) -> None:
        super().__init__(server.port, "root", "", server.pid or 0)
        self._server, self._sync = server, sync
        self._word = "source" if server.flavour == "mysql" else "master"

    def fresh(self) -> str:
        self._server.execute(f"SET GLOBAL sync_binlog = {self._sync}")
        self._server.execute("FLUSH BINARY LOGS")
        return str(self._server.query("SHOW BINARY LOGS")[-1][0])

    def end(self) -> int:
        return int(self._server.query("SHOW BINARY LOGS")[-1][1])

    def replicas(self) -> int:
        return int(self._status("clients"))

    def _status(self, name: str) -> str:
        like = f"Rpl_semi_sync_{self._word}_{name}"
        return str(self._server.query(f"SHOW GLOBAL STATUS LIKE '{like}'")[0][1])

    def commits(self, number: int, seconds: float) -> Commits:
        before = self._status("no_tx")
        found = clients(self.port, number, seconds)
        if self._status("no_tx") != before:
            raise RuntimeError("commits returned without an acknowledgement")
        return found


class _Ours(_Source):
    def __init__(self, flavour: str, sync: str, stack: ExitStack, *processors: str) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-semi"))
        command = [sys.executable, "-m", "benchmarks.semisync_program", folder, flavour, sync]
        command += processors
        self._process = stack.enter_context(
            subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        super().__init__(int(self._read()), USER, PASSWORD, self._process.pid)

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the program ended")
        return line.strip()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._read()

    def fresh(self) -> str:
        return self._ask("file")

    def end(self) -> int:
        return int(self._ask("end"))

    def replicas(self) -> int:
        return int(self._ask("clients"))

    def commits(self, number: int, seconds: float) -> Commits:
        count, took, median, late, *_ = map(float, self._ask(f"{number} {seconds}").split())
        return count / took, median, late


class _Bench:
    """A server as the source, programs of ours, and the replica of all."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        mysql = name.startswith("mysql")
        word, other = ("source", "replica") if mysql else ("master", "slave")
        common = ["--plugin-load-add=semisync_source.so", "--gtid-mode=OFF"] if mysql else []
        # the tests' servers of MariaDB sync nothing otherwise (tools/servers/datadir.py)
        common += [] if mysql else ["--binlog-annotate-row-events=OFF", "--skip-debug-no-sync"]
        server = stack.enter_context(
            Server(
                name,
                [
                    *common,
                    "--binlog-format=ROW",
                    "--innodb-flush-log-at-trx-commit=2",
                    f"--rpl-semi-sync-{word}-timeout={NEVER}",
                    f"--rpl-semi-sync-{word}-wait-point=AFTER_SYNC",
                ],
            )
        )
        server.execute("CREATE DATABASE bench")
        server.execute(f"CREATE TABLE bench.t ({TABLE}) ENGINE=InnoDB")
        server.execute(f"SET GLOBAL rpl_semi_sync_{word}_enabled = 1")
        plugins = ["--plugin-load-add=semisync_replica.so", "--gtid-mode=OFF"] if mysql else []
        self.replica = stack.enter_context(
            Server(
                name,
                [
                    *plugins,
                    f"--rpl-semi-sync-{other}-enabled=1",
                    "--relay-log=relay",
                    f"--skip-{other}-start",
                ],
                server_id=2,
            )
        )
        flavour = name.partition("-")[0]
        self.sources: dict[str, dict[str, _Source]] = {
            sync: {
                "ours": _Ours(flavour, sync, stack),
                "on one": _Ours(flavour, sync, stack, "one"),
                "theirs": _Theirs(server, number),
            }
            for sync, number in _SYNCS.items()
        }

    def attached(self, source: _Source) -> _Attached:
        """The replica at a source, while the context lasts."""
        return _Attached(self.replica, source)


class _Attached:
    def __init__(self, replica: Server, source: _Source) -> None:
        self._replica, self._source = replica, source

    def __enter__(self) -> Self:
        replica, source = self._replica, self._source
        old = replica.flavour == "mariadb"
        word = "MASTER" if old else "SOURCE"
        key = "MASTER_USE_GTID=no" if old else "GET_SOURCE_PUBLIC_KEY=1"
        change = "CHANGE MASTER TO" if old else "CHANGE REPLICATION SOURCE TO"
        replica.execute(
            f"{change} {word}_HOST='127.0.0.1', {word}_PORT={source.port},"
            f" {word}_USER='{source.user}', {word}_PASSWORD='{source.password}', {key},"
            f" {word}_SSL=0, {word}_LOG_FILE='{source.fresh()}', {word}_LOG_POS=4"
        )
        replica.execute("START SLAVE IO_THREAD" if old else "START REPLICA IO_THREAD")
        _until(lambda: source.replicas() == 1)
        return self

    def __exit__(self, *_: object) -> None:
        replica = self._replica
        replica.execute("STOP SLAVE" if replica.flavour == "mariadb" else "STOP REPLICA")


def _until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not met():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the replica is not attached after {WAIT:.0f} s")
        time.sleep(0.02)


def run(*, quick: bool) -> None:
    """Print both, and the ratios."""
    rounds, seconds = (2, 1.0) if quick else (7, 2.0)
    for name in ("mysql-9.7", "mariadb-11.8"):
        with ExitStack() as stack:
            bench = _Bench(name, stack)
            print(f"{name}, {rounds} rounds of {seconds:g} s:")
            for sync in _SYNCS:
                _compare(bench, sync, rounds, seconds)


def _compare(bench: _Bench, sync: str, rounds: int, seconds: float) -> None:
    sources = bench.sources[sync]
    found: dict[int, dict[str, list[_Found]]] = {
        each: {who: [] for who in sources} for each in _CLIENTS
    }
    sizes = dict.fromkeys(sources, 0)
    for number in range(rounds + 1):
        for who in sources if number % 2 else reversed(sources):
            source = sources[who]
            with bench.attached(source):
                before = source.end()
                source.commits(1, 0.0)  # returns when the replica follows
                sizes[who] = source.end() - before
                for clients_ in _CLIENTS:
                    begun = source.cpu()
                    rate, median, late = source.commits(clients_, seconds)
                    cpu = 1e6 * (source.cpu() - begun) / (rate * seconds)
                    if number:  # the first round warms up
                        found[clients_][who].append((rate, median, late, cpu))
    bytes_ = ", ".join(f"{who} {size}" for who, size in sizes.items())
    print(f'  sync="{sync}", sync_binlog={_SYNCS[sync]}, bytes: {bytes_}')
    for clients_, measured in found.items():
        print(
            f"    {clients_:2} clients  {'commits/s':>22}  {'median':>19}  {'p99':>19}  {'CPU':>19}"
        )
        for who, all_ in measured.items():
            rate, *times = (statistics.median(each[at] for each in all_) for at in range(4))
            print(f"      {who:8} {rate:24,.0f}", *(f"{each:18,.0f} us" for each in times))
        for who in ("ours", "on one"):
            line = f"      {who:8} ratio"
            for at in range(4):
                pairs = zip(measured[who], measured["theirs"], strict=True)
                ratios = sorted(a[at] / b[at] for a, b in pairs)
                line += f"  {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            print(line, flush=True)
