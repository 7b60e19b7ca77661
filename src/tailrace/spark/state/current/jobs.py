"""What tasks do to make a table's current state: fold a bucket's changes into its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.spark.state.current import partial
from tailrace.spark.state.current.fold import alive, as_entries, entries, merge
from tailrace.spark.state.current.work import Done, Work
from tailrace.spark.state.spill import read_spill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from tailrace.spark.state.current.flat import Target

_PENDING_ROWS: Final = 1 << 20
"""Entries that are folded into the rest at once, at least."""


class FoldJob(Work):
    """Combine the rows of a table, or of one bucket, with their changes, and write them."""

    def do(self) -> Done:
        """Combine rows and write them. Raises `RejectedError`."""
        rows, unseen = self.begun(), 0
        if self.partial:
            for target, flats in self.changes():
                for flat in flats:
                    rows, more = partial.apply(rows, flat, target)
                    unseen += more
        else:
            for target, tables in changed(self):
                rows, more = alive(gathered(as_entries(rows), tables, target))
                unseen += more
        return Done(self.write(rows, self.out), unseen=unseen)


def changed(work: Work) -> Iterator[tuple[Target, Iterator[pa.Table]]]:
    """The entries of changes with full images, in log order, by what their key is."""
    if work.spills:
        yield work.target, map(read_spill, work.spills)
        return
    for target, flats in work.changes():
        yield target, (entries(flat, target.key, given=target.given) for flat in flats)


def gathered(merged: pa.Table, pieces: Iterable[pa.Table], target: Target) -> pa.Table:
    """Fold entries into entries, many at once."""
    key, given = target.key, target.given
    pending: list[pa.Table] = []
    waiting = 0
    for piece in pieces:
        pending.append(piece)
        waiting += piece.num_rows
        if waiting >= max(_PENDING_ROWS, merged.num_rows):
            merged = merge([merged, *pending], key, given=given)
            pending, waiting = [], 0
    return merge([merged, *pending], key, given=given)
