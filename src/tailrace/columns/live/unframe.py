"""`tailrace.wire.unframe` by a kernel: the same input and output, some hundred times as fast."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tailrace.columns.native import kernel

if TYPE_CHECKING:
    from collections.abc import MutableSequence

_first_byte = ctypes.c_char.from_buffer


def unframe(data: memoryview, starts: MutableSequence[int], state: MutableSequence[int]) -> int:
    """Make a chunk of the packets that are whole; returns why it stopped.

    The contract is `tailrace.wire.unframe`'s; ``starts`` and ``state`` are arrays of i64 (``q``) or
    views of them. The content of ``state`` is not checked: only the feed, which sets it, may call
    this.
    """
    return kernel("unframe")(
        _address(data), _address(starts) if len(starts) else 0, len(starts), _address(state)
    )


def _address(memory: memoryview | MutableSequence[int]) -> int:
    return ctypes.addressof(_first_byte(memory))  # type: ignore[arg-type]  # arrays are buffers
