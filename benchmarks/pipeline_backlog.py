"""A backlog, worked off by `mirror` and applied by the server's own replica.

A shop's transactions: an order, three items of it, the stock of these counted down, at times an old
order's items deleted; by four clients, in the server. The replica has all of it in its relay log
before its applier is started, with workers and all else as the server has it by default, but with
memory as large as the data and nothing synced, which is in its favour. `mirror` is a process from
its start on: Python, Spark and the commits are in its time.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from pymysql.cursors import DictCursor
from pymysql.err import OperationalError

from benchmarks.pipeline_rows import Options, Row
from tailrace.errors import PipelineError
from tailrace.spark.lake.reading import LakeView
from tools.applied.status import error_text, replica_status
from tools.campaign.mirrored_lake import LakeReader
from tools.servers import Server

_ROOT: Final = Path(__file__).resolve().parent.parent
_CLIENTS: Final = 4
_AT_ONCE: Final = 2000
"""Transactions of a call."""
_STOCK: Final = 100_000
_SUMMED: Final = {"orders": "id", "items": "article", "stock": "quantity"}
"""The tables, and a column whose sum tells two states apart."""
_FORMATS: Final = ("parquet", "delta")
_COMMON: Final = {
    "binlog_row_metadata": "FULL",
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_buffer_pool_size": "1G",
    "max_binlog_size": "256M",
}
_OF_FLAVOUR: Final = {
    "mysql": {
        "innodb_redo_log_capacity": "1G",
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
    },
    "mariadb": {"innodb_log_file_size": "512M"},
}
_WAIT_SECONDS: Final = 3600.0
_DEADLOCK: Final = 1213

_SCHEMA: Final = (
    "CREATE DATABASE bench",
    """CREATE TABLE bench.orders (
      id BIGINT NOT NULL PRIMARY KEY, customer INT NOT NULL, state VARCHAR(10) NOT NULL,
      total DECIMAL(12,2) NOT NULL, note VARCHAR(100), made DATETIME(6) NOT NULL,
      changed TIMESTAMP(3) NOT NULL) CHARACTER SET utf8mb4""",
    """CREATE TABLE bench.items (
      order_id BIGINT NOT NULL, line SMALLINT NOT NULL, article INT NOT NULL,
      quantity INT NOT NULL, price DECIMAL(10,2) NOT NULL, name VARCHAR(60) NOT NULL,
      PRIMARY KEY (order_id, line)) CHARACTER SET utf8mb4""",
    """CREATE TABLE bench.stock (
      article INT NOT NULL PRIMARY KEY, quantity INT NOT NULL, name VARCHAR(60) NOT NULL,
      price DECIMAL(10,2) NOT NULL, place VARCHAR(20) NOT NULL, changed TIMESTAMP(3) NOT NULL)
      CHARACTER SET utf8mb4""",
    f"""CREATE PROCEDURE bench.fill() BEGIN DECLARE n INT DEFAULT 0; START TRANSACTION;
      WHILE n < {_STOCK} DO
        INSERT INTO bench.stock VALUES (n, 1000000, CONCAT('article number ', n), n / 100,
          CONCAT('shelf ', n % 977), '2026-01-01');
        SET n = n + 1;
      END WHILE; COMMIT; END""",
    f"""CREATE PROCEDURE bench.sell(first BIGINT, many INT) BEGIN
      DECLARE n BIGINT DEFAULT first; DECLARE a INT; DECLARE b INT; DECLARE c INT;
      WHILE n < first + many DO
        SET a = n * 7919 % {_STOCK}, b = n * 104729 % {_STOCK}, c = n * 1299709 % {_STOCK};
        START TRANSACTION;
        INSERT INTO bench.orders VALUES (n, n * 31 % 1000003, 'new', n % 100000 / 100,
          CONCAT('as by telephone, number ', n), NOW(6), NOW(3));
        INSERT INTO bench.items VALUES
          (n, 1, a, 1 + n % 5, a / 100, CONCAT('article number ', a)),
          (n, 2, b, 1 + n % 3, b / 100, CONCAT('article number ', b)),
          (n, 3, c, 1, c / 100, CONCAT('article number ', c));
        UPDATE bench.stock SET quantity = quantity - 1, changed = NOW(3) WHERE article IN (a, b, c);
        IF n % 20 = 0 THEN DELETE FROM bench.items WHERE order_id = n - {_AT_ONCE}; END IF;
        IF n % 3 = 0 THEN UPDATE bench.orders SET state = 'paid' WHERE id = n - 50; END IF;
        COMMIT;
        SET n = n + 1;
      END WHILE; END""",
)


def measure(options: Options) -> list[Row]:
    """Seconds of the replica, and of each mirror."""
    size = (options.gigabytes or (0.2 if options.quick else 2.0)) * 1e9
    return [row for name in options.servers for row in _one(name, size)]


def _one(name: str, size: float) -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="tailrace-backlog-"))
    try:
        with Server(name) as probe:
            flavour = probe.flavour
        settings = _COMMON | _OF_FLAVOUR[flavour]
        with Server(name, settings) as source:
            _fill(source, size)
            expected = _contents(source)
            log = sum(path.stat().st_size for path in source.binlogs())
            applied = _replicated(name, settings, source)
            source.stop(keep=True)
            title = f"{name}, {log / 1e9:.2f} GB of log"
            rows = [Row("backlog", f"{title}: a replica applies it", f"{applied:.1f} s")]
            for way in ("once", "following"):
                for each in _FORMATS:
                    seconds = _mirrored(source, folder / f"{each}-{way}", each, way, expected)
                    what = f"{title}: mirror into {each}, changelog and current, {way}"
                    result = f"{seconds:.1f} s, {applied / seconds:.1f} times as fast"
                    rows.append(Row("backlog", what, result, "5"))
        return rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(source: Server, size: float) -> None:
    """Have clients sell until there is so much log."""
    for sql in _SCHEMA:
        source.execute(sql)
    source.execute("CALL bench.fill()")
    lock = threading.Lock()
    next_order = 0
    failed: list[Exception] = []

    def sell() -> None:
        nonlocal next_order
        try:
            with source.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 50")
                while not failed and _logged(source) < size:
                    with lock:
                        first, next_order = next_order, next_order + _AT_ONCE
                    _sell(cursor, first)
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=sell) for _ in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    source.execute("CREATE TABLE bench.finished (n INT PRIMARY KEY)")


def _sell(cursor: Any, first: int) -> None:
    """Sell; two clients may want each other's articles, so a part is gone on with."""
    at = first
    while at < first + _AT_ONCE:
        try:
            cursor.execute(f"CALL bench.sell({at}, {first + _AT_ONCE - at})")
        except OperationalError as error:
            if error.args[0] != _DEADLOCK:
                raise
            cursor.execute("ROLLBACK")
            cursor.execute(
                "SELECT MAX(id) FROM bench.orders WHERE id BETWEEN %s AND %s",
                (first, first + _AT_ONCE - 1),
            )
            ((last,),) = cursor.fetchall()
            at = first if last is None else int(last) + 1
        else:
            return


