"""Only whole transactions of what a dump gives: those that are not whole yet are held."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType
from tailrace.errors import ProtocolError
from tailrace.events import (
    DecodeContext,
    GtidEvent,
    MariadbGtidEvent,
)
from tailrace.gtid import Gtid, GtidList, GtidSet, MariadbGtid
from tailrace.live.chunks import PADDING, Chunk, FileBegin
from tailrace.position import Position
from tailrace.storage.cache import BinlogCache
from tailrace.transactions import Boundary, BoundaryParser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.events import Event

HELD: Final = 16 << 20
"""Bytes of an unfinished transaction in memory; more go to a temporary file."""
_PIECE: Final = 4 << 20
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
"""What neither begins nor ends a transaction that ends with a commit: it need not be decoded."""


class WholeTransactions:
    """Cuts a dump's items so that each transaction comes whole, and counts their GTIDs.

    ``gtids`` is what was given: it grows by a transaction when that is given. Events between
    transactions are given in their place. `restart` drops what is held: after a break the source
    sends it again. Use `close` in the end.
    """

    def __init__(self, gtids: GtidSet | GtidList) -> None:
        self.gtids = gtids.copy()
        self._pending: list[Gtid | MariadbGtid] = []
        self._given = Position("", 0)
        self._cache = BinlogCache(HELD)
        self.restart()

    def restart(self, *, same_server: bool = True) -> None:
        """A new dump begins; of the same server, what stands in files up to here was given."""
        self._parser = BoundaryParser()
        self._context = DecodeContext()
        self._cache.reset()
        self._held_at = 0
        self._gtid: Gtid | MariadbGtid | None = None
        self._simple = False
        if not same_server:
            self._given = Position("", 0)

    def close(self) -> None:
        """Drop what is held, and its temporary file."""
        self._cache.close()

    @property
    def position(self) -> Position:
        """The end of what was given, in the files of the server that gave it."""
        return self._given

    @property
    def holds(self) -> bool:
        """Whether a transaction is held that is not whole yet."""
        return self._parser.inside

    def feed(self, item: FileBegin | Chunk) -> Iterator[FileBegin | Chunk]:
        """What an item allows to give. Each is valid until the next is asked for."""
        if isinstance(item, FileBegin):
            yield from self._begin(item)
        else:
            yield from self._chunk(item)

    def _begin(self, item: FileBegin) -> Iterator[FileBegin]:
        event = self._context.decode(item.description, file=item.file, verify_checksum=False)
        self._parser.feed(event)
        if self._parser.discarded:
            self._cache.reset()
            self._gtid = None
        is_new = Position(item.file, 0) > Position(self._given.file, 0)
        self._given = max(self._given, Position(item.file, item.offset))
        if is_new:  # else it was begun before the break
            yield item

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
                if self._cache.length:
                    yield from self._held(chunk.file)
                cut, last = end, number + 1
        yield from self._give(chunk, first, last, kept, cut)
        if cut < len(chunk.data):
            if not self._cache.length:
                self._held_at = chunk.offset + cut
            self._cache.write(chunk.data[cut:])

    def _was_given(self, event: Event) -> bool:
        """Whether an event between transactions was given by this server before the break."""
        return Position(event.file or "", event.end_offset or 0) <= self._given

    def _note(self, event: Event, boundary: Boundary) -> None:
        """What an event says of GTIDs, and whether rows need no look until the transaction ends."""
        if isinstance(event, (GtidEvent, MariadbGtidEvent)):
            self._gtid = event.gtid
            self._simple = isinstance(event, MariadbGtidEvent) and not event.standalone
        elif event.type == _T.QUERY and boundary is Boundary.INSIDE:
            self._simple = True
        if boundary is Boundary.END:
            self._simple = False
            self._ended(event)

    def _ended(self, event: Event) -> None:
        gtid, self._gtid = self._gtid, None
        if gtid is not None:
            if isinstance(gtid, Gtid) and isinstance(self.gtids, GtidSet) and gtid in self.gtids:
                raise _broken(event, f"the source sent the transaction {gtid} again")
            self._pending.append(gtid)
        elif event.type != _T.INCIDENT:
            raise _broken(
                event,
                "a transaction without GTID: a break behind it cannot be mended by GTID; read by"
                " position",
            )

    def _give(self, chunk: Chunk, first: int, last: int, kept: int, cut: int) -> Iterator[Chunk]:
        """Events ``first`` to ``last`` of a chunk, its bytes ``kept`` to ``cut``."""
        if cut <= kept:
            return
        starts: Sequence[int] = chunk.starts[first:last]
        if kept:
            starts = array("q", (start - kept for start in starts))
        self._count(Position(chunk.file, chunk.offset + cut))
        yield Chunk(chunk.file, chunk.offset + kept, chunk.data[kept:cut], starts)

    def _count(self, end: Position) -> None:
        """What ends here is given."""
        self._given = max(self._given, end)
        for gtid in self._pending:
            if isinstance(self.gtids, GtidSet) and isinstance(gtid, Gtid):
                self.gtids.add(gtid)
            elif isinstance(self.gtids, GtidList) and isinstance(gtid, MariadbGtid):
                self.gtids.update(gtid)
        self._pending.clear()

    def _held(self, file: str) -> Iterator[Chunk]:
        """What was held of a transaction, in chunks; the cache is empty then."""
        offset, left = self._held_at, memoryview(b"")
        for piece in self._cache.pieces(_PIECE):
            data = memoryview(bytearray(len(left) + len(piece) + PADDING))[:-PADDING]
            data[: len(left)] = left
            data[len(left) :] = piece
            starts, end = array("q"), 0
            while end + 13 <= len(data):
                size = int.from_bytes(data[end + 9 : end + 13], "little")
                if end + size > len(data):
                    break
                starts.append(end)
                end += size
            if end:
                yield Chunk(file, offset, data[:end], starts)
            offset += end
            left = data[end:]
        self._cache.reset()


def _broken(event: Event, text: str) -> ProtocolError:
    return ProtocolError(f"{event.file} at {event.offset}: {text}")
