"""The bytes of a transaction whose end has not come yet: in memory, and past a bound in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.layout import PADDING
from tailrace.constants import HEADER_SIZE
from tailrace.storage.streams.temporary import TemporaryOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

MOST_HELD: Final = 64 << 20
"""Bytes of a transaction that are held in memory, at most."""
_BLOCK: Final = 8 << 20
_FIRST: Final = 1 << 20


class Unfinished:
    """Whole events, appended as they come, and given back once in blocks that kernels may read.

    The temporary file has no name and is gone with `clear`. Raises StorageError where it cannot be
    made or written.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._memory: Array = np.empty(_FIRST + PADDING, np.uint8)
        self._held = 0
        self._file: TemporaryOutput | None = None
        self._filed = 0

    def __len__(self) -> int:
        return self._filed + self._held

    def append(self, data: Array) -> None:
        """Take in more."""
        if self._held + len(data) > self._most and self._held:
            self._spill(self._memory[: self._held])
            self._held = 0
        if len(data) > self._most:
            self._spill(data)
            return
        wanted = self._held + len(data) + PADDING
        if wanted > len(self._memory):
            larger = np.empty(min(2 * wanted, self._most + PADDING), np.uint8)
            larger[: self._held] = self._memory[: self._held]
            self._memory = larger
        self._memory[self._held : self._held + len(data)] = data
        self._held += len(data)

    def _spill(self, data: Array) -> None:
        if self._file is None:
            self._file = TemporaryOutput("the temporary file of a transaction")
        self._file.write(data.data)
        self._filed += len(data)

    def blocks(self) -> Iterator[Array]:
        """What was taken in, in order and whole events each; `PADDING` bytes may be read behind."""
        if self._file is not None:
            if self._held:
                self._spill(self._memory[: self._held])
                self._held = 0
            yield from self._from_file(self._file)
        elif self._held:
            yield self._memory[: self._held]

    def _from_file(self, file: TemporaryOutput) -> Iterator[Array]:
        file.flush()
        source = file.input()
        size, held, left = _BLOCK, 0, self._filed
        memory = np.empty(size + PADDING, np.uint8)
        while left:
            while held < size and left:
                count = source.readinto(memory.data[held : min(size, held + left)])
                held += count
                left -= count
            end, wanted = _whole(memory, held)
            if end:
                yield memory[:end]
                memory[: held - end] = memory[end:held].copy()
                held -= end
            if wanted > size:
                size = wanted
                larger = np.empty(size + PADDING, np.uint8)
                larger[:held] = memory[:held]
                memory = larger

    def clear(self) -> None:
        """Let go of it all."""
        self._held = self._filed = 0
        if len(self._memory) > _BLOCK:
            self._memory = np.empty(_FIRST + PADDING, np.uint8)
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _whole(memory: Array, size: int) -> tuple[int, int]:
    """Where the last whole event in ``size`` bytes ends, and the size of the one that is begun."""
    at = 0
    header = memory.data
    while size - at >= HEADER_SIZE:
        length = int.from_bytes(header[at + 9 : at + 13], "little")
        if size - at < length:
            return at, length
        at += length
    return at, HEADER_SIZE
