"""One dump of binary logs to one replica, as mysqld and mariadbd send it.

For each file: an artificial ROTATE, the file's format description event, its events; at the end of
the last one it waits for more, or ends with an EOF packet. By GTID, MySQL's replicas get the
transactions that are not in their set, and a heartbeat for what is left out before the next event;
MariaDB's get what follows their GTID in each domain, and an artificial GTID_LIST where that begins.

Events are sent in blocks that all replicas share (`tailrace.replication.source.blocks`), and one by
one only where some of them have to be left out, or where an observer wants them.

Source: facts sheet 4.6 to 4.8; MySQL ``sql/rpl_binlog_sender.cc``, MariaDB ``sql/sql_repl.cc``. The
tests compare the packets with those of MySQL 9.7 and of MariaDB 10.11 and 11.8.
"""

from __future__ import annotations

import logging
from functools import partial
from threading import Event as Flag
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    LOG_POS_AT,
    MAGIC,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    Flavour,
)
from tailrace.errors import (
    BadEventLength,
    ConnectionLost,
    EventTooLarge,
    KeyMissing,
    LogError,
    LogReset,
    ServerError,
    StorageError,
)
from tailrace.events import GtidListEvent, HeartbeatEvent, RotateEvent
from tailrace.events.format_description import marked
from tailrace.gtid import GtidList, GtidSet
from tailrace.observers import TransmitDelegate, TransmitIo
from tailrace.position import Position
from tailrace.replication.source import refusals
from tailrace.replication.source.blocks import Block
from tailrace.replication.source.by_gtid import mariadb_start, mysql_start
from tailrace.replication.source.left_out import Everything, MariadbSelection, MysqlSelection
from tailrace.storage.streams.base import read_exactly
from tailrace.wire.commands import DumpFlag
from tailrace.wire.packets import AUTOCOMMIT, LARGEST, OK, Data, EndPacket
from tailrace.wire.packets import HEADER_SIZE as PACKET_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events import DecodeContext, Event
    from tailrace.observers import Packets
    from tailrace.replication.source.connection import ReplicaConnection
    from tailrace.replication.source.left_out import Selection
    from tailrace.replication.source.request import DumpRequest
    from tailrace.replication.source.series import ServedFile, ServedLogs
    from tailrace.storage.head import FileHead
    from tailrace.storage.streams.base import InputFile

_CREATED_AT: Final = 71
"""Offset in a format description event of the time at which its server started: four bytes."""
_LOOKS: Final = 1.0
"""Seconds after which a waiting dump checks whether its replica is still there."""
_PIECE: Final = 1 << 18
"""Bytes of a large event that are read and sent at a time."""
_OUTAGE: Final = 60.0
"""Seconds for which a dump waits for storage that fails."""
_AGAIN: Final = 0.5
"""Seconds after which it tries again."""
_LOG: Final = logging.getLogger(__name__)
_Found = TypeVar("_Found")


class Transmit:
    """A dump: `run` it in the connection's thread; `stop` ends it from another.

    The observers of ``delegate`` are told of it, and of its packets. ``server_id`` is the source's,
    in the events that are in no file. ``server_uuid`` is its UUID, for the check that a replica has
    no transactions of this source that the logs lack; by default that is not checked.
    """

    def __init__(
        self,
        logs: ServedLogs,
        request: DumpRequest,
        connection: ReplicaConnection,
        *,
        delegate: TransmitDelegate | None = None,
        server_id: int = 1,
        server_uuid: str = "",
    ) -> None:
        self.request = request
        self.position: Position | None = None
        """Up to where the logs were sent; None before the first file."""
        self.events = 0
        """The number of events sent, artificial ones included."""
        self.sent = 0
        """The bytes sent, with the packets' headers."""
        self._logs = logs
        self._connection = connection
        self._delegate = TransmitDelegate() if delegate is None else delegate
        self._io = TransmitIo(request.server_id, request.flags, connection)
        self._server_id = server_id
        self._server_uuid = server_uuid
        self._stop = Flag()
        self._checksum = request.checksum or ChecksumAlgorithm.NONE
        self._selection: Selection = Everything()
        self._head: FileHead
        self._stream: InputFile | None = None
        self._first = ("", 0)
        self._left_out = 0
        """Where the events end that were left out since the last one that was sent; 0 if none."""
        self._sent_at = monotonic()

    def stop(self) -> None:
        """End the dump soon: `run` returns. Any thread may call it."""
        self._stop.set()
        self._logs.wake()

    @property
    def _stopped(self) -> bool:
        return self._stop.is_set()

    def run(self) -> None:
        """Send the logs until the dump ends: at the logs' end if it does not wait, after `stop`, or
        with an error.

        While the storage of the logs fails, it waits, and its replica gets heartbeats: an error
        that a minute may heal is not to stop replicas for good.

        Raises ServerError, which the replica is to be told (error 1236, in the server's words, at
        which it stops; error 1053 if the storage has failed for a minute, so that it connects
        again), ConnectionLost, and what observers raise.
        """
        try:
            self._delegate.transmit_start(self._io, self.request.file, self.request.position)
            file, position = self._patiently(None, self._start)
            self._first = file.name, position
            self._files(file, position)
        except LogReset as error:
            if self.request.gtids is not None:
                raise refusals.unavailable(error) from error
            raise self._fatal(refusals.REPLACED, reason=error) from error
        except (StorageError, LogError) as error:
            if not self._stopped:
                raise self._fatal(refusals.UNREADABLE, reason=error) from error
        finally:
            self._release()
            self._delegate.transmit_stop(self._io)

    # --- the start --------------------------------------------------------------------------------

    def _start(self) -> tuple[ServedFile, int]:
        """The file and the position at which the dump begins. Raises ServerError, and StorageError
        for a file that the last one announces: the replica was told of it before it was there.
        """
        request, logs = self.request, self._logs
        flavour = logs.flavour
        if flavour is Flavour.MARIADB:
            self._selection = MariadbSelection(request)
            if isinstance(request.gtids, GtidList):
                file, self._selection = mariadb_start(logs, request, request.gtids)
                return file, len(MAGIC)
        elif isinstance(request.gtids, GtidSet):
            if not request.file:
                file, self._selection = mysql_start(logs, request.gtids, self._server_uuid)
                return file, len(MAGIC)
            self._selection = MysqlSelection(request.gtids)
        found = logs.file(request.file)
        if found is None:
            is_begin = request.waits and request.position == len(MAGIC)
            if is_begin and logs.is_announced(request.file):
                raise StorageError(f"{request.file}: the log announces it, and it is not there yet")
            raise refusals.fatal(refusals.NO_SUCH_FILE)
        position = request.position
        if position < len(MAGIC) or position > max(logs.look(found), found.size):
            raise refusals.no_position(flavour, found.name, position)
        return found, position

    # --- files ------------------------------------------------------------------------------------

    def _files(self, file: ServedFile, position: int) -> None:
        while not self._stopped:
            self._artificial(RotateEvent, next_file=file.name, next_offset=position)
            head = self._wait_for_head(file)
            if head is None:
                break
            self._head = head
            self._describe(file, head, position)
            if not self._events(file, max(position, head.begin)):
                break
            self._release()
            following = self._patiently(None, partial(self._logs.following, file))
            if following is None:
                raise self._fatal(refusals.NO_NEXT_FILE)
            file, position = following, len(MAGIC)
        if not self._stopped:
            self._connection.write(EndPacket(0, AUTOCOMMIT).encode())
            self._connection.flush()

    def _wait_for_head(self, file: ServedFile) -> FileHead | None:
        """The file's head, when its writer has written it; None if the dump ends before."""
        while not self._stopped:
            head = self._patiently(file, lambda: self._logs.head(file))
            if head is not None or not self._wait(file, 0):
                return head
        return None

    def _describe(self, file: ServedFile, head: FileHead, position: int) -> None:
        """Send the format description event of a file. Raises ServerError."""
        if head.checksum and self.request.checksum is None:
            raise self._fatal(refusals.NO_CHECKSUM)
        self._checksum = head.checksum
        raw = marked(head.raw, in_use=False)
        middle = position > len(MAGIC)
        if middle or (self.position is None and self._is_continued(file)):
            raw[_CREATED_AT : _CREATED_AT + 4] = bytes(4)
            self._change(raw, without_position=middle)
        self.position = Position(file.name, position)
        self._send_event(raw)
        if middle and head.encryption:
            begin = bytearray(head.encryption)
            self._change(begin, without_position=True)
            self._send_event(begin)
        self._connection.flush()

    def _change(self, event: bytearray, *, without_position: bool) -> None:
        """Renew an event's checksum. ``without_position``: a replica is not to advance by it."""
        if without_position:
            event[LOG_POS_AT : LOG_POS_AT + 4] = bytes(4)
        if self._checksum:
            end = len(event) - CHECKSUM_SIZE
            event[end:] = crc32(event[:end]).to_bytes(CHECKSUM_SIZE, "little")

    def _is_continued(self, file: ServedFile) -> bool:
        """Whether the replica has something of the log already, so that its server's start is no
        reason to drop temporary tables.
        """
        selection = self._selection
        if isinstance(selection, MysqlSelection):
            first = self._patiently(file, lambda: self._logs.first_gtid(file))
            return first is not None and first in selection.gtids
        return isinstance(selection, MariadbSelection) and selection.continued

    def _events(self, file: ServedFile, at: int) -> bool:
        """Send the events of a file from an offset on; False if the dump ends before its end."""
        context = self._head.context()
        while not self._stopped and not self._selection.over:
            end = self._patiently(file, lambda: self._logs.look(file))
            if at < end:
                at = self._some(file, at, end, context)
                continue
            if self._left_out:
                self._heartbeat(self._left_out)
                self._left_out = 0
            if file.final:
                return True
            self._connection.flush()
            if not self._wait(file, at):
                return False
            if at < file.end:  # it has looked
                at = self._some(file, at, file.end, context)
        return False

    def _some(self, file: ServedFile, at: int, end: int, context: DecodeContext) -> int:
        """Send a block of events, or one large event; where that ends."""
        connection, selection, blocks = self._connection, self._selection, self._logs.blocks

        def read() -> Block | int:
            return blocks.block(file, self._opened(file), at, end, connection.sequence)

        try:
            block = self._patiently(file, read)
            if isinstance(block, Block) and not block.heads:
                self._patiently(file, partial(self._logs.check, file))
                self._release()  # a longer copy may be in its place
                block = self._patiently(file, read)
        except BadEventLength as error:
            large = isinstance(error, EventTooLarge)
            raise self._fatal(refusals.TOO_LARGE if large else refusals.BOGUS, at) from error
        if isinstance(block, int):
            self._large(file, at, block, context)
            return at + block
        if not len(block.heads):
            raise self._fatal(refusals.TORN, at)
        passes = selection.passes(block, context)
        if not passes or self._observed():
            return self._one_by_one(file, block, context, passes=passes)
        self._before_next()
        connection.flush()
        packets = block.numbered(connection.sequence)
        connection.send(packets)
        connection.sequence = connection.sequence + len(block.heads) & 0xFF
        self._has_sent(len(block.heads), len(packets))
        self.position = Position(file.name, block.end)
        return block.end

    def _one_by_one(
        self, file: ServedFile, block: Block, context: DecodeContext, *, passes: bool
    ) -> int:
        """Send a block's events one by one, but for those that are left out; where it ends."""
        selection = self._selection
        with self._delegate.packets(self._io) as shown:
            for end, event in block.events():
                if passes:
                    self._before_next()
                    self._send_packet(event, shown, file.name, end)
                    self.position = Position(file.name, end)
                else:
                    self._one(file, event, end, context, shown)
                if selection.over or self._stopped:
                    return end
        return block.end

    def _one(
        self,
        file: ServedFile,
        event: memoryview,
        end: int,
        context: DecodeContext,
        shown: Packets | None,
    ) -> None:
        """Send one event, or leave it out; it ends at an offset of its file."""
        given = self._selection.given(event, file.name, end, context)
        if given is not None:
            self._before_next()
            self._send_packet(given, shown, file.name, end)
        elif self._head.flavour is Flavour.MYSQL:
            self._left_out = end
            if self.request.heartbeat and monotonic() - self._sent_at >= self.request.heartbeat:
                self._heartbeat(end)
        self.position = Position(file.name, end)
        for state, flags in self._selection.after():
            self._artificial(GtidListEvent, log_pos=end, gtids=state, flags=flags)

    def _before_next(self) -> None:
        """Tell a replica of MySQL up to where events were left out, before the next one."""
        if self._left_out:
            end, self._left_out = self._left_out, 0
            self._heartbeat(end)

    def _large(self, file: ServedFile, at: int, length: int, context: DecodeContext) -> None:
        """Send an event of more than 1 MiB, or leave it out."""
        selection = self._selection
        observed = self._observed()
        known = length if selection.decodes or observed else HEADER_SIZE

        def read(offset: int, count: int) -> bytes:
            return read_exactly(self._opened(file), offset, count)

        head = memoryview(self._patiently(file, lambda: read(at, known)))
        if len(head) < known:
            raise self._fatal(refusals.TORN, at)
        if selection.given(head, file.name, at + length, context) is None:
            self._left_out = at + length if self._head.flavour is Flavour.MYSQL else 0
            return
        self._before_next()
        self.position = Position(file.name, at + length)
        connection = self._connection
        if observed:
            self._send_event(head)
            return
        connection.flush()
        left, done, before = length + 1, 0, 1
        while True:
            size = min(left, LARGEST)
            packet_head = size.to_bytes(3, "little") + bytes((connection.sequence,))
            connection.send(packet_head + bytes((OK,))[:before])
            connection.sequence = connection.sequence + 1 & 0xFF
            packet_end = done + size - before
            while done < packet_end:
                piece = self._rest(file, read, at + done, min(_PIECE, packet_end - done))
                connection.send(piece)
                done += len(piece)
            self.sent += size + PACKET_HEADER
            left, before = left - size, 0
            if size < LARGEST:
                break
        self._has_sent(1, 0)

    def _rest(
        self, file: ServedFile, read: Callable[[int, int], bytes], offset: int, count: int
    ) -> bytes:
        """Bytes of an event of which a part was sent: no other packet can say why there are none.

        Raises ConnectionLost.
        """
        try:
            piece = self._patiently(file, lambda: read(offset, count), beats=False)
        except (ServerError, StorageError, LogError) as error:
            raise ConnectionLost(f"inside an event of {file.name}: {error}") from error
        if not piece:
            raise ConnectionLost(f"{file.name}: it ended at {offset} while an event was sent")
        return piece

    def _opened(self, file: ServedFile) -> InputFile:
        """The file that is sent, open. Raises StorageError."""
        if self._stream is None:
            self._stream = file.log.open()
        return self._stream

    # --- waiting ----------------------------------------------------------------------------------

    def _wait(self, file: ServedFile, at: int) -> bool:
        """Wait for more of a file than up to an offset; False if the dump ends before."""
        logs, period = self._logs, self.request.heartbeat
        if not self.request.waits:
            return logs.following(file) is not None
        while not self._stopped:
            due = self._sent_at + period - monotonic() if period else _LOOKS
            if self._patiently(file, partial(logs.wait, file, at, max(min(due, _LOOKS), 0.0))):
                return True
            self._is_alive(max(at, len(MAGIC)))
        return False

    def _is_alive(self, at: int) -> None:
        """Check that the replica is there, and say that the source is. Raises ConnectionLost."""
        if self._connection.is_gone():
            raise ConnectionLost(f"replica {self.request.server_id}: it ended the connection")
        period = self.request.heartbeat
        if period and monotonic() - self._sent_at >= period:
            self._heartbeat(at)
            self._connection.flush()

    def _patiently(
        self, file: ServedFile | None, read: Callable[[], _Found], *, beats: bool = True
    ) -> _Found:
        """What ``read`` gives. While the storage fails, it waits and calls it again.

        ``beats``: the replica can be sent heartbeats meanwhile. Raises the error if the dump was
        stopped, or if time heals nothing: the key is missing, or the ``file`` was purged. Raises
        ServerError after a minute, ConnectionLost.
        """
        failed_at = 0.0
        while True:
            try:
                found = read()
            except KeyMissing:
                raise
            except StorageError as error:
                self._release()  # what was open may be of no use
                if self._stopped or (file is not None and self._logs.has_purged(file)):
                    raise
                server = self.request.server_id
                if not failed_at:
                    failed_at = monotonic()
                    _LOG.warning("replica %d: waiting for the logs: %s", server, error)
                if monotonic() - failed_at > _OUTAGE:
                    raise refusals.unavailable(error) from error
                place = self.position
                if beats and place is not None and (file is None or file.name == place.file):
                    self._is_alive(place.offset)
                self._stop.wait(_AGAIN)
            else:
                if failed_at:
                    _LOG.info("replica %d: the logs can be read again", self.request.server_id)
                return found

    # --- events that are in no file ---------------------------------------------------------------

    def _artificial(
        self,
        kind: type[Event],
        *,
        header_flags: int = EventFlag.ARTIFICIAL,
        log_pos: int = 0,
        **fields: Any,
    ) -> None:
        """Send an event that is in no file."""
        event = kind.make(
            timestamp=0,
            server_id=self._server_id,
            header_flags=header_flags,
            form=self._logs.newest.format.description,
            **fields,
        )
        self._send_event(event.encode(self._checksum, log_pos=log_pos))

    def _heartbeat(self, end: int) -> None:
        """Say that the source is alive, and that it is at this offset of the file."""
        mysql = self._logs.flavour is Flavour.MYSQL
        second = mysql and self.request.flags & DumpFlag.HEARTBEAT_V2
        if mysql and not second and end >> 32:
            return  # the first form has no room for it
        position = self.position
        self._artificial(
            HeartbeatEvent,
            header_flags=0,
            log_pos=0 if end >> 32 and not second else end,
            type=EventType.HEARTBEAT_V2 if second else EventType.HEARTBEAT,
            log_file="" if position is None else position.file,
            log_offset=end,
        )

    # --- packets ----------------------------------------------------------------------------------

    def _send_event(self, event: Data) -> None:
        """Send one event in a packet of its own, and show it to observers: at the position at which
        the dump is.
        """
        place = self.position or Position(*self._first)
        with self._delegate.packets(self._io) as shown:
            self._send_packet(event, shown, place.file, place.offset)

    def _send_packet(self, event: Data, shown: Packets | None, file: str, end: int) -> None:
        write = self._connection.write
        if shown is None:
            packet = bytearray((OK,)) + event
            write(packet)
            size = len(packet)
        else:
            size = shown.send(event, file, end, write)
        self._has_sent(1, size + PACKET_HEADER)

    def _observed(self) -> bool:
        """Whether an observer wants the packets one by one."""
        return self._delegate.wants_packets(self._io)

    def _has_sent(self, events: int, size: int) -> None:
        self.events += events
        self.sent += size
        self._sent_at = monotonic()

    def _fatal(
        self, text: str, at: int | None = None, reason: Exception | None = None
    ) -> ServerError:
        """Error 1236, with the place. The reason is for the log of the source."""
        last = self.position or Position(*self._first)
        byte = last.offset if at is None else at + HEADER_SIZE
        place = refusals.at(text, self._first, (last.file, last.offset), byte)
        return refusals.fatal(place, self._logs.flavour, "" if reason is None else str(reason))

    def _release(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
