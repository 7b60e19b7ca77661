"""A feed's mode by position: every byte of the files once, on the same server."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC
from tailrace.errors import AccessDenied
from tailrace.live.chunks import Chunk, Expected, FileBegin
from tailrace.live.session import OLDEST
from tailrace.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal

    from tailrace.gtid import GtidState
    from tailrace.live.place import Place
    from tailrace.live.session import Session
    from tailrace.times import Time

_U32_END: Final = 1 << 32
"""COM_BINLOG_DUMP requests only offsets below this."""


class DumpByPosition:
    """The current position, and the identity of the server and of the current file.

    ``position`` is the end of what was given. ``known`` is what a further connection has to find.
    ``ends`` is where a file may end without ROTATE or STOP. ``find_time`` finds the position of a
    time (microseconds UTC) on a session's server.
    """

    gtids = None

    def __init__(
        self,
        start: Position | Time | Literal["oldest", "now"],
        expected: Expected,
        find_time: Callable[[Session, int], Position],
    ) -> None:
        self._start = start
        self._find_time = find_time
        self.position = start if isinstance(start, Position) else OLDEST
        self.known = expected
        self.ends: Position | None = None
        self._given = False  # whether the `FileBegin` of the file at ``position`` was given
        self._entering = False
        self._whole_file = False
        self._low: Position | None = None

    def read_from_begin(self) -> None:
        """Request the current file from its beginning, which verifies the start."""
        self._whole_file = True
        if not self.known.reached:
            self.known = replace(self.known, description=None)  # it verified nothing

    @property
    def proved(self) -> bool:
        """Whether it is known that an event begins, or the file ends, at ``position``."""
        return self.known.description is not None

    @property
    def resumed(self) -> bool:
        """Whether the source had ``position`` before: if it does not, its log was reset."""
        return self.known.reached or self.proved

    def begin(self, session: Session) -> tuple[Position, int]:
        """What to request from a session, and the offset in its file before which all was given.

        Raises LogReset if another server answers.
        """
        self.known.check_server(session.server_uuid, session.name)
        if not isinstance(self._start, Position) and self._start != "oldest":
            if self._start == "now":
                self._start = session.end()
            else:
                self._start = self._find_time(session, self._start.microseconds)
            self.position = self._start
            self.known = replace(self.known, reached=True)
        return self._asked(), self.position.offset

    def _asked(self) -> Position:
        """The position to request: an earlier event of the same file in three cases.

        Past 4 GiB, COM_BINLOG_DUMP cannot express the position. Right after the description,
        MariaDB would decrypt the START_ENCRYPTION that is stored there unencrypted. And if the
        start has yet to be verified.
        """
        wanted, low, description = self.position, self._low, self.known.description
        whole_file, self._whole_file = self._whole_file, False
        after_description = description is not None and (
            wanted.offset == len(MAGIC) + len(description)
        )
        if wanted.offset < _U32_END and not whole_file and not after_description:
            return wanted
        if low is not None and low.file == wanted.file and not whole_file:
            return low
        return Position(wanted.file, len(MAGIC))

    def goal(self, session: Session) -> Position | None:
        """What a dump that does not wait has to reach at least; None if that is unknown."""
        try:
            return session.end()
        except AccessDenied:
            return None

    def reached(self, goal: Position | GtidState | None) -> bool:
        """Whether a dump that ended had reached its goal."""
        return not isinstance(goal, Position) or self.position >= goal

    def skip_torn_tail(self, following: Position) -> bool:
        """The current file ends inside an event: continue at the beginning of the next file."""
        self.position = following
        self._next_file()
        return True

    def linked(self, session: Session) -> None:
        """A dump was requested on this session."""
        self._entering = True
        self.known = replace(self.known, uuid=session.server_uuid or self.known.uuid)

    def accept(self, item: FileBegin | Chunk, place: Place) -> Iterator[FileBegin | Chunk]:
        """The part of an item that has to be given. Raises LogReset if the file is another."""
        if isinstance(item, Chunk):
            if item.offset < _U32_END <= item.end:  # keep the last event that can be requested
                number = bisect_left(item.starts, _U32_END - item.offset) - 1
                self._low = Position(item.file, item.offset + item.starts[number])
            self.position = place.position
            if not self.known.reached:
                self.known = replace(self.known, reached=True)
            if self.position.file != item.file:
                self._next_file()
            yield item
            return
        entering, self._entering = self._entering, False
        if entering and item.file == self.position.file and self.position.offset > len(MAGIC):
            self.known.check_file(item, place.source)
            if self._given:
                return
            item = replace(item, offset=self.position.offset, artificial=True)
        self._low = None
        self._given = True
        self.position = Position(item.file, item.offset)
        self.known = replace(self.known, description=item.description)
        yield item

    def _next_file(self) -> None:
        """The file's ROTATE was given: reading continues in a file of which nothing is known."""
        self._given = False
        self._low = None
        self.known = replace(self.known, description=None)
