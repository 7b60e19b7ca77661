"""A full-text index against MySQL's own: how fast rows get in, and how soon they are found.

``backlog``: rows of a title and some words are inserted into a MySQL table with a FULLTEXT index,
1,000 in a transaction; then `tailrace.search.index` indexes them from the log that this wrote.
``fresh``: with ``tailrace index --follow`` running, rows are committed one by one, and an index is
asked until it finds each; then the same with ``--shards 2``, on Spark. ``--rows`` of the backlog
(100,000), ``--commits`` (200).
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.search import Index, index
from tools.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BATCH = 1000
_WORDS_OF_ROW = 30
_SHARDS = 2
_PATIENCE = 180.0
"""Seconds in which a row must be found, the first after Spark has started."""


def command(arguments: Sequence[str]) -> int:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks search", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="20,000 rows, 30 commits")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rows, given.commits = 20_000, 30
    with (
        Server("mysql-9.7", ["--binlog-row-metadata=FULL"]) as server,
        tempfile.TemporaryDirectory(prefix="tailrace-search-") as folder,
    ):
        server.execute("CREATE DATABASE bench")
        _backlog(server, given.rows, Path(folder))
        for shards in (None, _SHARDS):
            _fresh(server, given.commits, Path(folder), shards)
    return 0


def _rows(count: int) -> Iterator[tuple[int, str, str]]:
    rng = random.Random(1)
    letters = "aabcdeeefghiiklmnnooprrssttuvw"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(30_000)]
    weights = [1 / (number + 10) for number in range(len(words))]
    many = rng.choices(words, weights, k=1_000_000)
    for number in range(count):
        at = rng.randrange(len(many) - _WORDS_OF_ROW)
        text = " ".join(many[at : at + rng.randint(5, _WORDS_OF_ROW)])
        yield number, " ".join(many[at : at + 3]), text


def _backlog(server: Server, count: int, folder: Path) -> None:
    server.execute(
        "CREATE TABLE bench.docs (id INT PRIMARY KEY, title VARCHAR(100), body TEXT,"
        " FULLTEXT (title, body))"
    )
    rows = [*_rows(count)]
    begin = time.perf_counter()
    with server.connection.cursor() as cursor:
        for at in range(0, count, _BATCH):
            cursor.executemany("INSERT INTO bench.docs VALUES (%s, %s, %s)", rows[at : at + _BATCH])
            server.connection.commit()
    inserted = time.perf_counter() - begin
    begin = time.perf_counter()
    done = index(server.data, folder / "backlog", tables="bench.docs")
    indexed = time.perf_counter() - begin
    if done.rows != count:
        raise AssertionError(f"{done.rows} rows of {count} were indexed")
    word = rows[0][1].split()[0]
    query = "SELECT COUNT(*) FROM bench.docs WHERE MATCH(title, body) AGAINST (%s IN BOOLEAN MODE)"
    there = server.query(query, [f"+{word}*"])[0][0]
    here = Index(folder / "backlog").search(f"+{word}*", limit=1).total
    if here != there:
        raise AssertionError(f"{word}*: {here} rows, MySQL {there}")
    print(f"MySQL, INSERT with FULLTEXT  {inserted:8.2f} s  {count / inserted:10,.0f} rows/s")
    print(f"tailrace index, from its log {indexed:8.2f} s  {count / indexed:10,.0f} rows/s")
    print(f"ratio                        {inserted / indexed:8.2f}")


def _fresh(server: Server, commits: int, folder: Path, shards: int | None) -> None:
    server.execute("DROP TABLE IF EXISTS bench.news")
    server.execute("CREATE TABLE bench.news (id INT PRIMARY KEY, body TEXT)")
    url = f"mysql://root@127.0.0.1:{server.port}/?ssl-mode=DISABLED"
    into = str(folder / f"fresh-{shards}")
    line = [sys.executable, "-m", "tailrace", "index", url, "--tables", "bench.news"]
    line += ["--into", into, *(["--shards", str(shards)] if shards else [])]
    took: list[float] = []
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    with subprocess.Popen([*line, "--follow"], stdout=subprocess.DEVNULL) as process:
        try:
            found = Index(into)
            for number in range(commits + 1):
                server.execute(f"INSERT INTO bench.news VALUES ({number}, 'unique{number} word')")
                server.connection.commit()
                begin = time.perf_counter()
                while not found.refresh().search(f"unique{number}", limit=1).total:
                    if time.perf_counter() - begin > _PATIENCE:
                        raise AssertionError(f"row {number} is not found")
                    time.sleep(0.001)
                if number:  # before the first the process may still start
                    took.append(1000 * (time.perf_counter() - begin))
                time.sleep(0.05)
        finally:
            process.terminate()
    took.sort()
    how = f"{shards} shards on Spark" if shards else "one process"
    print(
        f"commit to findable, {how}, {commits} commits: median {statistics.median(took):.0f} ms,"
        f" 95 % {took[int(0.95 * len(took))]:.0f} ms, most {took[-1]:.0f} ms"
    )
