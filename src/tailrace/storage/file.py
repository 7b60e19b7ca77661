"""A log file wherever it is stored, and a series of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast
from urllib.parse import unquote, urlsplit

from tailrace.constants import ENCRYPTED_MAGIC, MAGIC
from tailrace.errors import CannotOpen, StorageError, UsageError
from tailrace.log_name import base_and_number, file_number
from tailrace.printable import suggestion
from tailrace.storage.encryption import opened
from tailrace.storage.encryption.mysql import HEADER_SIZE as MYSQL_HEADER_SIZE
from tailrace.storage.joined import JoinedInput
from tailrace.storage.layered import completed, of_suffix
from tailrace.storage.local import LocalStore
from tailrace.storage.objects.url import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.store import Store
    from tailrace.storage.streams.base import InputFile

_Read = TypeVar("_Read")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:(?=/)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that holds a log: the store that it is in, its name there, its bytes.

    The name is the one that events and positions give. Reading gives the plain log, and ``size`` is
    that log's bytes, even if the file is encrypted; then ``keyring`` has the key. It pickles,
    except from a pipe, and holds no key and no other secret.
    """

    store: Store
    name: str
    size: int
    keyring: Keyring | None = field(default=None, kw_only=True, compare=False)

    @classmethod
    def at(cls, path: Path, keyring: Keyring | None = None) -> Self:
        """The file at a path. Raises CannotOpen, ReadFailed."""
        return cls.there(LocalStore(path.parent), path.name, keyring)

    @classmethod
    def there(cls, store: Store, name: str, keyring: Keyring | None = None) -> Self:
        """The file of that name, whether or not it is a log. Raises StorageError."""
        head = _either_form(store, name, lambda form: form.head(name))
        return cls(store, name, _plain_size(*head), keyring=keyring)

    @classmethod
    def found(cls, store: Store, name: str, keyring: Keyring | None = None) -> Self | None:
        """The log of that name: None if the file does not begin as one, encrypted or not.

        A file without read permission counts as no log, unless it is named like a log: that raises
        StorageError.
        """
        try:
            magic, size = _either_form(store, name, lambda form: form.head(name))
        except StorageError:
            if file_number(name) is None:
                return None
            raise
        if magic not in {MAGIC, ENCRYPTED_MAGIC}:
            return None
        return cls(store, name, _plain_size(magic, size), keyring=keyring)

    def open(self) -> InputFile:
        """Open it for reading: its plain bytes, also if it was compressed since it was found.

        Raises StorageError, KeyMissing, LogError.
        """
        if self.joined:
            return JoinedInput(self.store.open(self.name), self.keyring, path=self.path)
        stored = _either_form(self.store, self.name, lambda form: form.open(self.name))
        stored = cast("InputFile", stored)
        try:
            return cast("InputFile", opened(stored, self.keyring, path=self.path))
        except BaseException:
            stored.close()
            raise

    def length(self) -> int:
        """Its size in bytes; if that is unknown, the bytes that came so far."""
        return self.store.head(self.name)[1] if self.joined else self.size

    @property
    def path(self) -> str:
        """Its path or URL."""
        return self.store.path(self.name)

    @property
    def place(self) -> str:
        """Its folder: a path without links, or a URL."""
        return self.store.place

    @property
    def joined(self) -> bool:
        """Whether it is a pipe: read once, and perhaps several files one after the other."""
        return self.store.joined

    @property
    def base(self) -> str:
        """The name without its numeric suffix, ``binlog`` of ``binlog.000003``."""
        return base_and_number(self.name)[0]

    @property
    def number(self) -> int | None:
        """The numeric suffix, None without one."""
        return file_number(self.name)


@dataclass(frozen=True, slots=True)
class LogSeries:
    """The files of one server's log, in order, without gaps."""

    name: str
    files: tuple[LogFile, ...]

    @property
    def sizes(self) -> list[tuple[str, int]]:
        """The names of the files and their bytes."""
        return [(log.name, log.size) for log in self.files]


def local_path(source: str | Path) -> Path:
    """The path that a source names: a path, or a ``file:`` URL.

    Raises StorageError, also for a path that the system rejects (too long, access denied), and
    UsageError for an empty text, which would be the current folder.
    """
    if not isinstance(source, (str, Path)):
        raise UsageError(f"a {type(source).__name__} is neither a path nor a URL")
    text = str(source)
    if not text.strip():
        raise UsageError("the path is empty: give the path of a file or a folder")
    if not _SCHEME.match(text):
        return _known(Path(text))
    parts = urlsplit(text)
    if parts.scheme.lower() != "file":
        close = suggestion(parts.scheme, ("file", "memory", "mysql", "mariadb", *SCHEMES))
        raise StorageError(
            f"{parts.scheme}: URLs name no files{close}: give a path, file:///path,"
            " s3://bucket/folder or memory:name; a server is mysql://user@host:3306/"
        )
    if parts.netloc not in {"", "localhost"}:
        raise StorageError(f"{text}: a file URL names no host: file:///{parts.path.lstrip('/')}")
    return _known(Path(unquote(parts.path)))


def _known(path: Path) -> Path:
    try:
        path.exists()
    except OSError as error:
        raise StorageError(f"{path!s:.200}: {error.strerror}") from error
    return path


def _either_form(store: Store, name: str, read: Callable[[Store], _Read]) -> _Read:
    """What is read of a file, which its writer may have compressed since it was found."""
    try:
        return read(store)
    except CannotOpen as error:
        other = completed(store, name)
        if other is None:
            _note_purged(error, store, name)
            raise
    return read(other)


def _note_purged(error: CannotOpen, store: Store, name: str) -> None:
    """Say it in the error if a file that is gone was purged: later ones of its log are there."""
    listing = store.listing()
    base, number = base_and_number(name)
    others = (base_and_number(of_suffix(each)[0]) for each in listing)
    later = [other for found, other in others if found == base and other is not None]
    if number is not None and name not in listing and later and number < min(later):
        first = f"{base}.{min(later):06}"
        error.message += (
            f": it was purged, and the log now begins with {first}. Start there (start={first!r}),"
            " and copy what was before from the server's tables; or read from a copy of the logs"
            " (tailrace receive)"
        )


def _plain_size(magic: bytes, size: int) -> int:
    """Bytes of the plain log in a file of ``size`` bytes that begins with ``magic``.

    MySQL puts a header before an encrypted log; MariaDB's encrypted logs keep their size.
    """
    return max(size - MYSQL_HEADER_SIZE, 0) if magic == ENCRYPTED_MAGIC else size


def ordered(files: Iterable[LogFile]) -> tuple[LogFile, ...]:
    """The files in the order of their numbers. Raises StorageError if one is missing."""
    numbered = sorted(((file.number or 0, file) for file in files), key=lambda pair: pair[0])
    found = tuple(file for _, file in numbered)
    for file in found[:-1]:
        if file.number is None:
            raise StorageError(
                f"{file.path}: its name has no number for its order among {found[-1].name} and the"
                " others; open it alone"
            )
    for (number, before), (next_number, after) in pairwise(numbered):
        if next_number == number:
            raise StorageError(f"{before.path} and {after.path} have the same number")
        if next_number != number + 1:
            missing = f"{before.base}.{number + 1:0{len(before.name.rpartition('.')[2])}}"
            folder = before.path.removesuffix(before.name)[:-1] or "."
            raise StorageError(
                f"{folder}: {missing} is missing between {before.name} and {after.name}; give"
                " the files before or after it alone, to read them without it"
            ) from FileNotFoundError(missing)
    return found
