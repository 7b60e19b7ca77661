"""From changes to rows where images are not full (MINIMAL, NOBLOB): column by column, in bulk.

A row's life is a chain: it is inserted (or was there before), updated, perhaps to another key, and
deleted or there at the end. Each change of a chain is linked to the one before it by the row's key;
then all chains are laid end to end, and a column's value is carried forward along its chain from
the last change that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailrace.spark.state.current import raw
from tailrace.spark.state.current.flat import DELETE, INSERT, SNAPSHOT, UNKNOWN, Flat, put
from tailrace.spark.state.current.fold import Moments, key_columns, leaves_and_takes
from tailrace.spark.state.current.keys import Numbers, dense
from tailrace.spark.state.failure import RejectedError

if TYPE_CHECKING:
    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.current.flat import Bytes, Target


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
        before, self.ends = _links(state, flat, self.operations, target)
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
            columns[UNKNOWN] = _marks(np.isin(chain, chain[marked])[chosen])
        return pa.table(columns)


def as_changes(rows: pa.Table, target: Target) -> Flat:
    """Rows of a current state as if they had been inserted."""
    none = {name: pa.nulls(rows.num_rows, rows.schema.field(name).type) for name in target.key}
    operations = np.full(rows.num_rows, SNAPSHOT, np.int8)
    return Flat.of(rows, pa.table(none), operations, None, target)


def _marks(mask: Bits) -> pa.Array:
    return pa.array(np.full(len(mask), True), mask=~mask)


def _with_whole_keys(flat: Flat, target: Target) -> Flat:
    """Fill in the key of updates whose after image leaves it out, since it stays."""
    if flat.present is None:
        return flat
    rows, present = flat.rows, flat.present.copy()
    for name in target.key:
        index = target.columns.get_field_index(name)
        kept = ~present[:, index] & (flat.operations != INSERT) & (flat.operations != DELETE)
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


def _links(state: pa.Table, flat: Flat, operations: Bytes, target: Target) -> tuple[Numbers, Bits]:
    """For each row the one that it continues (-1: none), and whether it is the last of a chain.

    A change continues the row under its old key at that moment.
    """
    leaves, takes = leaves_and_takes(operations)
    left = pa.concat_tables([state, flat.rows], promote_options="default").take(pa.array(leaves))
    taken = flat.old.take(pa.array(takes - state.num_rows))
    keys, _ = dense(key_columns([left, taken], target.key))
    at = Moments.of(leaves, takes, keys)
    if target.given:
        at.check_unique(left, target.key)
    continues = np.flatnonzero(at.leaves[:-1] & ~at.leaves[1:] & ~at.last[:-1])
    before = np.full(len(operations), -1, np.int64)
    before[at.changes[continues + 1]] = at.changes[continues]
    ends = np.full(len(operations), False)  # a row that is inserted again without a delete is none
    ends[at.changes[at.leaves & at.last]] = True
    return before, ends


def _laid_out(before: Numbers) -> Numbers:
    """An order of all rows in which each chain is in one piece; inside it, rows stay in order.

    Links are followed twice as far in each round, so a chain of a million takes twenty rounds.
    """
    first = np.where(before < 0, np.arange(len(before)), before)
    while not np.array_equal(further := first[first], first):
        first = further
    return np.argsort(first, kind="stable")
