"""What a stream is. Output is one method, `write`; input is one, `read`; the rest adds to them.

Streams stack: each but the lowest is built on another, and says by type what that must be able to
do; `needs` refuses the rest when the stack is built. Offsets are 64-bit and logical: those of the
bytes that were written, whatever the streams below make of them. All refusals of a store come out
as StorageError, whichever stream of a stack is asked. A stream belongs to one thread at a time.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tailrace.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

Data = bytes | bytearray | memoryview


@runtime_checkable
class OutputStream(Protocol):
    """Takes bytes."""

    def write(self, data: Data, /) -> None:
        """Append all of the data. Keeps no reference to it. Raises StorageError."""


@runtime_checkable
class InputStream(Protocol):
    """Gives bytes."""

    def read(self, count: int, /) -> bytes:
        """At most ``count`` bytes (from 1 on); fewer say nothing, none is the end.

        Raises StorageError; a later call goes on where the last that succeeded ended.
        """


@runtime_checkable
class SeekableInput(InputStream, Protocol):
    """An input that can go to an offset, though perhaps only forward."""

    def seek(self, offset: int, /) -> int:
        """Go to an offset, and return it. Raises StorageError where that is backward and cannot be.

        Behind the end nothing is read.
        """


@runtime_checkable
class RandomInput(SeekableInput, Protocol):
    """A file that is open for reading, at any offset; what is appended meanwhile is seen."""

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, into memory that is there; how many bytes came, 0 at the end."""

    def tell(self) -> int:
        """Where it stands: the offset of the next byte read."""

    def size(self) -> int:
        """The file's bytes by now. Raises StorageError."""

    def close(self) -> None:
        """Let go of it and of what lies below; a second time does nothing."""


@runtime_checkable
class RangedInput(RandomInput, Protocol):
    """An input that several threads may ask at once, also for its `size`: an object in a store."""

    def read_at(self, offset: int, count: int, /) -> bytes | memoryview:
        """``count`` bytes from an offset on, fewer only at the end; where it stands is the same."""


@runtime_checkable
class ForwardOutput(OutputStream, Protocol):
    """A file that is being written from its begin to its end.

    Every method raises StorageError where the store refuses. A `write` that failed has appended
    some first part of its data, perhaps nothing, and ``size`` says how much. A `flush` that failed
    may be tried again; a `sync` that failed has acknowledged nothing.
    """

    @property
    def size(self) -> int:
        """Bytes written, those that a stream still holds among them: where `write` goes on."""

    def flush(self) -> None:
        """Hand what streams still hold to the store: it outlives the end of this process."""

    def sync(self) -> None:
        """`flush`, and return when all that was written would outlive a power cut."""

    def close(self) -> None:
        """`flush`, and let go of the file and of what lies below; a second time does nothing.

        It is let go of also where the flush fails.
        """


@runtime_checkable
class RandomOutput(ForwardOutput, Protocol):
    """A file that is being written, and may be changed where it was written before."""

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite bytes that are there. Raises UsageError for others."""

    def truncate(self, size: int, /) -> None:
        """Cut the file back to ``size`` bytes. Raises UsageError where it has fewer."""


@runtime_checkable
class SpillOutput(RandomOutput, Protocol):
    """A file of our own, written and then read again; gone when it is closed."""

    def input(self) -> RandomInput:
        """What was written and flushed, from its begin on. It ends with the output's `close`."""


def needs(lower: object, kind: type, stream: str) -> None:
    """Refuse a stack that makes no sense. Raises UsageError naming what the lower stream lacks."""
    if isinstance(lower, kind):
        return
    names = (name for base in kind.__mro__ for name in vars(base))
    missing = sorted(
        {name for name in names if not name.startswith("_") and not hasattr(lower, name)}
    )
    raise UsageError(
        f"{stream} needs a {kind.__name__} below it; {type(lower).__name__} is none (it has no"
        f" {', '.join(missing)}): stack them in another order"
    )


def check_within(offset: int, length: int, size: int) -> None:
    """Refuse what would change bytes that are not there. Raises UsageError."""
    if offset < 0 or offset + length > size:
        raise UsageError(f"{length} bytes at {offset} do not lie within the {size} of the file")


def check_cut(size: int, there: int) -> None:
    """Refuse a cut behind the end. Raises UsageError."""
    if not 0 <= size <= there:
        raise UsageError(f"a file of {there} bytes cannot be cut to {size}")


@contextmanager
def told(name: object) -> Iterator[None]:
    """The operating system's refusals as StorageError; ``name`` is what a person calls the file."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{name}: {error.strerror or error}") from error
