"""A dump on a connection that the user authenticated: WL#7672 in Python.

The worklog's ``MYSQL_RPL`` is a `BinlogStream`; ``mysql_binlog_open``, ``mysql_binlog_fetch`` and
``mysql_binlog_close`` are its `open`, `fetch` and `close`, ``MYSQL_RPL_GTID`` is `RPL_GTID`. Calls
whose effect the worklog calls unpredictable raise LocalProtocolError here, before a byte is sent.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self

from tailrace.closing import Closing
from tailrace.constants import HEADER_SIZE, EventFlag, EventType
from tailrace.errors import ConnectionLost, LocalProtocolError, MalformedPacket, UsageError
from tailrace.events.header import unpack_header
from tailrace.gtid import GtidSet
from tailrace.live.dump_connection import DumpConnection
from tailrace.live.place import plain_body
from tailrace.live.server_errors import server_error
from tailrace.wire.commands import LONGEST_NAME, BinlogDump, BinlogDumpGtid, DumpFlag
from tailrace.wire.packets import OK, ErrorPacket, checked, is_end, is_error, name
from tailrace.wire.semisync import event_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.errors import TailraceError
    from tailrace.live.driver import Connection
    from tailrace.live.sockets import Socket

RPL_GTID: Final = 1 << 16
"""In ``flags``: ask by COM_BINLOG_DUMP_GTID, not COM_BINLOG_DUMP (the worklog's MYSQL_RPL_GTID)."""
_OURS: Final = 0xFFFF0000
_FIRST: Final = 4
_HEADS: Final = frozenset({EventType.FORMAT_DESCRIPTION, EventType.START_ENCRYPTION})
_HEARTBEATS: Final = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_U32: Final = 0xFFFFFFFF
_U64: Final = 0xFFFFFFFFFFFFFFFF


class _State(Enum):
    """The state of a stream.

    =========  ==================================================  ===============  ========
    state      fetch                                               detach           close
    =========  ==================================================  ===============  ========
    OPEN       a record: FETCHING; the end: ENDED; else: FAILED    DETACHED         CLOSED
    FETCHING   as OPEN                                             rejected         CLOSED
    ENDED      None                                                rejected         CLOSED
    FAILED     rejected                                            rejected         CLOSED
    DETACHED   rejected                                            rejected         CLOSED
    CLOSED     rejected                                            rejected         CLOSED
    =========  ==================================================  ===============  ========

    "rejected" means that LocalProtocolError is raised. A fetch that is running when another thread
    closes the stream returns None.
    """

    OPEN = "is open"
    FETCHING = "was fetched from"
    ENDED = "has ended"
    FAILED = "ended with an error"
    DETACHED = "was detached"
    CLOSED = "was closed"


class BinlogStream(Closing):
    """Records of a binary log, one by one, as the server sends them.

    Creating one requests the log; `open` is the worklog's name for that. ``server_id``, ``flags``
    and ``gtid_set`` are those of the request. ``filename`` and ``position`` say where the next
    event begins: those of the request until the server has sent others. Where the server leaves
    events out (MariaDB its ANNOTATE_ROWS, unless ``flags`` ask for them), they are exact at the
    ends of transactions. ``buffer`` and ``size`` have the last record. Before the first and after
    the last one these are None and 0, after an error None and -1.

    Only one thread may call `fetch`; any may call `close`.
    """

    def __init__(
        self,
        connection: Connection[Any],
        filename: str = "",
        position: int = _FIRST,
        *,
        server_id: int = 0,
        flags: int = 0,
        gtid_set: GtidSet | None = None,
        announce_checksum: bool = True,
    ) -> None:
        """Request the server's log, on a connection that is authenticated and idle.

        Without `RPL_GTID` in ``flags``: the log ``filename`` (empty: the oldest) from ``position``
        on, an event's beginning, 4 to 2**32 - 1. With it, MySQL's alone: all transactions that are
        not in ``gtid_set`` (None: none is left out), from the oldest log that has one of them, or
        from ``filename`` where that is given. ``server_id`` identifies this replica to the server;
        with 0 the dump does not wait for more, whatever the flags say. The lower half of ``flags``
        goes to the server (`tailrace.wire.commands.DumpFlag`). With ``announce_checksum`` a session
        that has not set ``@source_binlog_checksum`` is first given the server's own setting there,
        without which it sends no log with checksums. All else that the server requires of a
        replica's session is the caller's to set.

        The first `fetch` returns the server's answer, or raises its error. From now on the
        connection accepts no other command, and after `close` it can only be closed.

        Raises UsageError and LocalProtocolError: nothing was sent, and the connection is as it was.
        ConnectionLost: the connection is gone.
        """
        self.connection = connection
        self.filename = filename
        self.position = position
        self.server_id = server_id
        self.flags = flags
        self.gtid_set = gtid_set
        self.buffer: memoryview | None = None
        self.size = 0
        self._lock = Lock()
        self._hold = DumpConnection(connection)
        self._hold.check()
        command = self._command()
        if announce_checksum:
            self._hold.announce_checksum()
        self._hold.take(command)
        self._state = _State.OPEN

    @classmethod
    def open(
        cls,
        connection: Connection[Any],
        filename: str = "",
        position: int = _FIRST,
        *,
        server_id: int = 0,
        flags: int = 0,
        gtid_set: GtidSet | None = None,
        announce_checksum: bool = True,
    ) -> Self:
        """The same as creating a stream: the worklog's ``mysql_binlog_open``."""
        return cls(
            connection,
            filename,
            position,
            server_id=server_id,
            flags=flags,
            gtid_set=gtid_set,
            announce_checksum=announce_checksum,
        )

    def _command(self) -> bytes:
        """The bytes of the command. Raises UsageError."""
        checked(self.flags, "flags", 0, _U32)
        checked(self.server_id, "server_id", 0, _U32)
        name(self.filename, "filename", LONGEST_NAME)
        if unknown := self.flags & _OURS & ~RPL_GTID:
            raise UsageError(
                f"the upper half of flags may hold RPL_GTID (0x10000) only, not {unknown:#x}"
            )
        passed_on = self.flags & ~_OURS
        if not self.flags & RPL_GTID:
            if self.gtid_set is not None:
                raise UsageError(
                    "gtid_set is sent with RPL_GTID in flags only: set it, or leave it out"
                )
            if not isinstance(self.position, bool) and isinstance(self.position, int):
                self._check_32_bits()
            checked(self.position, "position", _FIRST, _U32)
            return BinlogDump(self.filename, self.position, self.server_id, passed_on).encode()
        if self._hold.is_mariadb:
            raise UsageError(
                f"{self._hold.name} is a MariaDB server ({self._hold.version}), which has no "
                "COM_BINLOG_DUMP_GTID: leave RPL_GTID out, and set the GTIDs before: "
                "SET @mariadb_slave_capability = 4, @slave_connect_state = '0-1-100'"
            )
        checked(self.position, "position", _FIRST, _U64)
        gtids = GtidSet() if self.gtid_set is None else self.gtid_set
        return BinlogDumpGtid(
            gtids, self.server_id, passed_on, self.filename, self.position
        ).encode()

    def _check_32_bits(self) -> None:
        if _U32 < self.position <= _U64:
            raise UsageError(
                f"position {self.position} is past 4 GiB, and COM_BINLOG_DUMP has 32 bits for it: "
                "begin at an earlier event of the log, or ask by GTID"
            )

    def fetch(self) -> memoryview | None:
        """The next record as the server sent it. None at the end of a dump that does not wait, and
        if another thread closed the stream during the wait.

        A record is an event, with what a server puts before it (two bytes of semi-synchronous
        replication), but without the protocol's OK byte. The caller may keep it.

        Raises what `server_error` makes of a server's error; ConnectionLost; MalformedPacket;
        LocalProtocolError where the stream is not open, and where the connection was closed, also
        by another thread during the wait.
        """
        with self._lock:
            if self._state is _State.ENDED:
                return None
            if self._state not in {_State.OPEN, _State.FETCHING}:
                raise self._rejected("fetch")
            self._state, self.buffer, self.size = _State.FETCHING, None, -1
        try:
            record = self._record()
        except BaseException:
            if self._becomes(_State.FAILED):
                raise
            record = None  # a close interrupted the read
        else:
            if not self._becomes(_State.ENDED if record is None else _State.FETCHING):
                record = None
        self.buffer, self.size = record, 0 if record is None else len(record)
        if record is not None:
            self._move(record)
        return record

    def _move(self, record: memoryview) -> None:
        """Set ``filename`` and ``position`` to where the event after this one begins."""
        event = event_of(record)
        if len(event) < HEADER_SIZE:
            return
        _, kind, _, length, log_pos, flags = unpack_header(event)
        body = plain_body(event)
        if kind == EventType.ROTATE:
            if len(body) > 8:
                self.position = int.from_bytes(body[:8], "little")
                self.filename = body[8:].decode(errors="backslashreplace")
        elif kind in _HEADS and self.position > _FIRST and log_pos != self.position + length:
            return  # it stands at the file's beginning, and reading begins further on
        elif not flags & EventFlag.ARTIFICIAL and kind not in _HEARTBEATS:
            self.position += length
            if log_pos:  # by GTID, others were left out before it; the header has 32 bits
                self.position += (log_pos - self.position) & _U32

    def _becomes(self, state: _State) -> bool:
        """Set the state, unless another thread closed the stream."""
        with self._lock:
            if self._state is _State.CLOSED:
                return False
            self._state = state
            return True

    def _record(self) -> memoryview | None:
        payload = self._hold.read()
        if payload[:1] == bytes((OK,)):
            return memoryview(payload)[1:]
        if not is_end(payload):
            raise self._failure(payload)
        self._check_end()
        return None

    def _failure(self, payload: bytes | bytearray) -> TailraceError:
        """The error for a payload that is neither an event nor an end."""
        if is_error(payload):
            with suppress(MalformedPacket):
                error = ErrorPacket.decode(payload)
                return server_error(error.code, error.sqlstate, error.message, self._hold.name)
        self._hold.drop()
        return MalformedPacket(
            f"{self._hold.name}: a record of {len(payload)} bytes that begins with "
            f"{bytes(payload[:8]).hex(' ') or 'nothing'} is neither an event nor an end"
        )

    def _check_end(self) -> None:
        """Raise ConnectionLost if the dump should wait: a MySQL that shuts down sends this packet.

        MariaDB sends no packet then, but sends this one when ``@slave_until_gtid`` is reached.
        """
        waits = self.server_id and not self.flags & DumpFlag.NON_BLOCK
        if waits and not self._hold.is_mariadb:
            self._hold.drop()
            raise ConnectionLost(f"{self._hold.name} ended a dump that waits: it is shutting down")

    def __iter__(self) -> Iterator[memoryview]:
        """The records, to the end of a dump that does not wait, or until the stream is closed."""
        try:
            while (record := self.fetch()) is not None:
                yield record
        except LocalProtocolError:
            if self._state is not _State.CLOSED:
                raise

    def detach(self) -> Socket:
        """Hand over the socket to a caller that reads the dump itself, from its beginning.

        The socket includes its layers: TLS, compression. It may be called before the first `fetch`
        only, and there is no `fetch` after it. The connection still owns the socket: close the
        connection when done. Raises LocalProtocolError.
        """
        with self._lock:
            if self._state is not _State.OPEN:
                raise self._rejected("detach")
            found = self._hold.socket
            self._state = _State.DETACHED
        return found

    def close(self) -> None:
        """End the stream in any state, from any thread; then the connection can only be closed.

        The socket is shut down, unless it was handed over by `detach`: a `fetch` that waits in
        another thread returns None, and the server ends its dump. Closing again does nothing.
        """
        with self._lock:
            before, self._state = self._state, _State.CLOSED
        if before in {_State.OPEN, _State.FETCHING}:
            self._hold.shut_down()
        self._hold.release("a binary log dump was closed on this connection: it can only be closed")

    def _rejected(self, what: str) -> LocalProtocolError:
        return LocalProtocolError(f"{what}: the stream {self._state.value}")

    def __repr__(self) -> str:
        return (
            f"<BinlogStream of {self._hold.name} that {self._state.value}: {self.filename!r} from "
            f"{self.position}, flags {self.flags:#x}>"
        )
