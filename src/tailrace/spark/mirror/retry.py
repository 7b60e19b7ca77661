"""Tables that were set aside are taken up again, by reading their source's log from there on.

The log is read from the position at which the table was set aside to the position that the lake
has of the source. Only the table's rows are read, and applied to what the lake has of the table, in
a separate commit. Tables that RENAME TABLE linked may have been set aside at different positions:
then there is a commit for each position. Where that fails, and the log exists from where the lake
began, the table is recreated from nothing.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.errors import LogPurged, UsageError
from tailrace.position import Position
from tailrace.spark.input.cursor import Taken
from tailrace.spark.input.server_log import ServerLog
from tailrace.spark.input.start_position import SUFFIX, load
from tailrace.spark.lake.asides import in_order, set_aside, stands_at
from tailrace.spark.lake.folder import AGAIN
from tailrace.spark.manifest.on_disk import within
from tailrace.spark.mirror.batch import Again
from tailrace.spark.mirror.statements import earlier_names, turns
from tailrace.spark.state.cascade.build import parents
from tailrace.spark.state.cascade.keys import links_of
from tailrace.spark.state.source_changes import table_changes
from tailrace.storage import LogSeries
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tailrace.columns import Split
    from tailrace.schema.catalogue import Catalogue
    from tailrace.spark.input.cursor import SourceCursor
    from tailrace.spark.manifest.manifest import Manifest, SourceState, TableState
    from tailrace.spark.mirror.batches import Batches
    from tailrace.spark.mirror.report import MirrorReport
    from tailrace.spark.mirror.unnamed import Answer
    from tailrace.table_filter import TableFilter


def take_up(batches: Batches, wanted: TableFilter) -> None:
    """Take up the tables that are ``wanted``, as far as that is done.

    A table that fails again stays set aside, and the lake says why. Raises UsageError where no
    table that is set aside is named, `LogPurged` where the log is no longer there.
    """
    manifest = batches.store.manifest
    names = {key: manifest.tables[key].full_name for key in set_aside(manifest)}
    chosen = {key for key, name in names.items() if wanted(*name)}
    missing = wanted.unmatched(names.values()).missing("among the tables that are set aside")
    if missing is not None and not chosen:
        raise UsageError(missing)
    for (source, places), keys in _groups(manifest, chosen).items():
        _Retry(batches, source, keys, places).run()


def take_up_named(batches: Batches) -> list[MirrorReport]:
    """Take up tables whose server was asked for the columns that the log does not name.

    Those that have to wait for more of the log stay as they are. Gives a report of each commit.
    """
    reports: list[MirrorReport] = []
    names, store = batches.names, batches.store
    while ready := names.answered(store.manifest):
        for source, answers in ready.items():
            tables = store.manifest.tables
            by_name = {tables[key].full_name: each for key, each in answers.items()}
            offers: dict[TableName, Answer] = {}
            for (_, places), keys in _groups(store.manifest, answers.keys()).items():
                try:
                    _Retry(batches, source, keys, places, by_name, offers, reports).run()
                except LogPurged as error:
                    for key in keys:
                        names.give_up(key, error)
            names.used(source, by_name, offers)
            batches.sources.replan(source)
    return reports


def _groups(
    manifest: Manifest, chosen: Collection[str]
) -> dict[tuple[str, tuple[str, ...]], set[str]]:
    """The chosen tables, each with those that are linked to it by RENAME TABLE: by source and the
    places since which they stand still, in order (empty for the log's begin).
    """
    asides = set_aside(manifest)
    linked: dict[str, set[str]] = {}
    for key, status in asides.items():
        mine = {key, *(each for each in status.origins if each in asides)}
        mine = mine.union(*(linked.get(each, ()) for each in mine))
        linked |= dict.fromkeys(mine, mine)
    found: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for keys in {id(each): each for each in map(linked.__getitem__, chosen)}.values():
        places = {at for key in keys for at in asides[key].parts.values()}
        at = tuple(sorted(places, key=in_order))
        found.setdefault((manifest.tables[min(keys)].source, at), set()).update(keys)
    return found


@dataclass
class _Retry:
    """Takes up tables of a source together, which stand still since the same ``places``.

    ``answers`` are what its server said about them; ``offers`` receives what the log tells of those
    that are still without names, ``reports`` that of each commit.
    """

    batches: Batches
    source: str
    keys: set[str]
    places: tuple[str, ...]
    answers: Mapping[TableName, Answer] = field(default_factory=dict)
    offers: dict[TableName, Answer] = field(default_factory=dict)
    reports: list[MirrorReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._sources, self._store = self.batches.sources, self.batches.store
        self._end = self._store.manifest.sources[self.source]

    def run(self) -> None:
        """Take them up: from what the lake has, or where that fails from nothing."""
        start = self.places[0]
        rest = self.keys - self._store.take_rest(self.keys).keys()
        if rest:
            with self._log(start) as series:
                self._forward(series, rest)
        asides = set_aside(self._store.manifest)
        left = frozenset(key for key in self.keys & asides.keys() if not asides[key].unnamed)
        if left and start and not self.answers:
            with self._log("", needed=False) as series:
                if series.files:
                    self._again(series, left, "", anew=True)

    def _state(self, key: str) -> TableState:
        return self._store.manifest.tables[key]

    def _forward(self, series: LogSeries, keys: Collection[str]) -> None:
        """Take the tables to the end, from place to place.

        What a table has is of its own place: it must not be given what was before. So tables that
        stand since an earlier one are first brought to the next.
        """
        for place, reached in zip(self.places, (*self.places[1:], ""), strict=True):
            here = frozenset(key for key in keys if stands_at(self._state(key), place))
            if here:
                self._again(series, here, place, reached=reached)

    def _again(
        self,
        series: LogSeries,
        keys: frozenset[str],
        place: str,
        *,
        reached: str = "",
        anew: bool = False,
    ) -> None:
        """Take tables from a place to the one to be ``reached``; by default to the end."""
        end = Position.parse(reached) if reached else self._end.position
        cursor = self._cursor(series, place)
        every = splits = cursor.upto(end)
        if reached and self.answers:
            every = self._cursor(series, place).upto(self._end.position)
        names = earlier_names(splits, {str(each.full_name) for each in map(self._state, keys)})
        again = Again(
            keys=keys,
            names=frozenset(map(TableName.parse, names)),
            anew=keys if anew else frozenset(),
            strangers=self._strangers(splits, names, keys) if place else frozenset(),
            reached=reached,
            answers=self.answers,
            offers=self.offers,
            every=every,
            known=None if reached else self._known(cursor, splits),
            also=self._parents(splits, names),
        )
        source, applies = self.source, self.batches.applies
        begun = self._point(place) if place else cursor.begun
        *before, last = turns(splits) if applies else [splits]
        for some in before:
            at = str(Position(some[-1].file, some[-1].end))
            part = Taken(series, some, begun, cursor.planner.seen)
            now = replace(again, reached=at, known=None)
            self.reports.append(self.batches.commit({source: part}, now))
            keys = frozenset(key for key in keys if stands_at(self._state(key), at))
            if not keys:
                return
            again = replace(again, keys=keys, anew=frozenset())
            begun = self._store.manifest.points.get(source, {}).get(at)
        part = Taken(series, last, begun, cursor.planner.seen)
        self.reports.append(self.batches.commit({source: part}, again))

    def _point(self, place: str) -> SourceState:
        """What is known where tables stand still."""
        return self._store.manifest.points[self.source][place]

    def _parents(self, splits: Sequence[Split], names: set[str]) -> frozenset[TableName]:
        """The tables whose changes it takes to carry out foreign keys, if that is done."""
        options = self._store.manifest.options
        if options.cascades != "apply":
            return frozenset()
        given = dict(options.keys)

        def wanted(name: str) -> bool:
            return options.tables(*TableName.parse(name))

        found: set[str] = set()
        for split in splits:
            found |= parents(links_of(split.keys, wanted, given).carried, names)
        return frozenset(map(TableName.parse, found))

    def _known(self, cursor: SourceCursor, splits: Sequence[Split]) -> Catalogue | None:
        """The schema history at the start of the file up to which the lake has the source."""
        if not self.answers and not self._sources.given:
            return None  # nothing but what the lake has
        here = [split for split in splits if split.file == self._end.file]
        if here and here[0].start == len(MAGIC):
            return here[0].catalogue
        return cursor.first_known if len({split.file for split in splits}) == 1 and here else None

    def _strangers(
        self, splits: Sequence[Split], names: set[str], keys: frozenset[str]
    ) -> frozenset[str]:
        """Tables of which the lake may have rows from before the splits, which are not read again.

        What it does not know had none: a table that had any stays in the manifest, also once it
        was renamed or dropped.
        """
        known = {str(each.full_name) for each in map(self._state, keys)}
        changes = table_changes(splits)
        made = {each.table for each in changes if each.kind == "create"}
        met: set[str] = set()
        for each in changes:
            met.add(each.table)
            if each.renamed is not None and each.renamed not in met:
                made.add(each.renamed)  # there was no such table before
        there = {
            str(each.full_name)
            for each in self._store.manifest.tables.values()
            if each.source == self.source
        }
        return frozenset(there & names - known - made)

    def _cursor(self, series: LogSeries, place: str) -> SourceCursor:
        """The log from a place on."""
        state = self._point(place) if place else None
        written = self._store.sources / f"{self.source}{SUFFIX}"
        begin = load(written)[0] if state is None and written.exists() else None
        learned = [each.learned for each in self.answers.values() if each.learned is not None]
        return self._sources.cursor(series, state, hold=False, begin=begin, learned=learned)

    @contextmanager
    def _log(self, place: str, *, needed: bool = True) -> Iterator[LogSeries]:
        """The source's log from a place on, received once more where it is a server's and no longer
        here; an empty one where it is not ``needed`` and gone.
        """
        first = next(iter(self._end.files), self._end.file)  # that the lake has of the source
        name = Position.parse(place).file if place else first
        series = self._sources.series(self.source)
        found = None if series is None else _from(series, name)
        logs = self._sources.received.get(self.source) if found is None else None
        copy: ServerLog | None = None
        try:
            if logs is not None:
                folder = logs.folder.with_name(f"{logs.folder.name}{AGAIN}")
                copy = ServerLog(logs.source, within(self._store.sources, folder))
                shutil.rmtree(copy.folder, ignore_errors=True)
                with suppress(LogPurged):  # the server no longer has it
                    received = copy.receive(Position(name, len(MAGIC)), self.batches.tell)
                    found = _from(LogSeries(self.source, received.files), name)
            if found is None and needed:
                raise LogPurged(
                    f"{', '.join(sorted(self.keys))}: the log of source {self.source} is no longer"
                    f" there from {name} on, since when it was set aside: bring the files back (and"
                    " give this source), or create a new lake"
                )
            yield found or LogSeries(self.source, ())
        finally:
            if copy is not None:
                shutil.rmtree(copy.folder, ignore_errors=True)


def _from(series: LogSeries, name: str) -> LogSeries | None:
    """The series from a file on; None where it has no such file."""
    names = [log.name for log in series.files]
    if name not in names:
        return None
    return LogSeries(series.name, series.files[names.index(name) :])
