"""Transactions that come, event by event, from another log: copied, cut, filtered or renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import EventFlag, EventType, Flavour
from tailrace.errors import BoundaryError, EventEncodeError
from tailrace.events import NO_FORMAT, GtidEvent, MariadbGtidEvent, QueryEvent
from tailrace.transaction import Boundary, BoundaryParser, TransactionKind
from tailrace.transaction.statements import commits
from tailrace.writing.cache import Group, cached

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events import Event
    from tailrace.writing.cache import EventCache
    from tailrace.writing.group_commit import Waiting
    from tailrace.writing.log import LogWriter

_T = EventType
OF_THE_FILE: Final = frozenset(
    {
        _T.FORMAT_DESCRIPTION,
        _T.PREVIOUS_GTIDS,
        _T.GTID_LIST,
        _T.BINLOG_CHECKPOINT,
        _T.START_ENCRYPTION,
        _T.ROTATE,
        _T.STOP,
        _T.HEARTBEAT,
        _T.HEARTBEAT_V2,
        _T.LARGE_TRANSACTION_HEADER,  # says an offset in the file that it came from
    }
)
"""What is said of the file that an event came from: the new file has its own."""
_OF_FLAVOUR: Final = {
    Flavour.MYSQL: frozenset(range(_T.GTID, _T.LARGE_TRANSACTION_HEADER + 1)) - {_T.XA_PREPARE},
    Flavour.MARIADB: frozenset(range(_T.ANNOTATE_ROWS, _T.PARTIAL_ROW_DATA + 1)),
}
"""Types that only one flavour has."""
_V1_TO_V2: Final = {
    _T.WRITE_ROWS_V1: _T.WRITE_ROWS,
    _T.UPDATE_ROWS_V1: _T.UPDATE_ROWS,
    _T.DELETE_ROWS_V1: _T.DELETE_ROWS,
}
"""What MySQL wrote before 5.6, and reads no longer (8.4)."""
_ALONE: Final = frozenset({TransactionKind.DDL, TransactionKind.STANDALONE})


def _is_transactional(last: Event, kind: TransactionKind | None) -> bool:
    """Whether a transaction is none of non-transactional tables, by its last event."""
    if kind is TransactionKind.COMMIT and isinstance(last, QueryEvent):
        return not commits(last.sql_bytes)  # XA COMMIT
    return kind is not TransactionKind.STANDALONE


class ForeignEvents:
    """Gathers a transaction's events, and has them written when its last has come.

    They keep their server id, timestamp, GTID and commit timestamps. What depends on the position
    in this log is computed again: positions, checksums, the logical clock, the length in the GTID
    event. A transaction without a GTID event gets one.
    """

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._parser = BoundaryParser()
        self._group: Group | None = None
        self._ended: list[tuple[Group, Waiting | None]] = []

    @property
    def cache(self) -> EventCache | None:
        """The events of the transaction that has started; None between two."""
        return None if self._group is None else self._group.cache

    def write(self, event: Event) -> None:
        """Take one event, in its log's order; the last of a transaction commits it.

        Events that the new log writes itself (format descriptions, ROTATE, PREVIOUS_GTIDS, …),
        artificial events, and events from inside a payload are skipped: the payload's own event is
        written. Raises EventEncodeError for an event of the other flavour, BoundaryError for one
        out of order, GtidError for a GTID that the log has: the transaction is then dropped.
        """
        try:
            self._take(event)
        except BaseException:
            self.discard()
            raise

    def write_transaction(self, events: Iterable[Event]) -> None:
        """Take the events of exactly one transaction."""
        if self._parser.inside:
            raise BoundaryError("a transaction that `write` started is not at its end")
        ended = False
        try:
            for event in events:
                boundary = self._take(event, last=ended)
                ended = ended or boundary is Boundary.END
        except BaseException:
            self.discard()
            raise
        if self.discard() or not ended:
            raise BoundaryError("the events are no whole transaction: its end is missing")

    def discard(self) -> bool:
        """Drop the transaction that has not ended; whether there was one."""
        group, self._group = self._group, None
        self._parser = BoundaryParser()
        if group is None:
            return False
        group.cache.close()
        self._ended.append((group, None))
        return True

    def ended(self) -> list[tuple[Group, Waiting | None]]:
        """The transactions that ended since the last call, for `LogWriter.finish`."""
        ended, self._ended = self._ended, []
        return ended

    def _take(self, event: Event, *, last: bool = False) -> Boundary | None:
        """What became of an event; with ``last`` no other transaction may begin with it."""
        if event.inner_index is not None or event.header.flags & EventFlag.ARTIFICIAL:
            return None
        boundary = self._parser.feed(event)
        if event.type in OF_THE_FILE:
            if self._parser.discarded:
                self.discard()
            return None
        self._check_flavour(event)
        if last and boundary is not Boundary.OUTSIDE:
            raise event.error("it belongs to a second transaction", BoundaryError)
        group = self._group
        if boundary is Boundary.OUTSIDE:
            self._log.write_between(self._cached(event))
            return boundary
        if group is None:
            if self._stands_alone(event):
                self._log.write_between(self._cached(event))
                return boundary
            group = self._group = self._begin(event)
            if group.source is event or self._is_replaced(event, boundary):
                return boundary
        group.cache.append(self._cached(event))
        if boundary is Boundary.END:
            self._group = None
            kind = self._parser.kind
            group.alone = group.cache.count == 1 or kind in _ALONE
            group.ddl = kind is TransactionKind.DDL
            group.rolled_back = kind is TransactionKind.ROLLBACK
            group.transactional = _is_transactional(event, kind)
            waiting = None
            try:
                waiting = self._log.place(group, self._choose)
            finally:
                self._ended.append((group, waiting))
                group.cache.close()
        return boundary

    def _stands_alone(self, first: Event) -> bool:
        """An incident that MariaDB logs without a GTID."""
        return first.type == _T.INCIDENT and self._log.flavour is Flavour.MARIADB

    def _is_replaced(self, first: Event, boundary: Boundary) -> bool:
        """A BEGIN, in whose place stands MariaDB's GTID event."""
        return (
            self._log.flavour is Flavour.MARIADB
            and boundary is Boundary.BEGIN
            and isinstance(first, QueryEvent)
            and first.sql_bytes.startswith(b"BEGIN")
        )

    def _begin(self, first: Event) -> Group:
        source = first if isinstance(first, (GtidEvent, MariadbGtidEvent)) else None
        gtid = source.gtid if source else None
        if gtid is not None:
            self._log.dialect.gtids.check(gtid)
        return Group(
            self._log.cache(),
            gtid,
            first.header.server_id,
            first.header.timestamp,
            statements=True,
            source=source,
        )

    def _choose(self, group: Group) -> None:
        gtids = self._log.dialect.gtids
        if group.source is None:
            group.gtid = gtids.choose(None)
        elif group.gtid is not None:
            gtids.check(group.gtid)

    def _cached(self, event: Event) -> bytes:
        """The event in cache form, laid out as this log's format description says."""
        form = self._log.dialect.form
        code = event.type
        if self._log.flavour is Flavour.MYSQL and code in _V1_TO_V2:
            event = event.replace(type=int(_V1_TO_V2[_T(code)]), form=form)
        elif event.form != NO_FORMAT:
            usual = form.post_header(code, 0)
            if usual and event.form.post_header(code, usual) != usual:
                event = event.replace(form=form)
        return cached(event)

    def _check_flavour(self, event: Event) -> None:
        flavour = self._log.flavour
        other = Flavour.MARIADB if flavour is Flavour.MYSQL else Flavour.MYSQL
        strange = event.form != NO_FORMAT and event.form.flavour is not flavour
        if strange or event.type in _OF_FLAVOUR[other]:
            raise event.error(
                f"an event of {other} in a log of {flavour}: their servers do not read each"
                " other's logs; write its rows instead",
                EventEncodeError,
            )
