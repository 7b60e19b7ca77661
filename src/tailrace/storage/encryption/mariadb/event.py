"""How MariaDB encrypts one event (facts sheet 7.2), and how the mode is found out.

The event keeps its length. Its length field (offset 9) is clear: the four bytes that belong there
are at offset 0, and the four bytes from there, the timestamp, are encrypted in their place.
Everything from offset 4 on is one text under the log's key; its initial vector is the log's nonce
and the event's offset in the file. There is no padding: in CBC, a last partial block is XORed with
the encrypted initial vector.

Source: MariaDB 10.11, ``sql/log_event.cc`` (``Binlog_crypt_data``, ``decrypt_event``),
``mysys_ssl/my_crypt.cc`` (``MyCTX_nopad``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from zlib import crc32

from tailrace.constants import CHECKSUM_SIZE
from tailrace.events.walk import LENGTH_AT, LENGTH_END, event_length
from tailrace.storage.encryption.ciphers import BLOCK, cbc, ctr, ecb

TEXT_AT: Final = 4
_LOG_POS: Final = slice(13, 17)
_LOW: Final = 0xFFFFFFFF


class Mode(StrEnum):
    """``file_key_management_encryption_algorithm``; the log does not say which one it has."""

    CBC = "aes_cbc"
    CTR = "aes_ctr"


class EventCipher:
    """A log's key, nonce (12 bytes) and mode."""

    def __init__(self, key: bytes, nonce: bytes, mode: Mode) -> None:
        self.key = key
        self.nonce = nonce
        self.mode = mode
        self._blocks = ecb(key, encrypt=True)

    def iv(self, offset: int) -> bytes:
        """The initial vector of the event at an offset of the file."""
        return self.nonce + (offset & _LOW).to_bytes(4, "little")

    def decrypt(self, raw: bytes, offset: int) -> bytes:
        """Decrypt a whole event, or the possible part of its beginning, of at least 13 bytes.

        In CBC that is up to the last whole block of the given bytes.
        """
        text = raw[TEXT_AT:LENGTH_AT] + raw[:4] + raw[LENGTH_END:]
        whole = event_length(raw)
        iv = self.iv(offset)
        if self.mode is Mode.CTR:
            plain = ctr(self.key, iv).update(text)
        else:
            full = len(text) - len(text) % BLOCK
            plain = cbc(self.key, iv, encrypt=False).update(text[:full])
            if len(raw) == whole:
                plain += self.tail(text[full:], iv)
        return _moved(plain, whole) if plain else b""  # a partial block cannot be decrypted

    def encrypt(self, plain: bytes, offset: int) -> bytes:
        """A whole event."""
        text = plain[TEXT_AT:LENGTH_AT] + plain[:4] + plain[LENGTH_END:]
        iv = self.iv(offset)
        if self.mode is Mode.CTR:
            made = ctr(self.key, iv).update(text)
        else:
            full = len(text) - len(text) % BLOCK
            made = cbc(self.key, iv, encrypt=True).update(text[:full])
            made += self.tail(text[full:], iv)
        return _moved(made, len(plain))

    def tail(self, text: bytes, iv: bytes) -> bytes:
        """Encrypt or decrypt the partial block that CBC leaves over."""
        mask = self._blocks.update(iv)
        return bytes(a ^ b for a, b in zip(text, mask, strict=False))


def _moved(text: bytes, length: int) -> bytes:
    """Move four bytes of the text to the event's beginning, and put its length in their place."""
    at = LENGTH_AT - TEXT_AT
    return text[at : at + 4] + text[:at] + length.to_bytes(4, "little") + text[at + 4 :]


def sound(plain: bytes, offset: int, *, checksums: bool) -> bool:
    """Whether a decrypted event is valid: by its checksum, or by its end position (or none)."""
    if checksums:
        stored = int.from_bytes(plain[-CHECKSUM_SIZE:], "little")
        return crc32(memoryview(plain)[:-CHECKSUM_SIZE]) == stored
    return int.from_bytes(plain[_LOG_POS], "little") in {0, (offset + len(plain)) & _LOW}
