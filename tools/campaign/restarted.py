"""Statements that end tables' states and bring tables back: one lake takes a log in one batch,
another in several, and both hold the same.

A table is the server's, or it is set aside with the state that it had at the position in the
manifest. So is its history, whose versions are the same in both lakes.
"""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from pymysql.err import MySQLError

from tailrace.position import Position
from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.lake_options import FORMATS, KEEP
from tools.applied import forget
from tools.campaign.mirrored_here import mirrored
from tools.campaign.mirrored_lake import LakeReader, compare
from tools.campaign.process import Wrong
from tools.campaign.report import Report
from tools.dumps import dump_databases
from tools.servers import ONE_OF_EACH, Server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.spark.manifest.manifest import TableState
    from tools.dumps import TableDump

SIZES: Final = {"small": 3, "full": 200}
"""Logs for each server; each is taken by two lakes of a format."""
SERVERS: Final = ONE_OF_EACH
_DATABASE: Final = "restarted"
_TABLES: Final = ("a", "b", "c")
_LATE: Final = 8
"""Statements, at most, between one that ends a table's state and the row that shows it."""
_COLUMNS: Final = "(id INT PRIMARY KEY, v DATETIME, n INT)"
_CHANGES: Final = (
    "INSERT INTO {t} (id, v) VALUES ({n}, '2020-01-02 03:04:05'), ({m}, NULL)",
    "INSERT INTO {t} (id) VALUES ({n})",
    "UPDATE {t} SET n = id WHERE id % 2 = 0",
    "UPDATE {t} SET id = -id WHERE id % 5 = 1",
    "DELETE FROM {t} WHERE id % 3 = 0",
)
_STATEMENTS: Final = (
    "ALTER TABLE {t} ADD added{n} INT DEFAULT 5",
    "ALTER TABLE {t} MODIFY v VARCHAR(30); INSERT INTO {t} VALUES ({n}, 'x', 1)",
    "ALTER TABLE {t} MODIFY v VARCHAR(30); INSERT INTO {t} (id, v) VALUES ({n}, 'x')",
    "ALTER TABLE {t} MODIFY v DATETIME",
    "ALTER TABLE {t} DROP PRIMARY KEY",
    "ALTER TABLE {t} ADD PRIMARY KEY (id)",
    "TRUNCATE TABLE {t}",
    "TRUNCATE TABLE {t}",
    "DROP TABLE {t}",
    f"CREATE TABLE {{t}} {_COLUMNS}",
    f"CREATE TABLE {{t}} {_COLUMNS}",
    "RENAME TABLE {t} TO {u}",
    "RENAME TABLE {t} TO c, {u} TO {t}",
    f"DROP DATABASE {_DATABASE}",
)
_PLACES: Final = re.compile(r" since [^ ]*:\d+| \([^ ]+:\d+: .*?\)(?=\Z| not all)")


@dataclass
class Restarted(Report):
    """What came of one server and format."""

    columns: ClassVar = (
        "Server | Format | Logs | Tables equal | set aside | of these with a state | came back"
    )
    server: str
    format: str
    logs: int = 0
    equal: int = 0
    aside: int = 0
    readable: int = 0
    back: int = 0


def reports(given: argparse.Namespace) -> Iterator[Restarted]:
    """A report for each server and format."""
    for name in given.server:
        with Server(name, {"binlog_row_metadata": "FULL"}) as server:
            for format_ in FORMATS:
                yield run(server, format_, given.size, given.seed)


def run(server: Server, format_: str, logs: int, seed: int) -> Restarted:
    """Try so many logs on a server of one's own."""
    report = Restarted(server.name, format_)
    for number in range(logs):
        with report.in_folder(f"{server.name} {format_} seed {seed} log {number}") as folder:
            _Try(server, format_, folder, random.Random(f"{seed} {number}")).run(report)
        report.logs += 1
    return report


