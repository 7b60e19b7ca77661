"""One file to read events from, however it is given: by path or URL, or as an open stream."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeAlias

from tailrace.constants import MAGIC
from tailrace.errors import StorageError, UsageError
from tailrace.storage.file import LogFile
from tailrace.storage.files import find, keyring_of
from tailrace.storage.layered import LayeredStore
from tailrace.storage.pipe import Pipe
from tailrace.storage.streams.base import InputStream, RandomInput, read_exactly
from tailrace.storage.streams.input import NamedInput
from tailrace.storage.streams.layer import layers_of

if TYPE_CHECKING:
    from tailrace.storage.keyring.base import Keyring
    from tailrace.storage.store import Store
    from tailrace.storage.streams.layer import Layers

FileSource: TypeAlias = LogFile | str | Path | InputStream
"""A file of a log: found before, by its path or URL (``-``, ``memory:name/file``), or a stream."""


class StreamStore:
    """A store of one file: a stream that can be read at any offset. It stays open."""

    joined: ClassVar[bool] = False
    looks_every: ClassVar[float] = 0.02

    def __init__(self, lower: RandomInput, name: str) -> None:
        self._lower = lower
        self.name = self.place = name

    def path(self, _name: str) -> str:
        """The stream's name."""
        return self.place

    def listing(self) -> dict[str, int | None]:
        """The one file."""
        return {self.name: None}

    def folders(self) -> list[Store]:
        """None: a stream is in no folder of logs."""
        return []

    def within(self, _folder: str) -> None:
        """None, as `folders`."""

    def head(self, _name: str) -> tuple[bytes, int]:
        """The first four bytes, and the size."""
        return read_exactly(self._lower, 0, len(MAGIC)), self._lower.size()

    def read(self, _name: str, offset: int, count: int) -> bytes:
        """Bytes of the stream."""
        return read_exactly(self._lower, offset, count)

    def open(self, _name: str) -> NamedInput:
        """Read it from the beginning; its owner closes it."""
        return NamedInput(self._lower, self.place)

    def __reduce__(self) -> NoReturn:
        raise StorageError(f"{self.place}: an open stream is read in one process only")


def file_of(
    source: FileSource,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
) -> LogFile:
    """The file that a source is; ``keyring`` and ``layers`` are as in `find`.

    A stream is read from its beginning; one that reads forward only is read as a pipe, once, and
    may hold several files. Raises StorageError, UsageError for a source of several files.
    """
    if isinstance(source, LogFile):
        if keyring is not None or layers is not None:
            raise UsageError(f"{source.path}: a LogFile has its own keyring and layers")
        return source
    if isinstance(source, (str, Path)):
        return _found(source, keyring, layers)
    if not isinstance(source, InputStream):
        raise UsageError(
            f"a {type(source).__name__} is no file of a log: give a path, a URL, a LogFile, or an"
            " input stream (an object with read)"
        )
    name = type(source).__name__
    for attribute in ("path", "name"):
        with suppress(AttributeError):
            name = str(getattr(source, attribute))
            break
    store: Store = (
        StreamStore(source, name) if isinstance(source, RandomInput) else Pipe(source, name)
    )
    put = layers_of(layers)
    if put:
        store = LayeredStore(store, put, bare=True)
    keys = None if keyring is None else keyring_of(keyring)
    if store.joined:
        return LogFile(store, name, 0, keyring=keys)
    return LogFile.there(store, name, keys)


def _found(
    source: str | Path, keyring: Keyring | str | Path | None, layers: Layers | None
) -> LogFile:
    files = [file for series in find(source, keyring, layers) for file in series.files]
    if len(files) > 1:
        raise UsageError(f"{source}: it holds {len(files)} files; give one of them")
    return files[0]
