"""Random schema changes by copies and RENAME TABLE, mirrored with a selection, in random batches.

Tables are selected or not, among them those that gh-ost and pt-online-schema-change create. They
are created, also LIKE others, filled from each other, altered, emptied, renamed and dropped. After
each batch each selected table has in the lake the rows of SELECT, by its current state and by its
history's open versions, or it is said why it has none. Other tables are not in the lake, and
nothing stays of those tools' tables that are gone.
"""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc
import pymysql

from tailrace.spark.lake.reading import LakeView
from tailrace.spark.manifest.lake_options import FORMATS
from tools.applied import forget
from tools.campaign.mirrored_here import mirrored
from tools.campaign.mirrored_lake import LakeReader, compare
from tools.campaign.process import Wrong
from tools.campaign.report import Tries
from tools.dumps import dump_databases
from tools.servers import ONE_OF_EACH, Server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tailrace.spark.manifest.manifest import TableState

SIZES: Final = {"small": 4, "full": 400}
"""Stories for each server."""
SERVERS: Final = ONE_OF_EACH
_DATABASE: Final = "renamed"
_SELECTED: Final = ("orders", "items")
_OTHERS: Final = ("other", "orders_v2", "_orders_x")
_COPIES: Final = ("_orders_gho", "_orders_new", "__items_new", "_items_gho")
_LEFT: Final = ("_orders_del", "_orders_old", "_items_del")
_ALL: Final = (*_SELECTED, *_OTHERS, *_COPIES, *_LEFT)


def _schema_change(rng: random.Random) -> list[str]:
    """What one of the tools does, in its steps; "" is a place where a batch may end."""
    table = rng.choice(_SELECTED)
    copy = rng.choice((f"_{table}_gho", f"_{table}_new", f"__{table}_new", f"{table}_v2"))
    away = rng.choice((f"_{table}_del", f"_{table}_old"))
    columns = ("id", "v")
    some = rng.randrange(3, 9)
    copied = f"INSERT IGNORE INTO {copy} (id, v) SELECT id, v FROM {table} WHERE id"
    cut_over = rng.choice(
        (
            [f"RENAME TABLE {table} TO {away}, {copy} TO {table}"],
            [f"ALTER TABLE {table} RENAME TO {away}", f"ALTER TABLE {copy} RENAME {table}"],
            [f"DROP TABLE {table}", f"RENAME TABLE {copy} TO {table}"],
            [f"RENAME TABLE {copy} TO step, {table} TO {away}, step TO {table}"],
            [f"DROP TABLE {copy}"],
        )
    )
    return [
        f"CREATE TABLE {copy} LIKE {table}",
        rng.choice(("", f"ALTER TABLE {copy} ADD w INT DEFAULT 7", f"TRUNCATE {copy}")),
        f"{copied} < {some}",
        "",
        f"UPDATE {table} SET v = v + 1 WHERE id = 2",
        f"REPLACE INTO {copy} ({', '.join(columns)}) SELECT id, v FROM {table} WHERE id = 2",
        f"{copied} >= {some}",
        rng.choice(("", f"DELETE FROM {table} WHERE id = 3")),
        f"DELETE FROM {copy} WHERE id NOT IN (SELECT id FROM {table})",
        "",
        *cut_over,
        "",
        rng.choice(("", f"DROP TABLE IF EXISTS {away}")),
    ]


def _step(rng: random.Random) -> list[str]:
    """Any statement: the server may reject it."""
    one, two, three = (rng.choice(_ALL) for _ in range(3))
    low = rng.randrange(100)
    return [
        rng.choice(
            (
                f"CREATE TABLE {one} (id INT PRIMARY KEY, v INT)",
                f"CREATE TABLE IF NOT EXISTS {one} (id INT PRIMARY KEY, v INT)",
                f"CREATE TABLE {one} LIKE {two}",
                f"INSERT IGNORE INTO {one} (id, v) SELECT id, v FROM {two}",
                f"INSERT IGNORE INTO {one} (id, v) VALUES ({low}, 1), ({low + 1}, 2)",
                f"INSERT IGNORE INTO {one} (id, v) VALUES ({low}, 1), ({low + 2}, 2)",
                f"UPDATE {one} SET v = v + 1 WHERE id % 3 = {low % 3}",
                f"DELETE FROM {one} WHERE id % 5 = {low % 5}",
                f"RENAME TABLE {one} TO {two}",
                f"RENAME TABLE {one} TO {two}, {three} TO {one}",
                f"RENAME TABLE {one} TO step, {two} TO {one}, step TO {two}",
                f"ALTER TABLE {one} RENAME TO {two}",
                f"TRUNCATE TABLE {one}",
                f"DROP TABLE IF EXISTS {one}",
            )
        )
    ]


