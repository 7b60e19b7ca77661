"""AES-CTR over a file: any piece of it, at any offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.storage.encryption.ciphers import BLOCK, ctr

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

    from tailrace.storage.streams.base import Data


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
