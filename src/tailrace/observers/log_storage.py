"""Log storage observers: they are told how far the log that a program writes was written and synced
(WL#4398's binlog storage observers).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, ClassVar

from tailrace.observers.delegate import Delegate, Observer

if TYPE_CHECKING:
    from collections.abc import Mapping


class LogStorageFlag(IntFlag):
    """How a transaction was written (the worklog's ``Binlog_storage_flags``)."""

    NONE = 0
    SYNCED = 1
    """The log is synced up to the transaction's end: it survives a power failure."""


@dataclass(frozen=True, slots=True)
class LogStorageIo:
    """The log that is written (the worklog's ``Binlog_storage_param``)."""

    server_id: int


class LogStorageObserver(Observer):
    """The base of log storage observers: a method for each point; these methods do nothing."""

    def after_flush(
        self, io: LogStorageIo, file: str, position: int, flags: LogStorageFlag
    ) -> None:
        """A transaction was written, and synced if ``flags`` say so; it ends at ``position`` of
        ``file`` (name without directory, 64-bit offset in bytes).

        Called in the log's order, one transaction at a time, under the log's lock, in the thread
        that synced it for all that commit at the same time: it must not wait, and not use the log.
        """

    def after_sync(self, io: LogStorageIo, file: str, position: int) -> None:
        """The same transaction, after `after_flush` of all observers and before any is told that it
        was committed. Called without any lock, so that several transactions can wait at the same
        time; also if the log's options sync no transaction.

        Since version 2 of the interface. MySQL's ``after_sync``.
        """


class LogStorageDelegate(Delegate[LogStorageObserver]):
    """Calls log storage observers, in order.

    All are called, also after one raised an error; the first error is then raised to the caller
    that commits, after the transaction observers were told. The transaction is in the log
    nevertheless.
    """

    kind = LogStorageObserver
    points: ClassVar[Mapping[str, object]] = {
        "after_flush": LogStorageObserver.after_flush,
        "after_sync": LogStorageObserver.after_sync,
    }
    since: ClassVar[Mapping[str, int]] = {"after_sync": 2}

    def after_flush(
        self, io: LogStorageIo, file: str, position: int, flags: LogStorageFlag
    ) -> None:
        """A transaction was written."""
        self._all_called("after_flush", io, file, position, flags)

    def after_sync(self, io: LogStorageIo, file: str, position: int) -> None:
        """It was written, and is not yet said to be committed."""
        self._all_called("after_sync", io, file, position)
