"""Files that only this process reads: encrypted with keys that exist only in its memory."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from tailrace.storage.encryption.keystream import Keystream, KeystreamInput, KeystreamOutput
from tailrace.storage.streams.base import SpillOutput, needs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage.streams.base import Data

_KEY_SIZE: Final = 32
_NONCE: Final = bytes(8)


class _Keys:
    """The file's keystreams, each from an offset up to the next's.

    Bytes written after a truncation get a new one, so that no two texts share a keystream.
    """

    def __init__(self) -> None:
        self.starts = [0]
        self._streams = [_new()]

    def cut(self, size: int) -> None:
        keep = bisect_right(self.starts, size - 1) if size else 0
        self.starts[keep:] = [size]
        self._streams[keep:] = [_new()]

    def pieces(self, offset: int, count: int) -> Iterator[tuple[Keystream, int, int]]:
        """The keystream of each piece, and where the piece begins and ends in these bytes."""
        end = offset + count
        at = offset
        while at < end:
            index = bisect_right(self.starts, at) - 1
            following = self.starts[index + 1] if index + 1 < len(self.starts) else end
            stop = min(end, following)
            yield self._streams[index], at - offset, stop - offset
            at = stop

    def apply(self, data: Data, offset: int) -> bytes:
        view = memoryview(data)
        return b"".join(
            stream.apply(view[start:stop], offset + start)
            for stream, start, stop in self.pieces(offset, len(view))
        )

    def apply_into(self, view: memoryview, offset: int) -> None:
        for stream, start, stop in self.pieces(offset, len(view)):
            stream.apply_into(view[start:stop], offset + start)


def _new() -> Keystream:
    import secrets  # noqa: PLC0415 - slow, and rarely needed

    return Keystream(secrets.token_bytes(_KEY_SIZE), _NONCE)


class EncryptedTemporaryOutput(KeystreamOutput):
    """A spill file, encrypted. Only its own `input` can read it."""

    _lower: SpillOutput
    _keys: _Keys

    def __init__(self, lower: SpillOutput) -> None:
        super().__init__(lower, _Keys())

    def truncate(self, size: int, /) -> None:
        """Truncate the file; bytes written next have another key."""
        super().truncate(size)
        self._keys.cut(size)

    def close(self) -> None:
        """Close the stream below: the file is gone, and so are its keys."""
        super().close()
        self._keys = _Keys()

    def input(self) -> KeystreamInput:
        """What was written and flushed."""
        return KeystreamInput(self._lower.input(), self._keys)


def temporary(lower: SpillOutput) -> EncryptedTemporaryOutput:
    """Encrypt a spill file with random keys that are held in memory alone. Raises StorageError."""
    needs(lower, SpillOutput, "temporary")
    return EncryptedTemporaryOutput(lower)
