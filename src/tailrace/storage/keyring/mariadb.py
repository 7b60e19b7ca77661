"""The key file of MariaDB's ``file_key_management``: lines ``id;key``, perhaps encrypted.

Encrypted files are made by ``openssl enc -aes-256-cbc``: ``Salted__``, eight bytes of salt, the
text in AES-256-CBC under a key and an initial vector derived from a password.

Source: MariaDB, ``plugin/file_key_management/parser.cc``.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import KeyMissing, StorageError, UsageError
from tailrace.storage.encryption.ciphers import cbc_decrypt
from tailrace.storage.keyring.base import FIRST_VERSION, KeyFile, Keys

if TYPE_CHECKING:
    from collections.abc import Iterable

SALTED: Final = b"Salted__"
LINE: Final = re.compile(rb"(\d+);((?:[0-9A-Fa-f]{2})*)")
_SALT_SIZE: Final = 8
_KEY_SIZE: Final = 32
_IV_SIZE: Final = 16
_BLOCK: Final = 16
DIGESTS: Final = ("sha1", "sha224", "sha256", "sha384", "sha512")


class MariadbKeyring(KeyFile):
    """``file_key_management``: the file that ``file_key_management_filename`` names.

    The password of an encrypted file (``file_key_management_filekey``) is in the file ``filekey``,
    or in the environment variable ``filekey_env``, but never in the keyring itself. ``digest`` and
    ``use_pbkdf2`` are the server's settings of these names; without ``digest`` each is tried. All
    its keys have version 1, as for the server.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        filekey: str | Path | None = None,
        filekey_env: str | None = None,
        digest: str | None = None,
        use_pbkdf2: int | str = 0,
    ) -> None:
        super().__init__(path)
        self.filekey = None if filekey is None else Path(str(filekey).removeprefix("FILE:"))
        self.filekey_env = filekey_env
        if digest is not None and digest not in DIGESTS:
            raise UsageError(f"digest: {digest!r} is none of {', '.join(DIGESTS)}")
        if not str(use_pbkdf2).isdecimal():
            raise UsageError(f"use_pbkdf2: {use_pbkdf2!r} is not a number of iterations")
        self.digest = digest
        self.iterations = int(use_pbkdf2)

    def parse(self, raw: bytes) -> Keys:
        """See the module. Raises StorageError; KeyMissing if a password is needed."""
        if not raw.startswith(SALTED):
            return self._lines(raw)
        secret = self._secret()
        for digest in DIGESTS if self.digest is None else (self.digest,):
            text = self._opened(raw, secret, digest)
            if text is not None:
                try:
                    return self._lines(text)
                except StorageError:
                    continue
        raise StorageError(
            f"{self.path}: the password does not decrypt this key file, or it was made with other"
            " options of openssl enc (digest, use_pbkdf2)"
        )

    def _lines(self, text: bytes) -> Keys:
        keys: Keys = {}
        for number, line in enumerate(text.split(b"\n"), 1):
            kept = line.strip()
            if not kept or kept.startswith(b"#"):
                continue
            match = LINE.match(kept)
            size = len(match[2]) // 2 if match else 0
            if match is None or size not in {16, 24, 32}:
                raise StorageError(
                    f"{self.path}: line {number} is not a key's number, a semicolon and 32, 48 or"
                    " 64 hexadecimal digits"
                )
            keys[str(int(match[1]))] = {FIRST_VERSION: bytes.fromhex(match[2].decode())}
        return keys

    def _secret(self) -> bytes:
        if self.filekey is not None:
            try:
                return self.filekey.read_bytes().rstrip(b"\r\n")
            except OSError as error:
                raise StorageError(f"{self.filekey}: {error.strerror or error}") from None
        secret = os.environ.get(self.filekey_env) if self.filekey_env else None
        if secret is None:
            wanted = (
                f"the variable {self.filekey_env} is not set" if self.filekey_env else "give it"
            )
            raise KeyMissing(
                f"{self.path}: this key file is encrypted, and its password is missing: {wanted}"
                " (file_key_management:PATH?filekey=FILE, or ?filekey_env=NAME)",
                key_id="filekey",
            )
        return secret.encode()

    def _opened(self, raw: bytes, secret: bytes, digest: str) -> bytes | None:
        """The file's text; None if it was encrypted in another way."""
        start = len(SALTED) + _SALT_SIZE
        salt, sealed = raw[len(SALTED) : start], raw[start:]
        if not sealed or len(sealed) % _BLOCK:
            raise StorageError(f"{self.path}: this encrypted key file is incomplete")
        count = _KEY_SIZE + _IV_SIZE
        if self.iterations:
            made = hashlib.pbkdf2_hmac(digest, secret, salt, self.iterations, count)
        else:
            made = _bytes_to_key(secret, salt, digest, count)
        text = cbc_decrypt(made[:_KEY_SIZE], made[_KEY_SIZE:], sealed)
        pad = text[-1]
        if not 1 <= pad <= _BLOCK or text[-pad:] != bytes([pad]) * pad:
            return None
        return text[:-pad]


def _bytes_to_key(secret: bytes, salt: bytes, digest: str, count: int) -> bytes:
    """OpenSSL's ``EVP_BytesToKey`` with one round: a chain of digests."""
    made = last = b""
    while len(made) < count:
        last = hashlib.new(digest, last + secret + salt).digest()
        made += last
    return made[:count]


def lines_of(head: bytes) -> Iterable[bytes]:
    """The lines of a file's first bytes that are neither empty nor comments."""
    lines = (line.strip() for line in head.split(b"\n"))
    return [line for line in lines if line and not line.startswith(b"#")]
