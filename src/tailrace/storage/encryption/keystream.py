"""Files that are encrypted as one stream: AES-CTR, any piece at any offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tailrace.storage.encryption.ciphers import BLOCK, ctr
from tailrace.storage.streams.base import check_cut, check_within
from tailrace.storage.streams.input import OffsetInput, at

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

    from tailrace.storage.streams.base import Data, RandomInput, RandomOutput


class Keystream:
    """The keystream that encrypts and decrypts a file: AES-CTR, counted from offset 0 on.

    The counter block is the ``nonce`` (8 bytes) and the block's number, big-endian. For a piece
    that follows the last one, the cipher continues.
    """

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._key = key
        self._nonce = nonce
        self._context: CipherContext | None = None
        self._offset = 0

    def apply(self, data: Data, offset: int) -> bytes:
        """Encrypt or decrypt bytes at an offset."""
        made = self._at(offset).update(data)
        self._offset = offset + len(data)
        return made

    def apply_into(self, view: memoryview, offset: int) -> None:
        """`apply` in place; ``view`` is writable bytes."""
        self._at(offset).update_into(view, view)
        self._offset = offset + len(view)

    def _at(self, offset: int) -> CipherContext:
        context = self._context
        if context is None or offset != self._offset:
            block, into = divmod(offset, BLOCK)
            context = self._context = ctr(self._key, self._nonce + block.to_bytes(8, "big"))
            if into:
                context.update(bytes(into))
        return context


class Keys(Protocol):
    """What encrypts and decrypts a file: a `Keystream`, or several."""

    def apply(self, data: Data, offset: int) -> bytes:
        """Encrypt or decrypt bytes at an offset."""

    def apply_into(self, view: memoryview, offset: int) -> None:
        """`apply` in place."""


class KeystreamInput(OffsetInput):
    """The plain bytes of an encrypted file, after ``skip`` bytes that are its header."""

    def __init__(self, lower: RandomInput, keys: Keys, skip: int = 0) -> None:
        self._lower = lower
        self._keys = keys
        self._skip = skip

    def _read_at(self, offset: int, count: int) -> bytes:
        data = at(self._lower, offset + self._skip).read(count)
        return self._keys.apply(data, offset) if data else b""

    def _readinto_at(self, offset: int, view: bytearray | memoryview) -> int:
        count = at(self._lower, offset + self._skip).readinto(view)
        if count:
            self._keys.apply_into(memoryview(view)[:count], offset)
        return count

    def size(self) -> int:
        """The plain file's current size in bytes."""
        return max(self._lower.size() - self._skip, 0)

    def close(self) -> None:
        """Close it, and the stream below."""
        super().close()
        self._lower.close()


class KeystreamOutput:
    """A file that is encrypted as it is written, after ``skip`` bytes that are its header.

    Bytes written after a `truncate`, and those of `update`, are encrypted with the same keystream
    as the bytes that they replace. Of logs, MySQL does the same: a file has one password.
    """

    def __init__(self, lower: RandomOutput, keys: Keys, skip: int = 0) -> None:
        self._lower = lower
        self._keys = keys
        self._skip = skip

    @property
    def size(self) -> int:
        """The plain file's bytes."""
        return max(self._lower.size - self._skip, 0)

    def write(self, data: Data, /) -> None:
        """Append."""
        self._lower.write(self._keys.apply(data, self.size))

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes."""
        check_within(offset, len(data), self.size)
        self._lower.update(offset + self._skip, self._keys.apply(data, offset))

    def truncate(self, size: int, /) -> None:
        """Truncate the file."""
        check_cut(size, self.size)
        self._lower.truncate(size + self._skip)

    def flush(self) -> None:
        """Flush the stream below."""
        self._lower.flush()

    def sync(self) -> None:
        """Sync the stream below."""
        self._lower.sync()

    def close(self) -> None:
        """Close the stream below."""
        self._lower.close()
