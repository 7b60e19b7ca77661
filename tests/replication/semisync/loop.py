"""A reader with observers, whose events are kept in memory and queued by hand."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Self

from tailrace.errors import TailraceError
from tailrace.live.chunks import END, Chunk
from tailrace.live.feed import Feed
from tailrace.observers import RelayFlag, RelayIo, RelayIoDelegate
from tailrace.position import Position
from tests.live.feeding import source_of
from tests.waiting import DEADLINE, ended, in_thread

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
            start=start or Position(*server.end()),
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
        self.thread = in_thread(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self.feed.close()
        ended(self.thread)

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
        def run() -> None:
            with server.connect() as connection, connection.cursor() as cursor:
                for sql in statements:
                    cursor.execute(sql)

        self._done = in_thread(run)

    def returned(self, seconds: float = DEADLINE) -> bool:
        """Whether it has returned, waiting so long."""
        wait([self._done], seconds)
        return self._done.done() and self._done.result() is None


def counters(server: Server) -> dict[str, str]:
    """The source's status, by the part of the name behind ``Rpl_semi_sync_source_``."""
    rows = server.query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync%'")
    return {
        name.removeprefix("Rpl_semi_sync_").split("_", 1)[1]: value
        for name, value in rows
        if not name.startswith("Rpl_semi_sync_slave")
    }
