"""How far a lake is behind its server, and waiting until it has caught up."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from tailrace.closing import Closing
from tailrace.constants import GTID_TYPES, TYPE_AT
from tailrace.errors import (
    ConnectionLost,
    PipelineError,
    StorageError,
    TailraceError,
)
from tailrace.live.session import Session
from tailrace.live.transport import ServerTransport
from tailrace.position import Position, bytes_after
from tailrace.replication.state import ReceiverState
from tailrace.spark.input.server_log import ServerLog
from tailrace.spark.lake.folder import INNER, folders_of_logs
from tailrace.spark.lake.reading import LakeView
from tailrace.storage.local import LocalFolder

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.live.url import Source
    from tailrace.spark.input.server_log import Progress
    from tailrace.spark.manifest.manifest import TableState
    from tailrace.table_name import TableName

_MOST_COUNTED: Final = 1000
_LOOK_SECONDS: Final = 0.2


class LakeOfServer(Closing):
    """A server compared with the lake that is kept equal to it; a context manager.

    A lake that does not exist yet is waited for, at most ``seconds``, unless the server rejects the
    account. Raises what connecting raises, and `PipelineError` where there is no lake, or it is not
    of this server.
    """

    def __init__(self, source: Source, lake: str | Path, seconds: float) -> None:
        self._source = source
        self._lake = lake
        deadline = time.monotonic() + seconds
        if seconds and not LakeView.is_there(lake):
            with suppress(ConnectionLost):  # the server may start later, like the mirror
                Session.open(source).close()
        while not LakeView.is_there(lake) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        self.view = LakeView.open(lake)
        self.name = _name(self.view, source)

    def __enter__(self) -> Self:
        self._session = Session.open(self._source)
        try:
            self._check_server()
        except BaseException:
            self.close()
            raise
        return self

    def _check_server(self) -> None:
        """Raise `PipelineError` where another MySQL answers than the one that was mirrored: the
        lake's copy of the log has its UUID. MariaDB has none.
        """
        folder = folders_of_logs(self.view.path / INNER)[0] / self.name
        with suppress(StorageError):  # not known
            state = ReceiverState.load(LocalFolder(folder))
            was, now = state and state.source_uuid, self._session.server_uuid
            if None not in {was, now} and was != now:
                raise PipelineError(
                    f"{self._session.name} is another server than the one that {self.view.lake} was"
                    f" made from (its UUID is {now}, and was {was}): compare with that one, or"
                    " mirror this one into a new lake"
                )

    def close(self) -> None:
        """Leave the server."""
        self._session.close()

    @property
    def position(self) -> Position:
        """Up to where the lake has the server's log, in the version last looked at."""
        state = self.view.manifest.sources[self.name]
        return state.position

    def tables(self) -> dict[TableName, TableState]:
        """The tables that the lake has of the server, in the version last looked at."""
        states = self.view.manifest.tables.values()
        mine = (each for each in states if each.source == self.name and not each.dropped)
        return {each.full_name: each for each in mine}

    def end(self) -> Position:
        """Where the server's log ends now."""
        return self._session.end()

    def look(self) -> LakeView:
        """The lake's version of now."""
        self.view = LakeView.open(self._lake)
        return self.view

    def behind(self, end: Position) -> tuple[int | None, int]:
        """The bytes and transactions between the lake and a place in the server's log.

        What is no transaction (a new file's head) does not count. None and 0 if the server no
        longer has the log from the lake's position on.
        """
        if self.position >= end:
            return 0, 0
        sizes: dict[str, int] = dict(self._session.logs())
        if self.position.file not in sizes:
            return None, 0
        try:
            count = self._transactions(end)
        except TailraceError as error:
            raise PipelineError(
                f"the server's log cannot be read from {self.position} on, so it is not known what "
                f"the lake lacks: {error}"
            ) from error
        return bytes_after(sizes.items(), self.position, end) if count else 0, count

    def _transactions(self, end: Position) -> int:
        source = replace(self._source, server_id=None)  # the mirror has that id
        count = 0
        with closing(ServerTransport(source).read(self.position, follow=False)) as stream:
            for file, offset, event in stream:
                if Position(file, offset) >= end or count >= _MOST_COUNTED:
                    break
                count += event[TYPE_AT] in GTID_TYPES
        return count

    def wait(self, end: Position, seconds: float, tell: Progress) -> bool:
        """Wait until the lake has the server's log up to a place; False where it did not get there.

        The lake's version is that of the end. If the lake is behind, ``tell`` receives ``wait``, 0
        and the missing bytes.
        """
        deadline = time.monotonic() + seconds
        seen: Position | None = None
        while True:
            self.look()
            if self.position != seen:
                first, seen = seen is None, self.position
                missing = self.behind(end)
                if missing == (0, 0):
                    return True
                if first:
                    tell("wait", 0, missing[0] or 0)
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(_LOOK_SECONDS, max(deadline - time.monotonic(), 0)))


def _name(view: LakeView, source: Source) -> str:
    """Which of the lake's sources the server is."""
    known = view.manifest.sources
    wanted = ServerLog.below(view.path, source).name
    if wanted in known:
        return wanted
    if len(known) == 1 and not any(name.rpartition("_")[2].isdigit() for name in known):
        return next(iter(known))  # the server's own files, or a copy of them
    listed = ", ".join(sorted(known)) or "none"
    raise PipelineError(
        f"{view.lake} is not made from {source.name}: its sources are {listed}; use the URL that "
        "you gave to mirror"
    )
