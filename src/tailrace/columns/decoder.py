"""From the bytes of a log to record batches: Python's half of the walk over the events.

The plan kernel walks; it stops where Python has to look (a format description, a new table map, a
statement, a payload), and that is handled here. At the end of a block, what was planned is decoded
table by table.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tailrace.columns import layout as k
from tailrace.columns.blocks import check_large
from tailrace.columns.native import kernel
from tailrace.columns.objects import batch_of_rows
from tailrace.columns.pool import Pool
from tailrace.columns.table import TableDecoder
from tailrace.columns.table_maps import KnownTableMaps
from tailrace.constants import HEADER_SIZE, ChecksumAlgorithm, EventType
from tailrace.errors import (
    BoundaryError,
    ChecksumMismatch,
    EventDecodeError,
    LogError,
    MissingTableMap,
    StatementChange,
    UnsupportedType,
)
from tailrace.events import DecodeContext
from tailrace.events.base import event_name
from tailrace.events.compression import decompress
from tailrace.events.payload import PayloadFields, TransactionPayloadEvent, unpack
from tailrace.events.query import QueryEvent
from tailrace.events.rows import RowsEvent
from tailrace.events.table_map import TableMapEvent
from tailrace.position import file_number
from tailrace.rollbacks import is_rollback
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.classify import classify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator

    import pyarrow as pa

    from tailrace.events.base import Event
    from tailrace.rows.schema import TableSchema

Array = np.ndarray[Any, Any]
Ranges = Sequence[tuple[int, int]]

_ENTRIES: Final = 1 << 15
_TRANSACTIONS: Final = 1 << 15
_PAYLOAD_HEAD: Final = 128
"""More than what can stand before the payload in its event."""
_SMALL_PAYLOAD: Final = 4 << 20
_PAYLOAD_BLOCK: Final = 8 << 20
_KEPT: Final = 32 << 20
"""Bytes of decompressed events that wait to be decoded with the rest of their block, at most."""

_ERRORS: Final[dict[int, tuple[type[LogError], str]]] = {
    k.BAD_LENGTH: (EventDecodeError, "its header says a length that no event has"),
    k.BAD_CHECKSUM: (ChecksumMismatch, "its bytes do not have the checksum at their end"),
    k.BAD_EVENT: (EventDecodeError, "its bytes do not follow its format"),
    k.WRONG_WIDTH: (EventDecodeError, "it has not as many columns as its table map"),
}
_STATEMENTS: Final = frozenset({EventType.QUERY, EventType.QUERY_COMPRESSED})
_OLD_ROWS: Final = frozenset(
    {
        EventType.PRE_GA_WRITE_ROWS,
        EventType.PRE_GA_UPDATE_ROWS,
        EventType.PRE_GA_DELETE_ROWS,
        EventType.PARTIAL_ROW_DATA,
    }
)
_LOADED_FILES: Final = frozenset(
    {EventType.EXECUTE_LOAD_QUERY, EventType.LOAD, EventType.NEW_LOAD, EventType.EXEC_LOAD}
)


def _crc_tables() -> Array:
    tables = np.zeros((8, 256), np.uint32)
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, (value >> 1) ^ np.uint32(0xEDB88320), value >> 1)
    tables[0] = value
    for step in range(1, 8):
        tables[step] = (tables[step - 1] >> 8) ^ tables[0][tables[step - 1] & 255]
    return tables


class LogDecoder:
    """Decodes the files of one series, block by block, in order.

    ``wants`` says of a database and a table whether their rows are asked for, ``columns`` names the
    columns asked for (None: all). ``catalogue`` is what is known of tables before the log's own
    DDL, which it takes in. ``statements`` says what to do about rows that a statement changed and
    the log does not hold: ``error`` raises `StatementChange`, ``skip`` counts them in
    ``skipped_statements``. ``notice`` is told each table's schema as it is first met.
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
        find_undone: Callable[[str], Ranges] = lambda _file: (),
    ) -> None:
        self.source = source
        self.catalogue = catalogue or Catalogue()
        self.context = DecodeContext()
        self.skipped_statements = 0
        self.ignored_events = 0
        self._wants = wants
        self._columns = columns
        self._verify = verify
        self._statements = statements
        self._notice = notice
        self._find_undone = find_undone
        self._undone: Ranges | None = None
        self._pool = Pool()
        self._known = KnownTableMaps()
        self._tables: list[TableDecoder] = []
        self._table_maps: list[TableMapEvent] = []
        self._slot_by_schema: dict[TableSchema, int] = {}
        self._kept: list[Array] = []
        self._kept_bytes = 0
        self._crc = _crc_tables()
        self._entries = np.empty((_ENTRIES, k.ENTRY_WORDS), np.int64)
        self._transactions = np.zeros((_TRANSACTIONS, k.TRANSACTION_WORDS), np.int64)
        self._slots = np.zeros((64, k.SLOT_WORDS), np.int64)
        self._slots[:, k.S_HEAD] = -1
        frame = self._frame = np.zeros(k.PLAN_WORDS, np.int64)
        frame[k.ENTRIES] = self._entries.ctypes.data
        frame[k.ENTRY_CAPACITY] = _ENTRIES
        frame[k.TRANSACTIONS] = self._transactions.ctypes.data
        frame[k.TRANSACTION_CAPACITY] = _TRANSACTIONS
        frame[k.CRC_TABLES] = self._crc.ctypes.data
        frame[k.COMPRESSED_SIZE] = frame[k.FIXED_POSITION] = -1
        frame[k.VERIFY] = verify
        frame[k.SLOTS] = self._slots.ctypes.data
        self._known.attach(frame)
        self._plan = kernel("plan_events")
        self.file = ""
        self._file_number = 0

    def begin_file(self, name: str, undone: Ranges | None = None) -> None:
        """The next bytes are from the start of this file.

        ``undone`` are the ranges of offsets in it whose rows were taken back; where None, they are
        asked for when a statement is met that may take rows back.
        """
        self.file = name
        self._undone = undone
        self._file_number = file_number(name) or 0
        self.context = DecodeContext()
        self._frame[[k.CHECKSUM_BYTES, k.HAS_GTIDS]] = 0
        self._no_transaction()

    def decode(
        self, block: Array, size: int, offset: int, limit: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Decode the whole events in the first ``size`` bytes of ``block``.

        ``offset`` is where they stand in the file, `PADDING` bytes follow them, and events that
        begin at the file offset ``limit`` or behind it are left alone. What was ``consumed`` is
        known once the iterator has ended.
        """
        frame = self._frame
        start = int(block.ctypes.data)
        frame[k.CURSOR] = start
        frame[k.END] = start + size
        frame[k.BASE] = offset - start
        frame[k.LIMIT] = start + (size if limit is None else min(size, limit - offset))
        yield from self._walk()
        yield from self._flush()
        self.consumed = int(frame[k.CURSOR]) - start

    consumed = 0
    """Bytes of the block that `decode` was given last that it has decoded."""

    def _walk(self) -> Iterator[pa.RecordBatch]:
        frame = self._frame
        address = frame.ctypes.data
        limit = int(frame[k.LIMIT])
        while True:
            if frame[k.FIXED_POSITION] < 0:
                self._mute(limit)
            reason = self._plan(address)
            if reason == k.DONE:
                if frame[k.LIMIT] == limit or frame[k.CURSOR] < frame[k.LIMIT]:
                    return
                continue
            if reason == k.FULL:
                yield from self._flush()
            elif reason == k.AT_EVENT:
                yield from self._event()
            elif reason == k.AT_TABLE_MAP:
                self._table_map()
            elif reason == k.AT_COMPRESSED:
                if self._kept_bytes > _KEPT and frame[k.FIXED_POSITION] < 0:
                    yield from self._flush()  # before: what is made readable now must stay
                self._decompress_rows()
                continue
            elif reason == k.AT_PARTIAL:
                yield from self._flush()
                yield from self._partial()
            else:
                raise self._error(reason)
            if self._kept_bytes > _KEPT and frame[k.FIXED_POSITION] < 0:
                yield from self._flush()

    # --- the event at the cursor ------------------------------------------------------------------

    def _raw(self) -> bytes:
        cursor = int(self._frame[k.CURSOR])
        size = int.from_bytes(ctypes.string_at(cursor + 9, 4), "little")
        return ctypes.string_at(cursor, size)

    def _offset(self) -> int:
        fixed = int(self._frame[k.FIXED_POSITION])
        return fixed if fixed >= 0 else int(self._frame[k.CURSOR] + self._frame[k.BASE])

    def _decode(self, raw: bytes) -> Event:
        return self.context.decode(
            raw, file=self.file, offset=self._offset(), verify_checksum=self._verify
        )

    def _error(self, reason: int) -> Exception:
        type_code = ctypes.string_at(int(self._frame[k.CURSOR]) + 4, 1)[0]
        if reason == k.NO_TABLE_MAP:
            try:
                self._decode(self._raw())
            except MissingTableMap as error:
                return error
        error_type, message = _ERRORS.get(reason, _ERRORS[k.BAD_EVENT])
        return error_type(
            message, file=self.file, offset=self._offset(), event_type=event_name(type_code)
        )

    def _event(self) -> Iterator[pa.RecordBatch]:
        """Look at an event that the kernel does not know, and go on behind it."""
        raw = self._raw()
        event = self._decode(raw)
        kind = event.type
        if is_rollback(event) and self._frame[k.FIXED_POSITION] >= 0:
            if kind in _STATEMENTS:
                raise event.error(
                    "rows inside a compressed transaction are taken back", BoundaryError
                )
            if self._undone is None:
                self._undone = self._find_undone(self.file)
                self._take_back_payload()
        elif self._undone is None and is_rollback(event):
            self._look_on()
            return
        if kind in _STATEMENTS:
            self._statement(event)
        elif kind == EventType.TRANSACTION_PAYLOAD:
            yield from self._payload(event)
        elif kind == EventType.FORMAT_DESCRIPTION:
            self._format_description()
        elif kind == EventType.INCIDENT:
            raise event.error("the server lost events here: copy the tables anew", BoundaryError)
        elif kind in _LOADED_FILES:
            self._rows_not_logged(event, "LOAD DATA")
        elif kind in _OLD_ROWS:
            raise UnsupportedType(
                f"{self.file} at {event.offset}: rows in {event.name} events cannot be decoded"
            )
        elif kind == EventType.START_ENCRYPTION:
            raise event.error("the log is encrypted from here on, which cannot be read yet")
        elif not hasattr(EventType, event.name):
            self.ignored_events += 1
        self._frame[k.CURSOR] += len(raw)

    def _format_description(self) -> None:
        with_checksum = self.context.checksum_algorithm is ChecksumAlgorithm.CRC32
        self._frame[k.CHECKSUM_BYTES] = 4 if with_checksum else 0
        format_ = self.context.format
        if format_ is not None and format_.post_header(EventType.TABLE_MAP, 8) == 6:
            raise UnsupportedType(f"{self.file}: logs of MySQL before 5.1.16 cannot be decoded")
        self._known.clear()
        self._frame[k.GENERATION] += 1
        self._no_transaction()

    def _no_transaction(self) -> None:
        """Outside transactions there is no GTID, and the events' own seconds tell the time."""
        last = int(self._frame[k.TRANSACTION_COUNT])
        self._transactions[last] = 0
        self._transactions[last, k.T_STAMP] = -1
        self._frame[k.TRANSACTION_COUNT] = last + 1

    def _table_map(self) -> None:
        raw = self._raw()
        event = self._decode(raw)
        self.context.table_maps.clear()
        if not isinstance(event, TableMapEvent):
            raise self._error(k.BAD_EVENT)
        slot = k.IGNORED
        if self._wants(event.database, event.table):
            schema = self.catalogue.resolve(event, self.context.flavour)
            found = self._slot_by_schema.get(schema)
            slot = self._new_slot(schema, event) if found is None else found
        tail = int(self._frame[k.CHECKSUM_BYTES])
        self._known.add(raw[27 : len(raw) - tail], slot)
        self._known.attach(self._frame)

    def _new_slot(self, schema: TableSchema, table_map: TableMapEvent) -> int:
        slot = len(self._tables)
        self._notice(schema)
        self._tables.append(TableDecoder(schema, self.source, self._pool, self._columns))
        self._table_maps.append(table_map)
        self._slot_by_schema[schema] = slot
        if slot == len(self._slots):
            more = np.zeros_like(self._slots)
            more[:, k.S_HEAD] = -1
            self._slots = np.concatenate([self._slots, more])
            self._frame[k.SLOTS] = self._slots.ctypes.data
        self._slots[slot, k.S_COLUMNS] = len(schema.columns)
        return slot

    def _statement(self, event: Event) -> None:
        if not isinstance(event, QueryEvent):
            raise event.error("a statement was expected")
        sql = event.sql
        kind = classify(sql)
        if kind.changes_schema:
            self.catalogue.apply_event(event, self.context.flavour)
            self._known.clear()
        if kind.changes_rows:
            self._rows_not_logged(event, sql)

    def _look_on(self) -> None:
        """Rows of the transaction under way may be taken back: find out, and plan it anew."""
        frame = self._frame
        first = int(frame[k.FIRST_ENTRY])
        self._undone = self._find_undone(self.file)
        if first >= 0:
            self._forget_rows(first)
            frame[k.CURSOR] = frame[k.FIRST_CURSOR]
        elif any(start <= self._offset() <= end for start, end in self._undone):
            raise self._delivered()

    def _take_back_payload(self) -> None:
        """The payload under way may be one that was taken back."""
        if self._is_undone(self._offset()):
            first = int(self._frame[k.FIRST_ENTRY])
            if first < 0:
                raise self._delivered()
            self._forget_rows(first)

    def _is_undone(self, offset: int) -> bool:
        return any(start <= offset < end for start, end in self._undone or ())

    def _forget_rows(self, first: int) -> None:
        """Let the rows planned from an entry on be none."""
        count = int(self._frame[k.ENTRY_COUNT])
        self._entries[first:count, k.E_ROWS] = self._entries[first:count, k.E_END]
        self._entries[first:count, k.E_OP] &= ~k.BARE

    def _delivered(self) -> BoundaryError:
        return BoundaryError(
            "a transaction of more than a block is taken back here, whose rows were delivered: "
            "read this log by splits",
            file=self.file,
            offset=self._offset(),
        )

    def _mute(self, limit: int) -> None:
        """Let the kernel go as far as the next bound of what was taken back, and tell it which."""
        frame = self._frame
        offset = int(frame[k.CURSOR] + frame[k.BASE])
        frame[k.MUTED] = 0
        frame[k.LIMIT] = limit
        for start, end in self._undone or ():
            if start <= offset < end:
                frame[k.MUTED] = 1
                frame[k.LIMIT] = min(limit, end - int(frame[k.BASE]))
            elif offset < start:
                frame[k.LIMIT] = min(int(frame[k.LIMIT]), start - int(frame[k.BASE]))

    def _rows_not_logged(self, event: Event, sql: str) -> None:
        if self._statements == "skip":
            self.skipped_statements += 1
            return
        start = " ".join(sql.split())[:60]
        raise StatementChange(
            f"{self.file} at {event.offset}: the log holds the statement «{start}» and not the "
            "rows that it changed (binlog_format is not ROW); --statements skip passes over such"
        )

    def _decompress_rows(self) -> None:
        """Make the rows of MariaDB's compressed rows event at the cursor readable."""
        frame = self._frame
        cursor, rows = int(frame[k.CURSOR]), int(frame[k.COMPRESSED_ROWS])
        size = int.from_bytes(ctypes.string_at(cursor + 9, 4), "little")
        end = cursor + size - int(frame[k.CHECKSUM_BYTES])
        try:
            plain = decompress(ctypes.string_at(rows, end - rows))
        except LogError as error:
            raise error.at(self.file, self._offset()) from None
        data = self._keep(plain)
        frame[k.COMPRESSED_ROWS] = data.ctypes.data
        frame[k.COMPRESSED_SIZE] = len(plain)

    def _keep(self, plain: bytes | bytearray) -> Array:
        """Hold bytes that the plan points into until it is decoded."""
        data = np.empty(len(plain) + k.PADDING, np.uint8)
        data[: len(plain)] = np.frombuffer(plain, np.uint8)
        self._kept.append(data)
        self._kept_bytes += len(data)
        return data

    # --- payloads ---------------------------------------------------------------------------------

    def _payload(self, event: Event) -> Iterator[pa.RecordBatch]:
        """Walk the events inside a transaction payload."""
        if not isinstance(event, TransactionPayloadEvent):
            raise event.error("a payload was expected")
        yield from self._pieces(event.pieces(), event.offset or 0)

    def large_payload(
        self, offset: int, size: int, read: Callable[[int, int], Iterator[bytes]]
    ) -> Iterator[pa.RecordBatch]:
        """Decode a payload event that is too large to be held.

        It begins at ``offset`` of the file and has ``size`` bytes; ``read`` gives bytes of the
        file from one offset up to another, in pieces.
        """
        tail = int(self._frame[k.CHECKSUM_BYTES])
        end = offset + size - tail
        try:
            if tail and self._verify:
                check_large(read, offset, end)
            head = b"".join(read(offset + HEADER_SIZE, min(offset + _PAYLOAD_HEAD, end)))
            fields = PayloadFields.read(head)
            begin = offset + HEADER_SIZE + fields.payload_at
            if fields.payload_size not in {None, end - begin}:
                raise EventDecodeError(f"a payload of {fields.payload_size} bytes does not fit")
            yield from self._pieces(unpack(read(begin, end), fields.compression), offset)
        except LogError as error:
            raise error.at(self.file, offset, event_name(EventType.TRANSACTION_PAYLOAD)) from None
        yield from self._flush()

    def _pieces(self, pieces: Iterator[bytes], offset: int) -> Iterator[pa.RecordBatch]:
        """Walk the events of an uncompressed payload; a large one is decoded as it comes."""
        frame = self._frame
        saved, context = frame.copy(), self.context
        self.context = DecodeContext(context.format)
        frame[k.FIXED_POSITION] = offset
        frame[k.CHECKSUM_BYTES] = 0
        frame[k.MUTED] = self._is_undone(offset)
        held, seen, large = bytearray(), 0, False
        for piece in pieces:
            held += piece
            if len(held) >= (_PAYLOAD_BLOCK if large else _SMALL_PAYLOAD):
                if not large:
                    large = True
                    yield from self._flush()
                done = yield from self._inner(held, seen)
                yield from self._flush()
                del held[:done]
                seen += done
        done = yield from self._inner(held, seen)
        if done != len(held) or seen + done == 0:
            raise EventDecodeError(
                "the payload ends inside an event", file=self.file, offset=offset
            )
        if large:
            yield from self._flush()
        for word in (k.CURSOR, k.END, k.BASE, k.LIMIT, k.FIXED_POSITION, k.CHECKSUM_BYTES):
            frame[word] = saved[word]
        self.context = context

    def _inner(self, held: bytearray, seen: int) -> Generator[pa.RecordBatch, None, int]:
        """Plan what is whole of a piece of payload; returns how many bytes that is."""
        frame = self._frame
        data = self._keep(held)
        start = int(data.ctypes.data)
        frame[k.CURSOR] = start
        frame[k.END] = frame[k.LIMIT] = start + len(held)
        frame[k.BASE] = seen - start
        yield from self._walk()
        self._kept.append(data)  # once more: a flush on the way let go of it, and more was planned
        return int(frame[k.CURSOR]) - start

    # --- decoding what was planned ----------------------------------------------------------------

    def _flush(self) -> Iterator[pa.RecordBatch]:
        """Decode what is planned, table by table in order of their first rows, and begin anew."""
        frame, slots = self._frame, self._slots
        heads = slots[: len(self._tables), k.S_HEAD]
        for slot in sorted(np.flatnonzero(heads >= 0).tolist(), key=heads.__getitem__):
            yield from self._tables[slot].decode(
                self._entries,
                int(slots[slot, k.S_HEAD]),
                int(slots[slot, k.S_BYTES]),
                int(slots[slot, k.S_SEEN]),
                self._transactions,
                self.file,
                self._file_number,
            )
        slots[:, k.S_HEAD] = -1
        slots[:, [k.S_BYTES, k.S_SEEN]] = 0
        last = int(frame[k.TRANSACTION_COUNT]) - 1
        self._transactions[0] = self._transactions[last]
        frame[k.TRANSACTION_COUNT] = 1
        frame[k.ENTRY_COUNT] = 0
        frame[k.FIRST_ENTRY] = -1
        self._kept.clear()
        self._kept_bytes = 0

    def _partial(self) -> Iterator[pa.RecordBatch]:
        """A partial JSON update: its rows go the object way."""
        frame = self._frame
        raw = self._raw()
        table_id = int.from_bytes(raw[19:25], "little")
        slot = self._known.slot_of(table_id, int(frame[k.GENERATION]))
        if slot is not None and slot >= 0:
            self.context.table_maps[table_id] = self._table_maps[slot]
        if slot != k.IGNORED:
            event = self._decode(raw)
            if not isinstance(event, RowsEvent) or slot is None:
                raise event.error("a rows event was expected")
            first = 0
            if frame[k.FIXED_POSITION] >= 0:
                first = int(frame[k.CURSOR] + frame[k.BASE])
            yield from batch_of_rows(
                event, self._tables[slot], self._transactions[0], self._file_number, first
            )
        self.context.table_maps.clear()
        if raw[25] & 1:
            frame[k.GENERATION] += 1
        frame[k.CURSOR] += len(raw)
