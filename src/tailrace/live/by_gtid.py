"""A feed's mode by GTID: whole transactions, on any server that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.constants import Flavour
from tailrace.live.chunks import Chunk, Expected, FileBegin
from tailrace.live.resume import stamp
from tailrace.live.whole_transactions import WholeTransactions
from tailrace.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from tailrace.gtid import GtidState
    from tailrace.live.link import Asked
    from tailrace.live.place import Place
    from tailrace.live.session import Session

_Server = tuple[str, str | None, int]


class FeedByGtid:
    """The GTIDs that were given, and the server whose files they came from.

    ``known`` is None: the feed may continue on any server.
    """

    known = Expected()
    proved = True
    ends: Position | None = None

    def __init__(self, start: GtidState | Literal["oldest", "now"]) -> None:
        self._start = start
        self._whole: WholeTransactions | None = None
        self._server: _Server | None = None
        self._file: FileBegin | None = None
        self._entering = False
        self._torn_before: Position | None = None

    @property
    def gtids(self) -> GtidState | None:
        """The start and what was given since. None before the first connection, if the start is
        to be asked for there.
        """
        if self._whole is not None:
            return self._whole.gtids
        return None if isinstance(self._start, str) else self._start

    @property
    def position(self) -> Position:
        """The position after what was given, in the files of the server that gave it."""
        return Position("", 4) if self._whole is None else self._whole.position

    def begin(self, session: Session) -> GtidState:
        """The GTIDs after which a session's dump has to begin."""
        if self._whole is None:
            start = self._start
            if isinstance(start, str):
                start = session.executed() if start == "now" else session.purged()
            started = session.started(start)
            assert not isinstance(started, Position)  # noqa: S101 - the start was none, either
            self._whole = WholeTransactions(started)
        return self._whole.gtids

    def skip_torn_tail(self, following: Position) -> bool:
        """A file ends inside an event: the next dump begins with ``following`` without our help.

        A source begins with the last file such that all files before it were given completely, and
        it never counted the torn transaction. False if the dump came to the same place again.
        """
        again, self._torn_before = self._torn_before == following, following
        return not again

    def asked(self, wanted: Position) -> Position:
        """Never a position."""
        return wanted

    def read_from_begin(self) -> None:
        """Do nothing: there is no start in a file to verify."""

    def goal(self, session: Session) -> GtidState | None:
        """What a dump that does not wait has to reach at least; None if that is unknown.

        It is unknown for MariaDB without strict mode: its GTIDs have no reliable order then.
        """
        return session.executed() if session.flavour is Flavour.MYSQL else None

    def reached(self, goal: Asked | None) -> bool:
        """Whether a dump that ended had reached its goal."""
        if goal is None or isinstance(goal, Position):
            return True
        gtids = self.gtids
        return gtids is not None and not goal - gtids

    def linked(self, session: Session) -> None:
        """A dump was requested on this session."""
        server = (str(session.host), session.server_uuid, session.server_id)
        if session.server_uuid is not None:
            server = ("", session.server_uuid, session.server_id)
        self._restart(same_server=server == self._server)
        self._server = server
        self._entering = True

    def _restart(self, *, same_server: bool) -> None:
        if self._whole is not None:
            self._whole.restart(same_server=same_server)

    def accept(self, item: FileBegin | Chunk, place: Place) -> Iterator[FileBegin | Chunk]:
        """The items that can be given after this one."""
        del place
        if isinstance(item, FileBegin):
            entering, self._entering = self._entering, False
            before = self._file
            if entering and before is not None and before.file == item.file:  # entered before
                self._restart(same_server=stamp(before.description) == stamp(item.description))
            self._file = item
        if self._whole is not None:
            yield from self._whole.feed(item)

    def close(self) -> None:
        """Do nothing."""
