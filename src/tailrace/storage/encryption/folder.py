"""A log's plain bytes, whether it is stored plain or encrypted, and a folder of encrypted logs."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from tailrace.constants import ENCRYPTED_MAGIC, HEADER_SIZE, MAGIC, Flavour
from tailrace.errors import LogError, StorageError, UsageError
from tailrace.events.walk import event_at, event_length
from tailrace.storage.encryption.keystream import KeystreamOutput
from tailrace.storage.encryption.mariadb.format import Mode, format_of
from tailrace.storage.encryption.mariadb.streams import (
    MariadbBegin,
    MariadbInput,
    mariadb_reopened,
    read_head,
)
from tailrace.storage.encryption.mysql import HEADER_SIZE as MYSQL_HEADER_SIZE
from tailrace.storage.encryption.mysql import (
    MysqlHeader,
    mysql_input,
    mysql_reopened,
)
from tailrace.storage.encryption.temporary import temporary
from tailrace.storage.streams.base import RandomInput, needs, read_exactly
from tailrace.storage.streams.input import OffsetInput

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.store import WritableStore
    from tailrace.storage.streams.base import RandomOutput, SpillOutput


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


_SERVERS_KEY: Final = re.compile(r"(MySQLReplicationKey_.+)_(\d+)", re.ASCII)


class StoredInput(OffsetInput):
    """A file of a `WritableStore`, open for reading: the store opens it for each read."""

    def __init__(self, folder: WritableStore, name: str) -> None:
        self._folder = folder
        self._name = name

    def _read_at(self, offset: int, count: int) -> bytes:
        return self._folder.read(self._name, offset, count)

    def size(self) -> int:
        """The file's current size in bytes."""
        return self._folder.size(self._name)


