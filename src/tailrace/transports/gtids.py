"""Where in a series of files reading begins that is to go on behind a set of GTIDs.

The file is found by the PREVIOUS_GTIDS or GTID_LIST events alone, as the servers find it; then the
GTID events of that file are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tailrace.constants import Flavour
from tailrace.errors import GtidError
from tailrace.events import GtidEvent, GtidListEvent, MariadbGtidEvent, PreviousGtidsEvent
from tailrace.gtid import GtidList, GtidSet
from tailrace.position import Position
from tailrace.storage.search import Beginnings, gtid_events, gtids_before
from tailrace.transactions.rollbacks import TO_THE_END, Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.events import Event
    from tailrace.gtid import MariadbGtid
    from tailrace.storage import LogFile


class AlreadyRead(Protocol):
    """What was read already, asked transaction by transaction from a file's begin on."""

    flavour: Flavour

    @property
    def left(self) -> GtidSet | GtidList:
        """What was read beyond what was asked about by now and what stood before it."""

    def covers(self, before: GtidSet | GtidList) -> bool:
        """Whether all that stands before the file of this list was read."""

    def enter(self, before: GtidSet | GtidList | None) -> None:
        """Begin with the file of this list, None where it has none."""

    def holds(self, first: Event) -> bool:
        """Whether the transaction that begins with this event was read."""

    def refusal(self, before: GtidSet | GtidList) -> str:
        """Why not even the first file, of this list, covers it."""


class _Set:
    """MySQL's: a set."""

    flavour = Flavour.MYSQL

    def __init__(self, gtids: GtidSet) -> None:
        self._gtids = gtids
        self._before = GtidSet()
        self._asked = GtidSet()

    @property
    def left(self) -> GtidSet:
        return self._gtids - self._before - self._asked

    def covers(self, before: GtidSet | GtidList) -> bool:
        return isinstance(before, GtidSet) and before <= self._gtids

    def enter(self, before: GtidSet | GtidList | None) -> None:
        self._before = before if isinstance(before, GtidSet) else GtidSet()

    def holds(self, first: Event) -> bool:
        gtid = first.gtid if isinstance(first, GtidEvent) else None
        if gtid is None or gtid not in self._gtids:
            return False
        self._asked.add(gtid)
        return True

    def refusal(self, before: GtidSet | GtidList) -> str:
        missing = before - self._gtids if isinstance(before, GtidSet) else before
        return f"{missing.text()} is"


class _State:
    """MariaDB's: in each domain all up to one GTID, which the log must hold itself."""

    flavour = Flavour.MARIADB

    def __init__(self, gtids: GtidList) -> None:
        self._last = gtids.position
        self._behind: set[int] = set()

    @property
    def left(self) -> GtidList:
        return GtidList(last for domain, last in self._last.items() if domain not in self._behind)

    def covers(self, before: GtidSet | GtidList) -> bool:
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
        """Whether my GTID of a domain is the last before the file, or stands in it or later."""
        known = servers.get((mine.domain_id, mine.server_id))
        return known is None or mine == last or mine.seq_no > known.seq_no

    def enter(self, before: GtidSet | GtidList | None) -> None:
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

    def refusal(self, before: GtidSet | GtidList) -> str:
        return f"what stands before the state {before} is"


class Awaited:
    """What is still to be read of the GTIDs at which reading ends: `take` what was read.

    Of MariaDB's, one GTID in each domain.
    """

    def __init__(self, gtids: GtidSet | GtidList) -> None:
        self._set = gtids if isinstance(gtids, GtidSet) else GtidSet()
        self._last = gtids.position if isinstance(gtids, GtidList) else {}

    @property
    def left(self) -> str:
        """What was not read yet; empty where all was."""
        return self._set.text() or ",".join(map(str, self._last.values()))

    def take(self, event: Event) -> None:
        """A transaction that begins with this event was read; or it lists what was before."""
        if isinstance(event, PreviousGtidsEvent):
            self.without(event.gtids)
        elif isinstance(event, GtidEvent) and event.gtid is not None and event.gtid in self._set:
            one = event.gtid
            self._set -= GtidSet({(one.uuid, one.tag): [(one.gno, one.gno + 1)]})
        elif isinstance(event, GtidListEvent):
            self.without(event.gtids)
        elif isinstance(event, MariadbGtidEvent) and event.gtid in self._last.values():
            del self._last[event.gtid.domain_id]

    def without(self, gtids: GtidSet | GtidList | None) -> None:
        """These were read before."""
        if isinstance(gtids, GtidSet):
            self._set -= gtids
        elif isinstance(gtids, GtidList):
            for each in gtids:
                last = self._last.get(each.domain_id, each)
                if last.server_id == each.server_id and last.seq_no <= each.seq_no:
                    self._last.pop(each.domain_id, None)


def already_read(gtids: GtidSet | GtidList) -> AlreadyRead:
    """What GTIDs say that was read."""
    return _Set(gtids) if isinstance(gtids, GtidSet) else _State(gtids)


def locate_gtids(files: Sequence[LogFile], gtids: GtidSet | GtidList | AlreadyRead) -> Position:
    """Where the first transaction begins that was not read; the logs' end if all were.

    What was `already_read` then knows of the transactions up to there. Raises GtidError where
    others stood in files that are no longer there, where the GTIDs are of the other flavour, and
    where some of them are not in the logs and did not stand before them, as a server does.
    """
    begun = already_read(gtids) if isinstance(gtids, (GtidSet, GtidList)) else gtids
    number, before = _file_for(files, begun)
    begun.enter(before)
    begins = Beginnings.of(files[number:])
    for event in begins:
        if not begun.holds(event):
            if begun.left:
                _check_held(files, begun)
            return Position(event.file or "", event.offset or 0)
    check_all_met(files, begun)
    return begins.end


def check_all_met(files: Sequence[LogFile], read: AlreadyRead) -> None:
    """All transactions were asked about: raise GtidError where GTIDs were not there."""
    _check_none(files, Awaited(read.left))


def _check_held(files: Sequence[LogFile], read: AlreadyRead) -> None:
    """Raise GtidError where the logs do not hold what was read, nor held it in files before them.

    The last file is asked alone: its list, and then, where that leaves some, its GTID events.
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
    """What stands after a place that `locate_gtids` gave, and was read already: where GTIDs have
    gaps. Each is a transaction's file, its begin, and the next one's (`TO_THE_END` without one).
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


def _file_for(
    files: Sequence[LogFile], begun: AlreadyRead
) -> tuple[int, GtidSet | GtidList | None]:
    """The newest file before which all was read, and its list."""
    before: GtidSet | GtidList | None = None
    for number in range(len(files) - 1, -1, -1):
        flavour, before = gtids_before(files[number])
        if flavour is not None and flavour is not begun.flavour:
            raise GtidError(
                f"{files[number].path} is a log of {flavour}, the GTIDs are {begun.flavour}'s"
            )
        if before is not None and begun.covers(before):
            return number, before
    if before is not None:
        raise GtidError(
            f"{begun.refusal(before)} no longer in the logs, which begin with {files[0].name}:"
            " copy the data anew"
        )
    return 0, None
