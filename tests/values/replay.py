"""Read a corpus case on the object path, and say of each row what SELECT would print."""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import tailrace.log
from tailrace.constants import ColumnType, Flavour
from tailrace.events import RowsEvent
from tailrace.storage import LogSeries, find
from tailrace.storage.file import LogFile
from tailrace.values.row import Row, RowSet
from tests.recorded import folders
from tools.campaign.recording import rows_events
from tools.expected import load_expected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.values.schema import Column, TableSchema
    from tools.servers import Server


class Case(NamedTuple):
    """A corpus folder and what it is expected to hold."""

    folder: Path
    expected: dict[str, Any]

    @property
    def flavour(self) -> Flavour:
        return Flavour.MARIADB if "MariaDB" in self.expected["server"] else Flavour.MYSQL


def cases() -> list[Case]:
    """All cases that can be read as they are."""
    found = []
    for folder in folders():
        expected = load_expected(folder)
        if not expected.get("encrypted") and not expected.get("incident"):
            found.append(Case(folder, expected))
    return found


def changes(log: Path) -> Iterator[tuple[TableSchema, Row]]:
    """Every row of every rows event, with the schema that all that is known gives."""
    for series in find(log):
        for schema, event in rows_events(series):
            for row in RowSet(event, schema):
                yield schema, row


def since(server: Server, before: str) -> LogSeries:
    """The logs that a server wrote after this file; the last of them ends here."""
    last = server.rotate().name
    paths = [path for path in server.binlogs() if before < path.name <= last]
    return LogSeries("since", tuple(LogFile.at(path) for path in paths))


def logged_json(log: Path) -> dict[int, bytes | None]:
    """The last logged JSON of each id, in a log of a table (id INT, j JSON)."""
    return {
        row.values[0]: row.after.raw(1)
        for event in tailrace.log.open(log)
        if isinstance(event, RowsEvent)
        for row in RowSet(event, event.table_map)
    }


def same(column: Column, value: Any, selected: str | None, binary: bool) -> bool:
    """Is the decoded value what SELECT printed (in base64 where ``binary``)?"""
    if value is None or selected is None:
        return value is None and selected is None
    if column.type is ColumnType.FLOAT:  # SELECT shows 6 digits of it
        return f"{value:.6g}" == f"{float(selected):.6g}"
    if column.type is ColumnType.DOUBLE:
        return value == float(selected)
    return as_selected(column, value, binary) == selected


def as_selected(column: Column, value: Any, binary: bool) -> str:
    if column.type is ColumnType.YEAR:
        return f"{value:04}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if column.type is ColumnType.BIT:
        value = value.to_bytes((column.metadata + 7) // 8, "big")
    if isinstance(value, tuple):
        value = struct.pack(f"<{len(value)}f", *value)
    if binary:
        raw = value if isinstance(value, bytes) else str(value).encode()
        return base64.b64encode(raw).decode()
    return str(value)
