"""Transactions that a server executes at the same time, and commits in their order.

Each worker has a connection and a thread, and is sent every n-th transaction, many at a time. The
server itself keeps the order, by locks of GET_LOCK: a transaction's worker holds the lock of its
number until it has committed, and takes that of its next transaction before it releases this one. A
transaction waits for its turn, that is, for the lock of the number before, before it commits; one
that depends on those before it waits before its first change.

A turn may also come because the worker before was lost: then a check says that the transaction
before is not committed. If a statement fails, if one waits for a row that a later transaction has
locked, the workers' connections are killed, and what is not committed is rolled back.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING, Final

from tailrace.applier.server.pipeline import Pipeline, Sent
from tailrace.applier.server.steps import FAIL, Step, description
from tailrace.applier.target import MOST_WORKERS
from tailrace.errors import ConnectionLost, ServerError, TailraceError
from tailrace.live.driver import err

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.events import FormatDescription
    from tailrace.live.connect import ServerConnection

_TOGETHER: Final = 48 << 10
"""Bytes of statements for one worker that are sent together."""
_QUEUED: Final = 2
"""Packets that wait for a worker's thread."""
_LOOKS_EVERY: Final = 0.02
_NO_THREAD: Final = 1094
_LOCK_WAITS: Final = 1
"""Seconds that a worker waits for a row: the one that has locked it may wait for its turn."""


class Pace:
    """Whether transactions are executed faster by the workers or in order, by one connection.

    Commits in order cost the server some work, and a machine with few processors executes little at
    the same time. So both are tried, and then the faster; every 16th time the other.
    """

    _AGAIN: Final = 16

    def __init__(self) -> None:
        self._seconds = {True: 0.0, False: 0.0}
        self._times = 0

    def by_workers(self) -> bool:
        """Whether the next transactions are for the workers: the first ones are."""
        self._times += 1
        faster = self._seconds[True] <= self._seconds[False]
        return faster if self._times % self._AGAIN else not faster

    def took(self, seconds: float, *, by_workers: bool) -> None:
        """Seconds that a transaction took."""
        self._seconds[by_workers] = seconds


@dataclass(frozen=True, slots=True)
class Job:
    """A transaction: the statements up to its last change, and the others up to COMMIT. ``check``
    fails unless the one before is committed. ``depends``: no change may be made before that.
    """

    number: int
    changes: tuple[bytes, ...]
    commit: tuple[Step, ...]
    check: tuple[bytes, ...]
    depends: bool


