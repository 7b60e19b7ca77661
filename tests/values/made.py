"""Table maps and rows events made by hand: as much of them as row decoding looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.events import (
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)
from tailrace.events.column_metadata import ColumnSpec
from tailrace.values.row import RowSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.constants import ColumnType
    from tailrace.events import RowsEvent
    from tailrace.values.encode import RowGroup
    from tailrace.values.row import Row
    from tailrace.values.schema import TableSchema


def spec(kind: ColumnType, metadata: int = 0, **facts) -> ColumnSpec:
    values = dict.fromkeys(
        ("unsigned", "collation", "name", "members", "geometry_type", "visible", "dimensions")
    )
    return ColumnSpec(kind, metadata, **({"nullable": True} | values | facts))


@dataclass
class TableMap:
    columns: tuple[ColumnSpec, ...]
    primary_key: tuple[int, ...] | None = None
    database: str = "shop"
    table: str = "orders"
    primary_key_prefixes: tuple[int, ...] | None = None


KINDS = {"insert": WriteRowsEvent, "update": UpdateRowsEvent, "delete": DeleteRowsEvent}
TYPES = {"insert": 30, "update": 31, "delete": 32}


def rows_event(
    kind: str,
    present_before: bytes | None,
    present_after: bytes | None,
    row_data: bytes,
    *,
    partial: bool = False,
) -> RowsEvent:
    """A rows event of table 7 at offset 400, with these bitmaps and images."""
    bitmap = present_before if present_after is None else present_after
    event = (PartialUpdateRowsEvent if partial else KINDS[kind]).make(
        type=39 if partial else TYPES[kind],
        table_map=None,
        table_id=7,
        width=8 * len(bitmap or b""),
        present_before=present_before,
        present_after=present_after,
        row_data=row_data,
    )
    event.file, event.offset = "binlog.000001", 400
    return event


def decoded(groups: Iterable[RowGroup], schema: TableSchema) -> list[Row]:
    """The rows that a reader finds in events made of the groups."""
    return [
        row
        for group in groups
        for row in RowSet(
            rows_event(
                group.kind, group.present_before, group.present_after, b"".join(group.images)
            ),
            schema,
        )
    ]
