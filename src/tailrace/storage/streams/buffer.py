"""Buffers: small reads and writes become large ones below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, overload

from tailrace.storage.streams.base import (
    ForwardOutput,
    InputStream,
    RandomInput,
    RandomOutput,
    check_cut,
    check_within,
    needs,
)
from tailrace.storage.streams.input import ForwardInput, OffsetInput, at

if TYPE_CHECKING:
    from tailrace.storage.streams.base import Data

BUFFER: Final = 1 << 16
"""Bytes of a buffer, unless it is told otherwise."""


class BufferInput(ForwardInput):
    """Reads ``limit`` bytes at once; larger reads bypass the buffer."""

    def __init__(self, lower: InputStream, limit: int = BUFFER) -> None:
        super().__init__(lower)
        self._limit = limit
        self._held = b""
        self._from = 0

    def _next(self, count: int) -> bytes:
        held, start = self._held, self._from
        if start == len(held):
            if count >= self._limit:
                return self.lower.read(count)
            self._held = held = self.lower.read(self._limit)
            start = 0
        data = held[start : start + count]
        self._from = start + len(data)
        return data


class BufferRandomInput(OffsetInput):
    """As `BufferInput`, at any offset: within the buffer a seek costs nothing."""

    def __init__(self, lower: RandomInput, limit: int = BUFFER) -> None:
        needs(lower, RandomInput, "BufferRandomInput")
        self.lower = lower
        self._limit = limit
        self._held = b""
        self._start = self._at = lower.tell()

    def _read_at(self, offset: int, count: int) -> bytes:
        start = offset - self._start
        if not 0 <= start < len(self._held):
            if count >= self._limit:
                return at(self.lower, offset).read(count)
            self._held = at(self.lower, offset).read(self._limit)
            self._start, start = offset, 0
        return self._held[start : start + count]

    def _readinto_at(self, offset: int, view: bytearray | memoryview) -> int:
        if len(view) >= self._limit and not 0 <= offset - self._start < len(self._held):
            return at(self.lower, offset).readinto(view)
        return super()._readinto_at(offset, view)

    def size(self) -> int:
        """The file's current size in bytes."""
        return self.lower.size()

    def close(self) -> None:
        """Close it, and the stream below."""
        super().close()
        self.lower.close()


class BufferOutput:
    """Gathers up to ``limit`` written bytes; pieces of a quarter of that or more bypass it."""

    def __init__(self, lower: ForwardOutput, limit: int = BUFFER) -> None:
        needs(lower, ForwardOutput, type(self).__name__)
        self.lower = lower
        self._space = memoryview(bytearray(limit))
        self._least = max(limit // 4, 1)
        self._end = 0
        self._below = lower.size

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._below + self._end

    def write(self, data: Data, /) -> None:
        """Append, in the buffer or below."""
        end = self._end + len(data)
        if end > len(self._space) or len(data) >= self._least:
            self._spill()
            if len(data) >= self._least:
                self._hand_down(data)
                return
            end = len(data)
        self._space[self._end : end] = data
        self._end = end

    def _spill(self) -> None:
        """Write what is held. What could not be written stays held."""
        end = self._end
        if not end:
            return
        before = self._below
        self._end = 0
        try:
            self._hand_down(self._space[:end])
        except BaseException:
            there = self._below - before
            self._end = end - there
            self._space[: self._end] = bytes(self._space[there:end])
            raise

    def _hand_down(self, data: Data) -> None:
        try:
            self.lower.write(data)
        except BaseException:
            self._below = self.lower.size
            raise
        self._below += len(data)

    def flush(self) -> None:
        """Write what is held."""
        self._spill()
        self.lower.flush()

    def sync(self) -> None:
        """Write what is held, and have it outlive a power cut."""
        self._spill()
        self.lower.sync()

    def close(self) -> None:
        """Write what is held, and close what lies below."""
        try:
            self._spill()
        finally:
            self._end = 0
            self.lower.close()


class BufferRandomOutput(BufferOutput):
    """As `BufferOutput`; bytes that are still held are changed in the buffer."""

    lower: RandomOutput

    def __init__(self, lower: RandomOutput, limit: int = BUFFER) -> None:
        needs(lower, RandomOutput, type(self).__name__)
        super().__init__(lower, limit)

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes."""
        check_within(offset, len(data), self.size)
        below = self._below
        if offset < below < offset + len(data):
            self._spill()
            below = self._below
        if offset < below:
            self.lower.update(offset, data)
        else:
            self._space[offset - below : offset - below + len(data)] = data

    def truncate(self, size: int, /) -> None:
        """Cut the file back."""
        below = self._below
        check_cut(size, below + self._end)
        self._end = max(size - below, 0)  # what is cut is never written, also if that fails below
        if size < below:
            self.lower.truncate(size)
            self._below = size


@overload
def buffered_input(lower: RandomInput, limit: int = BUFFER) -> BufferRandomInput: ...
@overload
def buffered_input(lower: InputStream, limit: int = BUFFER) -> BufferInput | BufferRandomInput: ...
def buffered_input(lower: InputStream, limit: int = BUFFER) -> BufferInput | BufferRandomInput:
    """The buffer that can do what the lower stream can."""
    if isinstance(lower, RandomInput):
        return BufferRandomInput(lower, limit)
    return BufferInput(lower, limit)


@overload
def buffered_output(lower: RandomOutput, limit: int = BUFFER) -> BufferRandomOutput: ...
@overload
def buffered_output(lower: ForwardOutput, limit: int = BUFFER) -> BufferOutput: ...
def buffered_output(lower: ForwardOutput, limit: int = BUFFER) -> BufferOutput:
    """The buffer that can do what the lower stream can."""
    if isinstance(lower, RandomOutput):
        return BufferRandomOutput(lower, limit)
    return BufferOutput(lower, limit)
