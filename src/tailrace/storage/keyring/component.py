"""The data file of MySQL's ``component_keyring_file``: JSON, its keys in plain hexadecimal.

Source: MySQL 8.0.24 and later, ``components/keyrings/keyring_file`` and
``components/keyrings/common/data_file``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import StorageError
from tailrace.storage.keyring.base import FIRST_VERSION, KeyFile, Keys, hex_key

if TYPE_CHECKING:
    from pathlib import Path

_VERSION: Final = "1.0"
_FIELDS: Final = ("user", "data_id", "data_type", "data", "extension")


class ComponentKeyring(KeyFile):
    """``component_keyring_file``: its data file, or the ``.cnf`` file that names the data file.

    Keys of users of the keyring functions are not the server's own, and are left out.
    """

    def parse(self, raw: bytes) -> Keys:
        """Layout: ``{"version": "1.0", "elements": [{user, data_id, data_type, data, ...}]}``."""
        content = json_object(raw, self.path)
        target = content.get("path")
        if isinstance(target, str) and "elements" not in content:
            data = self.path.parent / target
            try:
                content = json_object(data.read_bytes(), data)
            except OSError as error:
                raise StorageError(
                    f"{data}: {error.strerror or error} ({self.path} says that the keys are there)"
                ) from None
        elements = content.get("elements")
        if content.get("version") != _VERSION or not isinstance(elements, list):
            raise StorageError(
                f"{self.path}: not a keyring of version {_VERSION} of component_keyring_file"
            )
        keys: Keys = {}
        for at, element in enumerate(elements, 1):
            where = f"{self.path}: element {at}"
            missing = [name for name in _FIELDS if name not in element]
            if missing:
                raise StorageError(f"{where} has no {missing[0]}")
            if not element["user"]:
                key = hex_key(str(element["data"]), where)
                keys[str(element["data_id"])] = {FIRST_VERSION: key}
        return keys

    def __repr__(self) -> str:
        return f"ComponentKeyring({str(self.path)!r})"


def json_object(raw: bytes, path: Path) -> dict[str, Any]:
    """A JSON file's object. Raises StorageError."""
    try:
        content = json.loads(raw)
    except (
        ValueError,
        RecursionError,
    ) as error:  # its text may be part of a key: the message has only the line
        line = getattr(error, "lineno", None)
        where = f" (line {line})" if line else ""
        raise StorageError(f"{path}: this is not valid JSON{where}") from None
    if not isinstance(content, dict):
        raise StorageError(f"{path}: a keyring in JSON is an object")
    return content
