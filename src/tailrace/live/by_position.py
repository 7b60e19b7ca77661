"""A feed's mode by position: every byte of the files once, on the same server."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.constants import MAGIC
from tailrace.errors import AccessDenied
from tailrace.live.chunks import Chunk, Expected, FileBegin
from tailrace.live.resume import U32_END, check_same_file, check_same_server
from tailrace.live.session import OLDEST
from tailrace.position import Position
from tailrace.selection import Time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from tailrace.live.link import Asked
    from tailrace.live.place import Place
    from tailrace.live.session import Session


class FeedByPosition:
    """The current position, and the identity of the server and of the current file.

    ``position`` is the end of what was given. ``known`` is what a further connection has to find.
    ``ends`` is where a file may end without ROTATE or STOP.
    """

    gtids = None

    def __init__(
        self, start: Position | Time | Literal["oldest", "now"], expected: Expected
    ) -> None:
        self._start = start
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

    @property
    def proved(self) -> bool:
        """Whether it is known that an event begins, or the file ends, at ``position``."""
        return self.known.description is not None

    def begin(self, session: Session) -> Position:
        """The position to request from a session. Raises LogReset if another server answers."""
        check_same_server(self.known, session.server_uuid, session.name)
        if self._start == "now":
            self.position = session.end()
            self._start = self.position
        elif isinstance(self._start, Time):
            from tailrace.live.since import find_time  # noqa: PLC0415 - it reads by a feed

            self.position = self._start = find_time(session, self._start.microseconds)
        return self.position

    def asked(self, wanted: Position) -> Position:
        """The position to request: an earlier event of the same file in three cases.

        Past 4 GiB, COM_BINLOG_DUMP cannot express the position. Right after the description,
        MariaDB would decrypt the START_ENCRYPTION that is stored there unencrypted. And if the
        start has yet to be verified.
        """
        if self._whole_file:
            self._whole_file = False
            return Position(wanted.file, len(MAGIC))
        description = self.known.description
        if description is not None and wanted.offset == len(MAGIC) + len(description):
            return Position(wanted.file, len(MAGIC))
        if wanted.offset < U32_END:
            return wanted
        low = self._low
        return (
            low
            if low is not None and low.file == wanted.file
            else Position(wanted.file, len(MAGIC))
        )

    def goal(self, session: Session) -> Position | None:
        """What a dump that does not wait has to reach at least; None if that is unknown."""
        try:
            return session.end()
        except AccessDenied:
            return None

    def reached(self, goal: Asked | None) -> bool:
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
            self._note_low(item)
            self.position = place.position
            if self.position.file != item.file:
                self._next_file()
            yield item
            return
        entering, self._entering = self._entering, False
        if entering and item.file == self.position.file and self.position.offset > len(MAGIC):
            if self.known.description is not None:
                check_same_file(self.known.description, item.description, item.file, place.source)
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

    def _note_low(self, chunk: Chunk) -> None:
        """Keep the start of the last event whose offset COM_BINLOG_DUMP can express."""
        if chunk.offset < U32_END <= chunk.end:
            at = bisect_left(chunk.starts, U32_END - chunk.offset) - 1
            self._low = Position(chunk.file, chunk.offset + chunk.starts[at])

    def close(self) -> None:
        """Do nothing."""
