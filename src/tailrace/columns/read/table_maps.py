"""Resolved table maps, which the plan kernel finds by their bytes, without Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.frames import plan as k
from tailrace.columns.native import reading

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = np.ndarray[Any, Any]

_IDS: Final = 1 << 14
"""The most table ids that one statement may use."""


class KnownBody:
    """A table map's bytes after id and flags, for the kernel."""

    __slots__ = ("_data", "address", "mixed", "size")

    def __init__(self, body: bytes) -> None:
        self._data = np.frombuffer(body + bytes(k.PADDING), np.uint8)
        self.address = self._data.ctypes.data
        self.size = len(body)
        self.mixed: int = reading("hash_bytes")(self.address, self.size)


class KnownTableMaps:
    """An open hash table from a table map's bytes (after id and flags) to a slot.

    The plan's frame has its address, and that of the table from ids to slots.
    """

    def __init__(self, frame: Array) -> None:
        self._frame = frame
        self._ids = np.full((_IDS, k.ID_WORDS), -1, np.int64)
        self._ids[:, k.I_KNOWN] = 0
        self._bodies: list[tuple[KnownBody, int]] = []
        self._take_room(256)
        frame[k.IDS] = self._ids.ctypes.data
        frame[k.IDS_MASK] = _IDS - 1

    def _take_room(self, count: int) -> None:
        """Room for half as many table maps."""
        self._places = np.zeros((count, k.KNOWN_WORDS), np.int64)
        self._words = self._places.reshape(-1).data
        self._frame[k.KNOWN] = self._places.ctypes.data
        self._frame[k.KNOWN_MASK] = count - 1

    def clear(self) -> None:
        """Forget all, because definitions of tables have changed."""
        if self._bodies:
            self._bodies.clear()
            self._places[:] = 0

    def add(self, body: KnownBody, slot: int) -> None:
        """Let table maps with this body mean ``slot``."""
        self._bodies.append((body, slot))
        if 2 * len(self._bodies) > len(self._places):
            self._take_room(4 * len(self._places))
            self._ids[:, k.I_KNOWN] = 0  # these pointed into the smaller table
            for each in self._bodies:
                self._insert(*each)
        else:
            self._insert(body, slot)

    def _insert(self, body: KnownBody, slot: int) -> None:
        places = self._words
        mask = len(places) // k.KNOWN_WORDS - 1
        place = body.mixed & mask
        while places[place * k.KNOWN_WORDS + k.K_SIZE]:
            place = (place + 1) & mask
        at = place * k.KNOWN_WORDS
        places[at + k.K_HASH], places[at + k.K_BODY] = body.mixed, body.address
        places[at + k.K_SIZE], places[at + k.K_SLOT] = body.size, slot

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
