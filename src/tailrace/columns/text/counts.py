"""Counts of what a stretch of transactions holds: for `tailrace.log.statistics` and ``check``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.columns.arrays import OPERATIONS, row_numbers
from tailrace.columns.frames import plan as k
from tailrace.constants import event_name
from tailrace.log.statistics import Sizes
from tailrace.log.timeline import Timeline

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.columns.text.stretches import DecodedRows, Stretch

Array = np.ndarray[Any, Any]

_KINDS = 3


@dataclass(slots=True)
class CountedTransaction:
    """A transaction: where it begins, the size of its first event, its rows and bytes.

    ``first`` and ``last`` are the lowest and highest second of its events, 0 for none;
    ``stamp`` is its commit time in microseconds, or -1.
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
    and bytes of rows events by name, which ``timeline`` has over time; ``largest`` are the largest
    transactions, in order. ``under_way`` are bytes and rows of the transaction that may continue,
    which ``sizes`` do not count.
    """

    transactions: int = 0
    rows: int = 0
    first: int = 0
    last: int = 0
    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    tables: dict[str, Counter[str]] = field(default_factory=dict)
    largest: list[CountedTransaction] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline)
    sizes: Sizes = field(default_factory=Sizes)
    under_way: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Checked:
    """How much of a stretch is sound."""

    events: int = 0
    transactions: int = 0
    rows: int = 0


def count(stretch: Stretch, most: int) -> Counted:
    """Count a stretch, with its ``most`` largest transactions. Raises the errors of decoding it."""
    found = Counted()
    for piece in stretch:
        _count_piece(piece, found, most)
    _count_sizes(np.array(found.under_way[:1]), np.array(found.under_way[1:]), found.sizes)
    return found


def check(stretch: Stretch) -> Checked:
    """Check each value by decoding it, and count. Raises the errors of decoding."""
    found = Checked()
    for piece in stretch:
        found.events += len(piece.events())
        found.transactions += len(piece.transactions) - 1
        found.rows += sum(len(batch) for _, batch in piece.batches())
    return found


def _count_events(events: Array, found: Counted) -> None:
    codes, sizes, seconds = events[:, 1].astype(np.uint8), events[:, 2], events[:, 3]
    numbers = np.bincount(codes, minlength=256)
    totals = np.bincount(codes, sizes, minlength=256)
    kinds = np.flatnonzero(numbers).tolist()
    begin = {code: int(np.argmax(codes == code)) for code in kinds}
    for code in sorted(kinds, key=begin.__getitem__):  # in order of first appearance
        name = event_name(code)
        number, size = found.events.get(name, (0, 0))
        found.events[name] = (number + int(numbers[code]), size + int(totals[code]))
    first, last = _bounds(seconds)
    if last:
        found.first = min(found.first or first, first)
        found.last = max(found.last, last)


def _bounds(seconds: Array) -> tuple[int, int]:
    """The lowest and highest second of events that have one; 0 if none has."""
    told = seconds[seconds > 0] if len(seconds) and seconds.min() <= 0 else seconds
    return (int(told.min()), int(told.max())) if len(told) else (0, 0)


def _count_piece(piece: DecodedRows, found: Counted, most: int) -> None:
    events = np.asfortranarray(piece.events())  # it is read by columns
    begun = piece.transactions.copy()
    found.transactions += len(begun) - 1
    _count_events(events, found)
    offsets = events[:, 0] - int(piece.data.ctypes.data) + piece.start
    starts = begun[:, k.T_START].copy()
    starts[0] = min(starts[0], piece.start)
    bounds = np.append(np.searchsorted(offsets, starts), len(offsets))
    sizes = np.diff(np.append(0, np.cumsum(events[:, 2]))[bounds])
    rows = _count_rows(piece, offsets, events[:, 2], starts, found)
    whole = sizes.copy(), rows.copy()
    for each, before in zip(whole, found.under_way, strict=True):
        each[0] += before
    found.under_way = int(whole[0][-1]), int(whole[1][-1])
    _count_sizes(whole[0][:-1], whole[1][:-1], found.sizes)
    if sizes[0] and found.largest:  # it began in the previous piece
        last = found.largest[-1]
        last.rows += int(rows[0])
        last.bytes += int(sizes[0])
        _take_seconds(last, events[: bounds[1], 3])
        # it may be one of the largest only now: a long transaction is alone in its piece
    for index in _largest(sizes[1:], most):
        first, behind = bounds[1 + index : 3 + index].tolist()
        at = int(starts[1 + index]) - piece.start
        opening = piece.data[at : at + int(events[first, 2])].tobytes()
        each = CountedTransaction(
            int(starts[1 + index]),
            opening,
            int(begun[1 + index, k.T_STAMP]),
            int(rows[1 + index]),
            int(sizes[1 + index]),
        )
        _take_seconds(each, events[first:behind, 3])
        found.largest.append(each)


def _count_sizes(sizes: Array, rows: Array, found: Sizes) -> None:
    """Count transactions by the binary digits of their bytes and rows; without bytes is none."""
    whole = sizes > 0
    for values, counts in ((sizes[whole], found.bytes), (rows[whole], found.rows)):
        digits = np.frexp(values)[1]
        counts.update(dict(enumerate(np.bincount(digits).tolist())))


def _largest(sizes: Array, most: int) -> list[int]:
    """The indexes of the largest, of equal ones the first; and the last, which may continue."""
    if len(sizes) > most:
        least = np.partition(sizes, len(sizes) - most)[len(sizes) - most]
        among = np.flatnonzero(sizes >= least)
    else:
        among = np.arange(len(sizes))
    chosen = among[np.argsort(-sizes[among], kind="stable")[:most]]
    return sorted({*chosen.tolist(), *range(len(sizes))[-1:]})


def _take_seconds(transaction: CountedTransaction, seconds: Array) -> None:
    first, last = _bounds(seconds)
    if last:
        transaction.first = min(transaction.first or first, first)
        transaction.last = max(transaction.last, last)


def _count_rows(
    piece: DecodedRows, offsets: Array, sizes: Array, starts: Array, found: Counted
) -> Array:
    """Count rows by table and operation; gives the row counts of each transaction."""
    rows = np.zeros(len(starts), np.int64)
    for schema, batch in piece.batches():
        places = batch.column("_pos").to_numpy()
        kinds = batch.column("_op").indices.to_numpy()
        number = row_numbers(batch)
        at = np.flatnonzero(np.diff(places, prepend=-1))  # the first row of each event
        numbers = np.diff(np.append(at, len(places)))
        within = np.searchsorted(starts, places[at], "right") - 1
        rows += np.bincount(within, numbers, len(starts)).astype(np.int64)
        name = str(schema.full_name)
        table = found.tables.setdefault(name, Counter())
        for kind, total in enumerate(np.bincount(kinds[at], numbers, _KINDS).tolist()):
            table[OPERATIONS[kind].as_py()] += int(total)
        # an event whose rows continue in the next batch is counted with its first row
        begun = at[number[at] == 0]
        lengths = np.zeros(len(places), np.int64)
        lengths[begun] = sizes[np.searchsorted(offsets, places[begun])]
        table["bytes"] += int(lengths.sum())
        if len(at):
            _count_seconds(batch, at, numbers, lengths[at], name, found.timeline)
        found.rows += len(batch)
    return rows


def _count_seconds(
    batch: pa.RecordBatch, at: Array, rows: Array, sizes: Array, table: str, found: Timeline
) -> None:
    """Count a batch's rows and bytes over time; ``at`` are the first rows of its events."""
    seconds = batch.column("_ts").cast("int64").to_numpy()[at] // 1_000_000
    width = found.cover(int(seconds.min()), int(seconds.max()))
    intervals, which = np.unique(seconds // width, return_inverse=True)
    for interval, changes, size in zip(
        intervals.tolist(),
        np.bincount(which, rows).astype(np.int64).tolist(),
        np.bincount(which, sizes).astype(np.int64).tolist(),
        strict=True,
    ):
        found.add(table, interval * width, changes, size)
