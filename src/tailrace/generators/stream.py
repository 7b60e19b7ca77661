"""The changes of a log, or of a server's stream, as the source of generators."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from tailrace.closing import Closing
from tailrace.errors import UsageError
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
    xa_of,
)
from tailrace.generators.stack import Stack, generators
from tailrace.log.changes import Change, Companion, Ended, Logged, RolledBack
from tailrace.log.iteration import Iteration
from tailrace.log.sources import Reading
from tailrace.log_name import file_number
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
    """The last event of a statement that has not ended: of its rows, or of its file's blocks."""
    rolled_back: bool = False
    """Whether that statement was rolled back."""
    started: bool | None = None
    """Whether its start was offered: True to all, False to those that want rollbacks."""


class _LogIteration(Iteration):
    """Offers what a log holds to a stack; gives None after each transaction."""

    stack: Stack
    numbers: Iterator[int]
    in_doubt: int = 0

    def _of_log(self) -> Iterator[None]:
        numbers = self.numbers
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
                if self.stopped:
                    return
                continue
            if opened is None:
                opened = _Open(next(numbers), first or last.event, last.event)
            opened.last = last.event
            if not isinstance(item, RolledBack):
                self._offer(opened, item, rolled_back=False)
            elif self.stack.wants_rollbacks:
                self._offer(opened, item.item, rolled_back=True)
        self.in_doubt += self.changes.prepared

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
        if isinstance(item, Change):
            self._rows(opened, item, rolled_back=rolled_back)
        elif isinstance(item, Companion):
            self._companion(opened, event, rolled_back=rolled_back)
        else:
            self._statement(opened, item, rolled_back=rolled_back)

    def _rows(self, opened: _Open, item: Change, *, rolled_back: bool) -> None:
        if opened.statement is not None and not _same_statement(opened.statement, item.event):
            self._end_statement(opened)
        self._start_statement(opened, item.event, rolled_back=rolled_back)
        rows = LogRowsContext(item, opened.number)
        self._tell(Kind.ROWS, opened, rows, rolled_back=rolled_back)
        if item.event.stmt_end:
            self._end_statement(opened)

    def _statement(self, opened: _Open, item: Logged, *, rolled_back: bool) -> None:
        event, number = item.event, opened.number
        loads = isinstance(event, ExecuteLoadQueryEvent)
        if not (loads and isinstance(opened.statement, LoadBlockEvent)):
            self._end_statement(opened)
        if rolled_back and (name := savepoint_of_rollback(event.sql)) is not None:
            back = EndContext(event, number, first=opened.first, savepoint=name)
            self._tell(Kind.ROLLBACK, opened, back, rolled_back=True)
            return
        if is_half(event):
            return
        self._start_statement(opened, event, rolled_back=rolled_back)
        if loads:
            load = LoadQueryContext(item, number)
            self._tell(Kind.LOAD_DATA, opened, load, rolled_back=rolled_back)
        else:
            query = QueryContext(item, number)
            self._tell(Kind.STATEMENT, opened, query, rolled_back=rolled_back)
        self._end_statement(opened)

    def _companion(self, opened: _Open, event: Event, *, rolled_back: bool) -> None:
        if isinstance(event, (RowsQueryEvent, AnnotateRowsEvent)):
            self._end_statement(opened)
            opened.rows_query = event.sql
        elif isinstance(event, LoadBlockEvent):
            if not isinstance(opened.statement, LoadBlockEvent):
                self._end_statement(opened)
            self._start_statement(opened, event, rolled_back=rolled_back)
            block = BlockContext(event, opened.number)
            self._tell(Kind.LOAD_DATA_BLOCK, opened, block, rolled_back=rolled_back)
        else:
            other = OtherContext(event, opened.number)
            self._tell(Kind.OTHER, opened, other, rolled_back=rolled_back)

    def _start_statement(self, opened: _Open, event: Event, *, rolled_back: bool) -> None:
        """An event belongs to a statement, which starts if it has not."""
        if opened.statement is None:
            edge = StatementEdgeContext(event, opened.number, opened.rows_query)
            opened.rows_query = None
            self._tell(Kind.STATEMENT_START, opened, edge, rolled_back=rolled_back)
        opened.statement, opened.rolled_back = event, rolled_back

    def _end_statement(self, opened: _Open) -> None:
        """End the statement that has not ended, if there is one."""
        if opened.statement is not None:
            edge = StatementEdgeContext(opened.statement, opened.number)
            self._tell(Kind.STATEMENT_END, opened, edge, rolled_back=opened.rolled_back)
            opened.statement = None

    def _end(self, opened: _Open, ended: Ended) -> None:
        """The transaction was decided."""
        event = opened.last if ended.event is None else ended.event
        self._end_statement(opened)
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


def _same_statement(before: Event, rows: RowsEvent) -> bool:
    """Whether rows belong to the statement of an event before them.

    A statement's table maps come before all of its rows. Its last rows event, which is flagged, is
    not seen if it is of a table that is not wanted.
    """
    return isinstance(before, RowsEvent) and _place(rows.table_map) < _place(before)


def _place(event: Event) -> tuple[int, int, int]:
    number = file_number(event.file or "") or 0
    return number, event.offset or 0, event.inner_index or 0


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
        self._iteration.numbers = count(1)
        self._running: Iterator[Any] | None = None
        self._closed = False
        self._failed = False

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

    @property
    def in_doubt(self) -> int:
        """XA transactions that were still prepared at the end: their changes were not given."""
        return self._iteration.in_doubt

    def run(self) -> None:
        """Tell the consumers of all that the source has; with ``follow``, until `stop`.

        Raises what a consumer raised whose rule is to stop, and what reading raises. The position
        is then before the transaction in which that happened; the stream cannot be run again:
        UsageError.
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
        if self._failed:
            raise UsageError(
                f"this stream ended with an error: open one that starts at {self.position}"
            )
        if self._running is None:
            self._running = self._iteration.all()
        try:
            next(self._running)
        except StopIteration:
            raise
        except BaseException:
            self._failed = True
            raise

    def stop(self) -> None:
        """Let `run` return after the transaction that is being told of. Any thread may call it."""
        self._iteration.stop()

    def close(self) -> None:
        """End the reading, and release files and connections."""
        self._closed = True
        self._iteration.end()
