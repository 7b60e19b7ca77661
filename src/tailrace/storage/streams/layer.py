"""Kinds of streams by name, in both directions; other packages add theirs.

An entry point of the group ``tailrace.streams`` gives a `Layer`; its name is the layer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import UsageError
from tailrace.plugin import plugin
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
    direction leaves the other unchanged. ``suffix`` is what it adds to a file's name (``.zst``).

    A log that is being written has the layers whose output is a RandomOutput and continues a file
    that has bytes already. Others are put on it when it is complete, and need a suffix for that
    (`tailrace.storage.layered`). A layer whose functions pickle goes to other processes, too.
    """

    name: str
    input: Callable[[Any], InputStream] = _same
    output: Callable[[Any], ForwardOutput] = _same
    suffix: str = ""


Layers = Layer | str | Sequence[Layer | str]
"""One layer or several, the lowest first, by name or as they are."""


_LAYERS: Final[dict[str, Layer]] = {
    layer.name: layer
    for layer in (
        Layer("buffer", buffered_input, buffered_output),
        Layer("counting", counted_input, counted_output),
        Layer("read-ahead", ReadAhead),
        Layer("zstd", ZstdInput, ZstdOutput, suffix=".zst"),
    )
}


def layer(name: str) -> Layer:
    """The layer of a name: ours, or an installed package's. Raises UsageError for another."""
    found = _LAYERS.get(name)
    if found is not None:
        return found
    loaded = plugin(GROUP, name, "stream", _LAYERS)
    if not isinstance(loaded, Layer):
        raise UsageError(f"{name}: an entry point of {GROUP!r} gives a Layer")
    return loaded


def layers_of(given: Layers | None) -> tuple[Layer, ...]:
    """The layers that an argument means, the lowest first. Raises UsageError."""
    if given is None:
        return ()
    parts = [given] if isinstance(given, (str, Layer)) else given
    if not (isinstance(parts, Sequence) and all(isinstance(one, (str, Layer)) for one in parts)):
        raise UsageError(f"layers are a Layer, a name, or a list of those, not {given!r:.200}")
    return tuple(layer(part) if isinstance(part, str) else part for part in parts)


def of_name(name: str) -> Layer | None:
    """Our layer whose suffix a file's name has; None if it has none."""
    for known in _LAYERS.values():
        if known.suffix and name.endswith(known.suffix):
            return known
    return None


def stacked(layers: Iterable[Layer | str]) -> Layer:
    """Several layers as one, the lowest first."""
    parts = layers_of(tuple(layers))

    def reading(stream: Any) -> Any:
        for part in parts:
            stream = part.input(stream)
        return stream

    def writing(stream: Any) -> Any:
        for part in parts:
            stream = part.output(stream)
        return stream

    return Layer(" on ".join(part.name for part in reversed(parts)) or "nothing", reading, writing)
