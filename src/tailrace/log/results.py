"""What reading functions return: an iterator that is closed as a context manager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from tailrace.closing import Closing, NotPickled

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Results(NotPickled, Closing, Iterator[T]):
    """The items of a source that is read while one iterates.

    ``close`` may be called by another thread, also while one waits for the next item: the iteration
    then ends. Several threads may iterate: each item goes to one of them. ``stop`` ends the
    reading, from any thread. After an error the iteration is over.
    """

    def __init__(self, items: Iterator[T], stop: Callable[[], None]) -> None:
        self._items = items
        self._stop = stop
        self._is_closed = False
        self._taking = RLock()

    def __next__(self) -> T:
        with self._taking:
            return self._next()

    def _next(self) -> T:
        if not self._is_closed:
            try:
                item = next(self._items)
            except Exception:
                closed, self._is_closed = self._is_closed, True
                self._release()
                if closed:  # what a reading that was stopped raises is no error
                    raise StopIteration from None
                raise
            if not self._is_closed:
                return item
        self._release()
        raise StopIteration

    def close(self) -> None:
        """End the iteration, and release files and connections. May be called from any thread."""
        self._is_closed = True
        self._stop()
        self._release()

    def _release(self) -> None:
        """Close the iterator, unless another thread is in it, which then closes it."""
        close = getattr(self._items, "close", None)
        if close is not None:
            with suppress(ValueError):  # "generator already executing"
                close()
