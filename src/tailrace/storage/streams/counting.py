"""How many bytes pass, and by how many calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from tailrace.storage.streams.base import (
    ForwardOutput,
    InputStream,
    RandomInput,
    RandomOutput,
    end_output,
    needs,
)
from tailrace.storage.streams.input import ForwardInput

if TYPE_CHECKING:
    from tailrace.storage.streams.base import Data


class CountingInput(ForwardInput):
    """Counts reads: ``bytes_read`` by ``reads`` successful calls."""

    def __init__(self, lower: InputStream) -> None:
        super().__init__(lower)
        self.bytes_read = 0
        self.reads = 0

    def _next(self, count: int) -> bytes:
        data = self.lower.read(count)
        self.bytes_read += len(data)
        self.reads += 1
        return data


class CountingRandomInput(CountingInput):
    """As `CountingInput`, at any offset, and ``seeks``."""

    lower: RandomInput

    def __init__(self, lower: RandomInput) -> None:
        needs(lower, RandomInput, "CountingRandomInput")
        super().__init__(lower)
        self.seeks = 0
        self.tell = lower.tell  # type: ignore[method-assign]
        self.size = lower.size

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes."""
        data = self.lower.read(count)
        self.bytes_read += len(data)
        self.reads += 1
        return data

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, into the given memory."""
        count = self.lower.readinto(view)
        self.bytes_read += count
        self.reads += 1
        return count

    def seek(self, offset: int, /) -> int:
        """Go to an offset."""
        there = self.lower.seek(offset)
        self.seeks += 1
        return there


class CountingOutput:
    """Counts writes: ``bytes_written`` by ``writes`` successful calls, and ``syncs``."""

    def __init__(self, lower: ForwardOutput) -> None:
        needs(lower, ForwardOutput, type(self).__name__)
        self.lower = lower
        self.bytes_written = 0
        self.writes = 0
        self.syncs = 0
        self.flush = lower.flush

    @property
    def size(self) -> int:
        """Bytes written."""
        return self.lower.size

    def write(self, data: Data, /) -> None:
        """Append."""
        self.lower.write(data)
        self.bytes_written += len(data)
        self.writes += 1

    def sync(self) -> None:
        """Return when what was written would outlive a power cut."""
        self.lower.sync()
        self.syncs += 1

    def close(self) -> None:
        """Close it, and the stream below."""
        end_output(self)
        self.lower.close()


class CountingRandomOutput(CountingOutput):
    """As `CountingOutput`, and ``updates`` and ``cuts``; updates count as no written bytes."""

    lower: RandomOutput

    def __init__(self, lower: RandomOutput) -> None:
        needs(lower, RandomOutput, type(self).__name__)
        super().__init__(lower)
        self.updates = 0
        self.cuts = 0

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes."""
        self.lower.update(offset, data)
        self.updates += 1

    def truncate(self, size: int, /) -> None:
        """Cut the file back."""
        self.lower.truncate(size)
        self.cuts += 1


@overload
def counted_input(lower: RandomInput) -> CountingRandomInput: ...
@overload
def counted_input(lower: InputStream) -> CountingInput: ...
def counted_input(lower: InputStream) -> CountingInput:
    """The counting input that can do what the lower stream can."""
    return CountingRandomInput(lower) if isinstance(lower, RandomInput) else CountingInput(lower)


@overload
def counted_output(lower: RandomOutput) -> CountingRandomOutput: ...
@overload
def counted_output(lower: ForwardOutput) -> CountingOutput: ...
def counted_output(lower: ForwardOutput) -> CountingOutput:
    """The counting output that can do what the lower stream can."""
    return CountingRandomOutput(lower) if isinstance(lower, RandomOutput) else CountingOutput(lower)
