"""Buffers: small reads and writes become large ones below."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Final, overload

from tailrace.storage.streams.base import (
    ForwardOutput,
    InputStream,
    RandomInput,
    RandomOutput,
    check_count,
    check_cut,
    check_within,
    end_output,
    needs,
)
from tailrace.storage.streams.input import ForwardInput, OffsetInput, at

if TYPE_CHECKING:
    from tailrace.storage.streams.base import Data

BUFFER: Final = 1 << 18
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

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        offset = self._at
        start = offset - self._start
        try:
            data = self._held[start : start + count] if start >= 0 <= count else b""
        except TypeError:  # no number: the check is below, as small reads must not pay for it
            data = b""
        if not data:
            check_count(count)
            data = self._read_at(offset, count)
        self._at = offset + len(data)
        return data

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
    """Gathers up to ``limit`` written bytes. A piece of a quarter of that or more bypasses it if it
    does not fit.

    So does the first piece after a flush: whoever writes once before each flush gains nothing by a
    buffer.
    """

    def __init__(self, lower: ForwardOutput, limit: int = BUFFER) -> None:
        needs(lower, ForwardOutput, type(self).__name__)
        self.lower = lower
        self._held = BytesIO()
        self._hold = self._held.write
        self._end = 0  # of what is held
        self._limit = limit
        self._room = limit  # none after a flush
        self._below = lower.size

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._below + self._end

    def write(self, data: Data, /) -> None:
        """Append, in the buffer or below."""
        end = self._end + len(data)
        if end <= self._room:
            self._hold(data)
            self._end = end
            return
        if self._end:
            self._spill()
        if self._room and len(data) < self._limit // 4:
            self._end = self._hold(data)
            return
        self._room = self._limit
        try:
            self.lower.write(data)
        except BaseException:
            self._below = self.lower.size
            raise
        self._below += len(data)

    def _spill(self) -> None:
        """Write what is held. What could not be written stays held."""
        before, held = self._below, self._held
        try:
            with held.getbuffer() as view:
                self.lower.write(view[: self._end])
        except BaseException:
            self._below = self.lower.size
            rest = held.getvalue()[self._below - before : self._end]
            self._held = BytesIO()  # of the old one, the error's traceback may hold a view
            self._hold = self._held.write
            self._end = self._hold(rest)
            raise
        held.seek(0)
        self._below += self._end
        self._end = 0

    def flush(self) -> None:
        """Write what is held."""
        if self._end:
            self._spill()
        self._room = 0
        self.lower.flush()

    def sync(self) -> None:
        """Write what is held, and have it outlive a power cut."""
        if self._end:
            self._spill()
        self._room = 0
        self.lower.sync()

    def close(self) -> None:
        """Write what is held, and close what lies below."""
        try:
            if self._end:
                self._spill()
        finally:
            self._end = 0
            end_output(self)
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
            with self._held.getbuffer() as held:
                held[offset - below : offset - below + len(data)] = data

    def truncate(self, size: int, /) -> None:
        """Cut the file back."""
        below = self._below = self.lower.size  # more, if a write was interrupted after it was made
        check_cut(size, below + self._end)
        # what is cut is never written, also if that fails below
        self._end = self._held.seek(max(size - below, 0))
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
