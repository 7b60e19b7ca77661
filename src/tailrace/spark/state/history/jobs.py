"""What tasks do to make a table's history: apply a bucket's changes to its open versions.

A change of a row ends the version that stood under its old key, and leaves one under its new key;
an insert only begins one, a delete only ends one. All moments of a key stand in log order. Times
do not go back along a key, whatever the log's clocks say: a change that is said to be earlier than
the version that it ends takes that version's time. (MariaDB gives a change the second in which its
statement began, MySQL's clock may have been set.)
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.spark.state.current import partial as partial_images
from tailrace.spark.state.current.flat import SEQ, SNAPSHOT, STAMP, joined
from tailrace.spark.state.current.fold import key_columns
from tailrace.spark.state.current.jobs import NOTHING, Done, Work
from tailrace.spark.state.current.keys import Numbers, dense
from tailrace.spark.state.current.moments import Moments, leaves_and_takes
from tailrace.spark.state.current.rows import RAW, empty_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.spark.parquet.file import DataFolder
    from tailrace.spark.state.current.flat import Flat, Target
    from tailrace.spark.state.current.jobs import Written
    from tailrace.spark.state.current.timeline import End

UNTIL: Final = "\0until"
"""The time at which a closed version ended."""
_TIME: Final = pa.timestamp("us", "UTC")
HISTORY_FIELDS: Final = (
    pa.field("_valid_from", _TIME),
    pa.field("_valid_to", _TIME),
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
        rows = rows.append_column(UNTIL, pa.nulls(rows.num_rows, _TIME))
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


def versions(
    state: pa.Table, flat: Flat, target: Target, *, partial: bool
) -> tuple[pa.Table, pa.Table, int]:
    """The versions that the changes ended, those that are open after them, and unknown rows.

    ``state`` has the open versions before: the target's columns and, as rows of a current state,
    ``_seq`` and ``_ts`` of the change that began each; so have the results, those ended `UNTIL`
    besides. The last result counts changes of rows of which no version was open. Raises
    `RejectedError` where a version cannot be told, or two have a key that a user gave.
    """
    base = state.num_rows
    if not len(flat.operations):
        return _ended(state.slice(0, 0), np.zeros(0, np.int64)), state, 0
    state, untouched = _touched(state, flat, target)
    base = state.num_rows
    operations = np.concatenate([np.full(base, SNAPSHOT, np.int8), flat.operations])
    leaves, takes = leaves_and_takes(operations)
    if partial:
        left = partial_images.completed(state, flat, target)
    else:
        left = pa.concat_tables([state, flat.rows], promote_options="default")
        left = left.take(pa.array(leaves))
    taken = flat.old.take(pa.array(takes - base))
    keys, _ = dense(key_columns([left, taken], target.key))
    at = Moments.of(leaves, takes, keys)
    if target.given:
        at.check_unique(left, target.key)
    stamps = np.concatenate([_micros(state), _micros(flat.rows)])
    times = _not_back(at.keys, stamps[at.changes])
    unseen = int(np.count_nonzero(~at.leaves & np.append(True, at.last[:-1])))
    left = _since(left.take(pa.array(at.order[at.leaves])), times[at.leaves])
    ends = ~at.last[at.leaves]
    until = times[np.minimum(np.flatnonzero(at.leaves) + 1, len(times) - 1)]
    closed = _ended(left.filter(pa.array(ends)), until[ends])
    now = left.filter(pa.array(~ends))
    return closed, pa.concat_tables([untouched, now], promote_options="default"), unseen


def end_all(state: pa.Table, micros: int) -> pa.Table:
    """All versions as ended then."""
    return _ended(state, np.maximum(_micros(state), micros))


def begin_all(state: pa.Table, ended: pa.Table, seq: int | None) -> pa.Table:
    """The rows as versions that began where those in ``ended`` did end, with the change ``seq``.

    None of them begins where that is None.
    """
    if seq is None:
        return state.slice(0, 0)
    index = state.schema.get_field_index("_seq")
    number = pa.scalar(decimal.Decimal(seq), pa.decimal128(38, 0))
    began = state.set_column(index, "_seq", pa.repeat(number, state.num_rows))
    return began.set_column(began.schema.get_field_index(STAMP), STAMP, ended.column(UNTIL))


def _touched(state: pa.Table, flat: Flat, target: Target) -> tuple[pa.Table, pa.Table]:
    """The rows under keys that changes have, and the others."""
    if not state.num_rows:
        return state, state
    keys, count = dense(key_columns([state, flat.rows, flat.old], target.key))
    met = np.zeros(count, np.bool_)
    met[keys[state.num_rows :]] = True
    mask = met[keys[: state.num_rows]]
    return state.filter(pa.array(mask)), state.filter(pa.array(~mask))


def _not_back(keys: Numbers, times: Numbers) -> Numbers:
    """The times, each at least the one before it with the same key; rows are in order of keys."""
    distinct, ranks = np.unique(times, return_inverse=True)
    highest = np.maximum.accumulate(keys * len(distinct) + ranks)
    result: Numbers = distinct[highest - keys * len(distinct)]
    return result


def _micros(rows: pa.Table) -> Numbers:
    column = rows.column(STAMP).cast(_TIME).cast(pa.int64())
    result: Numbers = column.to_numpy()
    return result


def _since(rows: pa.Table, times: Any) -> pa.Table:
    index = rows.schema.get_field_index(STAMP)
    return rows.set_column(index, STAMP, pa.array(times, pa.int64()).cast(_TIME))


def _ended(rows: pa.Table, times: Any) -> pa.Table:
    return rows.append_column(UNTIL, pa.array(times, pa.int64()).cast(_TIME))
