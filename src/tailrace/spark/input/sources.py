"""All sources of a run: files, folders and servers, and how far they go by now."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.columns.read.planner import is_written
from tailrace.constants import MAGIC
from tailrace.errors import (
    ConnectionLost,
    LakeTakenOver,
    PipelineError,
    StorageError,
    TailraceError,
    UsageError,
)
from tailrace.live.scheme import names_server
from tailrace.live.url import Source
from tailrace.log_name import base_and_number
from tailrace.position import bytes_after
from tailrace.schema.catalogue_json import from_json
from tailrace.selection import start_text
from tailrace.sizes import bytes_of
from tailrace.spark.input.cursor import SourceCursor, is_same
from tailrace.spark.input.folder import settled
from tailrace.spark.input.lag import Lag, SourceMoment
from tailrace.spark.input.server_facts import AskedServers
from tailrace.spark.input.server_log import SPOOL_LIMIT, Room, ServerLog
from tailrace.spark.input.start_position import SUFFIX, begin_of, forget
from tailrace.storage import find_all

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from tailrace.position import Position
    from tailrace.schema.catalogue import Learned
    from tailrace.schema.tables import TableState
    from tailrace.spark.input.cursor import Taken
    from tailrace.spark.input.server_log import Progress
    from tailrace.spark.manifest.manifest import SourceState
    from tailrace.storage import LogSeries
    from tailrace.storage.keyring.base import Keyring
    from tailrace.table_filter import TableFilter
    from tailrace.values.schema import TableDefinition

    Given = Sequence[TableDefinition | TableState]

_LOOK_SECONDS: Final = 0.02


class Sources:
    """What a run reads: ``files`` and ``servers``, by whatever names a caller gave.

    Paths are made absolute: tasks may be in another folder. ``spool_limit`` is as `mirror` takes
    it. Raises UsageError.
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
        self._limit = (
            SPOOL_LIMIT if spool_limit is None else bytes_of(spool_limit, "the spool limit")
        )
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
        self.received: dict[str, ServerLog] = {}
        """The servers' logs, by what they are called in the lake."""
        self.cursors: dict[str, SourceCursor] = {}
        self._follow = False
        self.cascades = False
        """Whether logs are planned so that what foreign keys do can be carried out."""
        self._found = _distinct(find_all(self.files, keyring))
        """The series of files that were there at first."""

    @contextmanager
    def of_lake(
        self,
        folder: Path,
        states: Callable[[], Mapping[str, SourceState]],
        first_needed: Callable[[str], str | None],
        wanted: TableFilter | None,
    ) -> Iterator[None]:
        """Read them for a lake: ``states`` returns how far it has each source, ``first_needed`` the
        first file of a source that it needs still. Servers' logs are received into ``folder``, from
        `start` on until the end. ``wanted`` are the tables of a new lake, None where it exists.

        If a run is rejected inside, and the lake has nothing yet, the next run begins by its URL,
        unless an earlier one had determined where. After an error of a connection or a disk, the
        next run continues.
        """
        self._states, self._first_needed = states, first_needed
        self._room = Room(self._limit, folder)
        for source in self.servers:
            log = ServerLog.below(folder, source, self._room)
            if log.name in self.received or any(log.name == one.name for one in self._found):
                raise PipelineError(f"two sources are called {log.name!r}: give one of them")
            self.received[log.name] = log
        self._found = self._named(self._found)
        servers = {name: log.source for name, log in self.received.items()}
        self.asked = AskedServers(servers, wanted, self._lowers_names, self._notice)
        try:
            yield
        except (ConnectionLost, StorageError, LakeTakenOver):
            raise
        except TailraceError:
            self._close()
            for name in self._found_now - states().keys():
                forget(folder / f"{name}{SUFFIX}")
            raise
        finally:
            self._close()

    def _close(self) -> None:
        """Receive no more."""
        for each in self.received.values():
            each.close()

    def series(self, name: str) -> LogSeries | None:
        """The log of a source as far as it is here; None where nothing of it is."""
        if (log := self.received.get(name)) is not None:
            return log.series() if log.is_there else None
        return next((one for one in self._settled() if one.name == name), None)

    # --- what is there by now --------------------------------------------------------------------

    def start(self, *, follow: bool) -> None:
        """Begin to receive what servers have; without ``follow`` as far as their logs go now, and
        called again as far as they go then.
        """
        self._follow = follow
        for log in self.received.values():
            if not log.started:
                self._begin(log)
        self._room.took_out(self._waiting())
        for log in self.received.values():
            log.start(self._place(log.name), follow=follow)

    def receive(self, progress: Progress) -> None:
        """Wait until a run that does not follow has servers' logs, as far as there is room.

        Raises what ended a receiver.
        """
        logs = self.received.values()
        while logs:
            done = all(each.rests for each in logs)
            for each in logs:
                if each.failed is not None:
                    raise each.failed
            if far := [each.far for each in logs if each.far is not None]:
                received = sum(each.received for each in far)
                progress("receive", received, received + sum(each.lag_bytes or 0 for each in far))
            if done:
                return
            time.sleep(_LOOK_SECONDS)

    def look(self, enough: int | None) -> None:
        """Look at what is there by now, and plan some batches of ``enough`` bytes; None: all.

        Raises what ended a receiver, and what looking at a source raises.
        """
        # what is here by then is seen
        full = [name for name, each in self.received.items() if each.is_full]
        ended = {name for name, each in self.received.items() if each.ended}
        series = self._settled()
        series += [one for each in self.received.values() if (one := each.look()) is not None]
        here = {one.name for one in series} | self.received.keys()
        for one in _distinct(series):
            if one.name in ended or self._has_begin(one):
                if one.name not in self.cursors:
                    # in-doubt rows of closed files are read as they are
                    hold = self._follow or one.name in self.received or is_written(one.files[-1])
                    state = self._states().get(one.name)
                    self._check_is_no_other(one, here)
                    begin = None if state is not None else self._begins.get(one.name)
                    self.cursors[one.name] = self.cursor(one, state, hold=hold, begin=begin)
                self.cursors[one.name].look(one, enough)
        with_some = {name for name, each in self.cursors.items() if each.waiting}
        if not with_some.issuperset(full) and self._room.is_full:
            # nobody would make room for these
            all_stuck = len(full) + len(ended) == len(self.received)
            self._room.hold(stuck=all_stuck and with_some.isdisjoint(self.received))

    @property
    def caught_up(self) -> bool:
        """Whether all that servers had at their receivers' last report is here."""
        return all(each.caught_up for each in self.received.values())

    @property
    def unread(self) -> int:
        """The bytes of logs that the lake has not, as far as they are here."""
        files = sum(bytes_after(each.sizes, self._place(each.name)) for each in self._found)
        return files + self._waiting()

    def moments(self) -> tuple[SourceMoment, ...]:
        """How far the lake has each source's log, measured against where the source is now."""
        return tuple(map(self._moment, self.cursors.values()))

    def _moment(self, cursor: SourceCursor) -> SourceMoment:
        here, received = self._place(cursor.name), self.received.get(cursor.name)
        far = None if received is None else received.far
        held, behind = cursor.planner.held, cursor.behind()
        since: float | None = cursor.since
        if far is not None:
            # some of what the source was ahead by then may be here by now
            behind = max(behind, cursor.behind(far.position) + (far.lag_bytes or 0))
            if since is None and behind and far.lag_bytes and far.lag_seconds:
                since = time.time() - far.lag_seconds
        return SourceMoment(
            cursor.name,
            None if here is None else str(here),
            behind,
            Lag(behind, since).seconds,
            far.gtid if far is not None and here is not None and here == far.position else None,
            None if held is None else str(held),
            far is None or far.connected,
            received is not None and received.paused,
        )

    def committed(self) -> None:
        """A batch is in the lake: what it has whole of servers' logs can go."""
        for name, state in self._states().items():
            if name in self.cursors:
                self.cursors[name].state = state
        for log in self.received.values():
            if (place := self._place(log.name)) is not None:
                needed = self._first_needed(log.name)
                if needed is None or all(each.name != needed for each in log.series().files):
                    needed = place.file
                log.keep_from(needed)
        self._room.took_out(self._waiting())

    # --- batches ---------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[SourceCursor]:
        """The sources of which something is planned and not taken."""
        return [each for each in self.cursors.values() if each.waiting]

    def take(self, most: int | None, *, new: bool) -> dict[str, Taken]:
        """An equal share of each source that has something, of ``most`` bytes together; of a
        ``new`` lake also the places where the others begin.
        """
        share = most and most // max(len(self.waiting), 1)
        taken = {each.name: part for each in self.waiting if (part := each.take(share)) is not None}
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
        return sum(each.waiting(self._place(each.name)) for each in self.received.values())

    def _begin(self, log: ServerLog) -> None:
        """The lake resumes where it ends; a new one begins where the URL says."""
        source, state = log.source, self._states().get(log.name)
        if state is not None:
            if source.start is not None and source.start != "oldest":
                self._notice(
                    f"{log.name}: the lake has it up to {state.position} and continues"
                    f" there; the start in the URL ({start_text(source.start)}) is for a new lake"
                )
            return
        facts = self.asked.facts(log.name)
        end = None if facts is None else facts.end
        place, is_fresh = begin_of(source, log.folder.with_name(f"{log.name}{SUFFIX}"), end)
        if is_fresh:
            self._found_now.add(log.name)
        if place is not None:
            self._begins[log.name] = place
            log.source = replace(source, start=place)

    def _has_begin(self, series: LogSeries) -> bool:
        """Whether a copy has come as far as the lake is to begin in it."""
        place = self._begins.get(series.name)
        if place is None or series.name in self.cursors:
            return True
        return any(log.name == place.file and log.size >= place.offset for log in series.files)

    def _settled(self) -> list[LogSeries]:
        """The series of files. Raises PipelineError where one that was there at first is gone."""
        found = settled(partial(find_all, self.files, self._keyring))
        found = self._named(_distinct(found), self._found)
        missing = {one.name for one in self._found} - {one.name for one in found}
        if missing:
            raise PipelineError(f"source {min(missing)} is gone: bring its files back")
        return found

    def _named(self, found: list[LogSeries], before: Iterable[LogSeries] = ()) -> list[LogSeries]:
        """The series by the names that the lake knows them by, or this run, which had ``before``.

        A folder's log is called ``folder`` where it is the only one, else ``folder/base``: other
        logs that come and go must not make it another source.
        """
        known = {one.name: one.files[0].base for one in before}
        states = self._states()
        known |= {
            name: base_and_number(states[name].file)[0]
            for name in states.keys() - self.received.keys()
        }
        taken = {one.name for one in found} | self.received.keys()

        def name(one: LogSeries) -> str:
            base = one.files[0].base
            alone = one.name.removesuffix(f"/{base}")
            other = f"{one.name}/{base}" if alone == one.name else alone
            moved = known.get(one.name) != base and known.get(other) == base
            return other if moved and other not in taken else one.name

        return [replace(one, name=name(one)) for one in found]

    def _check_is_no_other(self, series: LogSeries, here: Collection[str]) -> None:
        """Raises PipelineError where the lake has this log as another source, which is not ``here``
        now: the lake would have, or has, its rows twice.
        """
        states = self._states()
        for name in states.keys() - here:
            state = states[name]
            if state.offset > len(MAGIC) and any(is_same(log, state) for log in series.files):
                remedy = f"give its folder, file or URL as for {name}"
                if series.name in states:
                    remedy = "the lake has its rows twice, so create a new lake"
                raise PipelineError(
                    f"source {series.name} is the log that this lake has as source {name}:"
                    f" {remedy}; if they are two servers' logs, give both"
                )

    def cursor(
        self,
        series: LogSeries,
        state: SourceState | None,
        *,
        hold: bool,
        begin: Position | None,
        learned: Iterable[Learned] = (),
    ) -> SourceCursor:
        """A `SourceCursor`, with what is known of the source."""
        return SourceCursor(
            series,
            state,
            self.given,
            hold=hold,
            begin=begin,
            learned=learned,
            cascades=self.cascades,
            lowers_names=self._cases.get(series.name, self._lowers_names),
        )

    def lower_names(self, *, by_name: bool) -> bool:
        """Whether any source puts names into lower case: by the argument, the lake, its server.

        Raises `PipelineError` where the argument is not what the lake began with, and `UsageError`
        where tables are chosen ``by_name`` and sources have them in different ways.
        """
        given = self._lowers_names
        for name, state in self._states().items():
            known = from_json(state.tables).lowers_names
            if known is None:
                continue
            if given is not None and known != given:
                raise PipelineError(
                    f"source {name} has lower_case_table_names={'1 or 2' if known else 0} in this"
                    f" lake, and {'1 or 2' if given else 0} is given: leave that out, or create a"
                    " new lake"
                )
            self._cases[name] = known
        for name in self.received:
            if given is None and name not in self._cases:
                facts = self.asked.facts(name)
                if facts is not None and facts.lowers_names is not None:
                    self._cases[name] = facts.lowers_names
        cases = {given, *self._cases.values()}
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
