"""The walk over the events of a block: what the plan kernel stops at, and what it planned.

`Walker` is Python's half of the plan kernel. What an event that the kernel does not know means is
said by `tailrace.columns.decoder`, which builds on it.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns import layout as k
from tailrace.columns.calendar import crc_tables
from tailrace.columns.native import kernel
from tailrace.columns.pool import Pool
from tailrace.columns.table import TableDecoder
from tailrace.columns.table_maps import KnownTableMaps
from tailrace.constants import HEADER_SIZE, event_name
from tailrace.errors import (
    ChecksumMismatch,
    EventDecodeError,
    LogError,
    MissingTableMap,
)
from tailrace.events import DecodeContext
from tailrace.events.compression import decompress
from tailrace.events.header import bad_length, unpack_header
from tailrace.events.table_map import TableMapEvent
from tailrace.position import file_number
from tailrace.schema.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import pyarrow as pa

    from tailrace.events.base import Event
    from tailrace.rows.schema import TableSchema

Array = np.ndarray[Any, Any]
Ranges = Sequence[tuple[int, int]]

_ENTRIES: Final = 1 << 17
_TRANSACTIONS: Final = 1 << 17
_KEPT: Final = 32 << 20
"""Bytes of decompressed events that wait to be decoded with the rest of their block, at most."""

_ERRORS: Final[dict[int, tuple[type[LogError], str]]] = {
    k.BAD_CHECKSUM: (ChecksumMismatch, "its bytes do not have the checksum at their end"),
    k.BAD_EVENT: (EventDecodeError, "its bytes do not follow its format"),
    k.WRONG_WIDTH: (EventDecodeError, "it has not as many columns as its table map"),
}


class Walker(ABC):
    """Walks over blocks of events and decodes the rows that were planned, table by table."""

    def __init__(
        self,
        source: str,
        *,
        wants: Callable[[str, str], bool] = lambda _database, _table: True,
        columns: Collection[str] | None = None,
        catalogue: Catalogue | None = None,
        verify: bool = True,
        notice: Callable[[TableSchema], None] = lambda _schema: None,
    ) -> None:
        self.source = source
        self.catalogue = catalogue or Catalogue()
        self.context = DecodeContext()
        self._wants = wants
        self._columns = columns
        self._verify = verify
        self._notice = notice
        self._undone: Ranges | None = None
        self._pool = Pool()
        self._known = KnownTableMaps()
        self._tables: list[TableDecoder] = []
        self._table_maps: list[TableMapEvent] = []
        self._slot_by_schema: dict[TableSchema, int] = {}
        self._kept: list[Array] = []
        self._kept_bytes = 0
        self._crc = crc_tables()
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
        self._frame[[k.SAFE, k.FIRST_ENTRY]] = 0
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
        frame[k.CURSOR] = frame[k.FIRST_CURSOR] = start
        frame[k.END] = start + size
        frame[k.BASE] = offset - start
        frame[k.LIMIT] = start + (size if limit is None else min(size, limit - offset))
        yield from self._walk()
        if limit is None or limit - offset > size:
            self._settle()
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
                yield from self._deliver()
            elif reason == k.AT_EVENT:
                yield from self._event()
            elif reason == k.AT_TABLE_MAP:
                self._table_map()
            elif reason == k.AT_COMPRESSED:
                if self._kept_bytes > _KEPT and frame[k.FIXED_POSITION] < 0:
                    yield from self._deliver()  # before: what is made readable now must stay
                else:
                    self._decompress_rows()
                continue
            elif reason == k.AT_PARTIAL:
                if self._undone is None:  # its rows are delivered at once, so find out before
                    self._look_on()
                    continue
                yield from self._flush()
                yield from self._partial()
            else:
                raise self._error(reason)
            if self._kept_bytes > _KEPT and frame[k.FIXED_POSITION] < 0:
                yield from self._deliver()

    def _deliver(self) -> Iterator[pa.RecordBatch]:
        self._settle()
        yield from self._flush()

    @abstractmethod
    def _event(self) -> Iterator[pa.RecordBatch]:
        """Look at the event at the cursor, which the kernel does not know, and go on behind it."""

    @abstractmethod
    def _settle(self) -> None:
        """Let only rows stay planned that may be delivered."""

    @abstractmethod
    def _look_on(self) -> None:
        """Find out which rows of this file were taken back, and forget those that are planned."""

    @abstractmethod
    def _partial(self) -> Iterator[pa.RecordBatch]:
        """Decode the partial JSON update at the cursor, and go on behind it."""

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
        if reason == k.BAD_LENGTH:
            length = unpack_header(ctypes.string_at(int(self._frame[k.CURSOR]), HEADER_SIZE))[3]
            tail = int(self._frame[k.CHECKSUM_BYTES])
            return bad_length(length, tail=tail).at(
                self.file, self._offset(), event_name(type_code)
            )
        error_type, message = _ERRORS.get(reason, _ERRORS[k.BAD_EVENT])
        return error_type(
            message, file=self.file, offset=self._offset(), event_type=event_name(type_code)
        )

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
        frame[k.FIRST_CURSOR] = frame[k.CURSOR]
        frame[k.FIRST_ENTRY] = -1 if frame[k.FIXED_POSITION] >= 0 else min(frame[k.FIRST_ENTRY], 0)
        self._kept.clear()
        self._kept_bytes = 0
