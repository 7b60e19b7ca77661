"""Committed rows and transactions as Python objects: `rows`, `transactions`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from tailrace.arguments import checked
from tailrace.log.changes import Change, Ended, Logged
from tailrace.log.iteration import Iteration, end_of
from tailrace.log.reader import Step, is_over
from tailrace.log.results import Results
from tailrace.log.sources import Reading
from tailrace.log_name import file_number
from tailrace.position import Position, sequence
from tailrace.schema.classify import classify
from tailrace.schema.session import is_half
from tailrace.table_name import TableName
from tailrace.transaction import Boundary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from tailrace.gtid import GtidState
    from tailrace.log.reader import TransactionHead
    from tailrace.log.sources import Source
    from tailrace.schema.catalogue import Catalogue
    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers
    from tailrace.values.image import Image
    from tailrace.values.row import Row

_T = TypeVar("_T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ChangedRow:
    """One row that a committed transaction inserted, updated or deleted.

    ``row`` has the images with each column's `Value`, ``position`` is where to resume once this
    row was dealt with: the end of its transaction for the last row of it, else where the
    transaction, or an earlier one that is not over, begins. Reading from there gives the rest, and
    the rows before it in the same transaction again.
    """

    def __init__(self, row: Row, change: Change, position: Position) -> None:
        self.row = row
        self.position = position
        self._change = change

    @property
    def operation(self) -> Literal["insert", "update", "delete"]:
        """``insert``, ``update`` or ``delete``."""
        return self._change.event.kind

    @property
    def database(self) -> str:
        """The database's name."""
        return self._change.schema.database

    @property
    def table(self) -> str:
        """The table's name, without the database."""
        return self._change.schema.table

    @cached_property
    def before(self) -> dict[str, Any] | None:
        """The row before an update or delete, by column names; None for an insert.

        A column that the image lacks (``binlog_row_image=MINIMAL``) is not in it.
        """
        return _values(self.row.before)

    @cached_property
    def after(self) -> dict[str, Any] | None:
        """The row after an insert or update; None for a delete."""
        return _values(self.row.after)

    @property
    def values(self) -> dict[str, Any]:
        """The row after the change, or, for a delete, before it."""
        return (self.before if self.after is None else self.after) or {}

    def __getitem__(self, column: str) -> Any:
        """A column's value in ``values``. Raises UnknownColumn."""
        values = self.values
        return values[column] if column in values else self.row.image.value(column)

    @property
    def gtid(self) -> str | None:
        """The transaction's GTID as text; None if it has none."""
        return self._change.group.gtid

    @property
    def timestamp(self) -> datetime:
        """When the transaction was committed, in UTC, with microseconds where the log has them."""
        return _moment(self._change.group.time_of(self._change.event))

    @property
    def server_id(self) -> int:
        """The id of the server where the change was made."""
        return self._change.event.header.server_id

    @property
    def logged_at(self) -> Position:
        """Where the row's event begins in the log."""
        return Position(self._change.event.file or "", self._change.event.offset or 0)

    @property
    def sequence(self) -> int:
        """The number that orders all rows of a log: ``_seq`` of the change record."""
        at = self.logged_at
        return sequence(file_number(at.file) or 0, at.offset, self._change.first + self.row.number)

    def __repr__(self) -> str:
        return (
            f"ChangedRow({self.operation} {TableName(self.database, self.table)},"
            f" before={self.before!r}, after={self.after!r}, position={str(self.position)!r})"
        )

    def _repr_html_(self) -> str:
        """Its transaction and its columns, for a notebook."""
        from tailrace.notebook import pairs  # noqa: PLC0415 - in notebooks only

        shown = [
            ("timestamp", f"{self.timestamp:%Y-%m-%d %H:%M:%S.%f} UTC"),
            ("gtid", self.gtid or ""),
            ("logged_at", str(self.logged_at)),
            ("position", str(self.position)),
        ]
        return pairs("Committed row", shown) + self.row._repr_html_()


def _values(image: Image | None) -> dict[str, Any] | None:
    return None if image is None else image.as_dict()


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


@dataclass(slots=True)
class CommittedTransaction:
    """A committed transaction: its rows, and the statements that were logged as such, like DDL.

    ``start`` is where it begins, ``position`` where to resume after it, ``gtid`` its GTID as text
    (None if it has none), ``timestamp`` when it was committed (UTC). An XA transaction of files is
    given when it was prepared, that of a server or of a followed log when it was committed.
    """

    start: Position
    position: Position
    gtid: str | None
    timestamp: datetime
    rows: list[ChangedRow] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)

    def _repr_html_(self) -> str:
        """Where it is, its first rows and statements, for a notebook."""
        from tailrace.notebook import table  # noqa: PLC0415 - in notebooks only

        title = (
            f"Transaction {self.gtid or ''}, {self.start} to {self.position},"
            f" {self.timestamp:%Y-%m-%d %H:%M:%S.%f} UTC"
        )
        rows = (
            (row.operation, str(TableName(row.database, row.table)), row.values)
            for row in self.rows
        )
        shown = table(title, ("operation", "table", "values"), rows, total=len(self.rows))
        if not self.statements:
            return shown
        statements = ((statement,) for statement in self.statements)
        return shown + table("", ("statement",), statements, total=len(self.statements))


