"""Formats of materialised events (MWL#120, "Default materialisation format"): found by entry point.

A format turns events into bytes, and these back into offers, which a stack takes like those of a
log. ``native`` is the default (`tailrace.generators.materialise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from io import BytesIO, TextIOBase
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from tailrace.closing import Closing
from tailrace.errors import UsageError
from tailrace.plugin import plugin
from tailrace.printable import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.generators.event import ReplicationEvent
    from tailrace.generators.generator import Offer

GROUP: Final = "tailrace.materialised_formats"
"""Entry points of this group: the name is the format's, the object a `MaterialisedFormat`."""

Output = Callable[[bytes], object]
"""Takes the next bytes of a stream."""
Source = Any
"""What a stream is read from: bytes, a file, a stream of the storage layer, a socket."""


class MaterialisedWriter(Closing):
    """Writes events to a stream, in the order in which it gets them."""

    @abstractmethod
    def event(self, event: ReplicationEvent) -> None:
        """Write an event. It may be held until `flush`.

        Raises UsageError for what the format cannot hold; nothing of the event is written then.
        """

    @abstractmethod
    def flush(self) -> None:
        """Hand everything that is held to the output."""

    @abstractmethod
    def close(self) -> None:
        """`flush`, and write the stream's end. The output stays open: its owner closes it."""


class MaterialisedReader(Protocol):
    """Reads the events of a stream."""

    def offers(self) -> Iterator[Offer]:
        """Each event as an offer to a stack. Raises LogError where the stream is damaged."""

    def events(self) -> Iterator[ReplicationEvent]:
        """Each event as an object that lasts. Raises LogError where the stream is damaged."""


class MaterialisedFormat(ABC):
    """A format of materialised events."""

    name: ClassVar[str]
    """The name of its entry point."""

    @abstractmethod
    def writer(self, output: Output) -> MaterialisedWriter:
        """What writes a stream to an output."""

    @abstractmethod
    def reader(self, source: Source) -> MaterialisedReader:
        """What reads a stream."""


@cache
def format_named(name: str) -> MaterialisedFormat:
    """A format by its name. Raises UsageError for a name that no installed package offers."""
    kind = plugin(GROUP, name, "format of materialised events")
    if not (isinstance(kind, type) and issubclass(kind, MaterialisedFormat)):
        raise UsageError(f"{name} is {short_repr(kind)}, not a class of formats")
    return kind()


def output_to(target: object) -> Output:
    """The function that takes a stream's bytes: a function itself, or what writes to a file or a
    stream of the storage layer (``write``), to a socket (``sendall``), or into a bytearray.

    Raises UsageError for anything else.
    """
    if isinstance(target, bytearray):
        return target.extend
    for name in ("write", "sendall"):
        if hasattr(target, name):
            return _whole(getattr(target, name)) if name == "write" else getattr(target, name)
    if callable(target):
        return target
    raise UsageError(
        "a stream is written to a function, to an object with write or sendall, or into a"
        f" bytearray, and not to {short_repr(target)}"
    )


def reading(source: Source) -> Callable[[int], bytes]:
    """The function that gives a stream's next bytes, at most so many: of bytes, of a file or a
    stream of the storage layer (``read``), or of a socket (``recv``).

    Raises UsageError for anything else.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return BytesIO(source).read
    if isinstance(source, TextIOBase):
        raise UsageError(f"{short_repr(source)} is a text file: a stream is bytes, open it as rb")
    for name in ("read", "recv"):
        if hasattr(source, name):
            found: Callable[[int], bytes] = getattr(source, name)
            return found
    raise UsageError(
        "a stream is read from bytes, or from an object with read or recv, and not from"
        f" {short_repr(source)}"
    )


def _whole(write: Callable[[bytes], Any]) -> Output:
    """Write all of the data, also to a file without a buffer, which may take only a part."""

    def output(data: bytes) -> None:
        taken = write(data)
        while taken is not None and taken < len(data):
            data = data[taken:]
            taken = write(data)

    return output
