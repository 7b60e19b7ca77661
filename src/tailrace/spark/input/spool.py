"""Servers as sources of a mirror: their logs are received into the lake's own folder, then read.

    lake/_tailrace/sources/db1.example.org_3306/binlog.000017 ...    a byte copy (`Receiver`)

Each run continues the copy, after a crash too. Files that the lake has whole are deleted once it
was committed. If the copy was lost, it is recreated from the file where the lake ends. Only so much
is received that the lake can take it, and no more than the spool's limit, then more (`Room`).
"""

from __future__ import annotations

import re
import shutil
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError
from tailrace.position import bytes_after
from tailrace.printable import size
from tailrace.replication.receiver import Receiver
from tailrace.replication.retain import Retention
from tailrace.spark.manifest.paths import within
from tailrace.storage import find
from tailrace.storage.index import INDEX_SUFFIX
from tailrace.storage.purge import purge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tailrace.live.url import Source
    from tailrace.position import Position
    from tailrace.replication.progress import Progress as Far
    from tailrace.storage import LogSeries
    from tailrace.storage.index import LogIndex
    from tailrace.storage.store import WritableStore

    Progress = Callable[[str, int, int], None]

SPOOL_LIMIT: Final = 20_000_000_000
"""Bytes of servers' logs that are received and not taken, by default."""
_ODD: Final = re.compile(r"[^A-Za-z0-9.-]+")
_REPORT_SECONDS: Final = 0.5
_END_SECONDS: Final = 30.0
"""How long the end of a transaction is waited for where a receiver is to end."""
_LEAST_FREE: Final = 4 << 20
_LEAST_WAITING: Final = 1 << 20
_PAUSE_SECONDS: Final = 0.1


class Room:
    """How much more of servers' logs may be received.

    What is received and not yet taken (``waiting``, in bytes) may have ``limit`` bytes; what nobody
    can take yet does not count (`hold`).

    What a lake makes of a log takes about as many bytes as the log, at most, and the log can only
    be deleted after that. So in a lake's ``folder``, what waits may take half of what is free, and
    a little in any case. None: no lake is made on that disk. Threads may share it.
    """

    def __init__(self, limit: int, folder: Path | None = None) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._limit = limit
        self._folder = folder
        self._lock = threading.Lock()
        self._held = 0
        self.waiting = 0
        self.was_full = False
        """Whether `took` ever said so."""

    def took(self, count: int) -> bool:
        """Count bytes that were received; whether that is enough for now."""
        with self._lock:
            self.waiting += count
        is_full = self.is_full
        self.was_full = self.was_full or is_full
        return is_full

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be received before some of it was taken."""
        return self.waiting - self._held >= self._limit or not self._fits()

    def _fits(self) -> bool:
        """Whether the disk has room for more."""
        if self._folder is None or self.waiting < _LEAST_WAITING:
            return True
        return shutil.disk_usage(self._folder).free >= self.waiting + _LEAST_FREE

    def took_out(self, waiting: int) -> None:
        """Some of it was taken; so much is left."""
        with self._lock:
            self.waiting, self._held = waiting, 0

    def hold(self, *, stuck: bool = True) -> None:
        """Nothing of what waits can be taken, as its transaction has not ended or is in-doubt:
        receive on, up to the limit again.

        Raises PipelineError where the disk is full, if everything is ``stuck``.
        """
        if self._fits():
            with self._lock:
                self._held = self.waiting
        elif stuck and self._folder is not None:
            free = shutil.disk_usage(self._folder).free
            raise PipelineError(
                f"{self._folder}: no room for more of the server's log: {size(free)} are free on"
                f" this disk, {size(self.waiting)} of the log wait to be taken into the lake. The"
                " last log file must be here whole, and the lake takes as much again: free some"
                " space and run it again (smaller log files, by max_binlog_size on the source, need"
                " less)"
            )


@dataclass(frozen=True)
class ServerLogs:
    """A server, and the folder that its logs are received into. Its name is the folder's."""

    source: Source
    folder: Path

    @classmethod
    def below(cls, folder: Path, source: Source) -> ServerLogs:
        """The one of a server below a folder for all."""
        name = _ODD.sub("_", str(source.hosts[0])).strip("_")
        return cls(source, within(folder, folder / name))

    @property
    def name(self) -> str:
        """What the source is called in the lake."""
        return self.folder.name

    def receive(
        self,
        place: Position | None = None,
        progress: Progress | None = None,
        full: Callable[[int], bool] | None = None,
    ) -> LogSeries:
        """Copy what is new up to the server's present end; the copy, as a series of files.

        ``place`` is how far it was read, if it was. ``progress`` receives ``receive``, bytes
        received, and how many there will be. For ``full``, see `Receiver`. Raises what
        `Receiver.run` raises.
        """

        def tell(far: Far) -> None:
            if progress is not None:
                progress("receive", far.received, far.received + (far.lag_bytes or 0))

        Receiver(self.begin(place), self.folder, follow=False, on_progress=tell, full=full).run()
        return self.series()

    @property
    def is_there(self) -> bool:
        """Whether there is a copy."""
        return any(self.folder.glob(f"*{INDEX_SUFFIX}"))

    def waiting(self, place: Position | None) -> int:
        """The bytes of the copy that were not read yet."""
        return bytes_after(self.series().sizes, place) if self.is_there else 0

    def begin(self, place: Position | None) -> Source:
        """The source, with where a copy begins that is not there (any more)."""
        return self.source if place is None else replace(self.source, start=place)

    def series(self) -> LogSeries:
        """The copy. Raises StorageError where there is none yet."""
        (series,) = find(self.folder)
        return series

    def keep_from(self, file: str) -> None:
        """Delete the files before one."""
        (index,) = self.folder.glob(f"*{INDEX_SUFFIX}")
        purge(index, to=file)


