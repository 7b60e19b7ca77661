"""All sources of a run: files, folders and servers, looked at once or again and again."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.closing import Closing
from tailrace.columns.read.planner import is_written
from tailrace.errors import (
    ConnectionLost,
    PipelineError,
    StorageError,
    TailraceError,
    UsageError,
)
from tailrace.live.tables import lowers_names
from tailrace.schema.catalogue_json import from_json
from tailrace.selection import start_text
from tailrace.spark.input.begin import SUFFIX, begin_of, forget
from tailrace.spark.input.cursor import SourceCursor
from tailrace.spark.input.folder import settled
from tailrace.spark.input.identity import check_source
from tailrace.spark.input.lag import Lag, bytes_after, sizes
from tailrace.spark.input.server import SPOOL_LIMIT, Received, Room, ServerLogs
from tailrace.storage import find_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.schema.tables import TableState
    from tailrace.spark.input.taken import Taken
    from tailrace.spark.manifest.manifest import SourceState
    from tailrace.storage import LogSeries
    from tailrace.storage.keyring.base import Keyring
    from tailrace.values.schema import TableDefinition

    Progress = Callable[[str, int, int], None]
    Given = Sequence[TableDefinition | TableState]


class Sources(Closing):
    """What a run reads. As a context manager it keeps servers' logs coming in, with ``follow``."""

    def __init__(
        self,
        files: Sequence[str | Path],
        servers: Sequence[Source],
        keyring: Keyring | str | Path | None,
        given: Given,
        notice: Callable[[str], None] = lambda _text: None,
        lowers_names: bool | None = None,
        spool_limit: int = SPOOL_LIMIT,
    ) -> None:
        if keyring is not None and not files:
            raise UsageError("a keyring has the keys of files: a server sends its log decrypted")
        self._files = files
        self._servers = servers
        self._keyring = keyring
        self._given = given
        self._lowers_names = lowers_names
        self._spool_limit = spool_limit
        self._notice = notice
        self._folder = Path()
        self._cases: dict[str, bool] = {}
        """Whether servers put names into lower case, as they said or the lake knows."""
        self._begins: dict[str, Position] = {}
        """Where a new lake begins in the logs of servers whose URL says that."""
        self._found_now: set[str] = set()
        """The servers of which this run has determined that."""
        self.received: dict[str, Received] = {}
        self.cursors: dict[str, SourceCursor] = {}
        self._live: set[str] = set()
        self.room: Room | None = None
        self.partly = False
        """Whether servers had more when their logs were received than there is room for."""
        self.cascades = False
        """Whether logs are planned so that what foreign keys do can be carried out."""
        self.found: Sequence[LogSeries] = ()
        self.found = _distinct(self._settled()) if files else []
        """The series that were there at first."""

    def close(self) -> None:
        """Receive no more."""
        for each in self.received.values():
            each.close()

    @contextmanager
    def of_lake(
        self,
        folder: Path,
        states: Callable[[], Mapping[str, SourceState]],
        first_needed: Callable[[str], str | None],
    ) -> Iterator[None]:
        """They are read for a lake that has them up to ``states``, and still needs the log of one
        from the file ``first_needed`` on. Servers' logs are received into ``folder``.

        Where a run is rejected inside, and the lake has nothing yet, the next begins by its URL,
        unless an earlier run had determined where. What a connection or a disk ends is no such run:
        the next one continues.
        """
        self._folder, self._states, self._first_needed = folder, states, first_needed
        try:
            yield
        except (ConnectionLost, StorageError):
            raise
        except TailraceError:
            self.close()
            for name in self._found_now - states().keys():
                forget(folder / f"{name}{SUFFIX}")
            raise

    @property
    def given(self) -> Given:
        """Definitions of tables that the user gave."""
        return self._given

    def server(self, name: str) -> ServerLogs | None:
        """The server that a source is, and where its log is received; None for files."""
        every = (ServerLogs.below(self._folder, source) for source in self._servers)
        return next((logs for logs in every if logs.name == name), None)

    def series(self, name: str) -> LogSeries | None:
        """The log of a source as far as it is here; None where nothing of it is."""
        if (found := next((one for one in self.found if one.name == name), None)) is not None:
            return found
        logs = self.server(name)
        return None if logs is None or not logs.folder.is_dir() else logs.series()

    def receive(self, progress: Progress | None) -> list[ServerLogs]:
        """Receive what servers have by now, as far as there is room; their copies are among `found`
        then.
        """
        logs = [self._logs(source) for source in self._servers]
        self.found = [one for one in self.found if one.name not in self._live]  # a second time
        states = self._states()
        self.room = room = self.room or Room(self._spool_limit, self._folder)
        self.partly = room.was_full = False
        room.waiting = sum(each.waiting(states.get(each.name)) for each in logs)
        for each in logs:
            if room.is_full and each.waiting(states.get(each.name)):
                self.partly = True
                series = each.series()
            else:
                series = each.receive(states.get(each.name), progress, room.took)
            self.found = _distinct([*self.found, series])
            self._live.add(each.name)
        self.partly = self.partly or room.was_full
        return logs

    def plan(self) -> None:
        """Plan all that was found, unless a new lake begins after what there was room for."""
        for series in self.found:
            if self.partly and not self._has_begin(series):
                continue
            hold = series.name in self._live or is_written(series.files[-1])
            self._cursor(series, hold=hold).look(series)

    def follow(self) -> None:
        """Begin to receive what servers have."""
        self.room = room = Room(self._spool_limit, self._folder)
        for source in self._servers:
            logs = self._logs(source)
            if logs.name in self.received or any(logs.name == one.name for one in self.found):
                raise PipelineError(f"two sources are called {logs.name!r}: give one of them")
            state = self._states().get(logs.name)
            room.took(logs.waiting(state))
            self.received[logs.name] = Received(logs, state, room)

    def look(self, enough: int) -> None:
        """Look at what is there by now, and plan some batches of ``enough`` bytes.

        Raises what ended a receiver, and what looking at a source raises.
        """
        # what is here by then is seen
        paused = {name: each.paused for name, each in self.received.items()}
        series = self._settled() if self._files else []
        series += [one for each in self.received.values() if (one := each.look()) is not None]
        for one in filter(self._has_begin, _distinct(series)):
            cursor = self.cursors.get(one.name) or self._cursor(one, hold=True)
            cursor.look(one, enough=enough)
        stuck = [each and not self._waits(name) for name, each in paused.items()]
        if any(stuck) and self.room is not None and self.room.is_full:
            self.room.hold(stuck=all(stuck))  # nobody would make room for these

    def _waits(self, name: str) -> bool:
        """Whether something of a source can be taken."""
        return name in self.cursors and bool(self.cursors[name].waiting)

    @property
    def caught_up(self) -> bool:
        """Whether all that servers had at their receivers' last report is here."""
        far = [each.far for each in self.received.values()]
        return all(each is not None and each.lag_bytes == 0 for each in far)

    def fresh(self) -> int:
        """The bytes that were found and that the lake has not; 0 where nothing is to be planned.

        Raises what `check_source` raises.
        """
        states, total = self._states(), 0
        for each in self.found:
            state = states.get(each.name)
            total += bytes_after(sizes(each.files), None if state is None else state.position)
        for each in self.found if not total else ():
            check_source(each, states[each.name])
        return total

    def lag(self, cursor: SourceCursor) -> Lag:
        """How far the lake is behind a source's log, wherever that is by now."""
        lag, received = cursor.lag, self.received.get(cursor.name)
        far = None if received is None else received.far
        if far is None:
            return lag
        # some of what the source was ahead by then may be here by now
        behind = max(lag.bytes, cursor.behind(far.position) + (far.lag_bytes or 0))
        since = lag.since
        if since is None and behind and far.lag_bytes and far.lag_seconds:
            since = time.time() - far.lag_seconds
        return Lag(behind, since)

    def take(self, most: int | None = None) -> dict[str, Taken]:
        """An equal share of each source that has something, of ``most`` bytes together."""
        waiting = [each for each in self.cursors.values() if each.waiting]
        share = most and most // max(len(waiting), 1)
        return {each.name: part for each in waiting if (part := each.take(share)) is not None}

    def begins(self, taken: Mapping[str, Taken]) -> dict[str, Taken]:
        """What a new lake begins with: what was taken, and the other sources' places."""
        return {name: taken.get(name) or each.nothing() for name, each in self.cursors.items()}

    def _logs(self, source: Source) -> ServerLogs:
        """A server's copy. The lake resumes where it ends; a new one begins where the URL says."""
        logs = ServerLogs.below(self._folder, source)
        state = self._states().get(logs.name)
        if state is not None:
            if source.start is not None and source.start != "oldest":
                self._notice(
                    f"{logs.name}: the lake has it up to {state.position} and continues"
                    f" there; the start in the URL ({start_text(source.start)}) is for a new lake"
                )
            return logs
        path = self._folder / f"{logs.name}{SUFFIX}"
        place, now = begin_of(source, path)
        if place is not None:
            self._begins[logs.name] = place
        if now:
            self._found_now.add(logs.name)
        return replace(logs, place=place)

    def _has_begin(self, series: LogSeries) -> bool:
        """Whether a copy has come as far as the lake is to begin in it."""
        place = self._begins.get(series.name)
        if place is None or series.name in self.cursors:
            return True
        return any(log.name == place.file and log.size >= place.offset for log in series.files)

    def committed(self) -> None:
        """A batch is in the lake."""
        states = self._states()
        for name, state in states.items():
            if name in self.cursors:
                self.cursors[name].committed(state)
            if name in self.received:
                received = self.received[name]
                received.committed(self._kept(state, received.logs))
        if self.room is not None:
            self.room.took_out(
                sum(each.logs.waiting(states.get(name)) for name, each in self.received.items())
            )

    def receive_on(self, before: Mapping[str, SourceState], now: Mapping[str, SourceState]) -> None:
        """A batch has brought the sources from one place to another. If nothing could be taken of a
        server's log, the next `receive` exceeds the spool's limit.

        Raises PipelineError if the disk is full, and nothing could be taken at all.
        """
        stuck = any(before.get(name) == now.get(name) for name in self._live)
        if self.room is not None and stuck:
            self.room.hold(stuck=before == now)
        else:
            self.room = None

    def keep_from(self, logs: Sequence[ServerLogs]) -> None:
        """Delete what the lake has whole of servers' logs."""
        for each in logs:
            state = self._states().get(each.name)
            if state is not None:
                each.keep_from(self._kept(state, each).file)

    def _kept(self, state: SourceState, logs: ServerLogs) -> SourceState:
        """A server's state, at the first file of its copy that is needed still."""
        first = self._first_needed(logs.name)
        if first is None or all(log.name != first for log in logs.series().files):
            return state
        return replace(state, file=first)

    def plan_anew(self, name: str) -> None:
        """More is known of a source's tables: it is planned again from where the lake ends."""
        self.cursors.pop(name, None)

    def _settled(self) -> list[LogSeries]:
        """The series of files. Raises PipelineError where one that was there at first is gone."""
        found = settled(partial(find_all, self._files, self._keyring))
        missing = {one.name for one in self.found} - {one.name for one in found}
        if missing:
            raise PipelineError(f"source {min(missing)} is gone: bring its files back")
        return found

    def _cursor(self, series: LogSeries, *, hold: bool) -> SourceCursor:
        state = self._states().get(series.name)
        begin = None if state is not None else self._begins.get(series.name)
        made = SourceCursor(
            series,
            state,
            self._given,
            hold=hold,
            begin=begin,
            cascades=self.cascades,
            lowers_names=self.lowers_names(series.name),
        )
        self.cursors[series.name] = made
        return made

    def lowers_names(self, name: str) -> bool | None:
        """Whether a source puts names into lower case, as far as is known."""
        return self._cases.get(name, self._lowers_names)

    def lower_names(self, *, by_name: bool) -> bool:
        """Whether any source puts names into lower case: by the argument, the lake, its server.

        Raises `PipelineError` where the argument is not what the lake began with, and `UsageError`
        where tables are chosen ``by_name`` and sources have them in different ways.
        """
        for name, state in self._states().items():
            known = from_json(state.tables).lowers_names
            given = self._lowers_names
            if known is not None and given is not None and known != given:
                raise PipelineError(
                    f"source {name} has lower_case_table_names={'1 or 2' if known else 0} in this"
                    f" lake, and {'1 or 2' if given else 0} is given: leave that out, or create a"
                    " new lake"
                )
            if known is not None and self._lowers_names is None:
                self._cases[name] = known
        for name, source in self.named.items():
            if name not in self._cases and self._lowers_names is None:
                found = lowers_names(source)
                if found is not None:
                    self._cases[name] = found
        cases = {self._lowers_names, *self._cases.values()}
        if by_name and {True, False} <= cases:
            raise UsageError(
                "the sources differ in lower_case_table_names, and a table's name means another"
                " table in each: give each a lake of its own, or select all tables"
            )
        return True in cases

    @property
    def named(self) -> dict[str, Source]:
        """The servers, by what they are called in the lake."""
        return {ServerLogs.below(self._folder, each).name: each for each in self._servers}


def _distinct(series: Sequence[LogSeries]) -> Sequence[LogSeries]:
    by_name: dict[str, LogSeries] = {}
    for each in series:
        if each.files[0].joined:
            raise UsageError(
                f"{each.name}: a mirror reads logs more than once, and not through a pipe: give"
                " files, folders or URLs"
            )
        other = by_name.setdefault(each.name, each)
        if other is not each:
            raise PipelineError(
                f"{each.files[0].path} and {other.files[0].path} are both source {each.name!r}: "
                "name the folders of two servers' logs differently"
            )
    return series
