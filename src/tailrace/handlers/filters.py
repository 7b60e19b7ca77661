"""Filters of whole transactions (by GTID, server and time), of rows by table, of events by type."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import UsageError
from tailrace.events import (
    Event,
    ExecuteLoadQueryEvent,
    GtidEvent,
    IncidentEvent,
    MariadbGtidEvent,
    QueryEvent,
    RowsEvent,
    RowsQueryEvent,
    TableMapEvent,
)
from tailrace.gtid import GtidList, MariadbGtid
from tailrace.handlers.base import CONSUMED, Handler, Outcome, open_payload
from tailrace.handlers.rows_filter import RowsFilter
from tailrace.schema.classify import StatementKind, classify
from tailrace.table_filter import TableFilter
from tailrace.times import Time
from tailrace.transaction import BoundaryParser

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from tailrace.events import AnnotateRowsEvent, TransactionPayloadEvent


class GroupFilter(Handler):
    """The base of filters that drop whole transactions, including their GTID event.

    `keeps` decides at a transaction's first event (its GTID event, where it has one). Events that
    belong to no transaction always pass (format descriptions, ROTATE, STOP, …), and so do
    incidents. The result follows the grammar of transactions.
    """

    def __init__(self) -> None:
        self.at_start()

    def at_start(self) -> None:
        self._parser = BoundaryParser()
        self._keep = True

    def keeps(self, first: Event) -> bool:
        """Whether the transaction that starts with this event passes."""
        raise NotImplementedError

    def on_event(self, event: Event) -> Outcome:
        if event.inner_index is None:
            parser = self._parser
            began = not parser.inside
            parser.feed(event)
            if parser.control:
                return event
            if began:
                self._keep = self.keeps(event)
        return event if self._keep or isinstance(event, IncidentEvent) else CONSUMED


class UpTo:
    """All GTIDs up to a MariaDB state: in each of its domains, the numbers up to its own.

    Within a domain numbers must rise, as ``gtid_strict_mode`` enforces.
    """

    def __init__(self, state: GtidList) -> None:
        self._last = {domain: gtid.seq_no for domain, gtid in state.position.items()}

    def __contains__(self, gtid: object) -> bool:
        return isinstance(gtid, MariadbGtid) and gtid.seq_no <= self._last.get(gtid.domain_id, -1)


class ByGtid(GroupFilter):
    """Passes ``only`` the transactions with these GTIDs, or all ``without`` these.

    Either is a GtidSet, a GtidList (it means all GTIDs up to it: `UpTo`), or any container of Gtid
    or MariadbGtid. A transaction without a GTID is in none of them.
    """

    def __init__(
        self,
        only: Container[Any] | GtidList | None = None,
        *,
        without: Container[Any] | GtidList = (),
    ) -> None:
        super().__init__()
        self._only = None if only is None else _container(only)
        self._without = _container(without)

    def keeps(self, first: Event) -> bool:
        gtid = first.gtid if isinstance(first, (GtidEvent, MariadbGtidEvent)) else None
        if gtid is None:
            return self._only is None
        return (self._only is None or gtid in self._only) and gtid not in self._without


def _container(gtids: Container[Any] | GtidList) -> Container[Any]:
    return UpTo(gtids) if isinstance(gtids, GtidList) else gtids


class ByServerId(GroupFilter):
    """Passes ``only`` the transactions of these servers, or all ``without`` those of these.

    The server is the one in the first event's header, where the transaction originated.
    """

    def __init__(self, only: Container[int] | None = None, *, without: Container[int] = ()) -> None:
        super().__init__()
        self._only = only
        self._without = without

    def keeps(self, first: Event) -> bool:
        server = first.header.server_id
        return (self._only is None or server in self._only) and server not in self._without


class ByTime(GroupFilter):
    """Passes the transactions committed from ``start`` (inclusive) to ``end`` (exclusive).

    Datetimes, in UTC where they have no zone, or microseconds UTC. The time is the original commit
    timestamp; in logs without it (MariaDB's) it is the first event's second. Clocks may go
    backwards: each transaction is judged separately.
    """

    def __init__(
        self, start: datetime | int | None = None, end: datetime | int | None = None
    ) -> None:
        super().__init__()
        self._start = _microseconds(start)
        self._end = _microseconds(end)

    def keeps(self, first: Event) -> bool:
        time = first.commit_timestamp if isinstance(first, GtidEvent) else None
        if time is None:
            time = first.timestamp * 1_000_000
        return (self._start is None or time >= self._start) and (
            self._end is None or time < self._end
        )


def _microseconds(time: datetime | int | None) -> int | None:
    if not isinstance(time, datetime):
        return time
    return Time.of(time if time.tzinfo is not None else time.replace(tzinfo=UTC)).microseconds


_CACHED: Final = 4096


class ByTable(RowsFilter):
    """Passes the rows of tables that match a pattern, and drops the rows of all others.

    A pattern is ``database.table`` with ``*`` and ``?``; one without a dot is a table in any
    database. ``only`` may be a filter that was built from both arguments. ``without`` lists
    patterns of tables whose rows are dropped. Statements are not parsed: all of them pass,
    including DDL and rows that were logged as statements. With ``statements`` false, only
    statements that control transactions pass. The rules of `RowsFilter` apply.
    """

    def __init__(
        self,
        only: str | Sequence[str] | TableFilter | None = None,
        *,
        without: str | Sequence[str] = (),
        statements: bool = True,
    ) -> None:
        super().__init__()
        self._wants = TableFilter.of(only, without)
        self._statements = statements
        self._known: dict[bytes, bool] = {}

    def wants_map(self, event: TableMapEvent, /) -> bool:
        """Decide by database and table; the decision is cached per table map body."""
        known = self._known.get(event.body)
        if known is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            known = self._known[event.body] = self._wants(event.database, event.table)
        return known

    def wants_rows(self, event: RowsEvent, /) -> bool:
        return self.wants_map(event.table_map)

    def on_query(self, event: QueryEvent) -> Outcome:
        """Pass the statement, or only where it controls a transaction."""
        controls = self._statements or (
            not isinstance(event, ExecuteLoadQueryEvent)
            and classify(event.sql) is StatementKind.CONTROL
        )
        return self.on_event(event) if controls else self.leave_out(event)

    def _part_of_statement(self, event: Event) -> Outcome:
        """The events that precede a statement pass if the statement does."""
        return self.on_event(event) if self._statements else CONSUMED

    on_int_var = on_rand = on_user_var = on_load_block = on_delete_file = _part_of_statement


Kind = int | type[Event]
"""A type code (`EventType`), or a class that stands for all its events."""


class ByType(RowsFilter):
    """Passes ``only`` the events of these types, or all ``without`` these.

    Types are codes or classes of events. Where rows are left out, the rules of `RowsFilter` apply.
    Beyond that, the result need not be a valid log: if BEGIN is left out, it has no BEGIN. A
    payload passes where any event in it is left, unless ``without`` names its type.
    """

    def __init__(self, only: Iterable[Kind] | None = None, *, without: Iterable[Kind] = ()) -> None:
        super().__init__()
        self._only = None if only is None else tuple(only)
        self._without = tuple(without)
        self._known: dict[tuple[int, type[Event]], bool] = {}
        for kind in (*(self._only or ()), *self._without):
            if not isinstance(kind, int) and not (
                isinstance(kind, type) and issubclass(kind, Event)
            ):
                raise UsageError(f"not a type of events: {kind!r}")

    def passes(self, event: Event) -> bool:
        """Whether an event's type is wanted."""
        key = event.header.type, type(event)
        known = self._known.get(key)
        if known is None:
            known = self._only is None or _among(event, self._only)
            known = known and not _among(event, self._without)
            self._known[key] = known
        return known

    def wants_map(self, event: TableMapEvent, /) -> bool:
        return self.passes(event)

    def wants_rows(self, event: RowsEvent, /) -> bool:
        return self.passes(event)

    def on_rows_query(self, event: RowsQueryEvent) -> Outcome:
        return super().on_rows_query(event) if self.passes(event) else CONSUMED

    def on_annotate_rows(self, event: AnnotateRowsEvent) -> Outcome:
        return super().on_annotate_rows(event) if self.passes(event) else CONSUMED

    def on_gtid(self, event: GtidEvent) -> Outcome:
        return super().on_gtid(event) if self.passes(event) else self._flush()

    def on_mariadb_gtid(self, event: MariadbGtidEvent) -> Outcome:
        return super().on_mariadb_gtid(event) if self.passes(event) else self._flush()

    def on_transaction_payload(self, event: TransactionPayloadEvent) -> Outcome:
        """Decide by what is left in it, unless its own type is to be left out."""
        return self._flush() if _among(event, self._without) else open_payload(self, event)

    def on_event(self, event: Event) -> Outcome:
        return super().on_event(event) if self.passes(event) else self._flush()


def _among(event: Event, kinds: Iterable[Kind]) -> bool:
    return any(
        event.header.type == kind if isinstance(kind, int) else isinstance(event, kind)
        for kind in kinds
    )
