"""Where the rows of some keys are in data files: by their key columns alone, in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tailrace.spark.current import raw
from tailrace.spark.current.conform import conform
from tailrace.spark.current.fold import key_columns
from tailrace.spark.current.keys import dense, hashes
from tailrace.spark.current.rows import RAW
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.parquet.hidden import NONE, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.spark.current.flat import Target
    from tailrace.spark.current.keys import Hashes
    from tailrace.spark.parquet.hidden import Rows
    from tailrace.spark.present import Bits

_ROOM: Final = 16
"""Places in a sieve for each key: so one of sixteen other rows passes it, at most."""
_LEAST: Final = 1 << 16
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def find(
    paths: Iterable[str], hidden: Mapping[str, str], touched: pa.Table, target: Target
) -> tuple[dict[str, Rows], pa.Table]:
    """The numbers of the rows with touched keys in each file, and these rows' keys.

    ``hidden`` rows are passed over; files without any are left out of the first result. ``touched``
    has the columns of the target's key (and their columns of texts, `raw.beside`), each key once.
    """
    key = target.key
    sieve = _Sieve(touched, key)
    places: list[tuple[str, Rows]] = []
    passed: list[pa.Table] = []
    for path in paths:
        gone = load(hidden.get(path, NONE))
        first = 0
        for rows in _keys(path, target):
            near = np.flatnonzero(sieve.passes(rows))
            near = near[~np.isin(near + first, gone, assume_unique=True)]
            if len(near):
                places.append((path, near + first))
                passed.append(rows.take(pa.array(near)))
            first += rows.num_rows
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


def _keys(path: str, target: Target) -> Iterator[pa.Table]:
    """The key's columns of a file, with their columns of texts, a row group at a time."""
    key = target.key
    texts: list[pa.Table] | None = None
    for number, group in enumerate(row_groups(path, list(key))):
        rows = pa.table(
            {
                name: conform(group.column(name), target.columns.field(name).type, name)
                for name in key
            }
        )
        if not any(rows.column(name).null_count for name in key):
            yield rows
            continue
        if texts is None:  # a key's column is NULL only where no typed value says it
            texts = list(row_groups(path, [RAW]))
        whole = rows
        for name, text in raw.texts(texts[number].column(RAW)).items():
            if name in key:
                whole = whole.append_column(raw.beside(name), pa.chunked_array([text]))
        yield whole
