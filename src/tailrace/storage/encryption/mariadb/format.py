"""How MariaDB encrypts a log (facts sheet 7.2): its unencrypted head, and each event after it.

The head is the format description and START_ENCRYPTION. An encrypted event keeps its length. Its
length field (offset 9) is clear: the four bytes that belong there are at offset 0, and the four
bytes from there, the timestamp, are encrypted in their place. Everything from offset 4 on is one
text under the log's key; its initial vector is the log's nonce and the event's offset in the file.
There is no padding: in CBC, a last partial block is XORed with the encrypted initial vector.

Source: MariaDB 10.11, ``sql/log_event.cc`` (``Binlog_crypt_data``, ``decrypt_event``),
``mysys_ssl/my_crypt.cc`` (``MyCTX_nopad``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self
from zlib import crc32

from tailrace.constants import (
    CHECKSUM_SIZE,
    FLAGS_AT,
    HEADER_SIZE,
    MAGIC,
    MAX_FORMAT_SIZE,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
)
from tailrace.errors import EncryptionError, MissingExtra, WrongKey
from tailrace.events import DecodeContext, FormatDescriptionEvent, StartEncryptionEvent
from tailrace.events.format_description import check_magic, first_event
from tailrace.events.walk import LENGTH_AT, LENGTH_END, ends_as_said, event_length
from tailrace.storage.encryption.ciphers import BLOCK, cbc, ctr, ecb, master_key

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring


TEXT_AT: Final = 4
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
    return ends_as_said(plain, offset, len(plain))


KEY_ID: Final = "1"
"""The key that MariaDB takes for its logs (``ENCRYPTION_KEY_SYSTEM_DATA``)."""
SCHEME: Final = 1


@dataclass(frozen=True, slots=True)
class MariadbHead:
    """``raw`` is the file up to the first encrypted event, as its server sends it.

    In it START_ENCRYPTION has the flag IGNORABLE: the events after it are not encrypted.
    """

    raw: bytes
    key_version: int
    nonce: bytes
    checksums: bool
    path: str
    event_at: int

    @property
    def size(self) -> int:
        """The offset of the first encrypted event."""
        return len(self.raw)

    @classmethod
    def parse(cls, raw: bytes, path: str) -> Self | None:
        """The head in a file's first bytes; None if nothing after it is encrypted.

        Raises LogError (EncryptionError for an unknown scheme).
        """
        at = len(MAGIC)
        start = at + event_length(raw[at : at + HEADER_SIZE])
        begun = raw[start : start + HEADER_SIZE]
        whole = raw[start : start + event_length(begun)]
        kinds = raw[at + 4 : at + 5] + begun[4:5]
        if kinds != bytes((EventType.FORMAT_DESCRIPTION, EventType.START_ENCRYPTION)):
            return None
        context = DecodeContext()
        context.decode(raw[at:start], file=path, offset=at)
        event = context.decode(whole, file=path, offset=start)
        if not isinstance(event, StartEncryptionEvent) or event.header.flags & EventFlag.IGNORABLE:
            return None
        if event.scheme != SCHEME:
            raise EncryptionError(
                f"the log is encrypted by scheme {event.scheme}, and only {SCHEME} is supported",
                file=path,
                offset=start,
                event_type="START_ENCRYPTION",
            )
        form = context.format
        checksums = form is not None and form.checksum_algorithm is ChecksumAlgorithm.CRC32
        sent = raw[:start] + _ignorable(whole, checksums=checksums)
        return cls(sent, event.key_version, event.nonce, checksums, path, start)

    def key(self, keyring: Keyring | None) -> bytes:
        """The log's key. Raises KeyMissing."""
        return master_key(keyring, KEY_ID, self.path, self.key_version, offset=self.event_at)

    def cipher(self, key: bytes, event: bytes) -> EventCipher:
        """The cipher that decrypts the first encrypted event. Raises WrongKey."""
        for mode in Mode:
            try:
                cipher = EventCipher(key, self.nonce, mode)
            except MissingExtra:
                raise
            except ValueError:
                break  # no valid size of an AES key
            plain = cipher.decrypt(event, self.size)
            if sound(plain, self.size, checksums=self.checksums):
                return cipher
        raise WrongKey(
            f"the keyring's key {KEY_ID}, version {self.key_version}, does not decrypt this log:"
            " another key encrypted it, or it is damaged here",
            file=self.path,
            offset=self.size,
        )


def head_end(raw: bytes) -> int:
    """How many bytes of a file are needed for its head, judging by the given ones."""
    at = len(MAGIC)
    for _ in range(2):
        if len(raw) < at + HEADER_SIZE:
            return at + HEADER_SIZE
        length = event_length(raw[at : at + HEADER_SIZE])
        if not HEADER_SIZE <= length <= MAX_FORMAT_SIZE:
            return len(raw)
        at += length
    return at


def _ignorable(event: bytes, *, checksums: bool) -> bytes:
    """START_ENCRYPTION as a server sends it."""
    made = bytearray(event)
    flags = int.from_bytes(made[FLAGS_AT : FLAGS_AT + 2], "little") | EventFlag.IGNORABLE
    made[FLAGS_AT : FLAGS_AT + 2] = flags.to_bytes(2, "little")
    if checksums:
        digest = crc32(memoryview(made)[:-CHECKSUM_SIZE])
        made[-CHECKSUM_SIZE:] = digest.to_bytes(CHECKSUM_SIZE, "little")
    return bytes(made)


def format_of(raw: bytes, path: str) -> tuple[FormatDescriptionEvent, int]:
    """The format description in a log's first bytes, and where it ends. Raises LogError."""
    check_magic(raw, path)
    length = event_length(raw[len(MAGIC) : len(MAGIC) + HEADER_SIZE])
    whole = raw[len(MAGIC) : len(MAGIC) + length]
    event = first_event(DecodeContext().decode(whole, file=path, offset=len(MAGIC)))
    return event, len(MAGIC) + length
