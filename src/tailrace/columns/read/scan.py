"""The scan of one log file by a kernel: where it may be split, and what its statements do."""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames import plan as k
from tailrace.columns.frames import scan as f
from tailrace.columns.native import reading, will_read
from tailrace.columns.read.blocks import Blocks
from tailrace.columns.read.grammar import STEPS_ANYWAY, types_of
from tailrace.columns.read.payload_heads import PayloadHeads
from tailrace.columns.read.split import Inside, Split
from tailrace.columns.read.table_changes import TableChange, table_changes
from tailrace.constants import (
    GTID_TYPES,
    HEADER_SIZE,
    MAGIC,
    EventFlag,
    EventType,
    event_name,
)
from tailrace.errors import BoundaryError, PipelineError, TailraceError, TruncatedEvent
from tailrace.events import DecodeContext
from tailrace.events.format_description import FormatDescriptionEvent
from tailrace.events.gtids import GtidEvent
from tailrace.events.header import bad_length, unpack_header
from tailrace.events.query import QueryEvent
from tailrace.events.transaction import XaPrepareEvent
from tailrace.events.walk import ends_as_said, event_length
from tailrace.log_name import file_number
from tailrace.position import Position, sequence
from tailrace.printable import first_line
from tailrace.schema.alteration import altered
from tailrace.schema.classify import classify
from tailrace.schema.clauses import RenameTable
from tailrace.schema.ddl import AlterTable, shown_statement
from tailrace.schema.session import session_of_event
from tailrace.table_name import TableName
from tailrace.transaction import State, Token, token_of
from tailrace.transaction.committed import TO_THE_END

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tailrace.events.transaction import XaName
    from tailrace.schema.alteration import Alteration
    from tailrace.schema.catalogue import Catalogue
    from tailrace.schema.ddl import Effect
    from tailrace.schema.session import StatementSession
    from tailrace.storage import LogFile
    from tailrace.transaction.committed import Rollbacks
    from tailrace.values.schema import TableDefinition

Array = np.ndarray[Any, Any]

_ROOM: Final = 1 << 12
_MILLION: Final = 1_000_000


@dataclass(slots=True)
class SplitPart:
    """A part of a file while it is scanned.

    ``joins``: it may be joined with the previous one. ``began`` is where the transaction began
    inside which it begins, None if a transaction begins with it. ``apart``: see `Split`.
    """

    start: int
    catalogue: Catalogue
    changes: list[TableChange] = field(default_factory=list)
    joins: bool = False
    began: int | None = None
    apart: bool = False


class TransactionContinues(BoundaryError):
    """A transaction began in the previous file and continues in this one, as relay logs have it."""


_CONTINUES: Final = (
    "a transaction continues here that began in the previous file, as in relay logs: read them with"
    " tailrace.changes or tailrace.open, or give the logs of the source itself"
)


