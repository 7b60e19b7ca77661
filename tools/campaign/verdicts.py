"""Broken logs read by the object path and by the column path: one verdict.

A verdict is, for a whole log read through, either the rows that it gives, in the log's order, or
the class of the error that ends it and where that stands; of several errors it is the first in the
log, also inside a payload. What was given before an error is no part of it, but that the column
path gives each row once. The object path is `tailrace.log.Changes`, each event decoded in full as
it is read, each row as it is given; the column path is `tailrace.columns.changes`.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import zstandard

from tailrace.columns import changes
from tailrace.columns.objects import arrow_value
from tailrace.columns.types import plan_of
from tailrace.errors import LogError, TailraceError
from tailrace.events import QueryEvent, RowsEvent
from tailrace.events.payload import TransactionPayloadEvent
from tailrace.events.table_map import TableMapEvent
from tailrace.log import Log
from tailrace.log.changes import MOST_HELD, Changes
from tailrace.log.reader import Reader
from tailrace.log_name import file_number
from tailrace.schema.classify import classify
from tailrace.storage import LogFile, LogSeries
from tailrace.storage.memory import MemoryFolder
from tailrace.values.image import ABSENT
from tools.campaign.mutate import AIMED, flip_sealed
from tools.campaign.process import ROOT
from tools.campaign.report import Tries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal
    from pathlib import Path

    from tailrace.log.changes import Change
    from tailrace.storage.keyring import Keyring
    from tailrace.values.schema import TableSchema

_CORPUS: Final = ROOT / "tests" / "corpus"
_LARGEST: Final = 6000
"""Bytes of a small log, at most."""
_SAYS_EVERY: Final = 5000


def series_of(*contents: bytes, keyring: Keyring | None = None) -> LogSeries:
    """A series of files with these contents, from ``binlog.000001`` on; the keyring is for those
    that are encrypted.
    """
    store = MemoryFolder("verdicts")
    store.files = {f"binlog.{n:06}": bytearray(data) for n, data in enumerate(contents, 1)}
    files = (LogFile(store, name, len(data), keyring=keyring) for name, data in store.files.items())
    return LogSeries("binlog", tuple(files))


@dataclass(frozen=True)
class Verdict:
    """Of a log: its rows as text, or the error's class and the offset that it names."""

    rows: tuple[str, ...] = ()
    error: str | None = None
    offset: int | None = None
    message: str = ""

    def differs(self, other: Verdict) -> str | None:
        """In what two verdicts differ; None where they are the same."""
        if self.error != other.error:
            return f"{self.error or 'accepted'} / {other.error or 'accepted'}"
        if self.error is not None:
            both = self.offset is not None and other.offset is not None
            return f"{self.error} elsewhere" if both and self.offset != other.offset else None
        return None if self.rows == other.rows else "rows"


def failed(error: TailraceError) -> Verdict:
    """The verdict of an error."""
    offset = error.offset if isinstance(error, LogError) else None
    return Verdict(error=type(error).__name__, offset=offset, message=str(error))


def by_objects(log: LogSeries, *, verify: bool, most_held: int = MOST_HELD) -> Verdict:
    """The object path's verdict; of a transaction it holds so many bytes and reads ahead then."""
    rows: list[str] = []
    try:
        reader = Reader(log, verify_checksums=verify)
        found = Changes(reader, statements="skip", most_held=most_held)
        for step in reader:
            step.event.check_fields()  # the events of a payload are steps of their own
            for change in found.feed(step):
                rows += _rows(change)
        found.finish()
    except TailraceError as error:
        return failed(error)
    return Verdict(tuple(rows))


@cache
def _plans(schema: TableSchema) -> list[Any]:
    return [plan_of(column) for column in schema.columns]


