"""`local`: a program's own transactions, as a source of generators (MWL#120)."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from itertools import count
from threading import RLock
from threading import local as local_to_thread
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from tailrace.arguments import checked
from tailrace.constants import Flavour
from tailrace.errors import BoundaryError, UsageError
from tailrace.generators.source import EventSource
from tailrace.generators.stack import Stack, generators
from tailrace.log.changes import Logged
from tailrace.schema.tokens import quoted_name
from tailrace.transaction.committed import Savepoints
from tailrace.transaction.statements import (
    savepoint_of_rollback,
    savepoint_released,
    savepoint_set,
    xa_end,
)
from tailrace.writing.cache import EventCache, MadeEvents
from tailrace.writing.create import create, dialect_of, writer_options
from tailrace.writing.local_events import CachedItems, LocalOffers, StatementFacts
from tailrace.writing.log import LogWriter, now_us
from tailrace.writing.rows import WrittenTable
from tailrace.writing.transaction import TransactionWriter, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tailrace.events import Event, StatusVariable
    from tailrace.events.transaction import XaName
    from tailrace.generators.generator import Generator
    from tailrace.gtid import AnyGtid, GtidState
    from tailrace.position import Position
    from tailrace.schema.table import Table
    from tailrace.storage.target import Target
    from tailrace.values.schema import TableSchema
    from tailrace.writing.cache import Group
    from tailrace.writing.create import CreateOptions
    from tailrace.writing.dialect import Dialect
    from tailrace.writing.gtids import AskedGtid
    from tailrace.writing.options import TransactionOptions, WriterOptions
    from tailrace.writing.transaction import TransactionLog

_NO_STATEMENT: Final = StatementFacts()


@checked
def local(
    log: LogWriter | Target | None = None,
    *,
    flavour: Flavour | str = Flavour.MYSQL,
    server_id: int = 1,
    server_version: str | None = None,
    server_uuid: str | None = None,
    domain_id: int = 0,
    gtids: GtidState | str | None = None,
    non_transactional: Iterable[Table] = (),
    also: Iterable[str] = (),
    now: Callable[[], int] = now_us,
    **options: Unpack[CreateOptions],
) -> LocalServer:
    """A source of generators whose transactions the program makes itself.

    Consumers register with its generators, as with those of an `EventStream`. With a ``log`` each
    transaction is written to it when it is committed, and consumers are told of the commit after
    that: ``log`` is a `LogWriter` (of `create` or `append`), or the place of a new log, as for
    `create`, which `LocalServer.close` closes. Then replicas can follow it (`serve`).

    Without a ``log``, and for a new one, ``flavour``, ``server_id``, ``server_version``,
    ``server_uuid``, ``domain_id``, ``gtids``, ``now`` and ``options`` are those of `create`: they
    decide the GTIDs and time stamps. A `LogWriter` has its own.

    ``non_transactional`` are the tables without transactions: events tell which sorts took part.
    ``also`` names generators of other packages.

    Raises UsageError, and what `create` raises.

    >>> import tailrace, tailrace.generators as generators
    >>> class Printed(generators.RowConsumer):
    ...     def event(self, event):
    ...         print(event.local_transaction_id, event.name)
    >>> orders = tailrace.Table("shop.orders", "id INT PRIMARY KEY, total DECIMAL(10,2)")
    >>> with tailrace.local() as server:
    ...     registration = server.row.register(Printed())
    ...     with server.transaction() as transaction:
    ...         transaction.insert(orders, [(1, "9.50")])
    1 trx_start
    1 stmt_start
    1 row_write
    1 stmt_end
    1 trx_commit
    """
    given: dict[str, Any] = {
        "flavour": flavour,
        "server_id": server_id,
        "server_version": server_version,
        "server_uuid": server_uuid,
        "domain_id": domain_id,
        "gtids": gtids,
    }
    stack = Stack(generators(also))
    target: TransactionLog
    if isinstance(log, LogWriter):
        if options or (server_version, server_uuid, gtids) != (None, None, None):
            raise UsageError("a log that is open has its own server, GTIDs and options")
        target = log
    elif log is None:
        dialect = dialect_of(**given)
        target = _NoLog(dialect, writer_options(options, dialect.form.flavour), server_id, now)
    else:
        target = create(log, now=now, **given, **options)
    owned = target if isinstance(target, LogWriter) and target is not log else None
    return LocalServer(stack, target, frozenset(non_transactional), owned)


class _NoLog:
    """Decides GTIDs and time stamps of transactions that are written nowhere."""

    def __init__(
        self, dialect: Dialect, options: WriterOptions, server_id: int, now: Callable[[], int]
    ) -> None:
        self.dialect = dialect
        self.options = options
        self.server_id = server_id
        self.now = now
        self.made = MadeEvents()
        self._lock = RLock()
        self._tables: dict[Table, WrittenTable] = {}
        self._xids = count(1)

    @property
    def flavour(self) -> Flavour:
        return self.dialect.form.flavour

    def choose_gtid(self, gtid: AskedGtid, **source: Any) -> AnyGtid | None:
        with self._lock:
            return self.dialect.gtids.choose(gtid, **source)

    def table(self, table: Table, /) -> WrittenTable:
        with self._lock:
            known = self._tables.get(table)
            if known is None:
                number = len(self._tables) + 1
                known = WrittenTable.of(table, number, self.options, self.dialect.form)
                self._tables[table] = known
            return known

    def cache(self) -> EventCache:
        return EventCache(self.options.cache_limit)

    def next_xid(self) -> int:
        return next(self._xids)

    def write_group(self, group: Group, ready: Callable[[Group], None] | None, /) -> None:
        with self._lock:
            if ready is not None:
                ready(group)
            size = group.cache.size
            group.head = self.dialect.gtid_event(group, size, tail=0, now=self.now())
            self.dialect.placed(group)
            self.dialect.wrote(group)

    def announce(self, group: Group, /) -> None:
        if group.failure is not None:
            raise group.failure

    def rolled_back(self, error: BaseException | None = None, /) -> None:
        pass


class LocalServer(EventSource):
    """A program's transactions, told to consumers and written to a log. Made by `local`.

    Any thread may start transactions; each transaction is used by one thread at a time. Changes
    are told in two ways. A consumer that has ``trx_rollback`` is told of each statement when it is
    made: transactions interleave, and their local ids tell them apart. Any other consumer is told
    of a whole transaction when it is committed, one transaction after the other in the order of the
    log, and of nothing that was rolled back; until then its events are held as a log's are
    (``cache_limit`` in memory, the rest in a temporary file). One that has ``trx_rollback`` is told
    in the second way if it is registered with ``rollbacks=False``.

    When a consumer stops the stream, the call that told it raises its error, and nothing more is
    taken: what is open is rolled back, and every later call raises UsageError. If that was at a
    commit, the transaction is in the log nevertheless.
    """

    is_local: ClassVar[bool] = True

    def __init__(
        self,
        stack: Stack,
        log: TransactionLog,
        non_transactional: frozenset[Table],
        owned: LogWriter | None,
    ) -> None:
        super().__init__(stack)
        self.log = log
        self.non_transactional = non_transactional
        self.numbers = count(1)
        self.failure: BaseException | None = None
        """What a consumer raised that stopped the stream."""
        self._owned = owned
        self._open: set[LocalTransaction] = set()
        self._lock = RLock()
        self._closed = False
        self._here = local_to_thread()
        """``waiting``: transactions to commit when consumers were told; None if none is told."""

    @property
    def transactions(self) -> Generator:
        """The generator of transactions; `transaction` starts one."""
        return self.stack["transaction"]

    # --- transactions ----------------------------------------------------------------------------

    def transaction(
        self,
        gtid: AskedGtid = None,
        *,
        xa: XaName | None = None,
        **given: Unpack[TransactionOptions],
    ) -> LocalTransaction:
        """A transaction to be filled, as a context manager: its end commits, an error rolls back.

        ``xa`` is the name of an XA transaction, for the consumers; in the log it is an ordinary
        one. The other arguments are those of `LogWriter.transaction`.
        """
        return self._started(gtid, xa=xa, is_autocommit=False, **given)

    def _started(self, gtid: AskedGtid = None, **given: Any) -> LocalTransaction:
        self.check()
        return LocalTransaction(self, gtid, **given)

    def insert(self, table: Table, rows: Iterable[Any], **given: Any) -> None:
        """`LocalTransaction.insert` as a transaction that commits itself."""
        with self._started(is_autocommit=True) as made:
            made.insert(table, rows, **given)

    def update(
        self, table: Table, before: Iterable[Any], after: Iterable[Any] | None = None, **given: Any
    ) -> None:
        """`LocalTransaction.update` as a transaction that commits itself."""
        with self._started(is_autocommit=True) as made:
            made.update(table, before, after, **given)

    def delete(self, table: Table, rows: Iterable[Any], **given: Any) -> None:
        """`LocalTransaction.delete` as a transaction that commits itself."""
        with self._started(is_autocommit=True) as made:
            made.delete(table, rows, **given)

    def query(self, sql: str | bytes, database: str = "", **given: Any) -> None:
        """`LocalTransaction.query` as a transaction that commits itself."""
        with self._started(is_autocommit=True) as made:
            made.query(sql, database, **given)

    # --- for the transactions --------------------------------------------------------------------

    def check(self) -> None:
        """Raises UsageError if nothing more is taken."""
        if self._closed:
            raise UsageError("the local server is closed")
        if self.failure is not None:
            raise UsageError(f"a consumer stopped the stream: {self.failure}") from self.failure

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What a consumer raises inside stops the stream.

        What consumers commit meanwhile, in this thread, is committed at the end: all are told of
        one commit before the next.
        """
        self.check()
        waiting = getattr(self._here, "waiting", None)
        self._here.waiting = [] if waiting is None else waiting
        try:
            yield
            while waiting is None and self._here.waiting:
                self._here.waiting.pop(0).commit_now()
        except BaseException as error:
            self.failure = error
            raise
        finally:
            left, self._here.waiting = self._here.waiting, waiting
            for each in left if waiting is None else ():
                each.withdraw()

    def commits_later(self) -> bool:
        """Whether consumers are being told of something in this thread."""
        return getattr(self._here, "waiting", None) is not None

    def commit_later(self, transaction: LocalTransaction) -> None:
        """Commit it once they were."""
        self._here.waiting.append(transaction)

    def started(self, transaction: LocalTransaction) -> None:
        """Changes may be added to a transaction."""
        with self._lock:
            self._open.add(transaction)

    def ended(self, transaction: LocalTransaction) -> None:
        """Nothing more is added to a transaction."""
        with self._lock:
            self._open.discard(transaction)

    def close(self) -> None:
        """Roll back the transactions that are open, and close the log that `local` created.

        No other thread may use the transactions meanwhile.
        """
        if self._closed:
            return
        try:
            for each in sorted(self._open, key=lambda each: each.local_transaction_id or 0):
                each.rollback()
        finally:
            self._closed = True
            if self._owned is not None:
                self._owned.close()


