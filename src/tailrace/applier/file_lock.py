"""A lock of a channel in a database that is a file: SQLite has none that outlives a transaction."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

flock: Callable[[int, int], None] | None = None
with suppress(ImportError):  # Windows has none
    from fcntl import LOCK_EX, LOCK_NB, flock

_PAUSE: Final = 0.1
"""Seconds between two attempts."""


class FileLock:
    """The lock of a channel, as a file alongside the database's. The system releases it when the
    process ends, however it ends.
    """

    def __init__(self, database: str, channel: str) -> None:
        name = sha256(channel.encode()).hexdigest()[:16]
        self._path = Path(f"{database}-{name}.lock")
        self._handle: int | None = None

    def take(self, seconds: float) -> bool:
        """Take it; False if another has it for so many seconds."""
        end = time.monotonic() + seconds
        while not self._try():
            if time.monotonic() > end:
                return False
            time.sleep(_PAUSE)
        return True

    def _try(self) -> bool:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if flock is not None:
                flock(handle, LOCK_EX | LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        if not os.fstat(handle).st_nlink:  # removed by the one that had it
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        """Release it, and remove its file."""
        if self._handle is not None:
            with suppress(OSError):  # an open file, on Windows
                self._path.unlink()
            os.close(self._handle)
            self._handle = None
