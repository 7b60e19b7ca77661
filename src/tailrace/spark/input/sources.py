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
    LakeTakenOver,
    PipelineError,
    StorageError,
    TailraceError,
    UsageError,
)
from tailrace.live.scheme import names_server
from tailrace.live.tables import lowers_names
from tailrace.live.url import Source
from tailrace.position import bytes_after
from tailrace.schema.catalogue_json import from_json
from tailrace.selection import start_text
from tailrace.sizes import bytes_of
from tailrace.spark.input.cursor import SourceCursor
from tailrace.spark.input.folder import settled
from tailrace.spark.input.identity import check_source
from tailrace.spark.input.lag import Lag
from tailrace.spark.input.spool import SPOOL_LIMIT, Received, Room, ServerLogs
from tailrace.spark.input.start_position import SUFFIX, begin_of, forget
from tailrace.storage import find_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
    """What a run reads: ``files`` and ``servers``, by whatever names a caller gave.

    As a context manager it keeps servers' logs coming in, with `follow`. Paths are made absolute:
    tasks may be in another folder. ``spool_limit`` is as `mirror` takes it. Raises UsageError.
    """

    def __init__(
        self,
        sources: Sequence[str | Path | Source],
        keyring: Keyring | str | Path | None,
        given: Given,
        notice: Callable[[str], None],
        lowers_names: bool | None,
        spool_limit: int | str | None,
    ) -> None:
        self.files: list[str | Path] = []
        self.servers: list[Source] = []
        for each in sources:
            if isinstance(each, Source):
                self.servers.append(each)
            elif isinstance(each, str) and names_server(each):
                self.servers.append(Source.parse(each))
            else:
                path = Path(each)
                is_path = each not in {"-", ""} and path.exists()
                self.files.append(path.absolute() if is_path else each)
        if keyring is not None and not self.files:
            raise UsageError("a keyring has the keys of files: a server sends its log decrypted")
        if spool_limit is not None and not self.servers:
            raise UsageError("a spool limit is for servers: files are read where they are")
        self._limit = SPOOL_LIMIT
        if spool_limit is not None:
            self._limit = bytes_of(spool_limit, "the spool limit")
        self._keyring = keyring
        self.given = given
        """Definitions of tables that the user gave."""
        self._lowers_names = lowers_names
        self._notice = notice
        self._cases: dict[str, bool] = {}
        """Whether servers put names into lower case, as they said or the lake knows."""
        self._begins: dict[str, Position] = {}
        """Where a new lake begins in the logs of servers whose URL says that."""
        self._found_now: set[str] = set()
        """The servers of which this run has determined that."""
        self.received: dict[str, Received] = {}
        self.cursors: dict[str, SourceCursor] = {}
        self._copies: list[ServerLogs] = []
        self._room: Room | None = None
        self.partly = False
        """Whether servers had more when their logs were received than there is room for."""
        self.cascades = False
        """Whether logs are planned so that what foreign keys do can be carried out."""
        self._found: list[LogSeries] = []
        """The series that were there at first, and the copies of servers' logs."""
        if self.files:
            self._found = self._settled()

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
        """Read them for a lake: ``states`` returns how far it has each source, ``first_needed`` the
        first file of a source that it needs still. Servers' logs are received into ``folder``.

        If a run is rejected inside, and the lake has nothing yet, the next run begins by its URL,
        unless an earlier one had determined where. After an error of a connection or a disk, the
        next run continues.
        """
        self._folder, self._states, self._first_needed = folder, states, first_needed
        copies = (ServerLogs.below(folder, source) for source in self.servers)
        self.named = {each.name: each.source for each in copies}
        """The servers, by what they are called in the lake."""
        try:
            yield
        except (ConnectionLost, StorageError, LakeTakenOver):
            raise
        except TailraceError:
            self.close()
            for name in self._found_now - states().keys():
                forget(folder / f"{name}{SUFFIX}")
            raise

    def server(self, name: str) -> ServerLogs | None:
        """The server that a source is, and where its log is received; None for files."""
        source = self.named.get(name)
        return None if source is None else ServerLogs.below(self._folder, source)

    def series(self, name: str) -> LogSeries | None:
        """The log of a source as far as it is here; None where nothing of it is."""
        if (found := next((one for one in self._found if one.name == name), None)) is not None:
            return found
        logs = self.server(name)
        return None if logs is None or not logs.folder.is_dir() else logs.series()

    # --- a run that does not follow --------------------------------------------------------------

    def receive(self, progress: Progress | None) -> None:
        """Receive what servers have by now, as far as there is room."""
        if self._copies:  # a second time
            self._found = [one for one in self._found if one.name not in self.named]
        else:
            self._copies = list(map(self._copy, self.servers))
        self.partly = False
        if not self._copies:
            return
        self._room = room = self._room or Room(self._limit, self._folder)
        room.was_full = False
        room.waiting = self._waiting()
        for each in self._copies:
            if room.is_full and each.waiting(self._place(each.name)):
                self.partly = True
                series = each.series()
            else:
                series = each.receive(self._place(each.name), progress, room.took)
            self._found = _distinct([*self._found, series])
        self.partly = self.partly or room.was_full

    def plan(self, beginning: Callable[[int], None]) -> None:
        """Plan all that was found, unless a new lake begins after what there was room for.

        Calls ``beginning`` with the number of their bytes first, if there is anything to plan.
        """
        states = self._states()
        total = sum(bytes_after(one.sizes, self._place(one.name)) for one in self._found)
        if not total and all(one.name in states for one in self._found):
            for each in self._found:
                check_source(each, states[each.name])
            return
        beginning(total)
        for series in self._found:
            if not self.partly or self._has_begin(series):
                hold = series.name in self.named or is_written(series.files[-1])
                self._cursor(series, hold=hold).look(series)

    def receive_on(self, before: Mapping[str, SourceState]) -> None:
        """A batch has brought the sources from some place to where they are. If nothing could be
        taken of a server's log, the next `receive` exceeds the spool's limit.

        Raises PipelineError if the disk is full, and nothing could be taken at all.
        """
        now = self._states()
        if any(before.get(name) == now.get(name) for name in self.named) and self._room is not None:
            self._room.hold(stuck=before == now)
        else:
            self._room = None

    def purge(self) -> None:
        """Delete what the lake has whole of servers' logs."""
        for each in self._copies:
            if (file := self._kept(each)) is not None:
                each.keep_from(file)

    # --- a run that follows ----------------------------------------------------------------------

    def follow(self) -> None:
        """Begin to receive what servers have."""
        room = Room(self._limit, self._folder)
        for source in self.servers:
            logs = self._copy(source)
            if logs.name in self.received or any(logs.name == one.name for one in self._found):
                raise PipelineError(f"two sources are called {logs.name!r}: give one of them")
            place = self._place(logs.name)
            room.took(logs.waiting(place))
            self.received[logs.name] = Received(logs, place, room)
            self._copies.append(logs)
            self._room = room

    def look(self, enough: int) -> None:
        """Look at what is there by now, and plan some batches of ``enough`` bytes.

        Raises what ended a receiver, and what looking at a source raises.
        """
        # what is here by then is seen
        paused = {name: each.paused for name, each in self.received.items()}
        series = self._settled() if self.files else []
        series += [one for each in self.received.values() if (one := each.look()) is not None]
        for one in filter(self._has_begin, _distinct(series)):
            cursor = self.cursors.get(one.name) or self._cursor(one, hold=True)
            cursor.look(one, enough=enough)
        with_some = {name for name, each in self.cursors.items() if each.waiting}
        stuck = [each and name not in with_some for name, each in paused.items()]
        if any(stuck) and self._room is not None and self._room.is_full:
            self._room.hold(stuck=all(stuck))  # nobody would make room for these

    @property
    def caught_up(self) -> bool:
        """Whether all that servers had at their receivers' last report is here."""
        far = [each.far for each in self.received.values()]
        return all(each is not None and each.lag_bytes == 0 for each in far)

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

    def committed(self) -> None:
        """A batch is in the lake."""
        for name, state in self._states().items():
            if name in self.cursors:
                self.cursors[name].committed(state)
        for received in self.received.values():
            if (file := self._kept(received.logs)) is not None:
                received.keep_from(file)
        if self._room is not None:
            self._room.took_out(self._waiting())

    # --- batches ---------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether anything is planned and not taken."""
        return any(each.waiting for each in self.cursors.values())

    def take(self, most: int | None = None, *, new: bool) -> dict[str, Taken]:
        """An equal share of each source that has something, of ``most`` bytes together; of a
        ``new`` lake also the places where the others begin.
        """
        waiting = [each for each in self.cursors.values() if each.waiting]
        share = most and most // max(len(waiting), 1)
        taken = {each.name: part for each in waiting if (part := each.take(share)) is not None}
        if new:
            taken = {name: taken.get(name) or each.nothing() for name, each in self.cursors.items()}
        return taken

    def replan(self, name: str) -> None:
        """A source is planned again, from where the lake ends: more is known of its tables, or a
        batch of it failed.
        """
        self.cursors.pop(name, None)

    # --- where they are --------------------------------------------------------------------------

    def _place(self, name: str) -> Position | None:
        """How far the lake has a source."""
        state = self._states().get(name)
        return None if state is None else state.position

    def _waiting(self) -> int:
        """The bytes of servers' logs that are here and not in the lake."""
        return sum(each.waiting(self._place(each.name)) for each in self._copies)

    def _kept(self, logs: ServerLogs) -> str | None:
        """The first file of a server's copy that is needed still; None: all."""
        place = self._place(logs.name)
        if place is None:
            return None
        first = self._first_needed(logs.name)
        is_here = first is not None and any(log.name == first for log in logs.series().files)
        return first if is_here else place.file

    def _copy(self, source: Source) -> ServerLogs:
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
        return logs if place is None else replace(logs, source=replace(source, start=place))

    def _has_begin(self, series: LogSeries) -> bool:
        """Whether a copy has come as far as the lake is to begin in it."""
        place = self._begins.get(series.name)
        if place is None or series.name in self.cursors:
            return True
        return any(log.name == place.file and log.size >= place.offset for log in series.files)

    def _settled(self) -> list[LogSeries]:
        """The series of files. Raises PipelineError where one that was there at first is gone."""
        found = _distinct(settled(partial(find_all, self.files, self._keyring)))
        missing = {one.name for one in self._found} - {one.name for one in found}
        if missing:
            raise PipelineError(f"source {min(missing)} is gone: bring its files back")
        return found

    def _cursor(self, series: LogSeries, *, hold: bool) -> SourceCursor:
        state = self._states().get(series.name)
        begin = None if state is not None else self._begins.get(series.name)
        made = SourceCursor(
            series,
            state,
            self.given,
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


def _distinct(series: list[LogSeries]) -> list[LogSeries]:
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
