"""Cutting logs into parts that can be decoded on their own, at the bounds of transactions."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from tailrace.columns import layout as k
from tailrace.columns.blocks import Blocks
from tailrace.columns.native import kernel
from tailrace.constants import (
    HEADER_SIZE,
    MAGIC,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    event_name,
)
from tailrace.errors import BoundaryError, PipelineError, TruncatedEvent
from tailrace.events import DecodeContext
from tailrace.events.header import bad_length, unpack_header
from tailrace.events.query import QueryEvent
from tailrace.log import Log
from tailrace.position import Position, file_number, sequence
from tailrace.rollbacks import Rollbacks, ends_transaction
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.classify import classify
from tailrace.schema.clauses import RenameTable
from tailrace.schema.ddl import (
    AlterTable,
    CreateLike,
    CreateTable,
    DropDatabase,
    DropTable,
    Effect,
    Name,
    RenameTo,
    Truncate,
    Unclear,
    effects,
)
from tailrace.schema.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage import LogFile, LogSeries

_BOUNDS: Final = 1 << 12
_NEVER: Final = 1 << 62
_FLAGS: Final = 17
"""Offset of the flags' low byte in an event's header."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a statement did to a table as a whole, by its place in the order of all changes.

    ``table`` is ``database.table`` (``database.*`` for a dropped database); ``renamed`` the new
    name of a renamed one. ``unclear`` says that the statement was not understood.
    """

    seq: int
    kind: Literal["create", "alter", "drop", "truncate", "rename", "unclear"]
    table: str
    renamed: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a log file, from one transaction's begin to another's end.

    ``start`` and ``end`` are 64-bit offsets into the plain log. It pickles, and holds all that
    decoding needs besides the file (of an encrypted one, where its key is, and not the key): what
    is known of tables where it begins, in ``catalogue``; and the ``changes`` that statements inside
    it make to tables.
    """

    source: str
    log: LogFile
    start: int
    end: int
    catalogue: Catalogue
    changes: tuple[TableChange, ...] = ()
    undone: tuple[tuple[int, int], ...] = ()
    """Ranges of offsets whose rows were taken back (see `tailrace.rollbacks`)."""

    @property
    def file(self) -> str:
        """The file's name, as positions give it."""
        return self.log.name


@dataclass(slots=True)
class _Part:
    start: int
    catalogue: Catalogue
    changes: list[TableChange] = field(default_factory=list)


def plan_splits(
    series: LogSeries,
    *,
    target_bytes: int = 64 << 20,
    after: Position | None = None,
    catalogue: Catalogue | None = None,
) -> list[Split]:
    """Cut a series into splits of about ``target_bytes`` each; a file has at least one.

    Only headers and statements are looked at. ``after`` leaves out what stands before it (all
    files are still gone through for their DDL). ``catalogue`` is what is known of tables before
    the first file. What lies behind the last transaction that ended in a file is left out: it is
    still being written, or was cut off. Raises `BoundaryError` where what stands before ``after``
    was taken back behind it.
    """
    known = catalogue.copy() if catalogue is not None else Catalogue()
    splits: list[Split] = []
    rollbacks = Rollbacks()
    for log in series.files:
        start = 4
        if after is not None and (number := file_number(log.name)) is not None:
            first = file_number(after.file) or 0
            start = after.offset if number == first else (_NEVER if number < first else 4)
        splits += _Scan(series.name, log, known, rollbacks, target_bytes, start).run()
    rollbacks = _with_payloads(rollbacks, series)
    for file, start, _ in rollbacks.ranges:
        if after is not None and Position(file, start) < after:
            raise BoundaryError(
                f"an XA transaction was rolled back whose rows were read up to {after} before: "
                "copy its tables anew",
                file=file,
                offset=start,
            )
    return [replace(split, undone=undone_in(rollbacks, split)) for split in splits]


