"""A log's index file: the names of its files, a line each, oldest first.

Servers write an entry with the folder that their settings give, usually ``./binlog.000001``.
Existing lines are kept unchanged. Each line ends in a `LogName`; an index with any other line is
rejected. A reader finds a file next to the index, or else where its entry says, relative to the
index (`tailrace.storage.find`). Files are written and deleted only next to the index, whatever
folder an entry names: an index may come from others, and no line of it leads out of its folder.

Files are purged in the servers' order of steps, and with the servers' own register
(``binlog.~rec~``), so that a server can finish a purge in which we were killed, and the reverse:
the register names the files, the index drops them, they are deleted, the register is removed. The
next writer that opens the log deletes the files that are in the register and not in the index
(`LogIndex.recover`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.constants import ENCRYPTED_MAGIC, MAGIC
from tailrace.errors import BadLogName, StorageError, UsageError
from tailrace.log_name import LogName, plain_name
from tailrace.printable import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.storage.store import Store, WritableStore

INDEX_SUFFIX: Final = ".index"
REGISTER_SUFFIX: Final = ".~rec~"
"""Suffix of the log's base name: the servers' list of files that are about to be deleted."""
SAVED_SUFFIX: Final = "_crash_safe"
"""Suffix of the index's name: a server's new index, if it was killed while replacing it."""
GTID_INDEX_SUFFIX: Final = ".idx"
"""Suffix of a log file's name: MariaDB's index of its GTIDs (11.4 and later)."""
_SECOND: Final = 1_000_000
_PIECE: Final = 1 << 20
LARGEST: Final = 64 << 20
"""Bytes of an index; a line has 20 or so."""


class Entry(NamedTuple):
    """A line of an index: the listed file, and the folder in which its server had it.

    ``line`` is the whole line, unchanged; ``folder`` is the part before the name, with ``/``
    between folders, and empty or ``./`` for the index's own folder.
    """

    line: str
    folder: str
    name: LogName

    @property
    def is_elsewhere(self) -> bool:
        """Whether it says that the file is in another folder than the index."""
        return self.folder not in {"", "./"}


def entries(raw: bytes, path: str) -> list[Entry]:
    """The entries of an index; ``path`` is its name in errors.

    Raises BadLogName for a line that lists no log file, or whose folder has unprintable characters.
    """
    found = []
    for line in raw.decode("utf-8", "surrogateescape").split("\n"):
        text = line.strip()
        if not text:
            continue
        folder, slash, name = text.replace("\\", "/").rpartition("/")
        log = LogName.parse(name)
        if log is None or not _is_printable(folder):
            raise BadLogName(
                f"{path}: it lists {short_repr(text)}; each line of an index ends in a log file's"
                " plain name: this one is damaged, or is not a log's"
            )
        found.append(Entry(line.rstrip("\r"), folder + slash, log))
    return found


def _is_printable(folder: str) -> bool:
    """Whether a folder's name can be printed; it may have bytes that are not UTF-8."""
    return folder.encode("utf-8", "surrogateescape").decode("utf-8", "replace").isprintable()


def read_index(store: Store | WritableStore, name: str, *, torn: bool = False) -> list[Entry]:
    """The entries of an index in a store. Raises StorageError, BadLogName.

    With ``torn``, an incomplete last line is left out.
    """
    path, raw = store.path(name), b""
    while piece := store.read(name, len(raw), _PIECE):
        raw += piece
        if len(raw) > LARGEST:
            raise StorageError(f"{path}: an index has at most {LARGEST} bytes, this one has more")
        if len(piece) < _PIECE:
            break
    return entries(raw[: raw.rfind(b"\n") + 1] if torn else raw, path)


