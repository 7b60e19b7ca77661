"""Logs that MySQL encrypts: a header of 512 bytes, and the rest as one stream (facts sheet 7.1).

``FD 62 69 6E``, version (1), then fields, each with its type first: 1 the key's id (length u8,
text), 2 the file's password encrypted under that key (32 bytes), 3 the initial vector of that (16
bytes). Zeros up to 512. The password's SHA-512 is the file's key (32 bytes) and nonce (8 bytes).
Offsets are those of the plain log.

Source: MySQL 8.0, ``sql/rpl_log_encryption.cc``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import ENCRYPTED_MAGIC, MAGIC
from tailrace.errors import EncryptionError, StorageError, UsageError, WrongKey
from tailrace.storage.encryption.ciphers import cbc_decrypt, cbc_encrypt, master_key
from tailrace.storage.encryption.keystream import Keystream, KeystreamInput, KeystreamOutput
from tailrace.storage.streams.base import (
    RandomInput,
    RandomOutput,
    needs,
    read_exactly,
)

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring


HEADER_SIZE: Final = 512
_VERSION: Final = 1
_VERSION_AT: Final = 4
_FIELDS_AT: Final = 5
_END, _KEY_ID, _PASSWORD, _IV = 0, 1, 2, 3
_NAMES: Final = {_KEY_ID: "key id", _PASSWORD: "password", _IV: "initial vector"}
_SIZES: Final = {_PASSWORD: 32, _IV: 16}
_MASTER_KEY_SIZE: Final = 32
_KEY_SIZE: Final = 32
_NONCE_SIZE: Final = 8


@dataclass(frozen=True, slots=True)
class MysqlHeader:
    """An encrypted log's header; ``password`` is encrypted, as in the header."""

    key_id: str
    password: bytes
    iv: bytes

    @classmethod
    def parse(cls, raw: bytes, path: str) -> Self:
        """The header in a file's first bytes. Raises EncryptionError naming file and offset."""
        if raw[: len(ENCRYPTED_MAGIC)] != ENCRYPTED_MAGIC:
            raise EncryptionError("this is not a log that MySQL encrypted", file=path, offset=0)
        if len(raw) < HEADER_SIZE:
            raise EncryptionError(
                f"the file ends after {len(raw)} of the {HEADER_SIZE} bytes of its encryption"
                " header",
                file=path,
                offset=len(raw),
            )
        if raw[_VERSION_AT] != _VERSION:
            raise EncryptionError(
                f"its encryption header has version {raw[_VERSION_AT]}, and only version"
                f" {_VERSION} is supported",
                file=path,
                offset=_VERSION_AT,
            )
        found = _fields(raw[:HEADER_SIZE], path)
        for kind, name in _NAMES.items():
            if kind not in found:
                raise EncryptionError(
                    f"its encryption header has no {name}", file=path, offset=_FIELDS_AT
                )
        name = found[_KEY_ID].decode("latin-1")
        if not name.isascii() or not name.isprintable() or not name:
            raise EncryptionError(
                "its encryption header names no key", file=path, offset=_FIELDS_AT
            )
        return cls(name, found[_PASSWORD], found[_IV])

    def encode(self) -> bytes:
        """The header's 512 bytes."""
        name = self.key_id.encode("ascii")
        fields = [
            bytes([_KEY_ID, len(name)]) + name,
            bytes([_PASSWORD]) + self.password,
            bytes([_IV]) + self.iv,
        ]
        raw = ENCRYPTED_MAGIC + bytes([_VERSION]) + b"".join(fields)
        return raw.ljust(HEADER_SIZE, b"\0")

    @classmethod
    def new(cls, keyring: Keyring, key_id: str) -> tuple[Self, Keystream]:
        """The header of a new file with a random password, and the file's keystream.

        Raises KeyMissing, UsageError, StorageError.
        """
        if not 0 < len(key_id) < 256 or not key_id.isascii() or not key_id.isprintable():
            raise UsageError(f"key_id: {key_id!r} is not 1 to 255 printable ASCII characters")
        key = keyring.key(key_id)
        if len(key) != _MASTER_KEY_SIZE:
            raise StorageError(f"key {key_id}: MySQL's logs need one of 32 bytes, not {len(key)}")
        import secrets  # noqa: PLC0415 - slow, and rarely needed

        password = secrets.token_bytes(_SIZES[_PASSWORD])
        iv = secrets.token_bytes(_SIZES[_IV])
        return cls(key_id, cbc_encrypt(key, iv, password), iv), _keystream(password)

    def open(self, keyring: Keyring | None, path: str) -> Keystream:
        """The file's keystream. Raises KeyMissing, WrongKey for a key of another size."""
        key = master_key(keyring, self.key_id, path, offset=_FIELDS_AT)
        if len(key) != _MASTER_KEY_SIZE:
            raise WrongKey(
                f"the keyring's key {self.key_id} has {len(key)} bytes; MySQL's keys have 32",
                file=path,
                offset=_FIELDS_AT,
            )
        return _keystream(cbc_decrypt(key, self.iv, self.password))

    def check(self, keystream: Keystream, first: bytes, path: str) -> None:
        """Check that the keystream decrypts a file's first bytes to a log's. Raises WrongKey."""
        if not MAGIC.startswith(keystream.apply(first[: len(MAGIC)], 0)):
            raise WrongKey(
                f"the keyring's key {self.key_id} does not decrypt this log: another key of that"
                " name encrypted it, or its header is damaged",
                file=path,
                offset=HEADER_SIZE,
            )