class _Worker:
    """A connection, and a thread that sends over it what it is given."""

    def __init__(self, connection: ServerConnection, most: int, changed: Condition) -> None:
        self.pipeline = Pipeline(connection, most)
        self.held: list[Sent] = []
        self.size = 0
        self.failed: BaseException | None = None
        self._packets: deque[list[Sent]] = deque()
        self._busy = self._ending = False
        self._changed = changed
        self._thread = Thread(target=self._work, name="tailrace-apply-worker", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether all that it was given is executed."""
        return not (self._packets or self._busy)

    @property
    def full(self) -> bool:
        """Whether it has to be waited for."""
        return len(self._packets) >= _QUEUED

    def give(self) -> None:
        """Let it send what it holds. The caller holds the condition."""
        if self.held:
            self._packets.append(self.held)
            self.held, self.size = [], 0
            self._changed.notify_all()

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    if not self._packets:
                        packet: list[Sent] | None = None
                        if not self._busy:
                            self._changed.wait_for(lambda: self._packets or self._ending)
                            if self._ending:
                                return
                            continue
                    else:
                        packet, self._busy = self._packets.popleft(), True
                        self._changed.notify_all()
                if packet is not None:
                    self.pipeline.send(packet)
                    continue
                self.pipeline.flush([])
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised by `Workers.run`
            with self._changed:
                self.failed, self._busy = error, False
                self._changed.notify_all()

    def end(self) -> None:
        """End the thread, and close the connection."""
        with self._changed:
            self._ending = True
            self._packets.clear()
            self._changed.notify_all()
        self._thread.join()
        with suppress(err.MySQLError, TailraceError, OSError):
            self.pipeline.connection.close()


def _number(worker: _Worker) -> int:
    return getattr(worker.failed, "number", 0)


class Workers:
    """``count`` workers. ``connect`` makes a connection, ``query`` asks over one that no worker
    has, ``lock`` gives the text of a lock's name, ``most`` is the largest packet.
    ``charset`` is the sessions': latin1, which the server reads faster, if all that they are sent
    is ASCII. ``after_form`` are statements to execute after the one with a format.
    """

    def __init__(
        self,
        count: int,
        *,
        connect: Callable[[], ServerConnection],
        query: Callable[[str], list[tuple[object, ...]]],
        lock: Callable[[int], str],
        most: int,
        charset: str,
        after_form: tuple[bytes, ...],
    ) -> None:
        self.count = count
        self._after_form = after_form
        self._charset = charset
        self._connect = connect
        self._query = query
        self._lock = lock
        self._most = most
        self._workers: list[_Worker] = []
        self._form: FormatDescription | None = None
        self._turn = 0
        self._changed = Condition()

    def _name(self, turn: int) -> bytes:
        return self._lock(turn % (2 * self.count)).encode()

    def run(self, jobs: Iterable[Job], form: FormatDescription) -> None:
        """Execute transactions of one format; returns when all are committed.

        Raises StepError if one is not; then no worker is connected any more.
        """
        try:
            self._start(form)
            first = True
            for job in jobs:
                self._give(job, first=first)
                first = False
            with self._changed:
                for each in self._workers:
                    each.give()
                self._wait(lambda: all(each.idle for each in self._workers))
        except BaseException:
            self._kill()
            raise

    def _give(self, job: Job, *, first: bool) -> None:
        turn, self._turn = self._turn, self._turn + 1
        waits: tuple[bytes, ...] = ()
        if not first:
            before = self._name(turn - 1)
            took = b"SET @tailrace_turn = IF(GET_LOCK(%b, 86400) = 1, RELEASE_LOCK(%b), %b)"
            waits = (took % (before, before, FAIL), *job.check)
        passes = b"SET @tailrace_turn = IF(GET_LOCK(%b, 86400) = 1, RELEASE_LOCK(%b), %b)" % (
            self._name(turn + self.count),
            self._name(turn),
            FAIL,
        )
        parts = (waits, job.changes) if job.depends else (job.changes, waits)
        texts = (*parts[0], *parts[1], *(each.text for each in job.commit), passes)
        count = len(texts) + sum(each.count - 1 for each in job.commit)
        text = b";\n".join(texts)
        worker = self._workers[turn % self.count]
        worker.held.append(Sent(job.number, Step(text, count)))
        worker.size += len(text)
        if worker.size > _TOGETHER:
            with self._changed:
                for each in self._workers:
                    self._wait(lambda each=each: not each.full)  # type: ignore[misc]
                    each.give()

    def _wait(self, done: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: done() or any(each.failed for each in self._workers))
        failed = [each.failed for each in self._workers if each.failed is not None]
        if failed:
            raise failed[0]

    def _start(self, form: FormatDescription) -> None:
        if not self._workers:
            self._turn += -self._turn % self.count
            for number in range(self.count):
                worker = _Worker(self._connect(), self._most, self._changed)
                self._workers.append(worker)
                for text in (
                    b"SET NAMES %b" % self._charset.encode(),
                    b"SET SESSION wait_timeout = 2147483, autocommit = 1",
                    b"SET SESSION completion_type = 'NO_CHAIN'",
                    b"SET SESSION innodb_lock_wait_timeout = %d" % _LOCK_WAITS,
                    b"SET SESSION tx_isolation = IF(@@binlog_format = 'STATEMENT', @@tx_isolation,"
                    b" 'READ-COMMITTED')"
                    if "mariadb" in worker.pipeline.connection.server_version.lower()
                    else b"SET SESSION transaction_isolation = 'READ-COMMITTED'",
                    b"SET @tailrace_turn = IF(GET_LOCK(%b, 30) = 1, 0, %b)"
                    % (self._name(self._turn + number), FAIL),
                ):
                    worker.pipeline.one(Step(text))
            self._form = None
        if form != self._form:
            for worker in self._workers:
                for text in (description(form), *self._after_form):
                    worker.pipeline.one(Step(text))
            self._form = form

    def _kill(self) -> None:
        """End all workers, whatever they wait for, and wait for the server to roll back.

        Each waits for the lock of the one before it, and may continue when that ends: so the last
        ends first, and the one that failed ends last.
        """
        workers, self._workers = self._workers, []
        failed = [each for each in workers if each.failed is not None]
        first = workers.index(min(failed, key=_number)) if failed else 0
        order = [*workers[first:], *workers[:first]][::-1]
        for each in order:
            if each is not workers[first]:
                try:
                    self._query(f"KILL {each.pipeline.connection.number}")
                except ServerError as error:
                    if error.code != _NO_THREAD:
                        raise
        for each in order:
            each.end()
        self.await_gone(self._query, self._lock)

    @staticmethod
    def await_gone(
        query: Callable[[str], list[tuple[object, ...]]], lock: Callable[[int], str]
    ) -> None:
        """Wait until no worker of before is left: each holds one of the locks."""
        names = ", ".join(f"IS_USED_LOCK({lock(number)})" for number in range(2 * MOST_WORKERS))
        deadline = time.monotonic() + 60
        while query(f"SELECT COALESCE({names})")[0][0] is not None:
            if time.monotonic() > deadline:
                raise ConnectionLost("the workers of an applier before this one do not end")
            time.sleep(_LOOKS_EVERY)

    def close(self) -> None:
        """End the workers."""
        for each in self._workers:
            each.end()
        self._workers = []
