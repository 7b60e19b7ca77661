"""Tells whoever waits for logs to grow that a writer in this process has added to one.

Writers of other processes are not seen here: who waits also looks at the files from time to time.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

if TYPE_CHECKING:
    from threading import Event

_waiting: Final[WeakSet[Event]] = WeakSet()
_lock: Final = Lock()


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
