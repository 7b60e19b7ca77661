"""A keyring file of our own, for those who have no server: JSON, readable by its owner only.

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
from tailrace.storage.keyring.component import json_object

MARK: Final = "tailrace_keyring"
_VERSION: Final = 1
_MODE: Final = 0o600
_SIZES: Final = (16, 24, 32)


class OwnKeyring(KeyFile):
    """A keyring that `make` made; `add` puts keys into it."""

    def parse(self, raw: bytes) -> Keys:
        """See the module. Raises StorageError, also where others may read or write the file."""
        content = json_object(raw, self.path)
        if content.get(MARK) != _VERSION or not isinstance(content.get("keys"), dict):
            raise StorageError(f"{self.path}: not a keyring of Tailrace, version {_VERSION}")
        mode = self.path.stat().st_mode & 0o777
        if os.name == "posix" and mode & 0o077:
            raise StorageError(
                f"{self.path}: its mode is {mode:04o}, and others may get at the keys:"
                f" chmod 600 {self.path}"
            )
        keys: Keys = {}
        for name, versions in content["keys"].items():
            if not isinstance(versions, dict) or not all(map(str.isdecimal, versions)):
                raise StorageError(f"{self.path}: key {name}: its versions are numbers")
            where = f"{self.path}: key {name}"
            keys[name] = {int(at): hex_key(str(text), where) for at, text in versions.items()}
        return keys

    def add(self, key_id: str, key: bytes | None = None) -> int:
        """Put a key into the file, random (32 bytes) without ``key``; the version that it has.

        One more version of it where there is such a key: the others stay. Raises StorageError.
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
    """A new keyring file with random keys of 32 bytes. Raises StorageError where it is there.

    MySQL's logs name a key as they like (``MySQLReplicationKey_<server_uuid>_<n>``), MariaDB's
    always ``1``.
    """
    target = Path(path)
    _write(target, {})
    keyring = OwnKeyring(target)
    for key_id in key_ids:
        keyring.add(key_id)
    return keyring


def _write(path: Path, keys: Keys) -> None:
    """A file that was not there."""
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
