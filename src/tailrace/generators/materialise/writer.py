"""The writer of the native format: events become frames, and frames blocks."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError
from tailrace.generators.event import context_of, names_of, place_of
from tailrace.generators.formats import MaterialisedWriter
from tailrace.generators.materialise import layout as t
from tailrace.generators.materialise.encode import Encoder
from tailrace.generators.row import ModifiedTable

if TYPE_CHECKING:
    from tailrace.generators.event import ReplicationEvent
    from tailrace.generators.formats import Output

_PIECE: Final = 1 << 20
_LARGE: Final = 1 << 16
_MOST_KINDS: Final = (1 << 16 - t.DEPTH_BITS) - 1


class NativeWriter(MaterialisedWriter):
    """Writes a stream in the native format.

    ``depth`` is 0, for a filter one more than that of the stream whose frames it passes on.
    ``block_size`` is in bytes: a block is written when its frames have so many.
    """

    def __init__(self, output: Output, *, depth: int = 0, block_size: int = t.BLOCK_SIZE) -> None:
        self._output = output
        self._depth = depth
        self._block_size = block_size
        self._encoder = Encoder(depth)
        self._kinds: dict[tuple[str, tuple[str, ...]], int] = {}
        self._block = bytearray()
        self._frames = 0
        self._begun = False
        self._closed = False

    def event(self, event: ReplicationEvent) -> None:
        """Write an event."""
        read = context_of(event).read
        names = names_of(event)
        kind = self._kind(event, names)
        place = place_of(event)
        put = self._encoder.put
        body = bytearray(t.HEAD + (len(names) + 7) // 8)
        table = 0
        bits = 0
        bit = 1
        for name in names:
            value = read(name)
            if value is not None:
                bits |= bit
                try:
                    put(body, value)
                except UsageError as error:
                    raise UsageError(f"{event.name}.{name}: {error}") from None
                if type(value) is ModifiedTable and not table:
                    table = self._encoder.table(value)
            bit <<= 1
        flags = t.ROLLED_BACK * place.rolled_back | t.HELD * place.held
        number = place.transaction or read("local_transaction_id") or 0
        if len(body) > t.MOST_IN_BLOCK:
            raise UsageError(f"{event.name}: {len(body)} bytes are more than an event may have")
        t.FRAME.pack_into(body, 0, len(body), kind, flags, table, number)
        start = t.HEAD
        body[start : start + (len(names) + 7) // 8] = bits.to_bytes((len(names) + 7) // 8, "little")
        self.frames(body, 1)

    def frames(self, data: bytes | bytearray | memoryview, count: int) -> None:
        """Add whole frames, after the definitions that they use."""
        encoder = self._encoder
        if encoder.defined:
            made, defined = encoder.definitions, encoder.defined
            encoder.definitions, encoder.defined = bytearray(), 0
            self.frames(made, defined)
        if self._frames and len(self._block) + len(data) > self._block_size:
            self.flush()
        self._block += data
        self._frames += count

    def _kind(self, event: ReplicationEvent, names: tuple[str, ...]) -> int:
        number = self._kinds.get((event.name, names))
        if number is None:
            if len(self._kinds) >= _MOST_KINDS:
                raise UsageError("a stream has at most 4095 kinds of events")
            number = self._encoder.number(len(self._kinds) + 1)
            self._kinds[event.name, names] = number
            self._encoder.define("event", number, event.name, names)
        return number

    def flush(self) -> None:
        """Write what is held as a block."""
        if not self._frames:
            return
        block, self._block = self._block, bytearray()
        self.block(block, self._frames)
        self._frames = 0

    def block(self, frames: bytes | bytearray | memoryview, count: int) -> None:
        """Write a whole block at once, of frames that need no definition of this writer."""
        head = t.BLOCK.pack(len(frames), count, zlib.crc32(frames))
        self._begin()
        self._out(b"".join((head, t.CHECK.pack(zlib.crc32(head)), frames)))

    def passed(self, head: bytes, frames: bytes) -> None:
        """Write a block of another stream as it is."""
        self._begin()
        if len(frames) < _LARGE:
            self._output(head + frames)
        else:  # copying them would take as long as all else
            self._output(head)
            self._out(frames)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._output(t.STREAM.pack(t.MAGIC, t.VERSION, self._depth))

    def _out(self, data: bytes) -> None:
        if len(data) <= _PIECE:
            self._output(data)
            return
        for start in range(0, len(data), _PIECE):
            self._output(data[start : start + _PIECE])

    def close(self) -> None:
        """`flush`, and write the stream's end."""
        if self._closed:
            return
        self.flush()
        self._closed = True
        self.block(b"", 0)
