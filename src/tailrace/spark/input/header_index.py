"""What an index pass over headers knows of a log: transactions, GTIDs, and tables on the way.

From it follow where a batch ends and how its range is cut for tasks. A piece of log is gone through
once, by the kernel that plans splits, which tells here where every transaction begins.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames import scan as f
from tailrace.columns.frames.plan import PADDING
from tailrace.columns.read.planner import SplitPlanner
from tailrace.columns.read.scan import Scan, inside_of
from tailrace.columns.read.split import Split, overlapping
from tailrace.constants import MAGIC, EventType
from tailrace.events.gtids import GtidEvent
from tailrace.gtid import Gtid, GtidList, GtidSet, GtidState, MariadbGtid, format_uuid
from tailrace.storage.search import gtids_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.events.query import QueryEvent
    from tailrace.schema.catalogue import Catalogue
    from tailrace.storage import LogFile, LogSeries

Array = np.ndarray[Any, Any]

BEGIN: Final = len(MAGIC)
_WHOLE: Final = 1 << 62
INNER_BYTES: Final = 1 << 20
"""Bytes between places where a transaction may be cut inside, at least."""
_GTID: Final = 24
"""Bytes kept of a GTID: UUID and number; of MariaDB's number, domain and server."""
_BODY: Final = 19
_MARIADB: Final = Struct("<QII")


@dataclass
class FileIndex:
    """What is known of one file of a log, up to the offset ``end``.

    ``begins`` holds the offsets where transactions begin, int64; ``kinds`` and ``gtids`` the type
    of each one's first event and the bytes of its GTID; ``inner`` offsets where large ones may be
    cut inside, int64. ``tables`` has the schema history by offset: at the file's begin, and
    after each statement that changes it. ``left_out`` has the ranges of offsets whose rows were
    rolled back.
    """

    log: LogFile
    begins: Array = field(default_factory=lambda: np.empty(0, np.int64))
    kinds: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    gtids: Array = field(default_factory=lambda: np.empty((0, _GTID), np.uint8))
    tagged: dict[int, Gtid] = field(default_factory=dict)
    tables: list[tuple[int, Catalogue]] = field(default_factory=list)
    left_out: list[tuple[int, int]] = field(default_factory=list)
    end: int = BEGIN
    inner: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, begins: Array, kinds: Array, gtids: Array, inner: Array) -> None:
        """Take in transactions after those that are known, and places to cut them."""
        self._waiting.append((begins, kinds, gtids, inner))

    def __post_init__(self) -> None:
        self._waiting: list[tuple[Array, Array, Array, Array]] = []
        self._known: tuple[int, GtidState | None] | None = None

    def settle(self) -> None:
        """Combine what was taken in."""
        if self._waiting:
            known = (self.begins, self.kinds, self.gtids, self.inner)
            self.begins, self.kinds, self.gtids, self.inner = map(
                np.concatenate, zip(known, *self._waiting, strict=True)
            )
            self._waiting.clear()

    def transactions(self, start: int) -> int:
        """How many begin from ``start`` on, up to `end`."""
        first, last = np.searchsorted(self.begins, (start, self.end))
        return int(last - first)

    def cut(
        self, start: int, end: int, most_bytes: int | None, most_transactions: int | None
    ) -> int:
        """Where a part ends that begins at ``start``: at least one transaction, at most so much,
        and not after ``end``.
        """
        first, last = np.searchsorted(self.begins, (start, end))
        begins = self.begins[first:last]
        number = len(begins)
        if most_transactions is not None:
            number = min(number, most_transactions)
        if most_bytes is not None and end - start > most_bytes:
            number = min(number, int(np.searchsorted(begins, start + most_bytes, "right")) - 1)
        number = max(number, 1)
        return int(begins[number]) if number < len(begins) else end

    def splits(self, source: str, start: int, end: int, target: int) -> Iterator[Split]:
        """The range from ``start`` to ``end``, both ends of transactions, in splits."""
        offsets = [offset for offset, _ in self.tables]
        while start < end:
            behind = self.cut(start, end, target, None)
            inside = None
            for one, other in pairwise([start, *self._cut_inside(start, behind, target), behind]):
                if one != start and inside is None:
                    inside = inside_of(self.log, self._begin_before(one, start))
                known = self.tables[bisect_right(offsets, one) - 1][1]
                left_out = overlapping(self.left_out, one, other)
                yield Split(source, self.log, one, other, known, left_out=left_out, inside=inside)
            start = behind

    def _begin_before(self, offset: int, first: int) -> int:
        """Where the transaction begins that an offset is inside of; ``first`` if that is not known.

        It is not of XA transactions in logs without GTIDs.
        """
        number = int(np.searchsorted(self.begins, offset))
        return int(self.begins[number - 1]) if number else first

    def _cut_inside(self, start: int, end: int, target: int) -> Iterator[int]:
        """Where the one transaction of a part is cut that has more than ``target`` bytes."""
        first, last = np.searchsorted(self.inner, (start, end))
        bounds = self.inner[first:last]
        while len(bounds) and end - start > target:
            fitting = int(np.searchsorted(bounds, start + target, "right"))
            start = int(bounds[max(fitting - 1, 0)])
            yield start
            bounds = bounds[max(fitting, 1) :]

    def gtids_at(self, end: int) -> str | None:
        """All GTIDs of the log up to ``end``, as text; None where the log has none."""
        if self._known is None or self._known[0] > end:
            self._known = (BEGIN, gtids_before(self.log)[1])
        start, before = self._known
        if before is None:
            return None
        first, last = np.searchsorted(self.begins, (start, end))
        after = before.copy()
        if isinstance(after, GtidSet):
            after = after | self._mysql(first, last)
        else:
            self._mariadb(after, first, last)
        self._known = (end, after)
        return after.text()

    def _mysql(self, first: int, last: int) -> GtidSet:
        plain = self.kinds[first:last] == EventType.GTID
        rows = self.gtids[first:last][plain]
        numbers = np.ascontiguousarray(rows[:, 16:]).view("<i8").reshape(-1)
        names = np.ascontiguousarray(rows[:, :16]).view("V16").reshape(-1)
        runs: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for name in set(names.tolist()):
            mine = np.sort(numbers[names == np.void(name)])
            breaks = np.flatnonzero(np.diff(mine) > 1)
            starts, ends = mine[np.r_[0, breaks + 1]], mine[np.r_[breaks, len(mine) - 1]] + 1
            runs[format_uuid(name), ""] = list(zip(starts.tolist(), ends.tolist(), strict=True))
        found = GtidSet(runs)
        for begin in self.begins[first:last][~plain].tolist():
            if begin in self.tagged:
                found.add(self.tagged[begin])
        return found

    def _mariadb(self, state: GtidList, first: int, last: int) -> None:
        named = self.kinds[first:last] == EventType.MARIADB_GTID
        rows = self.gtids[first:last][named]
        places = np.ascontiguousarray(rows[:, 8:16]).view("V8").reshape(-1)
        _, latest = np.unique(places[::-1], return_index=True)  # of each domain and server
        for at in np.sort(len(places) - 1 - latest):
            raw = rows[at].tobytes()
            number, domain, server = (
                int.from_bytes(raw[start:end], "little")
                for start, end in ((0, 8), (8, 12), (12, 16))
            )
            state.add(MariadbGtid(domain, server, number))


