"""Servers as sources of a mirror: their logs are received into the lake's own folder, then read.

    lake/_tailrace/sources/db1.example.org_3306/binlog.000017 ...    a byte copy (`Receiver`)

Each run continues the copy, after a crash too. Files that the lake has whole are deleted once it
was committed. If the copy was lost, it is recreated from the file where the lake ends.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.constants import MAGIC
from tailrace.live.scheme import names_server
from tailrace.live.url import Source
from tailrace.position import Position
from tailrace.replication.receiver import Receiver
from tailrace.replication.retain import Retention
from tailrace.spark.manifest.paths import within
from tailrace.storage import find
from tailrace.storage.index import INDEX_SUFFIX
from tailrace.storage.purge import purge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.replication.progress import Progress as Far
    from tailrace.spark.manifest.manifest import SourceState
    from tailrace.storage import LogSeries
    from tailrace.storage.index import LogIndex
    from tailrace.storage.store import WritableStore

    Progress = Callable[[str, int, int], None]

_ODD: Final = re.compile(r"[^A-Za-z0-9.-]+")
_REPORT_SECONDS: Final = 0.5
_END_SECONDS: Final = 30.0
"""How long the end of a transaction is waited for where a receiver is to end."""


@dataclass(frozen=True)
class ServerLogs:
    """A server, and the folder that its logs are received into. Its name is the folder's."""

    source: Source
    folder: Path
    place: Position | None = None
    """Where a new lake begins, None: with the copy."""

    @classmethod
    def below(cls, folder: Path, source: Source) -> ServerLogs:
        """The one of a server below a folder for all."""
        name = _ODD.sub("_", str(source.hosts[0])).strip("_")
        return cls(source, within(folder, folder / name))

    @property
    def name(self) -> str:
        """What the source is called in the lake."""
        return self.folder.name

    def receive(self, state: SourceState | None, progress: Progress | None) -> LogSeries:
        """Copy what is new up to the server's present end; the copy, as a series of files.

        ``state`` is how far the lake has read it. ``progress`` is told ``receive``, bytes received,
        and how many there will be. Raises what `Receiver.run` raises.
        """

        def tell(far: Far) -> None:
            if progress is not None:
                progress("receive", far.received, far.received + (far.lag_bytes or 0))

        Receiver(self.begin(state), self.folder, follow=False, on_progress=tell).run()
        return self.series()

    def begin(self, state: SourceState | None) -> Source:
        """The source, with where a copy begins that is not there (any more)."""
        if state is None and self.place is not None:
            return replace(self.source, start=Position(self.place.file, len(MAGIC)))
        if state is None:
            return self.source
        return replace(self.source, start=Position(state.file, len(MAGIC)))

    def series(self) -> LogSeries:
        """The copy. Raises StorageError where there is none yet."""
        (series,) = find(self.folder)
        return series

    def keep_from(self, state: SourceState | None) -> None:
        """Delete the files before the one up to which the lake has read."""
        if state is not None:
            (index,) = self.folder.glob(f"*{INDEX_SUFFIX}")
            purge(index, to=state.file)


class Received:
    """A server's log, received by a thread of its own until `close`.

    A broken connection is made again, as long as the source's ``retry`` says; where the lake has
    something of the source already and ``retry`` is not said, so is one that was never made.
    """

    def __init__(self, logs: ServerLogs, state: SourceState | None) -> None:
        if state is not None and logs.source.retry is None:
            logs = replace(logs, source=replace(logs.source, retry_first=True))
        self.logs = logs
        self.far: Far | None = None
        """The receiver's last report."""
        self._kept = _Kept()
        self._failed: Exception | None = None
        self._receiver = Receiver(
            logs.begin(state),
            logs.folder,
            follow=True,
            retain=self._kept,
            on_progress=self._note,
            every=_REPORT_SECONDS,
        )
        self._thread = threading.Thread(target=self._run, name=f"receive-{logs.name}", daemon=True)
        self._thread.start()

    def look(self) -> LogSeries | None:
        """The copy as it is by now, None while there is none. Raises what ended the receiver."""
        if self._failed is not None:
            raise self._failed
        if self._receiver.position is None:
            return None
        return self.logs.series()

    def committed(self, state: SourceState) -> None:
        """The lake has the log up to there: files before are deleted as the next is created."""
        self._kept.place[:] = [state.file]

    def close(self) -> None:
        """End at a transaction's end, or at once where that does not come."""
        self._receiver.stop()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self._receiver.stop(at_once=True)
            self._thread.join()

    def _note(self, far: Far) -> None:
        self.far = far

    def _run(self) -> None:
        try:
            self._receiver.run()
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self._failed = error


@dataclass(frozen=True)
class _Kept(Retention):
    """Files go that the lake has whole: those before the one in ``place``."""

    place: list[str] = field(default_factory=list)

    def apply(self, index: LogIndex, folder: WritableStore) -> list[str]:  # noqa: ARG002 - its base's
        """Purge what goes; gives the names."""
        going = [name for name in self.place if name in index.names[1:]]
        return index.purge(to=going[0]) if going else []


def apart(sources: Sequence[str | Path | Source]) -> tuple[list[str | Path], list[Source]]:
    """Those that are files, and those that are servers.

    Paths are made absolute: tasks may be in another folder.
    """
    files: list[str | Path] = []
    servers: list[Source] = []
    for each in sources:
        if isinstance(each, Source):
            servers.append(each)
        elif isinstance(each, str) and names_server(each):
            servers.append(Source.parse(each))
        else:
            path = Path(each)
            files.append(path.absolute() if each not in {"-", ""} and path.exists() else each)
    return files, servers
