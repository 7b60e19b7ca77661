"""The rows of a table that returns to an earlier shape, in the log's order.

A log full of DDL alternates between few shapes of a table (CREATE, rows, ALTER, rows, DROP, and
again). The rows of each shape are decoded as one, which costs little more than one row does; here
they are cut into the turns that the shapes take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tailrace.columns.arrays import row_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

Array = np.ndarray[Any, Any]


class Turn(NamedTuple):
    """From the plan's entry ``begin`` on, until the next turn, a table has the shape ``slot``."""

    slot: int
    begin: int


def in_turns(
    turns: Sequence[Turn], batches: Mapping[int, Sequence[pa.RecordBatch]], places: Array
) -> Iterator[pa.RecordBatch]:
    """The rows of all turns, one after the other, as slices of the batches of each slot.

    ``places`` are the positions of the plan's entries, and the number of each one's first row.
    """
    bounds = [turn.begin for turn in turns[1:]]
    rest = {slot: _Rest(made, bounds, places) for slot, made in batches.items()}
    last = {turn.slot: number for number, turn in enumerate(turns)}
    for number, turn in enumerate(turns):
        # A slot's last turn gives all that is left: a statement may have rows of an earlier shape
        # whose table map stands before that of a later one.
        yield from rest[turn.slot].up_to(len(bounds) if last[turn.slot] == number else number)


class _Rest:
    """The rows of one slot that are not given yet."""

    def __init__(
        self, batches: Sequence[pa.RecordBatch], bounds: Sequence[int], places: Array
    ) -> None:
        self._batches = list(reversed(batches))
        self._at = 0
        """How many rows of the last of these are given."""
        self._given = 0
        rows = [_places_of(batch) for batch in batches]
        self._ends = _ends(np.concatenate(rows) if rows else places[:0], bounds, places)

    def up_to(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows up to the end of a turn; slices, where the batch has more."""
        wanted = self._ends[number] - self._given
        while wanted > 0:
            batch, at = self._batches[-1], self._at
            size = min(wanted, batch.num_rows - at)
            wanted -= size
            self._given += size
            self._at += size
            if self._at == batch.num_rows:
                self._batches.pop()
                self._at = 0
            yield batch if size == batch.num_rows else batch.slice(at, size)


def _places_of(batch: pa.RecordBatch) -> Array:
    """Position and row number of each row."""
    return np.stack([batch.column("_pos").to_numpy(), row_numbers(batch)], axis=1)


def _ends(rows: Array, bounds: Sequence[int], places: Array) -> list[int]:
    """How many of the rows come before each of the entries ``bounds``, and all of them at last."""
    inside = [bound for bound in bounds if bound < len(places)]
    wanted = places[inside]
    ends = np.searchsorted(rows[:, 0], wanted[:, 0], "left")
    same = np.searchsorted(rows[:, 0], wanted[:, 0], "right")
    for number in np.flatnonzero(ends < same):  # rows of one payload have one position
        first, last = ends[number], same[number]
        ends[number] += np.searchsorted(rows[first:last, 1], wanted[number, 1], "left")
    return [*ends.tolist(), *[len(rows)] * (len(bounds) - len(inside) + 1)]
