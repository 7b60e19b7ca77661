"""Rows of prepared XA transactions, until these are committed or rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from tailrace.closing import Closing
from tailrace.storage.spill import SpilledObjects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.events.transaction import XaName

T = TypeVar("T")


class Prepared(Closing, Generic[T]):
    """Rows (batches, or changes) by the name of their XA transaction.

    Of all transactions together ``most`` bytes are held in memory; more go to temporary files.
    ``shared`` is for `SpilledObjects`. Raises StorageError if such a file cannot be created or
    written.
    """

    def __init__(self, most: int, *, shared: tuple[type, ...] = ()) -> None:
        self._most = most
        self._shared = shared
        self._held: dict[XaName, SpilledObjects[T]] = {}

    def begin(self, name: XaName) -> SpilledObjects[T]:
        """Where a transaction's rows are to be appended; earlier ones of its name are dropped."""
        self.drop(name)
        room = self._most - sum(each.in_memory for each in self._held.values())
        held = self._held[name] = SpilledObjects(max(room, 0), shared=self._shared)
        return held

    def take(self, name: XaName) -> Iterator[T]:
        """Give the rows of a transaction, in order, and release them."""
        if name in self._held:
            yield from self._held[name]
            self.drop(name)

    def drop(self, name: XaName) -> int:
        """Drop a transaction's rows, if there are any; returns how many."""
        held = self._held.pop(name, None)
        if held is None:
            return 0
        count = len(held)
        held.close()
        return count

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: XaName) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[XaName]:
        """The names, in the order in which they were prepared."""
        return iter(list(self._held))

    def close(self) -> None:
        """Release all."""
        for name in self:
            self.drop(name)
