"""The transaction generator, the lowest: where transactions start and end (MWL#120
`rpl_event_transaction_base`, `rpl_event_consumer_transaction`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from tailrace.generators.consumer import Consumer
from tailrace.generators.event import Accessor, ReplicationEvent, accessor
from tailrace.generators.generator import Change, Generator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.events.transaction import XaName
    from tailrace.generators.generator import Offer


class GlobalTransactionId(NamedTuple):
    """A transaction's id across servers, the worklog's cluster id and counter.

    ``cluster`` is MySQL's UUID (with its tag, ``uuid:tag``), or MariaDB's domain and server
    (``0-1``); ``counter`` is the number in it. ``str()`` gives the GTID as the servers write it.
    """

    cluster: str
    counter: int

    def __str__(self) -> str:
        mysql = len(self.cluster) > 35 or ":" in self.cluster
        return f"{self.cluster}{':' if mysql else '-'}{self.counter}"

    @classmethod
    def of(cls, gtid: str) -> GlobalTransactionId:
        """From a GTID's text, of either flavour."""
        cluster, counter = gtid.rsplit(":" if ":" in gtid else "-", 1)
        return cls(cluster, int(counter))


class TransactionEvent(ReplicationEvent):
    """The base of the events of the transaction generator."""

    __slots__ = ()

    local_transaction_id: Accessor[int] = accessor(
        "The transaction's number at this source: transactions that interleave differ in it."
    )
    is_autocommit: Accessor[bool | None] = accessor(
        "Whether it is one statement that committed itself. A log does not tell: None."
    )
    transactional_tables: Accessor[bool | None] = accessor(
        "Whether tables with transactions took part; None if unknown."
    )
    non_transactional_tables: Accessor[bool | None] = accessor(
        "Whether tables without transactions took part, or temporary ones; None if unknown."
    )
    xa: Accessor[XaName | None] = accessor("The name of an XA transaction; None for others.")


class TransactionStart(TransactionEvent):
    """A transaction starts."""

    __slots__ = ()
    name: ClassVar[str] = "trx_start"


class _Decided(TransactionEvent):
    """A transaction's end."""

    __slots__ = ()

    global_transaction_id: Accessor[GlobalTransactionId | None] = accessor(
        "Its id across servers, decided when it ended; None if it has none."
    )
    prepared_transaction_id: Accessor[GlobalTransactionId | None] = accessor(
        "Of an XA transaction: the id of its XA PREPARE, which is a transaction of its own."
    )
    commit_timestamp: Accessor[int | None] = accessor(
        "When it was committed where that happened first, in microseconds UTC."
    )
    immediate_commit_timestamp: Accessor[int | None] = accessor(
        "When it was committed on the server that wrote this log, in microseconds UTC (MySQL)."
    )
    last_committed: Accessor[int | None] = accessor(
        "The sequence number of the last transaction that must be committed before it is applied,"
        " within a log file (MySQL's logical clock or write sets)."
    )
    sequence_number: Accessor[int | None] = accessor(
        "Its sequence number within the log file (MySQL)."
    )
    group_commit_id: Accessor[int | None] = accessor(
        "The id of the group that was committed together (MariaDB): its members do not conflict."
    )


class TransactionCommit(_Decided):
    """A transaction is committed. One that only prepared an XA transaction gives no events: the
    changes come when that is committed.
    """

    __slots__ = ()
    name: ClassVar[str] = "trx_commit"


class TransactionRollback(_Decided):
    """A transaction is rolled back, in whole, or back to a savepoint.

    Servers log a whole one only if tables without transactions were changed in it.
    """

    __slots__ = ()
    name: ClassVar[str] = "trx_rollback"

    savepoint: Accessor[str | None] = accessor(
        "The savepoint back to which it is rolled back; None for the whole transaction."
    )


class TransactionConsumer(Consumer, interface=True):
    """What is told of transactions.

    A consumer that has `trx_rollback` is told of what was rolled back, too, before it: others never
    see it.
    """

    def trx_start(self, event: TransactionStart, /) -> object:
        """A transaction starts."""

    def trx_commit(self, event: TransactionCommit, /) -> object:
        """A transaction is committed."""

    def trx_rollback(self, event: TransactionRollback, /) -> object:
        """A transaction is rolled back: all of it, or what came after ``event.savepoint``."""


KINDS: Final[dict[str, tuple[type[Any], ...]]] = {
    Change.START: (TransactionStart,),
    Change.COMMIT: (TransactionCommit,),
    Change.ROLLBACK: (TransactionRollback,),
}
"""The events of each change."""


class TransactionGenerator(Generator):
    """Marks where transactions start and end."""

    name: ClassVar[str] = "transaction"
    interface: ClassVar[type[Consumer]] = TransactionConsumer

    def kinds(self, offer: Offer) -> tuple[type[ReplicationEvent], ...]:
        """Starts, commits and rollbacks."""
        return KINDS.get(offer.change, ())

    def always(self, change: str, /) -> tuple[type[ReplicationEvent], ...]:
        """The same."""
        return KINDS.get(change, ())

    def events(self, offer: Offer, kind: type[ReplicationEvent]) -> Iterator[ReplicationEvent]:
        """One event for each change."""
        yield kind(offer.context)
