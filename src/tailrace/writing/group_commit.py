"""Group commit: one sync for all transactions that wait for one.

A commit adds its transaction under the log's lock, which gives it its place, and waits without the
lock. One of the waiting threads, the *leader*, writes and syncs everything that was added so far;
transactions that others add meanwhile are the next group, which its first thread leads. MySQL's and
MariaDB's group commit works in the same way (``MYSQL_BIN_LOG::ordered_commit``).
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Condition, Lock
from typing import TYPE_CHECKING

from tailrace.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import RLock

    from tailrace.position import Position
    from tailrace.writing.cache import Group


@dataclass(slots=True, eq=False)
class Waiting:
    """A transaction that waits to be synced: its bytes, and where they end in the log."""

    group: Group
    data: bytes
    end: Position
    error: BaseException | None = None
    """Why it is not in the log, once that is certain."""
    leads: bool = False
    """Its thread writes and syncs for all that wait."""
    settled: bool = False
    """It is synced, or has an error."""
    turn: Lock | None = None
    """Released when it is settled or leads, if it did not lead from the beginning."""

    def wake(self) -> None:
        """Its thread can continue."""
        if self.turn is not None:
            self.turn.release()


class GroupCommit:
    """The transactions of a log that wait to be synced, in the log's order.

    ``write`` puts bytes into the file and syncs it; one thread at a time calls it, with or without
    ``lock``, the log's. ``written`` is told which transactions were synced, and ``failed`` why none
    of those that wait can be: both under the lock.
    """

    def __init__(
        self,
        lock: RLock,
        *,
        write: Callable[[bytes], None],
        written: Callable[[Sequence[Waiting]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._lock = lock
        self._idle = Condition(lock)
        self._write = write
        self._written = written
        self._failed = failed
        self._queue: list[Waiting] = []
        self._led = False
        """Whether a thread leads."""
        self._drains = 0
        """Threads in `drain`: they sync what waits, and no other thread becomes the leader."""

    def add(self, waiting: Waiting) -> None:
        """Take a transaction, under the lock; `wait` must follow, without it."""
        self._queue.append(waiting)
        if self._led or self._drains:
            waiting.turn = Lock()
            waiting.turn.acquire()
        else:
            self._led = waiting.leads = True

    def wait(self, waiting: Waiting) -> None:
        """Return when the transaction is synced. Raises StorageError if it is not in the log.

        An interrupt (KeyboardInterrupt) is noted in ``group.failure``, as an error of an observer
        is: it does not keep the transaction from being in the log.
        """
        while waiting.turn is not None and not (waiting.leads or waiting.settled):
            try:
                waiting.turn.acquire()
            except BaseException as error:  # noqa: BLE001 - others may wait for this thread to lead
                waiting.group.failure = error
        if waiting.leads:
            self._lead()
        cause = waiting.error
        if cause is not None:
            if waiting.leads:
                raise cause
            raise StorageError(str(cause) or type(cause).__name__) from cause

    def _lead(self) -> None:
        with self._lock:
            batch, self._queue = self._queue, []
        error = self._tried(batch)
        with self._lock:
            self._settle(batch, error)
            self._led = False
            self._next()

    def drain(self) -> None:
        """Return when nothing waits: all is synced, or has failed. The caller has the lock, which
        others may get meanwhile, and has it when this returns.
        """
        self._drains += 1
        try:
            while self._led:
                self._idle.wait()
            batch, self._queue = self._queue, []
            if batch:
                error = self._tried(batch)
                self._settle(batch, error)
                if error is not None and not isinstance(error, Exception):
                    raise error
        finally:
            self._drains -= 1
            self._next()

    def _next(self) -> None:
        """Have the next thread continue, if there is one and none leads."""
        if self._led:
            return
        if self._drains:
            self._idle.notify()
        elif self._queue:
            first = self._queue[0]
            self._led = first.leads = True
            first.wake()

    def _tried(self, batch: Sequence[Waiting]) -> BaseException | None:
        try:
            self._write(b"".join([each.data for each in batch]))
        except BaseException as error:  # noqa: BLE001 - every transaction gets it
            return error
        return None

    def _settle(self, batch: list[Waiting], error: BaseException | None) -> None:
        """Tell the outcome to those that wait. What follows a transaction that failed fails too."""
        if error is None:
            self._written(batch)
        else:
            batch, self._queue = [*batch, *self._queue], []
            self._failed(error)
        for each in batch:
            each.error = error
            each.settled = True
            if not each.leads:
                each.wake()
