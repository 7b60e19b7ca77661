"""What a stretch of transactions holds, counted (`tailrace.statistics`, ``log --verify``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailrace.columns import layout as k
from tailrace.columns.arrays import OPERATIONS
from tailrace.constants import event_name
from tailrace.errors import EventDecodeError

if TYPE_CHECKING:
    from tailrace.columns.stretches import Piece, Stretch

Array = np.ndarray[Any, Any]

_KINDS = 3


@dataclass(slots=True)
class CountedTransaction:
    """A transaction: where it begins, the bytes of its first event, its rows and bytes.

    ``first`` and ``last`` are the least and the greatest second of its events, 0 for none;
    ``stamp`` is when it was committed, in microseconds, or -1.
    """

    start: int
    opening: bytes
    stamp: int
    rows: int = 0
    bytes: int = 0
    first: int = 0
    last: int = 0


@dataclass(slots=True)
class Counted:
    """Counts of a stretch. ``events`` are number and bytes by name, ``tables`` rows by operation
    and bytes of rows events by name; ``largest`` are those transactions that are, in order.
    """

    transactions: int = 0
    rows: int = 0
    first: int = 0
    last: int = 0
    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    tables: dict[str, Counter[str]] = field(default_factory=dict)
    largest: list[CountedTransaction] = field(default_factory=list)


def count(stretch: Stretch, most: int) -> Counted:
    """Count a stretch, with its ``most`` largest transactions. Raises what decoding it raises."""
    found = Counted()
    for piece in stretch:
        _count_piece(piece, found, most)
    return found


def check(stretch: Stretch) -> Counted:
    """Count events, transactions and rows, and check each value. Raises what decoding raises."""
    found = Counted()
    for piece in stretch:
        _count_events(piece.events(), found)
        found.transactions += len(piece.transactions) - 1
        for _, batch in piece.batches():
            found.rows += len(batch)
            try:
                batch.validate(full=True)
            except pa.ArrowInvalid as error:  # text that is not UTF-8
                raise EventDecodeError(str(error)) from None
    return found


def _count_events(events: Array, found: Counted) -> None:
    codes, sizes, seconds = events[:, 1], events[:, 2], events[:, 3]
    numbers = np.bincount(codes, minlength=256)
    totals = np.bincount(codes, sizes, minlength=256)
    kinds, begin = np.unique(codes, return_index=True)
    for code in kinds[np.argsort(begin)].tolist():  # in the order in which they are met
        name = event_name(code)
        number, size = found.events.get(name, (0, 0))
        found.events[name] = (number + int(numbers[code]), size + int(totals[code]))
    told = seconds[seconds > 0]
    if len(told):
        found.first = min(found.first or int(told.min()), int(told.min()))
        found.last = max(found.last, int(told.max()))


def _count_piece(piece: Piece, found: Counted, most: int) -> None:
    events = piece.events()
    begun = piece.transactions.copy()
    found.transactions += len(begun) - 1
    _count_events(events, found)
    offsets = events[:, 0] - int(piece.data.ctypes.data) + piece.start
    starts = begun[:, k.T_START].copy()
    starts[0] = min(starts[0], piece.start)
    which = np.searchsorted(starts, offsets, "right") - 1
    sizes = np.bincount(which, events[:, 2], minlength=len(starts)).astype(np.int64)
    rows = _count_rows(piece, offsets, events[:, 2], starts, found)
    if sizes[0] and found.largest:  # it began in the piece before
        last = found.largest[-1]
        last.rows += int(rows[0])
        last.bytes += int(sizes[0])
        _take_seconds(last, events[which == 0, 3])
        # where it was none of the largest by then, it may be now: a long one is alone in its piece
    chosen = 1 + np.sort(np.argsort(-sizes[1:], kind="stable")[:most])
    if len(starts) > 1 and len(starts) - 1 not in chosen:
        chosen = np.append(chosen, len(starts) - 1)  # it may go on in the next piece
    for index in chosen.tolist() if len(starts) > 1 else []:
        start = int(starts[index])
        first = int(np.searchsorted(offsets, start))
        at = start - piece.start
        opening = piece.data[at : at + int(events[first, 2])].tobytes()
        each = CountedTransaction(
            start, opening, int(begun[index, k.T_STAMP]), int(rows[index]), int(sizes[index])
        )
        _take_seconds(each, events[which == index, 3])
        found.largest.append(each)


def _take_seconds(transaction: CountedTransaction, seconds: Array) -> None:
    told = seconds[seconds > 0]
    if len(told):
        least = int(told.min())
        transaction.first = min(transaction.first or least, least)
        transaction.last = max(transaction.last, int(told.max()))


def _count_rows(piece: Piece, offsets: Array, sizes: Array, starts: Array, found: Counted) -> Array:
    """Count rows by table and operation; gives those of each transaction."""
    rows = np.zeros(len(starts), np.int64)
    for schema, batch in piece.batches():
        places = np.frombuffer(batch.column("_pos").buffers()[1], np.int64, len(batch))
        kinds = np.frombuffer(batch.column("_op").indices.buffers()[1], np.int8, len(batch))
        rows += np.bincount(np.searchsorted(starts, places, "right") - 1, minlength=len(starts))
        table = found.tables.setdefault(f"{schema.database}.{schema.table}", Counter())
        for kind, number in enumerate(np.bincount(kinds, minlength=_KINDS).tolist()):
            table[OPERATIONS[kind].as_py()] += number
        # an event whose rows go on in the next batch is counted with its first row
        at = np.flatnonzero(np.diff(places, prepend=-1))
        number = np.frombuffer(batch.column("_seq").buffers()[1], np.int64, 2 * len(batch))[::2]
        begun = at[number[at] & 0xFFFFFFFFFFFF == 0]
        table["bytes"] += int(sizes[np.searchsorted(offsets, places[begun])].sum())
        found.rows += len(batch)
    return rows
