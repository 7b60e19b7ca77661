"""The protocols of streams. Output is one method, `write`; input is one, `read`; others add to
them.

Streams stack: each but the lowest is built on another, and declares by type what that one must
support; `needs` rejects others when the stack is built. Offsets are 64-bit and logical: they count
the bytes that were written, not the bytes that lower streams make of them. Every stream of a stack
raises a store's errors as StorageError. A stream belongs to one thread at a time.
"""

from __future__ import annotations

from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, NoReturn, Protocol, runtime_checkable

from tailrace.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        """At most ``count`` bytes (1 or more); fewer do not mean the end, none does.

        Raises StorageError, also after ``close``; a later call continues where the last successful
        one ended. Raises UsageError for another count than a number from 0 on, also for -1 and
        None, by which Python's files read everything.
        """


@runtime_checkable
class SeekableInput(InputStream, Protocol):
    """An input that can go to an offset, though perhaps only forward."""

    def seek(self, offset: int, /) -> int:
        """Go to an offset, and return it. Reading after the end gives nothing, however far.

        Raises StorageError where that is backward and cannot be, and after ``close``. Raises
        UsageError for another offset than a number from 0 on, and stays where it is.
        """


@runtime_checkable
class RandomInput(SeekableInput, Protocol):
    """A file that is open for reading, at any offset; what is appended meanwhile is seen."""

    def readinto(self, view: bytearray | memoryview, /) -> int:
        """As `read`, into given memory; how many bytes came, 0 at the end."""

    def tell(self) -> int:
        """Where it stands: the offset of the next byte read."""

    def size(self) -> int:
        """The file's bytes by now. Raises StorageError."""

    def close(self) -> None:
        """Close it and the streams below; closing again does nothing.

        Afterwards `read`, `readinto`, `seek` and `size` raise StorageError.
        """


@runtime_checkable
class InputFile(RandomInput, Protocol):
    """A `RandomInput` that says whether it is open, as those of stores do."""

    @property
    def is_open(self) -> bool:
        """Whether it can be read: until it is closed."""


@runtime_checkable
class RangedInput(RandomInput, Protocol):
    """An input that several threads may read at once, also its `size`: an object in a store."""

    def read_at(self, offset: int, count: int, /) -> bytes | memoryview:
        """``count`` bytes from an offset on, fewer only at the end; where it stands is the same."""


@runtime_checkable
class ForwardOutput(OutputStream, Protocol):
    """A file that is being written from its beginning to its end.

    Every method raises StorageError if the store reports an error. A `write` that failed has
    appended some first part of its data, perhaps nothing, and ``size`` says how much. A `flush`
    that failed may be tried again; a `sync` that failed has acknowledged nothing.
    """

    @property
    def size(self) -> int:
        """Bytes written, with those that a stream still holds: where `write` continues."""

    def flush(self) -> None:
        """Hand the held bytes to the store: they survive the end of this process."""

    def sync(self) -> None:
        """`flush`, and return when everything written would survive a power cut."""

    def close(self) -> None:
        """`flush`, and close the file and the streams below; closing again does nothing.

        They are closed even if the flush fails. Afterwards the other methods raise StorageError;
        ``size`` is as it was.
        """


@runtime_checkable
class RandomOutput(ForwardOutput, Protocol):
    """A file that is being written, and may be changed where it was written before."""

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes. Raises UsageError for others."""

    def truncate(self, size: int, /) -> None:
        """Truncate the file to ``size`` bytes. Raises UsageError if it has fewer."""


@runtime_checkable
class SpillOutput(RandomOutput, Protocol):
    """A temporary file, written and then read again; it is gone when it is closed."""

    def input(self) -> RandomInput:
        """The flushed bytes, from the beginning. It ends with the output's `close`."""


def needs(lower: object, kind: type, stream: str) -> None:
    """Check a stack. Raises UsageError, which names the methods that the lower stream lacks."""
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


def check_offset(offset: int) -> None:
    """Check where a `SeekableInput` is to go. Raises UsageError."""
    if not is_number(offset):
        raise UsageError(f"there is no offset {offset!r}: the first byte is at 0")


def check_count(count: int) -> None:
    """Check how much an `InputStream` is to read. Raises UsageError."""
    if not is_number(count):
        raise UsageError(f"read takes a number of bytes, at most that many come: not {count!r}")


def is_number(given: object) -> bool:
    """Whether it is a whole number from 0 on."""
    if isinstance(given, int):
        return given >= 0
    try:
        return index(given) >= 0  # type: ignore[arg-type]
    except TypeError:
        return False


def check_within(offset: int, length: int, size: int) -> None:
    """Check that a change is within the file. Raises UsageError."""
    if offset < 0 or offset + length > size:
        raise UsageError(f"{length} bytes at {offset} do not lie within the {size} of the file")


def check_cut(size: int, there: int) -> None:
    """Check that a truncation is not after the end. Raises UsageError."""
    if not 0 <= size <= there:
        raise UsageError(f"a file of {there} bytes cannot be cut to {size}")


def read_exactly(lower: RandomInput, offset: int, count: int) -> bytes:
    """Read ``count`` bytes from an offset on, fewer only at the end."""
    lower.seek(offset)
    data = lower.read(count) if count else b""
    if len(data) == count or not data:
        return data
    pieces = [data]
    count -= len(data)
    while count and (data := lower.read(count)):
        pieces.append(data)
        count -= len(data)
    return b"".join(pieces)


def refuse(stream: object, methods: Iterable[str], use: str) -> None:
    """Let these methods raise StorageError: the stream was closed, and cannot be used that way.

    They become attributes of the stream, so that it need not check at each call while it is open.
    """
    name = getattr(stream, "path", None) or getattr(stream, "name", type(stream).__name__)

    def closed(*_: object) -> NoReturn:
        raise StorageError(f"{name}: it was closed, and can no longer be {use}")

    for method in methods:
        if hasattr(stream, method):
            setattr(stream, method, closed)


def end_output(stream: ForwardOutput) -> None:
    """From now on an output is closed."""
    refuse(stream, ("write", "update", "truncate", "flush", "sync"), "written")


@contextmanager
def told(name: object) -> Iterator[None]:
    """Raise the operating system's errors as StorageError; ``name`` is the file's name in them."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{name}: {error.strerror or error}") from error
