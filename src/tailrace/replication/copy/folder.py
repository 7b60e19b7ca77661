"""The folder of a copy of a source's log: on disk, in memory, or in an object store.

Encrypted copies are encrypted as MySQL encrypts a whole file, for logs of either flavour: so every
byte keeps its offset. MariaDB's own encryption inserts an event into the file, and so shifts all
events after it: the content of such a copy could not be equal to the source's log.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from tailrace.errors import StorageError, UsageError
from tailrace.log_name import LogName
from tailrace.storage.encryption.folder import EncryptedFolder
from tailrace.storage.encryption.keystream import KeystreamOutput
from tailrace.storage.encryption.mysql import HEADER_SIZE, MysqlHeader
from tailrace.storage.file import local_path
from tailrace.storage.index import INDEX_SUFFIX
from tailrace.storage.keyring import open as open_keyring
from tailrace.storage.layered import LayeredFolder, check_layers, layered_folder
from tailrace.storage.local import LocalFolder, missing_folders
from tailrace.storage.memory import is_memory, memory_folder
from tailrace.storage.objects.folder import Contested, GrowingFiles, ObjectFolder
from tailrace.storage.objects.url import names_object
from tailrace.storage.store import CompletingStore
from tailrace.storage.streams.layer import layers_of
from tailrace.storage.target import place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.store import WritableStore
    from tailrace.storage.streams.base import RandomOutput
    from tailrace.storage.streams.layer import Layers
    from tailrace.storage.target import Target

flock: Callable[[int, int], None] | None = None
with suppress(ImportError):  # Windows has no such lock
    from fcntl import LOCK_EX, LOCK_NB, flock

LOCK_NAME: Final = "receiver.lock"
_TRIES: Final = 100
"""Attempts to lock a folder that others may remove."""
_locked: Final[set[str]] = set()
_guard: Final = Lock()


class CopyFolder(EncryptedFolder):
    """A `WritableStore` of plain logs for one receiver; new ones are encrypted if ``encrypting``.

    Call `complete` when a file's source has ended it: in an object store its segments become one
    object then, and a layer like zstd is put on it; it is in the spool until then.
    """

    def __init__(
        self,
        folder: WritableStore,
        keyring: Keyring | None,
        *,
        encrypting: bool = False,
        key_id: str | None = None,
    ) -> None:
        super().__init__(folder, keyring, encrypting=encrypting, key_id=key_id)
        self._spool = folder.spool if isinstance(folder, CompletingStore) else folder
        """Where files are written."""
        self._written = EncryptedFolder(self._spool, keyring, encrypting=False)

    @property
    def encrypting(self) -> bool:
        """Whether new files are encrypted."""
        return self._encrypting

    def encrypt(self) -> None:
        """Encrypt new files from now on. Raises UsageError where there is no keyring."""
        if self._keyring is None:
            raise UsageError(
                f"{self.path('')}: this copy is encrypted; give its keyring (--keyring FILE,"
                " keyring=)"
            )
        self._encrypting = True

    def logs(self) -> list[LogName]:
        """The existing log files, of all base names, in the order of their numbers."""
        found = (LogName.parse(name) for name in self.names())
        return sorted((name for name in found if name), key=lambda name: (name.base, name.number))

    def indexes(self) -> list[str]:
        """The base names of the existing indexes."""
        names = (name for name in self.names() if name.endswith(INDEX_SUFFIX))
        return [name.removesuffix(INDEX_SUFFIX) for name in names]

    def create(self, name: str, head: bytes) -> RandomOutput:
        """A new file that begins with ``head``."""
        self._open = None
        if isinstance(self._folder, CompletingStore) and name in self._folder.names():
            raise Contested(f"{self.path(name)}: it exists already")
        if not self._encrypting or self._keyring is None:
            return self._spool.create(name, head)
        header, keystream = MysqlHeader.new(self._keyring, self._mysql_key())
        raw = header.encode() + keystream.apply(head, 0)
        return KeystreamOutput(self._spool.create(name, raw), keystream, HEADER_SIZE)

    def reopen(self, name: str) -> RandomOutput:
        """Open a file to append to. Raises StorageError for a complete one, which cannot grow."""
        self._open = None
        if not self.can_grow(name):
            raise Contested(
                f"{self.path(name)}: its source has more in this file than it had when it ended,"
                " and nothing can be added to a complete one; begin a new copy in another folder"
            )
        return self._written.reopen(name)

    def can_grow(self, name: str) -> bool:
        """Whether a file can be appended to: it is not complete yet, as an object is."""
        return self._spool is self._folder or name in self._spool.names()

    @property
    def _objects(self) -> GrowingFiles | None:
        """The object store's files that still grow; None in other folders."""
        spool = self._spool
        while isinstance(spool, LayeredFolder):
            spool = spool.folder
        return spool if isinstance(spool, GrowingFiles) else None

    @property
    def is_shared(self) -> bool:
        """Whether a receiver of another process can write into it: no lock keeps it out."""
        return self._objects is not None

    def is_owned(self, name: str) -> bool:
        """Whether no receiver of another process has taken over a file that this one writes."""
        objects = self._objects
        return objects is None or objects.is_owned(name)

    def complete(self, name: str) -> None:
        """The file will not change any more: give it its final form.

        It is still open: so no other process completes it at the same time. In an object store this
        returns at once, so that what is received meanwhile need not wait to be acknowledged.
        """
        if isinstance(self._folder, CompletingStore) and name in self._spool.names():
            self._folder.complete(name, again=True)

    def lock(self) -> Callable[[], None]:
        """Lock out other receivers until the returned function is called. Raises StorageError.

        In an object store this locks out receivers of this process. Of those of several processes
        or machines the one that has taken over a file last continues.
        """
        spool = self._spool
        while isinstance(spool, LayeredFolder):
            spool = spool.folder
        if isinstance(spool, LocalFolder):
            spool.check_no_server()
            spool.check_unused(name for name in map(str, self.logs()) if self.can_grow(name))
            return _lock_file(spool.folder)
        unlock = _lock_name(self.path(""))
        if not isinstance(self._folder, ObjectFolder):
            return unlock
        folder = self._folder
        try:
            folder.clean()
        except BaseException:
            unlock()
            raise

        def completed() -> None:
            folder.drain()
            unlock()

        return completed


