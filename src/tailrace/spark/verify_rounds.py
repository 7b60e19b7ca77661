"""The rounds of a comparison: what was read of each side, and which rows differ still."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from tailrace.errors import UsageError
from tailrace.spark.tasks import Report
from tailrace.spark.verify_digest import Pairs, SideJob, SideResult, look
from tailrace.spark.verify_report import RangeCount, RowDifference, TableVerdict
from tailrace.spark.verify_server import ranges, reading
from tailrace.spark.verify_tables import candidates
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.spark.manifest.manifest import TableState as LakeTable
    from tailrace.spark.verify_lag import Lag
    from tailrace.spark.verify_server import Range
    from tailrace.spark.verify_tables import Candidate
    from tailrace.spark.workers import Workers
    from tailrace.table_filter import TableFilter

    Progress = Callable[[str, int, int], None]

_ROW_BYTES: Final = 200
"""What a row of the server is taken for, to tell whether Spark is worth its start."""
_THREADS: Final = 4
_TRIES: Final = 5

Suspects = dict[int, tuple[int | None, int | None]]
"""By the checksum of a key: those of its row on the server and in the lake, None where none is."""


@dataclass
class TableState:
    """A table between rounds."""

    candidate: Candidate
    parts: list[Range] = field(default_factory=list)
    server: list[SideResult] = field(default_factory=list)
    lake: list[SideResult] = field(default_factory=list)
    counts: list[SideResult] = field(default_factory=list)
    lake_rows: tuple[int, int] = (0, 0)
    doubled: list[int] = field(default_factory=list)
    suspects: Suspects | None = None
    undecided: int = 0
    reason: str | None = None
    stale: bool = False
    unread: bool = False
    done: bool = False

    @property
    def clean(self) -> bool:
        """Nothing is left to look at again."""
        if self.done or not self.candidate.compared:
            return True
        return not (self.suspects or self.reason or self.doubled)


class Rounds:
    """Reads the sides and judges. ``alone``: the server is read by this process, not by tasks."""

    def __init__(
        self,
        source: Source,
        lag: Lag,
        workers: Workers,
        folder: Path,
        range_rows: int,
        tell: Progress,
    ) -> None:
        self.alone = False
        self.notes: tuple[str, ...] = ()
        self._source = source
        self._lag = lag
        self._workers = workers
        self._folder = folder
        self._range_rows = range_rows
        self._tell = tell
        self._tables: dict[str, TableState] = {}
        self._number = 0
        self._version = 0

    # --- reading ---------------------------------------------------------------------------------

    def read_server(self, asked: TableFilter) -> None:
        """Read the server's rows: in the first round all, then the ranges where any differ.

        Raises UsageError where what is ``asked`` (`TableFilter.watched`) names no table.
        """
        first = not self._number
        self._number += 1
        view = self._lag.look()
        self._version = view.manifest.version
        jobs: list[SideJob] = []
        with reading(self._source) as connection:
            found = candidates(connection, view.manifest, self._lag.name, asked)
            if first:
                self._look_for(asked)
                self._tables = {each.name: TableState(each) for each in found}
            known = {each.name: each for each in found}
            for name, state in self._tables.items():
                if state.clean and not first:
                    continue
                state.server = []
                if name not in known:  # dropped meanwhile, on both sides
                    state.candidate, state.suspects, state.reason = (
                        replace(state.candidate, reason=None, table=None),
                        None,
                        None,
                    )
                    continue
                state.candidate = known[name]
                state.reason = state.candidate.reason
                table = state.candidate.table
                if table is None:
                    state.suspects = None
                    continue
                if not state.parts or state.suspects is None:
                    state.parts = ranges(connection, table, self._range_rows)
                jobs += [
                    SideJob(
                        table, self._source, part, out=self._folder / f"s{self._number}-{number}"
                    )
                    for number, part in enumerate(self._doubtful(state), len(jobs))
                ]
        for result in self._run("server", jobs, self._expected(jobs)):
            self._tables[result.name].server.append(result)

    def _look_for(self, asked: TableFilter) -> None:
        """Say which patterns fit none of the tables that are the lake's or are to be."""
        missing = asked.unmatched(asked.met or ())
        where = "among the tables that the lake has or is to have"
        wanted = missing.missing(where)
        if wanted is not None and (missing.names or missing.all):
            raise UsageError(wanted)
        self.notes = tuple(filter(None, (wanted, missing.left_out(where))))

    def _doubtful(self, state: TableState) -> list[Range]:
        """The ranges to read: those in which rows differ, all where some are the lake's alone."""
        if state.suspects is None or any(server is None for server, _ in state.suspects.values()):
            return state.parts
        keys = np.array(list(state.suspects), np.int64)
        wanted = {
            each.number
            for each in state.counts
            if each.out is not None and np.isin(np.load(each.out)[0], keys).any()
        }
        return [part for part in state.parts if part.number in wanted]

    def wait_for(self, end: Position, seconds: float | None) -> bool:
        """Have the lake catch up with a place in the log; False where it has not."""
        self._tell("wait", 0, 1)
        done = self._lag.wait(end, seconds or 0.0)
        self._tell("wait", 1, 1)
        return done

    def read_lake(self) -> None:
        """Read the lake's rows of all tables that were read of the server."""
        waiting = {name for name, state in self._tables.items() if state.server}
        for state in self._tables.values():
            state.stale = state.reason is not None and self._moved()
        for _ in range(_TRIES):
            view = self._lag.look()
            states = {
                str(TableName(each.database, each.table)): each
                for each in view.manifest.tables.values()
                if each.source == self._lag.name
            }
            jobs: list[SideJob] = []
            for name in waiting:
                table = self._tables[name].candidate.table
                self._tables[name].lake = []
                if table is None or _altered(self._tables[name], states.get(name)):
                    self._tables[name].stale = True
                    continue
                for file in view.current(states[name]):
                    out = self._folder / f"l{self._number}-{len(jobs)}"
                    shard = self._lag.name if view.manifest.shards else None
                    jobs.append(SideJob(table, file=file, out=out, shard=shard))
            gone = set()
            for result in self._run("lake", jobs, _size(jobs)):
                self._tables[result.name].lake.append(result)
                if result.gone:
                    gone.add(result.name)
            waiting = gone
            if not waiting:
                return
        for name in waiting:
            self._tables[name].reason = "its files were replaced each time that they were read"
            self._tables[name].stale = True

    def _moved(self) -> bool:
        """Whether the lake is at another version than when the server was read."""
        return self._lag.look().manifest.version != self._version

    def _run(self, what: str, jobs: list[SideJob], size: int) -> list[SideResult]:
        self._tell(what, 0, len(jobs))
        folder = self._folder / f"{what}-{self._number}-{len(list(self._folder.iterdir()))}"
        if self.alone and what == "server" and jobs:
            folder.mkdir()
            reports = [Report(folder / f"{number}.done") for number in range(len(jobs))]
            with ThreadPoolExecutor(_THREADS) as pool:
                results = list(pool.map(look, jobs, reports))
        else:
            results = self._workers.run(look, jobs, folder, lambda _done: None, size)
        self._tell(what, len(jobs), len(jobs))
        return results

    def _expected(self, jobs: Sequence[SideJob]) -> int:
        """About how many bytes the server will send."""
        whole = [job for job in jobs if job.part is not None and job.part.high is not None]
        rest = 0
        for name in {job.name for job in jobs}:
            state = self._tables[name].candidate.state
            if state is not None and state.current is not None:
                rest += min(state.current.rows, self._range_rows)
        return (len(whole) * self._range_rows + rest) * _ROW_BYTES

    # --- judging ---------------------------------------------------------------------------------

    def judge(self, *, confirmed: bool, caught_up: bool) -> bool:
        """Compare what was read; whether all is decided.

        ``confirmed``: nothing was committed while it was read. A row that differs in the same way
        twice running, while the lake had ``caught_up``, differs.
        """
        for state in self._tables.values():
            if state.clean and state.suspects is not None:
                continue
            self._judge(state, confirmed=confirmed, caught_up=caught_up)
        return all(state.clean for state in self._tables.values())

    def _judge(self, state: TableState, *, confirmed: bool, caught_up: bool) -> None:
        refused = [each for each in (*state.server, *state.lake) if each.refused]
        state.unread = False
        if refused and state.reason is None:
            state.reason = refused[0].refused
            state.unread = all(each.unread for each in refused)
        if state.stale and state.reason is None:
            state.reason = "it was altered while it was compared"
        if state.reason is not None or state.candidate.table is None:
            state.suspects, state.done = None, confirmed and not state.stale
            return
        server, lake = Pairs.load(state.server), Pairs.load(state.lake)
        before = state.suspects
        if before is None:
            state.counts = state.server
            total = sum(each.checksum for each in state.lake) % (1 << 64)
            state.lake_rows = (sum(each.count for each in state.lake), total)
        there, here = server.without(lake), lake.without(server)
        suspects: Suspects = {
            key: (there.get(key), here.get(key))
            for key in {*there, *here}
            if before is None or key in before
        }
        state.doubled = lake.doubled()
        same = before is not None and caught_up
        steady = {key for key, pair in suspects.items() if same and before.get(key) == pair}  # type: ignore[union-attr]
        state.suspects = suspects
        state.undecided = 0 if confirmed else len(suspects) - len(steady)
        state.done = confirmed or (bool(suspects) and not state.undecided)

    # --- telling ---------------------------------------------------------------------------------

    def verdicts(self, first: int) -> list[TableVerdict]:
        """What was found, with the first rows of each table that differ."""
        named = self._named(first)
        return [
            self._verdict(state, tuple(named.get(name, ())))
            for name, state in self._tables.items()
            if state.candidate.table is not None or state.reason is not None
        ]

    def _verdict(self, state: TableState, rows: tuple[RowDifference, ...]) -> TableVerdict:
        suspects = state.suspects or {}
        keys = np.array(list(suspects), np.int64)
        parts = {part.number: part for part in state.parts}
        counted = tuple(
            RangeCount(
                each.number,
                parts[each.number].low,
                parts[each.number].high,
                each.count,
                each.checksum,
                _having(each, keys),
            )
            for each in state.counts
            if each.number in parts
        )
        pairs = suspects.values()
        return TableVerdict(
            state.candidate.name,
            sum(each.rows for each in counted),
            state.lake_rows[0],
            sum(each.checksum for each in counted) % (1 << 64),
            state.lake_rows[1],
            sum(lake is None for _, lake in pairs),
            sum(server is None for server, _ in pairs),
            sum(None not in pair for pair in pairs),
            len(state.doubled),
            state.undecided,
            state.reason,
            state.candidate.compared and not state.stale and not state.unread,
            counted,
            rows,
            state.candidate.notes,
            state.candidate.incomplete,
        )

    def _named(self, first: int) -> dict[str, list[RowDifference]]:
        """The first rows that differ, by table."""
        server: list[SideJob] = []
        lake: list[SideJob] = []
        view = self._lag.look()
        states = {
            str(TableName(each.database, each.table)): each
            for each in view.manifest.tables.values()
            if each.source == self._lag.name
        }
        chosen: dict[str, list[int]] = {}
        for name, state in self._tables.items():
            table = state.candidate.table
            if not state.suspects or table is None or not first or name not in states:
                continue
            keys = chosen[name] = _first(state, first)
            jobs = [SideJob(table, self._source, part, keys=tuple(keys)) for part in state.parts]
            holding = {each.number for each in state.counts if _having(each, np.array(keys))}
            server += [job for job in jobs if job.part is not None and job.part.number in holding]
            shard = self._lag.name if view.manifest.shards else None
            lake += [
                SideJob(table, file=file, keys=tuple(keys), shard=shard)
                for file in view.current(states[name])
            ]
        self._number += 1
        on_server = self._run("server", server, self._expected(server))
        in_lake = self._run("lake", lake, _size(lake))
        found: dict[str, list[RowDifference]] = {}
        for name, keys in chosen.items():
            table = self._tables[name].candidate.table
            theirs = {key: row for each in on_server if each.name == name for key, row in each.rows}
            ours = {key: row for each in in_lake if each.name == name for key, row in each.rows}
            for key in keys:
                one, other = theirs.get(key), ours.get(key)
                if table is None or one == other:
                    continue  # both changed since
                row = one or other or {}
                names = {each: row[each] for each in table.key}
                found.setdefault(name, []).append(RowDifference(names, one, other))
        return found


def _altered(state: TableState, now: LakeTable | None) -> bool:
    """Whether the lake has the table in another shape than when the server was read."""
    before = state.candidate.state
    if now is None or now.current is None or before is None or before.current is None:
        return True
    if now.set_aside is not None or now.dropped or now.current.refused != before.current.refused:
        return True
    same = now.current.columns.equals(before.current.columns)
    return not same or now.current.key != before.current.key


def _first(state: TableState, count: int) -> list[int]:
    """The first keys that differ, in the order of the ranges."""
    suspects = state.suspects or {}
    wanted = np.array(list(suspects), np.int64)
    keys: list[int] = []
    for each in (*state.counts, *state.lake):
        if len(keys) >= count:
            break
        if each.out is not None:
            held = np.load(each.out)[0]
            keys += [key for key in held[np.isin(held, wanted)].tolist() if key not in keys]
    return keys[:count]


def _having(result: SideResult, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """How many rows of a range have one of the keys."""
    if result.out is None or not len(keys):
        return 0
    return int(np.isin(np.load(result.out)[0], keys).sum())


def _size(jobs: Sequence[SideJob]) -> int:
    paths = (Path(job.file.path) for job in jobs if job.file is not None)
    return sum(path.stat().st_size for path in paths if path.is_file())
