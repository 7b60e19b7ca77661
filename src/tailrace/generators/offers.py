"""One transaction's changes, as they are offered to the generators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.events import (
    AnnotateRowsEvent,
    ExecuteLoadQueryEvent,
    LoadBlockEvent,
    RowsEvent,
    RowsQueryEvent,
)
from tailrace.generators.generator import Change as Kind
from tailrace.generators.generator import Offer
from tailrace.generators.log_context import (
    BlockContext,
    EndContext,
    HeadContext,
    LoadQueryContext,
    LogRowsContext,
    OtherContext,
    QueryContext,
    StatementEdgeContext,
)
from tailrace.log.changes import Change, Companion, Logged
from tailrace.log_name import file_number
from tailrace.schema.session import is_half
from tailrace.transaction.statements import savepoint_of_rollback

if TYPE_CHECKING:
    from tailrace.events import Event
    from tailrace.generators.event import Context
    from tailrace.generators.log_context import Originals
    from tailrace.generators.stack import Stack


_CHANGES: Final = frozenset(
    {Kind.STATEMENT_START, Kind.STATEMENT, Kind.LOAD_DATA_BLOCK, Kind.LOAD_DATA, Kind.ROWS}
)
"""What `Originals.offered` counts."""


class TransactionOffers:
    """Offers the items of a log's transaction to a stack, with starts and ends of statements.

    ``number`` is its local id, ``first`` its first event, ``last`` the one that was read last.
    ``held`` and ``rolled_back`` are as in `Offer`, ``originals`` as in `HeadContext`.
    """

    def __init__(
        self,
        stack: Stack,
        number: int,
        first: Event,
        last: Event,
        *,
        held: bool = False,
        originals: Originals | None = None,
    ) -> None:
        self.stack = stack
        self.number = number
        self.first = first
        self.last = last
        self.held = held
        self.originals = originals
        self._rows_query: str | None = None
        self._statement_event: Event | None = None
        """The last event of a statement that has not ended: of its rows, or its file's blocks."""
        self._rolled_back = False
        """Whether that statement was rolled back."""
        self._has_rows = False
        self._started: bool | None = None
        """Whether its start was offered: True to all, False to those that want rollbacks."""

    # --- contexts, which a source may extend -----------------------------------------------------

    def head_context(self) -> Context:
        """What is known at the start."""
        return HeadContext(self.first, self.number, self.last, self.originals)

    def edge_context(self, event: Event, rows_query: str | None = None) -> Context:
        """What is known at the start or the end of a statement."""
        return StatementEdgeContext(event, self.number, rows_query)

    def rows_context(self, item: Change) -> Context:
        """What is known of rows."""
        return LogRowsContext(item, self.number)

    def end_context(
        self,
        event: Event,
        *,
        gtid: str | None = None,
        prepared: str | None = None,
        savepoint: str | None = None,
    ) -> Context:
        """What is known at the end, or when it is rolled back to a savepoint."""
        return EndContext(
            event,
            self.number,
            first=self.first,
            gtid=gtid,
            prepared=prepared,
            savepoint=savepoint,
            has_rows=self._has_rows,
        )

    # --- offers ----------------------------------------------------------------------------------

    def _tell(self, kind: Kind, context: Context, *, rolled_back: bool) -> None:
        if self.originals is not None and kind in _CHANGES:
            self.originals.offered += 1
        self.stack.offer(Offer(kind, context, self.number, rolled_back, self.held))

    def start(self, *, rolled_back: bool) -> None:
        """Offer the start, if those who get this were not offered it before."""
        if self._started or (rolled_back and self._started is not None):
            return
        self._started = not rolled_back
        self._tell(Kind.START, self.head_context(), rolled_back=rolled_back)

    def offer(self, item: Change | Logged | Companion, *, rolled_back: bool) -> None:
        """Offer the next item."""
        self.start(rolled_back=rolled_back)
        if isinstance(item, Change):
            self._rows(item, rolled_back=rolled_back)
        elif isinstance(item, Companion):
            self._companion(item.event, rolled_back=rolled_back)
        else:
            self._statement(item, rolled_back=rolled_back)

    def _rows(self, item: Change, *, rolled_back: bool) -> None:
        before = self._statement_event
        if before is not None and not _same_statement(before, item.event):
            self.end_statement()
        self._start_statement(item.event, rolled_back=rolled_back)
        self._has_rows = True
        self._tell(Kind.ROWS, self.rows_context(item), rolled_back=rolled_back)
        if item.event.stmt_end:
            self.end_statement()

    def _statement(self, item: Logged, *, rolled_back: bool) -> None:
        event = item.event
        loads = isinstance(event, ExecuteLoadQueryEvent)
        if not (loads and isinstance(self._statement_event, LoadBlockEvent)):
            self.end_statement()
        if rolled_back and (name := savepoint_of_rollback(event.sql)) is not None:
            back = self.end_context(event, savepoint=name)
            self._tell(Kind.ROLLBACK, back, rolled_back=True)
            return
        if is_half(event):
            return
        self._start_statement(event, rolled_back=rolled_back)
        if loads:
            load = LoadQueryContext(item, self.number)
            self._tell(Kind.LOAD_DATA, load, rolled_back=rolled_back)
        else:
            query = QueryContext(item, self.number)
            self._tell(Kind.STATEMENT, query, rolled_back=rolled_back)
        self.end_statement()

    def _companion(self, event: Event, *, rolled_back: bool) -> None:
        if isinstance(event, (RowsQueryEvent, AnnotateRowsEvent)):
            self.end_statement()
            self._rows_query = event.sql
        elif isinstance(event, LoadBlockEvent):
            if not isinstance(self._statement_event, LoadBlockEvent):
                self.end_statement()
            self._start_statement(event, rolled_back=rolled_back)
            block = BlockContext(event, self.number)
            self._tell(Kind.LOAD_DATA_BLOCK, block, rolled_back=rolled_back)
        else:
            other = OtherContext(event, self.number)
            self._tell(Kind.OTHER, other, rolled_back=rolled_back)

    def _start_statement(self, event: Event, *, rolled_back: bool) -> None:
        """An event belongs to a statement, which starts if it has not."""
        if self._statement_event is None:
            rows_query, self._rows_query = self._rows_query, None
            if self.stack.hears(Kind.STATEMENT_START):
                edge = self.edge_context(event, rows_query)
                self._tell(Kind.STATEMENT_START, edge, rolled_back=rolled_back)
        self._statement_event, self._rolled_back = event, rolled_back

    def end_statement(self) -> None:
        """End the statement that has not ended, if there is one."""
        if self._statement_event is not None:
            if self.stack.hears(Kind.STATEMENT_END):
                edge = self.edge_context(self._statement_event)
                self._tell(Kind.STATEMENT_END, edge, rolled_back=self._rolled_back)
            self._statement_event = None

    def end(
        self,
        event: Event,
        *,
        rolled_back: bool = False,
        gtid: str | None = None,
        prepared: str | None = None,
    ) -> None:
        """It was decided, by this event; ``prepared`` is the GTID of its XA PREPARE."""
        self.end_statement()
        if rolled_back and self._started is None and not self.stack.wants_rollbacks:
            return
        self.start(rolled_back=rolled_back)
        context = self.end_context(event, gtid=gtid, prepared=prepared)
        kind = Kind.ROLLBACK if rolled_back else Kind.COMMIT
        self._tell(kind, context, rolled_back=rolled_back)


def _same_statement(before: Event, rows: RowsEvent) -> bool:
    """Whether rows belong to the statement of an event before them.

    A statement's table maps come before all of its rows. Its last rows event, which is flagged, is
    not seen if it is of a table that is not wanted.
    """
    return isinstance(before, RowsEvent) and _place(rows.table_map) < _place(before)


def _place(event: Event) -> tuple[int, int, int]:
    number = file_number(event.file or "") or 0
    return number, event.offset or 0, event.inner_index or 0
