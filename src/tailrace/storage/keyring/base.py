"""Keyrings: they hold the keys that encrypted logs name."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import KeyMissing, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

Keys = dict[str, dict[int, bytes]]
"""A key's bytes by its id and version; in a keyring without versions, each version is 1."""

FIRST_VERSION: Final = 1


class Keyring(ABC):
    """Gives keys by id and version. Subclass it for a key store of your own.

    A pickled keyring holds only a reference to its keys, and none of them. Nor does its ``repr``
    show any.
    """

    @abstractmethod
    def key(self, key_id: str, version: int | None = None) -> bytes:
        """The key's 16, 24 or 32 bytes; without ``version`` those of its latest version.

        Raises KeyMissing if there is no such key, StorageError if keys are not available.
        """

    def latest(self, key_id: str) -> int:  # noqa: ARG002 - stores with versions use it
        """The version of that key that encrypts new logs. Raises KeyMissing."""
        return FIRST_VERSION

    def names(self) -> Iterable[str]:
        """The ids of the existing keys, if the store can list them."""
        return ()


class KeyFile(Keyring):
    """A keyring in a file. It is read for the first key, and again after the file has changed."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._keys: Keys = {}
        self._stamp: tuple[int, int, int] | None = None

    def parse(self, raw: bytes) -> Keys:
        """The keys in the file's bytes. Raises StorageError."""
        raise NotImplementedError

    def key(self, key_id: str, version: int | None = None) -> bytes:
        """See `Keyring.key`."""
        versions = self._load().get(key_id, {})
        wanted = max(versions, default=None) if version is None else version
        found = None if wanted is None else versions.get(wanted)
        if found is None:
            which = "" if version is None else f", version {version}"
            raise KeyMissing(
                f"{self.path}: this keyring has no key {key_id}{which}",
                key_id=key_id,
                version=version,
            )
        return found

    def latest(self, key_id: str) -> int:
        """The highest version in the file."""
        self.key(key_id)
        return max(self._keys[key_id])

    def names(self) -> list[str]:
        """The ids of all keys in the file."""
        return list(self._load())

    def _load(self) -> Keys:
        try:
            found = os.stat(self.path)  # noqa: PTH116 - Path.stat is three times as slow
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                self._keys = self.parse(self.path.read_bytes())
                self._stamp = stamp
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror or error}") from None
        return self._keys

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_keys": {}, "_stamp": None}


def hex_key(text: str, where: str) -> bytes:
    """A key in hexadecimal. Raises StorageError, which does not quote it."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise StorageError(f"{where}: the key is not in hexadecimal digits") from None
