"""Hypothesis strategies for logs of random tables: bytes as a server would write them.

Layouts: facts sheet section 2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import zstandard
from hypothesis import strategies as st

from tailrace.constants import MAGIC, EventType, Flavour
from tailrace.events import ColumnSpec, TableMapEvent
from tests.columns.random_columns import COLUMNS, MadeColumn, lenenc
from tests.events.fields import CHARACTER, NUMERIC
from tests.events.made import query_body, raw_event, raw_format

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = CHARACTER[Flavour.MYSQL]


@dataclass(frozen=True)
class MadeTable:
    """A table; `table_map` gives its event's body under a table id."""

    name: str
    columns: tuple[MadeColumn, ...]
    named: bool

    def table_map(self, table_id: int) -> bytes:
        specs = tuple(
            ColumnSpec(
                column.code,
                column.metadata,
                column.nullable,
                column.unsigned if column.code in NUMERIC else None,
                column.collation
                if column.code in TEXTS or (self.named and column.members)
                else None,
                f"column {index}" if self.named else None,
                column.members if self.named else None,
            )
            for index, column in enumerate(self.columns)
        )
        return TableMapEvent.make(
            table_id=table_id,
            flags=1,
            database="shop",
            table=self.name,
            columns=specs,
            primary_key=(0,) if self.named else None,
        ).body


@st.composite
def tables(draw: Any, name: str) -> MadeTable:
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=draw(st.sampled_from([3, 10, 20]))))
    return MadeTable(name, tuple(columns), named=draw(st.booleans()))


def image(draw: Any, columns: list[MadeColumn]) -> bytes:
    """A row image of these columns: a bit each for NULL, and values."""
    nulls, data = 0, b""
    for index, column in enumerate(columns):
        if draw(st.integers(0, 5)) == 0:
            nulls |= 1 << index
        else:
            data += draw(column.values)
    return nulls.to_bytes((len(columns) + 7) // 8, "little") + data


def rows_body(draw: Any, table: MadeTable, table_id: int, kind: int, *, last: bool) -> bytes:
    """A rows event's body (V2), with full images or others."""
    count = len(table.columns)
    bitmap = (count + 7) // 8
    full = (1 << count) - 1
    shown = []
    for _ in range(2 if kind == EventType.UPDATE_ROWS else 1):
        partial = draw(st.integers(0, 3)) == 0
        shown.append(draw(st.integers(1, full)) if partial else full)
    body = table_id.to_bytes(6, "little") + bytes([last, 0, 2, 0]) + lenenc(count)
    body += b"".join(bits.to_bytes(bitmap, "little") for bits in shown)
    for _ in range(draw(st.integers(1, 6))):
        for mask in shown:
            present = [c for i, c in enumerate(table.columns) if mask >> i & 1]
            body += image(draw, present)
    return body


@st.composite
def logs(draw: Any) -> bytes:
    """A log of some transactions on some tables, plain or compressed, with checksums or without."""
    checksum = draw(st.booleans())
    every = [draw(tables(name=f"t{number}")) for number in range(draw(st.integers(1, 3)))]
    data = MAGIC + raw_format(algorithm=int(checksum))
    event = partial(raw_event, checksum=checksum)
    for number in range(draw(st.integers(1, 4))):
        data += event(EventType.GTID, gtid(number + 1), timestamp=1_700_000_000 + number)
        compressed = draw(st.integers(0, 3)) == 0
        inner: Callable[..., bytes] = raw_event if compressed else event
        body = inner(EventType.QUERY, query_body(b"BEGIN"))
        for _ in range(draw(st.integers(1, 3))):
            body += statement(draw, every, inner)
        body += inner(EventType.XID, struct.pack("<Q", number))
        data += event(EventType.TRANSACTION_PAYLOAD, payload(body)) if compressed else body
    return data


def statement(draw: Any, every: list[MadeTable], event: Callable[..., bytes]) -> bytes:
    """Table maps and rows events, of one table or two."""
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, max_size=2, unique=True))
    ids = {table: 70 + draw(st.integers(0, 3)) * 10 + number for number, table in enumerate(chosen)}
    data = b"".join(
        event(EventType.TABLE_MAP, table.table_map(table_id)) for table, table_id in ids.items()
    )
    steps = [draw(st.sampled_from(chosen)) for _ in range(draw(st.integers(1, 3)))]
    kinds = st.sampled_from([EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS])
    for number, table in enumerate(steps):
        last = number == len(steps) - 1
        kind = draw(kinds)
        data += event(kind, rows_body(draw, table, ids[table], kind, last=last))
    return data


def gtid(number: int) -> bytes:
    """GTID_LOG_EVENT's body, with a commit time."""
    stamps = (1_700_000_000_000_000 + number).to_bytes(7, "little")
    return b"\1" + bytes(range(16)) + struct.pack("<qBqq", number, 2, number - 1, number) + stamps


def payload(events: bytes) -> bytes:
    """TRANSACTION_PAYLOAD_EVENT's body."""
    packed = zstandard.ZstdCompressor().compress(events)
    fields = b"\2\1\0\3\x09\xfe" + struct.pack("<Q", len(events))
    return fields + b"\1\x09\xfe" + struct.pack("<Q", len(packed)) + b"\0" + packed
