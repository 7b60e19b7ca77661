"""MySQL's binary JSON as the text that its server prints, a whole column at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.columns import native
from tailrace.columns.frames import text as f
from tailrace.columns.text_output import layout, write

Array = np.ndarray[Any, Any]


def jsonb_to_text(array: pa.BinaryArray, typed: Array | None = None) -> pa.StringArray:
    """Turn logged values into text, byte for byte as ``SELECT`` gives it.

    Keys stay in their stored order; an empty value means ``null``; nulls stay nulls. Raises
    `EventDecodeError`, which names the row, for bytes that are not the server's JSON. ``typed`` is
    an array of zeros (uint8): rows whose document holds a date, a decimal or bytes get a 1. Source:
    facts sheet section 3.2.
    """
    if len(array) == 0:
        return pa.array([], pa.string())
    stack = np.empty(f.DEPTH * f.FRAME_WORDS, np.int64)
    frame = np.zeros(f.JSON_WORDS, np.int64)
    frame[f.DATA], frame[f.DATA_END], frame[f.OFFSETS] = layout(array)
    frame[f.STACK] = stack.ctypes.data
    size = array.nbytes
    if typed is not None:
        frame[f.TYPED] = typed.ctypes.data
    native.will_read(size)
    return write(native.reading("json_text"), frame, array, size + size // 4, "JSON values")
