"""A primary, a receiver, our source, and replicas: any of them is killed, and all tables are equal.

`tailrace receive` copies a primary's logs under load, `tailrace serve` serves the copy, and two
real replicas with parallel appliers follow it, one by GTID and one by file and position. In turn
each of the processes is killed by SIGKILL at random moments, and started again. The replicas must
report nothing but that they reconnect. In the end all of their tables have the primary's checksums.

./run python -m tools.campaign served --size full --seed 1
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pymysql

from tools.campaign.report import Report, conclude
from tools.servers import NAMES, Server

if TYPE_CHECKING:
    import argparse
    from types import TracebackType

ROOT: Final = Path(__file__).resolve().parents[2]
VICTIMS: Final = ("source", "receiver", "replica by GTID", "replica by file", "primary")
_WEIGHTS: Final = (4, 3, 1, 1, 1)
HEADER: Final = (
    f"| Server | Kills | {' | '.join(VICTIMS)} | Transactions | MB | Failures |\n"
    + "|---" * (5 + len(VICTIMS))
    + "|"
)
_PASSWORD: Final = "secret"
_TABLES: Final = 3
_PATIENCE: Final = 300.0
_COMMON: Final[dict[str, dict[str, str | int | bool]]] = {
    "mysql": {
        "gtid_mode": "ON",
        "enforce_gtid_consistency": True,
        "innodb_flush_log_at_trx_commit": 1,
        "relay_log_recovery": True,
        "skip_replica_start": True,
        "replica_parallel_workers": 4,
        "replica_preserve_commit_order": True,
        "sync_binlog": 1,
        "max_binlog_size": "1M",
    },
    "mariadb": {
        # Else a replica asks for no ANNOTATE_ROWS, and 11.4 and later lose their position inside of
        # a transaction: its events no longer say theirs.
        "log_slave_updates": True,
        "innodb_flush_log_at_trx_commit": 1,
        "relay_log_recovery": True,
        "skip_slave_start": True,
        "slave_parallel_threads": 4,
        "slave_parallel_mode": "optimistic",
        "sync_binlog": 1,
        "max_binlog_size": "1M",
    },
}
_RECONNECTS: Final = frozenset(
    {0, 1040, 1053, 1158, 1159, 1160, 1161, 2002, 2003, 2006, 2013, 2055}
)
"""Errors of a replica's I/O thread after which it tries again."""


_IN_A_STATEMENT: Final = 1595
_ENDS_MISSING: Final = "did not receive an expected Rows-log end-of-statement"
"""A replica of MariaDB by file and position stops so where its connection breaks inside a statement
of several events, also with a source of MariaDB; started again, it continues.
"""


_KEPT_APART: Final = "mariadb"
"""MariaDB keeps the position of a replica by file and position in a file, apart from its tables:
one that is killed may execute its last transaction again, and stops at what that has changed
already. The transaction is skipped then, as an operator would. By GTID it does not happen.
"""


class Wrong(Exception):
    """What must not be."""


@dataclass(frozen=True)
class Size:
    """Kills on each server, and clients of the load."""

    kills: int
    clients: int = 3


SIZES: Final = {"small": Size(5), "full": Size(34)}


@dataclass
class ServedReport(Report):
    """What came of one server."""

    server: str
    kills: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    size: int = 0

    def cells(self) -> list[object]:
        """See `HEADER`."""
        counts = [self.kills[victim] for victim in VICTIMS]
        cells = [self.server, self.kills.total(), *counts, self.transactions]
        return [*cells, round(self.size / 1e6)]


class Load:
    """Clients that commit, roll back, and change definitions; they outlive the primary's kills."""

    def __init__(self, primary: Server, clients: int, seed: str) -> None:
        self._primary = primary
        self._ending = threading.Event()
        self.transactions = 0
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed}/{each}"), each))
            for each in range(clients)
        ]

    def __enter__(self) -> Self:
        self._primary.execute("CREATE DATABASE served")
        for table in range(_TABLES):
            self._primary.execute(
                f"CREATE TABLE served.t{table} (id INT PRIMARY KEY AUTO_INCREMENT, who INT, n INT,"
                " body LONGBLOB) ENGINE=InnoDB"
            )
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _run(self, chance: random.Random, who: int) -> None:
        while not self._ending.is_set():
            with (
                suppress(pymysql.Error, OSError),  # the primary was killed, or a deadlock
                self._primary.connect(autocommit=False) as client,
                client.cursor() as cursor,
            ):
                while not self._ending.is_set():
                    self._transaction(chance, who, client, cursor)

    def _transaction(self, chance: random.Random, who: int, client: Any, cursor: Any) -> None:
        for _ in range(chance.choice((1, 1, 2, 5, 40))):
            table = f"served.t{chance.randrange(_TABLES)}"
            kind = chance.random()
            if kind < 0.6:
                size = chance.choice((10, 100, 5000, 200_000)) if kind < 0.58 else 2_000_000
                cursor.execute(
                    f"INSERT INTO {table} (who, n, body) VALUES (%s, %s, REPEAT('x', %s))",
                    (who, chance.randrange(1000), size),
                )
            elif kind < 0.8:
                cursor.execute(f"UPDATE {table} SET n = n + 1 WHERE who = %s LIMIT 5", (who,))
            else:
                cursor.execute(f"DELETE FROM {table} WHERE who = %s ORDER BY id LIMIT 8", (who,))
        if chance.random() < 0.1:
            client.rollback()
            return
        client.commit()
        self.transactions += 1
        if chance.random() < 0.01:
            cursor.execute(f"ALTER TABLE served.t0 COMMENT = 'by {who}'")
        self._ending.wait(chance.uniform(0, 0.02))


