"""Kinds of streams by name, in both directions; other packages add theirs.

An entry point of the group ``tailrace.streams`` gives a `Layer`; its name is the layer's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import UsageError
from tailrace.storage.streams.buffer import buffered_input, buffered_output
from tailrace.storage.streams.compression import ZstdInput, ZstdOutput
from tailrace.storage.streams.counting import counted_input, counted_output
from tailrace.storage.streams.read_ahead import ReadAhead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.storage.streams.base import ForwardOutput, InputStream

GROUP: Final = "tailrace.streams"


def _same(stream: Any) -> Any:
    return stream


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer on a stream: one for reading, and one for writing.

    ``input`` reverses what ``output`` does to the bytes. Each takes the stream below and returns
    the one on it, or raises UsageError if the stream below is unsuitable (`needs`). A layer for one
    direction leaves the other unchanged.
    """

    name: str
    input: Callable[[Any], InputStream] = _same
    output: Callable[[Any], ForwardOutput] = _same


_LAYERS: Final[dict[str, Layer]] = {
    layer.name: layer
    for layer in (
        Layer("buffer", buffered_input, buffered_output),
        Layer("counting", counted_input, counted_output),
        Layer("read-ahead", ReadAhead),
        Layer("zstd", ZstdInput, ZstdOutput),
    )
}


def layer(name: str) -> Layer:
    """The layer of a name: ours, or an installed package's. Raises UsageError for another."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    found = _LAYERS.get(name)
    if found is not None:
        return found
    others = entry_points(group=GROUP)
    for point in others:
        if point.name == name:
            loaded = point.load()
            if not isinstance(loaded, Layer):
                raise UsageError(f"{point.value}: an entry point of {GROUP!r} gives a Layer")
            return loaded
    known = ", ".join(sorted({*_LAYERS, *others.names}))
    raise UsageError(f"no stream is called {name!r}; known are {known}")


def stacked(layers: Iterable[Layer | str]) -> Layer:
    """Several layers as one, the lowest first."""
    parts = [layer(part) if isinstance(part, str) else part for part in layers]

    def reading(stream: Any) -> Any:
        for part in parts:
            stream = part.input(stream)
        return stream

    def writing(stream: Any) -> Any:
        for part in parts:
            stream = part.output(stream)
        return stream

    return Layer(" on ".join(part.name for part in reversed(parts)) or "nothing", reading, writing)
