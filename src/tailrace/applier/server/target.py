"""A server of MySQL or MariaDB as a target.

Transactions are sent in packets of many statements, which the server executes up to the first that
fails: a packet that fails in one transaction has committed those before it, and none after. Rows of
the server's own flavour are sent as the log's events in BINLOG statements, which the server applies
as a replica does; others as SQL.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from secrets import token_hex
from socket import gethostname
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from tailrace.applier.server.made import RowsMade
from tailrace.applier.server.pipeline import NOT_FOUND, Pipeline, Sent, StepError
from tailrace.applier.server.place import Place, pending_name
from tailrace.applier.server.session import OPTIONAL, TargetSession
from tailrace.applier.server.steps import (
    FAIL,
    FLUSH,
    LoggedStatement,
    RowsEvents,
    Step,
    can_be_binlog,
    description,
    found_one,
)
from tailrace.applier.server.workers import Job, Pace, Workers
from tailrace.applier.target import (
    CONFLICT,
    LOCK_SECONDS,
    Conflicts,
    Progress,
    Target,
    channel_taken,
    executed_since,
    is_about,
)
from tailrace.applier.transaction import in_transaction
from tailrace.constants import Flavour
from tailrace.errors import (
    AccessDenied,
    ConnectionLost,
    TailraceError,
    UsageError,
)
from tailrace.events.header import EventHeader
from tailrace.generators.event import context_of
from tailrace.generators.log_context import LogContext, LogRowsContext, QueryContext
from tailrace.gtid import GtidList, GtidSet, MariadbGtid
from tailrace.live.connect import connect
from tailrace.live.driver import ServerAnswer, err, translated
from tailrace.live.transport import ServerTransport
from tailrace.live.url import Source
from tailrace.log.changes import Change
from tailrace.log_mark import first_event
from tailrace.sql.forward import repeat, row_statements
from tailrace.sql.rows import TableSql, once_per_table
from tailrace.sql.settings import OWN, SessionState, difference
from tailrace.sql.statement import Statement, multi_row
from tailrace.sql.text import encoded, string
from tailrace.sql.triggers import Guard
from tailrace.storage import LogSeries
from tailrace.storage.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tailrace.applier.transaction import Transaction
    from tailrace.events import FormatDescription
    from tailrace.generators import RowBatch, StatementQuery
    from tailrace.gtid import AnyGtid
    from tailrace.live.connect import ServerConnection
    from tailrace.log.sources import AnyLog
    from tailrace.position import Position
    from tailrace.sql.rows import RowSql
    from tailrace.values.row import Row

_EVENTS: Final = 128 << 10
"""Bytes of events in one BINLOG statement, if they are not one event."""
_JOINED: Final = 500
"""Rows in one INSERT."""
_DUPLICATE: Final = frozenset({1022, 1062, 1169, 1586})
_ENDED: Final = frozenset({0, 1053, 1317, 1927, 3024})
"""Errors after which a statement may be executed: it, its session or the server was ended; 0: no
error of the server's.
"""
_UNKNOWN: Final = 1105
"""The error of BINLOG for rows that the server cannot convert."""
_MOST_NAMED: Final = 5
_BUSY: Final = frozenset({1205, 1213})
"""Lock wait timeout, deadlock: the transaction is executed again."""
_ATTEMPTS: Final = 10
_START: Final = b"START TRANSACTION"
"""Not BEGIN: with the sql_mode ORACLE, that opens a block."""
_CHECKED: Final = b"SET @tailrace_turn = IF(%b, 0, %b)"
_DONE: Final = frozenset(
    {1007, 1008, 1050, 1051, 1060, 1061, 1068, 1091, 1146, 1151, 1304, 1305, 1359, 1360, 1396}
    | {1517, 1537, 1539, 1826, 4031, 4091, 4092}
)
"""What a definition that was executed already answers when it is executed again."""


@dataclass(frozen=True, slots=True)
class _Items:
    """A run of a transaction's changes, by their numbers."""

    target: ServerTarget
    transaction: Transaction
    start: int
    end: int | None

    def __iter__(self) -> Iterator[Any]:
        return islice(self.target.items(self.transaction), self.start, self.end)


def _own(texts: Iterable[str]) -> Iterator[Step]:
    """Statements of our own, which the session reads as UTF-8."""
    return (Step(each.encode()) for each in texts)