def _rows(change: Change) -> Iterator[str]:
    event, schema = change.event, change.schema
    plans = None
    number = file_number(event.file or "") or 0
    offset = event.offset or 0
    for row in change.rows():
        plans = plans or _plans(schema)
        raw: list[tuple[str, str]] = []
        images: list[dict[str, Any] | None] = []
        for which, image in (("before", row.before), ("after", row.after)):
            if image is None:
                images.append(None)
                continue
            values = {}
            for column, plan, value in zip(schema.columns, plans, image.as_tuple(), strict=True):
                odd = None
                if value is None or value is ABSENT:
                    shown = None
                else:
                    shown, odd = arrow_value(value, plan)
                if odd is not None:
                    raw.append((f"{which}.{column.name}", odd))
                values[column.name] = _plain(shown, plan)
            images.append(values)
        seq = (number << 92) | (offset << 48) | (change.first + row.number)
        kind = (row.kind, schema.database, schema.table, change.group.time_of(event))
        place = (change.group.gtid, event.file, offset, seq, event.header.server_id)
        yield repr((*kind, *place, _present(event), raw or None, *images))


def _present(event: RowsEvent) -> dict[str, bytes] | None:
    """Which columns the images have; None where they have all. All ones, also past the last one, of
    an image that has all.
    """
    found = {}
    for which, bits in (("before", event.present_before), ("after", event.present_after)):
        size, every = (event.width + 7) // 8, (1 << event.width) - 1
        whole = bits is not None and int.from_bytes(bits, "little") & every == every
        found[which] = b"\xff" * size if whole else bits
    if all(bits is None or bits == b"\xff" * size for bits in found.values()):
        return None
    return {which: bytes(size) if bits is None else bits for which, bits in found.items()}


def _plain(value: Any, plan: Any) -> Any:
    """As `pyarrow.Scalar.as_py` gives it, of a type that holds a number as one."""
    if value is None:
        return None
    arrow = plan.type
    if pa.types.is_float32(arrow) or pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return pa.array([value], arrow)[0].as_py()
    if pa.types.is_decimal(arrow):
        return pa.array([value], arrow)[0].as_py()
    return value


def _shown(column: Any) -> list[Any]:
    """A column's values, dates and times as numbers."""
    kind = column.type
    if pa.types.is_date32(kind):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(kind):
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def by_columns(log: LogSeries, *, verify: bool) -> Verdict:
    """The column path's verdict."""
    rows: list[tuple[Decimal, str]] = []
    try:
        for batch in changes(log, verify_checksums=verify, statements="skip"):
            batch.validate(full=True)
            rows += batch_rows(batch)
    except TailraceError as error:
        found = failed(error)
    else:
        found = Verdict(tuple(text for _, text in sorted(rows)))
    once = len({seq for seq, _ in rows}) == len(rows)
    return found if once else replace(found, error="RowsGivenTwice")


def batch_rows(batch: Any) -> Iterator[tuple[Decimal, str]]:
    """The rows of a batch as text, with what they are in order by."""
    names = ("_op", "_db", "_table", "_ts", "_gtid", "_file", "_pos", "_seq", "_server_id")
    columns = [_shown(batch.column(name)) for name in (*names, "_present", "_raw")]
    images = []
    for name in ("before", "after"):
        image = batch.column(name)
        fields = [each.name for each in image.type]
        parts = [_shown(image.field(index)) for index in range(len(fields))]
        values = [dict(zip(fields, row, strict=True)) for row in zip(*parts, strict=True)]
        if not parts:
            values = [{} for _ in range(len(image))]
        valid = image.is_valid().to_pylist()
        images.append([each if ok else None for each, ok in zip(values, valid, strict=True)])
    for *start, seq, server, present, raw, before, after in zip(*columns, *images, strict=True):
        kept = None if raw is None else [tuple(each) for each in raw]
        yield seq, repr((*start, int(seq), server, present, kept, before, after))


@cache
def bases() -> list[tuple[str, bytes]]:
    """Small sound logs, cut from the corpus: one for each set of event types, of column types, and
    of statements that was not among those before.
    """
    found = []
    seen: set[Any] = set()
    for path in sorted(_CORPUS.glob("*/*.0*")):
        if path.read_bytes()[:4] == b"\xfebin" and "encrypted" not in path.parent.name:
            found += list(_cut(path, seen))
    return found