class IndexPlanner(SplitPlanner):
    """Goes through a log that grows, and fills the index of each of its files: ``files``, by name.

    Transactions of more than ``inner`` bytes get places where they may be cut inside.
    """

    def __init__(
        self,
        catalogue: Catalogue | None = None,
        files: dict[str, FileIndex] | None = None,
        *,
        inner: int = INNER_BYTES,
    ) -> None:
        super().__init__(catalogue, target_bytes=_WHOLE)
        self.files = {} if files is None else files
        self._inner = inner

    def look(self, series: LogSeries, *, enough: int | None = None) -> None:
        """Take in what is new and whole and decided in the series; see `SplitPlanner.plan`."""
        for split in self.plan(series, enough=enough):
            index = self.files[split.file]
            index.end = split.end
            index.log = split.log
            index.left_out += [each for each in split.left_out if each not in index.left_out]
        for index in self.files.values():
            index.settle()

    @property
    def under_way(self) -> list[str]:
        """The names of the files that may still get more, the one that it is in as the last."""
        return [scan.log.name for scan in self._scans]

    def _scan(self, source: str, log: LogFile, target: int) -> Scan:
        index = self.files[log.name] = FileIndex(log)
        return _IndexScan(
            source,
            log,
            self._catalogue,
            self._rollbacks,
            target,
            BEGIN,
            holding=self._hold,
            index=index,
            inner=self._inner,
        )


class _IndexScan(Scan):
    """A file's way through the scan kernel that notes every transaction's begin."""

    def __init__(self, *arguments: Any, index: FileIndex, holding: bool, inner: int) -> None:
        super().__init__(*arguments, holding=holding)
        self._index = index
        self._frame[f.BOUND_TARGET] = 0
        self._frame[f.INNER_TARGET] = inner
        index.tables.append((BEGIN, self._catalogue.copy()))

    def _define(self, event: QueryEvent) -> None:
        super()._define(event)
        self._index.tables.append((event.end_offset or 0, self._catalogue.copy()))

    def _take_bounds(self, begins: Array, inner: Array) -> None:
        kinds, gtids = self._gtids(begins)
        self._index.add(begins.copy(), kinds, gtids, inner[:, 0].copy())

    def _gtids(self, begins: Array) -> tuple[Array, Array]:
        """The types of the events at some offsets, and the bytes of their GTIDs."""
        frame = self._frame
        if not len(begins):
            return np.empty(0, np.uint8), np.empty((0, _GTID), np.uint8)
        address = int(begins[0] - frame[f.BASE])
        size = int(frame[f.END]) - address
        block = np.ctypeslib.as_array((ctypes.c_uint8 * (size + PADDING)).from_address(address))
        at = begins - begins[0]
        kinds = block[at + 4]
        gtids = np.zeros((len(begins), _GTID), np.uint8)
        mysql, mariadb = kinds == EventType.GTID, kinds == EventType.MARIADB_GTID
        if mysql.any():
            gtids[mysql] = block[at[mysql][:, None] + _BODY + 1 + np.arange(_GTID)]
        if mariadb.any():
            gtids[mariadb, :12] = block[at[mariadb][:, None] + _BODY + np.arange(12)]
            gtids[mariadb, 12:16] = block[at[mariadb][:, None] + 5 + np.arange(4)]
        for begin in begins[kinds == EventType.GTID_TAGGED].tolist():
            place = begin - int(frame[f.BASE])
            raw = ctypes.string_at(place, int.from_bytes(ctypes.string_at(place + 9, 4), "little"))
            event = self._context.decode(
                raw, file=self.log.name, offset=begin, verify_checksum=False
            )
            if isinstance(event, GtidEvent) and isinstance(event.gtid, Gtid):
                self._index.tagged[begin] = event.gtid
        return kinds, gtids