@dataclass
class _Try:
    server: Server
    format: str
    folder: Path
    rng: random.Random
    number: int = 0
    said: list[str] = field(default_factory=list)
    dumps: list[tuple[Position, dict[str, TableDump]]] = field(default_factory=list)

    def run(self, report: Restarted) -> None:
        """Write a log, take it twice, compare."""
        server = self.server
        forget(server, _DATABASE)
        server.execute(f"CREATE DATABASE {_DATABASE}")
        server.execute(f"USE {_DATABASE}")
        for table in _TABLES[:2]:
            self._say(f"CREATE TABLE {table} {_COLUMNS}")
            self._change(table)
        several = self.folder / "several"
        count = self.rng.randrange(2, 7)
        was: set[str] = set()
        for _ in range(count):
            for _ in range(self.rng.randrange(2, 7)):
                self._step()
            (self.folder / "logs").mkdir(exist_ok=True)
            log = server.rotate()
            shutil.copy(log, self.folder / "logs" / log.name)
            mirrored(self.folder / "logs", several, self.format, keep=KEEP)
            tables = LakeView.open(several).manifest.tables
            report.back += sum(tables[each].set_aside is None for each in was if each in tables)
            was = {name for name, each in tables.items() if each.set_aside is not None}
        one = self.folder / "one"
        mirrored(self.folder / "logs", one, self.format, keep=KEEP)
        try:
            self._compare(several, one, report)
        except Wrong as error:
            raise Wrong(f"{error}\n" + ";\n".join(self.said)) from error

    def _step(self) -> None:
        t, u = self.rng.sample(_TABLES[:2], 2)
        if self.rng.random() < 0.6:
            for sql in self.rng.choice(_STATEMENTS).format(t=t, u=u, n=self._next()).split("; "):
                self._say(sql)
        else:
            self._change(t)

    def _change(self, table: str) -> None:
        for _ in range(self.rng.randrange(1, 3)):
            sql = self.rng.choice(_CHANGES)
            self._say(sql.format(t=table, n=self._next(), m=self._next()))

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _say(self, sql: str) -> None:
        """Run a statement, which may fail; note what the tables hold after it."""
        server = self.server
        try:
            server.execute(sql)
            server.connection.commit()
        except MySQLError:
            return
        if sql.startswith("DROP DATABASE"):
            server.execute(f"CREATE DATABASE {_DATABASE}")
            server.execute(f"USE {_DATABASE}")
        log = server.binlogs()[-1]
        self.said.append(sql)
        there = Position(log.name, log.stat().st_size)
        self.dumps.append((there, dump_databases(server, _DATABASE)))

    def _compare(self, several: Path, one: Path, report: Restarted) -> None:
        found, wanted = (LakeView.open(lake).manifest.tables for lake in (several, one))
        readers = [LakeReader(lake, self.format) for lake in (several, one)]
        for name in sorted({*found, *wanted, *self.dumps[-1][1]}):
            one_of, other = found.get(name), wanted.get(name)
            if _summary(one_of) != _summary(other):
                raise Wrong(f"{name}: {_summary(one_of)}, and in one batch: {_summary(other)}")
            for part in ("current", "history"):
                rows = [_rows(reader, name, part) for reader in readers]
                if rows[0] != rows[1]:
                    raise Wrong(f"{name}: {part} {rows[0]}, and in one batch: {rows[1]}")
            self._check(name, one_of, readers[0], report)

    def _check(
        self, name: str, state: TableState | None, reader: LakeReader, report: Restarted
    ) -> None:
        """A table is what the server had, now or where it was set aside."""
        dumps = [self.dumps[-1][1].get(name)]
        if state is not None and (status := state.set_aside) is not None:
            report.aside += 1
            if state.current is None:
                return
            report.readable += 1
            since = Position.parse(status.parts["current"])
            # a statement may be noticed with the first row after it
            then = [each for at, each in self.dumps if at <= since][-_LATE:]
            others = [f"{_DATABASE}.{each}" for each in _TABLES if status.origins]
            names = (name, *others)  # it may have had another one
            dumps = [each.get(had) for had in names for each in then]
        elif state is not None and state.current is not None and state.current.refused:
            return
        rows = reader.current(name)
        added = state.current.added if state is not None and state.current is not None else ()
        for number, dump in enumerate(reversed(dumps), 1):
            try:
                compare(name, rows, dump, optional=[column for column, _, _ in added])
                break
            except Wrong:
                if number == len(dumps):
                    raise
        report.equal += state is None or state.set_aside is None


def _summary(state: TableState | None) -> object:
    """What must not depend on how the log was cut into batches.

    A statement may be noticed with the first row after it, in a later batch: its position may.
    """
    if state is None or (state.dropped and (state.history is None or not state.history.gaps)):
        return None
    status = state.set_aside
    gaps = state.history is not None and state.history.gaps
    empty = state.current is None or not (state.current.rows or state.current.refused)
    if empty and status is None and not gaps:
        return None  # a table without rows need not be there
    aside = None if status is None else (sorted(status.parts), _PLACES.sub("", status.reason))
    current = None if state.current is None else (state.current.refused, state.current.key)
    history = None if state.history is None else _PLACES.sub("", " ".join(state.history.gaps))
    return current, history, aside


def _rows(reader: LakeReader, name: str, part: str) -> list[str]:
    """The rows. What an earlier batch has may give a column another name (``v__string``)."""
    rows = reader.current(name) if part == "current" else reader.history(name)
    found = [] if rows is None else rows.to_pylist()
    values = [{k.partition("__")[0]: v for k, v in row.items() if v is not None} for row in found]
    return sorted(repr(sorted(row.items())) for row in values)
