"""From changes to rows, in bulk.

Where all images are full, the last change of each key is enough. An insert or update leaves its
after image under its key, a delete leaves nothing, and an update that changes the key is a delete
of the old one and an insert of the new. Rows are folded piece by piece: a piece gives one entry for
each key that it touches, and of two pieces' entries of a key the later one stays. An entry that
says a row is gone must be kept until the rows that were there before are known.

Where images are not full (MINIMAL, NOBLOB), it goes column by column. A row's life is a chain: it
is inserted (or was there before), updated, perhaps to another key, and deleted or there at the end.
Each change of a chain is linked to the one before it by the row's key; then all chains are laid end
to end, and a column's value is carried forward along its chain from the last change that has it.

A key's moments are those at which a change takes the row under it, or leaves one under it. A change
takes the row under its old key before it leaves one under its new key. An insert takes none, a
delete leaves none, and a row of a state is left under its key first of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import (
    DELETE,
    INSERT,
    SNAPSHOT,
    UNKNOWN,
    UPDATE,
    Flat,
    put,
    unknown_marks,
)
from tailrace.spark.state.current.keys import Numbers, dense
from tailrace.spark.state.failure import RejectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.current.flat import Bytes, Target

ALIVE: Final = "\0alive"
SEEN: Final = "\0seen"
"""Columns of entries: whether the row is there, and whether the log shows how it came to be."""


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
        """Those of changes with these places; ``keys`` are the numbers of the leaves', then of the
        takes' keys.
        """
        changes = np.concatenate([leaves, takes])
        leaving = np.arange(len(changes)) < len(leaves)
        # One number for a key and a moment: each change is a leave or a take, so none is twice.
        order = np.argsort(keys * (2 * len(changes)) + 2 * changes + leaving)
        keys, leaving = keys[order], leaving[order]
        last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
        return cls(order, changes[order], keys, leaving, last)

    def check_given(self, left: pa.Table, target: Target) -> None:
        """Raise `RejectedError` where two rows, of those ``left``, have a given key at a time."""
        if target.given:
            _check_unique(self.keys, self.leaves, ~self.leaves, self.order, left, target.key)


def _check_unique(
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


def entries(flat: Flat, target: Target) -> pa.Table:
    """One row for each key that the changes touch: its columns, and `ALIVE` and `SEEN`.

    Raises `RejectedError` where two rows have a given key at a time.
    """
    operations = flat.operations
    if not len(operations):
        return _with_flags(flat.rows, np.zeros(0, np.bool_), np.zeros(0, np.bool_))
    after, before = leaves_and_takes(operations)
    new, old = flat.rows.take(pa.array(after)), flat.old.take(pa.array(before))
    numbers, count = dense(key_columns([new, old], target.key))
    new_keys, old_keys = numbers[: len(after)], numbers[len(after) :]
    if target.given:
        Moments.of(after, before, numbers).check_given(new, target)
    own = np.full(len(operations), -1)
    own[after] = new_keys
    moves = own[before] != old_keys  # a delete, or an update that leaves its old key
    gone, gone_keys = before[moves], old_keys[moves]
    # An update leaves its old key before it takes its new one.
    first_new, last_new = _first_last(new_keys, after * 2 + 1, count)
    first_gone, last_gone = _first_last(gone_keys, gone * 2, count)
    alive = last_new > last_gone
    came = np.full(len(operations), False)
    came[after] = True
    came[before[~moves]] = False  # an update that stays needs a row that was there
    seen = (first_new < first_gone) & came[np.minimum(first_new, 2 * len(operations) - 1) // 2]
    kept = flat.rows.take(pa.array(last_new[alive] // 2))
    lost = flat.old.take(pa.array(last_gone[~alive] // 2))
    table = pa.concat_tables([kept, lost], promote_options="default")
    return _with_flags(
        table,
        np.arange(count) < alive.sum(),
        np.concatenate([seen[alive], seen[~alive]]),
    )


def merge(pieces: Sequence[pa.Table], target: Target) -> pa.Table:
    """The last entry of each key, of pieces of entries in log order.

    Raises `RejectedError` where two rows have a given key at a time.
    """
    if len(pieces) == 1:
        return pieces[0]
    table = pa.concat_tables(pieces, promote_options="default")
    numbers, count = dense(key_columns([table], target.key))
    first, last = _first_last(numbers, np.arange(len(numbers)), count)
    if count == table.num_rows:
        return table
    seen = table.column(SEEN).to_numpy()
    if target.given:
        order = np.argsort(numbers, kind="stable")
        gone = ~table.column(ALIVE).to_numpy()
        _check_unique(numbers[order], seen[order], gone[order], order, table, target.key)
    seen = seen[first]
    index = table.schema.get_field_index(SEEN)
    return table.take(pa.array(last)).set_column(index, SEEN, pa.array(seen))


def as_entries(rows: pa.Table) -> pa.Table:
    """Rows of a current state as entries."""
    return _with_flags(rows, np.full(rows.num_rows, True), np.full(rows.num_rows, True))


def alive(table: pa.Table) -> tuple[pa.Table, int]:
    """The rows that are there, without the flags; and how many keys' beginnings were not seen."""
    unseen = table.num_rows - int(np.count_nonzero(table.column(SEEN).to_numpy()))
    return table.filter(table.column(ALIVE)).drop_columns([ALIVE, SEEN]), unseen


