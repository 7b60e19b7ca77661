"""A reader with observers for tests: a feed whose events are kept in memory and queued by hand, so
that a test says when one is written and whether it is synced.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

from tailrace.errors import TailraceError
from tailrace.live.chunks import END, Chunk
from tailrace.live.feed import Feed
from tailrace.observers import RelayFlag, RelayIo, RelayIoDelegate
from tailrace.position import Position
from tests.live.feeding import source_of
from tests.waiting import DEADLINE
from tests.wire.test_traffic import end_of_log

if TYPE_CHECKING:
    from tailrace.observers import RelayIoObserver
    from tools.servers import Server


class Reader:
    """Reads from the end of the source's log on, in a thread of its own.

    ``hold``: events are read and not queued until `queue` is called.
    """

    def __init__(
        self,
        server: Server,
        *observers: RelayIoObserver,
        hold: bool = False,
        start: Position | None = None,
        heartbeat: float = 60,
        **options: Any,
    ) -> None:
        self.delegate = RelayIoDelegate(observers)
        self.feed = Feed(
            source_of(server, heartbeat=heartbeat, retry=0, **options),
            start=start or Position(*end_of_log(server)),
            delegate=self.delegate,
        )
        self.hold = hold
        self.events: list[bytes] = []
        self.read: list[tuple[str, int, bytes]] = []
        """What was read and not queued: file, end, event."""
        self.error: TailraceError | None = None
        self.lock = threading.Lock()

    def __enter__(self) -> Self:
        self._take()  # the file's begin: it is connected
        self.queued = RelayIo(**{name: getattr(self.feed.io, name) for name in RelayIo.__slots__})
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.feed.close()
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        while self._take():
            pass

    def _take(self) -> bool:
        """Read what comes next; whether something may follow."""
        try:
            item = self.feed.take()
        except TailraceError as error:
            self.error = error
            return False
        if isinstance(item, Chunk):
            with self.lock:
                self.read += [(file, at + len(raw), bytes(raw)) for file, at, raw in item.records()]
            if not self.hold:
                self.queue()
        return item is not END

    def queue(self, flags: RelayFlag = RelayFlag.SYNCED, *, last_only: bool = False) -> None:
        """Queue all that was read; ``last_only``: those before the last are not yet synced."""
        with self.lock:
            read, self.read = self.read, []
        for at, (file, end, event) in enumerate(read, 1):
            self.queued.log_name, self.queued.log_pos = file, end
            how = RelayFlag.NONE if last_only and at < len(read) else flags
            self.delegate.after_queue_event(self.queued, memoryview(event), how)
            self.events.append(event)


class Commit:
    """One statement in a thread of its own, to see whether it returns."""

    def __init__(self, server: Server, *statements: str) -> None:
        self.done = threading.Event()
        self.error: Exception | None = None
        self._server, self._statements = server, statements
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            with self._server.connect() as connection, connection.cursor() as cursor:
                for sql in self._statements:
                    cursor.execute(sql)
        except Exception as error:  # noqa: BLE001 - it is the test's, in `returned`
            self.error = error
        self.done.set()

    def returned(self, seconds: float = DEADLINE) -> bool:
        """Whether it has returned, waiting so long."""
        found = self.done.wait(seconds)
        if self.error is not None:
            raise self.error
        return found


def counters(server: Server) -> dict[str, str]:
    """The source's status of semi-synchronous replication, by the part of the name behind
    ``Rpl_semi_sync_source_`` (``…_master_``).
    """
    rows = server.query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync%'")
    return {
        name.removeprefix("Rpl_semi_sync_").split("_", 1)[1]: value
        for name, value in rows
        if not name.startswith("Rpl_semi_sync_slave")
    }
