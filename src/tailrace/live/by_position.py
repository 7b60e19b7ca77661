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
    """Where reading is, and what the server and the file at hand are.

    ``position`` is behind what was given. ``known`` is what a further connection has to find,
    ``ends`` where a file may end without ROTATE or STOP.
    """

    gtids = None

    def __init__(
        self, start: Position | Time | Literal["oldest", "now"], expected: Expected
    ) -> None:
        self._start = start
        self.position = start if isinstance(start, Position) else OLDEST
        self.known = expected
        self.ends: Position | None = None
        self._given = False  # of the file at ``position``, its begin was given
        self._entering = False
        self._whole_file = False
        self._low: Position | None = None

    def read_from_begin(self) -> None:
        """Ask for the file at hand from its begin: so the start is proved."""
        self._whole_file = True

    @property
    def proved(self) -> bool:
        """Whether an event is known to begin, or the file to end, where is read on."""
        return self.known.description is not None

    def begin(self, session: Session) -> Position:
        """Where to ask a session from. Raises LogReset where another server answers."""
        check_same_server(self.known, session.server_uuid, session.name)
        if self._start == "now":
            self.position = session.end()
            self._start = self.position
        elif isinstance(self._start, Time):
            from tailrace.live.since import find_time  # noqa: PLC0415 - it reads by a feed

            self.position = self._start = find_time(session, self._start.microseconds)
        return self.position

    def asked(self, wanted: Position) -> Position:
        """What can be asked for: an earlier event's begin in the same file, in three cases.

        Past 4 GiB, COM_BINLOG_DUMP cannot say it. Right behind the description, MariaDB decrypts
        the START_ENCRYPTION that stands there in clear. And where the start is to be proved.
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
        """What a dump that does not wait has to reach at least; None where that is not known."""
        try:
            return session.end()
        except AccessDenied:
            return None

    def reached(self, goal: Asked | None) -> bool:
        """Whether a dump that ended had reached its goal."""
        return not isinstance(goal, Position) or self.position >= goal

    def skip_torn_tail(self, following: Position) -> bool:
        """The file at hand ends inside an event: read on from the next one's begin."""
        self.position = following
        self._next_file()
        return True

    def linked(self, session: Session) -> None:
        """A dump was requested on this session."""
        self._entering = True
        self.known = replace(self.known, uuid=session.server_uuid or self.known.uuid)

    def accept(self, item: FileBegin | Chunk, place: Place) -> Iterator[FileBegin | Chunk]:
        """What of an item is to be given. Raises LogReset where the file is another."""
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
        """Its ROTATE was given: reading goes on in a file of which nothing is known."""
        self._given = False
        self._low = None
        self.known = replace(self.known, description=None)

    def _note_low(self, chunk: Chunk) -> None:
        """Keep the last event's begin that COM_BINLOG_DUMP can say."""
        if chunk.offset < U32_END <= chunk.end:
            at = bisect_left(chunk.starts, U32_END - chunk.offset) - 1
            self._low = Position(chunk.file, chunk.offset + chunk.starts[at])

    def close(self) -> None:
        """Nothing is held."""
