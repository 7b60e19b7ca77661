"""JSON texts as MySQL's binary JSON, a whole column at once: the inverse of `json_text`."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.columns.frames import encode as f
from tailrace.columns.frames.plan import PADDING
from tailrace.columns.frames.text import DEPTH
from tailrace.columns.write.text import check_utf8, short_offsets, to_bytes
from tailrace.columns.write.types import Rejected
from tailrace.errors import ValueRejected
from tailrace.values.jsonb import dump_json

_LONGEST: Final = 1 << 22
"""The longest text that the kernel takes, in bytes; it needs 64 times as much room for values."""


def text_to_jsonb(array: pa.Array) -> pa.BinaryArray:
    """Turn texts into their logged form, byte for byte as MySQL writes it; nulls stay.

    Raises `Rejected`, with the row, for a text that is not JSON, or not accepted by MySQL.
    """
    array = short_offsets(array)
    if len(array) == 0:
        return pa.array([], pa.binary())
    check_utf8(array)
    sizes = np.diff(np.frombuffer(array.buffers()[1], np.int32)[array.offset :][: len(array) + 1])
    longest = min(int(sizes.max()), _LONGEST)
    room = (longest // 2 + 4) * f.NODE_WORDS
    nodes, heap = np.empty(room, np.int64), np.empty(room, np.int64)
    texts = np.empty(longest + PADDING, np.uint8)
    levels = np.empty((DEPTH, 8), np.int64)
    frame = np.zeros(f.JSON_WORDS, np.int64)
    frame[f.NODES], frame[f.HEAP] = nodes.ctypes.data, heap.ctypes.data
    frame[f.TEXTS] = texts.ctypes.data
    frame[f.TEXTS_END] = texts.ctypes.data + texts.size
    frame[f.LEVELS] = levels.ctypes.data
    frame[f.LONGEST] = longest

    def by_hand(row: int) -> bytes:
        try:
            return dump_json(array[row].as_py())
        except ValueRejected as error:
            raise Rejected(str(error), row) from None

    expected = array.nbytes + array.nbytes // 4
    return to_bytes("json_binary", frame, array, expected, by_hand)
