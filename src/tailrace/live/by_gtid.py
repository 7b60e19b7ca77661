"""A feed's mode by GTID: whole transactions, on any server that has them.

A transaction is held until its end has come, since another server may have to send it after a
break. One that is larger than `HELD` is not held: its events are given as they come. After a break,
the same server continues it, and the events that were given are left out. Another server begins it
again, after a `FileBegin`, which makes the unfinished transaction void, as after a crash in a file.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.constants import TYPE_AT, EventType, Flavour
from tailrace.errors import LogReset, ProtocolError
from tailrace.events import DecodeContext, GtidEvent, MariadbGtidEvent
from tailrace.events.format_description import stamp
from tailrace.events.rows import ROWS_TYPES
from tailrace.gtid import advanced
from tailrace.live.chunks import PADDING, Chunk, Expected, FileBegin
from tailrace.position import Position
from tailrace.transaction import TOKENS, Boundary, BoundaryParser, State, Token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from tailrace.events import Event
    from tailrace.gtid import AnyGtid, GtidState
    from tailrace.live.place import Place
    from tailrace.live.session import Session

HELD: Final = 16 << 20
"""Bytes of an unfinished transaction that are held; a larger one is given as it comes."""
_ROWS: Final = ROWS_TYPES | {code for code, token in TOKENS.items() if token is Token.ROWS}
"""Events that change nothing in an open transaction: they need not be decoded there."""
_NOWHERE: Final = Position("", 0)


class DumpByGtid:
    """The GTIDs that were given, and the server whose files they came from.

    ``known`` is None: the feed may continue on any server.
    """

    known = Expected()
    proved = resumed = True
    ends: Position | None = None

    def __init__(self, start: GtidState | Literal["oldest", "now"]) -> None:
        self._start = start
        self._whole: WholeTransactions | None = None
        self._server: tuple[str, str | None, int] | None = None
        self._torn_before: Position | None = None

    @property
    def gtids(self) -> GtidState | None:
        """The start and what was given since. None before the first connection, if the start is
        to be asked for there.
        """
        if self._whole is not None:
            return self._whole.gtids
        return None if isinstance(self._start, str) else self._start

    @property
    def position(self) -> Position:
        """The position after what was given, in the files of the server that gave it."""
        return Position("", 4) if self._whole is None else self._whole.position

    def begin(self, session: Session) -> tuple[GtidState, int]:
        """The GTIDs after which a session's dump has to begin, and no offset."""
        if self._whole is None:
            start = self._start
            if isinstance(start, str):
                start = session.executed() if start == "now" else session.purged()
            started = session.started(start)
            assert not isinstance(started, Position)  # noqa: S101 - the start was none, either
            self._whole = WholeTransactions(started)
        return self._whole.gtids, 0

    def skip_torn_tail(self, following: Position) -> bool:
        """A file ends inside an event: the next dump begins with ``following`` without our help.

        A source begins with the last file such that all files before it were given completely, and
        it never counted the torn transaction. False if the dump came to the same place again.
        """
        again, self._torn_before = self._torn_before == following, following
        return not again

    def read_from_begin(self) -> None:
        """Do nothing: there is no start in a file to verify."""

    def goal(self, session: Session) -> GtidState | None:
        """What a dump that does not wait has to reach at least; None if that is unknown.

        It is unknown for MariaDB without strict mode: its GTIDs have no reliable order then.
        """
        return session.executed() if session.flavour is Flavour.MYSQL else None

    def reached(self, goal: Position | GtidState | None) -> bool:
        """Whether a dump that ended had reached its goal."""
        if goal is None or isinstance(goal, Position):
            return True
        gtids = self.gtids
        return gtids is not None and not goal - gtids

    def linked(self, session: Session) -> None:
        """A dump was requested on this session."""
        host = "" if session.server_uuid is not None else str(session.host)
        server = (host, session.server_uuid, session.server_id)
        if self._whole is not None:
            self._whole.restart(same_server=server == self._server)
        self._server = server

    def accept(self, item: FileBegin | Chunk, place: Place) -> Iterator[FileBegin | Chunk]:
        """The items that can be given after this one."""
        del place
        return iter(()) if self._whole is None else self._whole.feed(item)


