"""A recorded log written anew by Tailrace's writer: its rows through objects, or through Arrow."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

import tailrace
from tailrace.columns import changes
from tailrace.constants import EventFlag
from tailrace.events import GtidEvent, QueryEvent, RowsEvent, TransactionPayloadEvent
from tailrace.schema import Catalogue
from tailrace.schema.table import Table
from tailrace.transaction import Transaction, TransactionKind
from tailrace.values.encode import RowEncoder, RowImage
from tailrace.values.row import RowSet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tailrace.events import Event
    from tailrace.storage import LogSeries
    from tailrace.values.row import Row
    from tailrace.writing.log import LogWriter
    from tailrace.writing.transaction import TransactionWriter

Form = Literal["rows", "dicts", "tuples", "arrow"]
"""What is given to the writer: what a log gave, or plain Python, or Arrow."""

_FRAME: Final = frozenset({b"BEGIN", b"COMMIT"})
_BY_CALLS: Final = frozenset({TransactionKind.COMMIT, TransactionKind.STANDALONE})


@dataclass
class Copier:
    """Writes the transactions of a recorded log to ``log``.

    Rows are decoded, and go through `TransactionWriter.insert`, `update` and `delete` in the given
    ``form``; statements through `query`. What no caller makes in that way (XA, a group that ends in
    ROLLBACK, see `_by_calls`) is handed over event by event: `LogWriter.write_transaction`, with
    the rows of each event encoded again, and without its GTID of MySQL's unless ``keep_gtids``.
    ``counts`` says how many of each there were. With ``transaction`` a transaction of the log is
    begun. ``without_transactions`` are tables (database, name) of such engines.
    """

    log: LogWriter
    form: Form
    transaction: Callable[[], TransactionWriter]
    keep_gtids: bool = True
    without_transactions: Collection[tuple[str, str]] = ()
    counts: Counter[str] = field(default_factory=Counter)
    _catalogue: Catalogue = field(default_factory=Catalogue)
    _tables: dict[Any, Table] = field(default_factory=dict)

    def copy(self, series: LogSeries) -> None:
        """Write all that is in these files."""
        runs = Runs(series) if self.form == "arrow" else None
        with tailrace.open(series) as log:
            for transaction in log.transactions():
                if runs is not None:
                    self._by_arrow(transaction, runs)
                else:
                    self._by_objects(transaction)
        if runs is not None and runs.left:
            raise AssertionError(f"{runs.left} runs of changes belong to no transaction")

    def _by_objects(self, transaction: Transaction) -> None:
        events = list(transaction.all_events())
        queries = [event for event in events if isinstance(event, QueryEvent)]
        statements = list(_statements(events))
        if transaction.kind is TransactionKind.DDL and len(queries) == 1:
            self._definition(queries[0])
        elif _by_calls(transaction, queries, statements):
            with self.transaction() as trx:
                for statement in statements:
                    if isinstance(statement, QueryEvent):
                        _query(trx, statement)
                    else:
                        self._rows(trx, statement)
            self.counts["transactions"] += 1
        else:
            events = transaction.events
            if not self.keep_gtids and isinstance(events[0], GtidEvent):
                events = events[1:]
            self.log.write_transaction(self._again(event) for event in events)
            self.counts["transactions as events"] += 1

    def _definition(self, query: QueryEvent) -> None:
        with self.transaction() as trx:
            _query(trx, query)
        self._catalogue.apply_event(query, self.log.flavour)
        self.counts["definitions"] += 1

    def _rows(self, trx: TransactionWriter, events: list[RowsEvent]) -> None:
        """One statement's rows."""
        schema = self._catalogue.resolve(events[0].table_map, self.log.flavour)
        table = self._tables.get(schema)
        if table is None:
            table = self._tables[schema] = Table.of_map(events[0].table_map, schema=schema)
        rows = [row for event in events for row in RowSet(event, schema)]
        before, after = ([self._given(row, side) for row in rows] for side in ("before", "after"))
        if events[0].kind == "insert":
            trx.insert(table, after)
        elif events[0].kind == "delete":
            trx.delete(table, before)
        else:
            trx.update(table, before, after)
        self.counts[f"rows as {self.form}"] += len(rows)

    def _again(self, event: Event) -> Event:
        """The event with its rows, those of a payload, too, decoded and encoded again."""
        if isinstance(event, TransactionPayloadEvent) and self.form != "rows":
            return TransactionPayloadEvent.of(self._again(inner) for inner in event)
        if not isinstance(event, RowsEvent) or event.is_dummy or self.form == "rows":
            return event
        schema = self._catalogue.resolve(event.table_map, self.log.flavour)
        encoder = RowEncoder(schema, RowImage.FULL)
        rows = list(RowSet(event, schema))
        before, after = ([self._given(row, side) for row in rows] for side in ("before", "after"))
        if event.kind == "insert":
            groups = encoder.insert(after)
        elif event.kind == "delete":
            groups = encoder.delete(before)
        else:
            groups = encoder.update(before, after)
        data = b"".join(image for group in groups for image in group.images)
        self.counts[f"rows as {self.form}, in events"] += len(rows)
        return event.replace(row_data=data)

    def _given(self, row: Row, side: str) -> Any:
        image = getattr(row, side)
        if image is None or self.form == "rows":
            return image
        return image.as_tuple() if self.form == "tuples" else image.as_dict()

    # --- Arrow -----------------------------------------------------------------------------------

    def _by_arrow(self, transaction: Transaction, runs: Runs) -> None:
        """The changes that the column path decoded of it; definitions as ever."""
        mine = runs.within(transaction)
        if transaction.kind is TransactionKind.DDL:
            (query,) = (event for event in transaction.events if isinstance(event, QueryEvent))
            self._definition(query)
        for together in self._together(mine):
            with self.transaction() as trx:
                for run in together:
                    self._run(trx, run)
            self.counts["transactions"] += 1

    def _together(self, runs: list[Run]) -> list[list[Run]]:
        """Runs by transaction: each is a statement, and commits on a table without transactions."""
        if any((run.database, run.table) in self.without_transactions for run in runs):
            return [[run] for run in runs]
        return [runs] if runs else []

    def _run(self, trx: TransactionWriter, run: Run) -> None:
        table = self._table(run.database, run.table)
        before, after = run.images("before"), run.images("after")
        if run.raw:
            self.counts["rows as dicts, no Arrow type holding them"] += run.rows.num_rows
            given_before, given_after = run.dicts("before"), run.dicts("after")
        else:
            self.counts["rows as arrow"] += run.rows.num_rows
            given_before, given_after = before, after
        if run.operation == "insert":
            trx.insert(table, given_after)
        elif run.operation == "delete":
            trx.delete(table, given_before)
        else:
            trx.update(table, given_before, given_after)

    def _table(self, database: str, name: str) -> Table:
        definition = self._catalogue.lookup(database, name)
        if definition is None:
            raise AssertionError(f"no DDL of {database}.{name} in the log")
        table = self._tables.get(definition)
        if table is None:
            table = self._tables[definition] = Table.of(definition, self.log.flavour)
        return table


