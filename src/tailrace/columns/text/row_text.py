"""A stretch of transactions as lines for people (`tailrace.cli.log.text`)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.columns.arrays import strings
from tailrace.columns.frames import plan as k
from tailrace.columns.frames import text as f
from tailrace.columns.native import kernel
from tailrace.columns.text.lines import Lines
from tailrace.columns.text.row_json import check_raw, images_of
from tailrace.columns.text_output import write
from tailrace.constants import EventType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.columns.text.stretches import DecodedRows
    from tailrace.values.schema import TableSchema

Array = np.ndarray[Any, Any]

_LINE: Final = 100
_STATEMENTS: Final = (EventType.ROWS_QUERY, EventType.ANNOTATE_ROWS)


def row_lines(batch: pa.RecordBatch, schema: TableSchema, start: int) -> Lines:
    """A batch's rows; ``start`` is that of `Lines.of_rows`. Raises EventDecodeError."""
    check_raw(batch, schema)
    frame = np.zeros(f.RECORD_WORDS, np.int64)
    texts = [f"  {op} {schema.full_name} ".encode() for op in ("insert", "update", "delete")]
    held = [np.frombuffer(text + bytes(8), np.uint8) for text in texts]
    heads = np.array(
        [(each.ctypes.data, len(text)) for each, text in zip(held, texts, strict=True)], np.int64
    )
    frame[f.R_HEADS] = heads.ctypes.data
    operations = batch.column("_op").indices
    frame[f.R_OP] = operations.buffers()[1].address + operations.offset
    if any(pa.types.is_binary(each.type) for each in batch.schema.field("after").type):
        frame[f.R_TIES] = _ties().ctypes.data
    key = np.array(schema.primary_key, np.int64)
    if len(key):
        frame[f.R_KEY : f.R_KEY + 2] = key.ctypes.data, len(key)
    images = images_of(batch, schema, frame, lambda column: column.name)
    expected = _LINE * len(batch) + sum(each.expected for each in images)
    texts = write(kernel("row_text"), frame, batch.column("_pos"), expected, "rows")
    return Lines.of_rows(texts, batch, start)


@functools.cache
def _ties() -> Array:
    """For tenths from 0.0 on: whether the midpoint to the next tenth is printed as the next one."""
    up = [float(f"{(100 * each + 50) / 1000:.1f}") > each / 10 + 0.05 for each in range(f.TIES)]
    return np.array(up, np.uint8)


class TransactionText:
    """Makes the lines of one stretch, piece by piece.

    ``statement`` gives the lines of an event that holds a statement's text; None: no such lines.
    """

    def __init__(self, file: str, statement: Callable[[bytes, int], list[str]] | None) -> None:
        self._file = file
        self._statement = statement
        self._headed = False

    def lines(self, piece: DecodedRows) -> list[Lines]:
        """The lines of a piece, each list in order. Raises LogError."""
        transactions = piece.transactions.copy()
        entries = piece.entries
        live = (entries[:, k.E_ROWS] < entries[:, k.E_END]) | (entries[:, k.E_OP] & k.BARE > 0)
        shown = np.zeros(len(transactions), np.bool_)
        shown[entries[live, k.E_TRANSACTION]] = True
        found: list[Lines] = []
        if self._statement is not None:
            found += self._statements(piece, transactions, shown)
        going_on = bool(shown[0])
        shown[0] &= not self._headed
        if len(shown) > 1:
            self._headed = bool(shown[-1])
        else:
            self._headed |= going_on
        if shown.any():
            found.append(self._headings(transactions, shown, piece.start))
        found += [row_lines(batch, schema, piece.start) for schema, batch in piece.batches()]
        return found

    def _headings(self, transactions: Array, shown: Array, start: int) -> Lines:
        name = np.frombuffer(self._file.encode() + bytes(8), np.uint8)
        frame = np.zeros(f.H_WORDS, np.int64)
        frame[f.H_ENTRIES] = transactions.ctypes.data
        frame[f.H_FILE : f.H_FILE + 2] = name.ctypes.data, len(name) - 8
        valid = pa.py_buffer(np.packbits(shown, bitorder="little"))
        count = len(shown)
        rows = pa.Array.from_buffers(pa.int8(), count, [valid, pa.py_buffer(bytes(count))])
        texts = write(kernel("transaction_lines"), frame, rows, _LINE * count, "transactions")
        keys = np.maximum(transactions[shown, k.T_START] - start, 0) << 32
        return Lines.of(texts, keys, shown)

    def _statements(self, piece: DecodedRows, transactions: Array, shown: Array) -> list[Lines]:
        """The statements' lines, and which transactions have any."""
        events = piece.events()
        events = events[np.isin(events[:, 1], _STATEMENTS)]
        if len(events) == 0 or self._statement is None:
            return []
        base = int(piece.data.ctypes.data)
        texts: list[str] = []
        keys: list[int] = []
        for address, _, size, _ in events.tolist():
            at = address - base
            lines = self._statement(piece.data[at : at + size].tobytes(), piece.start + at)
            keys += [at << 32 | number for number in range(len(lines))]
            texts += [f"{line}\n" for line in lines]
        begun = transactions[:, k.T_START].copy()
        begun[0] = min(begun[0], piece.start)
        offsets = events[:, 0] - base + piece.start
        shown[np.searchsorted(begun, offsets, "right") - 1] = True
        return [Lines.of(strings(texts), np.array(keys, np.int64))]
