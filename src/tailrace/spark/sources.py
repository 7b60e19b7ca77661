"""All sources of a run: files, folders and servers, looked at once or again and again."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

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
from tailrace.spark.inflow import Inflow, settled
from tailrace.spark.server_start import SUFFIX, begin_of, forget
from tailrace.spark.servers import SPOOL_LIMIT, Received, Room, ServerLogs
from tailrace.spark.unnamed import first_needed
from tailrace.storage import find_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.schema.tables import TableState
    from tailrace.spark.lake.protocol import LakeStore
    from tailrace.spark.manifest.manifest import Manifest, SourceState
    from tailrace.spark.taken import Taken
    from tailrace.storage import LogSeries
    from tailrace.storage.keyring.base import Keyring
    from tailrace.values.schema import TableDefinition

    Progress = Callable[[str, int, int], None]
    Given = Sequence[TableDefinition | TableState]

_LOOKS: Final = 8
"""A folder whose files change between so many pairs of looks is looked at no further for now."""


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
        self._cases: dict[str, bool] = {}
        """Whether servers put names into lower case, as they said or the lake knows."""
        self._begins: dict[str, Position] = {}
        """Where a new lake begins in the logs of servers whose URL says that."""
        self._found_now: set[str] = set()
        """The servers of which this run has determined that."""
        self.received: dict[str, Received] = {}
        self.inflows: dict[str, Inflow] = {}
        self._live: set[str] = set()
        self.room: Room | None = None
        self.partly = False
        """Whether servers had more when their logs were received than there is room for."""
        self.cascades = False
        """Whether logs are planned so that what foreign keys do can be carried out."""
        self.found = _distinct(find_all(files, keyring)) if files else []
        """The series that were there at first."""

    def close(self) -> None:
        """Receive no more."""
        for each in self.received.values():
            each.close()

    @contextmanager
    def beginning(self, store: LakeStore) -> Iterator[None]:
        """Where a run is rejected inside, and the lake has nothing yet, the next begins by its URL,
        unless an earlier run had determined where.

        What a connection or a disk ends is no such run: the next one continues.
        """
        try:
            yield
        except (ConnectionLost, StorageError):
            raise
        except TailraceError:
            self.close()
            for name in self._found_now - store.manifest.sources.keys():
                forget(store.sources / f"{name}{SUFFIX}")
            raise

    @property
    def given(self) -> Given:
        """Definitions of tables that the user gave."""
        return self._given

    def server(self, store: LakeStore, name: str) -> ServerLogs | None:
        """The server that a source is, and where its log is received; None for files."""
        every = (ServerLogs.below(store.sources, source) for source in self._servers)
        return next((logs for logs in every if logs.name == name), None)

    def series(self, store: LakeStore, name: str) -> LogSeries | None:
        """The log of a source as far as it is here; None where nothing of it is."""
        if (found := next((one for one in self.found if one.name == name), None)) is not None:
            return found
        logs = self.server(store, name)
        return None if logs is None or not logs.folder.is_dir() else logs.series()

    def receive(self, store: LakeStore, progress: Progress | None) -> list[ServerLogs]:
        """Receive what servers have by now, as far as there is room; their copies are among `found`
        then.
        """
        logs = [self._logs(store, source) for source in self._servers]
        self.found = [one for one in self.found if one.name not in self._live]  # a second time
        states = store.manifest.sources
        self.room = room = self.room or Room(self._spool_limit, store.sources)
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

    def plan(self, store: LakeStore) -> None:
        """Plan all that was found, unless a new lake begins after what there was room for."""
        for series in self.found:
            if self.partly and not self._has_begin(series):
                continue
            hold = series.name in self._live or is_written(series.files[-1])
            self._inflow(series, store, hold=hold).look(series)

    def follow(self, store: LakeStore) -> None:
        """Begin to receive what servers have."""
        self.room = room = Room(self._spool_limit, store.sources)
        for source in self._servers:
            logs = self._logs(store, source)
            if logs.name in self.received or any(logs.name == one.name for one in self.found):
                raise PipelineError(f"two sources are called {logs.name!r}: give one of them")
            state = store.manifest.sources.get(logs.name)
            room.took(logs.waiting(state))
            self.received[logs.name] = Received(logs, state, room)

    def look(self, store: LakeStore, enough: int) -> None:
        """Look at what is there by now, and plan some batches of ``enough`` bytes.

        Raises what ended a receiver, and what looking at a source raises.
        """
        # what is here by then is seen
        paused = {name: each.paused for name, each in self.received.items()}
        series = self._settled() if self._files else []
        series += [one for each in self.received.values() if (one := each.look()) is not None]
        for one in filter(self._has_begin, _distinct(series)):
            inflow = self.inflows.get(one.name) or self._inflow(one, store, hold=True)
            inflow.look(one, enough=enough)
        stuck = [each and not self._waits(name) for name, each in paused.items()]
        if any(stuck) and self.room is not None and self.room.is_full:
            self.room.hold(stuck=all(stuck))  # nobody would make room for these

    def _waits(self, name: str) -> bool:
        """Whether something of a source can be taken."""
        return name in self.inflows and bool(self.inflows[name].waiting)

    @property
    def caught_up(self) -> bool:
        """Whether all that servers had at their receivers' last report is here."""
        far = [each.far for each in self.received.values()]
        return all(each is not None and each.lag_bytes == 0 for each in far)

    def begins(self, taken: Mapping[str, Taken]) -> dict[str, Taken]:
        """What a new lake begins with: what was taken, and the other sources' places."""
        return {name: taken.get(name) or each.nothing() for name, each in self.inflows.items()}

    def _logs(self, store: LakeStore, source: Source) -> ServerLogs:
        """A server's copy. The lake resumes where it ends; a new one begins where the URL says."""
        logs = ServerLogs.below(store.sources, source)
        state = store.manifest.sources.get(logs.name)
        if state is not None:
            if source.start is not None and source.start != "oldest":
                self._notice(
                    f"{logs.name}: the lake has it up to {state.position} and continues"
                    f" there; the start in the URL ({start_text(source.start)}) is for a new lake"
                )
            return logs
        path = store.sources / f"{logs.name}{SUFFIX}"
        place, now = begin_of(source, path)
        if place is not None:
            self._begins[logs.name] = place
        if now:
            self._found_now.add(logs.name)
        return replace(logs, place=place)

    def _has_begin(self, series: LogSeries) -> bool:
        """Whether a copy has come as far as the lake is to begin in it."""
        place = self._begins.get(series.name)
        if place is None or series.name in self.inflows:
            return True
        return any(log.name == place.file and log.size >= place.offset for log in series.files)

    def committed(self, manifest: Manifest) -> None:
        """A batch is in the lake."""
        for name, state in manifest.sources.items():
            if name in self.inflows:
                self.inflows[name].committed(state)
            if name in self.received:
                self.received[name].committed(_kept(manifest, state, self.received[name].logs))
        if self.room is not None:
            states = manifest.sources
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

    def keep_from(self, store: LakeStore, logs: Sequence[ServerLogs]) -> None:
        """Delete what the lake has whole of servers' logs."""
        for each in logs:
            state = store.manifest.sources.get(each.name)
            if state is not None:
                each.keep_from(_kept(store.manifest, state, each).file)

    def plan_anew(self, name: str) -> None:
        """More is known of a source's tables: it is planned again from where the lake ends."""
        self.inflows.pop(name, None)

    def _settled(self) -> list[LogSeries]:
        """The series of files; one that grows just now is as it was once its next was created."""
        found = find_all(self._files, self._keyring)
        for _ in range(_LOOKS):
            again = find_all(self._files, self._keyring)
            names = [one.name for one in found] == [one.name for one in again]
            if names and all(map(settled, found, again)):
                break
            found = again
        else:
            return []
        missing = {one.name for one in self.found} - {one.name for one in again}
        if missing:
            raise PipelineError(f"source {min(missing)} is gone: bring its files back")
        return again

    def _inflow(self, series: LogSeries, store: LakeStore, *, hold: bool) -> Inflow:
        state = store.manifest.sources.get(series.name)
        begin = None if state is not None else self._begins.get(series.name)
        made = Inflow(
            series,
            state,
            self._given,
            hold=hold,
            begin=begin,
            cascades=self.cascades,
            lowers_names=self.lowers_names(series.name),
        )
        self.inflows[series.name] = made
        return made

    def lowers_names(self, name: str) -> bool | None:
        """Whether a source puts names into lower case, as far as is known."""
        return self._cases.get(name, self._lowers_names)

    def lower_names(self, store: LakeStore, *, by_name: bool) -> bool:
        """Whether any source puts names into lower case: by the argument, the lake, its server.

        Raises `PipelineError` where the argument is not what the lake began with, and `UsageError`
        where tables are chosen ``by_name`` and sources have them in different ways.
        """
        for name, state in store.manifest.sources.items():
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
        for name, source in self.named(store).items():
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

    def named(self, store: LakeStore) -> dict[str, Source]:
        """The servers, by what they are called in the lake."""
        return {ServerLogs.below(store.sources, each).name: each for each in self._servers}


def _kept(manifest: Manifest, state: SourceState, logs: ServerLogs) -> SourceState:
    """A server's state, at the first file of its copy that is needed still."""
    first = first_needed(manifest, logs.name)
    if first is None or all(log.name != first for log in logs.series().files):
        return state
    return replace(state, file=first)


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
