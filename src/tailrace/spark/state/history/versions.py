"""From changes to versions of rows, in bulk: what began under a key, and when that ended.

A change of a row ends the version that stood under its old key, and leaves one under its new key;
an insert only begins one, a delete only ends one. All moments of a key stand in log order. Times
do not go back along a key, whatever the log's clocks say: a change that is said to be earlier than
the version that it ends takes that version's time. (MariaDB gives a change the second in which its
statement began, MySQL's clock may have been set.)
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tailrace.spark.state.current import partial as partial_images
from tailrace.spark.state.current.flat import SNAPSHOT, STAMP, Flat
from tailrace.spark.state.current.fold import key_columns
from tailrace.spark.state.current.keys import Numbers, dense
from tailrace.spark.state.current.moments import Moments, leaves_and_takes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.current.flat import Target

UNTIL: Final = "\0until"
"""The time at which a closed version ended."""
_TIME: Final = pa.timestamp("us", "UTC")


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


def joined(flats: Sequence[Flat]) -> Flat:
    """The changes of all, in sequence."""
    if len(flats) == 1:
        return flats[0]
    present: Bits | None = None
    if any(each.present is not None for each in flats):
        width = next(each.present.shape[1] for each in flats if each.present is not None)
        present = np.concatenate(
            [
                np.full((len(each.operations), width), True)
                if each.present is None
                else each.present
                for each in flats
            ]
        )
    return Flat(
        pa.concat_tables([each.rows for each in flats], promote_options="default"),
        pa.concat_tables([each.old for each in flats], promote_options="default"),
        np.concatenate([each.operations for each in flats]),
        present,
    )


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