class LogIndex:
    """The index of the log with a base name (``binlog``) in a folder; ``entries`` are its lines.

    Raises BadLogName for an index that lists anything but log files of that base name.
    """

    def __init__(self, folder: WritableStore, base: str) -> None:
        self._folder = folder
        self._base = base
        self.file = plain_name(base + INDEX_SUFFIX)
        self._register = base + REGISTER_SUFFIX
        self.entries: list[Entry] = []
        self.load()

    def load(self) -> None:
        """Read it: after an interrupt it may list more than is known, or less."""
        there = self._folder.names()
        found = [name for name in (self.file, self.file + SAVED_SUFFIX) if name in there]
        self.entries = self._own(read_index(self._folder, found[0]), found[0]) if found else []

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def names(self) -> list[LogName]:
        """The files' own names."""
        return [entry.name for entry in self.entries]

    def add(self, *names: LogName) -> None:
        """List more files, all in one step, with the same folder as the last one."""
        place = self.entries[-1].folder if self.entries else "./"
        more = (Entry(f"{place}{name}", place, name) for name in names)
        self._write([*self.entries, *more])

    def drop(self, name: str) -> None:
        """Remove a file from the index."""
        self._write([entry for entry in self.entries if entry.name != name])

    def purge(self, *, to: str | None = None, before: int | None = None) -> list[str]:
        """Delete old files, and remove them from the index, as PURGE BINARY LOGS does.

        Returns their names. ``to``: all files before the one of this name. ``before``: the oldest
        files that were closed before this time (microseconds UTC), up to the first that was not;
        the first event of the next file has the time of a file's close. The last file is in use,
        and never deleted. A listed file that does not exist is removed from the index.

        A kill at any moment loses nothing: until the new index is in place all files exist, and
        after that `recover` deletes the remaining ones. Raises UsageError for a file that the index
        does not list, or without either limit; StorageError if a file cannot be deleted, is in
        another folder than the index, or is encrypted, so that its time is unknown: then purge by
        name.
        """
        if (to is None) == (before is None):
            raise UsageError("purge up to a file (to=), or to a time (before=)")
        there = frozenset(self._folder.names())
        count = self._number(to) if to is not None else self._closed_before(before or 0, there)
        if not count:
            return []
        gone = self._prepare(self.entries[:count], there)
        self._write(self.entries[count:])
        self.recover()
        return gone

    def clear(self) -> list[str]:
        """Delete all files, the last one too, and the index; returns the files' names.

        Raises StorageError as `purge` does. A kill leaves nothing, or what `recover` deletes.
        """
        gone = self._prepare(self.entries, frozenset(self._folder.names()))
        self._folder.remove(self.file)
        self.entries = []
        self.recover()
        return gone

    def _prepare(self, going: list[Entry], there: frozenset[str]) -> list[str]:
        """Put the files that are to be deleted into the register; returns their names."""
        for entry in going:
            self._check_here(entry, there)
        self.recover()
        self._replace(self._register, going)
        return [entry.name for entry in going]

    def recover(self) -> list[str]:
        """Finish the purge in which a writer or server was killed; returns the deleted names.

        It also deletes a file that a server created and was killed before listing. Only log files
        of this base name next to the index are deleted, with their indexes of GTIDs; for a register
        that names anything else, BadLogName is raised before anything is deleted. An incomplete
        last line was being written: it is ignored.
        """
        there = frozenset(self._folder.names())
        if self._register not in there:
            return []
        listed = set(self.names)
        gone: list[str] = []
        for entry in self._own(read_index(self._folder, self._register, torn=True), self._register):
            if entry.name not in listed:
                gone += self._delete(entry.name, there)
        self._folder.remove(self._register)
        return gone

    def _own(self, found: list[Entry], file: str) -> list[Entry]:
        """The same entries. Raises BadLogName if one is not of this log."""
        for entry in found:
            if entry.name.base != self._base:
                raise BadLogName(
                    f"{self._folder.path(file)}: it lists {short_repr(entry.name)}, which is no"
                    f" file of the log {short_repr(self._base)}: it is damaged, or another log's"
                )
        return found

    def _number(self, name: str) -> int:
        names = self.names
        if name not in names:
            known = f"{names[0]} to {names[-1]}" if names else "no file"
            raise UsageError(
                f"{name} is not in the index {self._folder.path(self.file)}, which lists {known}"
            )
        return names.index(LogName(name))

    def _check_here(self, entry: Entry, there: frozenset[str]) -> None:
        """Raise StorageError for a file that is in another folder by its entry."""
        if entry.is_elsewhere and entry.name not in there and not self._names_here(entry):
            raise StorageError(
                f"{self._folder.path(self.file)}: it lists {entry.line.strip()}, in another folder:"
                " files elsewhere are read, and never deleted: purge by their server"
                " (PURGE BINARY LOGS), or remove that line from the index"
            )

    def _names_here(self, entry: Entry) -> bool:
        """Whether an entry names the index's own folder in full."""
        here = Path(self._folder.path(entry.name)).absolute()
        return os.path.normpath(here.parent / entry.folder / entry.name) == os.path.normpath(here)

    def _closed_before(self, time: int, there: frozenset[str]) -> int:
        """How many files, from the first on, were closed before a time; never the last."""
        count = 0
        for number, entry in enumerate(self.entries[1:], 1):
            self._check_here(entry, there)
            if entry.name not in there:
                continue
            begun = self._first_second(entry.name)
            if (begun + 1) * _SECOND > time:  # it may have been created later in that second
                break
            count = number
        return count

    def _first_second(self, name: str) -> int:
        """The second of a file's first event."""
        path = self._folder.path(name)
        raw = self._folder.read(name, 0, len(MAGIC) + 4)
        if raw[: len(MAGIC)] == ENCRYPTED_MAGIC:
            raise StorageError(
                f"{path}: it is encrypted, and does not say when it was created: purge up to a file"
            )
        if len(raw) < len(MAGIC) + 4 or raw[: len(MAGIC)] != MAGIC:
            raise StorageError(f"{path}: it is no log, and does not say when it was created")
        return int.from_bytes(raw[len(MAGIC) :], "little")

    def _delete(self, name: LogName, there: frozenset[str]) -> list[str]:
        """Delete a file and its index of GTIDs; the names of those that existed."""
        gone = [each for each in (name + GTID_INDEX_SUFFIX, name) if each in there]
        for each in gone:
            self._folder.remove(each)
        return gone

    def _write(self, entries: list[Entry]) -> None:
        self._replace(self.file, entries)
        self.entries = entries

    def _replace(self, name: str, entries: Iterable[Entry]) -> None:
        content = "".join(f"{entry.line}\n" for entry in entries)
        self._folder.replace(name, content.encode("utf-8", "surrogateescape"))
