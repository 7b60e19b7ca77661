"""Which events a replica gets, and which are left out or changed for it.

A `Selection` sees each event of a dump, in order. Where it says that a block passes, the block is
sent without looking at its events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.constants import TYPE_AT, EventType
from tailrace.events import GtidEvent, GtidListEvent, MariadbGtidEvent
from tailrace.gtid import GtidList
from tailrace.replication.source.older import GTID, known
from tailrace.replication.source.refusals import anonymous, hole
from tailrace.transaction import BoundaryParser
from tailrace.wire.commands import DumpFlag

if TYPE_CHECKING:
    from tailrace.events import DecodeContext
    from tailrace.gtid import GtidSet, MariadbGtid
    from tailrace.replication.source.blocks import Block
    from tailrace.replication.source.request import DumpRequest

_GTIDS: Final = frozenset({EventType.GTID, EventType.GTID_TAGGED})
UNTIL_REACHED: Final = 1
"""The flag of an artificial GTID_LIST at which MariaDB's START SLAVE UNTIL ends."""


class Selection(Protocol):
    """What a replica gets of a file's events."""

    over: bool
    """Whether the dump ends here."""

    @property
    def decodes(self) -> bool:
        """Whether `given` decodes events, so that it needs more of them than their headers."""

    def passes(self, block: Block, context: DecodeContext) -> bool:
        """Whether all events of a block are sent as they are. Raises ServerError."""

    def given(
        self, event: memoryview, file: str, end: int, context: DecodeContext
    ) -> memoryview | bytes | None:
        """An event as it is sent, or None; it ends at an offset of its file. Raises ServerError."""

    def after(self) -> list[tuple[GtidList, int]]:
        """MariaDB: the artificial GTID_LISTs to be sent after the event, with their flags."""


class Everything:
    """All events: MySQL, by file and position."""

    over = False
    decodes = False

    def passes(self, _block: Block, _context: DecodeContext) -> bool:
        """True."""
        return True

    def given(
        self, event: memoryview, _file: str, _end: int, _context: DecodeContext
    ) -> memoryview:
        """The event."""
        return event

    def after(self) -> list[tuple[GtidList, int]]:
        """Nothing."""
        return []


@dataclass(slots=True)
class MysqlSelection:
    """By GTID: the transactions that are not in the replica's set."""

    gtids: GtidSet
    over: bool = False
    decodes: bool = False
    _inside: bool = False
    """Whether the current transaction is left out."""

    def passes(self, block: Block, context: DecodeContext) -> bool:
        """Whether none of the block's transactions may be in the set."""
        if self._inside or EventType.ANONYMOUS_GTID in block.kinds():
            return False
        return not block.spans(context) & self.gtids

    def given(
        self, event: memoryview, file: str, end: int, context: DecodeContext
    ) -> memoryview | None:
        """The event, if its transaction is not in the set. As in mysqld, what stands between
        transactions belongs to the one before, except a ROTATE.
        """
        kind = event[TYPE_AT]
        if kind == EventType.ANONYMOUS_GTID:
            raise anonymous(file, end - len(event))
        if kind in _GTIDS:
            first = context.decode(event, verify_checksum=False)
            gtid = first.gtid if isinstance(first, GtidEvent) else None
            self._inside = gtid is not None and gtid in self.gtids
        elif kind == EventType.ROTATE:
            self._inside = False
        return None if self._inside else event

    def after(self) -> list[tuple[GtidList, int]]:
        """Nothing."""
        return []


@dataclass(slots=True)
class MariadbSelection:
    """MariaDB: what the replica knows, annotations if asked for, and by GTID what follows the
    replica's in each domain.

    ``left`` are the replica's GTIDs that were not met yet: until then their domains' transactions
    are left out. ``until`` are those after which the dump ends, or None. ``state`` is the state of
    the log after the events seen.
    """

    request: DumpRequest
    left: dict[int, MariadbGtid] = field(default_factory=dict)
    until: dict[int, MariadbGtid] | None = None
    state: GtidList = field(default_factory=GtidList)
    continued: bool = False
    """Whether the replica has transactions of the log."""
    over: bool = False
    _parser: BoundaryParser = field(default_factory=BoundaryParser)
    _skips: bool = False
    _lists: bool = False
    """Whether an artificial GTID_LIST follows the transaction that is being left out."""
    _ends: bool = False
    """Whether the dump ends after the current transaction."""

    @property
    def decodes(self) -> bool:
        """Until nothing is left out by GTID any more."""
        return bool(self.left) or self.until is not None or self._parser.inside

    @property
    def _capability(self) -> int:
        return self.request.mariadb_capability

    @property
    def _annotated(self) -> bool:
        return bool(self.request.flags & DumpFlag.ANNOTATE_ROWS)

    def passes(self, block: Block, _context: DecodeContext) -> bool:
        """Whether nothing is left out any more, and the block has no annotations to leave out."""
        if self._skips or self.left or self.until is not None or self._capability < GTID:
            return False
        return self._annotated or EventType.ANNOTATE_ROWS not in block.kinds()

    def given(
        self, event: memoryview, _file: str, _end: int, context: DecodeContext
    ) -> memoryview | bytes | None:
        """The event, in a form that the replica knows; None if it is left out."""
        kind = event[TYPE_AT]
        if self.decodes:
            if kind == EventType.GTID_LIST:
                listed = context.decode(event, verify_checksum=False)
                if isinstance(listed, GtidListEvent):
                    self.state = listed.gtids.copy()
            elif not self._parser.passes(kind):
                self._step(event, context)
        if self._skips:
            self._skips = self._parser.inside
            return None
        if self._capability >= GTID and (self._annotated or kind != EventType.ANNOTATE_ROWS):
            return event
        checksum = context.checksum_algorithm
        return known(event, self._capability, annotated=self._annotated, checksum=checksum)

    def _step(self, event: memoryview, context: DecodeContext) -> None:
        first = context.decode(event, verify_checksum=False)
        if isinstance(first, MariadbGtidEvent):
            self._parser = BoundaryParser()
            self._begin(first.gtid)
        self._parser.feed(first)

    def _begin(self, gtid: MariadbGtid) -> None:
        """A transaction begins."""
        mine = self.left.get(gtid.domain_id)
        earlier = mine is not None and any(
            (known.domain_id, known.server_id) == (mine.domain_id, mine.server_id)
            for known in self.state
        )
        self.state.add(gtid)
        if self.until is not None:
            last = self.until.get(gtid.domain_id)
            if last is None:
                self._skips = True
            elif gtid.server_id == last.server_id and gtid.seq_no >= last.seq_no:
                del self.until[gtid.domain_id]
                self._ends = not self.until
                self._skips = gtid.seq_no > last.seq_no  # the log does not have it: this is past it
        if mine is None:
            return
        if gtid.server_id != mine.server_id or gtid.seq_no <= mine.seq_no:
            self._skips = True
        if gtid.server_id == mine.server_id and gtid.seq_no >= mine.seq_no:
            if self.request.gtid_strict and gtid.seq_no > mine.seq_no:
                raise hole(mine, earlier=earlier)
            self._lists = True
            del self.left[gtid.domain_id]

    def after(self) -> list[tuple[GtidList, int]]:
        """The state, where the replica's GTID was met, and at the end of ``until``."""
        found: list[tuple[GtidList, int]] = []
        if self._lists and not self._skips:
            self._lists = False
            found.append((self.state.copy(), 0))
        if self._ends and not self._parser.inside:
            self.over = True
            found.append((self.state.copy(), UNTIL_REACHED))
        return found
