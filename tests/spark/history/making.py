"""Histories made without Spark and without a lake, and what they say of a moment."""

from __future__ import annotations

import datetime as dt
import shutil

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.columns import plan_splits
from tailrace.spark.state.history import build_history
from tailrace.storage import find
from tests.spark.replay import by_name, change_files, run, source_changes
from tools.campaign.mirrored_checks import at
from tools.dumps import dump_databases

OURS = ("_valid_from", "_valid_to", "_is_current", "_seq", "_raw")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Told:
    """Transactions on a server, each at a time of its own, and what SELECT said in between."""

    def __init__(self, server, database):
        self.server, self.database = server, database
        self.clock = 1_700_000_000
        self.said = {}
        server.execute(f"DROP DATABASE IF EXISTS {database}")
        server.execute(f"CREATE DATABASE {database}")
        server.rotate()
        server.execute(f"USE {database}")

    def do(self, *statements):
        """Statements, each a transaction. MariaDB's log has seconds, so they are set."""
        if self.server.flavour == "mariadb":
            self.clock += 1
            self.server.execute(f"SET TIMESTAMP = {self.clock}")
        for statement in statements:
            self.server.execute(statement)

    def note(self):
        """What SELECT says now. MySQL's commit times are its clock's."""
        micros = self.clock * 1_000_000
        if self.server.flavour == "mysql":
            sql = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
            micros = int(self.server.query(sql)[0][0])
        self.said[micros] = dump_databases(self.server, self.database)

    def copy_log(self, folder):
        """The log since the last time, alone."""
        log = self.server.rotate()
        folder.mkdir(exist_ok=True)
        shutil.copy(log, folder / log.name)
        return folder / log.name


class Histories:
    """Histories of tables over several batches; all files stay where tasks wrote them."""

    def __init__(self, folder, keys=None, wanted=lambda _name: True):
        self.folder = folder
        self.keys = keys or {}
        self.wanted = wanted
        self.built = {}
        self.closed = {}
        self.batches = 0

    def take(self, changes_of):
        """One batch: ``changes_of`` gives the SourceChanges, of a folder and the committed."""
        place = self.folder / str(self.batches)
        place.mkdir(parents=True)
        self.batches += 1
        committed = {name: (each.rows, each.paths) for name, each in self.built.items()}
        changes = changes_of(place, committed)
        (place / "history").mkdir()
        built = by_name(build_history([changes], run, place / "history"))
        for name, each in built.items():
            self.closed.setdefault(name, []).extend(file.path for file in each.closed)
        self.built |= built
        return built

    def take_splits(self, splits):
        def changes(place, committed):
            files = change_files(splits, place / "changelog")
            more = {"histories": committed, "wanted": self.wanted, "keys": self.keys}
            return source_changes(splits, files, {}, place, **more)

        return self.take(changes)

    def take_log(self, source, sizes=None):
        """All of a source's log: in one batch, or in batches of so many splits, again and again."""
        (series,) = find(source)
        splits = plan_splits(series, **({} if sizes is None else {"target_bytes": 1}))
        at = number = 0
        while at < len(splits):
            size = len(splits) if sizes is None else sizes[number % len(sizes)]
            self.take_splits(splits[at : at + size])
            at, number = at + size, number + 1
        return self

    def versions(self, name):
        """All versions of a table, open and closed."""
        built = self.built[name]
        paths = [*self.closed[name], *(path for path in built.paths if path is not None)]
        tables = [pq.read_table(path) for path in paths]
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    def at(self, name, micros):
        """The rows of a table at a moment; without the columns that no row has then."""
        if name not in self.built or (found := self.versions(name)) is None:
            return None
        return at(found, micros)


def plain(table):
    """Versions as sorted tuples of what they say, whatever files they are in."""
    if table is None:
        return []
    names = sorted(table.schema.names)
    rows = [tuple((n, row[n]) for n in names if row[n] is not None) for row in table.to_pylist()]
    return sorted(rows, key=repr)