def key_columns(tables: Sequence[pa.Table], key: Sequence[str]) -> list[pa.ChunkedArray]:
    """The key's columns of several tables in sequence, with their columns of texts."""
    names = list(key)
    names += [
        beside
        for beside in map(raw.beside, key)
        if any(beside in table.schema.names for table in tables)
    ]
    columns = []
    for name in names:
        chunks: list[pa.Array] = []
        arrow = pa.string()
        for table in tables:
            if name in table.schema.names:
                arrow = table.schema.field(name).type
                chunks += table.column(name).chunks
            else:
                chunks.append(pa.nulls(table.num_rows, pa.string()))
        columns.append(pa.chunked_array(chunks, arrow))
    return columns


def moves_apart(flat: Flat, target: Target) -> Flat:
    """Updates that change the key as a delete and an insert, so that each is under one key.

    Where images are not full they stay: what they left out is still to be found by the old key.
    """
    updates = flat.operations == UPDATE
    if flat.present is not None or not updates.any():
        return flat
    numbers, _ = dense(key_columns([flat.rows, flat.old], target.key))
    new, old = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    moves = updates & (new != old)
    if not moves.any():
        return flat
    places = np.repeat(np.arange(len(moves)), 1 + moves)
    second = np.append(False, places[1:] == places[:-1])
    first = np.append(second[1:], False)
    operations = flat.operations[places]
    operations[first], operations[second] = DELETE, INSERT
    taken = pa.array(places)
    return Flat.of(flat.rows.take(taken), flat.old.take(taken), operations, None, target)


