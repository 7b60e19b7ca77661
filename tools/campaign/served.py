"""A primary, a receiver, our source, and replicas: any of them is killed, and all tables are equal.

`tailrace receive` copies a primary's logs under load, `tailrace serve` serves the copy, and two
real replicas follow it, one by GTID with a parallel applier, and one by file and position. In turn
each of the processes is killed by SIGKILL at random moments, and started again. The replicas must
report nothing but that they reconnect. In the end all of their tables have the primary's checksums.
"""

from __future__ import annotations

import random
import socket
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import pymysql

from tools.applied.serve import follow
from tools.applied.status import replica_status
from tools.campaign.process import TAILRACE, Process, Wrong
from tools.campaign.report import Report
from tools.servers import NAMES, Server, free_port

SERVERS: Final = NAMES
VICTIMS: Final = ("source", "receiver", "replica by GTID", "replica by file", "primary")
_WEIGHTS: Final = (4, 3, 1, 1, 1)
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
already. The transaction is skipped then, as an operator would. With parallel threads it may be
several, so this replica has none. By GTID it does not happen.
"""


@dataclass(frozen=True)
class Size:
    """Kills on each server, and clients of the load."""

    kills: int
    clients: int = 3


SIZES: Final = {"small": Size(5), "full": Size(34)}


@dataclass
class ServedReport(Report):
    """What came of one server."""

    columns: ClassVar = f"Server | Kills | {' | '.join(VICTIMS)} | Transactions | MB"
    counted: ClassVar = VICTIMS
    server: str
    kills: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    megabytes: float = 0


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

    def __exit__(self, *_: object) -> None:
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


class _Chain:
    """All processes of one server's trial."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self._copy = folder / "copy"
        flavour = "mysql" if name.startswith("mysql") else "mariadb"
        options = _COMMON[flavour]
        by_file = options | {"slave_parallel_threads": 0} if flavour == _KEPT_APART else options
        self.primary = stack.enter_context(Server(name, options, server_id=1))
        self.replicas = {
            "replica by GTID": stack.enter_context(Server(name, options, server_id=71)),
            "replica by file": stack.enter_context(Server(name, by_file, server_id=72)),
        }
        self.port = free_port()
        self._resumed: dict[str, tuple[str, int]] = {}
        """The position up to which a replica that was killed says that it has executed."""
        self.receiver = Process(folder / "receiver.log", [*TAILRACE, "receive", "--follow"])
        listen = ("--listen", f"127.0.0.1:{self.port}", "--server-id", "4242", "--user", "repl")
        command = [*TAILRACE, "serve", str(self._copy), *listen]
        secret = {"TAILRACE_SERVE_PASSWORD": _PASSWORD}
        self.source = Process(folder / "source.log", command, secret)
        stack.callback(self.receiver.kill)
        stack.callback(self.source.kill)

    @property
    def megabytes(self) -> float:
        """The size of the copy."""
        return sum(path.stat().st_size for path in self._copy.glob("binlog.*[0-9]")) / 1e6

    def start_receiver(self) -> None:
        url = f"mysql://root@127.0.0.1:{self.primary.port}/?ssl_mode=DISABLED&start=oldest"
        self.receiver.start(f"{url}&skip_torn_tail=1", "--into", str(self._copy))

    def start_source(self) -> None:
        self.receiver.wait(lambda: any(self._copy.glob("binlog.*[0-9]")), "does not begin a copy")
        self.source.start()
        self.source.wait(self._listens, "does not listen")

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def attach(self) -> None:
        """Let both replicas follow our source."""
        for how, replica in self.replicas.items():
            user: dict[str, Any] = {"HOST": "127.0.0.1", "PORT": self.port, "USER": "repl"}
            if replica.flavour == "mysql":
                user["RETRY_COUNT"] = 100_000
            by_gtid, first = how == "replica by GTID", "binlog.000001"
            user |= {"PASSWORD": _PASSWORD, "SSL": 0, "CONNECT_RETRY": 1}
            follow(replica, by_gtid=by_gtid, first=first, **user)

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
            self._resumed[victim] = _executed(replica_status(replica))
            replica.execute("START REPLICA" if replica.flavour == "mysql" else "START SLAVE")

    def check(self) -> None:
        """Raise `Wrong` for what the replicas say beside that they reconnect."""
        _ = self.receiver.running, self.source.running
        for how, replica in self.replicas.items():
            status = replica_status(replica)
            number = int(status["io_errno"])
            if number == _IN_A_STATEMENT and _ENDS_MISSING in replica.log():
                replica.execute("START SLAVE")
            elif number not in _RECONNECTS:
                raise Wrong(f"{how}: error {number}: {status['io_error']}\n{replica.log()[-1500:]}")
            if not int(status["sql_errno"]):
                continue
            if (
                replica.flavour == _KEPT_APART
                and how == "replica by file"
                and _executed(status) == self._resumed.pop(how, None)
            ):
                replica.execute("SET GLOBAL sql_slave_skip_counter = 1")
                replica.execute("START SLAVE SQL_THREAD")
            else:
                raise Wrong(f"{how}: {status['sql_error']}\n{replica.log()[-1500:]}")

    def compare(self) -> None:
        """Wait until all tables are equal. Raises `Wrong`."""
        tables = ", ".join(f"served.t{table}" for table in range(_TABLES))
        wanted = self.primary.query(f"CHECKSUM TABLE {tables}")
        for how, replica in self.replicas.items():
            deadline = time.monotonic() + _PATIENCE
            while (found := _checksums(replica, tables)) != wanted:
                self.check()
                if time.monotonic() > deadline:
                    raise Wrong(f"{how}: {found} and not {wanted}; {replica_status(replica)}")
                time.sleep(0.2)


def _checksums(server: Server, tables: str) -> list[tuple[Any, ...]]:
    with suppress(pymysql.Error):
        return server.query(f"CHECKSUM TABLE {tables}")
    return []


def _executed(status: dict[str, Any]) -> tuple[str, int]:
    return str(status["source_log_file"]), int(status["source_log_pos"])


def run(name: str, size: Size, seed: int) -> ServedReport:
    """Kill and restart the processes around one server, and compare all tables in the end."""
    report = ServedReport(name)
    chance = random.Random(f"{seed}/{name}")
    with tempfile.TemporaryDirectory(prefix="tailrace-served-") as folder, ExitStack() as stack:
        chain = _Chain(name, Path(folder), stack)
        with report.noting(name):
            with Load(chain.primary, size.clients, f"{seed}/{name}") as load:
                chain.start_receiver()
                chain.start_source()
                chain.attach()
                for number in range(size.kills):
                    time.sleep(chance.uniform(0.2, 3))  # the moment is what is random here
                    chain.check()
                    victim = (
                        VICTIMS[number % 5] if number < 5 else chance.choices(VICTIMS, _WEIGHTS)[0]
                    )
                    chain.kill(victim)
                    report.kills[victim] += 1
            report.transactions = load.transactions
            chain.compare()
            chain.check()
        report.megabytes = chain.megabytes
    return report
