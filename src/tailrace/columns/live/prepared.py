"""Rows of prepared XA transactions, until these are committed or rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.storage.spill import SpilledObjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from tailrace.transactions.statements import XaName

_MOST_HELD: Final = 64 << 20
"""Bytes of batches that are held in memory, for all transactions together."""


class Prepared:
    """Batches by the name of their XA transaction; past a limit they go to temporary files.

    Raises StorageError if such a file cannot be created or written.
    """

    def __init__(self, most: int = _MOST_HELD) -> None:
        self._most = most
        self._held: dict[XaName, SpilledObjects[pa.RecordBatch]] = {}

    def hold(self, name: XaName, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep a transaction's batches; earlier ones of the same name are dropped."""
        self.drop(name)
        room = self._most - sum(each.in_memory for each in self._held.values())
        held = self._held[name] = SpilledObjects(room)
        for batch in batches:
            held.append(batch, batch.nbytes)

    def take(self, name: XaName) -> Iterator[pa.RecordBatch]:
        """Give the batches of a transaction, in order, and release them."""
        if name in self._held:
            yield from self._held[name]
            self.drop(name)

    def drop(self, name: XaName) -> None:
        """Drop a transaction's batches, if there are any."""
        if (held := self._held.pop(name, None)) is not None:
            held.clear()

    def __contains__(self, name: XaName) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[XaName]:
        """The names, in the order in which they were prepared."""
        return iter(list(self._held))

    def close(self) -> None:
        """Release all."""
        for name in self:
            self.drop(name)
