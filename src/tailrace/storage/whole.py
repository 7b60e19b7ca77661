"""Files that take their final form when they are complete: objects, compressed files.

Until then they are in a spool, where they can be changed like any file.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.constants import HEADER_SIZE, MAGIC, EventFlag
from tailrace.errors import UsageError
from tailrace.events.format_description import file_flags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage.store import CompletingStore, WritableStore
    from tailrace.storage.streams.base import Data, RandomOutput


def is_whole(store: WritableStore, name: str) -> bool:
    """Whether a file is complete: a log is not while its IN_USE flag is set.

    The flag is not visible in a log that is encrypted in MySQL's way.
    """
    return not file_flags(store.read(name, 0, len(MAGIC) + HEADER_SIZE)) & EventFlag.IN_USE


class WholeOutput:
    """A file in the spool. All changes are made there; `close` gives it its final form.

    `close` does not if the file is a log that is still in use, or if something failed and no
    `truncate` corrected it: such a file stays in the spool.
    """

    def __init__(self, folder: CompletingStore, name: str, lower: RandomOutput) -> None:
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
        """Overwrite existing bytes: none of them has its final form yet."""
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
        """Make the file in the spool survive a power cut."""
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
        """Return when the file has its final form.

        Raises StorageError; then it stays in the spool.
        """
        if not self._open:
            return
        self._open = False
        try:
            if not self._failed and is_whole(self._folder.spool, self._name):
                self._lower.sync()
                self._folder.complete(self._name)
        finally:
            self._lower.close()
