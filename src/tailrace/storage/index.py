"""A log's index file: the names of its files, a line each, oldest first.

Servers write entries as they were told where the log lies: ``./binlog.000001`` in the usual case.
Lines that are there are kept as they are. A file lies beside the index, or else where its entry
says, a relative one as seen from the index.

Files are purged in the servers' order, and by their own register (``binlog.~rec~``), so that a
server finishes what we were killed in, and we what a server was: the register names the files, the
index drops them, they are deleted, the register goes. Whoever opens the log next deletes what the
register names and the index does not (`LogIndex.recover`).
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from tailrace.constants import ENCRYPTED_MAGIC, MAGIC
from tailrace.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.storage.output import LogFolder

INDEX_SUFFIX: Final = ".index"
REGISTER_SUFFIX: Final = ".~rec~"
"""Behind the log's base name: the servers' list of files that are about to go."""
_SAVED_SUFFIX: Final = "_crash_safe"
"""Behind the index's name: a server's new index, if it was killed as it put that in place."""
_GTID_INDEX_SUFFIX: Final = ".idx"
"""Behind a log file's name: MariaDB's index of its GTIDs (11.4 and later)."""
_SECOND: Final = 1_000_000


def _entries(folder: LogFolder, name: str) -> list[str]:
    raw = folder.read(name, 0, folder.size(name))
    text = raw.decode("utf-8", "surrogateescape")
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]


def _name(entry: str) -> str:
    return _path(entry).name


def _path(entry: str) -> PurePosixPath:
    return PurePosixPath(entry.strip().replace("\\", "/"))


class LogIndex:
    """The index of the log with a base name (``binlog``) in a folder; ``lines`` as they stand."""

    def __init__(self, folder: LogFolder, base: str) -> None:
        self._folder = folder
        self.file = base + INDEX_SUFFIX
        self._register = base + REGISTER_SUFFIX
        there = folder.names()
        found = [name for name in (self.file, self.file + _SAVED_SUFFIX) if name in there]
        self.lines = _entries(folder, found[0]) if found else []

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def names(self) -> list[str]:
        """The files' own names."""
        return [_name(line) for line in self.lines]

    def add(self, name: str) -> None:
        """List one more file, in one step, and in the same place as the last."""
        self._write([*self.lines, f"{self._place()}{name}"])

    def drop(self, name: str) -> None:
        """List a file no more."""
        self._write([line for line in self.lines if _name(line) != name])

    def purge(self, *, to: str | None = None, before: int | None = None) -> list[str]:
        """Delete old files and list them no more, as PURGE BINARY LOGS does; gives their names.

        ``to``: all files before the one of this name. ``before``: all, up to the first for which
        that is not so, that were closed before this time (microseconds UTC); the file that follows
        says when, in its first event. The last file is the one in use, and never goes. A file that
        is listed and not there is listed no more.

        A kill at any moment loses nothing: until the new index is in place the files are all
        there, and after that `recover` deletes what is left of them. Raises UsageError for a file
        that the index does not list, or without either limit; StorageError where a file cannot be
        deleted, or is encrypted, so that its time is not known: purge by name then.
        """
        if (to is None) == (before is None):
            raise UsageError("purge up to a file (to=), or to a time (before=)")
        count = self._closed_before(before) if before is not None else self._number(to or "")
        going = self.lines[:count]
        if not going:
            return []
        self.recover()
        self._replace(self._register, going)
        self._write(self.lines[count:])
        self.recover()
        return [_name(line) for line in going]

    def recover(self) -> list[str]:
        """Finish the purge in which a writer or server was killed; gives the names deleted.

        So ends, too, a server's making of a file that it did not live to list.
        """
        if self._register not in self._folder.names():
            return []
        listed = set(self.names)
        there = frozenset(self._folder.names())
        gone: list[str] = []
        for entry in _entries(self._folder, self._register):
            if _name(entry) not in listed:
                gone += self._delete(entry, there)
        self._folder.remove(self._register)
        return gone

    def _number(self, name: str) -> int:
        names = self.names
        if name not in names:
            known = f"{names[0]} to {names[-1]}" if names else "no file"
            raise UsageError(
                f"{name} is not in the index {self._folder.path(self.file)}, which lists {known}"
            )
        return names.index(name)

    def _closed_before(self, time: int) -> int:
        """How many files, from the first on, were closed before a time; never the last."""
        count = 0
        there = frozenset(self._folder.names())
        for number, line in enumerate(self.lines[1:], 1):
            stored = self._stored(line, there)
            if stored is None:
                continue
            if (self._begun(stored) + 1) * _SECOND > time:  # it may have been later in that second
                break
            count = number
        return count

    def _begun(self, stored: str) -> int:
        """The second of a file's first event."""
        path = self._folder.path(stored)
        raw = self._folder.read(stored, 0, len(MAGIC) + 4)
        if raw[: len(MAGIC)] == ENCRYPTED_MAGIC:
            raise StorageError(
                f"{path}: it is encrypted, and does not say when it was begun: purge up to a file"
            )
        if len(raw) < len(MAGIC) + 4 or raw[: len(MAGIC)] != MAGIC:
            raise StorageError(f"{path}: it is no log, and does not say when it was begun")
        return int.from_bytes(raw[len(MAGIC) :], "little")

    def _stored(self, entry: str, there: frozenset[str]) -> str | None:
        """What the folder calls an entry's file; None where that is not there."""
        path = _path(entry)
        if path.name in there:
            return path.name
        if path.parent == PurePosixPath():
            return None
        try:
            self._folder.size(str(path))
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        return str(path)

    def _delete(self, entry: str, there: frozenset[str]) -> list[str]:
        """Delete an entry's file and what belongs to it; the names of what was there."""
        gone = []
        for each in (entry.strip() + _GTID_INDEX_SUFFIX, entry):
            stored = self._stored(each, there)
            if stored is not None:
                self._folder.remove(stored)
                gone.append(_name(each))
        return gone

    def _place(self) -> str:
        if not self.lines:
            return "./"
        last = self.lines[-1].strip()
        return last[: len(last) - len(_name(last))]

    def _write(self, lines: list[str]) -> None:
        self._replace(self.file, lines)
        self.lines = lines

    def _replace(self, name: str, lines: Iterable[str]) -> None:
        content = "".join(f"{line}\n" for line in lines)
        self._folder.replace(name, content.encode("utf-8", "surrogateescape"))
