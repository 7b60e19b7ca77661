"""``tailrace log --as json``: change records, or events with all their fields, a line each."""

from __future__ import annotations

import base64
import json
from collections import deque
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from typing import TYPE_CHECKING, Any, Literal

from tailrace.cli.sources import say_what_was_left
from tailrace.columns.text.readers import parts, written
from tailrace.events import RowsEvent, TableMapEvent
from tailrace.log.changes import Changes
from tailrace.log.reader import Step
from tailrace.printable import printable_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tailrace.columns.text.lines import Lines
    from tailrace.columns.text.stretches import DecodedRows
    from tailrace.events import Event
    from tailrace.log.changes import Change
    from tailrace.log.reader import Reader
    from tailrace.values.schema import TableSchema


def json_lines(
    reader: Reader, statements: Literal["error", "skip"]
) -> Iterator[str | Iterator[str] | memoryview]:
    """The records of a reader's changes: lines, some in pieces, or many together as bytes."""
    changes = Changes(reader, statements=statements)
    done = 0  # lines of the next changes that are already written
    for part in parts(reader):
        if not isinstance(part, Step):
            done = yield from written(part, _lines)
            continue
        for record in _records(changes.feed(part)):
            if done:
                done -= 1
                deque(() if isinstance(record, str) else record, maxlen=0)
            else:
                yield _printable(record)
        del part
    yield from map(_printable, _records(changes.finish()))
    say_what_was_left(changes)


def _records(changes: Iterator[Change]) -> Iterator[str | Iterator[str]]:
    for change in changes:
        yield from change.json_records()
        del change  # before the next event is read: it may be large


def _printable(record: str | Iterator[str]) -> str | Iterator[str]:
    return printable_json(record) if isinstance(record, str) else map(printable_json, record)


def _lines(piece: DecodedRows, file: str) -> list[Lines]:
    from tailrace.columns.text.record_json import record_lines  # noqa: PLC0415 - it needs pyarrow

    def made(schema: TableSchema, batch: pa.RecordBatch) -> Lines:
        return record_lines(batch, schema, file, piece.start).printable(printable_json)

    return [made(schema, batch) for schema, batch in piece.batches()]


def event_json(event: Event) -> str:
    """One event as JSON: name, type, position, header and decoded fields. Bytes are base64.

    ``_pos`` and ``_end`` are offsets in the file. For an event inside a transaction payload they
    are the payload's, and ``_inner`` is its number in the payload. Raises LogError if a field
    cannot be decoded.
    """
    record: dict[str, Any] = {
        "event": event.name,
        "type": event.type,
        "_file": event.file,
        "_pos": event.offset,
        "_end": event.end_offset,
    }
    if event.inner_index is not None:
        record["_inner"] = event.inner_index
    record |= {
        "timestamp": event.timestamp,
        "server_id": event.header.server_id,
        "flags": event.header.flags,
        "length": event.header.length,
        "log_pos": event.header.log_pos,
    }
    if isinstance(event, RowsEvent) and not event.is_dummy:
        record["table"] = _name(event.table_map)
    record["fields"] = plain(event.fields())
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _name(table_map: TableMapEvent) -> str:
    return str(table_map.full_name)


def plain(value: Any) -> Any:
    """A value converted to JSON types: numbers, text, lists, objects."""
    if isinstance(value, Enum):
        return value.value if isinstance(value, Flag) else value.name
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # not a number, or infinite
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [plain(each) for each in value]
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)
