"""The default format of materialised events (docs/design/materialised.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tailrace.generators.formats import MaterialisedFormat
from tailrace.generators.materialise.frames import NativeReader
from tailrace.generators.materialise.writer import NativeWriter

if TYPE_CHECKING:
    from tailrace.generators.formats import Output, Source


class NativeFormat(MaterialisedFormat):
    """Endian-free, versioned, self-describing, and filterable by the heads of frames."""

    name: ClassVar[str] = "native"

    def writer(self, output: Output) -> NativeWriter:
        """What writes a stream to an output."""
        return NativeWriter(output)

    def reader(self, source: Source) -> NativeReader:
        """What reads a stream."""
        return NativeReader(source)