@dataclass(slots=True)
class _Early:
    """A transaction that was given in part before its end: up to the offset ``end``."""

    gtid: AnyGtid | None
    start: Position
    end: int
    description: bytes
    resumed: bool = True
    """Whether a new dump has reached its beginning."""

    def first_new(self, chunk: Chunk, number: int) -> int:
        """The first event of a chunk, from a number on, that was not given before the break."""
        if self.end <= chunk.offset + chunk.begin_of(number):
            return number
        if self.end >= chunk.end:
            return len(chunk.starts)
        first = chunk.number_at(self.end)
        if first is None:
            raise self.replaced()
        return first

    def replaced(self) -> LogReset:
        """The error where other bytes come in its place."""
        return LogReset(
            f"the transaction {self.gtid} at {self.start} was given up to {self.end} before the"
            " connection broke, and its bytes are different now: the server's logs were replaced."
            " Begin again after the GTIDs that were read"
        )


class WholeTransactions:
    """Cuts a dump's items so that each transaction comes whole, and counts their GTIDs.

    ``gtids`` is what was given: a transaction is added when its end is given. ``position`` is the
    end of the last one, in the files of its server. Events between transactions are given in order.
    `restart` drops the held events: after a break the source sends them again.
    """

    def __init__(self, gtids: GtidState) -> None:
        self.gtids: GtidState = gtids.copy()
        self.position = _NOWHERE
        self._pending: list[AnyGtid] = []
        self._early: _Early | None = None
        self._file: FileBegin | None = None
        self.restart()

    def restart(self, *, same_server: bool = True) -> None:
        """Prepare for a new dump; on the same server, what is in its files up to here was given."""
        self._parser = BoundaryParser()
        self._context = DecodeContext()
        self._drop()
        self._held_at = 0
        self._entering = True
        if not same_server:
            self.position = _NOWHERE
            self._early = None
        if self._early is not None:
            self._early.resumed = False

    def _drop(self) -> None:
        self._held, self._held_starts = bytearray(), array("q")
        self._gtid: AnyGtid | None = None

    def feed(self, item: FileBegin | Chunk) -> Iterator[FileBegin | Chunk]:
        """The items that can be given after this one; each is valid until the next is requested."""
        return self._begin(item) if isinstance(item, FileBegin) else self._chunk(item)

    def _begin(self, item: FileBegin) -> Iterator[FileBegin]:
        if not self._is_resumable(item):  # the `FileBegin` tells consumers
            self.restart(same_server=False)
        self._file, self._entering = item, False
        event = self._context.decode(item.description, file=item.file, verify_checksum=False)
        self._parser.feed(event)
        if self._parser.discarded:
            self._drop()
            self._early = None
        is_new = Position(item.file, 0) > Position(self.position.file, 0)
        self.position = max(self.position, Position(item.file, item.offset))
        if is_new:  # else it began before the break
            yield item

    def _is_resumable(self, item: FileBegin) -> bool:
        """Whether the file is the one of its name that was read before the break, and a transaction
        that was given in part may still come again in it.
        """
        before, early = self._file, self._early
        if self._entering and before is not None and before.file == item.file:
            return stamp(before.description) == stamp(item.description)
        if early is None or early.resumed:
            return True
        if item.file != early.start.file:  # after its file: the server lost it in a crash
            return Position(item.file, 0) < Position(early.start.file, 0)
        return stamp(item.description) == stamp(early.description)

    def _chunk(self, chunk: Chunk) -> Iterator[Chunk]:
        first = last = 0  # the events of the chunk that are to be given
        for number, (start, end) in enumerate(chunk.events()):
            if self._parser.state is State.OPEN and chunk.data[start + TYPE_AT] in _ROWS:
                continue
            event = self._context.decode(
                chunk.data[start:end],
                file=chunk.file,
                offset=chunk.offset + start,
                verify_checksum=False,
            )
            boundary = self._parser.feed(event)
            if isinstance(event, (GtidEvent, MariadbGtidEvent)):
                self._gtid = event.gtid
                self._resume(event)
            if boundary is Boundary.END:
                self._ended(event)
            if boundary is Boundary.OUTSIDE and self._was_given(event):
                yield from self._give(chunk, first, last)
                first = last = number + 1
            elif not self._parser.inside:
                yield from self._release(chunk.file)
                if self._early is not None:  # this was its end
                    first = self._early.first_new(chunk, first)
                    self._early = None
                last = number + 1
        yield from self._give(chunk, first, last)
        if last < len(chunk.starts):
            yield from self._unfinished(chunk, last)

    def _unfinished(self, chunk: Chunk, first: int) -> Iterator[Chunk]:
        """Hold or give the unfinished transaction in a chunk, from event number ``first`` on."""
        early = self._early
        if early is None:
            cut, held = chunk.starts[first], len(self._held)
            if not held:
                self._held_at = chunk.offset + cut
            if held + len(chunk.data) - cut <= HELD:
                self._held_starts.extend(start - cut + held for start in chunk.starts[first:])
                self._held += chunk.data[cut:]
                return
            start = Position(chunk.file, self._held_at)
            description = b"" if self._file is None else self._file.description
            early = self._early = _Early(self._gtid, start, self._held_at, description)
            yield from self._release(chunk.file)
        first = early.first_new(chunk, first)
        early.end = max(early.end, chunk.end)
        if first < len(chunk.starts):
            yield chunk.part(first, len(chunk.starts))

    def _was_given(self, event: Event) -> bool:
        """Whether an event between transactions was given by this server before the break."""
        return Position(event.file or "", event.end_offset or 0) <= self.position

    def _resume(self, event: GtidEvent | MariadbGtidEvent) -> None:
        """The first transaction after a break has to be the one that was given in part."""
        early = self._early
        if early is None or early.resumed:
            return
        begin = Position(event.file or "", event.offset or 0)
        if (begin, event.gtid) != (early.start, early.gtid):
            raise early.replaced()
        early.resumed = True

    def _ended(self, event: Event) -> None:
        gtid, self._gtid = self._gtid, None
        if gtid is not None:
            if gtid.flavour is Flavour.MYSQL and self.gtids.includes(gtid):
                raise _broken(event, f"the source sent the transaction {gtid} again")
            self._pending.append(gtid)
        elif event.type != EventType.INCIDENT:
            raise _broken(
                event,
                "a transaction without GTID: reading by GTID cannot resume after it; read by"
                " position",
            )

    def _give(self, chunk: Chunk, first: int, last: int) -> Iterator[Chunk]:
        """Events ``first`` to ``last`` of a chunk, which end a transaction."""
        if first >= last:
            return
        part = chunk.part(first, last)
        self.position = max(self.position, Position(chunk.file, part.end))
        for gtid in self._pending:
            self.gtids = advanced(self.gtids, gtid)
        self._pending.clear()
        yield part

    def _release(self, file: str) -> Iterator[Chunk]:
        """Give the held part of a transaction, and hold it no longer."""
        if not self._held:
            return
        data, starts, size = self._held, self._held_starts, len(self._held)
        self._held, self._held_starts = bytearray(), array("q")
        data += bytes(PADDING)
        if self._early is not None:
            self._early.end = self._held_at + size
        yield Chunk(file, self._held_at, memoryview(data)[:size], starts)


def _broken(event: Event, text: str) -> ProtocolError:
    return ProtocolError(f"{event.file} at {event.offset}: {text}")