class EncryptedFolder:
    """A `WritableStore` on another one, with plain logs. New logs are encrypted if ``encrypting``.

    MySQL's logs are encrypted with the key ``key_id``; without it with the newest of a server's
    keys in the keyring, if it has the keys of one server only. MariaDB's are encrypted with key 1
    in its latest version, by ``mode``. The keyring is asked again for each file, so that a rotated
    key is used from the next file on. Indexes are not encrypted.
    """

    def __init__(
        self,
        folder: WritableStore,
        keyring: Keyring | None,
        *,
        encrypting: bool = True,
        key_id: str | None = None,
        mode: Mode | str = Mode.CBC,
    ) -> None:
        if encrypting and keyring is None:
            raise UsageError("encrypting a log needs a keyring")
        try:
            self._mode = Mode(mode)
        except ValueError:
            raise UsageError(f"mode: {mode!r} is neither 'aes_cbc' nor 'aes_ctr'") from None
        self._folder = folder
        self._keyring = keyring
        self._encrypting = encrypting
        self._key_id = key_id
        self._open: tuple[str, int, RandomInput] | None = None

    @classmethod
    def like(cls, folder: WritableStore, name: str, keyring: Keyring | None) -> Self:
        """A folder whose new logs are encrypted like the log of that name, or plain like it.

        They are encrypted with the same server's newest key, in the log's mode. Raises KeyMissing,
        LogError, StorageError.
        """
        lower = StoredInput(folder, name)
        magic = read_exactly(lower, 0, len(MAGIC))
        if magic == ENCRYPTED_MAGIC:
            raw = read_exactly(lower, 0, MYSQL_HEADER_SIZE)
            header = MysqlHeader.parse(raw, folder.path(name))
            known = _newest(keyring, header.key_id) or header.key_id
            return cls(folder, keyring, key_id=known, encrypting=keyring is not None)
        head = read_head(lower, folder.path(name)) if magic == MAGIC else None
        if head is None:
            return cls(folder, keyring, encrypting=False)
        first = _first_event(folder, name, head.size)
        mode = head.cipher(head.key(keyring), first).mode if first else Mode.CBC
        return cls(folder, keyring, encrypting=keyring is not None, mode=mode)

    def spill(self, file: SpillOutput) -> SpillOutput:
        """A temporary file, encrypted if new logs are."""
        file = self._folder.spill(file)
        return temporary(file) if self._encrypting else file

    def path(self, name: str) -> str:
        """The file's path or URL for messages."""
        return self._folder.path(name)

    def names(self) -> list[str]:
        """The names of the existing files."""
        return self._folder.names()

    def size(self, name: str) -> int:
        """The plain file's bytes."""
        return self._input(name).size()

    def read(self, name: str, offset: int, count: int) -> bytes:
        """Plain bytes of a file, up to the first damage.

        Raises KeyMissing, LogError, StorageError.
        """
        stream = self._input(name)
        stream.seek(offset)
        pieces: list[bytes] = []
        try:
            while count and (piece := stream.read(count)):
                pieces.append(piece)
                count -= len(piece)
        except LogError:
            if not pieces:
                raise
        return b"".join(pieces)

    def create(self, name: str, head: bytes) -> RandomOutput:
        """A new file that begins with ``head``, encrypted.

        ``head`` says whose log it is. Raises UsageError unless it has the magic and a whole format
        description.
        """
        self._open = None
        if not self._encrypting or self._keyring is None:
            return self._folder.create(name, head)
        path = self.path(name)
        try:
            form, _ = format_of(head, path)
        except LogError as error:
            raise UsageError(
                f"{path}: an encrypted log is created with its beginning, the magic and a whole"
                f" format description; these {len(head)} bytes are no such ({error.args[0]})"
            ) from error
        if form.flavour is Flavour.MARIADB:
            begin = MariadbBegin.of(head, self._keyring, mode=self._mode, path=path)
            return begin.output(self._folder.create(name, begin.raw), path)
        header, keystream = MysqlHeader.new(self._keyring, self._mysql_key())
        raw = header.encode() + keystream.apply(head, 0)
        lower = self._folder.create(name, raw)
        return KeystreamOutput(lower, keystream, MYSQL_HEADER_SIZE)

    def reopen(self, name: str) -> RandomOutput:
        """Open a file to append to, encrypted or plain as it is."""
        self._open = None
        path = self.path(name)
        lower = StoredInput(self._folder, name)
        magic = read_exactly(lower, 0, len(MAGIC))
        head = read_head(lower, path) if magic == MAGIC else None
        output = self._folder.reopen(name)
        try:
            if magic == ENCRYPTED_MAGIC:
                raw = read_exactly(lower, 0, MYSQL_HEADER_SIZE + len(MAGIC))
                return mysql_reopened(output, raw, self._keyring, path=path)
            if head is not None:
                first = _first_event(self._folder, name, head.size)
                return mariadb_reopened(output, head, first, self._keyring, mode=self._mode)
        except BaseException:
            output.close()
            raise
        return output

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._open = None
        self._folder.remove(name)

    def replace(self, name: str, content: bytes) -> None:
        """Give a file this content, unencrypted: this is for indexes."""
        self._open = None
        self._folder.replace(name, content)

    def _input(self, name: str) -> RandomInput:
        size = self._folder.size(name)
        if self._open is not None and self._open[:2] == (name, size):
            return self._open[2]
        stream = opened(StoredInput(self._folder, name), self._keyring, path=self.path(name))
        self._open = name, size, stream
        return stream

    def _mysql_key(self) -> str:
        if self._key_id is not None:
            return _newest(self._keyring, self._key_id) or self._key_id
        names = list(self._keyring.names()) if self._keyring is not None else []
        newest = {_newest(self._keyring, name) for name in names} - {None}
        found = newest or set(names)
        if len(found) != 1:
            raise StorageError(
                f"{self._keyring!r}: {len(found) or 'no'} keys in it could encrypt a MySQL log;"
                " choose one by key_id"
            )
        return str(found.pop())


def _newest(keyring: Keyring | None, key_id: str) -> str | None:
    """The highest-numbered key of the same server; None if the key has no number."""
    match = _SERVERS_KEY.fullmatch(key_id)
    if match is None or keyring is None:
        return None
    numbers = [
        int(other[2])
        for name in keyring.names()
        if (other := _SERVERS_KEY.fullmatch(name)) and other[1] == match[1]
    ]
    return f"{match[1]}_{max(numbers)}" if numbers else None


def _first_event(folder: WritableStore, name: str, offset: int) -> bytes:
    """The event at an offset; empty if it is not whole."""
    raw = event_at(partial(folder.read, name), offset)
    return raw if len(raw) >= HEADER_SIZE and len(raw) == event_length(raw) else b""
