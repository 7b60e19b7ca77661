"""Table maps and rows events made by hand: as much of them as row decoding looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.events.column_metadata import ColumnSpec

if TYPE_CHECKING:
    from tailrace.constants import ColumnType


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


@dataclass
class Rows:
    kind: str
    present_before: bytes | None
    present_after: bytes | None
    row_data: bytes
    partial: bool = False
    file: str | None = "binlog.000001"
    offset: int | None = 400
    name: str = "ROWS"

    def rows_in(self) -> tuple[bytes, int]:
        return self.row_data, 0
