"""Resolved table maps, which the plan kernel finds by their bytes, without Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames import plan as k
from tailrace.columns.native import kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = np.ndarray[Any, Any]

_IDS: Final = 1 << 14
"""The most table ids that one statement may use."""


class KnownTableMaps:
    """An open hash table from a table map's bytes (after id and flags) to a slot.

    ``attach`` writes its address, and that of the table from ids to slots, into the plan's frame;
    it must be called again after each `add` and `clear`.
    """

    def __init__(self) -> None:
        self._ids = np.full((_IDS, k.ID_WORDS), -1, np.int64)
        self._ids[:, k.I_KNOWN] = 0
        self._bodies: list[tuple[Array, int, int]] = []
        self._places = np.zeros((256, k.KNOWN_WORDS), np.int64)

    def clear(self) -> None:
        """Forget all, because definitions of tables have changed."""
        self._bodies.clear()
        self._places[:] = 0

    def add(self, body: bytes, slot: int) -> None:
        """Let table maps with this body mean ``slot``."""
        data = np.frombuffer(body + bytes(k.PADDING), np.uint8)
        self._bodies.append((data, len(body), slot))
        if 2 * len(self._bodies) > len(self._places):
            self._places = np.zeros((4 * len(self._places), k.KNOWN_WORDS), np.int64)
            self._ids[:, k.I_KNOWN] = 0  # these pointed into the smaller table
            for each in self._bodies:
                self._insert(*each)
        else:
            self._insert(data, len(body), slot)

    def _insert(self, data: Array, size: int, slot: int) -> None:
        mixed = kernel("hash_bytes")(data.ctypes.data, size)
        place = mixed & (len(self._places) - 1)
        while self._places[place, k.K_SIZE]:
            place = (place + 1) & (len(self._places) - 1)
        self._places[place] = mixed, data.ctypes.data, size, slot

    def slot_of(self, table_id: int, generation: int) -> int | None:
        """The slot that a table id means in the statement under way."""
        ids = self._ids
        found = (ids[:, k.I_ID] == table_id) & (ids[:, k.I_GENERATION] == generation)
        return int(ids[found, k.I_SLOT][0]) if found.any() else None

    def slots_of(self, generation: int) -> set[int]:
        """The slots that table ids mean in the statement under way."""
        return set(self._ids[self._ids[:, k.I_GENERATION] == generation, k.I_SLOT].tolist())

    def redirect(self, generation: int, slots: Mapping[int, int]) -> None:
        """Replace the slot of each table id of the current statement by its entry in ``slots``."""
        rows = np.flatnonzero(self._ids[:, k.I_GENERATION] == generation)
        self._ids[rows, k.I_SLOT] = [slots[slot] for slot in self._ids[rows, k.I_SLOT].tolist()]

    def attach(self, frame: Array) -> None:
        """Write the addresses of the tables into the plan's frame."""
        frame[k.KNOWN] = self._places.ctypes.data
        frame[k.KNOWN_MASK] = len(self._places) - 1
        frame[k.IDS] = self._ids.ctypes.data
        frame[k.IDS_MASK] = _IDS - 1