@dataclass
class Run:
    """Consecutive changes of one table and operation within one rows event."""

    database: str
    table: str
    operation: str
    file: str
    position: int
    rows: pa.RecordBatch

    @property
    def raw(self) -> bool:
        """Whether a value is not in its column but in ``_raw``, which no Arrow type holds."""
        return bool(self.rows.column("_raw").null_count < self.rows.num_rows)

    def images(self, side: str) -> pa.RecordBatch:
        """The table's columns, before or after."""
        return pa.RecordBatch.from_struct_array(self.rows.column(side))

    def dicts(self, side: str) -> list[dict[str, Any]]:
        """The same as dictionaries, with the texts of ``_raw``."""
        found: list[dict[str, Any]] = self.images(side).to_pylist()
        for image, raw in zip(found, self.rows.column("_raw").to_pylist(), strict=True):
            for name, text in raw or ():
                of, _, column = name.partition(".")
                if of == side:
                    image[column] = text
        return found


class Runs:
    """All changes of a log as the column path decodes them, in the log's order."""

    def __init__(self, series: LogSeries) -> None:
        batches = list(changes(series, statements="skip"))
        order: list[tuple[int, int, int]] = []
        for number, batch in enumerate(batches):
            order += [
                (int(seq), number, row) for row, seq in enumerate(batch.column("_seq").to_pylist())
            ]
        order.sort()
        self._files = [file.name for file in series.files]
        self._runs = list(_runs(batches, order))
        self._at = 0

    @property
    def left(self) -> int:
        """How many have not been given."""
        return len(self._runs) - self._at

    def within(self, transaction: Transaction) -> list[Run]:
        """The next runs, as far as they lie in this transaction."""
        start, end = transaction.start, transaction.end
        assert start is not None
        assert end is not None
        found = []
        while self.left:
            run = self._runs[self._at]
            place = self._files.index(run.file), run.position
            if place >= (self._files.index(end.file), end.offset):
                break
            found.append(run)
            self._at += 1
        return found


def _runs(batches: list[pa.RecordBatch], order: list[tuple[int, int, int]]) -> Iterator[Run]:
    """Rows of one batch, operation and event that follow each other, with ``_raw`` or without."""
    heads: dict[int, list[tuple[Any, ...]]] = {}
    for number, batch in enumerate(batches):
        names = ("_db", "_table", "_op", "_file", "_pos")
        columns = [batch.column(name).to_pylist() for name in names]
        heads[number] = list(
            zip(*columns, batch.column("_raw").is_valid().to_pylist(), strict=True)
        )
    for (number, head), group in itertools.groupby(
        order, key=lambda each: (each[1], heads[each[1]][each[2]])
    ):
        rows = [row for _, _, row in group]
        database, table, operation, file, position, _ = head
        taken = batches[number].take(pa.array(rows, pa.int64()))
        yield Run(database, table, operation, file, position, taken)


def _statements(events: list[Event]) -> Iterator[QueryEvent | list[RowsEvent]]:
    """Savepoints and the like, and rows: those of one kind and table that follow each other."""
    held: list[RowsEvent] = []
    for event in events:
        if isinstance(event, RowsEvent) and not event.is_dummy:
            if held and (event.kind, event.table_id) != (held[0].kind, held[0].table_id):
                yield held
                held = []
            held.append(event)
            if event.stmt_end:
                yield held
                held = []
        elif isinstance(event, QueryEvent) and event.sql_bytes not in _FRAME:
            yield event


def _by_calls(
    transaction: Transaction,
    queries: list[QueryEvent],
    statements: list[QueryEvent | list[RowsEvent]],
) -> bool:
    """Whether the writer's calls make such a transaction: of rows, and one kind in a statement.

    A REPLACE inserts and updates at once. As two statements, on tables without transactions, they
    commit twice, which no GTID allows.
    """
    return (
        transaction.kind in _BY_CALLS
        and any(isinstance(each, list) for each in statements)
        and all(isinstance(each, QueryEvent) or each[-1].stmt_end for each in statements)
        and not any(query.sql_bytes.startswith(b"XA ") for query in queries)
    )


def _query(trx: TransactionWriter, event: QueryEvent) -> None:
    """The statement in its session; CREATE DATABASE says not to go to its database first."""
    used = not event.header.flags & EventFlag.SUPPRESS_USE
    status = dict(event.status_variables.values)
    trx.query(event.sql_bytes, event.database if used else "", status=status)