class Received:
    """A server's log, received by a thread of its own until `close`.

    A broken connection is made again, as long as the source's ``retry`` says; where the lake has
    something of the source already and ``retry`` is not said, so is one that was never made. While
    there is no ``room``, nothing is received.
    """

    def __init__(self, logs: ServerLogs, place: Position | None, room: Room) -> None:
        if place is not None and logs.source.retry is None:
            logs = replace(logs, source=replace(logs.source, retry_first=True))
        self.logs = logs
        self.far: Far | None = None
        """The receiver's last report."""
        self.paused = False
        """Whether nothing is received, for want of room."""
        self._kept = _Kept()
        self._failed: Exception | None = None
        self._room = room
        self._begin = logs.begin(place)
        self._there = False
        """Whether a receiver has ever looked through the copy."""
        self._closing = threading.Event()
        self._pausing = threading.Lock()
        """Is held to begin or end a pause, and to change the copy inside one."""
        self._receiver = self._made()
        self._thread = threading.Thread(target=self._run, name=f"receive-{logs.name}", daemon=True)
        self._thread.start()

    def look(self) -> LogSeries | None:
        """The copy as it is by now, None while there is none. Raises what ended the receiver."""
        if self._failed is not None:
            raise self._failed
        self._there = self._there or self._receiver.position is not None
        there = self._there or (self.paused and self.logs.is_there)
        return self.logs.series() if there else None

    def keep_from(self, file: str) -> None:
        """Delete the files before one when the next is created, or now while there is no room."""
        self._kept.place[:] = [file]
        with self._pausing:
            if self.paused:
                self.logs.keep_from(file)

    def close(self) -> None:
        """End at a transaction's end, or at once where that does not come."""
        self._closing.set()
        self._receiver.stop()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self._receiver.stop(at_once=True)
            self._thread.join()

    def _note(self, far: Far) -> None:
        self.far = far

    def _made(self) -> Receiver:
        return Receiver(
            self._begin,
            self.logs.folder,
            follow=True,
            retain=self._kept,
            on_progress=self._note,
            every=_REPORT_SECONDS,
            full=self._room.took,
        )

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                if self._room.is_full:
                    with self._pausing:
                        self.paused = True
                    self._closing.wait(_PAUSE_SECONDS)
                    continue
                with self._pausing:
                    self.paused = False
                self._receiver.run()
                self._there = True
                self._receiver = self._made()  # which `close` stops before it is run, or after that
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
