"""What local transactions tell the generators: their events in cache form, and what no log has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tailrace.constants import EventType
from tailrace.events import DecodeContext, QueryEvent, RowsEvent, TableMapEvent
from tailrace.events.walk import frames
from tailrace.generators.log_context import (
    EndContext,
    HeadContext,
    LogRowsContext,
    StatementEdgeContext,
    table_of,
)
from tailrace.generators.offers import TransactionOffers
from tailrace.log.changes import READ_BY_NEXT, Change, Companion, Logged, is_companion
from tailrace.log.reader import TransactionHead
from tailrace.position import Position
from tailrace.transaction.statements import BEGIN_AND_COMMIT
from tailrace.values.resolve import resolve_table
from tailrace.values.surrogates import Escapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tailrace.events import Event, FormatDescription
    from tailrace.events.transaction import XaName
    from tailrace.generators.event import Context
    from tailrace.generators.stack import Stack
    from tailrace.schema.table import Table
    from tailrace.values.schema import TableSchema


class StatementFacts(NamedTuple):
    """What a log does not tell of a statement's rows."""

    write_can_replace: bool = False
    ignore_dup_key: bool = False
    ignore_no_key: bool = False
    tables: tuple[Table, ...] = ()


USUAL = StatementFacts()


class LocalOffers(TransactionOffers):
    """Offers a local transaction. ``is_autocommit`` and ``xa`` are known from its start.

    ``facts`` are those of the statement whose rows are offered, ``sorts`` whether tables with
    transactions took part, and ones without.
    """

    def __init__(
        self,
        stack: Stack,
        number: int,
        first: Event,
        *,
        is_autocommit: bool,
        xa: XaName | None,
        held: bool = False,
    ) -> None:
        super().__init__(stack, number, first, first, held=held)
        self.is_autocommit = is_autocommit
        self.xa = xa
        self.facts = USUAL
        self.sorts: tuple[bool | None, bool | None] = (None, None)

    def head_context(self) -> Context:
        """What is known at the start."""
        return _Head(self)

    def edge_context(self, event: Event, rows_query: str | None = None) -> Context:
        """What is known at the start or the end of a statement."""
        return _Edge(event, self.number, rows_query)

    def rows_context(self, item: Change) -> Context:
        """What is known of rows."""
        return _Rows(item, self.number, self.facts)

    def end_context(
        self,
        event: Event,
        *,
        gtid: str | None = None,
        prepared: str | None = None,  # noqa: ARG002 - it is prepared and committed in one
        savepoint: str | None = None,
    ) -> Context:
        """What is known at the end, or when it is rolled back to a savepoint."""
        return _End(self, event, gtid=gtid, savepoint=savepoint)


class _Head(HeadContext):
    __slots__ = ("is_autocommit", "xa")

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "xa": lambda context: context.xa,
        "is_autocommit": lambda context: context.is_autocommit,
        "transactional_tables": lambda _: None,
        "non_transactional_tables": lambda _: None,
    }

    def __init__(self, of: LocalOffers) -> None:
        super().__init__(of.first, of.number)
        self.xa = of.xa
        self.is_autocommit = of.is_autocommit


class _End(EndContext):
    __slots__ = ("is_autocommit", "sorts", "xa")

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "xa": lambda context: context.xa,
        "is_autocommit": lambda context: context.is_autocommit,
        "transactional_tables": lambda context: context.sorts[0],
        "non_transactional_tables": lambda context: context.sorts[1],
    }

    def __init__(
        self, of: LocalOffers, event: Event, *, gtid: str | None, savepoint: str | None
    ) -> None:
        super().__init__(event, of.number, first=of.first, gtid=gtid, savepoint=savepoint)
        self.xa = of.xa
        self.is_autocommit = of.is_autocommit
        self.sorts = of.sorts


class _Edge(StatementEdgeContext):
    __slots__ = ()

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "error_code": lambda context: getattr(context.event, "error_code", 0),
    }


class _Rows(LogRowsContext):
    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "write_can_replace": lambda context: context.facts.write_can_replace,
        "ignore_dup_key": lambda context: context.facts.ignore_dup_key,
        "ignore_no_key": lambda context: context.facts.ignore_no_key,
        "modified_tables": lambda context: (
            tuple(table_of(each.schema) for each in context.facts.tables)
            or (table_of(context.change.schema),)
        ),
    }

    def __init__(self, change: Change, transaction: int, facts: StatementFacts) -> None:
        super().__init__(change, transaction)
        self.facts = facts


class CachedItems:
    """Reads a transaction's events in cache form as items of `TransactionOffers`.

    ``schemas`` are by table id. ``facts`` are of the statements that begin at these offsets; those
    of the item that was given last are in ``current``. ``gtid`` is the transaction's, if decided.
    """

    def __init__(
        self,
        form: FormatDescription,
        schemas: Mapping[int, TableSchema],
        facts: Mapping[int, StatementFacts],
        gtid: str | None = None,
    ) -> None:
        self.current = USUAL
        self._decoder = DecodeContext(form)
        self._schemas = schemas
        self._facts = facts
        self._gtid = gtid
        self._head: TransactionHead | None = None
        self._before: list[Event] = []
        self._escapes = Escapes()

    def read(
        self, pieces: Iterable[memoryview], start: int = 0
    ) -> Iterator[Change | Logged | Companion]:
        """The items in pieces of whole events, of which the first is at ``start``.

        A transaction that is compressed has the offsets that its events had before.
        """
        at = start
        for raw in self._raws(pieces):
            event = self._decoder.decode(raw, offset=at)
            self.current = self._facts.get(at, self.current)
            at += len(raw)
            if self._head is None:
                self._head = TransactionHead(Position("", 0), self._gtid, None, event.timestamp)
            yield from self._item(event, self._head)

    def _raws(self, pieces: Iterable[memoryview]) -> Iterator[memoryview | bytes]:
        for piece in pieces:
            for start, end in frames(piece):
                raw = piece[start:end]
                if raw[4] == EventType.TRANSACTION_PAYLOAD:
                    payload: Any = self._decoder.decode(raw)
                    yield from payload.raw_events()
                else:
                    yield raw

    def _item(self, event: Event, head: TransactionHead) -> Iterator[Change | Logged | Companion]:
        if isinstance(event, RowsEvent):
            yield Change(event, self._schema(event.table_map), head, 0, self._escapes)
            if event.stmt_end:
                self.current = USUAL
        elif isinstance(event, QueryEvent):
            if event.sql_bytes not in BEGIN_AND_COMMIT:
                before, self._before = tuple(self._before), []
                yield Logged(event, head, before)
        elif event.header.type in READ_BY_NEXT:
            self._before.append(event)
        elif is_companion(event):
            yield Companion(event, head)

    def _schema(self, table_map: TableMapEvent) -> TableSchema:
        known = self._schemas.get(table_map.table_id)
        return resolve_table(table_map, table_map.form.flavour) if known is None else known