class Scan:
    """The scan of one file: `run`, or `scan` again and again as it grows.

    Parts have about ``target`` bytes; a larger transaction is cut inside, where the rows of a
    statement begin. With ``holding`` a part begins where a prepared XA transaction begins, also in
    a payload, so that the log before it can be read alone. ``state`` is the grammar's state after
    the previous file: in relay logs a transaction may continue in the next file, which raises
    `TransactionContinues`, as no part holds it whole. A transaction without an end in a file is
    left out of the file's parts. With ``cascades`` a part begins with each statement that changes a
    table that has foreign keys that change rows, or a table that these refer to. A part begins with
    each definition whose transaction begins at one of ``cuts``.
    """

    def __init__(
        self,
        source: str,
        log: LogFile,
        catalogue: Catalogue,
        rollbacks: Rollbacks,
        target: int,
        start: int,
        *,
        holding: bool = False,
        state: int = State.OUTSIDE,
        cascades: bool = False,
        cuts: Collection[int] = (),
    ) -> None:
        self._source = source
        self._cascades = cascades
        self._cuts = frozenset(cuts)
        self.log = log
        self._catalogue = catalogue
        self._rollbacks = rollbacks
        self._start = start
        self._target = target
        self._context = DecodeContext(lowers_names=bool(catalogue.lowers_names))
        self._number = file_number(log.name) or 0
        self._bounds = np.zeros(_ROOM, np.int64)
        self._inner = np.zeros((_ROOM, f.INNER_WORDS), np.int64)
        self._payloads = np.zeros((_ROOM, k.PAYLOAD_WORDS), np.int64)
        self._savepoints = np.zeros((_ROOM, f.SAVEPOINT_WORDS), np.int64)
        frame = self._frame = np.zeros(f.WORDS, np.int64)
        frame[f.SAFE] = 4
        frame[f.STATE] = state
        frame[f.STEPS] = STEPS_ANYWAY.ctypes.data
        self._take_types()
        frame[f.BOUNDS] = self._bounds.ctypes.data
        frame[f.INNER] = self._inner.ctypes.data
        frame[f.PAYLOADS] = self._payloads.ctypes.data
        frame[f.SAVEPOINTS] = self._savepoints.ctypes.data
        frame[[f.BOUND_CAPACITY, f.INNER_CAPACITY, f.SAVEPOINT_CAPACITY]] = _ROOM
        frame[f.PAYLOAD_CAPACITY] = _ROOM if holding else 0
        frame[[f.BOUND_TARGET, f.INNER_TARGET]] = target
        frame[f.LAST] = max(start, 4) if start < TO_THE_END else TO_THE_END
        self.parts = [SplitPart(max(start, 4), catalogue.copy())]
        self._at = self._block = 4
        self._holding = holding
        self._heads = PayloadHeads()

    def _take_types(self) -> None:
        """Tell the kernel what the format description says about event types."""
        self._types = types_of(self._context.format)
        self._frame[f.TYPES] = self._types.ctypes.data

    def run(self) -> list[Split]:
        """The splits of the whole file."""
        return list(self._splits(self.scan()))

    def scan(self) -> int:
        """Continue after the last whole event that was scanned; returns where the last transaction
        ends that is whole.
        """
        frame = self._frame
        end_of_file = self._at
        with Blocks(self.log) as blocks:
            blocks.check_magic()
            flags = blocks.file_flags()
            in_use = bool(flags & EventFlag.IN_USE)
            blocks.skip(self._at)
            consumed = 0
            while blocks.next(consumed):
                begin = int(blocks.data.ctypes.data)
                self._block = blocks.offset
                will_read(blocks.size)
                scan = reading("scan_events")
                frame[f.CURSOR] = begin
                frame[f.END] = begin + blocks.size
                frame[f.BASE] = blocks.offset - begin
                while (reason := scan(frame.ctypes.data)) != f.DONE:
                    self._stop(reason)
                self._drain()
                consumed = int(frame[f.CURSOR]) - begin
                end_of_file = blocks.offset + consumed
                if size := blocks.payload_ahead(consumed):
                    if end_of_file + size > self.log.size:
                        break
                    self._step(end_of_file, size, Token.PAYLOAD)
                    if self._holding:
                        tail = int(frame[f.CHECKSUM_BYTES])
                        name = self._heads.prepared_in_file(
                            blocks, end_of_file, size - tail, self._context.format
                        )
                        self._prepared(name, end_of_file, int(frame[f.BEGAN]))
                    blocks.skip(end_of_file + size)
                    end_of_file = blocks.offset
                    consumed = 0
            # Of a torn event that is encrypted, blocks may have nothing; the file has some bytes.
            # A file of only the magic ends inside its first event.
            torn = end_of_file < max(blocks.offset + blocks.size, self.log.size, len(MAGIC) + 1)
            just_begun = self._holding and end_of_file == len(MAGIC)  # the file is followed
            being_written = just_begun or (in_use and _may_be_torn(blocks, end_of_file, flags))
        if torn and not being_written:
            raise TruncatedEvent(
                "the file ends inside this event", file=self.log.path, offset=end_of_file
            )
        end = int(frame[f.SAFE]) if in_use or self._inside else end_of_file
        if self._start < TO_THE_END and self._start > end_of_file:
            raise PipelineError(
                f"{self.log.path} has {end_of_file} bytes of whole events, but was already "
                "read up to "
                f"{self._start}: it is not the same log"
            )
        self._at = end_of_file
        return end

    @property
    def server_version(self) -> str:
        """The version of the server that wrote the file; empty before the format description."""
        form = self._context.format
        return "" if form is None else form.server_version

    @property
    def whole(self) -> int:
        """Where the last whole event ends that was scanned."""
        return self._at

    @property
    def unfinished(self) -> int | None:
        """Where the transaction began that has not ended so far; None if there is none."""
        return int(self._frame[f.BEGAN]) if self._inside else None

    @property
    def state(self) -> int:
        """The grammar's state so far."""
        return int(self._frame[f.STATE])

    @property
    def _inside(self) -> bool:
        return self.state & 0xFF != State.OUTSIDE

    def take(self, end: int) -> list[Split]:
        """The splits up to ``end``, a transaction's end; the next call gives those after it."""
        splits = list(self._splits(end))
        left = [part for part in self.parts if part.start >= end]
        if not left or left[0].start > end:
            known = left[0].catalogue if left else self._catalogue
            changes = [
                change
                for part in self.parts
                if part.start < end
                for change in part.changes
                if change.offset >= end
            ]
            left.insert(0, SplitPart(end, known.copy(), changes))
        left[0].joins = False
        self.parts = left
        if splits:
            self._frame[f.LAST] = max(self._frame[f.LAST], end)
        return splits

    def _joined(self, parts: list[SplitPart], end: int) -> list[SplitPart]:
        """The parts before ``end``; parts that join the previous one are combined up to a split's
        size.
        """
        found: list[SplitPart] = []
        wanted = [part for part in parts if part.start < end]
        ends = [*(part.start for part in wanted[1:]), end]
        for part, behind in zip(wanted, ends, strict=False):
            if part.joins and found and behind - found[-1].start <= self._target:
                found[-1] = replace(found[-1], changes=[*found[-1].changes, *part.changes])
            else:
                found.append(part)
        return found

    def _splits(self, end: int) -> Iterator[Split]:
        parts = self._joined(self.parts, end)
        ends = [*(part.start for part in parts[1:]), end] if parts else []
        left = next((part for part in self.parts if part.start >= end), None)
        after = [part.catalogue for part in parts[1:]]
        after.append(self._catalogue if left is None else left.catalogue)
        opened = cache(lambda began: inside_of(self.log, began))
        for part, behind, known in zip(parts, ends, after, strict=False):
            yield Split(
                self._source,
                self.log,
                part.start,
                behind,
                part.catalogue,
                tuple(change for change in part.changes if change.offset < end),
                inside=None if part.began is None else opened(part.began),
                whole=known.whole(),
                apart=part.apart,
                keys=known.cascading() if self._cascades else (),
            )

    def _drain(self) -> None:
        """Take in what the kernel has noted since the last call."""
        frame = self._frame
        begins = self._bounds[: frame[f.BOUND_COUNT]]
        inner = self._inner[: frame[f.INNER_COUNT]]
        payloads = self._payloads[: frame[f.PAYLOAD_COUNT]]
        savepoints = self._savepoints[: frame[f.SAVEPOINT_COUNT]]
        frame[[f.BOUND_COUNT, f.INNER_COUNT, f.PAYLOAD_COUNT, f.SAVEPOINT_COUNT]] = 0
        if len(begins) or len(inner):
            self._take_bounds(begins, inner)
        if len(payloads):
            tail, form = int(frame[f.CHECKSUM_BYTES]), self._context.format
            for name, offset, _, began in self._heads.prepared_among(
                payloads, -int(frame[f.BASE]), tail, form, self.log.name
            ):
                self._prepared(name, offset, began)
        if len(savepoints):
            self._take_savepoints(savepoints)

    def _take_savepoints(self, found: Array) -> None:
        """Take in the statements that set savepoints or roll back to one."""
        file = self.log.name
        for offset, began, text, size in found.tolist():
            sql = ctypes.string_at(text, size).decode(errors="backslashreplace")
            try:
                self._rollbacks.savepoint(sql, {file: began}, Position(file, offset))
            except BoundaryError as error:
                raise error.at(file, offset, event_name(EventType.QUERY)) from None

    def _take_bounds(self, begins: Array, inner: Array) -> None:
        """Take in where transactions begin, and statements inside them with where these began."""
        parts = [SplitPart(begin, self._catalogue.copy()) for begin in begins.tolist()]
        parts += [
            SplitPart(offset, self._catalogue.copy(), began=began)
            for offset, began in inner.tolist()
        ]
        self.parts += sorted(parts, key=lambda part: part.start)

    def _prepared(self, name: XaName | None, offset: int, began: int) -> None:
        """The payload at an offset prepares the XA transaction ``name``, if there is one."""
        if name is not None:
            file = self.log.name
            self._rollbacks.prepared(name, {file: began}, Position(file, offset + 1))
            self._may_hold(began)

    def _stop(self, reason: int) -> None:
        """Handle the event at the cursor, and continue after it."""
        frame = self._frame
        cursor = int(frame[f.CURSOR])
        offset = int(cursor + frame[f.BASE])
        self._drain()
        if reason == f.FULL:
            return
        if reason != f.AT_EVENT:
            header = unpack_header(ctypes.string_at(cursor, HEADER_SIZE))
            tail = int(frame[f.CHECKSUM_BYTES])
            raise bad_length(header[3], tail=tail).at(self.log.path, offset, event_name(header[1]))
        raw = ctypes.string_at(cursor, event_length(ctypes.string_at(cursor, HEADER_SIZE)))
        # Checksums are verified where the rows are decoded.
        event = self._context.decode(raw, file=self.log.name, offset=offset, verify_checksum=False)
        if isinstance(event, FormatDescriptionEvent):
            self._take_types()
            self._begin_format(event)
            frame[f.CHECKSUM_BYTES] = self._context.checksum_algorithm.size
        elif event.type == EventType.START_ENCRYPTION:
            if not event.header.flags & EventFlag.IGNORABLE:  # else it was decrypted before
                raise event.error("the log is encrypted from here on: give its keyring")
        else:
            self._step(offset, len(raw), token_of(event))
            self._rollbacks.feed(event, {self.log.name: int(frame[f.BEGAN])})
            if self._holding and isinstance(event, XaPrepareEvent) and not event.one_phase:
                self._may_hold(int(frame[f.BEGAN]))
            if isinstance(event, QueryEvent) and classify(event.sql).changes_schema:
                self._define(event)
        frame[f.CURSOR] += len(raw)

    def _step(self, offset: int, size: int, token: Token) -> None:
        """Take the grammar's step with an event, like the kernel."""
        frame = self._frame
        if not self._inside:
            frame[f.BEGAN] = frame[f.SAFE] = offset
            frame[f.STATEMENT_ENDED] = 0
        frame[f.STATE] = STEPS_ANYWAY[self.state & 0xFF, token]
        if not self._inside:
            frame[f.SAFE] = offset + size

    def _begin_format(self, event: FormatDescriptionEvent) -> None:
        """A format description makes a transaction under way void; otherwise, it continues."""
        frame, offset = self._frame, event.offset or 0
        if event.created:
            self._catalogue.restarted()
        if not self._inside:
            return
        if not event.created and self.state & k.ROTATED:
            raise event.error(_CONTINUES, TransactionContinues)
        if offset > len(MAGIC):
            self._rollbacks.ranges.append((self.log.name, int(frame[f.BEGAN]), offset))
        frame[f.STATE] = State.OUTSIDE
        frame[f.SAFE] = offset

    def _may_hold(self, began: int) -> None:
        """A prepared transaction may be committed or rolled back later: let a part begin there."""
        number = bisect_left(self.parts, began, key=lambda part: part.start)
        if number and (number == len(self.parts) or self.parts[number].start > began):
            self.parts.insert(number, SplitPart(began, self._catalogue.copy(), joins=True))

    def _define(self, event: QueryEvent) -> None:
        flavour = self._context.flavour
        seq = sequence(self._number, event.offset or 0, 0)
        began = int(self._frame[f.BEGAN])
        cut = began in self._cuts
        before = self._catalogue.copy() if cut or self._cascades else None
        self._catalogue.settle(Position(self.log.name, event.offset or 0))
        done = self._catalogue.effects_of(event, flavour)
        definitions = [self._definition(effect) for effect in done]
        self._catalogue.apply_event(event, flavour, done)
        if self._catalogue.lowers_names and not self._context.lowers_names:  # the event shows it
            self._context.lower_names()
        session, sql = session_of_event(event, flavour)
        changes: list[TableChange] = []
        if session is not None:
            statement = shown_statement(sql, Position(self.log.name, event.offset or 0))
            micros = self._commit_time(began) or event.timestamp * _MILLION
            for effect, definition in zip(done, definitions, strict=True):
                alteration = self._altered(effect, definition, event, session, sql, statement)
                changes += [
                    replace(change, began=began, micros=micros, statement=statement)
                    for change in table_changes(effect, seq, statement, alteration)
                ]
        if before is not None:
            apart = self._cascades and bool(changes)
            apart = apart and _alters_keys(changes, before, self._catalogue)
            if cut or apart:
                self._begin_part(began, before, apart=apart)
        self.parts[-1].changes += changes
        if (event.offset or 0) < self.parts[0].start:
            self.parts[0] = SplitPart(self.parts[0].start, self._catalogue.copy())

    def _altered(
        self,
        effect: Effect,
        before: TableDefinition | None,
        event: QueryEvent,
        session: StatementSession,
        sql: str,
        statement: str,
    ) -> Alteration | str | None:
        """What an ALTER TABLE did to its table's rows, or why that is not known.

        A mistake of ours there stops one table, and not the plan.
        """
        if not isinstance(effect, AlterTable):
            return None
        after = self._definition(effect)
        try:
            return altered(effect.clauses, before, after, event, session, sql, statement)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            kind = "" if isinstance(error, TailraceError) else f"{type(error).__name__}: "
            return kind + first_line(error)

    def _commit_time(self, began: int) -> int | None:
        """When the transaction under way was committed, if its GTID event at ``began`` says so."""
        if began < self._block:
            raw = inside_of(self.log, began).opening
        else:
            address = began - int(self._frame[f.BASE])
            header = ctypes.string_at(address, HEADER_SIZE)
            size = event_length(header) if header[4] in GTID_TYPES else 0
            raw = ctypes.string_at(address, size)
        if not raw:
            return None
        event = self._context.decode(raw, file=self.log.name, offset=began, verify_checksum=False)
        return event.commit_timestamp if isinstance(event, GtidEvent) else None

    def _definition(self, effect: Effect) -> TableDefinition | None:
        """The table that an ALTER TABLE alters, by its old or its new name, as it is now."""
        if not isinstance(effect, AlterTable):
            return None
        key = effect.name.key
        for clause in effect.clauses:
            if isinstance(clause, RenameTable) and self._catalogue.logged(key) is None:
                key = clause.database or key[0], clause.table
        state = self._catalogue.logged(key)
        return None if state is None else state.unversion().definition

    def _begin_part(self, began: int, catalogue: Catalogue, *, apart: bool) -> None:
        """Let a part begin with the statement under way, which is alone in its transaction."""
        last = self.parts[-1]
        if last.start == began:
            last.apart, last.joins = last.apart or apart, False
        elif last.start < began:
            self.parts.append(SplitPart(began, catalogue, apart=apart))


