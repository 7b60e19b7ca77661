"""The walk over the events of a block: where the plan kernel stops, and what it planned.

`Walker` is the Python half of the plan kernel. `tailrace.columns.read.decoder` builds on it, and
handles the events that the kernel does not know.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tailrace.columns.calendar import crc_tables
from tailrace.columns.frames import plan as k
from tailrace.columns.frames import text as f
from tailrace.columns.native import is_worth_compiling, kernel, reading, will_read
from tailrace.columns.pages import Pages
from tailrace.columns.read.grammar import STEPS, place, state_after, types_of
from tailrace.columns.read.pool import Pool
from tailrace.columns.read.table import TableDecoder
from tailrace.columns.read.table_maps import KnownBody, KnownTableMaps
from tailrace.columns.read.turns import Turn, in_turns
from tailrace.columns.types import plan_of
from tailrace.constants import HEADER_SIZE, TYPE_AT, EventType, event_name
from tailrace.errors import (
    ChecksumMismatch,
    EventDecodeError,
    LogError,
    TruncatedEvent,
    about_table,
)
from tailrace.events import DecodeContext
from tailrace.events.compression import decompress
from tailrace.events.format_description import first_event
from tailrace.events.header import bad_length, unpack_header
from tailrace.events.payload import NOT_INSIDE
from tailrace.events.rows import ROWS_TYPES
from tailrace.events.table_map import TableMapEvent
from tailrace.events.walk import LENGTH_AT, event_length
from tailrace.log_name import file_number
from tailrace.position import Position, sequence
from tailrace.schema.catalogue import Catalogue
from tailrace.transaction import Boundary, BoundaryParser, State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from concurrent.futures import Executor

    import pyarrow as pa

    from tailrace.columns.read.table import WrittenRows
    from tailrace.columns.read.table_columns import TableColumns
    from tailrace.columns.types import Plan
    from tailrace.events.base import Event
    from tailrace.schema.catalogue import Definitions
    from tailrace.values.schema import Column, TableSchema

Array = np.ndarray[Any, Any]
Ranges = Sequence[tuple[int, int]]

_ENTRIES: Final = 1 << 19
_TRANSACTIONS: Final = 1 << 19
_WORTH_A_BATCH: Final = 1 << 20
"""Bytes of log whose reading takes several times as long as making a batch."""
_WORTH_A_THREAD: Final = 1 << 20
"""Bytes of a batch that takes longer to finish than it takes to tell another thread."""
_INFLATED: Final = 1 << 20
"""Bytes of room for the rows of compressed events, and the least that one is put in."""
_INFLATED_ROOM: Final = 64 << 10
_EXAMINED: Final = 1 << 12
"""The most table maps that are kept after the definitions of tables have changed."""
_END: Final = Boundary.END
_EDGES: Final = (Boundary.BEGIN, _END)
_OUTSIDE: Final = int(State.OUTSIDE)
_KEPT: Final = 32 << 20
"""At most so many bytes of decompressed events wait to be decoded with the rest of their block."""

_ERRORS: Final[dict[int, tuple[type[LogError], str]]] = {
    k.BAD_CHECKSUM: (ChecksumMismatch, "its bytes do not match the checksum at their end"),
    k.DOUBT: (EventDecodeError, "its bytes do not follow its format"),
}


def _words(rows: int, words: int) -> Array:
    """A table of zeros that takes memory only where it is written."""
    return Pages(8 * rows * words).array().view(np.int64).reshape(rows, words)


def _joined(ranges: Ranges) -> Array:
    """The ranges in order, those that overlap as one."""
    found = np.array(ranges, np.int64).reshape(-1, 2)
    if len(found) < 2:
        return found
    found = found[np.argsort(found[:, 0], kind="stable")]
    ends = np.maximum.accumulate(found[:, 1])
    first = np.concatenate([[True], found[1:, 0] >= ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([found[first, 0], ends[last]], axis=1)


@dataclass(frozen=True, slots=True)
class UnnamedTable:
    """A table whose columns have no known names, and whose rows are not decoded."""

    table: TableSchema


Unnamed = Callable[["TableSchema", int, int], None]
"""Called for rows that were not decoded: their table, the lowest and roughly the highest ``_seq``.
"""


@dataclass(slots=True)
class _Unfinished:
    """A batch that is to be finished; its error goes to the ``errors`` of its plan, by slot, as
    long as that is decoded.
    """

    finish: Callable[[], pa.RecordBatch]
    slot: int
    errors: dict[int, LogError] | None


@dataclass(slots=True)
class _Mapped:
    """A table map that was examined, by the bytes that its table's other table maps repeat."""

    event: TableMapEvent
    body: KnownBody
    definitions: Definitions | None = None
    """What was known of the table when ``slot`` was found."""
    slot: int = -1