class LocalTransaction(TransactionWriter):
    """A transaction in the making. Made by `LocalServer.transaction`; a context manager.

    It is a `TransactionWriter` whose changes are told to consumers, and which is written only if
    there is a log. It starts for consumers with its first change. DDL and the like commit what
    comes before, and are transactions of their own, with another local id, and committed at once.
    A transaction without changes gives no events; one of which nothing is left after a rollback to
    a savepoint ends, for those that were told of its start, as rolled back.
    """

    def __init__(
        self,
        server: LocalServer,
        gtid: AskedGtid = None,
        *,
        xa: XaName | None = None,
        is_autocommit: bool = False,
        **given: Unpack[TransactionOptions],
    ) -> None:
        self._server = server
        self._xa = xa
        self._is_autocommit = is_autocommit
        self._schemas: dict[int, TableSchema] = {}
        self._flagged = _NO_STATEMENT
        self._is_telling = False
        self._asked_later: tuple[AskedGtid, int | None] = None, None
        super().__init__(server.log, gtid, **given)

    def _start(self) -> None:
        super()._start()
        self._offers: LocalOffers | None = None
        self._streams = False
        self._told = 0
        self._facts: dict[int, StatementFacts] = {}
        self._took_part: set[bool] = set()
        self._savepoints: Savepoints[tuple[int, int, bool]] = Savepoints()
        self._reader = self._items()
        self._server.started(self)

    def _items(self, gtid: str | None = None) -> CachedItems:
        return CachedItems(self._log.dialect.form, self._schemas, self._facts, gtid)

    @property
    def local_transaction_id(self) -> int | None:
        """The number by which consumers know it; None before its first change."""
        return None if self._offers is None else self._offers.number

    # --- changes ---------------------------------------------------------------------------------

    def insert(
        self,
        table: Table,
        rows: Iterable[Any],
        *,
        statement: str | None = None,
        write_can_replace: bool = False,
        ignore_dup_key: bool = False,
    ) -> None:
        """As `TransactionWriter.insert`. ``write_can_replace`` says that the statement was a
        REPLACE, ``ignore_dup_key`` that it ignored rows whose key there was (INSERT IGNORE).
        """
        with self._flags_of(
            StatementFacts(write_can_replace=write_can_replace, ignore_dup_key=ignore_dup_key)
        ):
            super().insert(table, rows, statement=statement)

    def update(
        self,
        table: Table,
        before: Iterable[Any],
        after: Iterable[Any] | None = None,
        *,
        statement: str | None = None,
        ignore_no_key: bool = False,
    ) -> None:
        """As `TransactionWriter.update`. ``ignore_no_key`` says that it is no error where a row is
        not there.
        """
        with self._flags_of(StatementFacts(ignore_no_key=ignore_no_key)):
            super().update(table, before, after, statement=statement)

    def delete(
        self,
        table: Table,
        rows: Iterable[Any],
        *,
        statement: str | None = None,
        ignore_no_key: bool = False,
    ) -> None:
        """As `TransactionWriter.delete`; ``ignore_no_key`` as in `update`."""
        with self._flags_of(StatementFacts(ignore_no_key=ignore_no_key)):
            super().delete(table, rows, statement=statement)

    @contextmanager
    def _flags_of(self, facts: StatementFacts) -> Iterator[None]:
        if facts != _NO_STATEMENT and self._statement is not None:
            raise UsageError("the flags of a statement are given where it begins")
        self._flagged = facts
        try:
            yield
        finally:
            self._flagged = _NO_STATEMENT

    @contextmanager
    def statement(
        self,
        *tables: Table,
        statement: str | None = None,
        write_can_replace: bool = False,
        ignore_dup_key: bool = False,
        ignore_no_key: bool = False,
    ) -> Iterator[None]:
        """As `TransactionWriter.statement`, with the flags of `insert` and `update`. Consumers are
        told of it at its end: each of its rows tells all ``tables``.
        """
        facts = self._flagged._replace(tables=tables)
        if write_can_replace or ignore_dup_key or ignore_no_key:
            facts = StatementFacts(write_can_replace, ignore_dup_key, ignore_no_key, tables)
        with super().statement(*tables, statement=statement):
            start = self._cache.size
            yield
        if self._cache.size == start:
            return
        if len(tables) > 1 or facts[:3] != _NO_STATEMENT[:3]:
            self._facts[start] = facts
        self._took_part |= {table not in self._server.non_transactional for table in tables}
        self._tell()

    def _known(self, table: Table) -> WrittenTable:
        known = super()._known(table)
        self._schemas[known.table_map.table_id] = table.schema
        return known

    def query(
        self,
        sql: str | bytes,
        database: str = "",
        *,
        status: Mapping[StatusVariable, Any] | None = None,
        error_code: int = 0,
        exec_time: int = 0,
        alone: bool | None = None,
        thread_id: int | None = None,
        uses_temporary_tables: bool = False,
        uses_database: bool = True,
    ) -> None:
        """As `TransactionWriter.query`. What it reads from its session (INSERT_ID, user variables)
        is added before it, as events (`event`). SAVEPOINT, RELEASE SAVEPOINT and ROLLBACK TO are
        `savepoint`, `release` and `rollback`. Raises UsageError for XA statements: give the name to
        `LocalServer.transaction`.
        """
        text = text_of(sql)
        self._check_fits(f"the statement {text[:40]!r}")
        if xa_end(text.encode()) is not None:
            raise UsageError(f"{text[:40]!r}: a local transaction ends with the `with` block")
        if (name := savepoint_set(text)) is not None:
            self.savepoint(name)
            return
        if (name := savepoint_released(text)) is not None:
            self.release(name)
            return
        if (name := savepoint_of_rollback(text)) is not None:
            self.rollback(to=name)
            return
        super().query(
            sql,
            database,
            status=status,
            error_code=error_code,
            exec_time=exec_time,
            alone=alone,
            thread_id=thread_id,
            uses_temporary_tables=uses_temporary_tables,
            uses_database=uses_database,
        )
        self._tell()
        if self._alone and not self._server.commits_later():
            self._commit_and_start_next()

    def _commit_and_start_next(self) -> None:
        if self._server.commits_later():
            raise UsageError("a consumer cannot commit in the middle of a transaction")
        super()._commit_and_start_next()

    def event(self, event: Event) -> None:
        """As `TransactionWriter.event`."""
        super().event(event)
        self._tell()

    def _check_fits(self, what: str) -> None:
        self._server.check()
        if self._is_telling:
            raise UsageError(
                f"{what} cannot be added by a consumer that is told of the transaction"
            )
        super()._check_fits(what)

    # --- savepoints ------------------------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        """Set a savepoint; one of this name, in any case, is replaced."""
        self._check_fits(f"the savepoint {name}")
        self._savepoints.set(name.lower(), (self._cache.size, self._cache.count, self._is_started))

    def release(self, name: str) -> None:
        """Forget a savepoint, and those that were set after it.

        Raises UsageError if there is no savepoint of that name.
        """
        self._check_fits(f"RELEASE SAVEPOINT {name}")
        with self._existing(name):
            self._savepoints.release(name.lower())

    @contextmanager
    def _existing(self, name: str) -> Iterator[None]:
        try:
            yield
        except BoundaryError:
            raise UsageError(f"{name}: no savepoint of that name is set") from None

    def _roll_back_to(self, name: str) -> None:
        with self._existing(name):
            size, events, self._is_started = self._savepoints.back_to(name.lower())
        self._cache.cut(size, events)
        self._told = size
        for start in [start for start in self._facts if start >= size]:
            del self._facts[start]
        if self._offers is not None:
            with self._telling():
                said = Logged(self._query(f"ROLLBACK TO {quoted_name(name)}", ""), None)
                self._offers.offer(said, rolled_back=True)

    def rollback(self, to: str | None = None) -> None:
        """Roll back all of it: it is over. Or, with ``to``, what came after that savepoint.

        Raises UsageError if there is no savepoint of that name.
        """
        if to is not None:
            self._check_fits("ROLLBACK TO")
            self._roll_back_to(to)
            return
        self._check_idle()
        try:
            super().rollback()
        finally:
            self._end()

    def commit(
        self, gtid: AskedGtid = None, *, original_commit_timestamp: int | None = None
    ) -> Position | None:
        """As `TransactionWriter.commit`. Consumers were told when it returns; it raises what one
        of them raised that stopped the stream: the transaction is then committed nevertheless.

        Called by a consumer that is being told of another one, it returns None at once: this one is
        committed when all consumers were told of that event.
        """
        self._check_idle()
        if self._server.commits_later() and not self._done:
            self._asked_later = gtid, original_commit_timestamp
            self._done = "to be committed"
            self._server.commit_later(self)
            return None
        return self._commit(gtid, original_commit_timestamp)

    def commit_now(self) -> None:
        """Commit what a consumer had committed."""
        self._done = ""
        self._commit(*self._asked_later)

    def withdraw(self) -> None:
        """Roll it back instead: the stream was stopped."""
        self._done = ""
        self.rollback()

    def _commit(self, gtid: AskedGtid, original_commit_timestamp: int | None) -> Position | None:
        try:
            return super().commit(gtid, original_commit_timestamp=original_commit_timestamp)
        finally:
            self._end()

    def _check_idle(self) -> None:
        if self._is_telling:
            raise UsageError("a consumer cannot end the transaction that it is told of")

    # --- telling ---------------------------------------------------------------------------------

    @contextmanager
    def _telling(self) -> Iterator[None]:
        self._is_telling = True
        try:
            with self._server.telling():
                yield
        finally:
            self._is_telling = False

    def _opened(self) -> LocalOffers:
        if self._offers is None:
            self._offers = LocalOffers(
                self._server.stack,
                next(self._server.numbers),
                self._query("BEGIN", ""),
                is_autocommit=self._is_autocommit or self._alone,
                xa=self._xa,
            )
            self._streams = self._server.stack.wants_rollbacks
        return self._offers

    def _tell(self) -> None:
        """Tell those that want rollbacks of what was added."""
        start, self._told = self._told, self._cache.size
        if start == self._told:
            return
        offers = self._opened()
        with self._telling():
            offers.start(rolled_back=True)
            if self._streams:
                self._offer(offers, self._reader, start, rolled_back=True)

    def _offer(
        self, offers: LocalOffers, reader: CachedItems, start: int, *, rolled_back: bool
    ) -> None:
        for item in reader.read(self._cache.pieces(start), start):
            offers.facts = reader.current
            offers.offer(item, rolled_back=rolled_back)

    def _write(self, group: Group) -> None:
        """Write it and tell of it, so that consumers are told in the order of the log."""
        stack = self._server.stack
        with stack.together() if stack.registrations else nullcontext():
            self._server.check()
            super()._write(group)
            try:
                with self._telling():
                    self._tell_commit(group)
            except BaseException as error:  # noqa: BLE001 - `announce` raises it
                group.failure = group.failure or error

    def _tell_commit(self, group: Group) -> None:
        offers, self._offers = self._opened(), None
        gtid = None if group.gtid is None else str(group.gtid)
        offers.end_statement()
        offers.held = True
        offers.start(rolled_back=False)
        if any(not each.wants_rollbacks for each in self._server.stack.registrations):
            self._offer(offers, self._items(gtid), 0, rolled_back=False)
            offers.end_statement()
        offers.held = False
        offers.sorts = self._sorts()
        if group.head is not None:
            offers.first = group.head
        offers.end(offers.first, gtid=gtid)

    def _sorts(self) -> tuple[bool | None, bool | None]:
        """Whether tables with transactions took part, and ones without: unknown for statements."""
        unknown = None if self._statements else False
        with_transactions, without = (each in self._took_part for each in (True, False))
        return with_transactions or unknown, without or unknown

    def _end(self) -> None:
        """It is over: rolled back, unless consumers heard of its commit."""
        offers, self._offers = self._offers, None
        if self._done:
            self._server.ended(self)
        if offers is not None and self._server.failure is None:
            offers.sorts = self._sorts()
            with self._telling():
                offers.end(self._query("ROLLBACK", ""), rolled_back=True)