class _RowIteration(Iteration):
    """Gives rows."""

    def _of_log(self) -> Iterator[ChangedRow]:
        changes = self.changes
        end: Position | None = None
        held: tuple[Row, Change] | None = None  # a row is given once it is known if it is the last
        for step in self._reader:
            self._feed(step)
            for change in changes.feed(step):
                for row in change.rows():
                    if held is not None:
                        yield ChangedRow(*held, self.position)
                    held = row, change
            if is_over(step) or step.boundary is Boundary.OUTSIDE:
                resume = self._resume_after(step)
                if held is not None:
                    last, held = ChangedRow(*held, resume), None
                    yield last
                self._advance(resume, ended=is_over(step))
                end = end_of(step)
            del step  # before the next is read: its event may be large
        for change in changes.finish():  # of a server: what is prepared only
            for row in change.rows():
                yield ChangedRow(row, change, self.position)
        if end is not None:
            self._advance(end)


class CommittedItem(NamedTuple):
    """What a committed transaction did, or its end.

    ``item`` are the rows of one event, a statement that changes no rows (DDL), or the end of a
    transaction, after which ``resume`` says where to resume. ``read`` is how far the log was read
    when the item was given; for an XA transaction that is its commit, not its PREPARE.
    """

    item: Change | Logged | Ended
    read: Position
    resume: Position | None = None


class _ItemIteration(Iteration):
    """Gives the rows of each event, the statements, and where transactions end."""

    def _of_log(self) -> Iterator[Any]:
        self.changes.leave_out_in_doubt()
        return self._items()

    def _items(self) -> Iterator[Any]:
        changes = self.changes
        last: Step | None = None

        def steps() -> Iterator[Step]:
            nonlocal last
            for step in self._reader:
                self._feed(step)
                last = step
                yield step
                if step.boundary is Boundary.OUTSIDE:
                    self._advance(self._resume_after(step), ended=False)

        for item in changes.with_others(steps()):
            if isinstance(item, Logged):
                if classify(item.event.sql).changes_rows:
                    changes.rows_not_logged(item.event)
                    continue
                if is_half(item.event):
                    continue
            if last is None:
                continue
            if isinstance(item, Ended):
                resume = self._resume_after(last)
                yield self._given(CommittedItem(item, end_of(last), resume), last)
                self._advance(resume)
            else:
                yield self._given(CommittedItem(item, end_of(last)), last)

    def _given(self, item: CommittedItem, _last: Step) -> Any:
        """What iterating gives for an item."""
        return item


class _TransactionIteration(_ItemIteration):
    """Gives transactions."""

    def _of_log(self) -> Iterator[CommittedTransaction]:
        rows: list[tuple[Row, Change]] = []
        statements: list[str] = []
        head: TransactionHead | None = None
        for (item, _, resume), last in self._items():
            if isinstance(item, Change):
                rows += [(row, item) for row in item.rows()]
                head = item.group
            elif isinstance(item, Logged):
                statements.append(item.event.sql)
                head = item.group or head
            else:
                if resume is not None and head is not None and (rows or statements):
                    yield _transaction(head, resume, last, rows, statements)
                rows, statements, head = [], [], None

    def _given(self, item: CommittedItem, last: Step) -> Any:
        return item, last


def _transaction(
    head: TransactionHead,
    resume: Position,
    last: Step,
    rows: Iterable[tuple[Row, Change]],
    statements: list[str],
) -> CommittedTransaction:
    return CommittedTransaction(
        head.start,
        resume,
        head.gtid,
        _moment(head.time_of(last.event)),
        [ChangedRow(row, change, resume) for row, change in rows],
        statements,
    )


class CommittedItems(Results[_T]):
    """What was committed in a log, given while one iterates, and how far it was read."""

    def __init__(self, iteration: Iteration) -> None:
        self._iteration = iteration
        super().__init__(iteration.all(), iteration.end)

    @property
    def position(self) -> Position:
        """Where to resume after all that was taken: every ``start`` takes it, and its text."""
        return self._iteration.known_position

    @property
    def gtids(self) -> GtidState | None:
        """The GTIDs after which to resume, there or at another server; None if they are not known:
        of a server, until its log lists them.
        """
        return self._iteration.known_gtids

    @property
    def skipped_statements(self) -> int:
        """Statements that changed rows, and were passed over with ``statements="skip"``."""
        return self._iteration.changes.skipped_statements


class Rows(CommittedItems[ChangedRow]):
    """Iterates over the committed rows of a log, as `ChangedRow`: see `rows`."""


class Transactions(CommittedItems[CommittedTransaction]):
    """Iterates over the committed transactions of a log, as `CommittedTransaction`: see
    `transactions`.
    """


