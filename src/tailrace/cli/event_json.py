"""Events as lines of JSON, with all their fields: ``tailrace log --as json --events``."""

from __future__ import annotations

import base64
import json
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from typing import TYPE_CHECKING, Any

from tailrace.events import RowsEvent, TableMapEvent

if TYPE_CHECKING:
    from tailrace.events import Event


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
    return f"{table_map.database}.{table_map.table}"


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