class ServerTarget(Target):
    """A server of MySQL or MariaDB."""

    def __init__(
        self, url: str, *, channel: str, table: str, conflicts: Conflicts, workers: int = 1
    ) -> None:
        self._place = Place(table, channel)
        self.place = self._place.table
        self._conflicts = conflicts
        source = Source.parse(url)
        connects = partial(connect, source, source.hosts[0], applies=True)
        self._connection: ServerConnection = connects()
        self._workers: Workers | None = None
        self._pace = Pace()
        self.name = self._connection.name
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        if workers > 1:
            self._workers = Workers(
                workers,
                connect=connects,
                query=self._query,
                lock=self._place.turn,
                most=self._pipeline.most,
                charset="latin1" if self._place.is_ascii else "utf8mb4",
                after_form=tuple(each.text for each in self._next_gtid(None)),
            )

    def _open(self) -> None:
        self._flavour = (
            Flavour.MARIADB
            if "mariadb" in self._connection.server_version.lower()
            else Flavour.MYSQL
        )
        self._run("SET NAMES utf8mb4")  # whatever the server's settings made of the connection's
        lock = self._ask(f"SELECT GET_LOCK({self._place.lock}, {LOCK_SECONDS})")
        if lock.text_or_none() != "1":
            raise channel_taken(self.name, self._place.channel)
        Workers.await_gone(self._query, self._place.turn)
        self._run(
            "SET SESSION wait_timeout = 2147483, autocommit = 1, completion_type = 'NO_CHAIN'"
        )
        most = self._ask("SELECT @@max_allowed_packet").whole() - 1024
        self._pipeline = Pipeline(self._connection, most)
        self._place.create(self._query)
        self._progress = self._place.read(self._query(self._place.query)[0])
        if self._flavour is Flavour.MYSQL:
            self._sets_gtids = self._ask("SELECT @@GLOBAL.gtid_mode").text() == "ON"
            if self._sets_gtids:
                executed = GtidSet.parse(self._ask("SELECT @@GLOBAL.gtid_executed").text())
                self._progress.mysql = self._progress.mysql | executed
        else:
            self._sets_gtids = True
            found = self._ask("SELECT @@gtid_domain_id, @@server_id")
            self._server_id = found.whole(1)
            self._own_gtids = (
                f"SET @@session.gtid_domain_id = {found.whole()}, @@session.server_id ="
                f" {found.whole(1)}, @@session.gtid_seq_no = 0"
            ).encode()
            self._read_log()
        self._unsure = self._progress.pending
        self._tried: set[int] = set()
        """Ids of those of one definition that are sent: an error of the server says that it is not
        executed.
        """
        self._takes_binlog: bool | None = None
        self._form: FormatDescription | None = None
        self._domain: tuple[int, int] | None = None
        self._session = SessionState()
        names = ", ".join(map(string, OPTIONAL))
        self._of_target = TargetSession(
            self._flavour,
            [
                str(row[0])
                for row in self._query(f"SHOW VARIABLES WHERE variable_name IN ({names})")
            ],
            [
                str(row[0])
                for row in self._query("SELECT collation_name FROM information_schema.collations")
            ],
        )
        self._tables = once_per_table(lambda schema: TableSql(schema, server=self._flavour))
        self._guard = Guard(self._flavour)
        self._made = RowsMade(self._flavour, self._connection.server_version)

    def _read_log(self) -> None:
        """MariaDB's own log says what it executed, if it leaves out no databases: of all servers
        but itself, as its own statements may have the GTIDs of another with its id.

        So it says of the statement that was pending whether it was executed. The definition of a
        CREATE TABLE … SELECT has a GTID of the target: it stays unsure.
        """
        self._log_tells = False
        if self._ask("SELECT @@GLOBAL.log_bin").text() != "1":
            return
        status = self._query("SHOW MASTER STATUS")
        self._log_tells = len(status) == 1 and not any(status[0][2:4])
        state = GtidList.parse(self._ask("SELECT @@GLOBAL.gtid_binlog_state").text())
        pending = self._progress.pending
        if pending is not None and ":" not in pending and pending.count("-") == 2:
            gtid = MariadbGtid.parse(pending)
            if state.includes(gtid):
                self._progress.mariadb.add(gtid)
                self._progress.pending = None
        for gtid in state:
            if self._is_logged(gtid) and not self._progress.mariadb.includes(gtid):
                self._progress.mariadb.add(gtid)

    def own_id(self, log: AnyLog) -> int | None:
        """As the interface says. A lock of a name that nobody else has tells whether the log's
        server is the target itself. Of files, their folder does, if the target is on this machine:
        one in a container, or at the end of a tunnel, has another host name.
        """
        name = f"tailrace {token_hex(16)}"
        own = self._ask(
            f"SELECT @@server_id, GET_LOCK('{name}', 0), @@GLOBAL.log_bin_basename, @@hostname"
        )
        other = None
        is_own = False
        if isinstance(log, ServerTransport):
            with suppress(TailraceError, err.MySQLError, OSError):  # reading it says why
                connection = connect(log.source, log.source.hosts[0])
                try:
                    with connection.cursor() as cursor:
                        cursor.execute(f"SELECT @@server_id, IS_USED_LOCK('{name}')")
                        ((found, holder),) = cursor.fetchall()
                finally:
                    connection.close()
                other, is_own = int(found), holder is not None
        elif isinstance(log, LogSeries):
            with suppress(TailraceError):  # likewise; a file that is being made may be empty
                first = first_event(log, log.files[-1].name)
                other = None if first is None else EventHeader.parse(first).server_id
            store, base = log.files[-1].store, own.text_or_none(2)
            may_be_own = other in {None, own.whole()} and own.text_or_none(3) == gethostname()
            if isinstance(store, LocalStore) and base is not None and may_be_own:
                with suppress(OSError):
                    is_own = store.folder.samefile(Path(base).parent)
        if is_own:
            raise UsageError(
                f"{self.name} is the server of the log: source and target are the same server. Give"
                " another target (--to). If two servers have logs at the same path, read the source"
                " by its server's URL"
            )
        self._run(f"DO RELEASE_LOCK('{name}')")
        return None if other is None or other == own.whole() else own.whole()

    # --- asking ----------------------------------------------------------------------------------

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        with translated(self.name), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def _ask(self, sql: str) -> ServerAnswer:
        return ServerAnswer(self._query(sql), 1, server=self.name, asked=sql)

    def _run(self, sql: str) -> None:
        self._query(sql)

    def start(self, resume: Position, mark: str | None, *, forgets: bool) -> None:
        """In the row of the channel."""
        try:
            self._pipeline.do(self._aside(self._place.start(resume, mark, forgets=forgets)))
        except StepError as failed:
            raise failed.error from failed

    def check(self) -> None:
        """By a statement that does nothing: the server does not end the session as idle, either."""
        self._run("DO 0")

    def close(self) -> None:
        """Close the connections; what was not committed is rolled back."""
        if self._workers is not None:
            self._workers.close()
        if self._connection.open:
            with suppress(err.MySQLError, TailraceError, OSError):
                self._connection.close()

    # --- what it makes of events -----------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """As the table says; of MySQL with ``gtid_mode=ON``, also all that it executed."""
        return self._progress

    def rows(self, event: RowBatch) -> Iterable[tuple[Any, int]]:
        """The rows event of the log; where there is no log, events of the target's flavour."""
        context = context_of(event)
        changes: Iterable[Change]
        if isinstance(context, LogRowsContext):
            changes = [context.change]
        else:
            changes = self._made.changes(event)
        for change in changes:
            yield change, change.event.header.length

    def statement(self, event: StatementQuery, blocks: bytes | None) -> tuple[Any, int] | None:
        """The statement with its session settings."""
        context = context_of(event)
        if isinstance(context, QueryContext) and is_about(self._place.table, context.event):
            return None
        flavour = context.event.form.flavour if isinstance(context, LogContext) else self._flavour
        made = LoggedStatement.of(event, blocks, flavour, self._of_target.collation)
        return made, made.statement.size + len(blocks or b"")

    # --- applying --------------------------------------------------------------------------------

    def apply(self, transactions: Sequence[Transaction]) -> None:
        """Apply transactions in their order; those before one that fails are committed."""
        self.applied = 0
        if self._workers is None or len(transactions) == 1:
            self._in_order(transactions, 0)
            return
        by_workers, start = self._pace.by_workers(), perf_counter()
        if by_workers:
            self._by_workers(transactions)
        else:
            self._in_order(transactions, 0)
        seconds = (perf_counter() - start) / len(transactions)
        self._pace.took(seconds, by_workers=by_workers)

    def _by_workers(self, transactions: Sequence[Transaction]) -> None:
        """Apply transactions, by the workers those that these take."""
        at = 0
        while at < len(transactions):
            at += self._at_once(transactions[at:])
            self.applied = at
            rest = transactions[at:]
            alone = next(
                (
                    number
                    for number in range(1, len(rest) - 1)
                    if self._whole_form(rest[number]) is not None
                ),
                len(rest),
            )
            self._in_order(transactions[: at + alone], at)
            at += alone

    def _in_order(self, transactions: Sequence[Transaction], at: int) -> None:
        """Apply transactions one after the other, from the one of this number on."""
        attempts = 0
        while at < len(transactions):
            self._tried.clear()
            try:
                self._pipeline.send_all(self._sent(transactions, at))
                break
            except StepError as failed:
                attempts = attempts + 1 if failed.number == at else 1
                self.applied = at = failed.number
                self._recover()
                self._settle(transactions[at], failed)
                if failed.code in _BUSY and attempts < _ATTEMPTS:
                    continue
                if failed.code not in _DUPLICATE | {NOT_FOUND} or self._conflicts == "stop":
                    raise self._told(transactions[at], failed) from failed
                self._with_conflicts(transactions[at])
                at += 1
                self.applied = at
                attempts = 0
        self.applied = len(transactions)

    def _told(self, transaction: Transaction, failed: StepError) -> TailraceError:
        """The error that is raised for one of the server's."""
        error = failed.error
        if isinstance(error, ConnectionLost):
            return error
        gtid = transaction.gtid
        if failed.unnoted and self._is_in_executed(gtid):
            executed = self._ask(f"SELECT GTID_SUBSET('{gtid}', @@GLOBAL.gtid_executed)")
            if executed.text() == "1":  # so it passed over all of it
                return executed_since(transaction)
        advice = ""
        if failed.code in _DUPLICATE | {NOT_FOUND}:
            advice = CONFLICT
        if failed.code == _UNKNOWN:
            changed = (each.schema for each in self.items(transaction) if isinstance(each, Change))
            names = dict.fromkeys(str(schema.full_name) for schema in changed)
            advice = (
                ": the server does not say more: a column may be of another type there than on the"
                f" source, in {', '.join(islice(names, _MOST_NAMED))}"
            )
        return in_transaction(error, transaction, advice)

    def _settle(self, transaction: Transaction, failed: StepError) -> None:
        """Note that a definition was not executed, if the server said so."""
        if id(transaction) in self._tried and failed.code not in _ENDED and self._connection.open:
            try:
                self._pipeline.do(self._aside(self._place.pending(None)))
            except StepError as again:
                raise again.error from failed

    def _recover(self) -> None:
        """After an error: nothing is open, and nothing is known of the session's settings."""
        if not self._connection.open:
            return
        self._run("ROLLBACK")
        self._run(difference({}, OWN))
        if self._flavour is Flavour.MYSQL and self._sets_gtids:
            self._run("SET SESSION gtid_next = 'AUTOMATIC'")
        elif self._flavour is Flavour.MARIADB:
            self._run("SET SESSION sql_log_bin = 1")
        self._session = SessionState()
        self._guard.forget()
        self._domain = None

    # --- what is sent for a transaction ----------------------------------------------------------

    def _sent(self, transactions: Sequence[Transaction], at: int) -> Iterator[Sent]:
        """The steps of transactions from the one of this number on.

        Where the server notes GTIDs itself, or its log tells them, the row of the channel says
        where the last of them ends.
        """
        last = len(transactions) - 1
        for number in range(at, len(transactions)):
            transaction = transactions[number]
            gtid = transaction.gtid
            executed = number != last and self._is_in_executed(gtid)
            notes = not executed and (number == last or not self._is_logged(gtid))
            step = self._whole(transaction, notes=notes)
            if step is not None:
                yield Sent(number, step)
                continue
            try:
                for each in self._steps(transaction, notes=not executed):
                    yield Sent(number, each)
            except StepError as failed:
                failed.number = number
                raise
            except TailraceError as error:
                yield Sent(number, FLUSH)  # what is before it is executed
                raise StepError(number, 0, error) from error

    def _whole_form(self, transaction: Transaction) -> FormatDescription | None:
        """The format of a transaction of rows only, which one BINLOG statement takes; None of
        another.
        """
        if (
            self._takes_binlog is False
            or transaction.rolled_back
            or transaction.prepared is not None
            or transaction.size > _EVENTS
            or transaction.non_transactional
        ):
            return None
        form: FormatDescription | None = None
        committed = False
        for counts, item in transaction.items:
            if not isinstance(item, Change):
                return None
            event = item.event
            if event.form is not form:
                if form is not None or not self._is_own(item):
                    return None
                form = event.form
            elif event.compressed:
                return None
            committed = committed or counts
        return form if committed else None

    @staticmethod
    def _as_binlog(transaction: Transaction) -> bytes:
        """All rows of a transaction."""
        events = RowsEvents()
        for committed, item in transaction.items:
            if committed:
                events.add(item.event)
        return events.take()

    def _whole(self, transaction: Transaction, *, notes: bool) -> Step | None:
        """All of a transaction of rows in the format that the server knows, in one step."""
        form = self._whole_form(transaction)
        if form is None or form is not self._form:
            return None
        steps = [
            *self._next_gtid(transaction.gtid),
            Step(_START),
            Step(self._as_binlog(transaction)),
        ]
        note = self._note(transaction)
        if notes:
            steps.append(note)
        steps.append(Step(b"COMMIT"))
        text = b";\n".join(each.text for each in steps)
        return Step(text, sum(each.count for each in steps), place=note.place if notes else "")

    # --- several at a time -----------------------------------------------------------------------

    def _at_once(self, transactions: Sequence[Transaction]) -> int:
        """Apply transactions by the workers, as far as they take them; gives how many are applied.

        If one fails, those before it are. It is then executed by itself, with what comes after.
        """
        workers, form = self._workers, self._whole_form(transactions[0])
        if workers is None or form is None:
            return 0
        tells = self._tells(transactions[0].gtid)
        count = 0
        for each in transactions:
            if self._tells(each.gtid) is not tells or self._whole_form(each) is not form:
                break
            count += 1
        if count <= 1:
            return 0
        steps = chain(self._forms(self.items(transactions[0])), self._next_gtid(None))
        self._pipeline.send_all(Sent(0, each) for each in steps)
        if not self._takes_binlog:
            return 0
        try:
            workers.run(self._jobs(transactions[:count], workers.count, tells=tells), form)
        except StepError:
            return self._done(transactions[:count])
        return count

    def _tells(self, gtid: AnyGtid | None) -> bool:
        """Whether the server itself knows whether a transaction of rows is applied."""
        return self._is_in_executed(gtid) or self._is_logged(gtid)

    def _jobs(
        self, transactions: Sequence[Transaction], workers: int, *, tells: bool
    ) -> Iterator[Job]:
        for number, each in enumerate(transactions):
            before = None if number == 0 else transactions[number - 1]
            earliest = transactions[max(0, number - workers + 1)]
            depends = each.stamp is None or earliest.stamp is None
            if each.stamp is not None and earliest.stamp is not None and earliest is not each:
                depends = not each.stamp.allows(earliest.stamp)
            commit = [Step(b"COMMIT")]
            check: tuple[bytes, ...] = ()
            if not tells or number == len(transactions) - 1:
                after = None if tells or before is None else before.position
                commit.insert(0, self._note(each, after))
            if tells and before is not None:
                check = self._check(before.gtid)
            yield Job(
                number,
                (*self._session_gtid(each.gtid), _START, self._as_binlog(each)),
                tuple(commit),
                check,
                depends,
            )

    def _check(self, before: AnyGtid | None) -> tuple[bytes, ...]:
        """A statement that fails unless a transaction is committed."""
        if self._flavour is Flavour.MARIADB:
            said = f"FIND_IN_SET('{before}', @@GLOBAL.gtid_binlog_state)"
        else:
            said = f"GTID_SUBSET('{before}', @@GLOBAL.gtid_executed)"
        return (_CHECKED % (said.encode(), FAIL),)

    def _session_gtid(self, gtid: AnyGtid | None) -> Iterator[bytes]:
        """The statements for a session of which nothing is known."""
        self._domain = None
        for step in self._next_gtid(gtid):
            yield step.text
        self._domain = None

    def _done(self, transactions: Sequence[Transaction]) -> int:
        """How many transactions are committed, after the workers have ended."""
        found = self._place.read(self._query(self._place.query)[0])
        if self._flavour is Flavour.MYSQL and self._sets_gtids:
            text = self._ask("SELECT @@GLOBAL.gtid_executed").text()
            found.mysql = found.mysql | GtidSet.parse(text)
        elif self._flavour is Flavour.MARIADB and self._log_tells:
            text = self._ask("SELECT @@GLOBAL.gtid_binlog_state").text()
            for gtid in GtidList.parse(text):
                if self._is_logged(gtid):
                    found.mariadb.add(gtid)
        for number, each in enumerate(transactions):
            if not found.has(each.gtid, each.position):
                return number
        return len(transactions)

    def _steps(self, transaction: Transaction, *, notes: bool) -> Iterator[Step]:
        parts = self._parts(transaction)
        if any(isinstance(each, LoggedStatement) for each in parts):
            yield from self._with_definitions(transaction, parts, notes=notes)
        else:
            yield from self._as_one(transaction, notes=notes)

    def _parts(self, transaction: Transaction) -> list[LoggedStatement | _Items]:
        """Statements that commit by themselves, and runs of other changes between them.

        In a transaction of which a part is in a file, only the first change is such a statement:
        CREATE TABLE ... SELECT.
        """
        parts: list[LoggedStatement | _Items] = []
        for number, item in enumerate(self.items(transaction)):
            if isinstance(item, LoggedStatement) and item.alone:
                parts.append(item)
            elif not parts or isinstance(parts[-1], LoggedStatement):
                parts.append(_Items(self, transaction, number, number + 1))
                if transaction.in_file:
                    parts[-1] = _Items(self, transaction, number, None)
                    break
            else:
                parts[-1] = _Items(self, transaction, parts[-1].start, number + 1)
        return parts

    def items(self, transaction: Transaction) -> Iterator[Any]:
        """The changes that are executed."""
        for committed, item in transaction.items:
            if committed or transaction.rolled_back:
                yield item

    def _gtid_of(self, transaction: Transaction) -> AnyGtid | None:
        """The GTID that it has on the target.

        MariaDB logs each statement that changes a table without transactions by itself, and the
        others at the end: the second of them would have the GTID of the source's next transaction.
        So these have GTIDs of the target.
        """
        several = (
            transaction.mixed
            or transaction.rolled_back
            or (transaction.non_transactional and transaction.statements > 1)
        )
        return None if several and self._flavour is Flavour.MARIADB else transaction.gtid

    def _as_one(self, transaction: Transaction, *, notes: bool) -> Iterator[Step]:
        gtid = self._gtid_of(transaction)
        yield from self._empty(transaction.prepared)
        yield from self._forms(self.items(transaction))
        yield from self._next_gtid(gtid)
        yield Step(_START)
        empty = True
        for step in self._changes(self.items(transaction)):
            empty = False
            yield step
        if transaction.rolled_back:
            yield Step(b"ROLLBACK")
            yield from self._next_gtid(gtid)
            yield Step(_START)
            empty = True
        aside = transaction.non_transactional or (empty and self._is_in_executed(gtid))
        if notes and not aside:
            yield self._note(transaction)
        yield Step(b"COMMIT")
        if notes and aside:
            yield from self._aside(self._note(transaction))

    def _with_definitions(
        self, transaction: Transaction, parts: list[LoggedStatement | _Items], *, notes: bool
    ) -> Iterator[Step]:
        """Statements that commit by themselves, and changes before and after them.

        The last part has the GTID.
        """
        yield from self._empty(transaction.prepared)
        executed = self._is_in_executed(transaction.gtid)
        unsure, self._unsure = self._unsure == pending_name(transaction), None
        if not executed or len(parts) > 1:
            if len(parts) == 1 and not unsure:
                self._tried.add(id(transaction))
            yield from self._aside(self._place.pending(transaction))
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            if isinstance(part, _Items):
                yield from self._forms(iter(part))
                yield from self._next_gtid(transaction.gtid if last else None)
                yield Step(_START)
                yield from self._changes(iter(part))
                if last and not transaction.non_transactional:
                    yield self._note(transaction)
                yield Step(b"COMMIT")
                if last and transaction.non_transactional:
                    yield from self._aside(self._note(transaction))
                continue
            yield from self._next_gtid(transaction.gtid if last else None)
            yield from self._prepared(part.statement, part.flavour)
            if unsure:
                yield FLUSH
                self._again(part.step())
            else:
                yield part.step()
            yield from self._after_text()
            self._session.forget_database()
            self._guard.forget()
            if last and notes:
                yield from self._aside(self._note(transaction))

    def _again(self, step: Step) -> None:
        """Execute a definition of which it is unknown whether it was executed."""
        try:
            self._pipeline.flush([Sent(0, step)])
        except StepError as failed:
            if failed.code not in _DONE:
                raise StepError(0, 0, failed.error) from failed

    def _empty(self, gtid: AnyGtid | None) -> Iterator[Step]:
        """An empty transaction of a GTID, where the server keeps a set of them."""
        if gtid is not None and self._is_in_executed(gtid):
            yield from self._next_gtid(gtid)
            yield Step(_START)
            yield Step(b"COMMIT")

    def _is_in_executed(self, gtid: AnyGtid | None) -> bool:
        """Whether the server itself notes a GTID as executed, with the transaction."""
        return (
            gtid is not None
            and self._sets_gtids
            and self._flavour is Flavour.MYSQL
            and gtid.flavour is Flavour.MYSQL
        )

    def _is_logged(self, gtid: AnyGtid | None) -> bool:
        """Whether the server's log will say that rows with a GTID were applied."""
        return (
            self._flavour is Flavour.MARIADB
            and self._log_tells
            and isinstance(gtid, MariadbGtid)
            and gtid.server_id != self._server_id
        )

    def _next_gtid(self, gtid: AnyGtid | None) -> Iterator[Step]:
        if not self._sets_gtids:
            return
        if self._flavour is Flavour.MYSQL:
            known = gtid is not None and gtid.flavour is Flavour.MYSQL
            yield Step(f"SET @@session.gtid_next = '{gtid if known else 'AUTOMATIC'}'".encode())
        elif not isinstance(gtid, MariadbGtid):
            self._domain = None
            yield Step(self._own_gtids)
        elif (gtid.domain_id, gtid.server_id) == self._domain:
            yield Step(b"SET @@session.gtid_seq_no = %d" % gtid.seq_no)
        else:
            self._domain = gtid.domain_id, gtid.server_id
            yield Step(
                f"SET @@session.gtid_domain_id = {gtid.domain_id}, @@session.server_id ="
                f" {gtid.server_id}, @@session.gtid_seq_no = {gtid.seq_no}".encode()
            )

    def _note(self, transaction: Transaction, after: Position | None = None) -> Step:
        return self._place.note(
            transaction,
            with_gtids=not self._is_in_executed(transaction.gtid),
            after=after,
        )

    def _aside(self, statement: Step) -> Iterator[Step]:
        """A statement about the transaction, which commits by itself and has no GTID of a source.

        In MariaDB it is not logged: its GTID would be that of the next transaction. So it would be
        in a transaction whose first change, of a table without transactions, commits by itself.
        """
        if self._flavour is Flavour.MARIADB:
            yield Step(b"SET @@session.sql_log_bin = 0")
            yield statement
            yield Step(b"SET @@session.sql_log_bin = 1")
        else:
            yield from self._next_gtid(None)
            yield statement

    # --- changes ---------------------------------------------------------------------------------

    def _prepared(self, statement: Statement, source: Flavour) -> Iterator[Step]:
        settings = self._of_target.settings(statement.settings, source)
        logged = statement.logged
        yield from _own(self._session.change(settings, statement.database, logged=logged))
        yield from _own(statement.before)
        if logged:
            yield from _own(self._session.enter_text(settings))

    def _after_text(self) -> Iterator[Step]:
        """What is sent directly after a logged statement."""
        yield from _own(self._session.leave_text())

    def _changes(self, items: Iterator[Any]) -> Iterator[Step]:
        events = RowsEvents()
        room = 3 * (self._pipeline.most // 4) - 64
        for item in items:
            if isinstance(item, Change) and self._is_binlog(item):
                event = item.event
                if events.size and events.size_with(event) > room:
                    yield Step(events.take())  # within a statement, if it is this large
                if events.size_with(event) <= room:
                    events.add(event)
                    if events.size > _EVENTS and not events.inside:
                        yield Step(events.take())
                    continue
            if events.size:
                yield Step(events.take())
            if isinstance(item, Change):
                yield from self._as_sql(item)
            else:
                yield from self._prepared(item.statement, item.flavour)
                yield item.step()
                yield from self._after_text()
        if events.size:
            yield Step(events.take())

    def _as_sql(self, change: Change) -> Iterator[Step]:
        for guard in self._guard.before_rows(change):
            yield from self._prepared(guard, self._flavour)
            yield Step(guard.text.encode(), guards=True)
        kind = change.event.kind
        row = "" if kind == "insert" else f"{kind} in {change.schema.full_name}"
        for each in multi_row(row_statements(change, self._tables, repeat), _JOINED):
            if isinstance(each, Statement):
                yield from self._prepared(each, change.event.form.flavour)
                text = encoded(each.sql)
                yield found_one(text, row=row) if row else Step(text)

    # --- BINLOG ----------------------------------------------------------------------------------

    def _is_binlog(self, change: Change) -> bool:
        return bool(self._takes_binlog) and self._is_own(change)

    def _is_own(self, change: Change) -> bool:
        event = change.event
        return event.form.flavour is self._flavour and can_be_binlog(event)

    def _forms(self, items: Iterator[Any]) -> Iterator[Step]:
        """The format of the log, where it is another than that of the events before."""
        first = next((each for each in items if isinstance(each, Change)), None)
        if first is None or not self._is_own(first) or self._takes_binlog is False:
            return
        form = first.event.form
        if form == self._form:
            self._form = form
            return
        yield from self._next_gtid(None)
        yield FLUSH
        try:
            self._pipeline.one(Step(description(form)))
        except StepError as failed:
            if not isinstance(failed.error, AccessDenied):
                raise
            self._takes_binlog = False
            return
        self._form, self._takes_binlog = form, True

    # --- conflicts -------------------------------------------------------------------------------

    def _with_conflicts(self, transaction: Transaction) -> None:
        """Apply a transaction row by row, and do as ``conflicts`` says."""
        try:
            self._row_by_row(transaction)
        except StepError as failed:
            self._recover()
            raise self._told(transaction, failed) from failed

    def _row_by_row(self, transaction: Transaction) -> None:
        gtid = self._gtid_of(transaction)
        for step in (*self._empty(transaction.prepared), *self._next_gtid(gtid)):
            self._pipeline.one(step)
        self._pipeline.one(Step(_START))
        for item in self.items(transaction):
            if not isinstance(item, Change):
                for step in self._prepared(item.statement, item.flavour):
                    self._pipeline.one(step)
                self._pipeline.one(item.step())
                self._pipeline.do(self._after_text())
                continue
            for guard in self._guard.before_rows(item):
                self._pipeline.one(Step(guard.text.encode(), guards=True))
            for row, statement in self._each_row(item):
                for step in self._prepared(statement, item.event.form.flavour):
                    self._pipeline.one(step)
                self._row(item, row, statement)
        if not transaction.non_transactional:
            self._pipeline.do([self._note(transaction)])
        self._pipeline.one(Step(b"COMMIT"))
        if transaction.non_transactional:
            self._pipeline.do(self._aside(self._note(transaction)))

    def _each_row(self, change: Change) -> Iterator[tuple[Row, Statement]]:
        rows: list[Row] = []

        def write(table: TableSql, row: Row) -> RowSql | None:
            sql = repeat(table, row)
            if sql is not None:
                rows.append(row)
            return sql

        for statement in row_statements(change, self._tables, write):
            yield rows[-1], statement

    def _row(self, change: Change, row: Row, statement: Statement) -> None:
        try:
            found = self._pipeline.one(Step(encoded(statement.sql)))
        except StepError as failed:
            if failed.code not in _DUPLICATE:
                raise
            if self._conflicts == "overwrite":
                self._overwrite(change, row)
            return
        if not found and row.after is not None and self._conflicts == "overwrite":
            self._overwrite(change, row)

    def _overwrite(self, change: Change, row: Row) -> None:
        """Put the row after in place of all rows that have one of its keys."""
        table = self._tables(change.schema)
        if row.after is None:
            return
        if row.before is not None:
            self._pipeline.one(Step(encoded(table.delete(row.before).text)))
        insert = encoded(table.insert(row.after, whole=True).text)
        self._pipeline.one(Step(b"REPLACE" + insert[len(b"INSERT") :]))
