"""How much of a copy is kept: old files are purged by age or size, but never the current one."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tailrace.durations import UNITS
from tailrace.errors import StorageError, UsageError
from tailrace.sizes import UNITS as SIZES

if TYPE_CHECKING:
    from tailrace.storage.index import LogIndex
    from tailrace.storage.store import WritableStore

_FORM: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Retention:
    """``seconds``: files that were closed longer ago are purged. ``size``: the oldest files are
    purged while all files together have more bytes. One of the two is None.
    """

    seconds: float | None = None
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """``30d`` (w, d, h, m, s), ``500GB`` (B, kB to TB, KiB to TiB). Raises UsageError."""
        match = _FORM.fullmatch(text.strip())
        unit = match[2].lower() if match else ""
        number = float(match[1]) if match else 0.0
        if match and number > 0 and match[2] in UNITS:
            return cls(seconds=number * UNITS[match[2]])
        if number > 0 and unit in SIZES:
            return cls(size=int(number * SIZES[unit]))
        raise UsageError(f"retain: {text!r} is neither an age (30d, 12h) nor a size (500GB, 64MiB)")

    def apply(self, index: LogIndex, folder: WritableStore) -> list[str]:
        """Purge old files; returns their names. Raises StorageError."""
        names = index.names
        if len(names) < 2:
            return []
        if self.seconds is not None:
            return index.purge(before=int((time.time() - self.seconds) * 1_000_000))
        kept, left = 0, (self.size or 0) - _size(folder, names[-1])
        for name in reversed(names[:-1]):
            left -= _size(folder, name)
            if left < 0:
                break
            kept += 1
        first = len(names) - 1 - kept
        return index.purge(to=names[first]) if first else []


def _size(folder: WritableStore, name: str) -> int:
    """A file's bytes; 0 if it does not exist (`LogIndex.purge` removes it from the index)."""
    try:
        return folder.size(name)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return 0
        raise
