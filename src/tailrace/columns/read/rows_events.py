"""Rows events that are objects already, by the row kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailrace.columns.frames import plan as k
from tailrace.log_name import file_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from tailrace.columns.read.table import TableDecoder
    from tailrace.events import RowsEvent

_OPERATIONS = {"insert": 0, "update": 1, "delete": 2}


def batches_of(
    table: TableDecoder, events: Sequence[tuple[RowsEvent, int]], file: str
) -> Iterator[pa.RecordBatch]:
    """The change records of rows events of one table and one file, each with the number of its
    first row in ``_seq``. They have no GTID, and the second of their event as ``_ts``.

    Raises what `TableDecoder.decode` does.
    """
    parts: list[bytes] = []
    size = 0

    def place(data: bytes | memoryview) -> int:
        nonlocal size
        parts.append(bytes(data))
        size += len(data)
        return size - len(data)

    entries = np.zeros((len(events), k.ENTRY_WORDS), np.int64)
    seen = rows_size = 0
    places = [k.E_ROWS, k.E_END]
    for number, (event, first) in enumerate(events):
        data, at = event.rows_in()
        rows = memoryview(data)[at:]
        entry = entries[number]
        operation = _OPERATIONS[event.kind]
        seen |= 1 << operation
        entry[k.E_ROWS] = place(rows)
        entry[k.E_END] = size
        rows_size += len(rows)
        images = [
            (word, bits)
            for word, bits in ((k.E_BEFORE, event.present_before), (k.E_AFTER, event.present_after))
            if bits is not None and not _is_full(bits, event.width)
        ]
        if images:
            seen |= 8
            if not rows and not any(int.from_bytes(bits, "little") for _, bits in images):
                operation |= k.BARE
        if event.partial:
            operation |= k.DIFFS
            seen |= 16
        for word, bits in images:
            entry[word] = place(bits) + 1  # 0 says that the image is full
        header = event.header
        entry[k.E_OP] = operation
        entry[k.E_POSITION] = event.offset or 0
        entry[k.E_ROW] = first
        entry[k.E_STAMP] = header.server_id << 32 | header.timestamp
        entry[k.E_NEXT] = number + 1
    entries[-1, k.E_NEXT] = -1
    memory = np.frombuffer(b"".join(parts) + bytes(k.PADDING), np.uint8)
    start = memory.ctypes.data
    entries[:, places] += start
    for word in (k.E_BEFORE, k.E_AFTER):
        given = entries[:, word] > 0
        entries[given, word] += start - 1
    transactions = np.zeros((1, k.TRANSACTION_WORDS), np.int64)
    transactions[0, k.T_STAMP] = -1
    for written in table.decode(
        entries, 0, rows_size, seen, transactions, file, file_number(file) or 0
    ):
        yield written.finish()


def _is_full(bits: bytes, width: int) -> bool:
    return int.from_bytes(bits, "little") & (1 << width) - 1 == (1 << width) - 1
