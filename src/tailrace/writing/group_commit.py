"""Group commit: one write, and one sync, for all transactions that wait for them.

A commit adds its transaction under the log's lock, which gives it its place, and waits without the
lock. One of the waiting threads, the *leader*, writes and syncs everything that was added so far;
transactions that others add meanwhile are the next group, which its first thread leads. MySQL's and
MariaDB's group commit works in the same way (``MYSQL_BIN_LOG::ordered_commit``).

An interrupt (KeyboardInterrupt) can come at any instruction of a thread. So whatever the leader
does is noted here before it is done, and each step can be repeated: an interrupted leader's next
call ends what it had started.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Condition, Lock, get_ident
from typing import TYPE_CHECKING

from tailrace.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from threading import RLock

    from tailrace.position import Position
    from tailrace.writing.cache import Group


@dataclass(slots=True, eq=False)
class Waiting:
    """A transaction that waits to be written: its bytes, and where they end in the log."""

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
    thread: int = field(default_factory=get_ident)
    """The one that commits it."""

    def wake(self) -> None:
        """Its thread can continue. A second time does no harm."""
        if self.turn is not None and self.turn.locked():
            self.turn.release()


class GroupCommit:
    """The transactions of a log that wait to be written and synced, in the log's order.

    ``write`` puts bytes into the file, and syncs it if the log's options say so; one thread at a
    time calls it, with or without ``lock``, the log's. ``written`` is told which transactions are
    in the log, and ``failed`` why none of those that wait can be: both under the lock.
    """

    def __init__(
        self,
        lock: RLock,
        *,
        write: Callable[[Iterable[bytes]], None],
        written: Callable[[Sequence[Waiting]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._lock = lock
        self._idle = Condition(lock)
        self._write = write
        self._written = written
        self._failed = failed
        self._queue: list[Waiting] = []
        self._batch: list[Waiting] = []
        """Those that are being written."""
        self._synced = False
        """Whether these are in the log."""
        self._leader: int | None = None
        """The thread that leads."""
        self._drains = 0
        """Threads in `drain`: they sync what waits, and no other thread becomes the leader."""

    def add(self, waiting: Waiting) -> None:
        """Take a transaction, under the lock; `wait` must follow, without it."""
        self._resume()
        free = self._leader is None and not self._drains
        if free or self._leader == waiting.thread:  # it may have been interrupted before it began
            waiting.leads, self._leader = True, waiting.thread
        else:
            waiting.turn = Lock()
            waiting.turn.acquire()
        self._queue.append(waiting)

    def has(self, waiting: Waiting) -> bool:
        """Whether `add` took it, also if that was interrupted."""
        with self._lock:
            return waiting.settled or waiting in self._queue or waiting in self._batch

    def wait(self, waiting: Waiting) -> None:
        """Return when the transaction is synced. Raises StorageError if it is not in the log.

        An interrupt (KeyboardInterrupt) of another thread's sync is noted in ``group.failure``, as
        an error of an observer is: it does not keep the transaction from being in the log. After
        any other, when neither ``settled`` nor ``error`` is set, `wait` must be called again.
        """
        while waiting.turn is not None and not (waiting.leads or waiting.settled):
            try:
                waiting.turn.acquire()
            except BaseException as error:  # noqa: BLE001 - others may wait for this thread to lead
                waiting.group.failure = error
        if waiting.leads:
            self._lead(waiting)
        cause = waiting.error
        if cause is not None:
            if waiting.leads:
                raise cause
            raise StorageError(str(cause) or type(cause).__name__) from cause

    def _lead(self, waiting: Waiting) -> None:
        with self._lock:
            self._resume(waiting.group.failure)
            if waiting.settled:
                self._hand_over()
                return
            self._take()
        error = self._tried()
        with self._lock:
            self._settle(error)
            self._hand_over()

    def drain(self) -> None:
        """Return when nothing waits: all is synced, or has failed. The caller has the lock, which
        others may get meanwhile, and has it when this returns.
        """
        self._resume()
        me = get_ident()
        if self._leader == me:  # it was interrupted before it began
            self._leader = None
        self._drains += 1
        try:
            while self._leader is not None:
                self._idle.wait()
            if self._queue:
                self._take()
                error = self._tried()
                self._settle(error)
                if error is not None and not isinstance(error, Exception):
                    raise error  # noqa: TRY301 - the batch is settled, so nothing is done twice
        except BaseException as error:
            self._resume(error)
            raise
        finally:
            self._drains -= 1
            if self._leader is None or self._leader == me:
                if self._drains or self._queue:
                    self._leader = me
                    try:
                        self._hand_over()
                    except BaseException:  # an interrupt: others wait for this
                        self._hand_over()
                        raise
                else:
                    self._leader = None

    def _take(self) -> None:
        """Lead: what waits now is written next."""
        self._leader, self._synced = get_ident(), False
        self._batch, self._queue = self._queue, []

    def _resume(self, error: BaseException | None = None) -> None:
        """Settle what this thread was writing when it was interrupted by ``error``."""
        if self._batch and self._leader == get_ident():
            cause = error or StorageError("the thread that wrote it was interrupted")
            self._settle(None if self._synced else cause)

    def _hand_over(self) -> None:
        """If this thread leads, have the next one continue, if there is one."""
        if self._leader != get_ident():
            return
        following = None
        if self._drains:
            self._idle.notify()
        elif self._queue:
            first = self._queue[0]
            first.leads = True
            first.wake()
            following = first.thread
        self._leader = following

    def _tried(self) -> BaseException | None:
        try:
            self._write([b"".join([each.data for each in self._batch])])
            self._synced = True
        except BaseException as error:  # noqa: BLE001 - every transaction gets it
            return error
        return None

    def _settle(self, error: BaseException | None) -> None:
        """Tell the outcome to those that wait. What follows a transaction that failed fails too."""
        if error is None:
            self._written(self._batch)
        else:
            self._batch, self._queue = [*self._batch, *self._queue], []
            self._failed(error)
        for each in self._batch:
            each.error, each.settled = error, True
            if not each.leads:
                each.wake()
        self._batch = []
