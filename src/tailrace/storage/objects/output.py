"""A file that becomes an object when it is closed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage.objects.folder import ObjectFolder
    from tailrace.storage.streams.base import Data
    from tailrace.storage.streams.file import FileOutput


class ObjectOutput:
    """A file in the spool. All changes are made there; `close` makes an object of it.

    `close` does not if the file is a log that is still in use, or if something failed and no
    `truncate` corrected it: such a file stays in the spool.
    """

    def __init__(self, folder: ObjectFolder, name: str, lower: FileOutput) -> None:
        self._folder = folder
        self._name = name
        self._lower = lower
        self._open = True
        self._failed = False

    @property
    def size(self) -> int:
        """The file's bytes."""
        return self._lower.size

    def write(self, data: Data, /) -> None:
        """Append to the file in the spool."""
        with self._tried():
            self._lower.write(data)

    def update(self, offset: int, data: Data, /) -> None:
        """Overwrite existing bytes: none of them is in the store yet."""
        with self._tried():
            self._lower.update(offset, data)

    def truncate(self, size: int, /) -> None:
        """Truncate the file in the spool."""
        with self._tried():
            self._lower.truncate(size)
        self._failed = False

    def flush(self) -> None:
        """Make the file in the spool survive the end of this process."""
        self._lower.flush()

    def sync(self) -> None:
        """Make the file in the spool survive a power cut; it is not in the store yet."""
        with self._tried():
            self._lower.sync()

    @contextmanager
    def _tried(self) -> Iterator[None]:
        """Note failures; a call that is rejected before it changed anything does not count."""
        try:
            yield
        except UsageError:
            raise
        except BaseException:
            self._failed = True
            raise

    def close(self) -> None:
        """Return when the file is an object. Raises StorageError; then it stays in the spool."""
        if not self._open:
            return
        self._open = False
        try:
            if not self._failed and self._folder.is_whole(self._name):
                self._lower.sync()
                self._folder.complete(self._name)
        finally:
            self._lower.close()
