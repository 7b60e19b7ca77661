"""The layers that the tests stack, and stores on a real disk."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace.storage.encryption.keystream import Keystream, KeystreamInput, KeystreamOutput
from tailrace.storage.encryption.mysql import HEADER_SIZE
from tailrace.storage.streams.base import RandomInput, RandomOutput, needs
from tailrace.storage.streams.buffer import buffered_input, buffered_output
from tailrace.storage.streams.layer import Layer, layer
from tailrace.storage.streams.read_ahead import ReadAhead
from tailrace.testing import Faults, FaultyOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.storage.streams.base import SpillOutput

SMALL_BUFFER = Layer(
    "small buffer", partial(buffered_input, limit=100), partial(buffered_output, limit=100)
)
SMALL_PIECES = Layer("small read-ahead", partial(ReadAhead, block=1000, first=100, ahead=3))
_KEYSTREAM = Keystream(bytes(range(32)), bytes(8))


def _decrypted(lower: Any) -> KeystreamInput:
    needs(lower, RandomInput, "KeystreamInput")
    return KeystreamInput(lower, _KEYSTREAM, HEADER_SIZE)


def _encrypted(lower: Any) -> KeystreamOutput:
    needs(lower, RandomOutput, "KeystreamOutput")
    lower.write(bytes(HEADER_SIZE))  # where the header is
    return KeystreamOutput(lower, _KEYSTREAM, HEADER_SIZE)


ENCRYPTION = Layer("encryption", _decrypted, _encrypted)
"""MySQL's, for any bytes; MariaDB's takes events only, and tests/storage/encryption has it."""
LAYERS = [
    layer("buffer"),
    layer("counting"),
    layer("read-ahead"),
    layer("zstd"),
    SMALL_BUFFER,
    SMALL_PIECES,
    ENCRYPTION,
]
FORWARD = {"zstd"}
"""These give no random stream, whatever lies below."""
RANDOM = {"read-ahead", "small read-ahead", "encryption"}
"""These need a random input below."""


def senseless(stack: list[Layer]) -> bool:
    """Whether a stack, lowest first, asks for random reading above what cannot do it."""
    forward = False
    for each in stack:
        if forward and each.name in RANDOM:
            return True
        forward = forward or each.name in FORWARD
    return False


def content(source: Any) -> bytes:
    """Everything in a source of the contract's, also after a refusal."""
    if isinstance(source, RandomInput):
        source.seek(0)
    pieces = []
    while piece := source.read(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def closes(stream: Any, source: Any) -> Any:
    """An input that was filled from a source; it closes the source, too."""
    close = stream.close

    def both() -> None:
        close()
        source.close()

    stream.close = both
    return stream


class RefusingSystem:
    """`os` as `tailrace.storage.streams.file` sees it: one call is refused, a write by halves."""

    def __init__(self, faults: Faults, share: float) -> None:
        self._faults = faults
        self._share = share
        self._refuse = False

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, handle: int, data: Any, offset: int) -> int:
        if self._refuse or self._faults.due():
            part = memoryview(data)[: min(int(len(data) * self._share), len(data) - 1)]
            if not part or self._refuse:
                self._refuse = False
                raise OSError(self._faults.number, self._faults.told)
            self._refuse = True  # as a full disk does: it takes some, and then none
            return os.pwrite(handle, part, offset)
        return os.pwrite(handle, data, offset)

    def fsync(self, handle: int) -> None:
        self._check()
        os.fsync(handle)

    def ftruncate(self, handle: int, size: int) -> None:
        self._check()
        os.ftruncate(handle, size)

    def _check(self) -> None:
        if self._faults.due():
            raise OSError(self._faults.number, self._faults.told)


class OnDisk(FaultyOutput):
    """A store that is a stream of ours, on a real file."""

    def __init__(self, output: SpillOutput, raw: Callable[[], bytes], faults: Faults) -> None:
        self._output = output
        self._raw = raw
        self.faults = faults
        self.durable = b""
        self.closed = False

    @property
    def data(self) -> bytes:
        return self._raw()

    @property
    def size(self) -> int:
        return self._output.size

    def write(self, data: Any, /) -> None:
        self._output.write(data)

    def update(self, offset: int, data: Any, /) -> None:
        self._output.update(offset, data)

    def truncate(self, size: int, /) -> None:
        self._output.truncate(size)

    def flush(self) -> None:
        self._output.flush()

    def sync(self) -> None:
        self._output.sync()
        self.durable = self._raw()

    def close(self) -> None:
        if not self.closed:
            self.durable = self._raw()
            self._last = self.durable
            self._raw = lambda: self._last
        self.closed = True
        self._output.close()


_TABLE = bytes(each ^ 0x55 for each in range(256))


class MaskedInput:
    """A layer as another package could have it: every byte is another one, at any offset."""

    def __init__(self, lower: RandomInput) -> None:
        needs(lower, RandomInput, "MaskedInput")
        self.lower = lower
        self.seek, self.tell, self.size = lower.seek, lower.tell, lower.size
        self.close = lower.close

    def read(self, count: int, /) -> bytes:
        return self.lower.read(count).translate(_TABLE)

    def readinto(self, view: Any, /) -> int:
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


class MaskedOutput:
    def __init__(self, lower: RandomOutput) -> None:
        needs(lower, RandomOutput, "MaskedOutput")
        self.lower = lower

    def truncate(self, size: int, /) -> None:
        self.lower.truncate(size)

    def flush(self) -> None:
        self.lower.flush()

    def sync(self) -> None:
        self.lower.sync()

    def close(self) -> None:
        self.lower.close()

    @property
    def size(self) -> int:
        return self.lower.size

    def write(self, data: Any, /) -> None:
        self.lower.write(bytes(data).translate(_TABLE))

    def update(self, offset: int, data: Any, /) -> None:
        self.lower.update(offset, bytes(data).translate(_TABLE))


MASKED = Layer("masked", MaskedInput, MaskedOutput, suffix=".masked")