def _first_last(numbers: Numbers, order: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """The first and last place of each number; the greatest number and -1 where it has none."""
    last = np.full(count, -1, np.int64)
    last[numbers] = order
    first = np.full(count, np.iinfo(np.int64).max, np.int64)
    first[numbers[::-1]] = order[::-1]
    return first, last


def _with_flags(table: pa.Table, is_alive: np.ndarray[Any, Any], seen: Any) -> pa.Table:
    return table.append_column(ALIVE, pa.array(is_alive, pa.bool_())).append_column(
        SEEN, pa.array(seen, pa.bool_())
    )


def apply(state: pa.Table, flat: Flat, target: Target) -> tuple[pa.Table, int]:
    """The rows that are there after the changes, and how many changed ones were not known of.

    ``state`` has the rows before them. Raises `RejectedError` where the log lacks what a row
    needs: an insert that left columns to their defaults, an update of a row that is not known.
    """
    if not flat.rows.num_rows:
        return state, 0
    chains = _Chains(state, flat, target)
    return chains.rows(chains.ends), chains.unseen


def completed(state: pa.Table, flat: Flat, target: Target) -> pa.Table:
    """The rows of the state, then the row that each change left, but for deletes; in order.

    Raises `RejectedError` as `apply`.
    """
    chains = _Chains(state, flat, target)
    left = chains.operations != DELETE
    order = chains.order[left[chains.order]]
    return chains.rows(left).take(pa.array(np.argsort(order)))


class _Chains:
    """The rows of a state, then changes, each linked to the one whose row it continues."""

    def __init__(self, state: pa.Table, flat: Flat, target: Target) -> None:
        flat = _with_whole_keys(flat, target)
        base, changes = state.num_rows, flat.rows.num_rows
        self._target = target
        self._rows = pa.concat_tables([state, flat.rows], promote_options="default")
        present = np.full((base + changes, len(target.columns)), True)
        if flat.present is not None:
            present[base:] = flat.present
        self._present = present
        self.operations = np.concatenate([np.full(base, SNAPSHOT, np.int8), flat.operations])
        leaves, takes = leaves_and_takes(self.operations)
        left, taken = self._rows.take(pa.array(leaves)), flat.old.take(pa.array(takes - base))
        keys, _ = dense(key_columns([left, taken], target.key))
        at = Moments.of(leaves, takes, keys)
        at.check_given(left, target)
        continues = np.flatnonzero(at.leaves[:-1] & ~at.leaves[1:] & ~at.last[:-1])
        # For each row the one that it continues (-1: none): under its old key at that moment.
        before = np.full(len(self.operations), -1, np.int64)
        before[at.changes[continues + 1]] = at.changes[continues]
        # The last of chains; a row that is inserted again without a delete is none.
        self.ends = np.full(len(before), False)
        self.ends[at.changes[at.leaves & at.last]] = True
        begins = (self.operations == INSERT) | (self.operations == SNAPSHOT)
        _check_inserts(begins, present, target)
        orphans = (before < 0) & ~begins
        lost = orphans & (self.operations != DELETE) & ~present.all(axis=1)
        if lost.any():
            raise RejectedError(
                "its row images are not full, and some of its rows were inserted before the log "
                "begins"
            )
        self.unseen = int(np.count_nonzero(orphans))
        self._before = before
        self.order = _laid_out(before)

    def rows(self, wanted: Bits) -> pa.Table:
        """The wanted rows as they were then, in the order of `order`."""
        order, rows, target = self.order, self._rows, self._target
        places = np.arange(len(order))
        place_of_chain = np.maximum.accumulate(np.where(self._before[order] < 0, places, 0))
        chosen = wanted[order]
        columns = {}
        for index, field in enumerate(target.columns):
            there = np.where(self._present[order, index], places, -1)
            latest = np.maximum.accumulate(there)[chosen]
            whole = latest >= place_of_chain[chosen]  # else nothing in the chain has the column
            takes = pa.array(order[latest], mask=~whole)
            columns[field.name] = rows.column(field.name).take(takes)
            beside = raw.beside(field.name)
            if beside in rows.schema.names:
                columns[beside] = rows.column(beside).take(takes)
        for name in rows.schema.names:
            if name not in columns:
                columns[name] = rows.column(name).take(pa.array(order[chosen]))
        if UNKNOWN in columns:  # what is not known is carried forward as values are
            marked = rows.column(UNKNOWN).is_valid().to_numpy()[order]
            chain = np.cumsum(self._before[order] < 0)
            columns[UNKNOWN] = unknown_marks(np.isin(chain, chain[marked])[chosen])
        return pa.table(columns)


def as_changes(rows: pa.Table, target: Target) -> Flat:
    """Rows of a current state as if they had been inserted."""
    none = {name: pa.nulls(rows.num_rows, rows.schema.field(name).type) for name in target.key}
    operations = np.full(rows.num_rows, SNAPSHOT, np.int8)
    return Flat.of(rows, pa.table(none), operations, None, target)


def _with_whole_keys(flat: Flat, target: Target) -> Flat:
    """Fill in the key of updates whose after image leaves it out, since it stays."""
    if flat.present is None:
        return flat
    rows, present = flat.rows, flat.present.copy()
    updates = (flat.operations != INSERT) & (flat.operations != DELETE)
    places = [target.columns.get_field_index(name) for name in target.key]
    if present[np.ix_(updates, places)].all():
        return flat
    for name, index in zip(target.key, places, strict=True):
        kept = ~present[:, index] & updates
        if not kept.any():
            continue
        for each in (name, raw.beside(name)):
            if each in flat.old.schema.names:
                rows = put(rows, each, kept, flat.old.column(each))
        present[kept, index] = True
    return Flat.of(rows, flat.old, flat.operations, present, target)


def _check_inserts(begins: Bits, present: Bits, target: Target) -> None:
    whole: list[bool] = np.all(present[begins], axis=0).tolist()
    if not all(whole):
        names = [name for name, there in zip(target.columns.names, whole, strict=True) if not there]
        raise RejectedError(
            "inserts left columns to their defaults, which row images that are not full do not "
            f"hold: {', '.join(names)} (binlog_row_image=FULL has them)"
        )


def _laid_out(before: Numbers) -> Numbers:
    """An order of all rows in which each chain is in one piece; inside it, rows stay in order.

    Links are followed twice as far in each round, so a chain of a million takes twenty rounds.
    """
    first = np.where(before < 0, np.arange(len(before)), before)
    while not np.array_equal(further := first[first], first):
        first = further
    return np.argsort(first, kind="stable")
