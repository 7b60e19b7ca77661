"""A dump's items cut at the ends of transactions, so that any server can continue after them.

A transaction is held until its end has come, since another server may have to send it after a
break. One that is larger than `HELD` is not held: its events are given as they come. After a break,
the same server continues it, and the events that were given are left out. Another server begins it
again, after a `FileBegin`, which makes the unfinished transaction void, as after a crash in a file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType, Flavour
from tailrace.errors import LogReset, ProtocolError
from tailrace.events import (
    DecodeContext,
    GtidEvent,
    MariadbGtidEvent,
)
from tailrace.gtid import advanced
from tailrace.live.chunks import PADDING, Chunk, FileBegin
from tailrace.live.resume import stamp
from tailrace.position import Position
from tailrace.transactions import Boundary, BoundaryParser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.events import Event
    from tailrace.gtid import AnyGtid, GtidState

HELD: Final = 16 << 20
"""Bytes of an unfinished transaction that are held; a larger one is given as it comes."""
_T = EventType
_INSIDE: Final = frozenset(
    {
        *(_T.TABLE_MAP, _T.ROWS_QUERY, _T.ANNOTATE_ROWS, _T.PARTIAL_UPDATE_ROWS),
        *(_T.WRITE_ROWS, _T.UPDATE_ROWS, _T.DELETE_ROWS),
        *(_T.WRITE_ROWS_V1, _T.UPDATE_ROWS_V1, _T.DELETE_ROWS_V1),
        *(_T.WRITE_ROWS_COMPRESSED_V1, _T.UPDATE_ROWS_COMPRESSED_V1, _T.DELETE_ROWS_COMPRESSED_V1),
        *(_T.WRITE_ROWS_COMPRESSED, _T.UPDATE_ROWS_COMPRESSED, _T.DELETE_ROWS_COMPRESSED),
    }
)
"""Events that neither begin nor end a transaction with a commit: they need not be decoded."""


@dataclass(slots=True)
class _Early:
    """A transaction that was given in part before its end: up to the offset ``end``."""

    gtid: AnyGtid | None
    start: Position
    end: int
    description: bytes
    resumed: bool = True
    """Whether a new dump has reached its beginning."""


class WholeTransactions:
    """Cuts a dump's items so that each transaction comes whole, and counts their GTIDs.

    ``gtids`` is what was given: a transaction is added when its end is given. Events between
    transactions are given in order. `restart` drops the held events: after a break the source sends
    them again.
    """

    def __init__(self, gtids: GtidState) -> None:
        self.gtids: GtidState = gtids.copy()
        self._pending: list[AnyGtid] = []
        self._given = Position("", 0)
        self._early: _Early | None = None
        self._description = b""
        self.restart()

    def restart(self, *, same_server: bool = True) -> None:
        """Prepare for a new dump; on the same server, what is in its files up to here was given."""
        self._parser = BoundaryParser()
        self._context = DecodeContext()
        self._held, self._held_starts = bytearray(), array("q")
        self._held_at = 0
        self._gtid: AnyGtid | None = None
        self._simple = False
        if not same_server:
            self._given = Position("", 0)
            self._early = None
        if self._early is not None:
            self._early.resumed = False

    @property
    def position(self) -> Position:
        """The end of the last whole transaction that was given, in the files of its server."""
        return self._given

    def feed(self, item: FileBegin | Chunk) -> Iterator[FileBegin | Chunk]:
        """The items that can be given after this one; each is valid until the next is requested."""
        if isinstance(item, FileBegin):
            yield from self._begin(item)
        else:
            yield from self._chunk(item)

    def _begin(self, item: FileBegin) -> Iterator[FileBegin]:
        if not self._is_resumable(item):  # the `FileBegin` tells consumers
            self.restart(same_server=False)
        self._description = item.description
        event = self._context.decode(item.description, file=item.file, verify_checksum=False)
        self._parser.feed(event)
        if self._parser.discarded:
            self._held, self._held_starts = bytearray(), array("q")
            self._gtid = self._early = None
            self._simple = False
        is_new = Position(item.file, 0) > Position(self._given.file, 0)
        self._given = max(self._given, Position(item.file, item.offset))
        if is_new:  # else it began before the break
            yield item

    def _is_resumable(self, item: FileBegin) -> bool:
        """Whether a transaction that was given in part may still come again in this file."""
        early = self._early
        if early is None or early.resumed:
            return True
        if item.file != early.start.file:  # after its file: the server lost it in a crash
            return Position(item.file, 0) < Position(early.start.file, 0)
        return stamp(item.description) == stamp(early.description)

    def _chunk(self, chunk: Chunk) -> Iterator[Chunk]:
        kept = cut = 0  # bytes of the chunk that are to be given
        first = last = 0  # and their events
        ends = [*chunk.starts[1:], len(chunk.data)]
        for number, (start, end) in enumerate(zip(chunk.starts, ends, strict=True)):
            if self._simple and chunk.data[start + 4] in _INSIDE:
                continue
            event = self._context.decode(
                chunk.data[start:end],
                file=chunk.file,
                offset=chunk.offset + start,
                verify_checksum=False,
            )
            boundary = self._parser.feed(event)
            self._note(event, boundary)
            if boundary is Boundary.OUTSIDE and self._was_given(event):
                yield from self._give(chunk, first, last, kept, cut)
                first = last = number + 1
                kept = cut = end
            elif not self._parser.inside:
                yield from self._release(chunk.file)
                if self._early is not None:  # this was its end
                    kept, first = self._behind(chunk, self._early, kept, first)
                    self._early = None
                cut, last = end, number + 1
        yield from self._give(chunk, first, last, kept, cut)
        if cut < len(chunk.data):
            yield from self._unfinished(chunk, last, cut)

    def _unfinished(self, chunk: Chunk, first: int, cut: int) -> Iterator[Chunk]:
        """Hold or give the unfinished transaction in a chunk, from ``cut`` on."""
        early = self._early
        if early is None:
            if not self._held:
                self._held_at = chunk.offset + cut
            held = len(self._held)
            if held + len(chunk.data) - cut <= HELD:
                self._held_starts.extend(start - cut + held for start in chunk.starts[first:])
                self._held += chunk.data[cut:]
                return
            start = Position(chunk.file, self._held_at)
            early = self._early = _Early(self._gtid, start, self._held_at, self._description)
            yield from self._release(chunk.file)
        cut, first = self._behind(chunk, early, cut, first)
        early.end = max(early.end, chunk.end)
        if cut < len(chunk.data):
            yield _part(chunk, first, len(chunk.starts), cut, len(chunk.data))

    @staticmethod
    def _behind(chunk: Chunk, early: _Early, cut: int, first: int) -> tuple[int, int]:
        """The first byte and event in a chunk that were not given before the break."""
        given = early.end - chunk.offset
        if given <= cut:
            return cut, first
        if given >= len(chunk.data):
            return len(chunk.data), len(chunk.starts)
        first = bisect_left(chunk.starts, given)
        if first == len(chunk.starts) or chunk.starts[first] != given:
            raise _replaced(early)
        return given, first

    def _was_given(self, event: Event) -> bool:
        """Whether an event between transactions was given by this server before the break."""
        return Position(event.file or "", event.end_offset or 0) <= self._given

    def _note(self, event: Event, boundary: Boundary) -> None:
        """Note an event's GTID, and whether rows can be skipped until the transaction ends."""
        if isinstance(event, (GtidEvent, MariadbGtidEvent)):
            self._gtid = event.gtid
            self._simple = isinstance(event, MariadbGtidEvent) and not event.standalone
            self._resume(event)
        elif event.type == _T.QUERY and boundary is Boundary.INSIDE:
            self._simple = True
        if boundary is Boundary.END:
            self._simple = False
            self._ended(event)

    def _resume(self, event: GtidEvent | MariadbGtidEvent) -> None:
        """The first transaction after a break has to be the one that was given in part."""
        early = self._early
        if early is None or early.resumed:
            return
        begin = Position(event.file or "", event.offset or 0)
        if (begin, event.gtid) != (early.start, early.gtid):
            raise _replaced(early)
        early.resumed = True

    def _ended(self, event: Event) -> None:
        gtid, self._gtid = self._gtid, None
        if gtid is not None:
            if gtid.flavour is Flavour.MYSQL and self.gtids.includes(gtid):
                raise _broken(event, f"the source sent the transaction {gtid} again")
            self._pending.append(gtid)
        elif event.type != _T.INCIDENT:
            raise _broken(
                event,
                "a transaction without GTID: reading by GTID cannot resume after it; read by"
                " position",
            )

    def _give(self, chunk: Chunk, first: int, last: int, kept: int, cut: int) -> Iterator[Chunk]:
        """Events ``first`` to ``last`` of a chunk, its bytes ``kept`` to ``cut``."""
        if cut <= kept:
            return
        self._count(Position(chunk.file, chunk.offset + cut))
        yield _part(chunk, first, last, kept, cut)

    def _count(self, end: Position) -> None:
        """Count the transaction that ends here as given."""
        self._given = max(self._given, end)
        for gtid in self._pending:
            self.gtids = advanced(self.gtids, gtid)
        self._pending.clear()

    def _release(self, file: str) -> Iterator[Chunk]:
        """Give the held part of a transaction, and hold it no longer."""
        if not self._held:
            return
        data, starts = self._held, self._held_starts
        self._held, self._held_starts = bytearray(), array("q")
        data += bytes(PADDING)
        if self._early is not None:
            self._early.end = self._held_at + len(data) - PADDING
        yield Chunk(file, self._held_at, memoryview(data)[:-PADDING], starts)


def _part(chunk: Chunk, first: int, last: int, start: int, end: int) -> Chunk:
    """Events ``first`` to ``last`` of a chunk, its bytes ``start`` to ``end``; not copied."""
    starts: Sequence[int] = chunk.starts[first:last]
    if start:
        starts = array("q", (at - start for at in starts))
    return Chunk(chunk.file, chunk.offset + start, chunk.data[start:end], starts)


def _broken(event: Event, text: str) -> ProtocolError:
    return ProtocolError(f"{event.file} at {event.offset}: {text}")


def _replaced(early: _Early) -> LogReset:
    return LogReset(
        f"the transaction {early.gtid} at {early.start} was given up to {early.end} before the"
        " connection broke, and its bytes are different now: the server's logs were replaced."
        " Begin again after the GTIDs that were read"
    )