def _logged(source: Server) -> int:
    return sum(path.stat().st_size for path in source.binlogs())


def _contents(source: Server) -> dict[str, tuple[int, int]]:
    """Rows, and the sum of a column, of each table."""
    found = {}
    for table, column in _SUMMED.items():
        ((count, total),) = source.query(f"SELECT COUNT(*), SUM({column}) FROM bench.{table}")
        found[table] = (int(count), int(total))
    return found


def _replicated(name: str, settings: dict[str, str], source: Server) -> float:
    """Seconds that a replica's applier takes, from its start."""
    own = {**settings, "relay_log": "relay", "skip_replica_start": "ON"}
    if source.flavour == "mariadb":
        own.pop("skip_replica_start")
    with Server(name, own, server_id=2) as replica:
        first = source.binlogs()[0].name
        if source.flavour == "mysql":
            replica.execute(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='root', "
                f"SOURCE_PORT={source.port}, SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1, "
                f"SOURCE_LOG_FILE='{first}', SOURCE_LOG_POS=4"
            )
        else:
            replica.execute(
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='root', "
                f"MASTER_PORT={source.port}, MASTER_SSL=0, MASTER_USE_GTID=no, "
                f"MASTER_LOG_FILE='{first}', MASTER_LOG_POS=4"
            )
        word = "REPLICA" if source.flavour == "mysql" else "SLAVE"
        replica.execute(f"START {word} IO_THREAD")
        _wait(lambda: _received(replica) == _end(source), replica, applying=False)
        began = time.perf_counter()
        replica.execute(f"START {word} SQL_THREAD")
        _wait(lambda: _has_finished(replica), replica, applying=True)
        seconds = time.perf_counter() - began
        if _contents(replica) != _contents(source):
            raise RuntimeError("the replica has not what the source has")
        replica.execute(f"STOP {word}")
    return seconds