def undone_in(rollbacks: Rollbacks, split: Split) -> tuple[tuple[int, int], ...]:
    """The ranges of a split that were taken back."""
    return tuple(
        sorted(
            (start, end)
            for file, start, end in rollbacks.ranges
            if file == split.file and split.start <= start < split.end
        )
    )


def find_rollbacks(series: LogSeries) -> Rollbacks:
    """Go through all files of a series for what was taken back."""
    rollbacks = Rollbacks()
    for log in series.files:
        _Scan(series.name, log, Catalogue(), rollbacks, _NEVER, 4).run()
    return _with_payloads(rollbacks, series)


def _with_payloads(rollbacks: Rollbacks, series: LogSeries) -> Rollbacks:
    """The scan does not look into payloads; where it might have to, the object path does."""
    if not rollbacks.unmatched:
        return rollbacks
    return Rollbacks.of(Log(series, verify_checksums=False, expand_payloads=False))


def whole_file(source: str, log: LogFile, catalogue: Catalogue) -> Split:
    """The split that is all of a file, up to the last transaction that ended in it.

    A file that was closed needs no look at its events for that.
    """
    with Blocks(log) as blocks:
        blocks.block = 1 << 10
        blocks.check_magic()
        blocks.next(0)
        closed = blocks.size > _FLAGS and not blocks.data[_FLAGS] & EventFlag.IN_USE
    if closed:
        return Split(source, log, 4, log.size, catalogue)
    (split,) = _Scan(source, log, catalogue.copy(), Rollbacks(), _NEVER, 4).run() or [
        Split(source, log, 4, 4, catalogue)
    ]
    return split


