"""Where the rows of some keys are in data files: by their key columns alone, in bulk.

A key's hash selects the bucket's file. Rows in a file are in the order of their keys, so the bounds
in its footer tell which row groups may have a key; only these groups' key columns are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.parquet.deleted import deleted_rows
from tailrace.spark.parquet.footer import opened
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.conversions import conform
from tailrace.spark.state.current.fold import key_columns
from tailrace.spark.state.current.keys import buckets, dense, hashes
from tailrace.spark.state.current.rows import RAW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.spark.parquet.deleted import Rows
    from tailrace.spark.parquet.footer import RowGroups
    from tailrace.spark.record.present import Bits
    from tailrace.spark.state.current.flat import Target
    from tailrace.spark.state.current.keys import Hashes
    from tailrace.spark.state.current.rows import Base

_ROOM: Final = 16
"""Places in a sieve for each key: so one of sixteen other rows passes it, at most."""
_LEAST: Final = 1 << 16
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def find(base: Base, touched: pa.Table, target: Target) -> tuple[dict[str, Rows], pa.Table]:
    """The numbers of the rows with touched keys in each of the base's files, and these rows' keys.

    The base's deleted rows are passed over; files without any are left out of the first result.
    ``touched`` has the columns of the target's key (and their columns of texts, `raw.beside`), each
    key once.
    """
    key = target.key
    sieve = _Sieve(touched, key)
    places: list[tuple[str, Rows]] = []
    passed: list[pa.Table] = []
    for path, wanted in _wanted(base, touched, key):
        gone: Rows | None = None
        for first, rows in _keys(path, target, wanted):
            near = np.flatnonzero(sieve.passes(rows))
            if not len(near):
                continue
            if gone is None:
                gone = deleted_rows(base.deleted, path)
            near = near[~np.isin(near + first, gone, assume_unique=True)]
            if len(near):
                places.append((path, near + first))
                passed.append(rows.take(pa.array(near)))
    if not passed:
        return {}, touched.slice(0, 0)
    rows = pa.concat_tables(passed, promote_options="default")
    numbers, count = dense(key_columns([rows, touched], key))
    there = np.full(count, False)
    there[numbers[rows.num_rows :]] = True
    hits = there[numbers[: rows.num_rows]]
    found: dict[str, list[Rows]] = {}
    start = 0
    for path, near in places:
        chosen = near[hits[start : start + len(near)]]
        start += len(near)
        if len(chosen):
            found.setdefault(path, []).append(chosen)
    return {path: np.concatenate(each) for path, each in found.items()}, rows.filter(pa.array(hits))


class _Sieve:
    """Lets rows pass that have one of some keys, and few others."""

    def __init__(self, wanted: pa.Table, key: Sequence[str]) -> None:
        self._key = key
        columns = key_columns([wanted], key)
        one = len(columns) == 1 and not columns[0].null_count
        self._whole = one and pa.types.is_integer(columns[0].type)
        size = _LEAST
        while size < wanted.num_rows * _ROOM:
            size *= 2
        self._mask = np.uint64(size - 1)
        self._there = np.full(size, False)
        self._there[self._places(wanted)] = True

    def passes(self, rows: pa.Table) -> Bits:
        passed: Bits = self._there[self._places(rows)]
        return passed

    def _places(self, rows: pa.Table) -> Hashes:
        """A place for each row's key; for a whole number at a sixth of what a hash costs."""
        if not self._whole:
            return hashes(key_columns([rows], self._key)) & self._mask
        numbers = rows.column(self._key[0]).fill_null(0).to_numpy().astype(np.int64, copy=False)
        found: Hashes = ((numbers.view(np.uint64) * _ODD) >> np.uint64(32)) & self._mask
        return found


def _wanted(base: Base, touched: pa.Table, key: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The files that may have touched keys, and which."""
    if touched.num_rows:
        places = buckets(key_columns([touched], key), len(base.paths))
        for bucket, path in enumerate(base.paths):
            if path is not None and len(inside := np.flatnonzero(places == bucket)):
                yield path, touched.take(pa.array(inside))
        for path in base.tails:
            yield path, touched


def _keys(path: str, target: Target, wanted: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The key's columns of a file, with their columns of texts, of the row groups that may have
    wanted keys; and the number of the group's first row.
    """
    key = target.key
    with opened(path) as groups:
        starts = np.cumsum([0, *groups.sizes]).tolist()
        for number in _near(groups, target, wanted):
            rows = _conformed(groups.read(number, key), target)
            if any(rows.column(name).null_count for name in key):
                # a key's column is NULL only where no typed value says it
                found = raw.texts(groups.read(number, [RAW]).column(RAW))
                for name, text in found.items():
                    if name in key:
                        rows = rows.append_column(raw.beside(name), pa.chunked_array([text]))
            yield starts[number], rows


def _conformed(rows: pa.Table, target: Target) -> pa.Table:
    kinds = {name: target.columns.field(name).type for name in target.key}
    return pa.table({name: conform(rows.column(name), kinds[name], name) for name in target.key})


def _near(groups: RowGroups, target: Target, wanted: pa.Table) -> Iterator[int]:
    """The row groups whose bounds include a wanted key; other groups cannot contain one. A NULL
    among a group's values leaves it without bounds.
    """
    bounds = groups.bounds(target.key)
    if bounds is None:
        yield from range(len(groups.sizes))
        return
    least, most = (_conformed(each, target) for each in bounds)
    for number in range(len(groups.sizes)):
        near = wanted
        for name in target.key:
            low, high = least.column(name)[number], most.column(name)[number]
            if low.is_valid and high.is_valid:
                values = near.column(name)
                inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
                near = near.filter(inside)
        if near.num_rows:
            yield number
