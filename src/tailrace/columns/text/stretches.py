"""A log read by both paths in turn: plain transactions by kernels, the rest as events.

Most of a log is committed transactions of rows, one after the other. `StretchReader` gives those as
stretches, which kernels turn into the wanted output. Everything else comes as the steps that
`Reader` gives: other statements, XA transactions, payloads, files' first events, and transactions
without an end; for SQL, also partial JSON updates. The kernels plan with the same table of
transactions as the object path (`tailrace.transaction`) and stop at the first event that needs
more than that table. What they cannot decode is not an error here: the caller that finds it rejects
the stretch, and its events come as steps. So only the object path raises errors and reports what is
wrong in a log.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames import plan as k
from tailrace.columns.frames import text as f
from tailrace.columns.native import kernel
from tailrace.columns.read.blocks import Blocks
from tailrace.columns.read.table import TableDecoder
from tailrace.columns.read.walk import Walker
from tailrace.columns.types import plan_of, stored_plan_of
from tailrace.constants import HEADER_SIZE, EventFlag, EventType
from tailrace.errors import EventDecodeError, TailraceError
from tailrace.events import DecodeContext, FormatDescriptionEvent, TransactionPayloadEvent
from tailrace.events.walk import ends_as_said, event_length
from tailrace.gtid import GtidState
from tailrace.log.reader import Reader
from tailrace.position import Position
from tailrace.times import Time
from tailrace.transaction import Boundary, State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator

    import pyarrow as pa

    from tailrace.columns.types import Plan
    from tailrace.events import Event
    from tailrace.log.reader import Step
    from tailrace.storage import LogFile
    from tailrace.values.schema import Column, TableSchema

Array = np.ndarray[Any, Any]

_LEAST: Final = 1 << 16
"""The fewest bytes of a stretch: switching to it and back costs as much as some events."""
_LARGEST_EVENT: Final = 4 << 20
"""Rows of larger events take the object path, which holds one of their values at a time."""
_LONGEST_WAIT: Final = 256
"""At most so many transactions come as events before a stretch is tried again."""
_EVERYTHING: Final = ((0, 1 << 62),)


class _Handover(Exception):
    """The next event can be read by the object path only."""


class _Planner(Walker):
    """Plans the rows of whole transactions, and stops at events that the kernel cannot handle
    alone.

    ``say`` is called with each table whose rows are given. With `stored_plan_of`, for SQL, it also
    stops at partial JSON updates, whose diffs become SQL, not documents.
    """

    def __init__(self, *args: Any, say: Callable[[TableSchema], None], **settings: Any) -> None:
        self._shows_diffs = settings.get("plan") is stored_plan_of
        super().__init__(*args, **settings)
        self._say = say

    def begin(self, *, muted: bool = False) -> None:
        """The next events begin outside of transactions. If ``muted``, no rows are planned."""
        frame = self._frame
        self.leave_out(_EVERYTHING if muted else ())
        frame[k.STATE] = State.OUTSIDE
        frame[k.HAS_GTIDS] = 1  # then each transaction has an entry of its own
        frame[k.FIXED_POSITION] = frame[k.COMPRESSED_SIZE] = -1
        frame[k.TRANSACTION_COUNT] = 0
        self._no_transaction()
        self._drop_plan()
        frame[k.SAFE] = 0

    def take_format(self, context: DecodeContext) -> None:
        """Take over the layout of the file's events."""
        self.context = DecodeContext(context.format, context.checksum_algorithm)
        self._take_types()
        self._frame[k.CHECKSUM_BYTES] = context.checksum_algorithm.size
        self._frame[k.GENERATION] += 1
        self.forget_tables()

    def forget_tables(self) -> None:
        """Forget the resolved tables, as their definitions have changed."""
        self._frame[k.GENERATION] += 1
        self._forget_tables()

    def plan(self, data: Array, size: int, offset: int, limit: int | None) -> bool:
        """Plan the events of a block at the file's ``offset``, up to the offset ``limit``.

        False where an event stopped it, rather than the end of the block or of the room for the
        plan.
        """
        frame = self._frame
        start = int(data.ctypes.data)
        frame[k.CURSOR] = frame[k.FIRST_CURSOR] = start
        frame[k.END] = start + size
        frame[k.BASE] = offset - start
        frame[[k.CHECKED, k.SOUND_QUERY]] = 0
        frame[k.LIMIT] = start + (size if limit is None else max(min(size, limit - offset), 0))
        try:
            for _ in self._walk():
                pass
        except _Full:
            return True
        except (_Handover, TailraceError):
            return False
        return True

    @property
    def inside(self) -> bool:
        """Whether the plan ends inside a transaction."""
        return bool(self._frame[k.STATE] & 0xFF != State.OUTSIDE)

    @property
    def whole(self) -> int:
        """The offset after the last transaction that ended since `begin`; 0 before the first."""
        return int(self._frame[k.SAFE])

    @property
    def reached(self) -> int:
        """The offset of the first event that is not in the plan."""
        return int(self._frame[k.CURSOR] + self._frame[k.BASE])

    @property
    def entries(self) -> Array:
        """The planned rows events, ENTRY_WORDS words each, in the log's order."""
        return self._entries[: int(self._frame[k.ENTRY_COUNT])]

    @property
    def transactions(self) -> Array:
        """The transactions of the plan, TRANSACTION_WORDS words each; the first began before it."""
        return self._transactions[: int(self._frame[k.TRANSACTION_COUNT])]

    def cut(self, offset: int) -> None:
        """Remove from the plan what begins at or after an offset."""
        entries = self.entries
        gone = entries[:, k.E_POSITION] >= offset
        entries[gone, k.E_ROWS] = entries[gone, k.E_END]
        entries[gone, k.E_OP] &= ~k.BARE

    def drop(self) -> None:
        """Drop the plan, which was used."""
        self._drop_plan()

    def batches(self) -> Iterator[tuple[TableSchema, pa.RecordBatch]]:
        """The rows of the plan, table by table. Raises the errors of decoding them."""
        try:
            for slot in self._planned():
                table = self._tables[slot]
                for written in self._decode_slot(slot):
                    if not isinstance(table, TableDecoder):  # its rows are an error
                        raise EventDecodeError("rows of a table that is not resolved")
                    self._say(table.table)
                    batch = written.finish()
                    del written  # it holds memory that is not the batch's
                    yield table.table, batch
        finally:
            self.drop()

    def _take_types(self) -> None:
        super()._take_types()
        if self._shows_diffs:
            self._types[EventType.PARTIAL_UPDATE_ROWS] |= k.DOUBTED  # so that `_check` is called

    def _check(self) -> None:
        if self._shows_diffs and self._raw()[4] == EventType.PARTIAL_UPDATE_ROWS:
            raise _Handover
        super()._check()

    def _event(self) -> Iterator[pa.RecordBatch]:
        raise _Handover

    def _deliver(self) -> Iterator[pa.RecordBatch]:
        raise _Full

    def _keep_certain(self) -> None:
        """Nothing to do: the plan has no rows that may be rolled back."""

    def _drop_rolled_back(self) -> None:
        """Nothing to do, as in `_keep_certain`."""

    def _discard(self) -> None:
        """Nothing to do, as in `_keep_certain`."""


