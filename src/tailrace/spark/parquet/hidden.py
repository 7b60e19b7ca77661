"""Rows of a data file that do not count, by their number in the file: sets of them as text.

The gaps between row numbers, each in as many bytes as it needs (seven bits in each, the last one
without the high bit), as base64: about four thirds of a byte for a row. Equal sets are equal texts.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

Rows = np.ndarray[Any, np.dtype[np.int64]]

NONE: Final = ""
_MORE: Final = 0x80
_BITS: Final = 7


def dump(rows: Rows) -> str:
    """Row numbers, ascending and each once, as text."""
    if not len(rows):
        return NONE
    gaps = np.diff(rows, prepend=-1) - 1
    widths = np.ones(len(gaps), np.int64)
    rest = gaps >> _BITS
    while rest.any():
        widths += rest > 0
        rest >>= _BITS
    ends = np.cumsum(widths)
    starts = ends - widths
    data = np.zeros(int(ends[-1]), np.uint8)
    for place in range(int(widths.max())):
        there = widths > place
        bits = (gaps[there] >> (_BITS * place)) & (_MORE - 1)
        more = np.where(widths[there] > place + 1, _MORE, 0)
        data[starts[there] + place] = bits | more
    return base64.b64encode(data.tobytes()).decode()


def load(text: str) -> Rows:
    """What `dump` made a text of."""
    data = np.frombuffer(base64.b64decode(text), np.uint8)
    ends = np.flatnonzero(data < _MORE)
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    widths = ends - starts + 1
    gaps = np.zeros(len(ends), np.int64)
    for place in range(int(widths.max(initial=0))):
        there = widths > place
        bits = (data[starts[there] + place] & (_MORE - 1)).astype(np.int64)
        gaps[there] |= bits << (_BITS * place)
    return np.cumsum(gaps + 1) - 1


def count(text: str) -> int:
    """How many rows a text names."""
    return int(np.count_nonzero(np.frombuffer(base64.b64decode(text), np.uint8) < _MORE))


def joined(texts: Iterable[str]) -> str:
    """All rows that any of some texts names."""
    found = [each for each in texts if each]
    if len(found) < 2:
        return found[0] if found else NONE
    return dump(np.unique(np.concatenate([load(each) for each in found])))


def without(rows: pa.Table, first: int, hidden: Rows) -> pa.Table:
    """The rows that count, of those of a file from number ``first`` on."""
    low, high = np.searchsorted(hidden, [first, first + rows.num_rows])
    if low == high:
        return rows
    kept = np.full(rows.num_rows, True)
    kept[hidden[low:high] - first] = False
    return rows.filter(pa.array(kept))
