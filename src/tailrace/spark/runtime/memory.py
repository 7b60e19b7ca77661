"""Memory that a process holds and does not use, given back to the system.

glibc keeps what threads have freed, each arena for itself, and Arrow's pool what batches have: a
mirror that follows for days would hold the sum of all its largest moments.

In pyarrow the footer of a Parquet file and its schema refer to each other, and both hold memory
that Python does not count. Only Python's garbage collector frees them, and the command lets it run
rarely (`tailrace.__main__`): a mirror with a batch a second held 40 MB more each minute.
"""

from __future__ import annotations

import ctypes
import gc
import time
from typing import Final

import pyarrow as pa

EVERY_SECONDS: Final = 30.0
"""The shortest time between two calls, each of which takes 50 to 150 ms."""


def give_back() -> None:
    """Give back what can be; where the C library is another, what Arrow holds."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


class Tidy:
    """Gives back now and then."""

    def __init__(self, every: float = EVERY_SECONDS) -> None:
        self._every = every
        self._next = time.monotonic() + every

    def __call__(self) -> bool:
        """Do it if it is time; whether it was."""
        now = time.monotonic()
        if now < self._next:
            return False
        give_back()
        self._next = now + self._every
        return True