class _Full(Exception):
    """The plan has no more room."""


@dataclass(slots=True)
class DecodedRows:
    """Rows that were decoded together: those of a stretch, or a part of a long transaction's.

    ``data`` are the log's bytes from the offset ``start`` up to ``end``. They are valid until the
    next piece is requested.
    """

    start: int
    end: int
    data: Array
    _planner: _Planner

    def batches(self) -> Iterator[tuple[TableSchema, pa.RecordBatch]]:
        """The rows, table by table, those of a table in the log's order; can be iterated once.

        Raises the errors of decoding: then the stretch must be rejected.
        """
        return self._planner.batches()

    def events(self) -> Array:
        """All events: address, type, size and seconds of each (int64)."""
        most = len(self.data) // HEADER_SIZE + 1
        found = np.empty((most, f.EVENT_WORDS), np.int64)
        frame = np.zeros(f.EVENTS_WORDS, np.int64)
        frame[f.E_BEGIN] = start = int(self.data.ctypes.data)
        frame[f.E_END] = start + len(self.data)
        frame[f.E_OUT], frame[f.E_ROOM] = found.ctypes.data, most
        return found[: kernel("list_events")(frame.ctypes.data)]

    @property
    def transactions(self) -> Array:
        """The transactions, as the plan kernel notes them (``T_...`` of `columns.layout`); before
        them, one word about what began earlier.
        """
        found = self._planner.transactions
        behind = np.flatnonzero(found[1:, k.T_START] >= self.end)
        return found[: 1 + int(behind[0])] if len(behind) else found

    @property
    def entries(self) -> Array:
        """The rows events, as the plan kernel notes them (``E_...``)."""
        return self._planner.entries


@dataclass(slots=True)
class Stretch:
    """Whole transactions of a file, one after the other, all of them committed.

    Iterating gives its pieces, mostly one. A caller that cannot produce its output from them sets
    ``rejected``: then the whole stretch comes as steps, including what was already produced.
    """

    file: str
    start: int
    end: int
    _pieces: Iterator[DecodedRows]
    rejected: bool = False

    def __iter__(self) -> Iterator[DecodedRows]:
        return self._pieces


