"""Unframing for a receiver: in Python at first, by the kernel once it pays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.wire.unframe import BEGIN, WRITE
from tailrace.wire.unframe import unframe as in_python

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from tailrace.live.dump import Unframe

SMALL: Final = 4 << 20
"""Bytes that a receiver unframes in Python: loading the kernel takes longer, and 50 MB of memory.
"""


class GrowingUnframe:
    """`tailrace.wire.unframe.unframe`, replaced by its kernel after `SMALL` bytes.

    Python takes about 5 microseconds for an event, so it limits a stream of small ones. Without the
    packages of the extra ``columns`` it remains.
    """

    def __init__(self) -> None:
        self._left = SMALL
        self._unframe: Unframe = in_python

    def __call__(
        self, data: memoryview, starts: MutableSequence[int], state: MutableSequence[int]
    ) -> int:
        """Make a chunk of the whole packets that have come; returns why it stopped."""
        reason = self._unframe(data, starts, state)
        if self._left > 0:
            self._left -= state[WRITE] - state[BEGIN]
            if self._left <= 0:
                self._unframe = _by_kernel()
        return reason


def _by_kernel() -> Unframe:
    try:
        from tailrace.columns.live.unframe import unframe  # noqa: PLC0415 - slow, and an extra
        from tailrace.columns.native import kernel  # noqa: PLC0415

        kernel("unframe")
    except Exception:  # noqa: BLE001 - without the extra, or with a library that does not load
        return in_python
    return unframe
