"""Tells whoever waits for logs to grow that a writer in this process has added to one, and how far.

Writers of other processes are not seen here: who waits also looks at the files from time to time.
"""

from __future__ import annotations

from os.path import realpath
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakSet, WeakValueDictionary, ref

if TYPE_CHECKING:
    from threading import Condition, Event

_waiting: Final[WeakSet[Event]] = WeakSet()
_reading: Final[list[ref[Readers]]] = []
_growing: Final[WeakValueDictionary[str, GrowingFile]] = WeakValueDictionary()
_lock: Final = Lock()


class GrowingFile:
    """A file that a writer in this process adds to, up to where others are to see it.

    The file itself may have more: what is not synced yet, or is being rolled back. As long as the
    object exists and is not closed, `growing_at` gives it. ``end`` is in bytes of the plain log:
    the end of a transaction.
    """

    def __init__(self, path: str, end: int) -> None:
        self._place = place_of(path)
        self.end = end
        with _lock:
            _growing[self._place] = self

    def reached(self, end: int) -> None:
        """It can be read up to here: wake whoever waits for that. Never waits."""
        self.end = end
        for each in tuple(_reading):
            readers = each()
            if readers is not None:
                readers.wake()

    def close(self) -> None:
        """It can be read to its end, and nothing is added."""
        with _lock:
            if _growing.get(self._place) is self:
                del _growing[self._place]
        has_grown()


class Readers:
    """Threads that wait for a `GrowingFile` to grow by ``changed``.

    If another thread has that condition's lock at the moment, ``later`` is set instead.
    """

    def __init__(self, changed: Condition, later: Event) -> None:
        self._changed = changed
        self._later = later
        _reading.append(ref(self, _reading.remove))

    def wake(self) -> None:
        """Have them look."""
        if self._changed.acquire(blocking=False):
            self._changed.notify_all()
            self._changed.release()
        else:
            self._later.set()


def place_of(path: str) -> str:
    """What identifies a file, for `growing_at`."""
    return realpath(path)


def growing_at(place: str) -> GrowingFile | None:
    """The file that a writer in this process adds to; None for others."""
    return _growing.get(place)


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
