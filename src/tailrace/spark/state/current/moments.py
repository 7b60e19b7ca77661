"""The moments of keys: when changes take a row from a key, and when they leave one under a key.

A change takes the row under its old key before it leaves one under its new key. An insert takes
none, a delete leaves none, and a row of a state is left under its key first of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailrace.spark.state.current.flat import DELETE, UPDATE
from tailrace.spark.state.failure import RejectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.current.flat import Bytes
    from tailrace.spark.state.current.keys import Numbers


def leaves_and_takes(operations: Bytes) -> tuple[Numbers, Numbers]:
    """The places of changes that leave a row, and of those that take one."""
    takes = (operations == DELETE) | (operations == UPDATE)
    return np.flatnonzero(operations != DELETE), np.flatnonzero(takes)


class Moments(NamedTuple):
    """All moments, in order of keys, those of a key in log order."""

    order: Numbers
    """Their places among what was sorted: all leaves, then all takes."""
    changes: Numbers
    """The places of their changes."""
    keys: Numbers
    leaves: Bits
    last: Bits
    """Whether a moment is the last of its key."""

    @classmethod
    def of(cls, leaves: Numbers, takes: Numbers, keys: Numbers) -> Moments:
        """Those of changes with these places; ``keys`` are the leaves' and then the takes'."""
        changes = np.concatenate([leaves, takes])
        leaving = np.arange(len(changes)) < len(leaves)
        # One number for a key and a moment: each change is a leave or a take, so none is twice.
        order = np.argsort(keys * (2 * len(changes)) + 2 * changes + leaving)
        keys = keys[order]
        last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
        return cls(order, changes[order], keys, leaving[order], last)

    def check_unique(self, left: pa.Table, key: Sequence[str]) -> None:
        """Raises `RejectedError` where two rows have a key; ``left`` has the rows that are left."""
        check_unique(self.keys, self.leaves, ~self.leaves, self.order, left, key)


def check_unique(
    keys: Numbers, began: Bits, ended: Bits, order: Numbers, rows: pa.Table, key: Sequence[str]
) -> None:
    """Raises `RejectedError` where a row came under a key that another row had.

    For moments in order by key: ``keys`` are their numbers, ``began`` says whether a row came under
    the key then, ``ended`` whether none was left after it. ``order`` has the places in ``rows`` of
    those that began.
    """
    twice = np.flatnonzero((keys[1:] == keys[:-1]) & began[1:] & ~ended[:-1])
    if not len(twice):
        return
    values = rows.select(list(key)).slice(int(order[twice[0] + 1]), 1).to_pylist()[0]
    shown = ", ".join(f"{name} = {value!r}" for name, value in values.items())
    raise RejectedError(f"the key given for it is not unique: two rows had {shown}")
