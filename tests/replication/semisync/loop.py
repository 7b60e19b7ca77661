"""A reader with observers for tests: a dump on one connection, events kept in memory.

It calls the delegate where the feed and the receiver do, and queues by hand: a test says when an
event is written and whether it is synced.
"""

from __future__ import annotations

import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from tailrace.errors import TailraceError
from tailrace.live.net import NetService
from tailrace.live.stream import BinlogStream
from tailrace.observers import RelayFlag, RelayIo, RelayIoDelegate
from tests.waiting import DEADLINE

if TYPE_CHECKING:
    from tailrace.observers import RelayIoObserver
    from tools.servers import Server

_ROTATE = 4
_ARTIFICIAL = 0x20
_HEARTBEATS = (27, 41)


class Reader:
    """A replica's I/O side, from the end of the source's log on, in a thread of its own.

    ``hold``: events are read and not queued until `queue` is called. ``wire`` wraps a record before
    the observers see it; ``sync`` is the flag with which events are queued.
    """

    def __init__(
        self,
        server: Server,
        *observers: RelayIoObserver,
        hold: bool = False,
        start: tuple[str, int] | None = None,
        server_id: int = 4242,
        **connect: Any,
    ) -> None:
        self.server = server
        self.delegate = RelayIoDelegate(observers)
        self.hold = hold
        self.events: list[bytes] = []
        self.read: list[tuple[str, int, bytes]] = []
        """What was read and not queued: file, end, event."""
        self.error: TailraceError | None = None
        self.lock = threading.Lock()
        file, position = start or end_of(server)
        self.io = RelayIo(
            server_id=server_id,
            host=server.host,
            user="root",
            port=server.port,
            log_name=file,
            log_pos=position,
        )
        self.connect = connect

    def __enter__(self) -> Self:
        self.delegate.thread_start(self.io)
        self.connection = self.server.connect(**self.connect)
        self.service = NetService(self.connection, "the test's source")
        self.io.connection = self.service
        for sql in self._session():
            self.service.query(sql)
        annotate = 0 if self.server.flavour == "mysql" else 2
        flags = self.delegate.before_request_transmit(self.io, annotate)
        self.stream = BinlogStream.open(
            self.connection,
            filename=self.io.log_name,
            position=self.io.log_pos,
            server_id=self.io.server_id,
            flags=flags,
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _session(self) -> list[str]:
        common = "SET @master_binlog_checksum = 'CRC32', @master_heartbeat_period = 1000000000"
        if self.server.flavour == "mysql":
            return [f"{common}, @source_binlog_checksum = 'CRC32'"]
        return [common, "SET @mariadb_slave_capability = 4"]

    def _run(self) -> None:
        queue = RelayIo(**{name: getattr(self.io, name) for name in RelayIo.__slots__})
        self.queued = queue
        try:
            for record in self.stream:
                event = self.delegate.after_read_event(self.io, record)
                kind, length, _, flags = struct.unpack_from("<4xB4xIIH", event)
                assert length == len(event)
                if kind in _HEARTBEATS:
                    continue
                if flags & _ARTIFICIAL or (
                    kind == 15 and not struct.unpack_from("<13xI", event)[0]
                ):
                    if kind == _ROTATE:
                        self.io.log_pos = struct.unpack_from("<Q", event, 19)[0]
                        self.io.log_name = bytes(event[27:-4]).decode()
                    continue
                self.io.log_pos += length
                with self.lock:
                    self.read.append((self.io.log_name, self.io.log_pos, bytes(event)))
                if not self.hold:
                    self.queue()
        except TailraceError as error:
            self.error = error

    def queue(self, flags: RelayFlag = RelayFlag.SYNCED, *, last_only: bool = False) -> int:
        """Queue all that was read; ``last_only``: those before the last are not yet synced."""
        with self.lock:
            read, self.read = self.read, []
        for at, (file, end, event) in enumerate(read, 1):
            self.queued.log_name, self.queued.log_pos = file, end
            how = RelayFlag.NONE if last_only and at < len(read) else flags
            self.delegate.after_queue_event(self.queued, memoryview(event), how)
            self.events.append(event)
        return len(read)

    def stop(self) -> None:
        """End the thread and the stream, as a feed does when it is closed."""
        with suppress(OSError):
            self.service._socket.shutdown(2)
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()
        self.stream.close()
        self.connection.close()
        self.delegate.thread_stop(self.io)


def end_of(server: Server) -> tuple[str, int]:
    """Where the server's log ends now."""
    where = "SHOW BINARY LOG STATUS" if server.flavour == "mysql" else "SHOW MASTER STATUS"
    file, position, *_ = server.query(where)[0]
    return str(file), int(position)


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
