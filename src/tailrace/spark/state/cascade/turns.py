"""The splits of a batch, cut where statements change tables with foreign keys that change rows.

In each part the keys, and the columns that they need, are the same for all rows that matter: so
what foreign keys did in it is worked out by those at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import EventType
from tailrace.events.rows import ROWS_TYPES, WriteRowsEvent
from tailrace.storage import EventReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.columns import Split

_SMALL: Final = 1 << 16
"""Bytes of log that are looked through for changes of rows."""
_CHANGES: Final = ROWS_TYPES.difference(WriteRowsEvent.TYPES) | {EventType.TRANSACTION_PAYLOAD}


def turns(splits: Sequence[Split]) -> list[list[Split]]:
    """The splits in parts. A part in which nothing can cascade goes together with the next one."""
    found: list[list[Split]] = []
    for split in splits:
        if not found or (split.apart and _may_cascade(found[-1])):
            found.append([])
        found[-1].append(split)
    return found


def _may_cascade(splits: Sequence[Split]) -> bool:
    """Whether rows may be updated or deleted in the splits."""
    if sum(split.end - split.start for split in splits) > _SMALL:
        return True
    for split in splits:
        for offset, raw in EventReader(split.log, start=split.start):
            if offset >= split.end:
                break
            if offset >= split.start and raw[4] in _CHANGES:
                return True
    return False