def _cut(path: Path, seen: set[Any]) -> Iterator[tuple[str, bytes]]:
    raw = path.read_bytes()
    try:
        with Log(LogSeries("binlog", (LogFile.at(path),)), expand_payloads=False) as log:
            events = list(log)
            groups = list(log.transactions())
    except TailraceError:
        return
    head = []
    for event in events:
        if event.type not in {15, 35, 163, 161, 4}:
            break
        head.append(event)
    defined: dict[str, bytes] = {}
    for index, group in enumerate(groups):
        new = _marks(group.all_events()) - seen
        text = b"".join(_bytes(raw, event) for event in group.events)
        for event in group.all_events():
            if isinstance(event, QueryEvent) and classify(event.sql).changes_schema:
                defined[event.sql.split("(")[0].strip().rpartition(" ")[2].strip("`")] = text
        if not new:
            continue
        pieces = [_bytes(raw, event) for event in head]
        tables = {event.table for event in group.all_events() if isinstance(event, TableMapEvent)}
        pieces += [sql for table, sql in defined.items() if table in tables]
        pieces.append(text)
        for after in groups[index + 1 : index + 3]:
            pieces.append(b"".join(_bytes(raw, event) for event in after.events))
            if sum(map(len, pieces)) > _LARGEST // 3:
                break
        data = b"\xfebin" + b"".join(pieces)
        if len(data) > _LARGEST:
            continue
        seen |= new
        yield f"{path.parent.name}:{group.events[0].offset}", data


def _bytes(raw: bytes, event: Any) -> bytes:
    return raw[event.offset : event.offset + event.header.length]


def _marks(events: Iterator[Any]) -> set[Any]:
    """What a transaction has that a campaign is to see."""
    found: set[Any] = set()
    for event in events:
        mysql = event.form.flavour
        found.add((event.type, event.checksum is None, mysql, event.inner_index is None))
        if isinstance(event, RowsEvent) and not event.is_dummy:
            for column in event.table_map.columns:
                named, inner = column.name is None, event.inner_index is not None
                found.add((column.type, column.metadata, event.kind, mysql, named, inner))
            bits = (event.present_before, event.present_after)
            full = all(each is None or each.strip(b"\xff") == b"" for each in bits)
            found.add((event.type, full, mysql, event.inner_index is None))
        elif isinstance(event, QueryEvent):
            words = " ".join(event.sql.split()[:2]).upper()
            found.add((words, mysql, event.inner_index is None))
            found.add((event.type, tuple(event.status_variables.values), mysql))
        elif isinstance(event, TransactionPayloadEvent):
            found.add((event.type, event.compression, mysql))
    return found


@dataclass
class VerdictsReport(Tries):
    """What a comparison came to: how many logs, and those that differ."""

    def compared(self, objects: Verdict, kind: str | None, text: str) -> None:
        """Count a log by the object path's verdict; with ``kind``, as a difference of that kind."""
        self.tried += 1
        self.outcomes[objects.error or "accepted"] += 1
        if kind is not None:
            self.outcomes[f"DIFFERENT: {kind}"] += 1
            self.failures.append(text)
            print(f"DIFFERENT {text}", flush=True)
        if self.tried % _SAYS_EVERY == 0:
            print(self.line(), flush=True)


def broken(seed: int, number: int) -> tuple[str, bytes, bool]:
    """The broken log of a number: what was done, its bytes, whether checksums are verified."""
    rng = random.Random(f"verdicts/{seed}/{number}")
    sound = bases()
    name, data = rng.choice(sound)
    _, other = rng.choice(sound)
    mutation = rng.choice(AIMED)
    verify = rng.random() < 0.5
    try:
        changed = mutation(rng, data, other)
    except (ValueError, IndexError, zstandard.ZstdError, zlib.error):  # nothing of the kind is left
        changed = flip_sealed(rng, data, other)
    return f"{mutation.__name__} {name}", changed, verify


def compare(seed: int, number: int) -> tuple[Verdict, Verdict, str]:
    """Both verdicts, the object path's first, and what the log is."""
    what, data, verify = broken(seed, number)
    log = series_of(data)
    return by_objects(log, verify=verify), by_columns(log, verify=verify), what


def run(seed: int, count: int, *, first: int = 0) -> VerdictsReport:
    """Compare so many broken logs from ``first`` on."""
    report = VerdictsReport("broken logs")
    for number in range(first, first + count):
        objects, columns, what = compare(seed, number)
        difference = objects.differs(columns)
        text = (
            f"{number} (seed {seed}) {what}: {difference}\n"
            f"    objects: {objects.message or len(objects.rows)}\n"
            f"    columns: {columns.message or len(columns.rows)}"
        )
        report.compared(objects, difference, text)
    return report
