"""Indexers that are killed under load: the index must equal the tables.

A real server is under random load: rows with and without keys, changed keys, transactions of
thousands of rows, rollbacks, XA, and statements that change, rename, empty, drop and create tables.
Meanwhile `tailrace index --follow` runs, is killed by SIGKILL at random moments, and is started
again. In the end the index must have the rows that SELECT gives, each as often, and queries must
find in it what they find in an index that is built again from the tables.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import pymysql

from tailrace.search import Index, index
from tools.campaign.process import ROOT, TAILRACE, Process, Wrong
from tools.campaign.report import Report
from tools.servers import Server

SERVERS: Final = ("mysql-9.7", "mariadb-11.8")
SIZES: Final = {"small": 4, "full": 50}
"""Kills on each server."""
_WORDS: Final = [f"{a}{b}" for a in ("lem", "tor", "äpf", "STO") for b in ("on", "el", "ane", "x")]


@dataclass
class IndexedReport(Report):
    """What came of one server."""

    columns: ClassVar = (
        "Server | Kills | before the first commit | Transactions | Rows | Statements"
    )
    server: str
    kills: int = 0
    early: int = 0
    transactions: int = 0
    rows: int = 0
    statements: int = 0


def run(name: str, kills: int, seed: int) -> IndexedReport:
    """Kill indexers of one server."""
    report = IndexedReport(name)
    rng = random.Random(f"{seed}/{name}")
    with (
        Server(name, ["--binlog-row-metadata=FULL"]) as server,
        tempfile.TemporaryDirectory(prefix="tailrace-indexed-") as folder,
    ):
        for sql in _TABLES:
            server.execute(sql)
        url = f"mysql://root@127.0.0.1:{server.port}/?ssl-mode=DISABLED"
        into = Path(folder) / "index"
        stop = threading.Event()
        line = [*TAILRACE, "index", url, "--tables", "load.*"]
        _index([*line, "--into", str(into)])
        loads = [
            threading.Thread(target=_load, args=(server, f"{seed}/{name}/{number}", stop, report))
            for number in range(2)
        ]
        for each in loads:
            each.start()
        try:
            with report.noting(name):
                while report.kills < kills:
                    fresh = report.kills % 5 == 4  # this one reads the tables
                    _kill(line, Path(folder) / "other" if fresh else into, report, rng)
        finally:
            stop.set()
            for each in loads:
                each.join()
        with report.noting(name):
            _index([*line, "--into", str(into)])
            index(url, Path(folder) / "new", tables="load.*")
            _compare(server, Index(into), Index(Path(folder) / "new"), report)
    return report


_TABLES: Final = (
    "CREATE DATABASE `load` CHARACTER SET utf8mb4",
    (
        "CREATE TABLE `load`.a (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT,"
        " v VARCHAR(60) COLLATE utf8mb4_bin, j JSON, n DECIMAL(10, 2))"
    ),
    "CREATE TABLE `load`.b (k VARCHAR(20), n INT, body TEXT, PRIMARY KEY (k, n))",
    "CREATE TABLE `load`.c (t TEXT)",
)


def _load(server: Server, seed: str, stop: threading.Event, report: IndexedReport) -> None:
    rng = random.Random(seed)
    connection = server.connect(autocommit=False)
    with connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION lock_wait_timeout = 3, innodb_lock_wait_timeout = 3")
        while not stop.is_set():
            try:
                if seed.endswith("/0") and rng.random() < 0.08:
                    cursor.execute(_statement(rng))
                    report.statements += 1
                elif seed.endswith("/1") and rng.random() < 0.03:
                    _xa(cursor, rng)
                else:
                    for _ in range(rng.choice((1, 1, 2, 5))):
                        _change(cursor, rng)
                    cursor.execute(rng.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))
                report.transactions += 1
            except pymysql.err.MySQLError:  # a deadlock, or a table that is no more
                for sql in ("XA END 'x'", "XA ROLLBACK 'x'", "ROLLBACK"):
                    with suppress(pymysql.err.MySQLError):
                        cursor.execute(sql)
            time.sleep(rng.random() * 0.01)


def _text(rng: random.Random, most: int = 6) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(1, most)))


def _change(cursor: Any, rng: random.Random) -> None:
    kind = rng.random()
    if kind < 0.35:
        rows = 3000 if rng.random() < 0.02 else rng.randint(1, 10)
        if rows == 3000:  # so that no word has more rows than a search gives, however fast it is
            cursor.execute("DELETE FROM `load`.a ORDER BY id LIMIT 3000")
        document = [json.dumps({"x": [_text(rng), 1]}) for _ in range(rows)]
        values = [(_text(rng), _text(rng, 3), each, rng.randint(0, 999)) for each in document]
        cursor.executemany("INSERT INTO `load`.a (t, v, j, n) VALUES (%s, %s, %s, %s)", values)
    elif kind < 0.5:
        more = [(_text(rng, 1), rng.randint(0, 50), _text(rng)) for _ in range(3)]
        cursor.executemany("REPLACE INTO `load`.b VALUES (%s, %s, %s)", more)
    elif kind < 0.6:
        cursor.execute("INSERT INTO `load`.c (t) VALUES (%s), (%s)", [_text(rng, 1), "the same"])
    elif kind < 0.7:
        cursor.execute("UPDATE `load`.a SET t = %s ORDER BY RAND() LIMIT 3", [_text(rng)])
    elif kind < 0.75:
        cursor.execute("UPDATE `load`.b SET n = n + 100 ORDER BY RAND() LIMIT 1")
    elif kind < 0.8:
        cursor.execute("UPDATE `load`.a SET id = id + 1000000 ORDER BY RAND() LIMIT 1")
    elif kind < 0.9:
        table = rng.choice("abc")
        cursor.execute(f"DELETE FROM `load`.{table} ORDER BY RAND() LIMIT 4")
    else:
        cursor.execute("UPDATE `load`.c SET t = %s ORDER BY RAND() LIMIT 1", [_text(rng, 2)])


def _xa(cursor: Any, rng: random.Random) -> None:
    name = "'x'"  # one session only has them
    cursor.execute("COMMIT")
    cursor.execute(f"XA START {name}")
    _change(cursor, rng)
    cursor.execute(f"XA END {name}")
    cursor.execute(f"XA PREPARE {name}")
    time.sleep(rng.random() * 0.2)
    cursor.execute(f"XA {rng.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} {name}")


def _statement(rng: random.Random) -> str:
    return rng.choice(
        (
            "TRUNCATE `load`.b",
            "TRUNCATE `load`.c",
            "ALTER TABLE `load`.a ADD COLUMN w VARCHAR(30) DEFAULT 'walrus tooth'",
            "ALTER TABLE `load`.a DROP COLUMN w",
            "ALTER TABLE `load`.a MODIFY v VARCHAR(60) COLLATE utf8mb4_general_ci",
            "ALTER TABLE `load`.a MODIFY v VARCHAR(60) COLLATE utf8mb4_bin",
            "ALTER TABLE `load`.b CHANGE body text_of_b TEXT",
            "ALTER TABLE `load`.b CHANGE text_of_b body TEXT",
            "RENAME TABLE `load`.c TO `load`.moved, `load`.moved TO `load`.c",
            "RENAME TABLE `load`.b TO `load`.bb",
            "RENAME TABLE `load`.bb TO `load`.b",
            "CREATE TABLE `load`.d AS SELECT id, t FROM `load`.a",
            "DROP TABLE IF EXISTS `load`.d",
            "ALTER TABLE `load`.c ADD COLUMN number INT",
            "ALTER TABLE `load`.c DROP COLUMN number",
        )
    )


def _index(line: list[str]) -> None:
    """Index what there is now."""
    subprocess.run(line, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _kill(line: list[str], into: Path, report: IndexedReport, rng: random.Random) -> None:
    """Start an indexer, and kill it at a random moment."""
    said = into.with_name(f"said {report.kills}")
    indexer = Process(said, [*line, "--follow", "--into", str(into)])
    indexer.start()
    time.sleep(rng.uniform(0.8, 4.0))
    status = indexer.kill()
    if status != -signal.SIGKILL:
        raise Wrong(f"an indexer ended with {status}: {indexer.said()}")
    report.kills += 1
    report.early += not (into / "index.json").exists() or not Index(into).tables


def _compare(server: Server, found: Index, new: Index, report: IndexedReport) -> None:
    tables = [row[0] for row in server.query("SHOW TABLES FROM `load`")]
    expected = {f"load.{table}" for table in tables}
    if not set(found.tables) <= expected:
        report.failures.append(f"tables {found.tables}, on the server {sorted(expected)}")
    for table in tables:
        columns = [row[0] for row in server.query(f"SHOW COLUMNS FROM `load`.{table}")]
        columns = [each for each in columns if each not in {"j", "n"}]
        listed = ", ".join(f"`{each}`" for each in columns)
        rows = Counter(server.query(f"SELECT {listed} FROM `load`.{table}"))
        here: Counter[tuple[Any, ...]] = Counter()
        for hit in found.rows(f"load.{table}"):
            here[tuple(hit.row.get(each) for each in columns)] += hit.copies
        report.rows += rows.total()
        if rows != here:
            report.failures.append(
                f"{table}: lacks {list((rows - here).items())[:3]},"
                f" has {list((here - rows).items())[:3]}"
            )
    for word in (*_WORDS, "walrus", "same", "+lem* -tor*"):
        pair = [_found(each, word) for each in (found, new)]
        if pair[0] != pair[1]:
            differ = list((pair[0] - pair[1]) + (pair[1] - pair[0]))[:3]
            report.failures.append(
                f"{word}: {pair[0].total()} rows, a new index {pair[1].total()}, such as {differ}"
            )


def _found(index: Index, word: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for table in index.tables:
        hits = index.search(word, table=table, limit=10_000)
        if hits.total > len(hits.hits):  # than a search gives: which of them are, is by chance
            found[table, "more"] = hits.total
            continue
        for hit in hits.hits:
            found[table, *(str(each) for each in hit.key if each is not None)] += hit.copies
    return found
