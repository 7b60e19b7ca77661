"""``tailrace log --as text``: transactions with their statements and rows, for people."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.output import PlainOutput
from tailrace.columns.text.readers import parts, written
from tailrace.constants import HEADER_SIZE
from tailrace.events import (
    AnnotateRowsEvent,
    DecodeContext,
    FormatDescription,
    FormatDescriptionEvent,
    IncidentEvent,
    IntVarEvent,
    QueryEvent,
    RandEvent,
    RotateEvent,
    RowsEvent,
    RowsQueryEvent,
    StopEvent,
    UserVarEvent,
    XaPrepareEvent,
)
from tailrace.events.unreadable_rows import UnreadableRowsEvent
from tailrace.log.reader import Step, TransactionHead
from tailrace.position import Position
from tailrace.printable import printable
from tailrace.times import time_text
from tailrace.transaction import TransactionKind
from tailrace.transaction.statements import BEGIN_AND_COMMIT
from tailrace.values.image import ABSENT
from tailrace.values.row import RowSet
from tailrace.values.text import value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.cli.output import Output, Piece
    from tailrace.columns.text.lines import Lines
    from tailrace.columns.text.stretches import Stretch
    from tailrace.events import Event
    from tailrace.log.reader import Reader
    from tailrace.values.image import Image
    from tailrace.values.row import Row
    from tailrace.values.schema import Column, TableSchema


def row_pieces(row: Row, schema: TableSchema) -> list[Piece]:
    """A row on one line: all columns, or for an update its key and what it changed."""
    pieces: list[Piece] = [
        ("  ", ""),
        (row.kind, row.kind),
        (f" {schema.full_name} ", ""),
    ]
    if row.before is not None and row.after is not None:
        return pieces + _update(row.before, row.after, schema)
    image = row.after if row.after is not None else row.before
    if image is not None:
        values = image.as_tuple()
        for column in schema.columns:
            if values[column.index] is not ABSENT:
                pieces += _assigned(column, values[column.index])
    return pieces


def _update(before: Image, after: Image, schema: TableSchema) -> list[Piece]:
    old, new = before.as_tuple(), after.as_tuple()
    pieces: list[Piece] = []
    key = schema.primary_key or tuple(range(len(schema.columns)))
    for index in key:
        if old[index] is not ABSENT:
            pieces += _assigned(schema.columns[index], old[index])
    changed = [
        column
        for column in schema.columns
        if new[column.index] is not ABSENT and not _same(old[column.index], new[column.index])
    ]
    pieces.append((" ", ""))
    for number, column in enumerate(changed):
        was = value_text(old[column.index], column)
        now = value_text(new[column.index], column)
        pieces += [
            (", " if number else " ", ""),
            (column.name, "column"),
            (f": {was} → {now}", ""),
        ]
    if not changed:
        pieces.append((" (no change)", "quiet"))
    return pieces


def _same(old: Any, new: Any) -> bool:
    return type(old) is type(new) and bool(old == new)


def _assigned(column: Column, value: Any) -> list[Piece]:
    return [(f" {column.name}", "column"), (f"={value_text(value, column)}", "")]


def statement_lines(sql: str) -> list[str]:
    """A statement, indented like the other lines of a transaction."""
    return [f"  {line}" for line in sql.strip().split("\n")]


_SOME: Final = TransactionHead(Position("", 0), None, None, 0)
"""Stands for a transaction of a stretch: what was last shown of it is not tracked."""


def _fit(lines: Lines) -> Lines:
    return lines.printable(lambda line: printable(line, keep="\t"), keep="\t")


class TextView:
    """Writes the steps of a reader as text.

    A transaction's first line has its position, GTID and commit time; its statements and rows
    follow. Rows are shown as they were logged, even if they were rolled back; then the last line
    says so. With ``only_rows`` (specific tables were requested), statements are left out, and
    transactions without rows of those tables. With ``hexdump`` each event's bytes precede it, in
    mysqlbinlog's layout.
    """

    def __init__(self, out: Output, *, only_rows: bool = False, hexdump: bool = False) -> None:
        self._out = out
        self._hexdump = hexdump
        self._only_rows = only_rows
        self._group: TransactionHead | None = None
        self._shown: TransactionHead | None = None
        self._file: str | None = None

    def show(self, reader: Reader) -> None:
        """Write all of a reader's steps."""
        for part in parts(reader):
            if isinstance(part, Step):
                self._step(part, reader)
            else:
                self._stretch(part, reader)
        if reader.inside and self._shown is not None:
            what = "stopped" if reader.stopped else "the log ends"
            self._note(f"{what} inside this transaction", "alarm")
        self._file = None

    def _stretch(self, stretch: Stretch, reader: Reader) -> None:
        """Write a stretch's lines; if it comes again as steps, these lines are left out."""
        from tailrace.columns.text.row_text import TransactionText  # noqa: PLC0415 - it needs pyarrow

        out = self._out
        if not isinstance(out, PlainOutput):
            raise TypeError("lines that are made together have no colours")

        def statement(raw: bytes, offset: int) -> list[str]:
            context = DecodeContext(reader.format, reader.format.checksum_algorithm)
            event = context.decode(raw, file=stretch.file, offset=offset, verify_checksum=False)
            if not isinstance(event, RowsQueryEvent | AnnotateRowsEvent):
                raise event.error("a statement's text was expected")
            return [f"  --{line[1:]}" for line in statement_lines(event.sql)]

        text = TransactionText(stretch.file, None if self._only_rows else statement)

        def made() -> Iterator[memoryview]:
            out.skip = yield from written(
                stretch, lambda piece, _: [_fit(each) for each in text.lines(piece)]
            )

        for data in made():
            self._shown = self._shown or _SOME
            out.bytes(data)

    def _step(self, step: Step, reader: Reader) -> None:
        event = step.event
        if event.file != self._file:
            self._heading(event, reader.format)
        self._group = step.group
        if self._hexdump and (step.schema is not None or not self._only_rows):
            self._dump(event)
        if isinstance(event, XaPrepareEvent) and not event.one_phase and self._shows_group():
            self._note(f"XA PREPARE {event.xid}: committed or rolled back later")
        elif isinstance(event, RowsEvent):
            self._rows(step, event)
        elif not self._only_rows:
            self._other(event)
        if step.kind is TransactionKind.ROLLBACK and self._shows_group():
            self._note("rolled back", "alarm")

    def _heading(self, event: Event, format_: FormatDescription) -> None:
        self._file = event.file
        text = f"-- {event.file}: {format_.flavour} {format_.server_version}"
        if isinstance(event, FormatDescriptionEvent):
            text += f", created {time_text(event.timestamp * 1_000_000)}"
        self._out.line((text, "file"))

    def _dump(self, event: Event) -> None:
        """An event's bytes: its header on one line, then sixteen bytes per line."""
        if self._group is not None:
            self._transaction()
        raw = event.encode()
        start, where = event.offset or 0, ""
        if event.inner_index is not None:
            start, where = 0, f", event {event.inner_index} in the payload, inflated"
        text = f"# at {event.offset}: {event.name}, {len(raw):,} bytes{where}"
        self._out.line((text, "quiet"))
        pieces = [(raw[a:b].hex(" ")) for a, b in pairwise((0, 4, 5, 9, 13, 17, HEADER_SIZE))]
        self._out.line((f"# {start:08x} {'   '.join(pieces)}", "quiet"))
        for at in range(HEADER_SIZE, len(raw), 16):
            line = raw[at : at + 16]
            shown = "".join(chr(each) if 32 <= each < 127 else "." for each in line)
            octets = f"{line[:8].hex(' ')}  {line[8:].hex(' ')}"
            self._out.line((f"# {start + at:08x} {octets:<48} |{shown}|", "quiet"))

    def _transaction(self) -> None:
        """Write a transaction's first line, before the first part of it that is shown."""
        group = self._group
        if group is None or group is self._shown:
            return
        self._shown = group
        time = group.began * 1_000_000 if group.time is None else group.time
        self._out.line(
            (str(group.start), "place"),
            ("  ", ""),
            (group.gtid or "no GTID", "gtid" if group.gtid else "quiet"),
            ("  ", ""),
            (time_text(time), "time"),
        )

    def _rows(self, step: Step, event: RowsEvent) -> None:
        if step.schema is None:
            return
        self._transaction()
        for row in RowSet(event, step.schema):
            self._out.line(*row_pieces(row, step.schema))

    def _other(self, event: Event) -> None:
        match event:
            case QueryEvent():
                if event.sql_bytes not in BEGIN_AND_COMMIT:
                    self._statement(event.sql, event.database)
            case RowsQueryEvent() | AnnotateRowsEvent():
                self._transaction()
                for line in statement_lines(event.sql):
                    self._out.line((f"  --{line[1:]}", "quiet"))
            case IntVarEvent():
                self._note(f"set {event.kind.name.lower()} = {event.value}")
            case RandEvent():
                self._note(f"set rand_seed = {event.seed1}, {event.seed2}")
            case UserVarEvent():
                self._note(f"set @{event.variable} = " + str(event.value))
            case IncidentEvent():
                self._note(f"incident: {event.message}", "alarm")
            case RotateEvent():
                self._out.line((f"-- continues in {event.next_file}", "quiet"))
            case StopEvent():
                self._out.line(("-- the server was shut down", "quiet"))
            case UnreadableRowsEvent():
                self._note(f"{event.name}: rows in events of this type cannot be decoded", "alarm")

    def _statement(self, sql: str, database: str) -> None:
        self._transaction()
        first, *more = statement_lines(sql)
        where = (f"  {database}:", "quiet") if database else ("", "")
        self._out.line(where, (first if not database else first[1:], ""))
        for line in more:
            self._out.line((line, ""))

    def _note(self, text: str, role: str = "quiet") -> None:
        self._transaction()
        self._out.line((f"  {text}", role))

    def _shows_group(self) -> bool:
        return self._group is not None and self._shown is self._group
