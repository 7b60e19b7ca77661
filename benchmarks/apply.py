"""Applying a log: `tailrace apply` with 1 and 4 workers, and a real replica's applier.

Clients of a source run sysbench's ``oltp_write_only`` (two updates, a delete and an insert of 190
bytes in each transaction), then inserts, updates and deletes of 1 to 200 rows at random, both on
four tables. Then the source is stopped, and each contender applies the same log file to the same
server, to the same rows, in turn. The replica's applier reads the file as its relay log, at its
defaults (MySQL: 4 workers, commit order kept; MariaDB: none besides itself). Seconds are from the
start of the command, ours with Python's start and imports; the processor's time is that of the
server and of ours together.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tailrace
from tools.applied import as_relay_log, forget, gtid_mode
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable

_TABLES: Final = 4
_ROWS: Final = 10_000
_CLIENTS: Final = 8
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_OLTP: Final = """CREATE PROCEDURE bench.oltp(seed INT, many INT)
BEGIN
  DECLARE n INT DEFAULT 0; DECLARE r INT; DECLARE t INT; DECLARE m INT;
  SET SESSION rand_seed1 = seed * 7919 + 1, rand_seed2 = seed * 104729 + 1;
  WHILE n < many DO
    SET r = 1 + FLOOR(RAND() * {rows}), t = FLOOR(RAND() * {tables}),
      m = r + POW(200, RAND());
    START TRANSACTION;
    {choices}
    COMMIT;
    SET n = n + 1;
  END WHILE;
END"""
_WRITES: Final = """
      UPDATE bench.t{t} SET k = k + 1 WHERE id = r;
      UPDATE bench.t{t} SET c = SHA2(RAND(), 384) WHERE id = 1 + r * 7 % {rows};
      DELETE FROM bench.t{t} WHERE id = 1 + r * 13 % {rows};
      INSERT INTO bench.t{t} VALUES (1 + r * 13 % {rows}, r, SHA2(r, 384), SHA2(n, 224));"""
_RANDOM: Final = """
      CASE FLOOR(RAND() * 3)
      WHEN 0 THEN UPDATE bench.t{t} SET k = n WHERE id BETWEEN r AND m;
      WHEN 1 THEN DELETE FROM bench.t{t} WHERE id BETWEEN r AND m;
      ELSE INSERT IGNORE INTO bench.t{t} SELECT id + r % 100, k, c, pad FROM bench.t0
        WHERE id BETWEEN r AND m;
      END CASE;"""


class _Log:
    """A source's log: a file that makes the tables, and one with so many transactions."""

    def __init__(self, name: str, transactions: int, stack: ExitStack) -> None:
        mysql = name.startswith("mysql")
        options = ["--innodb-flush-log-at-trx-commit=0", "--max-binlog-size=1G"]
        source = stack.enter_context(Server(name, options))
        if mysql:
            gtid_mode(source, "ON")
        source.execute("CREATE DATABASE bench")
        source.execute("USE bench")
        most = "cte_max_recursion_depth" if mysql else "max_recursive_iterations"
        source.execute(f"SET SESSION {most} = 1000000")
        for number in range(_TABLES):
            source.execute(
                f"CREATE TABLE bench.t{number} (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120)"
                " NOT NULL, pad CHAR(60) NOT NULL, KEY (k)) ENGINE=InnoDB"
            )
            source.execute(
                f"INSERT INTO bench.t{number} WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT"
                f" id + 1 FROM n WHERE id < {_ROWS})"
                " SELECT id, id, SHA2(id, 384), SHA2(id, 224) FROM n"
            )
        self.tables = source.rotate()
        for kind, name_ in ((_WRITES, "writes"), (_RANDOM, "random")):
            text = " ".join(
                f"IF t = {t} THEN {kind.format(t=t, rows=_ROWS)} END IF;" for t in range(_TABLES)
            )
            made = _OLTP.format(rows=_ROWS, tables=_TABLES, choices=text)
            source.execute(made.replace("bench.oltp", f"bench.{name_}"))
        source.rotate()
        self.loads: dict[str, Path] = {}
        for name_, share in (("writes", 1), ("random", 4)):
            many = transactions // share // _CLIENTS
            with ThreadPoolExecutor(_CLIENTS) as clients:
                list(clients.map(partial(_call, source, name_, many), range(_CLIENTS)))
            self.loads[name_] = source.rotate()
        source.stop(keep=True)


