"""A log with a table that cannot be decoded."""

from __future__ import annotations

import shutil
import zlib
from collections import Counter
from pathlib import Path

import tailrace
from tailrace.events import RowsEvent

SHOP = Path(__file__).parents[2] / "examples" / "shop" / "mariadb"
BAD = "warehouse.stock"
_ROWS = 19 + 8 + 1 + 1
"""Where the bitmaps of a rows event of version 1 and of a table of up to eight columns end."""


def damaged(folder):
    """The examples' logs in which the rows of one table (also compressed ones) are garbage."""
    shutil.copytree(SHOP, folder)
    content = {}
    for event in tailrace.open(folder):
        if isinstance(event, RowsEvent) and event.table_map.table == "stock":
            data = content.setdefault(event.file, bytearray((folder / event.file).read_bytes()))
            start, end = event.offset + _ROWS, event.offset + event.header.length - 4
            start += event.name.startswith("UPDATE")
            data[start:end] = b"\x00".ljust(end - start, b"\xff")
            data[end : end + 4] = zlib.crc32(data[event.offset : end]).to_bytes(4, "little")
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return folder


def counted(batches):
    """Rows by table."""
    found = Counter()
    for batch in batches:
        found[f"{batch['_db'][0]}.{batch['_table'][0]}"] += batch.num_rows
    return found


def sound():
    """The rows of the other tables, counted in the log before it was damaged."""
    found = counted(tailrace.changes(SHOP))
    del found[BAD]
    assert len(found) == 3
    return found
