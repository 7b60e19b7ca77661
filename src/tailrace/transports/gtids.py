"""GTIDs that were read: the position after them in a series of files, and those read since.

The file is found by the PREVIOUS_GTIDS or GTID_LIST events alone, as the servers find it. Then the
GTID events of that file are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tailrace.constants import MAGIC, Flavour
from tailrace.errors import GtidError
from tailrace.events import GtidEvent, GtidListEvent, MariadbGtidEvent, PreviousGtidsEvent
from tailrace.gtid import GtidList, GtidSet, GtidState, advanced
from tailrace.position import Position
from tailrace.storage.search import Beginnings, gtid_events, gtids_before
from tailrace.transaction.committed import TO_THE_END, Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.events import Event
    from tailrace.gtid import AnyGtid, MariadbGtid
    from tailrace.storage import LogFile


class AlreadyRead(Protocol):
    """The GTIDs already read; it is asked for each transaction, from the beginning of a file."""

    flavour: Flavour

    @property
    def left(self) -> GtidState:
        """The GTIDs read, without those asked about so far and those before the first file
        asked.
        """

    def covers(self, before: GtidState) -> bool:
        """Whether everything before the file with this list was read."""

    def enter(self, before: GtidState | None) -> None:
        """Begin with the file of this list; None if it has none."""

    def holds(self, first: Event) -> bool:
        """Whether the transaction that begins with this event was read."""

    def refusal(self, before: GtidState) -> str:
        """The missing GTIDs, for the error: not even the first file, with this list, is covered."""


class _Set:
    """MySQL: a GTID set."""

    flavour = Flavour.MYSQL

    def __init__(self, gtids: GtidSet) -> None:
        self._gtids = gtids
        self._before = GtidSet()
        self._asked = GtidSet()

    @property
    def left(self) -> GtidSet:
        return self._gtids - self._before - self._asked

    def covers(self, before: GtidState) -> bool:
        return isinstance(before, GtidSet) and before <= self._gtids

    def enter(self, before: GtidState | None) -> None:
        self._before = before if isinstance(before, GtidSet) else GtidSet()

    def holds(self, first: Event) -> bool:
        gtid = first.gtid if isinstance(first, GtidEvent) else None
        if gtid is None or gtid not in self._gtids:
            return False
        self._asked.add(gtid)
        return True

    def refusal(self, before: GtidState) -> str:
        missing = before - self._gtids if isinstance(before, GtidSet) else before
        return f"{missing.text()} is"


class _State:
    """MariaDB: in each domain everything up to one GTID, which must be in the log itself."""

    flavour = Flavour.MARIADB

    def __init__(self, gtids: GtidList) -> None:
        self._last = gtids.position
        self._behind: set[int] = set()

    @property
    def left(self) -> GtidList:
        return GtidList(last for domain, last in self._last.items() if domain not in self._behind)

    def covers(self, before: GtidState) -> bool:
        if not isinstance(before, GtidList):
            return False
        servers = {(gtid.domain_id, gtid.server_id): gtid for gtid in before}
        return all(
            domain in self._last and self._not_past(self._last[domain], last, servers)
            for domain, last in before.position.items()
        )

    @staticmethod
    def _not_past(
        mine: MariadbGtid, last: MariadbGtid, servers: dict[tuple[int, int], MariadbGtid]
    ) -> bool:
        """Whether this GTID of a domain is the last before the file, or in the file or later."""
        known = servers.get((mine.domain_id, mine.server_id))
        return known is None or mine == last or mine.seq_no > known.seq_no

    def enter(self, before: GtidState | None) -> None:
        position = before.position if isinstance(before, GtidList) else {}
        self._behind = {
            domain for domain, last in position.items() if self._last.get(domain) == last
        }

    def holds(self, first: Event) -> bool:
        if not isinstance(first, MariadbGtidEvent):
            return False
        gtid = first.gtid
        if gtid.domain_id not in self._last or gtid.domain_id in self._behind:
            return False
        if gtid == self._last[gtid.domain_id]:
            self._behind.add(gtid.domain_id)
        return True

    def refusal(self, before: GtidState) -> str:
        return f"what was logged before the state {before} is"


class Awaited:
    """The GTIDs still to be read, of those at which reading ends; `take` removes what was read.

    For MariaDB, one GTID in each domain.
    """

    def __init__(self, gtids: GtidState) -> None:
        self._left = gtids.latest.copy()

    @property
    def left(self) -> str:
        """The GTIDs that were not read yet; empty if all were."""
        return self._left.text()

    def take(self, event: Event) -> None:
        """Record that a transaction that begins with this event was read, or an event that lists
        earlier GTIDs.
        """
        if isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
            self.without(event.gtids)
        elif isinstance(event, (GtidEvent, MariadbGtidEvent)) and event.gtid is not None:
            self._left.discard(event.gtid)

    def without(self, gtids: GtidState | None) -> None:
        """Remove GTIDs that were read before."""
        if gtids is not None:
            self._left -= gtids


def already_read(gtids: GtidState) -> AlreadyRead:
    """What was read according to these GTIDs."""
    return _Set(gtids) if isinstance(gtids, GtidSet) else _State(gtids)


def locate_gtids(files: Sequence[LogFile], gtids: GtidState | AlreadyRead) -> Position:
    """Where the first transaction begins that was not read; the logs' end if all were.

    The result of `already_read` then covers the transactions up to there. Raises GtidError where
    unread transactions were in files that no longer exist, where the GTIDs are of the other
    flavour, and where some of them are neither in the logs nor before them; a server does the same.
    """
    was_read = already_read(gtids) if isinstance(gtids, GtidState) else gtids
    number, before = _file_for(files, was_read)
    was_read.enter(before)
    begins = Beginnings.of(files[number:])
    for event in begins:
        if not was_read.holds(event):
            if was_read.left:
                _check_held(files, was_read)
            return Position(event.file or "", event.offset or 0)
    check_all_met(files, was_read)
    return begins.end


def check_all_met(files: Sequence[LogFile], read: AlreadyRead) -> None:
    """All transactions were asked about: raise GtidError if some GTIDs were not found."""
    _check_none(files, Awaited(read.left))


def _check_held(files: Sequence[LogFile], read: AlreadyRead) -> None:
    """Raise GtidError if GTIDs that were read are neither in the logs nor in files before them.

    Only the last file is examined: its list, and then, where some GTIDs are left, its GTID events.
    """
    awaited = Awaited(read.left)
    for file in reversed(files):
        _, before = gtids_before(file)
        awaited.without(before)
        events = gtid_events(file)
        while awaited.left and (event := next(events, None)) is not None:
            awaited.take(event)
        if before is not None or not awaited.left:
            break
    _check_none(files, awaited)


def _check_none(files: Sequence[LogFile], lacking: Awaited) -> None:
    if lacking.left:
        raise GtidError(
            f"{lacking.left} is not in the logs, {files[0].path} to {files[-1].name}: the GTIDs are"
            " of another server, or ahead of them"
        )


def read_after(files: Sequence[LogFile], place: Position, read: AlreadyRead) -> list[Range]:
    """The transactions after a position from `locate_gtids` that were already read: GTIDs may have
    gaps. Each is given as its file, its beginning, and that of the next one (`TO_THE_END` without
    one).
    """
    if not read.left:
        return []
    number = [file.name for file in files].index(place.file)
    found: list[Range] = []
    under_way: Position | None = None
    for event in Beginnings.of(files[number:]):
        here = Position(event.file or "", event.offset or 0)
        if here < place:
            continue
        if under_way is not None:
            end = here.offset if here.file == under_way.file else TO_THE_END
            found.append((under_way.file, under_way.offset, end))
        under_way = here if read.holds(event) else None
    if under_way is not None:
        found.append((under_way.file, under_way.offset, TO_THE_END))
    return found


def _file_for(files: Sequence[LogFile], was_read: AlreadyRead) -> tuple[int, GtidState | None]:
    """The newest file before which everything was read, and its list."""
    before: GtidState | None = None
    for number in range(len(files) - 1, -1, -1):
        flavour, before = gtids_before(files[number])
        if flavour is not None and flavour is not was_read.flavour:
            raise GtidError(
                f"{files[number].path} is a log of {flavour}, the GTIDs are {was_read.flavour}'s"
            )
        if before is not None and was_read.covers(before):
            return number, before
    if before is not None:
        raise GtidError(
            f"{was_read.refusal(before)} no longer in the logs, which begin with {files[0].name}:"
            " copy the data again"
        )
    return 0, None


class ReadGtids:
    """Tracks the GTIDs up to the last complete transaction, from the events fed to it.

    ``begin`` is where reading began: the stream sets it before it gives its first event. ``gtids``
    are the GTIDs after which reading began, and those since. It is None until the start or the
    beginning of a file has given them.
    """

    def __init__(self, start: object) -> None:
        self.begin = Position("", len(MAGIC))
        self._by_gtids = isinstance(start, GtidState)
        self.gtids: GtidState | None = None
        if isinstance(start, GtidState):
            self.gtids = start.copy()
        self._under_way: AnyGtid | None = None

    def feed(self, event: Event) -> None:
        """Process an event, before it is given to the reader."""
        if isinstance(event, (GtidEvent, MariadbGtidEvent)):
            self._under_way = event.gtid
        elif not self._by_gtids and isinstance(event, (PreviousGtidsEvent, GtidListEvent)):
            self.gtids = event.gtids.copy()

    def ended(self) -> None:
        """The open transaction was read completely."""
        gtid, self._under_way = self._under_way, None
        if self.gtids is not None:
            self.gtids = advanced(self.gtids, gtid)

    def voided(self) -> None:
        """The open transaction has no end, and does not count."""
        self._under_way = None
