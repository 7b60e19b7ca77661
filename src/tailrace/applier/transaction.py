"""A transaction that waits to be applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tailrace.events import FormatDescription
from tailrace.log.reader import TransactionHead
from tailrace.storage.spill import SpilledObjects
from tailrace.values.schema import TableSchema

if TYPE_CHECKING:
    from tailrace.gtid import AnyGtid, GtidState
    from tailrace.position import Position

MOST_HELD: Final = 16 << 20
"""Bytes of a transaction that are held in memory; the rest is in a temporary file."""


def held_items() -> SpilledObjects[Any]:
    """Where the items of a transaction are held until its end."""
    return SpilledObjects(MOST_HELD, shared=(TableSchema, TransactionHead, FormatDescription))


@dataclass(slots=True)
class Transaction:
    """A transaction to apply: ``items`` are what its target made of the changes, in their order.

    ``gtid`` is its own, ``prepared`` that of the XA PREPARE. ``position`` is that of its last event
    in the log, ``resume`` a position from which reading finds it. ``gtids`` are those that are
    applied with it, None without GTIDs. ``rolled_back``: the source rolled it back; what is left
    are its changes to tables without transactions. ``non_transactional``: it is known to have
    changed such tables.
    """

    gtid: AnyGtid | None = None
    prepared: AnyGtid | None = None
    position: Position | None = None
    resume: Position | None = None
    gtids: GtidState | None = None
    rolled_back: bool = False
    non_transactional: bool = False
    items: SpilledObjects[Any] = field(default_factory=held_items)
    size: int = 0

    def add(self, item: Any, size: int) -> None:
        """One change more, of so many bytes."""
        self.items.append(item, size)
        self.size += size

    @property
    def name(self) -> str:
        """What errors call it."""
        place = "" if self.position is None else f" that ends at {self.position}"
        return f"the transaction{f' {self.gtid}' if self.gtid else ''}{place}"