class _Scan:
    """One file's way through the scan kernel."""

    def __init__(
        self,
        source: str,
        log: LogFile,
        catalogue: Catalogue,
        rollbacks: Rollbacks,
        target: int,
        start: int,
    ) -> None:
        self._source = source
        self._log = log
        self._catalogue = catalogue
        self._rollbacks = rollbacks
        self._start = start
        self._context = DecodeContext()
        self._number = file_number(log.name) or 0
        self._bounds = np.zeros(_BOUNDS, np.int64)
        frame = self._frame = np.zeros(k.PLAN_WORDS, np.int64)
        frame[k.SAFE] = 4
        frame[k.SCAN_BOUNDS] = self._bounds.ctypes.data
        frame[k.SCAN_CAPACITY] = len(self._bounds)
        frame[k.SCAN_TARGET] = target
        frame[k.SCAN_LAST] = max(start, 4) if start < _NEVER else _NEVER
        self._parts = [_Part(max(start, 4), catalogue.copy())]

    def run(self) -> list[Split]:
        scan = kernel("scan_events")
        frame = self._frame
        end_of_file = 4
        with Blocks(self._log) as blocks:
            blocks.check_magic()
            consumed = 0
            while blocks.next(consumed):
                begin = int(blocks.data.ctypes.data)
                frame[k.CURSOR] = begin
                frame[k.END] = begin + blocks.size
                frame[k.BASE] = blocks.offset - begin
                while (reason := scan(frame.ctypes.data)) != k.DONE:
                    self._stop(reason)
                self._take_bounds()
                consumed = int(frame[k.CURSOR]) - begin
                end_of_file = blocks.offset + consumed
                if size := blocks.payload_ahead(consumed):
                    if end_of_file + size > self._log.size:
                        break
                    blocks.skip(end_of_file + size)
                    frame[k.SAFE] = end_of_file = blocks.offset
                    consumed = 0
            torn = end_of_file != blocks.offset + blocks.size
        if torn and not self._in_use:
            raise TruncatedEvent(
                "the file ends inside this event", file=self._log.name, offset=end_of_file
            )
        end = int(frame[k.SAFE]) if self._in_use else end_of_file
        if self._start < _NEVER and self._start > end_of_file:
            raise PipelineError(
                f"{self._log.path} has {end_of_file} bytes of whole events, but was read up to "
                f"{self._start} before: it is not the same log"
            )
        return list(self._splits(end))

    _in_use = False

    def _splits(self, end: int) -> Iterator[Split]:
        parts = [part for part in self._parts if part.start < end]
        ends = [*(part.start for part in parts[1:]), end] if parts else []
        for part, behind in zip(parts, ends, strict=True):
            yield Split(
                self._source,
                self._log,
                part.start,
                behind,
                part.catalogue,
                tuple(change for change in part.changes if change.seq >> 48 & ~(-1 << 44) < end),
            )

    def _take_bounds(self) -> None:
        for bound in self._bounds[: self._frame[k.SCAN_COUNT]].tolist():
            self._parts.append(_Part(bound, self._catalogue.copy()))
        self._frame[k.SCAN_COUNT] = 0

    def _stop(self, reason: int) -> None:
        """Look at the event at the cursor, and go on behind it."""
        frame = self._frame
        cursor = int(frame[k.CURSOR])
        offset = int(cursor + frame[k.BASE])
        self._take_bounds()
        if reason == k.FULL:
            return
        if reason != k.AT_EVENT:
            header = unpack_header(ctypes.string_at(cursor, HEADER_SIZE))
            tail = int(frame[k.CHECKSUM_BYTES])
            raise bad_length(header[3], tail=tail).at(self._log.name, offset, event_name(header[1]))
        raw = ctypes.string_at(cursor, int.from_bytes(ctypes.string_at(cursor + 9, 4), "little"))
        event = self._context.decode(raw, file=self._log.name, offset=offset)
        if event.type == EventType.FORMAT_DESCRIPTION:
            if offset == len(MAGIC):  # a relay log holds its source's, too
                self._in_use = bool(event.header.flags & EventFlag.IN_USE)
            with_checksum = self._context.checksum_algorithm is ChecksumAlgorithm.CRC32
            frame[k.CHECKSUM_BYTES] = 4 if with_checksum else 0
        elif event.type == EventType.START_ENCRYPTION:
            if not event.header.flags & EventFlag.IGNORABLE:  # else it was decrypted below
                raise event.error("the log is encrypted from here on: its keyring is needed")
        else:
            self._rollbacks.feed(event, int(frame[k.SCAN_BEGAN]))
            if ends_transaction(event):
                frame[k.SAFE] = event.end_offset or 0
            if isinstance(event, QueryEvent) and classify(event.sql).changes_schema:
                self._define(event)
        frame[k.CURSOR] += len(raw)

    def _define(self, event: QueryEvent) -> None:
        flavour = self._context.flavour
        seq = sequence(self._number, event.offset or 0, 0)
        session, sql = Session.of_event(event, flavour)
        if session is not None:
            for effect in effects(sql, event.database, session):
                self._parts[-1].changes += _changes(effect, seq)
        self._catalogue.apply_event(event, flavour)
        if (event.offset or 0) < self._parts[0].start:
            self._parts[0].catalogue = self._catalogue.copy()


def _changes(effect: Effect, seq: int) -> Iterator[TableChange]:
    match effect:
        case CreateTable() | CreateLike():
            if not effect.unless_exists:
                yield TableChange(seq, "create", _text(effect.name))
        case AlterTable():
            yield TableChange(seq, "alter", _text(effect.name))
            for clause in effect.clauses:
                if isinstance(clause, RenameTable):
                    new = Name(clause.database or effect.name.database, clause.table)
                    yield TableChange(seq, "rename", _text(effect.name), _text(new))
        case RenameTo():
            yield TableChange(seq, "rename", _text(effect.old), _text(effect.new))
        case DropTable():
            yield TableChange(seq, "drop", _text(effect.name))
        case Truncate():
            yield TableChange(seq, "truncate", _text(effect.name))
        case DropDatabase():
            yield TableChange(seq, "drop", f"{effect.database}.*")
        case Unclear():
            name = "*.*" if effect.name is None else _text(effect.name)
            yield TableChange(seq, "unclear", name)
        case _:
            return


def _text(name: Name) -> str:
    return f"{name.database or ''}.{name.table}"
