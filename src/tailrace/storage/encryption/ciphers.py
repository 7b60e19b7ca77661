"""AES by the ``cryptography`` package, which is loaded when something is first encrypted."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import KeyMissing
from tailrace.extras import importing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

    from tailrace.storage.keyring.base import Keyring


BLOCK: Final = 16
"""Bytes of an AES block."""


@functools.cache
def _library() -> Any:
    with importing("encryption", "an encrypted log"):
        from cryptography.hazmat.primitives import ciphers  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.ciphers import modes  # noqa: PLC0415
    return ciphers.Cipher, ciphers.algorithms.AES, modes


def ctr(key: bytes, counter: bytes) -> CipherContext:
    """AES-CTR from a counter block on: the same for encryption and decryption."""
    cipher, aes, modes = _library()
    made: CipherContext = cipher(aes(key), modes.CTR(counter)).encryptor()
    return made


def cbc(key: bytes, iv: bytes, *, encrypt: bool) -> CipherContext:
    """AES-CBC without padding."""
    cipher, aes, modes = _library()
    made = cipher(aes(key), modes.CBC(iv))
    context: CipherContext = made.encryptor() if encrypt else made.decryptor()
    return context


def ecb(key: bytes, *, encrypt: bool) -> CipherContext:
    """AES block by block: the other modes are built on it."""
    cipher, aes, modes = _library()
    made = cipher(aes(key), modes.ECB())
    context: CipherContext = made.encryptor() if encrypt else made.decryptor()
    return context


def cbc_decrypt(key: bytes, iv: bytes, data: bytes) -> bytes:
    """Whole blocks in AES-CBC, decrypted."""
    return cbc(key, iv, encrypt=False).update(data)


def cbc_encrypt(key: bytes, iv: bytes, data: bytes) -> bytes:
    """Whole blocks, encrypted in AES-CBC."""
    return cbc(key, iv, encrypt=True).update(data)


def master_key(
    keyring: Keyring | None, key_id: str, path: str, version: int | None = None, *, offset: int
) -> bytes:
    """A log's key, which it names at ``offset``. The KeyMissing that it raises names both."""
    which = key_id if version is None else f"{key_id}, version {version}"
    if keyring is None:
        raise KeyMissing(
            f"{path}: the log is encrypted with the key {which}, and no keyring was given: give the"
            " file that has it (--keyring FILE, keyring=)",
            key_id=key_id,
            version=version,
            file=path,
            offset=offset,
        )
    try:
        return keyring.key(key_id, version)
    except KeyMissing as error:
        if error.key_id != key_id:  # of the keyring itself
            raise
        raise KeyMissing(
            f"{path}: the log is encrypted with the key {which}: the keyring"
            f" {getattr(keyring, 'path', keyring)} does not have it",
            key_id=key_id,
            version=version,
            file=path,
            offset=offset,
        ) from error
