"""The changes of a log, or of a server's stream, as the source of generators."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from tailrace.closing import Closing
from tailrace.events import (
    AnnotateRowsEvent,
    ExecuteLoadQueryEvent,
    LoadBlockEvent,
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
    xa_of,
)
from tailrace.generators.stack import Stack, generators
from tailrace.log.changes import Change, Companion, Ended, Logged, RolledBack
from tailrace.log.iteration import Iteration
from tailrace.log.sources import Reading
from tailrace.schema.session import is_half
from tailrace.transaction import Boundary, TransactionKind
from tailrace.transaction.statements import savepoint_of_rollback

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.generators.event import Context
    from tailrace.generators.generator import Generator
    from tailrace.gtid import GtidState
    from tailrace.log.reader import Step
    from tailrace.log.sources import Source
    from tailrace.position import Position
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers


@dataclass(slots=True)
class _Open:
    """A transaction that events are given of."""

    number: int
    first: Event
    last: Event
    rows_query: str | None = None
    statement: Event | None = None
    """The last event of a statement that was logged as rows, which has not ended."""
    undone: bool = False
    """Whether that statement was rolled back."""
    started: bool | None = None
    """Whether its start was offered: True to all, False to those that want rollbacks."""


class _LogIteration(Iteration):
    """Offers what a log holds to a stack; gives None after each transaction."""

    stack: Stack

    def _of_log(self) -> Iterator[None]:
        numbers = count(1)
        first: Event | None = None
        last: Step | None = None
        opened: _Open | None = None

        def steps() -> Iterator[Step]:
            nonlocal first, last
            for step in self._reader:
                self._feed(step)
                inside = step.event.inner_index is not None
                if not inside and (step.boundary is Boundary.BEGIN or first is None):
                    first = step.event
                last = step
                yield step
                if step.boundary is Boundary.OUTSIDE:
                    first = None
                    self._advance(self._resume_after(step), ended=False)

        for item in self.changes.with_rolled_back(steps()):
            if last is None:
                continue
            if isinstance(item, Ended):
                if item.event is not None and item.kind is not TransactionKind.XA_PREPARE:
                    opened = opened or _Open(next(numbers), first or item.event, item.event)
                    self._end(opened, item)
                opened = first = None
                self._advance(self._resume_after(last))
                yield None
                continue
            if opened is None:
                opened = _Open(next(numbers), first or last.event, last.event)
            opened.last = last.event
            if not isinstance(item, RolledBack):
                self._offer(opened, item, rolled_back=False)
            elif self.stack.wants_rollbacks:
                self._offer(opened, item.item, rolled_back=True)

    def _tell(self, kind: Kind, opened: _Open, context: Context, *, rolled_back: bool) -> None:
        self.stack.offer(Offer(kind, context, opened.number, rolled_back))

    def _start(self, opened: _Open, *, rolled_back: bool) -> None:
        if opened.started or (rolled_back and opened.started is not None):
            return
        opened.started = not rolled_back
        context = HeadContext(opened.first, opened.number, xa_of(opened.first, opened.last))
        self._tell(Kind.START, opened, context, rolled_back=rolled_back)

    def _offer(
        self, opened: _Open, item: Change | Logged | Companion, *, rolled_back: bool
    ) -> None:
        event = item.event
        self._start(opened, rolled_back=rolled_back)
        number = opened.number
        if isinstance(item, Change):
            if opened.statement is None:
                edge = StatementEdgeContext(event, number, opened.rows_query)
                self._tell(Kind.STATEMENT_START, opened, edge, rolled_back=rolled_back)
                opened.rows_query = None
            opened.statement, opened.undone = event, rolled_back
            rows = LogRowsContext(item, number)
            self._tell(Kind.ROWS, opened, rows, rolled_back=rolled_back)
            if item.event.stmt_end:
                self._end_rows(opened)
            return
        self._end_rows(opened)
        if isinstance(item, Companion):
            self._companion(opened, event, rolled_back=rolled_back)
            return
        if rolled_back and (name := savepoint_of_rollback(item.event.sql)) is not None:
            back = EndContext(event, number, first=opened.first, savepoint=name)
            self._tell(Kind.ROLLBACK, opened, back, rolled_back=True)
            return
        if is_half(item.event):
            return
        edge = StatementEdgeContext(event, number)
        self._tell(Kind.STATEMENT_START, opened, edge, rolled_back=rolled_back)
        if isinstance(event, ExecuteLoadQueryEvent):
            load = LoadQueryContext(item, number)
            self._tell(Kind.LOAD_DATA, opened, load, rolled_back=rolled_back)
        else:
            query = QueryContext(item, number)
            self._tell(Kind.STATEMENT, opened, query, rolled_back=rolled_back)
        self._tell(Kind.STATEMENT_END, opened, edge, rolled_back=rolled_back)

    def _companion(self, opened: _Open, event: Event, *, rolled_back: bool) -> None:
        if isinstance(event, (RowsQueryEvent, AnnotateRowsEvent)):
            opened.rows_query = event.sql
        elif isinstance(event, LoadBlockEvent):
            block = BlockContext(event, opened.number)
            self._tell(Kind.LOAD_DATA_BLOCK, opened, block, rolled_back=rolled_back)
        else:
            other = OtherContext(event, opened.number)
            self._tell(Kind.OTHER, opened, other, rolled_back=rolled_back)

    def _end_rows(self, opened: _Open) -> None:
        """End a statement that was logged as rows, if one has not ended."""
        if opened.statement is not None:
            edge = StatementEdgeContext(opened.statement, opened.number)
            self._tell(Kind.STATEMENT_END, opened, edge, rolled_back=opened.undone)
            opened.statement = None

    def _end(self, opened: _Open, ended: Ended) -> None:
        """The transaction was decided."""
        event = opened.last if ended.event is None else ended.event
        self._end_rows(opened)
        rolled_back = ended.kind is TransactionKind.ROLLBACK
        if rolled_back and not self.stack.wants_rollbacks:
            return
        self._start(opened, rolled_back=rolled_back)
        context = EndContext(
            event,
            opened.number,
            first=opened.first,
            gtid=None if ended.group is None else ended.group.gtid,
            prepared=None if ended.prepared is None else ended.prepared.gtid,
            xa=xa_of(opened.first, event),
        )
        kind = Kind.ROLLBACK if rolled_back else Kind.COMMIT
        self._tell(kind, opened, context, rolled_back=rolled_back)


class EventStream(Closing):
    """The events of a log, a folder, a URL or a server, given to consumers (MWL#120).

    Consumers register with one of its generators; `run` then reads the source and tells them.
    ``source`` and the arguments after it are those of `tailrace.rows`. ``also`` names generators of
    other packages (entry points of the group ``tailrace.generators``).

    Only what was committed is given, in the order of commits, but for consumers that have
    ``trx_rollback``. The changes of an XA transaction are given when it is committed.

    >>> import tailrace.generators as generators
    >>> class Count(generators.RowConsumer):
    ...     rows = 0
    ...     def event(self, event):
    ...         self.rows += event.name.startswith("row_")
    >>> counted = Count()
    >>> with generators.EventStream("examples/shop/mysql", tables="shop.reviews") as stream:
    ...     registration = stream.row.register(counted)
    ...     stream.run()
    >>> counted.rows > 0
    True
    """

    def __init__(
        self,
        source: Source,
        *,
        start: object = None,
        until: object = None,
        follow: bool = False,
        tables: str | Sequence[str] | None = None,
        exclude: str | Sequence[str] | None = None,
        schema: str | Path | None = None,
        keyring: Keyring | str | Path | None = None,
        layers: Layers | None = None,
        verify_checksums: bool = True,
        also: Iterable[str] = (),
    ) -> None:
        reading = Reading.of(
            source,
            start=start,
            until=until,
            follow=follow,
            tables=tables,
            exclude=exclude,
            schema=schema,
            keyring=keyring,
            layers=layers,
        )
        self.stack = Stack(generators(also))
        self._iteration = _LogIteration(
            reading, verify_checksums=verify_checksums, statements="error"
        )
        self._iteration.stack = self.stack
        self._running: Iterator[Any] | None = None
        self._closed = False

    @property
    def transaction(self) -> Generator:
        """The generator of transactions."""
        return self.stack["transaction"]

    @property
    def statement(self) -> Generator:
        """The generator of statements."""
        return self.stack["statement"]

    @property
    def row(self) -> Generator:
        """The generator of rows."""
        return self.stack["row"]

    @property
    def position(self) -> Position:
        """Where to resume after the transactions that all consumers have finished."""
        return self._iteration.known_position

    @property
    def gtids(self) -> GtidState | None:
        """The GTIDs after which to resume, there; None if they are not known."""
        return self._iteration.known_gtids

    def run(self) -> None:
        """Tell the consumers of all that the source has; with ``follow``, until `stop`.

        Raises what a consumer raised whose rule is to stop, and what reading raises. The position
        is then before the transaction in which that happened; the stream cannot be run again.
        """
        for _ in self:
            pass

    def __iter__(self) -> Self:
        """An iterator that tells of one transaction at each step."""
        return self

    def __next__(self) -> None:
        """Tell the consumers of the next transaction; StopIteration at the end."""
        if self._closed:
            raise StopIteration
        if self._running is None:
            self._running = self._iteration.all()
        next(self._running)

    def stop(self) -> None:
        """Let `run` return after the transaction that is being told of. Any thread may call it."""
        self._iteration.stop()

    def close(self) -> None:
        """End the reading, and release files and connections."""
        self._closed = True
        self._iteration.end()
