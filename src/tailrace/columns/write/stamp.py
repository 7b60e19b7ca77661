"""Stamping by a kernel: a transaction's cached events get the form that they have in a file.

`tailrace.writing.cache` defines this form, and does the same without kernels.
"""

from __future__ import annotations

import ctypes

import numpy as np

from tailrace.columns.calendar import crc_tables
from tailrace.columns.frames import encode as f
from tailrace.columns.native import kernel
from tailrace.errors import EventEncodeError
from tailrace.events.walk import event_length

_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.argtypes = (ctypes.c_char_p, ctypes.c_ssize_t)
_new_bytes.restype = ctypes.py_object


def stamp_events(events: bytes | bytearray | memoryview, position: int, *, checksum: bool) -> bytes:
    """Whole events, one after the other, as they are in a file from ``position`` on.

    Each is copied with its length, its ``log_pos`` (the low 32 bits of the offset after it) and,
    with ``checksum``, its CRC-32. Raises `EventEncodeError` if a header's length is not that of
    an event or runs past the end; the error's offset is relative to ``events``.
    """
    data = np.frombuffer(events, np.uint8)
    frame = np.zeros(f.STAMP_WORDS, np.int64)
    frame[f.S_IN] = data.ctypes.data
    frame[f.S_END] = data.ctypes.data + data.size
    frame[f.S_POSITION] = position
    frame[f.S_CHECKSUM] = 4 if checksum else 0
    frame[f.S_TABLES] = crc_tables().ctypes.data
    frame[f.S_COUNT_ONLY] = 1
    stamp = kernel("stamp_events")
    if stamp(frame.ctypes.data) != f.DONE:
        at = int(frame[f.S_LAST])
        length = event_length(data.data, at)
        raise EventEncodeError(
            f"an event of {length} bytes, of which {data.size - at} are there, cannot be stamped",
            offset=at,
        )
    # A new bytes object that no other code has seen may be written to: C code fills it in this way.
    out: bytes = _new_bytes(None, int(frame[f.S_SIZE]))
    frame[f.S_OUT] = np.frombuffer(out, np.uint8).ctypes.data if out else 0
    frame[f.S_COUNT_ONLY] = 0
    stamp(frame.ctypes.data)
    return out
