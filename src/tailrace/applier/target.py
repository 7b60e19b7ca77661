"""Where changes are applied: the interface of targets, and how far one has come."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tailrace.applier.transaction import Mark, Note
from tailrace.closing import Closing
from tailrace.errors import SchemaError, ServerError, UsageError
from tailrace.gtid import GtidList, GtidSet, MariadbGtid
from tailrace.schema.session import session_of_event
from tailrace.sql.logged import concerns
from tailrace.table_name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.applier.transaction import Transaction
    from tailrace.events import QueryEvent
    from tailrace.generators import RowBatch, StatementQuery
    from tailrace.generators.row import ModifiedTable
    from tailrace.gtid import AnyGtid
    from tailrace.log.sources import AnyLog
    from tailrace.position import Position
    from tailrace.schema.catalogue import Catalogue

Conflicts = Literal["stop", "skip", "overwrite"]
"""What happens where the target has other rows than the source had: stop with an error, leave the
target's row, or replace it by the source's."""

MOST_WORKERS: Final = 32
"""Transactions that a server executes at a time."""


@dataclass(slots=True)
class Progress:
    """How far a target has come in a source.

    ``position`` is that of the last event of the last transaction, ``resume`` where to read from,
    ``mark`` by what the file of ``resume`` is known again (`tailrace.log_mark`), and the
    transaction at ``position``, since several logs may have the same mark: a `Mark` as text.
    ``mysql`` and ``mariadb`` are the GTIDs that are applied. ``pending`` is a transaction of which
    it could not be determined whether its statement was executed, as its text (GTID or position).
    ``definitions`` are the source's tables for reading from ``resume``, if the target keeps them.
    """

    position: Position | None
    resume: Position | None
    mysql: GtidSet
    mariadb: GtidList
    pending: str | None = None
    definitions: Catalogue | None = None
    mark: str | None = None

    def has(self, gtid: AnyGtid | None, position: Position | None) -> bool:
        """Whether a transaction was applied: by its GTID, and without one by its position."""
        if gtid is not None:
            return self._of(gtid).includes(gtid)
        return position is not None and self.position is not None and position <= self.position

    def add(self, gtid: AnyGtid | None, prepared: AnyGtid | None) -> GtidSet | GtidList | None:
        """Note a transaction; gives the GTIDs of its flavour, None without one.

        MariaDB's state is one number for each domain and server: that of XA PREPARE is in it
        already.
        """
        if gtid is None:
            return None
        state = self._of(gtid)
        if prepared is not None and isinstance(state, GtidSet):
            state.add(prepared)
        state.add(gtid)
        return state

    def _of(self, gtid: AnyGtid) -> GtidSet | GtidList:
        return self.mariadb if isinstance(gtid, MariadbGtid) else self.mysql


LONGEST_CHANNEL: Final = 40
"""Characters of a channel's name."""

LOCK_SECONDS: Final = 30
"""How long an applier waits for another one that has its channel."""

CONFLICT: Final = (
    ": the target's rows are not those of the source; conflicts=skip leaves them,"
    " conflicts=overwrite replaces them (--conflicts)"
)
"""What an error adds if the target has other rows."""


_COLUMNS: Final = (
    *("channel", "log_file", "log_pos", "resume_file", "resume_pos", "log_mark"),
    *("mysql_gtids", "mariadb_gtids", "pending"),
)
"""The columns of a table of positions, in their order."""
NOTE_COMMENT: Final = "/* tailrace apply */"
"""The end of each statement by which a server notes how far it has come."""
_BEGAN: Final = re.compile(r" \(server (\d+)\)\Z")


def is_place(table: ModifiedTable) -> bool:
    """Whether a table is one in which an applier, any applier, notes its progress. Its changes are
    not applied: each would be noted again, and two appliers in a ring would never end.
    """
    return {column.name for column in table.columns} == set(_COLUMNS)


def note_in_rows(event: RowBatch) -> Note:
    """What a change of a table of positions notes; the columns' names may not be known."""
    columns = event.table.columns
    if len(columns) != len(_COLUMNS):
        return Note()
    mark, pending = (columns[_COLUMNS.index(each)].name for each in ("log_mark", "pending"))
    found = Note()
    for row in event.after_images or ():
        found = _note(row.get(mark), row.get(pending))
    return found


def note_in(statement: bytes) -> Note | None:
    """What a logged statement notes by which an applier notes its progress; None for others."""
    if not statement.endswith(NOTE_COMMENT.encode()):
        return None
    if not statement.startswith((b"UPDATE `", b"INSERT IGNORE INTO `")):
        return None
    return _note(*(_literal(name, statement) for name in ("log_mark", "pending")))


def _literal(column: str, statement: bytes) -> str | None:
    found = re.search(rb"\b%s = '([^']*)'" % column.encode(), statement)
    return None if found is None else found[1].decode("utf-8", "replace")


