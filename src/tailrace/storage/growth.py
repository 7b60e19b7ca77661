"""Tells whoever waits for logs to grow that a writer in this process has added to one, and how far.

Writers of other processes are not seen here: who waits also looks at the files from time to time.
"""

from __future__ import annotations

from os.path import realpath
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakSet, WeakValueDictionary

if TYPE_CHECKING:
    from threading import Event

_waiting: Final[WeakSet[Event]] = WeakSet()
_growing: Final[WeakValueDictionary[str, GrowingFile]] = WeakValueDictionary()
_lock: Final = Lock()


class GrowingFile:
    """A file that a writer in this process adds to, up to where others are to see it.

    The file itself may have more: what is not synced yet, or is being rolled back. As long as the
    object exists and is not closed, `end_of` gives its ``end``, in bytes of the plain log.
    """

    def __init__(self, path: str, end: int) -> None:
        self._place = realpath(path)
        self.end = end
        with _lock:
            _growing[self._place] = self

    def reached(self, end: int) -> None:
        """It can be read up to here: wake whoever waits for that."""
        self.end = end
        has_grown()

    def close(self) -> None:
        """It can be read to its end, and nothing is added."""
        with _lock:
            if _growing.get(self._place) is self:
                del _growing[self._place]
        has_grown()


def end_of(path: str) -> int | None:
    """Up to where a file can be read that a writer in this process adds to; None for others."""
    growing = _growing.get(realpath(path))
    return None if growing is None else growing.end


def tell_growth_to(flag: Event) -> None:
    """From now on set the flag whenever a log has grown, as long as the flag exists."""
    with _lock:
        _waiting.add(flag)


def has_grown() -> None:
    """A log in this process has grown, and other threads can read what was added."""
    if _waiting:
        with _lock:
            flags = list(_waiting)
        for flag in flags:
            flag.set()