def _call(source: Server, name: str, many: int, seed: int) -> None:
    with source.connect() as connection, connection.cursor() as cursor:
        done = 0
        while done < many:  # a deadlock ends a call
            try:
                cursor.execute(f"CALL bench.{name}({seed * 1000 + done}, 100)")
            except Exception as error:
                if error.args[0] not in {1205, 1213, 1062}:
                    raise
                connection.rollback()
            done += 100


def _cpu(pid: int) -> float:
    """The seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _ours(server: Server, file: Path, workers: int) -> float:
    """Seconds of our processor."""
    to = f"mysql://root@127.0.0.1:{server.port}/?ssl-mode=DISABLED"
    line = ["apply", str(file), "--to", to, "--workers", str(workers)]
    process = subprocess.Popen([sys.executable, "-m", "tailrace", *line], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"apply ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _theirs(server: Server, file: Path) -> float:
    as_relay_log(server, [file])
    return 0.0


def _prepare(server: Server, log: _Log) -> None:
    forget(server, "bench", "tailrace")
    as_relay_log(server, [log.tables])


def run(*, quick: bool) -> None:
    """Print transactions a second, processor time, and ratios by rounds."""
    rounds, transactions = (2, 8_000) if quick else (5, 40_000)
    for name in ("mysql-9.7", "mariadb-11.8"):
        with ExitStack() as stack:
            log = _Log(name, transactions, stack)
            target = stack.enter_context(Server(name, ["--relay-log=relay"], server_id=2))
            if target.flavour == "mysql":
                gtid_mode(target, "ON")
            for load, file in log.loads.items():
                _compare(target, log, load, file, rounds)


def _compare(target: Server, log: _Log, load: str, file: Path, rounds: int) -> None:
    contenders: dict[str, Callable[[], float]] = {
        "ours, 1 worker": lambda: _ours(target, file, 1),
        "ours, 4 workers": lambda: _ours(target, file, 4),
        "replica's applier": lambda: _theirs(target, file),
    }
    with tailrace.open(file) as events:
        count = sum(event.header.type in {33, 162} for event in events)
    print(f"{target.name}, {load}: {count:,} transactions, {file.stat().st_size / 1e6:.0f} MB")
    found: dict[str, list[tuple[float, float, float]]] = {each: [] for each in contenders}
    sums: dict[str, list[int]] = {}
    for turn in range(rounds + 1):
        for at in range(len(contenders)):
            each = list(contenders)[(at + turn) % len(contenders)]
            _prepare(target, log)
            before, start = _cpu(target.pid or 0), time.perf_counter()
            own = contenders[each]()
            wall, cpu = time.perf_counter() - start, _cpu(target.pid or 0) - before
            if turn:
                found[each].append((count / wall, own, cpu))
            sums[each] = [
                int(target.query(f"CHECKSUM TABLE bench.t{number}")[0][1])
                for number in range(_TABLES)
            ]
    if len({tuple(each) for each in sums.values()}) != 1:
        raise RuntimeError(f"the tables differ: {sums}")
    theirs = [rate for rate, _, _ in found["replica's applier"]]
    for each, figures in found.items():
        rates, ours, server = ([each[at] for each in figures] for at in range(3))
        ratios = sorted(a / b for a, b in zip(rates, theirs, strict=True))
        print(
            f"  {each:18} {statistics.median(rates):7,.0f}/s ({min(rates):,.0f} to"
            f" {max(rates):,.0f}); processor, us: ours"
            f" {statistics.median(ours) / count * 1e6:4.0f}, server"
            f" {statistics.median(server) / count * 1e6:4.0f};"
            f" {statistics.median(ratios):.2f} x ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )
