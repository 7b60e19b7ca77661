"""From the bytes of a log to record batches: the events that the kernels do not handle.

These are format descriptions, statements, transaction payloads, and rows that a statement rolls
back.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import zstandard

from tailrace.columns.frames import plan as k
from tailrace.columns.native import reading, will_read
from tailrace.columns.read.blocks import GrowingMemory, check_large
from tailrace.columns.read.walk import Array, Ranges, Walker
from tailrace.constants import (
    HEADER_SIZE,
    MAX_EVENT_SIZE,
    EventFlag,
    EventType,
    event_name,
)
from tailrace.errors import (
    BoundaryError,
    EventDecodeError,
    LogError,
    OutOfMemory,
    TruncatedEvent,
)
from tailrace.events.format_description import FormatDescriptionEvent
from tailrace.events.header import EventHeader
from tailrace.events.payload import (
    LARGEST_PIECE,
    LARGEST_WINDOW,
    PayloadFields,
    TransactionPayloadEvent,
    unpack,
)
from tailrace.events.query import QueryEvent
from tailrace.events.walk import event_length
from tailrace.log.readable import LOAD_DATA, check_readable, check_statements, rows_not_logged
from tailrace.schema.classify import classify
from tailrace.transaction import State
from tailrace.transaction.committed import NO_SAVEPOINT, check_inside_payload, is_rollback
from tailrace.transaction.statements import savepoint_of_rollback, xa_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator
    from concurrent.futures import Executor

    import pyarrow as pa

    from tailrace.columns.read.walk import Unnamed
    from tailrace.events.base import Event
    from tailrace.schema.catalogue import Catalogue
    from tailrace.values.schema import TableSchema

_PAYLOAD: Final = event_name(EventType.TRANSACTION_PAYLOAD)
_PAYLOAD_HEAD: Final = 128
"""More than the bytes before the payload in its event."""
_SMALL_PAYLOAD: Final = 4 << 20
_PAYLOAD_BLOCK: Final = 8 << 20
_HELD_BACK: Final = 1 << 20
"""Up to so many bytes of a transaction are planned again, with more of it, instead of reading
ahead.

Reading ahead scans the headers of the whole series.
"""

_STATEMENTS: Final = frozenset({EventType.QUERY, EventType.QUERY_COMPRESSED})


_OUTER: Final = [
    k.CURSOR,
    k.END,
    k.BASE,
    k.LIMIT,
    k.FIXED_POSITION,
    k.CHECKSUM_BYTES,
    k.STATE,
    k.SOUND_QUERY,
]
"""The words of the frame of which a payload has its own."""


class LogDecoder(Walker):
    """Decodes the files of one series, block by block, in order.

    ``wants`` tells for a database and a table whether their rows are wanted. ``columns`` names the
    wanted columns (None: all). ``catalogue`` has the tables that are known before the log's own
    DDL, which updates it. ``statements`` says what to do about rows that a statement changed and
    the log does not hold: ``error`` raises `StatementChange`, ``skip`` skips them. ``notice`` is
    called with each table's schema when it is first read, ``unnamed`` (if given) for rows that are
    not decoded because the names of their columns are unknown, ``skipped`` with each event that
    ``statements`` skips. ``threads`` is for `Walker`.
    """

    def __init__(
        self,
        source: str,
        *,
        wants: Callable[[str, str], bool] = lambda _database, _table: True,
        columns: Collection[str] | None = None,
        catalogue: Catalogue | None = None,
        verify: bool = True,
        statements: Literal["error", "skip"] = "error",
        notice: Callable[[TableSchema], None] = lambda _schema: None,
        find_left_out: Callable[[str], Ranges] = lambda _file: (),
        unnamed: Unnamed | None = None,
        threads: Executor | None = None,
        skipped: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        super().__init__(
            source,
            wants=wants,
            columns=columns,
            catalogue=catalogue,
            verify=verify,
            notice=notice,
            unnamed=unnamed,
            threads=threads,
        )
        check_statements(statements)
        self._statements = statements
        self._skipped = skipped
        self._find_left_out = find_left_out
        self._frame[k.SAVEPOINTS] = 1
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)

    def _event(self) -> Iterator[pa.RecordBatch]:
        """Handle an event that the kernel does not know, and continue after it."""
        if self._unpack_ahead():
            return
        raw = self._raw()
        event = self._decode(raw)
        kind = event.type
        self._examine(event)
        if is_rollback(event):
            if self._frame[k.FIXED_POSITION] >= 0:
                check_inside_payload(event)
            if self._left_out is None:
                self._drop_rolled_back()
            self._check_savepoint(event)
        if kind in _STATEMENTS:
            self._statement(event)
        elif kind == EventType.TRANSACTION_PAYLOAD:
            yield from self._payload(event)
        elif isinstance(event, FormatDescriptionEvent):
            self._format_description(event)
        elif kind in LOAD_DATA:
            self._rows_not_logged(event)
        elif kind == EventType.START_ENCRYPTION and not event.header.flags & EventFlag.IGNORABLE:
            # otherwise it was decrypted before it came here
            raise event.error("the log is encrypted from here on: give its keyring")
        else:
            check_readable(event)
        self._frame[k.CURSOR] += len(raw)

    def _format_description(self, event: FormatDescriptionEvent) -> None:
        self._take_types()
        self._frame[k.CHECKSUM_BYTES] = self.context.checksum_algorithm.size
        if event.created:  # otherwise a statement may continue in this file
            self._frame[k.GENERATION] += 1
        self._forget_tables()
        if self._frame[k.STATE] == State.OUTSIDE:  # in a relay log a transaction may continue
            self._no_transaction()

    def _statement(self, event: Event) -> None:
        if not isinstance(event, QueryEvent):
            raise event.error("a statement was expected")
        xa_name(event)  # raises if the name is not understood
        sql = event.sql
        kind = classify(sql)
        if kind.changes_schema:
            self.catalogue.apply_event(event, self.context.flavour)
            if self.catalogue.lowers_names and not self.context.lowers_names:  # the event shows it
                self.context.lower_names()
            self._forget_tables()
        if kind.changes_rows:
            self._rows_not_logged(event)

    def _keep_certain(self) -> None:
        """Check whether planned rows of the transaction under way may be rolled back, by reading
        ahead.

        Rows of a small transaction are left for the next call, when more of it is available.
        """
        frame = self._frame
        first, began = int(frame[k.FIRST_ENTRY]), int(frame[k.FIRST_CURSOR])
        if self._left_out is not None or frame[k.FIXED_POSITION] >= 0:
            return
        if frame[k.STATE] & 0xFF == State.OUTSIDE:
            return
        if first < 0 or frame[k.ENTRY_COUNT] == first or frame[k.SAFE] > began + frame[k.BASE]:
            return  # it has no rows here, or has ended
        if first and began > self._start and frame[k.CURSOR] - began <= _HELD_BACK:
            self._forget(slice(first, int(frame[k.ENTRY_COUNT])))
            frame[k.CURSOR] = began
            frame[k.STATE] = State.OUTSIDE
            frame[[k.RANGE, k.PAYLOAD_COUNT, k.SOUND_QUERY]] = 0
        else:
            self._drop_rolled_back()

    def _discard(self) -> None:
        """The transaction under way is void: drop its rows."""
        frame = self._frame
        if frame[k.FIRST_ENTRY] >= 0:
            self._forget(slice(int(frame[k.FIRST_ENTRY]), int(frame[k.ENTRY_COUNT])))

    def _drop_rolled_back(self) -> None:
        """Planned rows may be rolled back later in the log: find out which, and drop those."""
        frame = self._frame
        self.leave_out(self._find_left_out(self.file))
        payload, offset = frame[k.FIXED_POSITION] >= 0, self._offset()
        if frame[k.FIRST_ENTRY] < 0 and self._is_left_out(offset if payload else offset - 1):
            raise BoundaryError(
                "a compressed XA transaction is rolled back here whose first rows were already"
                " delivered: the Spark source and tailrace mirror can read such a log",
                file=self.file,
                offset=offset,
            )
        places = self._entries[: int(frame[k.ENTRY_COUNT]), k.E_POSITION]
        if self._left_out is not None and len(self._left_out):
            before = np.searchsorted(self._left_out.reshape(-1), places, "right")
            self._forget(np.flatnonzero(before & 1))
        if payload:
            frame[k.MUTED] = self._is_left_out(offset)

    def _check_savepoint(self, event: Event) -> None:
        """Check that the rows that this statement rolls back are known."""
        back = isinstance(event, QueryEvent) and savepoint_of_rollback(event.sql) is not None
        if back and event.offset not in self._left_out_ends:
            raise event.error(NO_SAVEPOINT, BoundaryError)

    def _forget(self, which: slice | Array) -> None:
        """Remove the rows of planned entries."""
        self._entries[which, k.E_ROWS] = self._entries[which, k.E_END]
        self._entries[which, k.E_OP] &= ~k.BARE

    def _rows_not_logged(self, event: Event) -> None:
        if self._statements != "skip":
            raise rows_not_logged(event)
        self._skipped(event)

    def _unpack_ahead(self) -> bool:
        """Uncompress this payload and those after it in the block, for the kernel to walk in.

        False where the event at the cursor is something else, or is not like most payloads: then
        `_payload` reads it.
        """
        frame = self._frame
        if (
            ctypes.string_at(int(frame[k.CURSOR]) + 4, 1)[0] != EventType.TRANSACTION_PAYLOAD
            or frame[k.STATE] != k.AFTER_GTID
        ):
            return False
        count = reading("find_payloads")(frame.ctypes.data)
        found = self._payloads[:count]
        plain: list[bytes] = []
        for _, data, stored, size in found.tolist():
            frames = ctypes.string_at(data, stored)
            try:
                if zstandard.frame_content_size(frames) != size:
                    break
                plain.append(self._unpacker.decompress(frames, allow_extra_data=False))
            except zstandard.ZstdError:
                break
        if not plain:
            return False
        self._unpacked = self._keep(b"".join(plain))
        sizes = found[: len(plain), k.P_SIZE]
        found[: len(plain), k.P_DATA] = self._unpacked.ctypes.data + np.cumsum(sizes) - sizes
        frame[k.PAYLOAD] = 0
        frame[k.PAYLOAD_COUNT] = len(plain)
        return True

    def _payload(self, event: Event) -> Iterator[pa.RecordBatch]:
        """Walk the events inside a transaction payload."""
        if not isinstance(event, TransactionPayloadEvent):
            raise event.error("a payload was expected")
        yield from self._pieces(event.pieces(), event.offset or 0)

    def large_payload(
        self, offset: int, size: int, read: Callable[[int, int], Iterator[bytes]]
    ) -> Iterator[pa.RecordBatch]:
        """Decode a payload event that is too large to be held in memory.

        It begins at ``offset`` of the file and has ``size`` bytes; ``read`` gives the bytes of the
        file between two offsets, in pieces.
        """
        tail = int(self._frame[k.CHECKSUM_BYTES])
        end = offset + size - tail
        header = EventHeader.parse(b"".join(read(offset, offset + HEADER_SIZE)))
        event = TransactionPayloadEvent(header, b"")
        event.file, event.offset = self.file, offset
        try:
            if tail and self._verify:
                check_large(read, offset, end)
            head = b"".join(read(offset + HEADER_SIZE, min(offset + _PAYLOAD_HEAD, end)))
            fields = PayloadFields.read(head)
            begin = offset + HEADER_SIZE + fields.payload_at
            self._take_place(event)
            if fields.payload_size not in {None, end - begin}:
                raise EventDecodeError(f"a payload of {fields.payload_size} bytes does not fit")
            yield from self._pieces(unpack(read(begin, end), fields.compression), offset)
        except LogError as error:
            raise error.at(self.file, offset, _PAYLOAD) from None
        yield from self._flush()

    def _pieces(self, pieces: Iterator[bytes], offset: int) -> Iterator[pa.RecordBatch]:
        """Walk the events of an uncompressed payload; a large one is decoded piece by piece."""
        frame = self._frame
        saved, spent = frame.copy(), self._spent
        frame[k.FIXED_POSITION] = offset
        frame[k.CHECKSUM_BYTES] = 0
        frame[k.STATE] = k.IN_PAYLOAD
        frame[k.MUTED] = self._is_left_out(offset)
        held, seen, large, wanted = GrowingMemory(), 0, False, _SMALL_PAYLOAD
        damage: LogError | None = None
        while (piece := self._piece(pieces)) is not None:
            if isinstance(piece, LogError):
                damage = piece
                break
            try:
                held.add(piece)
            except MemoryError:
                raise OutOfMemory(
                    "there is no memory for an event of this payload: give the process more",
                    file=self.file,
                    offset=offset,
                ) from None
            if held.size >= wanted:
                if not large:
                    large = True
                    yield from self._flush()
                done = yield from self._inner(held.memory, held.size, seen)
                self._spent = True  # what it decodes now is dropped next
                yield from self._flush()
                held.drop(done)
                seen += done
                first = held.size >= HEADER_SIZE and event_length(held.memory.data)
                wanted = max(_PAYLOAD_BLOCK, min(first, MAX_EVENT_SIZE))
                held.reserve(wanted + LARGEST_PIECE)  # the last piece may hold more than the event
        data = held.memory if large else self._keep(held.memory[: held.size].tobytes())
        done = yield from self._inner(data, held.size, seen)
        if damage is not None:  # what came before it is decoded first, as it may hold another error
            raise damage.at(self.file, offset)
        if done != held.size:
            raise TruncatedEvent("the payload ends inside an event").at(self.file, offset, _PAYLOAD)
        if seen + done == 0:
            raise EventDecodeError("the payload holds no event").at(self.file, offset, _PAYLOAD)
        if large:
            self._spent = True
            yield from self._flush()
        self._spent = spent
        frame[_OUTER] = saved[_OUTER]

    @staticmethod
    def _piece(pieces: Iterator[bytes]) -> bytes | LogError | None:
        """The next piece of a payload, the error raised instead, or None at the end."""
        try:
            return next(pieces, None)
        except LogError as error:
            return error

    def _inner(self, data: Array, size: int, seen: int) -> Generator[pa.RecordBatch, None, int]:
        """Plan the whole events of a piece of payload; returns their bytes."""
        frame = self._frame
        will_read(size)
        start = int(data.ctypes.data)
        frame[k.CURSOR] = start
        frame[k.END] = frame[k.LIMIT] = start + size
        frame[k.BASE] = seen - start
        frame[[k.CHECKED, k.SOUND_QUERY]] = 0
        yield from self._walk()
        self._kept.append(data)  # again: a flush in between released it, and more was planned
        return int(frame[k.CURSOR]) - start