def _alters_keys(changes: Sequence[TableChange], before: Catalogue, after: Catalogue) -> bool:
    """Whether any changed table is concerned by foreign keys that change rows.

    A table that did not exist before cannot have been changed by them.
    """
    made = {change.table for change in changes if change.kind == "create"}
    made = {name for name in made if before.lookup(*TableName.parse(name)) is None}
    changed = {each for change in changes for each in (change.table, change.renamed)} - made
    if not (changed - {None}):
        return False
    states = {id(state): state for known in (before, after) for state in known.cascading()}
    names = {str(state.definition.full_name) for state in states.values()}
    return any(each is not None and (each.endswith(".*") or each in names) for each in changed)


def inside_of(log: LogFile, began: int) -> Inside:
    """The transaction that begins at an offset, for parts that begin inside it.

    An offset before all events is that of a transaction that began in the previous file: relay logs
    may change files in the middle of one.
    """
    if began < len(MAGIC):
        return Inside(began)
    with Blocks(log) as blocks:
        header = b"".join(blocks.read(began, began + HEADER_SIZE))
        if header[4] not in GTID_TYPES:
            return Inside(began)
        size = event_length(header)
        return Inside(began, b"".join(blocks.read(began, began + size)))


def _may_be_torn(blocks: Blocks, offset: int, flags: int) -> bool:
    """Whether the last, incomplete event of a file with these flags may be one that is being
    written; otherwise its length is damaged.
    """
    head = b"".join(blocks.read_some(offset, offset + HEADER_SIZE))
    if len(head) < HEADER_SIZE:  # the rest is not written yet, or cannot be decrypted yet
        return True
    return bool(flags & EventFlag.RELAY_LOG) or ends_as_said(head, offset, event_length(head))
