"""The rounds of a comparison: what was read of each side, and which rows differ still."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError
from tailrace.snapshot.connection import reading
from tailrace.snapshot.key_ranges import key_ranges
from tailrace.spark.verify.differences import (
    Differences,
    Reading,
    differences,
    slices_for,
    totals,
)
from tailrace.spark.verify.digests import SideJob, SideResult, read_side
from tailrace.spark.verify.report import RangeCount, RowDifference, TableVerdict
from tailrace.spark.verify.tables import compared_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.live.connect import ServerConnection
    from tailrace.live.url import Source
    from tailrace.snapshot.rows import ServerTable
    from tailrace.spark.input.server_log import Progress
    from tailrace.spark.manifest.manifest import TableState
    from tailrace.spark.runtime.workers import Workers
    from tailrace.spark.verify.lag import LakeOfServer
    from tailrace.spark.verify.tables import ComparedTable
    from tailrace.table_filter import TableFilter
    from tailrace.table_name import TableName

_CONNECTIONS: Final = 4
"""To a server at once, of those that this process opens."""
_ROW_BYTES: Final = 200
"""What a row of the server is taken for, to tell whether Spark is worth its start."""
_TRIES: Final = 5


@dataclass
class Rounds:
    """Reads the sides and judges. This process reads a server whose URL has a password, which no
    task receives.

    ``first`` is how many of the rows that differ are told for each table.
    """

    source: Source
    lag: LakeOfServer
    workers: Workers
    folder: Path
    range_rows: int
    first: int
    tell: Progress
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._alone = self.source.given_password is not None
        self._tables: dict[TableName, ComparedTable] = {}
        self._open: list[ComparedTable] = []
        self._files = count()
        self._version = 0

    # --- reading ---------------------------------------------------------------------------------

    def read_server(self, asked: TableFilter) -> None:
        """Read the server's rows: in the first round all, then the ranges where any differ.

        Raises UsageError where what is ``asked`` (`TableFilter.watched`) names no table.
        """
        self._version = self.lag.look().manifest.version
        jobs: list[SideJob] = []
        with reading(self.source) as connection:
            found = {each.name: each for each in compared_tables(connection, self.lag, asked)}
            if not self._tables:
                self._look_for(asked)
                self._tables = found
                self._open = list(self._tables.values())
            else:
                self._open = [each for each in self._open if not each.clean]
            for state in self._open:
                gone = replace(state, reason=None, server=None)  # on both sides
                state.renew(found.get(state.name, gone))
                jobs += self._server_jobs(connection, state)
        for result in self._run_server(jobs):
            self._tables[result.name].readings[-1].server.append(result)

    def _server_jobs(self, connection: ServerConnection, state: ComparedTable) -> list[SideJob]:
        if (table := state.server) is None:
            return []
        if state.found is None:
            state.parts = key_ranges(connection, *table.name, table.columns, self.range_rows)
            lake = state.lake and state.lake.current
            on_server = sum(part.rows for part in state.parts)
            state.slices = slices_for(max(on_server, lake.rows if lake else 0))
            state.readings = []
        state.readings.append(Reading())
        return [
            SideJob(table, self.source, part, out=self._file(), slices=state.slices)
            for part in state.doubtful()
        ]

    def _look_for(self, asked: TableFilter) -> None:
        """Say which patterns fit none of the tables that are the lake's or are to be."""
        missing = asked.unmatched(asked.met or ())
        where = "among the tables that the lake has or is to have"
        wanted = missing.missing(where)
        if wanted is not None and (missing.names or missing.all):
            raise UsageError(wanted)
        self.notes = tuple(filter(None, (wanted, missing.left_out(where))))

    def read_lake(self) -> None:
        """Read the lake's rows of all tables that were read of the server."""
        moved = self.lag.look().manifest.version != self._version
        for state in self._open:
            state.stale = state.reason is not None and moved
        waiting = {each.name: each for each in self._open if each.server}
        for _ in range(_TRIES):
            self.lag.look()
            lake = self.lag.tables()
            jobs: list[SideJob] = []
            for name, state in waiting.items():
                state.readings[-1].lake.clear()
                state.stale = _altered(state, lake.get(name))
                if not state.stale:
                    jobs += self._lake_jobs(lake[name], state)
            gone = set()
            for result in self._run("lake", jobs, _size(jobs)):
                waiting[result.name].readings[-1].lake.append(result)
                if result.gone:
                    gone.add(result.name)
            waiting = {name: waiting[name] for name in gone}
            if not waiting:
                return
        for state in waiting.values():
            state.reason = "its files were replaced each time that they were read"
            state.stale = True

    def _lake_jobs(
        self, lake: TableState, state: ComparedTable, keys: tuple[int, ...] = ()
    ) -> list[SideJob]:
        if (table := state.server) is None:
            return []
        view = self.lag.view
        shard = self.lag.name if view.manifest.options.shards else None
        job = partial(SideJob, table, shard=shard, slices=state.slices, keys=keys)
        return [job(file=file, out=None if keys else self._file()) for file in view.current(lake)]

    def _file(self) -> Path:
        """A new name for a file that tasks write."""
        return self.folder / str(next(self._files))

    def _run_server(self, jobs: list[SideJob]) -> list[SideResult]:
        """Do jobs of the server's side."""
        rows = sum(job.part.rows for job in jobs if job.part is not None)
        some = _CONNECTIONS if self._alone else max(len(jobs), 1)
        size = 0 if self._alone else rows * _ROW_BYTES
        parts = [jobs[at : at + some] for at in range(0, len(jobs), some)]
        return [each for part in parts for each in self._run("server", part, size)]

    def _run(self, what: str, jobs: list[SideJob], size: int) -> list[SideResult]:
        self.tell(what, 0, len(jobs))
        results = self.workers.run(read_side, jobs, size)
        self.tell(what, len(jobs), len(jobs))
        return results

    # --- judging ---------------------------------------------------------------------------------

    def judge(self, *, confirmed: bool, caught_up: bool) -> bool:
        """Compare what was read; whether all is decided.

        ``confirmed``: nothing was committed while it was read. A row that differs in the same way
        twice running, while the lake had ``caught_up``, differs.
        """
        for state in self._open:
            self._judge(state, confirmed=confirmed, caught_up=caught_up)
        return all(state.clean for state in self._tables.values())

    def _judge(self, state: ComparedTable, *, confirmed: bool, caught_up: bool) -> None:
        last = state.readings[-1] if state.server else Reading()
        refused = [each for each in (*last.server, *last.lake) if each.refused]
        state.unread = False
        if refused and state.reason is None:
            state.reason = refused[0].refused
            state.unread = all(each.unread for each in refused)
        if state.stale and state.reason is None:
            state.reason = "it was altered while it was compared"
        if state.reason is not None or state.server is None:
            state.found, state.done = None, confirmed and not state.stale
            return
        slices = last.unlike(state.slices) if state.found is None else state.found.slices
        state.found = differences(state.readings, slices, self.first)
        unsteady = state.found.unsteady if caught_up else state.found.unlike
        state.undecided = 0 if confirmed else unsteady
        state.done = confirmed or not state.undecided

    # --- telling ---------------------------------------------------------------------------------

    def verdicts(self) -> list[TableVerdict]:
        """What was found, with the first rows of each table that differ."""
        named = self._named()
        return [
            self._verdict(state, tuple(named.get(name, ())))
            for name, state in self._tables.items()
            if state.server is not None or state.reason is not None
        ]

    def _verdict(self, state: ComparedTable, rows: tuple[RowDifference, ...]) -> TableVerdict:
        found = state.found or Differences()
        parts = {part.number: part for part in state.parts}
        read = state.readings[0] if state.found else Reading()
        counted = []
        for each in read.server:
            number, checksum = totals([each], state.slices).sum(axis=1).tolist()
            part, differing = parts[each.number], found.ranges[each.number]
            counted.append(
                RangeCount(part.number, part.low, part.high, number, checksum, differing)
            )
        server, lake = (
            totals(side, state.slices).sum(axis=1).tolist() for side in (read.server, read.lake)
        )
        return TableVerdict(
            str(state.name),
            server[0],
            lake[0],
            server[1],
            lake[1],
            found.missing,
            found.extra,
            found.changed,
            found.doubled,
            state.undecided,
            state.reason,
            state.compared and not state.stale and not state.unread,
            tuple(counted),
            rows,
            state.notes,
            state.incomplete,
        )

    def _named(self) -> dict[TableName, list[RowDifference]]:
        """The first rows that differ, by table."""
        self.lag.look()
        lake = self.lag.tables()
        ours: list[SideJob] = []
        theirs: list[SideJob] = []
        chosen: list[tuple[ServerTable, int]] = []
        for name, state in self._tables.items():
            table, first = state.server, state.found.first if state.found else []
            if table is None or not first or name not in lake:
                continue
            keys = tuple(key for _, key in first)
            chosen += ((table, key) for key in keys)
            holding = {number for number, _ in first}
            parts = (part for part in state.parts if part.number in holding)
            theirs += (SideJob(table, self.source, part, keys=keys) for part in parts)
            ours += self._lake_jobs(lake[name], state, keys)
        server, kept = (
            {(each.name, key): row for each in side for key, row in each.rows}
            for side in (self._run_server(theirs), self._run("lake", ours, _size(ours)))
        )
        found: dict[TableName, list[RowDifference]] = {}
        for table, key in chosen:
            one, other = server.get((table.name, key)), kept.get((table.name, key))
            if one != other:  # else both changed since
                row = one or other or {}
                named = {each: row[each] for each in table.key}
                found.setdefault(table.name, []).append(RowDifference(named, one, other))
        return found


def _altered(state: ComparedTable, now: TableState | None) -> bool:
    """Whether the lake has the table in another shape than when the server was read."""
    before = state.lake.current if state.lake is not None else None
    if before is None or now is None or now.current is None or now.set_aside is not None:
        return True
    same = now.current.columns.equals(before.columns)
    return not same or (now.current.key, now.current.refused) != (before.key, before.refused)


def _size(jobs: Sequence[SideJob]) -> int:
    paths = (Path(job.file.path) for job in jobs if job.file is not None)
    return sum(path.stat().st_size for path in paths if path.is_file())
