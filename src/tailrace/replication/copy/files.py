"""A source's log, kept byte by byte in a folder: its files under their own names, and the index.

The file that is being written has the IN_USE flag, as the source's own file has while it is
written; the source sends the flag cleared. When the source's file has ended, the copy's flag is set
as in that file: cleared, except in MariaDB's files that end without ROTATE or STOP (the server
died), where it stays set.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC, TYPE_AT, EventType, Flavour
from tailrace.errors import LogReset, ProtocolError, StorageError, UsageError
from tailrace.events.format_description import marked
from tailrace.events.walk import frames, whole_events
from tailrace.position import Position
from tailrace.replication.copy.scan import CopiedFile, Mark, form_of, scan
from tailrace.storage.binlog_file import BinlogFile
from tailrace.storage.growth import has_grown
from tailrace.storage.index import LogIndex
from tailrace.storage.objects.folder import Contested
from tailrace.storage.target import remove_drafts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.events import FormatDescription
    from tailrace.log_name import LogName
    from tailrace.replication.copy.folder import CopyFolder

_log: Final = logging.getLogger("tailrace.receiver")
_PIECE: Final = 1 << 22
_LOOKS: Final = 5
"""How often a folder is looked at while another receiver creates files in it."""
_CLOSING: Final = frozenset({EventType.ROTATE, EventType.STOP})


class Copy:
    """The log with a base name in a folder; ``base`` is None as long as it is unknown.

    Call `recover` first. Then, as the source says: `begin` or `resume` a file, and `write` to it.
    Nothing in the folder is changed before the source has said where it continues.
    """

    def __init__(self, folder: CopyFolder, base: str | None) -> None:
        self.folder = folder
        self.base = base
        self.last: CopiedFile | None = None
        """The last file that is no longer written; None in a new copy."""
        self.form: FormatDescription | None = None
        self._index: LogIndex | None = None
        self._file: BinlogFile | None = None
        self._description = b""
        self._last_type = 0
        self._synced = True

    # --- what is there ---------------------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """Where the copy ends; None if it is empty."""
        if self._file is not None:
            return Position(self._file.name, self._file.position)
        return None if self.last is None else self.last.position

    @property
    def is_open(self) -> bool:
        """Whether a file is being written."""
        return self._file is not None

    @property
    def is_owned(self) -> bool:
        """Whether no receiver of another process has taken over the file that is being written."""
        return self._file is None or self.folder.is_owned(self._file.name)

    @property
    def synced(self) -> bool:
        """Whether everything that was written would survive a power cut."""
        return self._synced

    @property
    def index(self) -> LogIndex:
        """The log's index."""
        if self._index is None:
            raise UsageError("the copy has no file yet, and so no index")
        return self._index

    @property
    def files(self) -> list[LogName]:
        """The names of the copied files, oldest first."""
        return self._index.names if self._index is not None else []

    def recover(self, mark: Mark | None = None) -> None:
        """Find where an earlier receiver ended, from ``mark`` on, and correct the index.

        The existing files are synced: the source may take them for acknowledged when reading
        resumes. Raises StorageError, LogError if the folder holds no copy that can be resumed.
        """
        for _ in range(_LOOKS):
            self._recover(mark)
            if self.base is None or self._names() == self.files:
                return
        raise Contested(
            f"{self.folder.path('')}: another receiver creates files in it while it is read"
        )

    def _names(self) -> list[LogName]:
        return [name for name in self.folder.logs() if name.base == self.base]

    def _recover(self, mark: Mark | None) -> None:
        """`recover`; another receiver may create a file before this one takes over the last one."""
        self.last = None
        self.base = self.base or self._only_base()
        if self.base is None:
            return
        self._index = index = LogIndex(self.folder, self.base)
        index.recover()
        remove_drafts(self.folder, self.base)
        names = self._names()
        while names and self.last is None:
            whole = not self.folder.can_grow(names[-1])
            found = scan(self.folder, names[-1], mark=mark, whole=whole)
            if found.description:
                self.last = found
            else:
                self._forget(names.pop())
        self._list(names)
        for name in names[:-1]:  # the source has ended it: another one follows
            if self.folder.can_grow(name):
                self.folder.complete(name)
        if self.last is not None and self.folder.can_grow(self.last.name):
            file = BinlogFile(self.folder, self.last.name, buffer=0)
            file.open()
            try:
                file.sync()
                if file.position != self.last.size:  # another one wrote until now
                    self.last = scan(self.folder, file.name, mark=mark)
            finally:
                file.close()

    def _only_base(self) -> str | None:
        bases = {*self.folder.indexes(), *(name.base for name in self.folder.logs())}
        if len(bases) > 1:
            raise StorageError(
                f"{self.folder.path('')}: it holds several logs ({', '.join(sorted(bases))}); a"
                " copy needs a folder of its own"
            )
        return bases.pop() if bases else None

    def _forget(self, name: str) -> None:
        """Delete a file without a complete head: the source still has all its events."""
        _log.warning("%s: it holds no whole event; it is fetched again", self.folder.path(name))
        self.folder.remove(name)

    def _list(self, names: list[LogName]) -> None:
        """Make the index list the existing files."""
        index = self.index
        listed = index.names
        for gone in listed:
            if gone not in names and (not names or _follows(gone, names[-1])):
                index.drop(gone)
        last = index.names[-1] if index.names else None
        for name in names:
            if name in index:
                continue
            if last is not None and not _follows(name, last):
                raise StorageError(
                    f"{self.folder.path(name)}: the index {index.file} does not list it, and lists"
                    f" {last} after it: it is not of this copy; move it away"
                )
            index.add(name)
            last = name

    # --- files -----------------------------------------------------------------------------------

    def begin(self, name: LogName, description: bytes) -> None:
        """The source continues in a new file, which begins with this format description event.

        Raises LogReset if the name is not after those of the existing files; StorageError.
        """
        position = self.position
        if position is not None and not _follows(name, position.file):
            raise LogReset(
                f"the source continues in {name}, and the copy has {position.file} already: the log"
                " was reset"
            )
        path = self.folder.path(name)
        form = form_of(description, path)
        self.end_file()
        if self._index is None:
            self.base = name.base
            self._index = LogIndex(self.folder, name.base)
        elif name.base != self.base:
            raise LogReset(
                f"the source's log is named {name.base}, and the one in {self.folder.path('')} is"
                f" named {self.base}: use another folder for it"
            )
        file = BinlogFile(self.folder, name, buffer=0)
        with self._told(position):
            file.create(MAGIC + marked(description, in_use=True))
            try:
                self._index.add(name)
            except BaseException:
                file.close()
                with suppress(StorageError):
                    self.folder.remove(name)
                raise
        self._file, self.form, self._description = file, form, description
        self._last_type = EventType.FORMAT_DESCRIPTION
        self._synced = True

    def resume(self) -> bool:
        """The source continues in the copy's last file, at the copy's end: cut off its torn rest.

        False if the file is complete, so that nothing can be added to it. Raises StorageError if
        another receiver has written to it since `recover`.
        """
        last = self.last
        if last is None or self._file is not None:
            return self._file is not None
        self.form, self._description, self._last_type = last.form, last.description, last.last
        if not self.folder.can_grow(last.name):
            return False
        if last.reason:
            _log.warning("%s", last)
        file = BinlogFile(self.folder, last.name, buffer=0)
        file.open()
        if file.position != last.size:
            file.close()
            raise Contested(
                f"{file.path}: another receiver has written to it since it was read; give each a"
                " folder of its own. If no other is running, start again: it resumes after what is"
                " stored"
            )
        self._file = file
        with self._told(last.position):
            if file.position != last.end:
                file.truncate(last.end)
            if not last.closed:
                file.mark(in_use=True)
            file.sync()
        return True

    def mark(self, begun: int) -> Mark | None:
        """The synced end of the copy; ``begun`` as in `Mark`."""
        file = self._file
        if file is None or not self._synced:
            return None
        return Mark(file.name, file.position, begun, self._last_type)

    def write(self, data: memoryview, starts: Sequence[int]) -> None:
        """Append whole events, which begin at ``starts`` in the data. Raises StorageError.

        Events that were stored before the error stay.
        """
        file = self._file
        if file is None:
            raise self._cannot_grow()
        at = file.position
        self._synced = False
        try:
            file.write(data)
        except StorageError as error:
            taken = bisect_right(starts, file.position - at)
            kept = at + (starts[taken - 1] if taken else 0)
            if taken > 1:
                self._last_type = data[starts[taken - 2] + TYPE_AT]
            with suppress(StorageError):
                file.truncate(kept)
            raise self._failed(error, Position(file.name, kept)) from error
        self._last_type = data[starts[-1] + TYPE_AT]
        has_grown()

    def _cannot_grow(self) -> Exception:
        if self.last is None:
            return ProtocolError("the stream gave events before it named their file")
        return Contested(
            f"{self.folder.path(self.last.name)}: the source has more in this file than it had"
            " when it was complete, and nothing can be added to it as it is stored; begin a new"
            " copy in another folder"
        )

    def sync(self) -> None:
        """Return when everything written would survive a power cut. Raises StorageError."""
        if self._file is not None and not self._synced:
            with self._told(None):  # what is not synced may be lost
                self._file.sync()
        self._synced = True

    def end_file(self) -> None:
        """The source has ended the file that is being written, if any."""
        file = self._file
        if file is None:
            return
        with self._told(None):  # what is not synced may be lost
            if self._clears():
                file.mark(in_use=False)
            file.sync()
            self._leave(file)
            try:
                self.folder.complete(file.name)
            finally:
                file.close()

    def _leave(self, file: BinlogFile) -> None:
        """The file is no longer written; all of it was synced."""
        self._synced = True
        self._file = None
        size = file.position
        self.last = CopiedFile(
            file.name,
            file.path,
            size,
            size,
            description=self._description,
            form=self.form,
            last=self._last_type,
        )

    def _clears(self) -> bool:
        """Whether the source cleared the IN_USE flag in the file that it ended."""
        flavour = self.form.flavour if self.form is not None else None
        return self._last_type in _CLOSING or flavour is not Flavour.MARIADB

    def close(self) -> None:
        """Sync, and close the file; it keeps the flag of a file that is being written."""
        file = self._file
        if file is None:
            return
        try:
            file.sync()
        finally:
            self._leave(file)
            file.close()

    # --- what was written ------------------------------------------------------------------------

    def events(self, begin: int) -> Iterator[tuple[int, bytes]]:
        """The events of the file that is being written, from an offset on: (offset, bytes)."""
        position = self.position
        if position is None:
            return

        def read_into(at: int, view: memoryview) -> int:
            data = self.folder.read(position.file, begin + at, len(view))
            view[: len(data)] = data
            return len(data)

        at = begin
        for piece in whole_events(read_into, position.offset - begin, _PIECE):
            for start, end in frames(piece):
                yield at + start, bytes(piece[start:end])
            at += len(piece)

    # --- a store's errors ------------------------------------------------------------------------

    @contextmanager
    def _told(self, position: Position | None) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            if type(error) is not StorageError:  # the message of a missing key is sufficient
                raise
            raise self._failed(error, position) from error

    @staticmethod
    def _failed(error: StorageError, position: Position | None) -> StorageError:
        """The same error, with the state of the copy and what to do."""
        where = "" if position is None else f" at {position}"
        return StorageError(
            f"{error}; the copy is whole up to what was written before: correct the cause and start"
            f" again, it resumes{where}"
        )


def _follows(name: str, before: str) -> bool:
    return Position(name, 0) > Position(before, 0)
