"""Tailrace's own keyring file, for use without a server: JSON, readable by its owner only.

``{"tailrace_keyring": 1, "keys": {ID: {VERSION: HEX}}}``
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Final

from tailrace.errors import StorageError, UsageError
from tailrace.storage.keyring.base import FIRST_VERSION, KeyFile, Keys, hex_key
from tailrace.storage.keyring.mysql import json_object

MARK: Final = "tailrace_keyring"
_VERSION: Final = 1
_MODE: Final = 0o600
_SIZES: Final = (16, 24, 32)


class OwnKeyring(KeyFile):
    """A keyring that `make` created; `add` adds keys to it."""

    def parse(self, raw: bytes) -> Keys:
        """See the module. Raises StorageError, also if others may read or write the file."""
        content = json_object(raw, self.path)
        if content.get(MARK) != _VERSION or not isinstance(content.get("keys"), dict):
            raise StorageError(f"{self.path}: not a keyring of Tailrace, version {_VERSION}")
        mode = self.path.stat().st_mode & 0o777
        if os.name == "posix" and mode & 0o077:
            raise StorageError(
                f"{self.path}: its mode is {mode:04o}, so others may read or change the keys:"
                f" chmod 600 {self.path}"
            )
        keys: Keys = {}
        for name, versions in content["keys"].items():
            if not isinstance(versions, dict) or not all(map(str.isdecimal, versions)):
                raise StorageError(f"{self.path}: key {name}: its versions must be numbers")
            where = f"{self.path}: key {name}"
            keys[name] = {int(at): hex_key(str(text), where) for at, text in versions.items()}
        return keys

    def add(self, key_id: str, key: bytes | None = None) -> int:
        """Add a key to the file, a random one (32 bytes) without ``key``; returns its version.

        If the key exists, this adds a version, and the other versions stay. Raises StorageError.
        """
        if key is not None and len(key) not in _SIZES:
            raise UsageError(f"a key of AES has 16, 24 or 32 bytes, not {len(key)}")
        keys = {name: dict(versions) for name, versions in self._load().items()}
        versions = keys.setdefault(key_id, {})
        version = max(versions, default=FIRST_VERSION - 1) + 1
        versions[version] = secrets.token_bytes(32) if key is None else key
        draft = self.path.with_name(self.path.name + ".new")
        draft.unlink(missing_ok=True)
        _write(draft, keys)
        draft.replace(self.path)
        return version


def make(path: str | Path, *key_ids: str) -> OwnKeyring:
    """Create a keyring file with random keys of 32 bytes. Raises StorageError if it exists.

    A key for MySQL's logs can have any name (``MySQLReplicationKey_<server_uuid>_<n>``), a key for
    MariaDB's logs is always ``1``.
    """
    target = Path(path)
    _write(target, {})
    keyring = OwnKeyring(target)
    for key_id in key_ids:
        keyring.add(key_id)
    return keyring


def _write(path: Path, keys: Keys) -> None:
    """Write a new file."""
    found = {
        name: {str(version): key.hex() for version, key in versions.items()}
        for name, versions in keys.items()
    }
    text = json.dumps({MARK: _VERSION, "keys": found}, indent=1)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from None
