"""A program that commits to a log of its own and serves it: python -m benchmarks.semisync_program …

FOLDER FLAVOUR SYNC [one]; with ``one`` on one processor. Prints its port and the log file's name;
then, for each line ``CLIENTS SECONDS`` that it reads, has so many threads commit a row each, again
and again, and prints how many commits returned, the seconds, and the median and the 99th percentile
of the time that one took, in microseconds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import tailrace
from benchmarks.semisync_clients import said
from tailrace.replication.semisync.source import SemisyncSource

if TYPE_CHECKING:
    from tailrace.writing import LogWriter

TABLE = "id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100) CHARACTER SET utf8mb4"
USER, PASSWORD = "repl", "secret"
_ROW = "x" * 100
_LONGEST = 600.0


class _Clients:
    def __init__(self, log: LogWriter, table: tailrace.Table) -> None:
        self._log, self._table = log, table
        self._number = 0
        self._took: list[float] = []

    def run(self, clients: int, seconds: float) -> str:
        """Run them, and say how it went."""
        self._took = []
        start = time.perf_counter()
        threads = [
            threading.Thread(target=self._client, args=(start + seconds,)) for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return said(self._took, time.perf_counter() - start)

    def _client(self, until: float) -> None:
        begun, took = time.perf_counter(), list[float]()
        while begun < until or not took:
            self._number += 1
            with self._log.transaction() as transaction:
                transaction.insert(self._table, [(self._number, _ROW)])
            now = time.perf_counter()
            took.append(now - begun)
            begun = now
        self._took += took


def main(folder: str, flavour: str, sync: str, processors: str = "all") -> None:
    """Serve until standard input ends."""
    if processors == "one":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    semisync = SemisyncSource(timeout=_LONGEST)
    table = tailrace.Table("bench.t", TABLE, flavour=flavour)
    with (
        tailrace.create(
            f"{folder}/binlog.000001",
            flavour=flavour,
            server_id=7,
            sync=sync,
            metadata="minimal" if flavour == "mysql" else "none",
            observers=[semisync],
        ) as log,
        tailrace.serve(
            folder, server_id=7, user=USER, password=PASSWORD, observers=[semisync]
        ) as source,
    ):
        clients = _Clients(log, table)
        print(source.port, flush=True)
        for line in sys.stdin:
            word, *given = line.split()
            if word == "file":
                log.rotate()
                print(log.position.file, flush=True)
            elif word == "end":
                print(log.position.offset, flush=True)
            elif word == "clients":
                print(semisync.status.clients, flush=True)
            else:
                print(clients.run(int(word), float(given[0])), flush=True)
                status = semisync.status
                if status.no_tx:
                    raise RuntimeError(f"commits returned without an acknowledgement: {status}")


if __name__ == "__main__":
    main(*sys.argv[1:])