class Items(CommittedItems[CommittedItem]):
    """Iterates over what was committed in a log, as `CommittedItem`: see `items`."""

    @property
    def definitions(self) -> Catalogue:
        """The tables as they are defined where reading is, with what is added before it begins."""
        return self._iteration.definitions

    @property
    def in_doubt(self) -> int:
        """How many XA transactions were prepared, and had no end yet when it ended."""
        return self._iteration.changes.prepared

    def stop(self) -> None:
        """Let it end after the transaction that is being read; any thread may call this."""
        self._iteration.stop()


@checked
def rows(
    source: Source,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    follow: bool = False,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
) -> Rows:
    """Iterate over the rows that were committed and not rolled back, as objects, in the log's
    order.

    ``source`` is a file, a folder of logs, an index, a URL (``mysql://user@host`` of a server,
    ``s3://…``, ``memory:name``, …), ``-`` for standard input, a transport, or a list of these,
    which are read one after the other. ``start`` and ``until`` limit what is read: a position
    (``binlog.000003:1234``), a file, a time (``2026-11-21T09:30:00``, UTC unless it names a zone),
    GTIDs that were read before (``uuid:1-77``, ``0-1-77``), or ``now``, as objects or as text.
    Reading begins with the first transaction at or after ``start``, and ends before the first one
    at or after ``until``; with GTIDs it ends once all of them were read. ``follow`` waits at the
    log's end for more.

    ``tables`` are one or several patterns (``shop.*``) of the wanted tables, ``exclude`` of those
    to leave out. ``schema`` is an SQL file of CREATE TABLE statements, for logs that name no
    columns, ``keyring`` has the keys of encrypted logs, ``layers`` are on the files (``zstd``).
    Changes that were logged as statements have no rows: they are a StatementChange, or are passed
    over with ``statements="skip"``.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    Raises UsageError in this call for arguments that do not fit, StorageError if there is no log,
    GtidError for GTIDs that it no longer holds. Iterating raises LogError and its kinds for errors
    in the log, ServerError and ConnectionLost for a server's.

    >>> import tailrace
    >>> with tailrace.rows("examples/shop/mysql", tables="shop.reviews") as rows:
    ...     row = next(rows)
    >>> row.operation, row.table, row.before, row.after["id"]
    ('insert', 'reviews', None, 1)
    >>> later = tailrace.rows("examples/shop/mysql", start=str(row.position))
    >>> next(later).position > row.position
    True
    """
    reading = Reading.of(
        source,
        start=start,
        until=until,
        follow=follow,
        tables=tables,
        exclude=exclude,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers,
    )
    return Rows(_RowIteration(reading, verify_checksums=verify_checksums, statements=statements))


@checked
def transactions(
    source: Source,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    follow: bool = False,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
) -> Transactions:
    """Iterate over committed transactions, each with its rows and its logged statements (DDL).

    Arguments and errors are those of `rows`. With ``tables`` a transaction has the rows of these
    tables only, and one that has none of them, and no statement, is left out. All rows of a
    transaction are in memory at the same time; `rows` gives them one by one.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    >>> import tailrace
    >>> with tailrace.transactions("examples/shop/mysql") as found:
    ...     first = next(found)
    >>> first.statements, first.rows, str(first.position)
    (['CREATE DATABASE shop CHARACTER SET utf8mb4'], [], 'binlog.000001:365')
    """
    reading = Reading.of(
        source,
        start=start,
        until=until,
        follow=follow,
        tables=tables,
        exclude=exclude,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers,
    )
    return Transactions(
        _TransactionIteration(reading, verify_checksums=verify_checksums, statements=statements)
    )


def items(
    source: Source,
    *,
    start: Bound | None = None,
    until: Bound | None = None,
    follow: bool = False,
    tables: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    schema: str | Path | None = None,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    lower_case_table_names: LowerCase = None,
    verify_checksums: bool = True,
    statements: Literal["error", "skip"] = "error",
) -> Items:
    """Iterate over what was committed in a log: rows events, statements, ends of transactions.

    Arguments and errors are those of `rows`. A transaction is never in memory as a whole: what is
    larger than 64 MiB waits on disk until its end is read. So a program can take part of a
    transaction in, and decide at its end. XA transactions that are in doubt at the log's end are
    not given: reading on from ``resume`` gives them when they are committed.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    >>> from tailrace.log.rows import items
    >>> found = items("examples/shop/mysql")
    >>> [type(next(found).item).__name__ for _ in range(4)]
    ['Logged', 'Ended', 'Logged', 'Ended']
    """
    reading = Reading.of(
        source,
        start=start,
        until=until,
        follow=follow,
        tables=tables,
        exclude=exclude,
        schema=schema,
        lower_case_table_names=lower_case_table_names,
        keyring=keyring,
        layers=layers,
    )
    return Items(_ItemIteration(reading, verify_checksums=verify_checksums, statements=statements))