class _Story:
    """One lake, and what a source does meanwhile."""

    def __init__(self, server: Server, folder: Path, rng: random.Random) -> None:
        self._server = server
        self._rng = rng
        self._logs, self._lake = folder / "logs", folder / "lake"
        self._logs.mkdir()
        self._format = rng.choice(FORMATS)
        pattern = rng.random() < 0.3
        names = [f"{_DATABASE}.{table}" for table in _SELECTED]
        self._tables = [f"{_DATABASE}.*"] if pattern else names
        self._keep = rng.choice(
            (["current"], ["current", "history"], ["changelog", "current", "history"])
        )
        self.equal = self.aside = 0

    def run(self) -> None:
        """Raises `Wrong` where the lake has what the server has not."""
        server, rng = self._server, self._rng
        forget(server, _DATABASE)
        server.rotate()
        server.execute(f"CREATE DATABASE {_DATABASE}")
        server.execute(f"USE {_DATABASE}")
        for table in (*_SELECTED, "other"):
            server.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
            server.execute(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3), (9, 9)")
        self._land()
        for _ in range(rng.randrange(2, 5)):
            change = rng.random() < 0.5
            for sql in _schema_change(rng) if change else _step(rng) + _step(rng):
                if sql:
                    with suppress(pymysql.err.MySQLError):
                        server.execute(sql)
                if rng.random() < (0.15 if sql else 0.5):
                    self._land()
        self._land()

    def _land(self) -> None:
        self._server.connection.commit()
        log = self._server.rotate()
        shutil.copy(log, self._logs / log.name)
        mirrored(self._logs, self._lake, self._format, tables=self._tables, keep=self._keep)
        self._check()

    def _check(self) -> None:
        states = LakeView.open(self._lake).manifest.tables
        wanted = dump_databases(self._server, _DATABASE)
        reader = LakeReader(self._lake, self._format)
        for table in _ALL if "*" in self._tables[0] else _SELECTED:
            name = f"{_DATABASE}.{table}"
            dump, state = wanted.get(name), states.get(name)
            if state is not None and _is_aside(state):
                self.aside += 1
                continue
            compare(name, reader.current(name), dump, optional=["w"])
            if dump is None or not dump["rows"]:
                continue
            if "history" in self._keep and (versions := reader.history(name)) is not None:
                opened = versions.filter(pc.field("_is_current"))
                compare(f"{name} history", opened, dump, optional=["w"])
            self.equal += 1
        for table in {*_OTHERS, *_COPIES, *_LEFT} if "*" not in self._tables[0] else ():
            state = states.get(f"{_DATABASE}.{table}")
            if state is not None and table not in _COPIES:
                raise Wrong(f"{table} is in the lake, and not selected")
        self._check_left(reader, states, wanted)

    def _check_left(
        self, reader: LakeReader, states: Mapping[str, TableState], wanted: dict[str, Any]
    ) -> None:
        """Nothing of the tools' tables that are gone stays."""
        for table in (*_COPIES, *_LEFT):
            name = f"{_DATABASE}.{table}"
            base = table.strip("_").rpartition("_")[0]
            if name in wanted or name not in states or f"{_DATABASE}.{base}" not in states:
                continue
            if _is_aside(states[name]):
                continue
            for part in self._keep:
                rows = getattr(reader, part)(name)
                if rows is not None and rows.num_rows:
                    raise Wrong(f"{name} is gone, and has {rows.num_rows} rows in its {part}")


def _is_aside(state: TableState) -> bool:
    """Whether the lake says why it does not have a table as its source has it."""
    made = (state.current, state.history)
    return bool(state.states) or any(each is not None and each.refused for each in made)


def run(server: Server, count: int, seed: int) -> Tries:
    """So many stories on a server of one's own."""
    report = Tries(f"stories on {server.name}")
    for number in range(count):
        with report.in_folder(f"{report.what} {number}") as folder:
            story = _Story(server, folder, random.Random(f"{server.name}-{seed}-{number}"))
            story.run()
            report.outcomes["selected tables that are the server's"] += story.equal
            report.outcomes["selected tables of which it is said why they are not"] += story.aside
        report.tried += 1
    return report


def reports(given: argparse.Namespace) -> Iterator[Tries]:
    for name in given.server:
        with Server(name, {"binlog_row_metadata": "FULL"}) as server:
            yield run(server, given.size, given.seed)