class _Process:
    """A process of ours, which can be killed and started again."""

    def __init__(self, log: Path, environment: dict[str, str] | None = None) -> None:
        self._log = log
        self._environment = os.environ | (environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tailrace", *arguments],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")[-2000:]


class _Chain:
    """All processes of one server's trial."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self._copy = folder / "copy"
        flavour = "mysql" if name.startswith("mysql") else "mariadb"
        options = _COMMON[flavour]
        self.primary = stack.enter_context(Server(name, options, server_id=1))
        self.replicas = {
            "replica by GTID": stack.enter_context(Server(name, options, server_id=71)),
            "replica by file": stack.enter_context(Server(name, options, server_id=72)),
        }
        self.port = _free_port()
        self._resumed: dict[str, tuple[str, int]] = {}
        """The position up to which a replica that was killed says that it has executed."""
        self.receiver = _Process(folder / "receiver.log")
        self.source = _Process(folder / "source.log", {"TAILRACE_SERVE_PASSWORD": _PASSWORD})
        stack.callback(self.receiver.kill)
        stack.callback(self.source.kill)

    @property
    def size(self) -> int:
        """Bytes of the copy."""
        return sum(path.stat().st_size for path in self._copy.glob("binlog.*[0-9]"))

    def start_receiver(self) -> None:
        url = f"mysql://root@127.0.0.1:{self.primary.port}/?ssl_mode=DISABLED&start=oldest&skip_torn_tail=1"
        self.receiver.start("receive", "--follow", url, "--into", str(self._copy))

    def start_source(self) -> None:
        _wait(lambda: any(self._copy.glob("binlog.*[0-9]")), "the copy does not begin")
        listen = f"127.0.0.1:{self.port}"
        self.source.start(
            *("serve", str(self._copy), "--listen", listen, "--server-id", "4242"),
            *("--user", "repl"),
        )
        _wait(self._listens, lambda: f"the source does not listen: {self.source.said()}")

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def attach(self) -> None:
        """Let both replicas follow our source."""
        for how, replica in self.replicas.items():
            by_gtid = how == "replica by GTID"
            mysql = replica.flavour == "mysql"
            word = "SOURCE" if mysql else "MASTER"
            given = {
                "HOST": "127.0.0.1",
                "PORT": self.port,
                "USER": "repl",
                "PASSWORD": _PASSWORD,
                "SSL": 0,
                "CONNECT_RETRY": 1,
            }
            if not by_gtid:
                given |= {"LOG_FILE": "binlog.000001", "LOG_POS": 4}
            settings = ", ".join(f"{word}_{key} = {value!r}" for key, value in given.items())
            if mysql:
                extra = f"SOURCE_AUTO_POSITION = {by_gtid:d}, SOURCE_RETRY_COUNT = 100000"
                replica.execute(f"CHANGE REPLICATION SOURCE TO {settings}, {extra}")
                replica.execute("START REPLICA")
            else:
                gtid = "slave_pos" if by_gtid else "no"
                replica.execute(f"CHANGE MASTER TO {settings}, MASTER_USE_GTID = {gtid}")
                replica.execute("START SLAVE")

    def kill(self, victim: str) -> None:
        """Kill one of them, and start it again."""
        if victim == "receiver":
            self.receiver.kill()
            self.start_receiver()
        elif victim == "source":
            self.source.kill()
            self.start_source()
        elif victim == "primary":
            self.primary.kill()
            self.primary.start()
            self.receiver.kill()  # the primary has another port now
            self.start_receiver()
        else:
            replica = self.replicas[victim]
            replica.kill()
            replica.start()
            self._resumed[victim] = _executed(_status(replica))
            replica.execute("START REPLICA" if replica.flavour == "mysql" else "START SLAVE")

    def check(self) -> None:
        """Raise `Wrong` for what the replicas say beside that they reconnect."""
        for process, name in ((self.receiver, "receiver"), (self.source, "source")):
            if not process.is_running:
                raise Wrong(f"the {name} ended by itself: {process.said()}")
        for how, replica in self.replicas.items():
            status = _status(replica)
            number = int(status["Last_IO_Errno"])
            if number == _IN_A_STATEMENT and _ENDS_MISSING in replica.log():
                replica.execute("START SLAVE")
            elif number not in _RECONNECTS:
                raise Wrong(
                    f"{how}: error {number}: {status['Last_IO_Error']}\n{replica.log()[-1500:]}"
                )
            if not int(status["Last_SQL_Errno"]):
                continue
            if (
                replica.flavour == _KEPT_APART
                and how == "replica by file"
                and _executed(status) == self._resumed.pop(how, None)
            ):
                replica.execute("SET GLOBAL sql_slave_skip_counter = 1")
                replica.execute("START SLAVE SQL_THREAD")
            else:
                raise Wrong(f"{how}: {status['Last_SQL_Error']}\n{replica.log()[-1500:]}")

    def compare(self) -> None:
        """Wait until all tables are equal. Raises `Wrong`."""
        tables = ", ".join(f"served.t{table}" for table in range(_TABLES))
        wanted = self.primary.query(f"CHECKSUM TABLE {tables}")
        for how, replica in self.replicas.items():
            deadline = time.monotonic() + _PATIENCE
            while (found := _checksums(replica, tables)) != wanted:
                self.check()
                if time.monotonic() > deadline:
                    raise Wrong(f"{how}: {found} and not {wanted}; {_status(replica)}")
                time.sleep(0.2)


def _checksums(server: Server, tables: str) -> list[tuple[Any, ...]]:
    with suppress(pymysql.Error):
        return server.query(f"CHECKSUM TABLE {tables}")
    return []


def _executed(status: dict[str, Any]) -> tuple[str, int]:
    """The position of the source up to which a replica has executed, by its status."""
    word = "Source" if "Exec_Source_Log_Pos" in status else "Master"
    file = f"Relay_{word}_Log_File"
    return str(status[file]), int(status[f"Exec_{word}_Log_Pos"])


def _status(replica: Server) -> dict[str, Any]:
    sql = "SHOW REPLICA STATUS" if replica.flavour == "mysql" else "SHOW SLAVE STATUS"
    with replica.connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(sql)
        return dict(cursor.fetchone() or {})


def _wait(met: Any, what: Any) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not met():
        if time.monotonic() > deadline:
            raise Wrong(what() if callable(what) else what)
        time.sleep(0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def run(name: str, size: Size, seed: int) -> ServedReport:
    """Kill and restart the processes around one server, and compare all tables in the end."""
    report = ServedReport(name)
    chance = random.Random(f"{seed}/{name}")
    with tempfile.TemporaryDirectory(prefix="tailrace-served-") as folder, ExitStack() as stack:
        chain = _Chain(name, Path(folder), stack)
        try:
            with Load(chain.primary, size.clients, f"{seed}/{name}") as load:
                chain.start_receiver()
                chain.start_source()
                chain.attach()
                for number in range(size.kills):
                    time.sleep(chance.uniform(0.2, 3))  # the moment is what is random here
                    chain.check()
                    victim = VICTIMS[number % 5] if number < 5 else _chosen(chance)
                    chain.kill(victim)
                    report.kills[victim] += 1
            report.transactions = load.transactions
            chain.compare()
            chain.check()
        except Wrong as error:
            report.failures.append(f"after {report.kills.total()} kills: {error}")
        report.size = chain.size
    return report


def _chosen(chance: random.Random) -> str:
    return chance.choices(VICTIMS, _WEIGHTS)[0]


def add_arguments(parser: Any) -> None:
    """What the command takes."""
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", action="append", choices=NAMES, help="only this one")


def command(given: argparse.Namespace) -> int:
    """Run it as the arguments say, and print what came of it."""
    began = time.monotonic()
    reports = []
    for name in given.server or NAMES:
        reports.append(run(name, SIZES[given.size], given.seed))
        for failure in reports[-1].failures:
            print(f"FAILED {name} {failure}", flush=True)
    kills = sum(report.kills.total() for report in reports)
    seconds = time.monotonic() - began
    return conclude(HEADER, reports, f"seed {given.seed}: {kills} kills in {seconds:.0f} s")
