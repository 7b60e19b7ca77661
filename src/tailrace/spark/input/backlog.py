"""The backlog of a stream: its log's files, their indices, and what of them is to be read next."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace.cache import own_cache
from tailrace.errors import LogReset
from tailrace.position import Position, bytes_after
from tailrace.schema.catalogue import Catalogue
from tailrace.spark.input.header_index import BEGIN, INNER_BYTES, IndexPlanner
from tailrace.spark.input.lag import Lag, second_of
from tailrace.spark.input.offset import QUERY, Offset, mark_of
from tailrace.spark.input.saved_index import SavedIndices
from tailrace.storage.identity import file_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tailrace.columns import Split
    from tailrace.schema.tables import TableState
    from tailrace.spark.input.header_index import FileIndex
    from tailrace.storage import LogSeries
    from tailrace.values.schema import TableDefinition


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch takes at most; None: no limit. One transaction it takes at least."""

    bytes: int | None = None
    transactions: int | None = None


class Backlog:
    """Knows one log from some file on, and continues where it was as the log grows.

    ``given`` are definitions of tables of the user's. ``folder`` keeps indices from run to run; by
    default one of the cache does, named by where the log is. ``inner`` is as in `IndexPlanner`,
    ``lowers_names`` as in `Catalogue`.
    Methods raise what going through the log raises (LogError, StorageError).
    """

    def __init__(
        self,
        given: Sequence[TableDefinition | TableState] = (),
        folder: str | Path | None = None,
        inner: int = INNER_BYTES,
        *,
        lowers_names: bool | None = None,
    ) -> None:
        self._given = given
        self._lowers_names = lowers_names
        self._inner = inner
        self._folder = folder
        self._planner: IndexPlanner | None = None
        self._files: dict[str, FileIndex] = {}
        self._kept: set[str] = set()
        self._first = ""

    @property
    def end(self) -> Position | None:
        """How far the log is known to be whole and decided."""
        ends = [Position(name, index.end) for name, index in self._files.items()]
        return max((end for end in ends if end.offset > BEGIN), default=None)

    def look(self, series: LogSeries, start: Position, enough: Limits) -> None:
        """Go through what is new in the log from ``start`` on, until more than ``enough`` is known
        behind it. Raises `LogPurged`, `LogReset` where the log is not there any more.
        """
        self._enter(series, start)
        while (end := self.end) is None or not self.cut(start, enough) < end:
            if not self._look_further(series):
                return

    def reach(self, series: LogSeries, start: Position, end: Position) -> None:
        """Go through the log from ``start`` on as far as ``end``, if that is not done yet.

        Raises `LogReset` where it does not come so far.
        """
        self._enter(series, start)
        while end.file not in self._files or self._files[end.file].end < end.offset:
            if not self._look_further(series):
                raise LogReset(
                    f"{series.name}: the log has no transaction that ends at {end}, up to where it"
                    " was read: it was reset, or cut by a crash"
                )

    def cut(self, start: Position, limits: Limits) -> Position:
        """Where a batch ends that begins at ``start``: a transaction's end, ``start`` if nothing
        is there.
        """
        end, most, count = start, limits.bytes, limits.transactions
        for index, begin, stop in self._parts(start):
            if stop <= begin:
                continue
            first = index.cut(begin, stop, None, 1)
            if end != start and ((most is not None and first - begin > most) or count == 0):
                break
            behind = index.cut(begin, stop, most, count)
            end = Position(index.log.name, behind)
            if behind < stop:
                break
            if most is not None:
                most = max(most - (behind - begin), 0)
            if count is not None:
                count = max(count - index.transactions(begin), 0)
        return end

    def splits(self, series: LogSeries, start: Position, end: Position, target: int) -> list[Split]:
        """The splits of a range that `reach` knows, of about ``target`` bytes each."""
        found: list[Split] = []
        for index, begin, stop in self._parts(start, end):
            for split in index.splits(series.name, begin, stop, target):
                known = split.catalogue.copy()
                known.given(self._given)
                found.append(replace(split, catalogue=known))
        return found

    def offset(
        self,
        series: LogSeries,
        position: Position,
        since: Position | None = None,
        after: Position | None = None,
    ) -> Offset:
        """The offset that stands for a position; with ``after``, of a batch that begins there."""
        index = self._files.get(position.file)
        log = file_read(series, position, QUERY)
        gtids = None if index is None else index.gtids_at(position.offset)
        found = Offset(position, gtids, mark_of(log, position.offset), since)
        if after is None:
            return found
        known = ((index.log.name, index.end) for index, _, _ in self._parts(after))
        read = bytes_after(known, after, position)
        return replace(found, read=read, behind=self._behind(series, position))

    def _behind(self, series: LogSeries, end: Position) -> Lag | None:
        """What the log has after a position that was gone through, as far as that is known."""
        for index, begin, _ in self._parts(end):
            begins = index.begins[index.begins >= begin]
            if len(begins):
                first = Position(index.log.name, int(begins[0]))
                log = file_read(series, first, QUERY)
                return Lag(bytes_after(series.sizes, first), second_of(log, first.offset))
        return None

    def whole(self, series: LogSeries) -> Position:
        """Where the last transaction ends that is complete and not in-doubt; the log's begin if
        there is none.
        """
        first = Position(series.files[0].name, BEGIN)
        self.look(series, first, Limits())
        return self.end or first

    def forget(self, end: Position) -> None:
        """Let go of what stands in files before an offset's."""
        done = set(self._files).difference(() if self._planner is None else self._planner.under_way)
        for name in [name for name in done if Position(name, BEGIN) < Position(end.file, 0)]:
            del self._files[name]

    def _parts(
        self, start: Position, end: Position | None = None
    ) -> Iterator[tuple[FileIndex, int, int]]:
        """The files from a position on, up to an ``end``, and the offsets between which they are
        of that range.
        """
        for place in sorted(Position(name, BEGIN) for name in self._files):
            index = self._files[place.file]
            if place > Position(start.file, 0) and (end is None or place <= end):
                begin = start.offset if place.file == start.file else BEGIN
                stop = end.offset if end is not None and place.file == end.file else index.end
                yield index, begin, stop

    def _enter(self, series: LogSeries, start: Position) -> None:
        """Know the file of a position, at least what is before the new: from what was saved of it,
        else of the files before it. Raises as `file_read`.
        """
        log = file_read(series, start, QUERY)
        if self._planner is not None and start.file in self._files:
            return
        folder = _cached(series) if self._folder is None else self._folder
        kept = self._saved = SavedIndices(folder)
        files = series.files[:-1]
        number = series.files.index(log)
        saved = kept.load(log) if log in files else None
        while saved is None and number:
            number -= 1
            saved = kept.load(files[number])
        self._files = {}
        known = Catalogue(lowers_names=self._lowers_names)
        while saved is not None:
            self._files[saved.log.name] = saved
            self._kept.add(saved.log.name)
            known = saved.tables[-1][1].copy()
            number += 1
            saved = kept.load(files[number]) if number < len(files) else None
        self._planner = IndexPlanner(known, self._files, inner=self._inner)
        self._first = series.files[number].name

    def _look_further(self, series: LogSeries) -> bool:
        """Go through one more file, or what is new in the last; whether anything was."""
        planner = self._planner
        if planner is None:
            return False
        before = planner.end
        part = series
        if planner.under_way:
            file_read(series, Position(planner.under_way[-1], BEGIN), QUERY)
        else:
            names = [log.name for log in series.files]
            part = replace(series, files=series.files[names.index(self._first) :])
        self._planner = None  # what raises leaves it half-way: the next look begins again
        planner.look(part, enough=1)
        self._planner = planner
        for name in self._files.keys() - self._kept - {*planner.under_way}:
            if self._files[name].end == self._files[name].log.size:
                self._saved.save(self._files[name])
            self._kept.add(name)
        return planner.end != before


def _cached(series: LogSeries) -> Path:
    """The folder of the cache for a log's indices."""
    log = series.files[0]
    return own_cache("index") / hashlib.sha256(f"{log.place}/{log.base}".encode()).hexdigest()[:16]
