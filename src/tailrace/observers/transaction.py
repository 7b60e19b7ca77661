"""Transaction observers: they are told of each transaction's end in the log that a program writes
(WL#4398).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, ClassVar

from tailrace.observers.delegate import Delegate, Observer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.gtid import AnyGtid


class TransactionFlag(IntFlag):
    """What ended (``Trans_flags`` of MySQL's interface)."""

    NONE = 0
    REAL = 1
    """A whole transaction, or a statement that is one by itself (``TRANS_IS_REAL_TRANS``). It is
    always set here: a log has nothing smaller.
    """


@dataclass(frozen=True, slots=True)
class TransactionIo:
    """The transaction that observers are told of (the worklog's ``Trans_param``)."""

    server_id: int
    """The server id of the log."""
    flags: TransactionFlag = TransactionFlag.REAL
    all: bool = True
    """Whether it was a transaction; false for a statement that changed non-transactional tables,
    which ends with a COMMIT statement in the log in place of an XID.
    """
    file: str = ""
    """The log file that it was written to, without directory; empty if nothing was logged."""
    position: int = 0
    """Where it ends in that file; 0 if nothing was logged."""
    gtid: AnyGtid | None = None
    """None for an anonymous transaction, and for one that was not logged."""


class TransactionObserver(Observer):
    """The base of transaction observers: a method for each point; these methods do nothing.

    They are called in the thread that commits or rolls back, without any lock of the log, so that
    the transactions of several threads can wait at the same time. The call to the log returns after
    them.
    """

    def after_commit(self, io: TransactionIo) -> None:
        """A transaction was committed: it is in the log, synced if the log's options say so.

        Also for a statement that commits itself (DDL), and at the end of a statement on
        non-transactional tables.
        """

    def after_rollback(self, io: TransactionIo) -> None:
        """A transaction was rolled back. ``io.file`` says whether its rollback was logged, as
        servers log one that cannot be rolled back in all tables.
        """


class TransactionDelegate(Delegate[TransactionObserver]):
    """Calls transaction observers, in order.

    All are called, also after one raised an error; the first error is then raised to the caller
    that commits. The transaction is in the log nevertheless.
    """

    kind = TransactionObserver
    points: ClassVar[Mapping[str, object]] = {
        "after_commit": TransactionObserver.after_commit,
        "after_rollback": TransactionObserver.after_rollback,
    }

    def after_commit(self, io: TransactionIo) -> None:
        """A transaction was committed."""
        self._all_called("after_commit", io)

    def after_rollback(self, io: TransactionIo) -> None:
        """A transaction was rolled back."""
        self._all_called("after_rollback", io)
