"""The applier: a consumer that carries out what it is told of."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Final

from tailrace.applier.target import MOST_WORKERS, is_place, note_in, note_in_rows, ring
from tailrace.applier.transaction import Mark, Stamp, Transaction
from tailrace.arguments import checked
from tailrace.closing import Closing
from tailrace.errors import LogReset, TailraceError, UsageError
from tailrace.generators import EventStream, RowConsumer
from tailrace.generators.event import context_of
from tailrace.generators.log_context import LogContext, LogRowsContext, QueryContext
from tailrace.generators.statement import StatementQuery
from tailrace.gtid import GtidState, MariadbGtid
from tailrace.gtid.ids import parse_gtid
from tailrace.live.scheme import names_server
from tailrace.log.readable import rows_not_logged
from tailrace.log.sources import agreed_start, as_named, one_log
from tailrace.log_mark import check_log, check_mark, mark_of
from tailrace.log_name import base_and_number
from tailrace.sql.logged import selected
from tailrace.storage import LogSeries
from tailrace.table_filter import TableFilter
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tailrace.applier.target import Conflicts, Progress, Target
    from tailrace.constants import Flavour
    from tailrace.generators import (
        EventSource,
        Registration,
        ReplicationEvent,
        RowBatch,
        StatementLoadDataBlock,
        StatementLoadQuery,
        TransactionCommit,
        TransactionRollback,
        TransactionStart,
    )
    from tailrace.gtid import AnyGtid
    from tailrace.log.sources import Source
    from tailrace.position import Position
    from tailrace.schema.letter_case import LowerCase
    from tailrace.selection import Bound
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.streams.layer import Layers

_DIGEST: Final = 8
"""Bytes of each digest of a transaction: the column of the mark has 64 characters."""
_MOST_BYTES: Final = 32 << 20
"""Bytes of transactions that wait to be applied."""
_MOST: Final = 4096
"""Transactions that wait."""
_FAR: Final = 1 << 20
"""An applier that finds nothing to apply notes its position after this many bytes of the log."""
_IDLE: Final = 5.0
"""Seconds without a transaction after which the target is asked whether it is there."""
_OTHER_LOG: Final = (
    "if another server took over that has the same GTIDs, give a start (--start oldest): what is"
    " applied is skipped. If the logs were reset, copy the data again, to a target that has none of"
    " their GTIDs, and take another channel"
)
"""What to do if the log is not the one that was applied."""
_OTHER_CHANNEL: Final = (
    "Without a start (--start) it continues there; another log needs a channel of its own"
    " (--channel)"
)
_TOGETHER: Final = 1024
"""Transactions that are given to the target together, if so many wait."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What was applied: transactions, events of rows, statements; ``skipped`` transactions were
    applied earlier. ``gtids`` (as text) are what the target has, whatever waits or failed after it.
    ``position`` is that of the last event of its last transaction; in what `apply` returns it is
    where a call can start that continues.
    """

    transactions: int
    row_events: int
    statements: int
    skipped: int
    position: Position | None
    gtids: str


class Applier(RowConsumer, Closing):
    """A consumer of rows that applies what it is told of to a target.

    `register` makes it a consumer of a stream. Transactions wait in a queue, and are applied by a
    thread of its own, in the order of their commits; `flush` waits for that thread. An error of the
    target is raised by the next call: nothing after it is applied. `close`, and so the end of a
    ``with`` block, applies what waits, also if the block ends with an error such as that of a
    definition that the target rejects; it raises the target's error if no other call did.
    `begin_file` tells it of the log's files.

    ``wants`` says whose definitions are executed, if the stream has the rows of some tables only: a
    change that was logged as its statement is then an error (StatementChange). ``resume`` gives the
    position from which the stream has to be read to find the transaction that is being told of.
    ``starts``: the target does not know where the stream begins, and is to note it if nothing is
    applied for seconds, or at all. ``on_error`` is called in the applier's thread when the target
    has failed, for streams that may have nothing to tell for long. ``own_id`` is the server id of
    transactions that began at the target itself (`Target.own_id`): to apply one is an error.
    ``by_gtids``: the stream starts after GTIDs, so it may lack transactions between those it has.
    """

    def __init__(
        self,
        target: Target,
        *,
        wants: TableFilter | None = None,
        resume: Callable[[], Position | None] | None = None,
        starts: bool = False,
        on_error: Callable[[], object] | None = None,
        own_id: int | None = None,
        by_gtids: bool = False,
    ) -> None:
        self._target = target
        self._by_gtids = by_gtids
        self._own_id = own_id
        self._wants = TableFilter() if wants is None else wants
        self._resume = resume
        self._starts = starts
        self._is_noted = False
        self._on_error = on_error
        self._progress: Progress = target.progress
        self._began_at = target.progress.position
        self._file_mark, self._identity, _ = Mark.parse(target.progress.mark)
        self._content = blake2b(digest_size=_DIGEST)
        begin, end = target.progress.resume, self._began_at
        self._passes = not starts and begin is not None and end is not None and begin < end
        """Whether what is read passes the end of the last transaction that the target has."""
        self._noted = begin
        self._marks: dict[str, str] = {}
        self._is_same_log = None if starts else True
        """Whether the log is the one that the target has applied; None: not known yet."""
        self._now = Transaction()
        self._blocks: dict[int, list[bytes]] = {}
        self._announced: int | None = None
        """Where the statement began that an applier will have executed next, as it noted."""
        self._rows = self._statements = self._transactions = self._skipped = 0
        self._position = target.progress.position
        self._gtids: dict[Flavour, GtidState] = {
            each.flavour: each.copy() for each in (target.progress.mysql, target.progress.mariadb)
        }
        self._waiting: deque[Transaction] = deque()
        self._bytes = 0
        self._busy = False
        self._ending = False
        self._failed: BaseException | None = None
        self._is_told = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="tailrace-apply", daemon=True)
        self._thread.start()

    def register(self, stream: EventSource) -> Registration:
        """Make it a consumer of a stream's rows: of a log's, or of `tailrace.local`."""
        self._target.begin(stream.definitions.copy())
        return stream.row.register(self, rollbacks=not stream.is_local)

    def begin_file(self, file: str, mark: str) -> None:
        """A file of the log comes, with its mark (`EventStream.on_file`).

        Raises LogReset if it is not the one in which the target would continue.
        """
        self._marks[file] = mark
        progress = self._progress
        if progress.mark is None or progress.resume is None or file != progress.resume.file:
            return
        if mark == self._file_mark:
            self._is_same_log = True
            return
        if not self._starts:
            check_mark(file, self._file_mark, mark, _OTHER_LOG)
        self._is_same_log = False

    def _is_after(self, place: Position | None) -> bool:
        """Whether a place is after the target's position, as far as the files' names tell."""
        before = self._began_at
        if before is None or place is None:
            return True
        return base_and_number(place.file)[0] == base_and_number(before.file)[0] and place > before

    def _check_log(self, transaction: Transaction) -> None:
        """Raise LogReset where only a position could say whether it is applied, and its log may be
        another one.
        """
        if transaction.gtid is not None or self._is_same_log:
            return
        if self._is_same_log is False or not self._is_after(transaction.position):
            self._is_noted = True  # nothing is noted of this log
            raise LogReset(
                f"{transaction.name} has no GTID, and the target has come to {self._began_at},"
                f" which may be in another log. {_OTHER_CHANNEL}"
            )

    def _identify(self, event: TransactionCommit | TransactionRollback) -> str:
        """A digest of a transaction's end in the log, and one of its rows if all tables are
        selected. Empty for a stream that has no log.
        """
        context = context_of(event)
        if not isinstance(context, LogContext):
            return ""
        said = (event.timestamp, event.server_id, event.commit_timestamp, event.group_commit_id)
        end = blake2b(repr(said).encode() + bytes(context.event.body), digest_size=_DIGEST)
        return end.hexdigest() + (self._content.hexdigest() if self._wants.takes_all else "")

    def _check_identity(self, transaction: Transaction, identity: str) -> None:
        """Raise LogReset if the last transaction that the target has is not in the log.

        A file's name, server and second of creation do not tell logs apart: positions and, in
        MariaDB, GTIDs of another one may be the same, so that its transactions would be skipped.
        """
        before, place = self._began_at, transaction.position
        if not (self._identity and self._is_same_log and before and place):
            return
        if base_and_number(place.file)[0] != base_and_number(before.file)[0]:
            return
        if place < before:
            self._passes = not self._by_gtids
            return
        known, self._identity = self._identity, ""
        both = min(len(known), len(identity))
        if (place != before and self._passes) or (
            place == before and known[:both] != identity[:both]
        ):
            self._is_noted = True
            raise LogReset(
                f"{before.file} is of another log: the transaction that ends at {before} is not the"
                f" one that was applied: {_OTHER_LOG}"
            )

    # --- what it is told -------------------------------------------------------------------------

    def trx_start(self, _event: TransactionStart) -> None:
        """Nothing is executed before the transaction's end is known."""
        self._begin()

    def row_batch(self, event: RowBatch) -> None:
        """Rows."""
        context = context_of(event)
        if isinstance(context, LogRowsContext):
            self._content.update(context.change.event.body)
        table = event.table
        if (table.database, table.name) == self._target.place or is_place(table):
            self._now.note = note_in_rows(event)
            return
        for made in self._target.rows(event):
            self._keep(event, made)
        self._now.row_events += 1

    def stmt_query(self, event: StatementQuery) -> None:
        """A statement."""
        if (note := note_in(event.query_bytes)) is not None:
            self._now.note = note
        elif (wanted := self._wanted(event)) is not None:
            self._keep(event, self._target.statement(wanted, None))
            self._now.statements += 1
            self._now.uses_temporary_tables |= bool(event.uses_temporary_tables)

    def stmt_load_data_block(self, event: StatementLoadDataBlock) -> None:
        """A block of a file."""
        self._blocks.setdefault(event.file_id, []).append(event.block)

    def stmt_load_query(self, event: StatementLoadQuery) -> None:
        """The statement that loads the file of the blocks before it."""
        blocks = b"".join(self._blocks.pop(event.file_id, ()))
        if (wanted := self._wanted(event)) is not None:
            self._keep(event, self._target.statement(wanted, blocks))
            self._now.statements += 1

    def _wanted(self, event: StatementQuery) -> StatementQuery | None:
        """The statement as far as it is for the target."""
        if self._wants.takes_all:
            return event
        context = context_of(event)
        if not isinstance(context, QueryContext):
            raise UsageError("statements of some tables can be told only in a log")
        if event.is_row_statement:
            raise rows_not_logged(
                context.event,
                "which tables it changes is unknown: apply all tables, or set binlog_format=ROW on"
                " the source",
            )
        found = selected(context.event, self._wants)
        if found is context.event:
            return event
        return None if found is None else StatementQuery(context.of_event(found))

    def trx_commit(self, event: TransactionCommit) -> None:
        """The transaction is applied."""
        self._end(event, rolled_back=False)

    def trx_rollback(self, event: TransactionRollback) -> None:
        """It is executed and rolled back, as its source did: tables without transactions changed.

        What was rolled back to a savepoint is left out.
        """
        if event.savepoint is None:
            self._end(event, rolled_back=True)

    def _begin(self) -> None:
        self._now = Transaction()
        self._content = blake2b(digest_size=_DIGEST)
        self._blocks.clear()

    def _keep(self, event: ReplicationEvent, made: tuple[Any, int] | None) -> None:
        if made is None:
            return
        item, size = made
        self._now.add((not event.is_rolled_back, item), size)

    def _end(self, event: TransactionCommit | TransactionRollback, *, rolled_back: bool) -> None:
        transaction = self._now
        transaction.gtid = _gtid(event.global_transaction_id)
        transaction.prepared = _gtid(event.prepared_transaction_id)
        transaction.position = event.position
        transaction.resume = None if self._resume is None else self._resume()
        identity = self._identify(event)
        transaction.origin = self._origin(transaction, event.server_id)
        file_mark = self._mark(transaction.resume)
        if file_mark is not None:
            transaction.mark = str(Mark(file_mark, identity, transaction.origin))
        transaction.stamp = _stamp(event, transaction.gtid)
        transaction.rolled_back = rolled_back
        transaction.non_transactional = not event.transactional_tables
        transaction.mixed = bool(
            transaction.statements
            and event.transactional_tables
            and event.non_transactional_tables is not False
            and not (transaction.statements == 1 and transaction.uses_temporary_tables)
        )
        self._begin()
        self._check_log(transaction)
        self._check_identity(transaction, identity)
        if self._progress.has(transaction.gtid, transaction.position):
            self._skipped += 1
            transaction.close()
            return
        if not transaction.size and (transaction.note is not None or transaction.gtid is None):
            if not self._is_far(transaction):
                return  # noting each would make one more, which another applier may note
        elif self._own_id is not None and transaction.origin == self._own_id:
            raise ring(transaction, self._own_id)
        self._noted = transaction.resume
        state = self._progress.add(transaction.gtid, transaction.prepared)
        transaction.gtids = None if state is None else state.copy()
        self._progress.position = transaction.position
        self._put(transaction)

    def _origin(self, transaction: Transaction, server_id: int | None) -> int | None:
        """The server on which a transaction began, by the id in the log.

        Without GTIDs MySQL logs its own id with what an applier does there: only what that notes
        says it, before a statement, or among the rows.
        """
        note, announced = transaction.note, self._announced
        if note is not None:
            self._announced = note.server_id if note.pending else None
        if transaction.gtid is not None:
            return server_id
        if note is not None and not note.pending:
            return note.server_id or server_id
        if transaction.statements and announced is not None:
            self._announced = None
            return announced
        return server_id

    def _is_far(self, transaction: Transaction) -> bool:
        """Whether the last position that was noted is so far back that this one is worth a note:
        the source may purge the files between them.
        """
        resume = transaction.resume
        noted = self._noted = self._noted or resume
        if noted is None or resume is None:
            return False
        return resume.file != noted.file or resume.offset - noted.offset >= _FAR

    # --- the queue -------------------------------------------------------------------------------

    def _put(self, transaction: Transaction) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._failed is not None
                    or (self._bytes < _MOST_BYTES and len(self._waiting) < _MOST)
                )
            )
            self._check()
            self._waiting.append(transaction)
            self._bytes += transaction.size
            self._changed.notify_all()

    def _check(self) -> None:
        if self._failed is not None:
            self._is_told = True
            raise self._failed

    def flush(self) -> None:
        """Wait until all that came so far is applied. Raises what the target raises."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failed is not None or not (self._waiting or self._busy)
            )
            self._check()

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
                    called = self._changed.wait_for(
                        lambda: self._waiting or self._ending, timeout=_IDLE
                    )
                    ends = called and not self._waiting
                    resume = None if self._waiting else self._to_note()
                    count = min(len(self._waiting), _TOGETHER)
                    taken = [self._waiting.popleft() for _ in range(count)]
                    self._bytes -= sum(each.size for each in taken)
                    self._busy = bool(taken)
                    self._changed.notify_all()
                if resume is not None:
                    mark = self._mark(resume)
                    self._target.start(resume, mark, forgets=self._is_same_log is False)
                if ends:
                    return
                if not taken:
                    self._target.check()
                    continue
                try:
                    self._target.apply(taken)
                finally:
                    self._count(taken[: self._target.applied])
                for each in taken:
                    each.close()
        except BaseException as error:  # noqa: BLE001 - raised where the next call is made
            with self._changed:
                self._failed, self._busy = error, False
                self._changed.notify_all()
            if self._on_error is not None:
                self._on_error()

    def _to_note(self) -> Position | None:
        """Where to resume while nothing waits, if the target has to note it."""
        knows = self._transactions or (self._skipped and self._is_same_log is not False)
        if not self._starts or self._is_noted or self._resume is None or knows:
            return None
        resume = self._resume()
        if resume is None or not resume.file:
            return None
        if self._is_same_log is None and not self._is_after(resume):
            return None
        self._is_noted = True
        return resume

    def _mark(self, resume: Position | None) -> str | None:
        return None if resume is None else self._marks.get(resume.file)

    def _count(self, applied: list[Transaction]) -> None:
        for each in applied:
            self._transactions += 1
            self._position = each.position
            if each.gtids is not None:
                self._gtids[each.gtids.flavour] = each.gtids
            if not each.rolled_back:
                self._rows += each.row_events
                self._statements += each.statements

    def close(self) -> None:
        """Apply what waits, end the thread, and close the target.

        Raises what the target raised, unless another call has raised it: then a transaction, and
        all that waited after it, is not applied. A second call does nothing.
        """
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join()
        self._target.close()
        if not self._is_told:
            self._check()

    @property
    def applied(self) -> Applied:
        """What was applied so far, to the last transaction that the target has: of all that came,
        once `flush` has returned.
        """
        return Applied(
            self._transactions,
            self._rows,
            self._statements,
            self._skipped,
            self._position,
            ",".join(text for each in self._gtids.values() if (text := each.text())),
        )


def _gtid(told: object) -> AnyGtid | None:
    return None if told is None else parse_gtid(str(told))


def _stamp(event: TransactionCommit | TransactionRollback, gtid: AnyGtid | None) -> Stamp | None:
    if (number := event.sequence_number) is not None:
        return Stamp(number, event.last_committed or 0)
    group = event.group_commit_id
    if group is None or not isinstance(gtid, MariadbGtid):
        return None
    return Stamp(group=(gtid.domain_id, group))


def target_of(
    to: str,
    *,
    channel: str = "default",
    table: str = "tailrace.applied",
    conflicts: Conflicts,
    workers: int = 1,
) -> Target:
    """The target of a URL. Raises UsageError for a URL that names no known database."""
    if not isinstance(to, str):
        raise UsageError(
            f"the target is a URL, as mysql://user@host/ or sqlite:///file, not {to!r:.80}"
        )
    if not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
        raise UsageError(f"there are 1 to {MOST_WORKERS} workers, and not {workers!r}")
    if conflicts not in ("stop", "skip", "overwrite"):
        raise UsageError(f"conflicts is stop, skip or overwrite, and not {conflicts!r}")
    if names_server(to):
        from tailrace.applier.server.target import ServerTarget  # noqa: PLC0415 - with PyMySQL

        return ServerTarget(to, channel=channel, table=table, conflicts=conflicts, workers=workers)
    if workers > 1:
        raise UsageError("only servers of MySQL and MariaDB have more than one worker")
    if "://" not in to:
        raise UsageError(
            f"{to!r:.80} is no URL: mysql://user@host/, sqlite:///file, postgresql://…"
        )
    from tailrace.applier.database import DatabaseTarget  # noqa: PLC0415 - with SQLAlchemy

    return DatabaseTarget(to, channel=channel, table=table, conflicts=conflicts)


@checked
def apply(
    source: Source,
    to: str,
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
    channel: str = "default",
    table: str = "tailrace.applied",
    conflicts: Conflicts = "stop",
    workers: int = 1,
    on_start: Callable[[EventStream], object] | None = None,
) -> Applied:
    """Carry out the changes of a source in another database, each once.

    ``to`` is the URL of a MySQL or MariaDB server, or of a database of SQLAlchemy's: PostgreSQL,
    SQLite. The arguments before ``channel`` are those of
    `tailrace.rows`; without ``start`` it continues where the target is. How far that is the target
    itself knows, in the row ``channel`` of its ``table``, which is created. ``conflicts`` says what
    happens where its rows are not as they were on the source (`Conflicts`). A server executes
    ``workers`` transactions at a time, where the log says that they do not depend on each other;
    they are committed in their order. ``on_start`` is given the stream, whose ``stop`` ends the
    call after a transaction.

    ``lower_case_table_names`` is that of the server that wrote the log. A server is asked, and a
    log shows it in most cases; what it leaves open is an error.

    Raises what reading raises, ServerError for a statement that the target rejects, LogReset if the
    log is not the one that the channel has applied, and UsageError for several logs, and if another
    applier has the channel. All before it is applied; the next call continues there.

    >>> import tailrace
    >>> done = tailrace.apply("examples/shop/mysql", url)
    >>> again = tailrace.apply("examples/shop/mysql", url, start="binlog.000001")
    >>> done.transactions == again.skipped, again.transactions
    (True, 0)
    """
    asked = TableFilter.of(tables, exclude)
    target = target_of(to, channel=channel, table=table, conflicts=conflicts, workers=workers)
    try:
        log = one_log(
            source, keyring, layers, why="apply one of them; each log needs a channel of its own"
        )
        wants, lower_case_table_names = as_named(asked, lower_case_table_names, [log])
        own_id = target.own_id(log)
        agreed = agreed_start(log, start)
        continues = agreed is None
        begin = target.progress.resume if continues else start
        if continues and target.progress.resume is not None and isinstance(log, LogSeries):
            mark = Mark.parse(target.progress.mark).file or None
            check_log(log, target.progress.resume, mark, _OTHER_LOG)
        try:
            stream = EventStream(
                log,
                start=begin,
                until=until,
                follow=follow,
                tables=asked.with_also(frozenset({TableName(*target.place)})),
                schema=schema,
                lower_case_table_names=lower_case_table_names,
                verify_checksums=verify_checksums,
            )
        except TailraceError as error:
            if continues and begin is not None:
                error.add_note(f"the target has come to {begin}: {_OTHER_LOG}")
            raise
    except BaseException:
        target.close()
        raise
    if continues and target.progress.definitions is not None:
        stream.definitions.take_over(target.progress.definitions)
    applier = Applier(
        target,
        wants=wants,
        resume=lambda: stream.position,
        starts=not continues or target.progress.resume is None,
        on_error=stream.stop,
        own_id=own_id if follow else None,
        by_gtids=isinstance(agreed, GtidState),
    )
    with stream, applier:
        if not continues and target.progress.resume is not None and target.progress.mark:
            known = target.progress.resume.file
            with suppress(TailraceError):  # then it is not known to be the same log
                if mark := mark_of(log, known, waits=False):
                    applier.begin_file(known, mark)
        stream.on_file(applier.begin_file)
        applier.register(stream)
        if on_start is not None:
            on_start(stream)
        stream.run()
        applier.flush()
        return replace(applier.applied, position=stream.position)
