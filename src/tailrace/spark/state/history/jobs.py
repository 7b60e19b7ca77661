"""What tasks do to make a table's history: apply a bucket's changes to its open versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.spark.state.current.flat import SEQ, STAMP
from tailrace.spark.state.current.rows import RAW, empty_rows
from tailrace.spark.state.current.work import NOTHING, Done, Work
from tailrace.spark.state.history.versions import UNTIL, begin_all, end_all, joined, versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.spark.parquet.data_folder import DataFolder
    from tailrace.spark.state.current.flat import Flat
    from tailrace.spark.state.current.timeline import End
    from tailrace.spark.state.current.work import Written

HISTORY_FIELDS: Final = (
    pa.field("_valid_from", pa.timestamp("us", "UTC")),
    pa.field("_valid_to", pa.timestamp("us", "UTC")),
    pa.field("_is_current", pa.bool_()),
    pa.field("_seq", pa.decimal128(38, 0)),
    pa.field(RAW, pa.map_(pa.string(), pa.string())),
)
"""The fields of a history after the table's own columns."""
_CURRENT: Final = "\0current"
_OURS: Final = {"_valid_from": STAMP, "_valid_to": UNTIL, "_is_current": _CURRENT, "_seq": SEQ}
_PENDING_ROWS: Final = 1 << 20


@dataclass(frozen=True)
class VersionsJob(Work):
    """Apply changes to the open versions of a table, or of one bucket. ``end`` closes all.

    Those that closed go to a file in ``ended``.
    """

    end: End | None
    ended: DataFolder

    def do(self) -> Done:
        """Make the versions, and write them. Raises `RejectedError`."""
        closed, rows, unseen = self._versions()
        if self.end is not None:
            ended = end_all(rows, self.end.micros)
            closed = pa.concat_tables([closed, ended], promote_options="default")
            rows = begin_all(rows, ended, self.end.anew)
        written = self._written(closed, self.ended, "closed")
        rows = rows.append_column(UNTIL, pa.nulls(rows.num_rows, pa.timestamp("us", "UTC")))
        return Done(self._written(rows, self.out, "open"), written, unseen)

    def _written(self, rows: pa.Table, out: DataFolder, kind: str) -> Written:
        if not rows.num_rows:
            return NOTHING
        rows = rows.append_column(_CURRENT, rows.column(UNTIL).is_null())
        return self.write(rows, out, kind, _OURS)

    def _versions(self) -> tuple[pa.Table, pa.Table, int]:
        """The closed versions, the open ones, and how many changed rows were not known of."""
        rows = self.begun()
        closed: list[pa.Table] = [end_all(empty_rows(self.target), 0)]
        unseen = 0
        for target, flats in self.changes():
            for flat in _together(flats, rows.num_rows):
                ended, rows, more = versions(rows, flat, target, partial=self.partial)
                closed.append(ended)
                unseen += more
        return pa.concat_tables(closed, promote_options="default"), rows, unseen


def _together(flats: Iterable[Flat], known: int) -> Iterator[Flat]:
    """Many changes at once."""
    pending: list[Flat] = []
    waiting = 0
    for flat in flats:
        pending.append(flat)
        waiting += len(flat.operations)
        if waiting >= max(_PENDING_ROWS, known):
            yield joined(pending)
            pending, waiting = [], 0
    if pending:
        yield joined(pending)