def _note(mark: object, pending: object) -> Note:
    if pending is not None:
        found = _BEGAN.search(str(pending))
        return Note(None if found is None else int(found[1]), pending=True)
    return Note(Mark.parse(None if mark is None else str(mark)).server_id)


def began(server_id: int | None) -> str:
    """What is added to a pending transaction without a GTID: where it began, if that is known."""
    return "" if server_id is None else f" (server {server_id})"


def without_began(pending: str) -> str:
    """The same pending transaction without that."""
    return _BEGAN.sub("", pending)


def ring(transaction: Transaction, server_id: int) -> UsageError:
    """The error of a transaction that began at the target, which has that server id."""
    return UsageError(
        f"{transaction.name} came from the target itself (server id {server_id}): the appliers, or"
        " an applier and a replica, form a ring and would repeat changes forever: stop one. If"
        " another server has that id, give the target another server_id; to continue after changes"
        " that the target made earlier, give a start (--start)"
    )


def executed_since(transaction: Transaction) -> UsageError:
    """The error of a transaction that the target skipped as it had executed it meanwhile."""
    return UsageError(
        f"{transaction.name} was executed by the target after this applier had started: another"
        " applier or a replica applies the same source to it, or forms a ring with this applier:"
        " stop one"
    )


def progress_missing(target: str, row: str) -> ServerError:
    """The error of a target that lost the row of a channel."""
    return ServerError(
        f"{target}: {row}, which holds the progress, is missing: restore it, or start another"
        " channel (--channel) with a start (--start)",
        code=0,
    )


def channel_taken(target: str, channel: str) -> UsageError:
    """The error of a channel that another applier has."""
    return UsageError(
        f"{target}: another applier has the channel {channel!r}: end it, or give this one a channel"
        " of its own"
    )


def place_of(table: str, channel: str) -> tuple[str, str]:
    """Database and name of the table of positions. Raises UsageError if it, or a channel, has no
    name that each kind of target takes.
    """
    try:
        database, name = TableName.parse(table)
    except UsageError:
        database = name = ""
    if not (database and name):
        raise UsageError(f"the table of positions is DATABASE.NAME, and not {table!r:.80}")
    if not (channel and len(channel) <= LONGEST_CHANNEL and channel.isprintable()):
        raise UsageError(
            f"a channel has a name of 1 to {LONGEST_CHANNEL} characters, not {channel!r:.80}"
        )
    if max(channel) > "\uffff":
        raise UsageError(
            f"the channel {channel!r:.80} has {max(channel)!r}: a server's lock, which bears the"
            " channel's name, has no characters after U+FFFF; choose another name"
        )
    return database, name


def is_about(place: tuple[str, str], event: QueryEvent) -> bool:
    """Whether a logged statement defines the table of positions, or its database: then it is not
    for the target. Raises SchemaError if it defines other tables, too.
    """
    database = place[0]
    if database not in session_of_event(event, event.form.flavour)[1] and (
        database != event.database
    ):  # faster
        return False
    if not concerns(event, lambda *table: table in {place, (database, "")}):
        return False
    if concerns(event, lambda *table: table not in {place, (database, "")}):
        raise SchemaError(
            f"this statement defines {TableName(*place)}, which holds the progress, and other"
            f" tables: {event.sql:.200}: change these by hand, then resume after it with --start"
        )
    return True


class Target(Closing):
    """A database that changes are applied to.

    `rows` and `statement` make of each event what `apply` needs of it, with its size in bytes; none
    where there is nothing to do. They are called by the thread that reads, `apply` by another.
    """

    place: tuple[str, str]
    """Database and name of its table of positions."""
    applied: int = 0
    """Transactions of the last call of `apply` that were applied: those before an error."""

    @property
    @abstractmethod
    def progress(self) -> Progress:
        """How far it has come, read when it was opened."""

    def own_id(self, log: AnyLog) -> int | None:
        """The server id of its own transactions in a log of another server; None if it has none, or
        if the other server has the same. Raises UsageError for its own log.
        """
        del log
        return None

    def begin(self, definitions: Catalogue) -> None:
        """Take in the source's tables as they are defined where reading begins."""

    @abstractmethod
    def rows(self, event: RowBatch) -> Iterable[tuple[Any, int]]:
        """Rows of one table that changed in one way."""

    @abstractmethod
    def statement(self, event: StatementQuery, blocks: bytes | None) -> tuple[Any, int] | None:
        """A statement; ``blocks`` are the bytes of the file of a LOAD DATA."""

    @abstractmethod
    def start(self, resume: Position, mark: str | None, *, forgets: bool) -> None:
        """Note where to resume before anything was applied, and the mark of that file.

        ``forgets``: the position that is noted is of another log. Called by the thread of `apply`.
        """

    def check(self) -> None:
        """Raises what `apply` would if the target is not there; called by the same thread, when
        there is nothing to apply.
        """

    @abstractmethod
    def apply(self, transactions: Sequence[Transaction]) -> None:
        """Apply transactions, in their order, each as one with the note that it is applied."""
