"""A log's plain bytes, whether it is stored plain or encrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import ENCRYPTED_MAGIC, MAGIC
from tailrace.storage.encryption.mariadb.input import MariadbInput, read_head
from tailrace.storage.encryption.mysql.streams import mysql_input, read_exactly
from tailrace.storage.streams.base import RandomInput, needs

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring


def opened(lower: RandomInput, keyring: Keyring | None, *, path: str) -> RandomInput:
    """The stream of a log's plain bytes: ``lower`` itself, at its start, if it is not encrypted.

    ``path`` is the file's name in errors. Raises KeyMissing if it is encrypted and there is no key,
    WrongKey, EncryptionError, StorageError. Errors in a plain log are left to its readers.
    """
    needs(lower, RandomInput, "opened")
    magic = read_exactly(lower, 0, len(MAGIC))
    if magic == ENCRYPTED_MAGIC:
        return mysql_input(lower, keyring, path=path)
    if magic == MAGIC:
        head = read_head(lower, path)
        if head is not None:
            return MariadbInput(lower, head, head.key(keyring))
    lower.seek(0)
    return lower
