"""MySQL's two keyrings in a file: of ``component_keyring_file``, and of the old ``keyring_file``.

The component's data file is JSON, its keys in plain hexadecimal.

The plugin's (5.7.11 to 8.3) is binary, its keys masked: ``Keyring file version:1.0`` or ``2.0``;
the keys; ``EOF``; in 2.0 a SHA-256 of the keys as they stand. A key: five words (length of the
whole, of the id, the type, the user, the data), then these four; zeros up to the next word. A word
has the size and byte order of the machine that wrote the file. It is found out as the server does
it: by the one that fits. The data is XORed with a constant.

Source: MySQL 8.0.24 and later, ``components/keyrings/keyring_file`` and
``components/keyrings/common/data_file``; MySQL 5.7 and 8.0, ``plugin/keyring/common/`` with
``keyring_key.cc``, ``buffered_file_io.cc``, ``checker/checker.cc``.
"""

from __future__ import annotations

import hashlib
import json
from itertools import cycle
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import StorageError
from tailrace.storage.keyring.base import FIRST_VERSION, KeyFile, Keys, hex_key

if TYPE_CHECKING:
    from collections.abc import Iterator
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


HEAD: Final = b"Keyring file version:"
_MASK: Final = b"*305=Ljt0*!@$Hnm(*-9-w;:"
_END: Final = b"EOF"
_WORDS: Final = tuple(Struct(layout) for layout in ("<5Q", "<5I", ">5Q", ">5I"))


class PluginKeyring(KeyFile):
    """``keyring_file``: the file that ``keyring_file_data`` names."""

    def parse(self, raw: bytes) -> Keys:
        """See the module. An empty file is an empty keyring. Raises StorageError."""
        if not raw:
            return {}
        version = raw[len(HEAD) : len(HEAD) + 3]
        digest = hashlib.sha256().digest_size if version == b"2.0" else 0
        if not raw.startswith(HEAD) or version not in {b"1.0", b"2.0"}:
            raise StorageError(f"{self.path}: not a keyring_file of version 1.0 or 2.0")
        body = raw[len(HEAD) + 3 : len(raw) - len(_END) - digest]
        if raw[len(raw) - len(_END) - digest : len(raw) - digest] != _END:
            raise StorageError(f"{self.path}: this keyring_file is incomplete")
        if digest and hashlib.sha256(body).digest() != raw[-digest:]:
            raise StorageError(f"{self.path}: this keyring_file has a wrong digest")
        for words in _WORDS:
            found = list(_pods(body, words))
            if found[-1] is not None:
                continue
            return {
                name.decode("utf-8", "replace"): {FIRST_VERSION: data}
                for name, user, data in filter(None, found)
                if not user
            }
        raise StorageError(f"{self.path}: the keys in this keyring_file are damaged")


def _pods(body: bytes, words: Struct) -> Iterator[tuple[bytes, bytes, bytes] | None]:
    """Id, user and data of each key; None after the last, if all of them fit these words."""
    size = words.size // 5
    at = 0
    while at < len(body):
        if at + words.size > len(body):
            yield b"", b"", b""
            return
        whole, *lengths = words.unpack_from(body, at)
        used = words.size + sum(lengths)
        if whole % size or not used <= whole <= used + size or at + whole > len(body):
            yield b"", b"", b""
            return
        fields = []
        start = at + words.size
        for length in lengths:
            fields.append(body[start : start + length])
            start += length
        name, _kind, user, masked = fields
        yield name, user, bytes(a ^ b for a, b in zip(masked, cycle(_MASK), strict=False))
        at += whole
    yield None
