"""The bytes of a transaction whose end has not come yet: in memory, past a limit in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tailrace.columns.read.blocks import GrowingMemory
from tailrace.constants import HEADER_SIZE
from tailrace.storage.streams.temporary import TemporaryOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

MOST_HELD: Final = 64 << 20
"""The most bytes of a transaction that are held in memory."""
_BLOCK: Final = 8 << 20


class Unfinished:
    """Whole events, appended as they come, and given back once in blocks that kernels may read.

    The temporary file has no name and disappears with `clear`. Raises StorageError if it cannot be
    created or written.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._memory = GrowingMemory()
        self._file: TemporaryOutput | None = None
        self._filed = 0

    def __len__(self) -> int:
        return self._filed + self._memory.size

    def append(self, data: Array) -> None:
        """Take in more."""
        if self._memory.size and self._memory.size + len(data) > self._most:
            self._spill_memory()
        if len(data) > self._most:
            self._spill(data)
        else:
            self._memory.add(data)

    def _spill_memory(self) -> None:
        self._spill(self._memory.memory[: self._memory.size])
        self._memory.size = 0

    def _spill(self, data: Array) -> None:
        if self._file is None:
            self._file = TemporaryOutput("the temporary file of a transaction")
        self._file.write(data.data)
        self._filed += len(data)

    def blocks(self) -> Iterator[Array]:
        """All that was appended, in order and in whole events; `PADDING` bytes after each may be
        read.
        """
        if self._file is not None:
            self._spill_memory()
            yield from self._from_file(self._file)
        elif self._memory.size:
            yield self._memory.memory[: self._memory.size]

    def _from_file(self, file: TemporaryOutput) -> Iterator[Array]:
        file.flush()
        source = file.input()
        block, size, left = GrowingMemory(), _BLOCK, self._filed
        while left:
            count = min(size - block.size, left)
            block.read(source.readinto, block.size + count)
            left -= count
            end, wanted = _whole(block.memory, block.size)
            if end:
                yield block.memory[:end]
                block.drop(end)
            size = max(size, wanted)

    def clear(self) -> None:
        """Release everything."""
        self._filed = self._memory.size = 0
        if len(self._memory.memory) > _BLOCK:
            self._memory = GrowingMemory()
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _whole(memory: Array, size: int) -> tuple[int, int]:
    """Where the last whole event in ``size`` bytes ends, and the size of the incomplete one after
    it.
    """
    at = 0
    header = memory.data
    while size - at >= HEADER_SIZE:
        length = int.from_bytes(header[at + 9 : at + 13], "little")
        if size - at < length:
            return at, length
        at += length
    return at, HEADER_SIZE