@dataclass(slots=True)
class _Tries:
    """When to try the next stretch: after ``transactions`` more have come as events."""

    wait: int = 1
    left: int = 0

    def due(self, *, between: bool) -> bool:
        """Whether it is time to try; always if ``between`` transactions, as at a file's start."""
        self.left -= not between
        return between or self.left < 0

    def failed(self, *, between: bool) -> None:
        """No stretch was found, or a short one."""
        if not between:
            self.left = self.wait
            self.wait = min(2 * self.wait, _LONGEST_WAIT)

    def found(self) -> None:
        """A stretch was found."""
        self.left, self.wait = 0, 1


@dataclass(slots=True)
class _Open:
    """The file that stretches are read from, and how far it can be read so."""

    log: LogFile
    blocks: Blocks
    tries: _Tries = field(default_factory=_Tries)


def _can_resume(blocks: Blocks, offset: int) -> bool:
    """Whether a reader of events accepts an offset as an event's start (by its ``log_pos``)."""
    head = b"".join(blocks.read_some(offset, offset + HEADER_SIZE))
    if len(head) < HEADER_SIZE:
        return True
    length = event_length(head)
    return length >= HEADER_SIZE and ends_as_said(head, offset, length)


def _is_between(step: Step) -> bool:
    """Whether a transaction may begin after a step; a payload's inner events follow its own."""
    event = step.event
    return (
        event.inner_index is None
        and step.boundary in {Boundary.END, Boundary.OUTSIDE}
        and not isinstance(event, TransactionPayloadEvent)
    )


