"""A mirror that follows in a thread, and what a lake of Parquet says at any time."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.spark import mirror
from tests.spark.replay import differences
from tests.waiting import DEADLINE, wait_for

LOAD = {"rate": 40, "large": 0, "huge": 0, "clients": 3, "tables": 2}
FLAVOURS = ("mysql-9.7", "mariadb-11.8")
"""A server of each: what is above the log does not see which release wrote it."""
BOTH = pytest.mark.parametrize("source", FLAVOURS, indirect=True)
"""For what goes by the flavour; anything else is tested on a MySQL."""


def url_of(server, options="ssl_mode=DISABLED"):
    scheme = "mysql" if server.flavour == "mysql" else "mariadb"
    return f"{scheme}://root@{server.host}:{server.port}/?{options}"


def no_spark():
    raise AssertionError("what is small is done without Spark")


class InThread:
    """A call that follows until an event is set; leaving the context stops it, and raises what it
    raised.
    """

    def __init__(self, call):
        self.report = None
        self.error = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)

    def _run(self, call):
        try:
            self.report = call(self._stop)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stop()
        if self.error is not None and kind is None:
            raise self.error

    def stop(self):
        self._stop.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    def wait_for(self, what, shown=""):
        """Wait until a condition holds; raises what ended the call."""

        def met():
            is_alive = self._thread.is_alive()  # before: it says why, and then ends
            if self.error is not None:
                raise self.error
            assert is_alive, "it ended by itself"
            return what()

        wait_for(met, shown)


class Follow(InThread):
    """`mirror` with ``follow``."""

    def __init__(self, sources, lake, **options):
        self.lake = lake
        self.moments = []
        given = {"follow": True, "on_moment": self.moments.append, "trigger": 0.2, **options}
        super().__init__(lambda stop: mirror(sources, lake, stop=stop, **given))

    def wait_for(self, what):
        super().wait_for(what, lambda: [(each.sources, each.seconds) for each in self.moments[-1:]])

    @property
    def held(self):
        """Where an XA transaction holds up its source; None, too, before anything is known."""
        sources = self.moments[-1].sources if self.moments else ()
        return sources[0].held if sources else None

    def wait_for_mark(self, server):
        """Wait until a row that is inserted now is in the lake, and so all that was before."""
        value = mark(server)
        self.wait_for(lambda: value in values(self.lake, "follow.marks", "n"))


def caught_up(following, sources=1):
    """Whether the lake has all that so many sources have."""
    found = following.moments[-1].sources if following.moments else ()
    return len(found) == sources and all(each.lag_bytes == 0 for each in found)


def mark(server):
    """Insert a row; its value."""
    server.execute("CREATE DATABASE IF NOT EXISTS follow")
    server.execute(
        "CREATE TABLE IF NOT EXISTS follow.marks (n INT PRIMARY KEY AUTO_INCREMENT) ENGINE=InnoDB"
    )
    server.execute("INSERT INTO follow.marks VALUES (NULL)")
    return server.query("SELECT MAX(n) FROM follow.marks")[0][0]


def read(lake, table, mode="current"):
    """A table of the lake as one version has it; None where it is not there."""
    folder = lake / table / mode
    while True:
        try:
            files = sorted(folder.resolve().glob("*.parquet"))
            tables = [pq.ParquetFile(file).read() for file in files]
        except FileNotFoundError:  # another version is there now
            continue
        return pa.concat_tables(tables, promote_options="permissive") if tables else None


def values(lake, table, column):
    found = read(lake, table)
    return [] if found is None else found.column(column).to_pylist()


def check(lake, report, expected):
    """All tables are what SELECT gave, but for those without a state, or set aside; no change twice.

    Gives how many tables were compared; one that is empty may not be in the lake.
    """
    refused = {table.name for table in report.tables if table.refused or table.set_aside}
    compared = 0
    for name, table in expected.items():
        if name in refused:
            continue
        found = read(lake, name)
        if found is None:
            assert not table["rows"], name
        else:
            assert differences(found, table) == [], name
        compared += 1
    for folder in lake.glob("*/changelog"):
        rows = 0
        seen = set()
        for file in folder.glob("*.parquet"):
            part = pq.ParquetFile(file).read(["_seq"]).column("_seq").to_pylist()
            rows += len(part)
            seen.update(part)
        assert rows == len(seen), folder
    return compared