def open_folder(
    into: Target,
    *,
    encrypt: bool = False,
    keyring: Keyring | str | Path | None = None,
    key_id: str | None = None,
    layers: Layers | None = None,
) -> CopyFolder:
    """The folder for a copy: a path, ``memory:name``, an object store's URL, or a store.

    Complete files that a killed writer left in the spool get their final form. Without ``layers``
    they are those whose suffix a file in it has; others than its files have are a UsageError.
    Raises StorageError, UsageError.
    """
    if encrypt and keyring is None:
        raise UsageError("encrypting the copy needs a keyring (--keyring FILE, keyring=)")
    keys = None if keyring is None else open_keyring(keyring)
    put = None if layers is None else layers_of(layers)
    folder = _folder(into)
    if put is not None:
        check_layers(folder, put)
    return CopyFolder(layered_folder(folder, put), keys, encrypting=encrypt, key_id=key_id)


def _folder(into: Target) -> WritableStore:
    if not isinstance(into, (str, Path)):
        return place(into)[0]
    text = str(into)
    if is_memory(text):
        name = text.partition(":")[2].strip("/")
        if not name or "/" in name:
            raise UsageError(f"{text}: a folder in memory is memory:name")
        return memory_folder(name)
    if names_object(text):
        return ObjectFolder(text)
    path = local_path(into)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{into}: a copy is kept in a folder, and this is a file")
    return LocalFolder(path)


def _lock_file(folder: Path) -> Callable[[], None]:
    """Create and lock the folder. Unlocking removes the created folders that are empty."""
    path = folder / LOCK_NAME
    reason = ""
    for _ in range(_TRIES):  # a receiver that received nothing may remove it or the folder
        try:
            made = missing_folders(folder)
            handle = _open_lock(path)
        except FileNotFoundError as error:
            reason = error.strerror or str(error)
            continue
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror or error}") from None
        if os.fstat(handle).st_nlink:
            return partial(_unlock_file, path, handle, made)
        os.close(handle)
        reason = "it is removed as soon as it is created"
    raise StorageError(f"{path}: {reason}")


def _open_lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o640)
    if flock is not None:
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except OSError:
            os.close(handle)
            raise _taken(str(path.parent)) from None
    return handle


def _unlock_file(path: Path, handle: int, made: Sequence[Path]) -> None:
    with suppress(OSError):  # non-empty folders stay, and on Windows open files
        if [each.name for each in path.parent.iterdir()] == [LOCK_NAME]:
            path.unlink()
            for folder in made:
                folder.rmdir()
    os.close(handle)


def _lock_name(name: str) -> Callable[[], None]:
    with _guard:
        if name in _locked:
            raise _taken(name)
        _locked.add(name)
    return lambda: _locked.discard(name)


def _taken(folder: str) -> StorageError:
    return StorageError(f"{folder}: another receiver writes into this folder; give each its own")