class StretchReader(Reader):
    """A reader of files; its `parts` are steps and stretches.

    ``columns`` are the names of those to decode; None for all. ``plan`` says how each is decoded
    (`tailrace.columns.types`). Used for steps alone it is a `Reader`.
    """

    def __init__(
        self,
        *args: Any,
        columns: Collection[str] | None = None,
        plan: Callable[[Column], Plan] = plan_of,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self._columns = columns
        self._plan_of = plan
        self._planner: _Planner | None = None
        self._open: _Open | None = None
        self._changed = False
        self._jump: Position | None = None
        self._described: FormatDescriptionEvent | None = None

    def parts(self) -> Iterator[Step | Stretch]:
        """The steps of the log, with whole stretches in place of some of them."""
        if self.series is None or self.follow or self._picks_transactions:
            yield from self
            return
        try:
            for step in self:
                event = step.event
                yield step
                if _is_between(step):
                    place = event.end_offset or 0
                    if self._described is not None and self._described.file == event.file:
                        self._begin_file(self._described)
                        self._described = None
                    between = step.boundary is Boundary.OUTSIDE
                    del step, event
                    if self._open is not None and self._open.tries.due(between=between):
                        found = yield from self._stretches(self._open, place)
                        if self._open is not None and found:
                            self._open.tries.found()
                        elif self._open is not None:
                            self._open.tries.failed(between=between)
        finally:
            self._close()

    @property
    def _picks_transactions(self) -> bool:
        """Whether the first event of each transaction decides if the transaction is given, if it is
        the last, or what its name is.
        """
        until_gtids = isinstance(self.selection.end, GtidState)
        gaps = self._read is not None and bool(self._read.left)
        return until_gtids or gaps or bool(self.picks) or not self.gtids

    def _begin_file(self, first: FormatDescriptionEvent) -> None:
        """A file begins, or the layout of its events changes."""
        self._close()
        logs = [] if self.series is None else self.series.files
        log = next((each for each in logs if each.name == first.file), None)
        if log is None or first.header.flags & EventFlag.RELAY_LOG:
            return
        if self._planner is None:
            self._planner = _Planner(
                self.name,
                wants=self._wants,
                columns=self._columns,
                plan=self._plan_of,
                catalogue=self.catalogue,
                verify=self.log.verify_checksums,
                say=self._say,
            )
            self._planner.catalogue = self.catalogue
        context = DecodeContext(lowers_names=bool(self.catalogue.lowers_names))
        first.update(context)
        self._planner.begin_file(log.name, ())
        self._planner.take_format(context)
        with suppress(TailraceError):  # the reader of its events raises it as well
            self._open = _Open(log, Blocks(log))

    def _close(self) -> None:
        if self._open is not None:
            self._open.blocks.close()
            self._open = None

    def _take_definition(self, event: Event) -> None:
        super()._take_definition(event)
        self._changed = True

    def _events(self) -> Iterator[Event]:
        if self.series is None or self.follow:
            yield from super()._events()
            return
        events, begin = iter(self.log), Position("", 0)
        while True:
            for event in events:
                if event.file == begin.file and (event.offset or 0) < begin.offset:
                    continue  # it has the layout of the events after it
                if isinstance(event, FormatDescriptionEvent):
                    self._described = event  # it is not a step if the part begins after it
                yield event
                del event
                if self._jump is not None:
                    break
            if self._jump is None:
                return
            begin, self._jump = self._jump, None
            ignored = self.log.ignored
            self.log.seek(begin)
            events = iter(self.log)
            self.log.ignored = ignored

    def _stretches(self, now: _Open, offset: int) -> Generator[Stretch, None, bool]:
        """The stretches from an offset on; returns whether there were any. Events follow after
        them.
        """
        planner, place = self._planner, offset
        if planner is None:
            return False
        if self._changed:
            planner.forget_tables()
            self._changed = False
        limit = self._limit(now.log)
        try:
            while True:
                stretch = self._next(now, planner, place, limit)
                if stretch is None or (stretch.end - place < _LEAST and place == offset):
                    break
                if not _can_resume(now.blocks, stretch.end):
                    break
                yield stretch
                if stretch.rejected:
                    break
                place = stretch.end
        except TailraceError:  # in reading the file: the reader of its events raises it as well
            self._close()
        if place > offset:
            self._jump = Position(now.log.name, place)
        return place > offset

    def _limit(self, log: LogFile) -> int | None:
        """The offset at which the requested part ends, as far as it is known."""
        end = self.selection.end
        if not isinstance(end, Position):
            return None
        if end.file == log.name:
            return end.offset
        return None if Position(log.name, 0) < end else 0

    def _next(
        self, now: _Open, planner: _Planner, offset: int, limit: int | None
    ) -> Stretch | None:
        blocks = now.blocks
        at = offset - blocks.offset
        if not 0 <= at <= blocks.size:
            blocks.skip(offset)
            at = 0
        if blocks.size - at < _LEAST and blocks.event_size(at) <= _LARGEST_EVENT:
            blocks.next(at)
            at = 0
        planner.begin()
        sound = planner.plan(blocks.data[at:], blocks.size - at, offset, limit)
        if sound and not planner.whole and at:
            blocks.next(at)
            at = 0
            planner.begin()
            sound = planner.plan(blocks.data, blocks.size, offset, limit)
        if sound and planner.inside and not planner.whole and limit is None:
            return self._long(now, planner, offset)
        end = self._bound(planner, offset)
        if end <= offset:
            return None
        planner.cut(end)
        piece = DecodedRows(offset, end, blocks.data[at : at + end - offset], planner)
        return Stretch(now.log.name, offset, end, iter([piece]))

    def _bound(self, planner: _Planner, offset: int) -> int:
        """Where the planned stretch ends: at a transaction's end."""
        end = max(planner.whole, offset)
        entries, begun = planner.entries, planner.transactions
        large = entries[:, k.E_END] - entries[:, k.E_ROWS] > _LARGEST_EVENT
        if large.any():
            first = begun[entries[int(np.argmax(large)), k.E_TRANSACTION]]
            end = min(end, max(int(first[k.T_START]), offset))
        if isinstance(self.selection.end, Time):
            last = self.selection.end.microseconds
            stamps = np.where(
                begun[:, k.T_STAMP] < 0, begun[:, k.T_SECONDS] * 1_000_000, begun[:, k.T_STAMP]
            )
            late = begun[(stamps >= last) & (begun[:, k.T_START] >= offset), k.T_START]
            if len(late):
                end = min(end, int(late[0]))
        return end

    def _long(self, now: _Open, planner: _Planner, offset: int) -> Stretch | None:
        """A stretch that begins with a transaction larger than a block, if that was committed."""
        planner.begin(muted=True)
        end = 0
        with Blocks(now.log) as ahead:
            ahead.skip(offset)
            consumed = 0
            while not end and ahead.event_size(consumed) <= _LARGEST_EVENT and ahead.next(consumed):
                sound = planner.plan(ahead.data, ahead.size, ahead.offset, None)
                end = planner.whole
                if not sound:
                    break
                consumed = planner.reached - ahead.offset
        if not end or (self.selection.end is not None):
            return None
        return Stretch(now.log.name, offset, end, self._pieces(now, planner, offset, end))

    def _pieces(
        self, now: _Open, planner: _Planner, offset: int, end: int
    ) -> Iterator[DecodedRows]:
        """The blocks of a stretch. Raises LogError where the kernels fail."""
        blocks = now.blocks
        planner.begin()
        while offset < end:
            at = offset - blocks.offset
            planner.plan(blocks.data[at:], blocks.size - at, offset, end)
            reached, entries = planner.reached, planner.entries
            if (entries[:, k.E_END] - entries[:, k.E_ROWS] > _LARGEST_EVENT).any():
                raise EventDecodeError("an event that kernels cannot read")
            if reached > offset:
                yield DecodedRows(offset, reached, blocks.data[at : at + reached - offset], planner)
                planner.drop()
            if reached < end and not blocks.next(reached - blocks.offset):
                raise EventDecodeError("the log has become shorter")
            offset = reached