def _fields(raw: bytes, path: str) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = _FIELDS_AT
    while at < len(raw) and raw[at] != _END:
        kind, start = raw[at], at + 1
        if kind not in _NAMES:
            raise EncryptionError(
                f"its encryption header has a field of unknown type {kind}",
                file=path,
                offset=at,
            )
        if kind == _KEY_ID:
            size, start = (raw[start] if start < len(raw) else 0), start + 1
        else:
            size = _SIZES[kind]
        if start + size > len(raw):
            raise EncryptionError(
                f"the {_NAMES[kind]} in its encryption header is longer than the header",
                file=path,
                offset=at,
            )
        found[kind] = raw[start : start + size]
        at = start + size
    return found


def _keystream(password: bytes) -> Keystream:
    import hashlib  # noqa: PLC0415 - slow, and rarely needed

    made = hashlib.sha512(password).digest()
    return Keystream(made[:_KEY_SIZE], made[_KEY_SIZE : _KEY_SIZE + _NONCE_SIZE])


def mysql_input(lower: RandomInput, keyring: Keyring | None, *, path: str) -> KeystreamInput:
    """The plain bytes of a log that MySQL encrypted; ``path`` is for errors.

    Raises EncryptionError for a damaged header, KeyMissing, WrongKey.
    """
    needs(lower, RandomInput, "mysql_input")
    head = read_exactly(lower, 0, HEADER_SIZE + 4)
    header = MysqlHeader.parse(head[:HEADER_SIZE], path)
    keystream = header.open(keyring, path)
    header.check(keystream, head[HEADER_SIZE:], path)
    return KeystreamInput(lower, keystream, HEADER_SIZE)


def mysql_output(lower: RandomOutput, keyring: Keyring, *, key_id: str) -> KeystreamOutput:
    """Encrypt a new file, as a server does with the key of that id (its latest version).

    A server's own is ``MySQLReplicationKey_<server_uuid>_<n>``. The header is written at once.
    Raises KeyMissing, UsageError, StorageError.
    """
    needs(lower, RandomOutput, "mysql_output")
    if lower.size:
        raise StorageError(
            f"mysql_output starts a new file, and this one has {lower.size} bytes: use"
            " mysql_reopened to continue it"
        )
    header, keystream = MysqlHeader.new(keyring, key_id)
    lower.write(header.encode())
    return KeystreamOutput(lower, keystream, HEADER_SIZE)


def mysql_reopened(
    lower: RandomOutput, head: bytes, keyring: Keyring | None, *, path: str
) -> KeystreamOutput:
    """Continue an encrypted file; ``head`` is its first 516 bytes (or all).

    Raises as `mysql_input`.
    """
    needs(lower, RandomOutput, "mysql_reopened")
    header = MysqlHeader.parse(head[:HEADER_SIZE], path)
    keystream = header.open(keyring, path)
    header.check(keystream, head[HEADER_SIZE:], path)
    return KeystreamOutput(lower, keystream, HEADER_SIZE)