class Walker(ABC):
    """Walks over blocks of events and decodes the rows that were planned, table by table.

    With ``unnamed``, rows of tables with unknown column names are reported to it, not decoded.
    With ``threads`` a large batch is finished in one of them while the next is decoded: `rest`
    gives the last one.
    """

    def __init__(
        self,
        source: str,
        *,
        wants: Callable[[str, str], bool] = lambda _database, _table: True,
        columns: Collection[str] | None = None,
        catalogue: Catalogue | None = None,
        verify: bool = True,
        notice: Callable[[TableSchema], None] = lambda _schema: None,
        plan: Callable[[Column], Plan] = plan_of,
        unnamed: Unnamed | None = None,
        threads: Executor | None = None,
    ) -> None:
        self.source = source
        self._threads = threads
        self._unfinished: _Unfinished | None = None
        self._unnamed = unnamed
        self.catalogue = catalogue or Catalogue()
        self.context = DecodeContext(lowers_names=bool(self.catalogue.lowers_names))
        self._inside = DecodeContext()
        self._wants = wants
        self._columns = columns
        self._plan_of = plan
        self._verify = verify
        self._notice = notice
        self._left_out: Array | None = None
        self._left_out_ends: frozenset[int] = frozenset()
        self._pool = Pool()
        self._by_columns: dict[object, TableColumns] = {}
        self._tables: list[TableDecoder | UnnamedTable | LogError | None] = []
        self._table_maps: list[TableMapEvent] = []
        self._ignored: list[TableMapEvent] = []
        self._unresolved: dict[int, LogError] = {}
        self._free: list[int] = []
        self._boundaries = BoundaryParser()
        self._slot_by_schema: dict[TableSchema, int] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._turns: dict[tuple[str, str], list[Turn]] = {}
        """The shapes that a table takes in the plan, if it has more than one."""
        self._examined: dict[bytes, _Mapped] = {}
        self.no_cascades: Callable[[Array], None] | None = None
        """Called with ranges of rows whose changes do not cascade: see `_tell_no_cascades`."""
        self._kept: list[Array] = []
        self._codes = np.zeros(f.WORK_BYTES, np.uint8)
        self._kept_bytes = 0
        self._inflated = (0, 0)
        self._unpacked: Array | None = None
        self._spent = False
        self._start = 0
        self._walked = 0
        self._crc = crc_tables()
        self._entries = _words(_ENTRIES, k.ENTRY_WORDS)
        self._transactions = _words(_TRANSACTIONS, k.TRANSACTION_WORDS)
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
        frame[k.STATE] = State.OUTSIDE
        frame[k.STEPS] = STEPS.ctypes.data
        self._payloads = np.zeros((k.PAYLOAD_CAPACITY, k.PAYLOAD_WORDS), np.int64)
        frame[k.PAYLOADS] = self._payloads.ctypes.data
        self._take_types()
        self._known = KnownTableMaps(frame)
        self.file = ""
        self._file_number = 0

    def begin_file(self, name: str, left_out: Ranges | None = None) -> None:
        """The next bytes are from the start of this file.

        ``left_out`` are the ranges of offsets in it whose rows do not count; if None, they are
        determined when a statement is read that may roll rows back.
        """
        self.file = name
        self.leave_out(left_out)
        self._frame[[k.SAFE, k.FIRST_ENTRY]] = 0
        self._file_number = file_number(name) or 0
        self.context = DecodeContext(lowers_names=bool(self.catalogue.lowers_names))
        self._frame[k.CHECKSUM_BYTES] = 0
        self._take_types()
        if self._frame[k.STATE] & 0xFF == State.OUTSIDE:  # relay logs may continue a transaction
            self._frame[k.HAS_GTIDS] = 0
            self._no_transaction()

    def leave_out(self, ranges: Ranges | None) -> None:
        """Leave out rows of events that begin in these ranges of offsets of the file.

        For None see `begin_file`.
        """
        frame = self._frame
        frame[[k.RANGE_COUNT, k.RANGE, k.MUTED]] = 0
        self._left_out = None if ranges is None else _joined(ranges)
        self._left_out_ends = frozenset(end for _, end in ranges or ())
        if self._left_out is not None:
            frame[k.RANGES] = self._left_out.ctypes.data
            frame[k.RANGE_COUNT] = len(self._left_out)

    def _is_left_out(self, offset: int) -> bool:
        if self._left_out is None:
            return False
        return int(np.searchsorted(self._left_out.reshape(-1), offset, "right")) & 1 == 1

    def begin_inside(self) -> None:
        """The next bytes are inside a transaction, after the events that begin it."""
        if self._frame[k.STATE] != State.SINGLE:
            self._frame[k.STATE] = State.OPEN

    def _take_types(self) -> None:
        """Tell the kernel what the format description says about event types."""
        self._examined.clear()
        self._types = types_of(self.context.format)
        self._frame[k.TYPES] = self._types.ctypes.data

    def decode(
        self,
        block: Array,
        size: int,
        offset: int,
        limit: int | None = None,
        *,
        ends: Literal["file", "series"] | None = None,
        spent: bool = False,
        may_wait: bool = False,
        verified: tuple[int, int] = (0, 0),
    ) -> Iterator[pa.RecordBatch]:
        """Decode the whole events in the first ``size`` bytes of ``block``.

        ``offset`` is the block's offset in the file; `PADDING` bytes follow the events. Events that
        begin at or after the file offset ``limit`` are not decoded. ``ends`` says what ends at
        ``limit``: rows of a transaction that has not ended in the last file are dropped. With
        ``spent`` the decoded bytes of the block are not read again. With ``may_wait`` rows wait for
        more where each table has few: the block must stay unchanged while it `waits`. Events
        between the addresses ``verified`` match their checksums. ``consumed`` is known once the
        iterator has ended.
        """
        frame, self._spent = self._frame, spent
        will_read(size)
        start = self._start = int(block.ctypes.data)
        frame[k.CURSOR] = frame[k.FIRST_CURSOR] = start
        frame[k.END] = start + size
        frame[k.BASE] = offset - start
        frame[[k.CHECKED, k.SOUND_QUERY, k.RANGE, k.PAYLOAD_COUNT]] = 0
        frame[k.VERIFIED : k.VERIFIED + 2] = verified
        frame[k.LIMIT] = start + (size if limit is None else min(size, limit - offset))
        yield from self._walk_to_error()
        if limit is None or limit - offset > size:
            self._keep_certain()
        elif ends is not None and frame[k.STATE] & 0xFF != State.OUTSIDE:
            if ends == "series":
                self._discard()
            elif self._left_out is None:
                self._drop_rolled_back()
        self.consumed = int(frame[k.CURSOR]) - start
        self._walked += self.consumed
        if not (may_wait and self._should_wait()):
            yield from self._flush()

    @property
    def waits(self) -> bool:
        """Whether rows wait for more rows of their tables; `rest` gives them."""
        return bool(self._frame[k.ENTRY_COUNT])

    @property
    def gave_all(self) -> bool:
        """Whether all rows up to ``ended`` were given: none waits, and no batch is unfinished."""
        return not self.waits and self._unfinished is None

    @property
    def ended(self) -> Position | None:
        """The end of the last transaction in the current file that was decoded; None without."""
        safe = int(self._frame[k.SAFE])
        return Position(self.file, safe) if safe and self.file else None

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The batches of the waiting rows, and the last one that another thread finishes."""
        yield from self._flush()
        yield from self.unfinished()

    def unfinished(self) -> Iterator[pa.RecordBatch]:
        """The batch that another thread finishes, if there is one."""
        last, self._unfinished = self._unfinished, None
        if last is None:
            return
        try:
            batch = last.finish()
        except LogError as error:
            if last.errors is None:
                self._drop_plan()  # nothing after it is given
                raise
            last.errors[last.slot] = error
        else:
            del last  # it may hold memory that is not the batch's
            yield batch

    def _should_wait(self) -> bool:
        """Whether making batches would take so much of the time that rows should wait for more."""
        planned = int((self._slots[: len(self._tables), k.S_HEAD] >= 0).sum())
        return self._walked < planned * _WORTH_A_BATCH

    consumed = 0
    """How many bytes of the last block given to `decode` are decoded."""

    def _walk_to_error(self) -> Iterator[pa.RecordBatch]:
        """Walk; the plan before an error is decoded first, as it may hold another error."""
        frame = self._frame
        try:
            yield from self._walk()
        except LogError:
            if frame[k.FIXED_POSITION] < 0 and frame[k.STATE] & 0xFF != State.OUTSIDE:
                self._discard()
            yield from self._flush()
            raise

    def _walk(self) -> Iterator[pa.RecordBatch]:
        frame = self._frame
        address = frame.ctypes.data
        while True:
            reason = reading("plan_events")(address)
            if reason == k.DONE:
                if frame[k.OUTER_CURSOR]:
                    raise TruncatedEvent("the payload ends inside an event").at(
                        self.file, self._offset(), event_name(EventType.TRANSACTION_PAYLOAD)
                    )
                return
            if reason == k.FULL:
                yield from self._deliver()
            elif reason == k.AT_EVENT:
                yield from self._event()
            elif reason == k.AT_TABLE_MAP:
                self._table_map()
            elif reason == k.DOUBT:
                self._check()
                continue
            elif reason == k.AT_COMPRESSED:
                if self._kept_bytes > _KEPT and frame[k.FIXED_POSITION] < 0:
                    yield from self._deliver()  # first: what is decompressed now must stay
                else:
                    self._decompress_rows()
                continue
            else:
                raise self._error(reason)
            if self._kept_bytes > _KEPT and frame[k.FIXED_POSITION] < 0:
                yield from self._deliver()

    def _deliver(self) -> Iterator[pa.RecordBatch]:
        self._keep_certain()
        yield from self._flush()

    @abstractmethod
    def _event(self) -> Iterator[pa.RecordBatch]:
        """Handle the event at the cursor, which the kernel does not know, and continue after it."""

    @abstractmethod
    def _keep_certain(self) -> None:
        """Keep only those rows in the plan that may be delivered."""

    @abstractmethod
    def _drop_rolled_back(self) -> None:
        """Find out which rows of this file were rolled back, and remove planned ones among them."""

    @property
    def _reading(self) -> DecodeContext:
        """The context of the event at the cursor: events in a payload have no checksums."""
        if self._frame[k.FIXED_POSITION] < 0:
            return self.context
        if self._inside.format is not self.context.format:
            self._inside = DecodeContext(self.context.format)
        return self._inside

    def _raw(self) -> bytes:
        cursor = int(self._frame[k.CURSOR])
        size = event_length(ctypes.string_at(cursor, HEADER_SIZE))
        return ctypes.string_at(cursor, size)

    def _offset(self) -> int:
        fixed = int(self._frame[k.FIXED_POSITION])
        return fixed if fixed >= 0 else int(self._frame[k.CURSOR] + self._frame[k.BASE])

    def _decode(self, raw: bytes) -> Event:
        if self._frame[k.FIXED_POSITION] >= 0 and raw[4] in NOT_INSIDE:
            raise EventDecodeError(
                f"the payload holds an event of type {raw[4]}",
                file=self.file,
                offset=self._offset(),
                event_type=event_name(EventType.TRANSACTION_PAYLOAD),
            )
        return self._reading.decode(
            raw, file=self.file, offset=self._offset(), verify_checksum=self._verify
        )

    def _check(self) -> None:
        """Examine the event at the cursor like the object path, and mark it as sound."""
        frame = self._frame
        if frame[k.CHECKED] == frame[k.CURSOR]:  # the kernel still cannot read it
            raise self._error(k.DOUBT)
        raw = self._raw()
        code = raw[4]
        slot = self._find_table(raw) if code in ROWS_TYPES else None
        self._examine(self._decode(raw), take=False)
        self._reading.table_maps.clear()
        self._check_resolved(slot, event_name(code))
        frame[k.CHECKED] = frame[k.CURSOR]

    def _check_resolved(self, slot: int | None, name: str) -> None:
        """Raise the reason why a table's columns are unknown, if the log has rows of it."""
        if slot is not None and slot in self._unresolved:
            error, table_map = self._unresolved[slot], self._table_map_of(slot)
            about_table(error, table_map.database, table_map.table)
            raise error.at(self.file, self._offset(), name)

    def _find_table(self, raw: bytes) -> int | None:
        """Give the context the table map of a rows event; returns its slot, or None without one."""
        short = self._types[raw[4]] & k.SHORT_ID
        table_id = int.from_bytes(raw[HEADER_SIZE : HEADER_SIZE + (4 if short else 6)], "little")
        slot = self._known.slot_of(table_id, int(self._frame[k.GENERATION]))
        if slot is not None:
            self._reading.table_maps[table_id] = self._table_map_of(slot)
        return slot

    def _table_map_of(self, slot: int) -> TableMapEvent:
        return (
            self._table_maps[slot]
            if slot >= 0
            else self._ignored[(k.IGNORED - slot) >> k.WIDTH_BITS]
        )

    def _examine(self, event: Event, *, take: bool = True) -> Boundary:
        """Check an event's place in the grammar and its whole body; with ``take`` take the step.

        Raises the same errors as reading the log by events.
        """
        if self._frame[k.FIXED_POSITION] >= 0:  # the grammar sees only the payload event itself
            event.check_fields()
            return Boundary.INSIDE
        if self.context.format is None:
            first_event(event)  # raises: it is another
        boundary = self._place(event)
        event.check_fields()  # the events inside a payload are examined when they are walked
        if take:
            self._take_boundary(event, boundary)
        return boundary

    def _place(self, event: Event) -> Boundary:
        """The event's role. Raises BoundaryError where the grammar does not allow the event."""
        return place(self._boundaries, int(self._frame[k.STATE]), event)

    def _take_place(self, event: Event) -> None:
        """Take the grammar's step with an event. Raises BoundaryError where there is none."""
        self._take_boundary(event, self._place(event))

    def _take_boundary(self, event: Event, boundary: Boundary) -> None:
        frame, parser = self._frame, self._boundaries
        if parser.discarded:
            self._discard()
        if boundary in _EDGES and frame[k.STATE] == _OUTSIDE:
            frame[k.FIRST_ENTRY] = frame[k.ENTRY_COUNT]
            frame[k.FIRST_CURSOR] = frame[k.CURSOR]
            if frame[k.HAS_GTIDS]:
                self._no_transaction()
        frame[k.STATE] = state_after(parser)
        if boundary is _END:
            frame[k.SAFE] = event.end_offset or 0

    @abstractmethod
    def _discard(self) -> None:
        """The transaction under way is void: the server crashed before its end."""

    def _error(self, reason: int) -> Exception:
        cursor = int(self._frame[k.CURSOR])
        header = unpack_header(ctypes.string_at(cursor, HEADER_SIZE))
        type_code, length = header[1], header[3]
        if reason == k.BAD_LENGTH:
            tail = int(self._frame[k.CHECKSUM_BYTES])
            return bad_length(length, tail=tail).at(
                self.file, self._offset(), event_name(type_code)
            )
        error_type, message = _ERRORS.get(reason, _ERRORS[k.DOUBT])
        return error_type(
            message, file=self.file, offset=self._offset(), event_type=event_name(type_code)
        )

    def _no_transaction(self) -> None:
        """Outside transactions there is no GTID, and the time is that of the events' headers."""
        last = int(self._frame[k.TRANSACTION_COUNT])
        self._transactions[last] = 0
        self._transactions[last, k.T_STAMP] = -1
        self._frame[k.TRANSACTION_COUNT] = last + 1

    def _table_map(self) -> None:
        """Learn a table map; the kernel, which reads it again, then finds it, and checks its
        place.
        """
        raw, form = self._raw(), self.context.format
        tail = int(self._frame[k.CHECKSUM_BYTES])
        begin = HEADER_SIZE + 2 + (6 if form is None else form.table_map_id_size)
        body = raw[begin : len(raw) - tail]
        mapped = self._examined.get(body)
        if mapped is None:
            mapped = _Mapped(self._examined_table_map(raw), KnownBody(body))
            if len(self._examined) >= _EXAMINED:
                self._examined.clear()
            self._examined[body] = mapped
        self._known.add(mapped.body, self._slot_of(mapped))

    def _examined_table_map(self, raw: bytes) -> TableMapEvent:
        event = self._decode(raw)
        self._reading.table_maps.clear()
        self._examine(event, take=False)
        if not isinstance(event, TableMapEvent):
            raise self._error(k.DOUBT)
        return event

    def _slot_for(self, event: TableMapEvent) -> int:
        """The slot of a table; if it could not be resolved, its rows are an error."""
        if not self._wants(event.database, event.table):
            self._ignored.append(event)
            return k.IGNORED - (len(self._ignored) - 1 << k.WIDTH_BITS | len(event.columns))
        try:
            schema = self.catalogue.resolve(event, self.context.flavour)
        except LogError as error:
            slot = self._new_slot(None, event)
            self._unresolved[slot] = error
            return slot
        found = self._slot_by_schema.get(schema)
        slot = self._new_slot(schema, event) if found is None else found
        self._take_turn(slot, event)
        return slot

    def _slot_of(self, mapped: _Mapped) -> int:
        """`_slot_for`; it is the same as before while the table's definitions are."""
        event = mapped.event
        definitions = self.catalogue.definitions_of(event.database, event.table)
        if mapped.definitions == definitions:
            self._take_turn(mapped.slot, event)
            return mapped.slot
        slot = self._slot_for(event)
        if slot >= 0 and slot not in self._unresolved:
            mapped.definitions, mapped.slot = definitions, slot
        return slot

    def _take_turn(self, slot: int, event: TableMapEvent) -> None:
        """The rows that follow are of this shape of a table."""
        name = event.database, event.table
        newest = self._newest.setdefault(name, slot)
        if newest != slot:
            self._newest[name] = slot
            turns = self._turns.setdefault(name, [Turn(newest, 0)])
            turns.append(Turn(slot, int(self._frame[k.ENTRY_COUNT])))
            self._known.clear()  # so that earlier shapes come here as well

    def _forget_tables(self) -> None:
        """Definitions of tables have changed: each table is resolved again when it is next read,
        those of the statement under way at once.

        Ignored and unresolved tables have no rows in the plan, so their slots are free.
        """
        self._known.clear()
        generation = int(self._frame[k.GENERATION])
        is_open = self._frame[k.MAPPED] == generation
        slots = self._known.slots_of(generation) if is_open else ()
        open_maps = {slot: self._table_map_of(slot) for slot in slots}
        self._ignored.clear()
        self._free += self._unresolved
        self._unresolved.clear()
        if not open_maps:
            return
        self._known.redirect(
            generation, {slot: self._slot_for(each) for slot, each in open_maps.items()}
        )

    def _new_slot(self, schema: TableSchema | None, table_map: TableMapEvent) -> int:
        if self._free:
            slot = self._free.pop()
            self._tables[slot] = self._table_decoder(schema)
            self._table_maps[slot] = table_map
        else:
            slot = len(self._tables)
            self._tables.append(self._table_decoder(schema))
            self._table_maps.append(table_map)
        if schema is not None:
            self._slot_by_schema[schema] = slot
        if slot == len(self._slots):
            more = np.zeros_like(self._slots)
            more[:, k.S_HEAD] = -1
            self._slots = np.concatenate([self._slots, more])
            self._frame[k.SLOTS] = self._slots.ctypes.data
        self._slots[slot, k.S_COLUMNS] = len(table_map.columns)
        self._slots[slot, k.S_UNKNOWN] = schema is None
        return slot

    def _table_decoder(
        self, schema: TableSchema | None
    ) -> TableDecoder | UnnamedTable | LogError | None:
        """The decoder of a table's rows; or the error for its rows, if it has columns that cannot
        be decoded.
        """
        if schema is None:
            return None
        self._notice(schema)
        if self._unnamed is not None and schema.names_from == "none" and schema.columns:
            return UnnamedTable(schema)
        try:
            return TableDecoder(
                schema, self.source, self._pool, self._columns, self._plan_of, self._by_columns
            )
        except LogError as error:
            return error

    def _decompress_rows(self) -> None:
        """Decompress the rows of MariaDB's compressed rows event at the cursor."""
        frame = self._frame
        cursor, rows = int(frame[k.CURSOR]), int(frame[k.COMPRESSED_ROWS])
        size = ctypes.c_uint32.from_address(cursor + LENGTH_AT).value
        end = cursor + size - int(frame[k.CHECKSUM_BYTES])
        length = -1
        if is_worth_compiling("inflate_rows"):
            out, room = self._inflated
            if room < _INFLATED_ROOM:
                out, room = self._keep(bytes(_INFLATED)).ctypes.data, _INFLATED
            length = kernel("inflate_rows")(rows, end, out, room, self._codes.ctypes.data)
        if length >= 0:
            self._inflated = out + length + k.PADDING, room - length - k.PADDING
        else:
            try:
                plain = decompress(ctypes.string_at(rows, end - rows))
            except LogError as error:
                code = ctypes.c_uint8.from_address(cursor + TYPE_AT).value
                raise error.at(self.file, self._offset(), event_name(code)) from None
            out, length = self._keep(plain).ctypes.data, len(plain)
        frame[k.COMPRESSED_ROWS] = out
        frame[k.COMPRESSED_SIZE] = length

    def _keep(self, plain: bytes | bytearray) -> Array:
        """Keep bytes alive that the plan points into until it is decoded."""
        will_read(len(plain))
        data = np.empty(len(plain) + k.PADDING, np.uint8)
        data[: len(plain)] = np.frombuffer(plain, np.uint8)
        self._kept.append(data)
        self._kept_bytes += len(data)
        return data

    def _flush(self) -> Iterator[pa.RecordBatch]:
        """Decode the plan, table by table in order of their first rows, and start a new one."""
        errors: dict[int, LogError] = {}
        if self.no_cascades is not None:
            self._tell_no_cascades(self.no_cascades)
        returning = self._returning()
        for slot in self._planned():
            if slot in returning:
                yield from self._in_turns(returning[slot], errors)
                continue
            for written in self._written(slot, errors):
                yield from self.unfinished()
                if slot in errors:
                    break
                in_thread = written.is_apart and written.size >= _WORTH_A_THREAD
                if self._threads is not None and in_thread:
                    finish = self._threads.submit(written.finish).result
                    self._unfinished = _Unfinished(finish, slot, errors)
                    del finish
                else:
                    self._unfinished = _Unfinished(written.finish, slot, errors)
                    del written
                    yield from self.unfinished()
        if errors:
            yield from self.unfinished()
        self._drop_plan()
        if errors:  # raised last: otherwise what is still planned would be given again
            raise min(errors.values(), key=lambda error: error.offset or 0)
        if self._unfinished is not None:
            self._unfinished.errors = None

    def _returning(self) -> dict[int, list[Turn]]:
        """The slots of tables that return to an earlier shape in the plan, with their turns. Each
        has those of its table, once: the other slots have none.
        """
        found: dict[int, list[Turn]] = {}
        for turns in self._turns.values():
            slots = dict.fromkeys(turn.slot for turn in turns)
            if len(slots) < len(turns):
                found |= {slot: [] for slot in slots}
                planned = [slot for slot in slots if self._slots[slot, k.S_HEAD] >= 0]
                if planned:
                    found[min(planned, key=lambda slot: int(self._slots[slot, k.S_HEAD]))] = turns
        return found

    def _in_turns(
        self, turns: Sequence[Turn], errors: dict[int, LogError]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a table that returns to earlier shapes, in the log's order: the rows of each
        shape are decoded as one, and cut where the next turn begins.
        """
        if not turns:
            return
        yield from self.unfinished()
        batches: dict[int, list[pa.RecordBatch]] = {}
        for slot in dict.fromkeys(turn.slot for turn in turns):
            made = batches[slot] = []
            if self._slots[slot, k.S_HEAD] < 0:
                continue
            for written in self._written(slot, errors):
                try:
                    made.append(written.finish())
                except LogError as error:
                    errors.setdefault(slot, error)
                    break
        entries = self._entries[: int(self._frame[k.ENTRY_COUNT])]
        yield from in_turns(turns, batches, entries[:, [k.E_POSITION, k.E_ROW]])

    def _written(self, slot: int, errors: dict[int, LogError]) -> Iterator[WrittenRows]:
        """The planned rows of a table; of its errors, ``errors`` gets the first."""
        try:
            yield from self._decode_slot(slot)
        except LogError as error:
            errors.setdefault(slot, error)

    def _tell_no_cascades(self, tell: Callable[[Array], None]) -> None:
        """Report the planned updates and deletes that do not cascade to other rows.

        Each is four numbers: file, position, and the rows' first number and one past the last.
        """
        entries = self._entries[: int(self._frame[k.ENTRY_COUNT])]
        operations = entries[:, k.E_OP]
        chosen = entries[(operations & k.NO_CASCADES > 0) & (operations & 3 > 0)]
        if len(chosen):
            found = np.empty((len(chosen), 4), np.int64)
            found[:, 0], found[:, 1] = self._file_number, chosen[:, k.E_POSITION]
            found[:, 2] = chosen[:, k.E_ROW]  # a row has at least a byte, or there is one row
            found[:, 3] = found[:, 2] + chosen[:, k.E_END] - chosen[:, k.E_ROWS] + 1
            tell(found)

    def _planned(self) -> list[int]:
        """The slots of tables with planned rows, in order of their first."""
        heads = self._slots[: len(self._tables), k.S_HEAD]
        return sorted(np.flatnonzero(heads >= 0).tolist(), key=heads.__getitem__)

    def _drop_plan(self) -> None:
        """Drop the plan, which was used, and start a new one."""
        frame, slots = self._frame, self._slots
        slots[:, k.S_HEAD] = -1
        slots[:, [k.S_BYTES, k.S_SEEN]] = 0
        self._turns.clear()
        last = int(frame[k.TRANSACTION_COUNT]) - 1
        self._transactions[0] = self._transactions[last]
        frame[k.TRANSACTION_COUNT] = 1
        frame[k.ENTRY_COUNT] = 0
        frame[k.FIRST_CURSOR] = frame[k.CURSOR]
        frame[k.FIRST_ENTRY] = -1 if frame[k.FIXED_POSITION] >= 0 else min(frame[k.FIRST_ENTRY], 0)
        self._kept[:] = [] if self._unpacked is None else [self._unpacked]
        self._kept_bytes = 0
        self._inflated = (0, 0)
        self._walked = 0

    def _decode_slot(self, slot: int) -> Iterator[WrittenRows]:
        """Decode the planned rows of a table; a note on errors names the table."""
        try:
            yield from self._decoded(slot)
        except Exception as error:
            table_map = self._table_maps[slot]
            about_table(error, table_map.database, table_map.table)
            raise

    def _decoded(self, slot: int) -> Iterator[WrittenRows]:
        slots, table = self._slots, self._tables[slot]
        entry = int(slots[slot, k.S_HEAD])
        if isinstance(table, TableDecoder):
            yield from table.decode(
                self._entries,
                entry,
                int(slots[slot, k.S_BYTES]),
                int(slots[slot, k.S_SEEN]),
                self._transactions,
                self.file,
                self._file_number,
                spent=self._spent,
            )
            return
        while entry >= 0 and table is not None:
            row = self._entries[entry]
            if row[k.E_ROWS] < row[k.E_END] or row[k.E_OP] & k.BARE:
                if isinstance(table, LogError):
                    raise copy(table).at(self.file, int(row[k.E_POSITION]))
                self._leave_out(table, row, self._entries[slots[slot, k.S_TAIL]])
                return
            entry = int(row[k.E_NEXT])

    def _leave_out(self, table: UnnamedTable, first: Array, last: Array) -> None:
        """Report rows that are not decoded, by their first and last entry."""
        if self._unnamed is not None:
            offsets = (int(each[k.E_POSITION]) for each in (first, last))
            places = [sequence(self._file_number, offset, 0) for offset in offsets]
            self._unnamed(table.table, places[0], places[1])
