"""The file of MySQL's old ``keyring_file`` plugin (5.7.11 to 8.3): binary, its keys masked.

Layout: ``Keyring file version:1.0`` or ``2.0``; the keys; ``EOF``; in 2.0 a SHA-256 of the keys as
they stand. A key: five words (length of the whole, of the id, the type, the user, the data), then
these four; zeros up to the next word. A word has the size and byte order of the machine that wrote
the file. It is found out as the server does it: by the one that fits. The data is XORed with a
constant.

Source: MySQL 5.7 and 8.0, ``plugin/keyring/common/keyring_key.cc``, ``buffered_file_io.cc``,
``checker/checker.cc``.
"""

from __future__ import annotations

import hashlib
from itertools import cycle
from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError
from tailrace.storage.keyring.base import FIRST_VERSION, KeyFile, Keys

if TYPE_CHECKING:
    from collections.abc import Iterator

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