def _wait(condition: Any, replica: Server, *, applying: bool) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        status = replica_status(replica)
        running = status["sql_running" if applying else "io_running"]
        if running == "No" or time.monotonic() > deadline:
            raise RuntimeError(f"the replica: {error_text(replica, status)}")
        time.sleep(0.05)


def _received(replica: Server) -> tuple[str, int]:
    sql = "SHOW REPLICA STATUS" if replica.flavour == "mysql" else "SHOW SLAVE STATUS"
    word = "Source" if replica.flavour == "mysql" else "Master"
    with replica.connect(cursorclass=DictCursor) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        row: Any = cursor.fetchone()
    return str(row[f"{word}_Log_File"]), int(row[f"Read_{word}_Log_Pos"])


def _end(source: Server) -> tuple[str, int]:
    where = "SHOW BINARY LOG STATUS" if source.flavour == "mysql" else "SHOW MASTER STATUS"
    file, position, *_ = source.query(where)[0]
    return str(file), int(position)


def _has_finished(replica: Server) -> bool:
    sql = "SELECT 1 FROM information_schema.tables WHERE table_schema='bench' AND table_name=%s"
    return bool(replica.query(sql, ("finished",)))


def _mirrored(
    source: Server, lake: Path, name: str, way: str, expected: dict[str, tuple[int, int]]
) -> float:
    """Seconds of a mirror, from its process' start until the lake has all."""
    argv = [sys.executable, "-m", "tailrace", "mirror", str(source.data)]
    argv += ["--into", str(lake), "--format", name, "--tables", "bench.*"]
    began = time.perf_counter()
    if way == "once":
        subprocess.run(argv, cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
    else:
        seconds = _followed([*argv, "--follow", "--trigger", "1s"], lake, source, began)
    reader = LakeReader(lake, name)
    for table, (count, total) in expected.items():
        rows = reader.current(f"bench.{table}")
        column = _SUMMED[table]
        found = None if rows is None else (rows.num_rows, sum(rows[column].to_pylist()))
        if found != (count, total):
            raise RuntimeError(f"{name}: bench.{table} is {found}, not {(count, total)}")
    shutil.rmtree(lake)
    return seconds


def _followed(argv: list[str], lake: Path, source: Server, began: float) -> float:
    """Seconds until the lake is at the log's end."""
    last = source.binlogs()[-1]
    with subprocess.Popen(argv, cwd=_ROOT, stdout=subprocess.DEVNULL) as process:
        while not _is_at_the_end(lake, last):
            if process.poll() is not None:
                raise RuntimeError(f"the mirror ended by itself: {process.returncode}")
            time.sleep(0.05)
        seconds = time.perf_counter() - began
        process.send_signal(signal.SIGTERM)
        process.wait()
    return seconds


def _is_at_the_end(lake: Path, last: Path) -> bool:
    """Whether less is left of the log than what a server writes to it when it stops."""
    try:
        sources = LakeView.open(lake).manifest.sources
    except PipelineError:  # nothing is committed yet
        return False
    return any(
        state.file == last.name and state.offset > last.stat().st_size - 200
        for state in sources.values()
    )
