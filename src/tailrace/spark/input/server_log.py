"""A server's log, received into a folder and read there; a mirror's is the lake's own.

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
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import PipelineError
from tailrace.position import bytes_after
from tailrace.printable import size
from tailrace.replication.receiver import Receiver
from tailrace.replication.retain import Retention
from tailrace.spark.manifest.on_disk import within
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
    """Called with what is done, the amount done, and the whole amount."""

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

    def __init__(self, limit: int = SPOOL_LIMIT, folder: Path | None = None) -> None:
        self._limit = limit
        self._folder = folder
        self._lock = threading.Lock()
        self._held = 0
        self.waiting = 0

    def took(self, count: int) -> bool:
        """Count bytes that were received; whether that is enough for now."""
        with self._lock:
            self.waiting += count
        return self.is_full

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


class ServerLog:
    """A server's log, and the copy of it in a folder, whose name is what the source is called.

    `receive` copies what is new. After `start` a thread does that until `close`, while there is
    ``room``.
    """

    def __init__(self, source: Source, folder: Path, room: Room | None = None) -> None:
        self.source = source
        self.folder = folder
        self.far: Far | None = None
        """The receiver's last report."""
        self.paused = False
        """Whether nothing is received, for want of room."""
        self.ended = False
        """Whether the thread has ended, as all is here that the server had."""
        self._room = room or Room()
        self._kept = _Kept()
        self.failed: Exception | None = None
        """What ended the receiver."""
        self._there = False
        """Whether a receiver has ever looked through the copy."""
        self._cut = False
        """Whether the receiver ends for want of room."""
        self._closing = threading.Event()
        self._pausing = threading.Lock()
        """Is held to begin or end a pause, and to change the copy inside one."""
        self._thread: threading.Thread | None = None

    @classmethod
    def below(cls, folder: Path, source: Source, room: Room | None = None) -> Self:
        """The one of a server below a folder for all."""
        name = _ODD.sub("_", str(source.hosts[0])).strip("_")
        return cls(source, within(folder, folder / name), room)

    @property
    def name(self) -> str:
        """What the source is called in the lake."""
        return self.folder.name

    # --- the copy --------------------------------------------------------------------------------

    @property
    def is_there(self) -> bool:
        """Whether there is a copy."""
        return any(self.folder.glob(f"*{INDEX_SUFFIX}"))

    def series(self) -> LogSeries:
        """The copy. Raises StorageError where there is none yet."""
        (series,) = find(self.folder)
        return series

    def waiting(self, place: Position | None) -> int:
        """The bytes of the copy that were not read yet."""
        return bytes_after(self.series().sizes, place) if self.is_there else 0

    def receive(self, place: Position | None = None, progress: Progress | None = None) -> LogSeries:
        """Copy what is new up to the server's present end; the copy, as a series of files.

        ``place`` is how far it was read, if it was. ``progress`` receives ``receive``, bytes
        received, and how many there will be. Raises what `Receiver.run` raises.
        """

        def tell(far: Far) -> None:
            if progress is not None:
                progress("receive", far.received, far.received + (far.lag_bytes or 0))

        Receiver(self._after(place), self.folder, follow=False, on_progress=tell).run()
        return self.series()

    def _after(self, place: Position | None) -> Source:
        """The source, with where a copy begins that is not there (any more)."""
        return self.source if place is None else replace(self.source, start=place)

    # --- the thread ------------------------------------------------------------------------------

    def start(self, place: Position | None, *, follow: bool) -> None:
        """Receive what comes after ``place``, which was read; without ``follow`` as far as the
        server's log goes now.

        With ``follow`` a broken connection is made again, as long as the source's ``retry`` says;
        where something was read already and ``retry`` is not said, so is one that was never made.
        """
        self._follow = follow
        self._begin = self._after(place)
        if follow and place is not None and self.source.retry is None:
            self._begin = replace(self._begin, retry_first=True)
        self._closing.clear()
        self.far, self.ended = None, False
        self._there = self.paused = False
        self._receiver = self._made()
        self._thread = threading.Thread(target=self._run, name=f"receive-{self.name}", daemon=True)
        self._thread.start()

    @property
    def started(self) -> bool:
        """Whether it is received, or was until its end."""
        return self._thread is not None

    def look(self) -> LogSeries | None:
        """The copy as it is by now, None while there is none. Raises what ended the receiver."""
        if self.failed is not None:
            raise self.failed
        self._there = self._there or self._receiver.position is not None
        there = self._there or (self.paused and self.is_there)
        return self.series() if there else None

    @property
    def is_full(self) -> bool:
        """Whether receiving pauses until there is room."""
        return self.paused and self._room.is_full

    @property
    def rests(self) -> bool:
        """Whether nothing more comes by itself: all is here, or there is no room."""
        return self.ended or self.is_full

    @property
    def caught_up(self) -> bool:
        """Whether all is here that the server had at the receiver's last report."""
        return self.ended or (self.far is not None and self.far.lag_bytes == 0)

    def keep_from(self, file: str) -> None:
        """Delete the files before one when the next is created, or now if nothing is received."""
        self._kept.place[:] = [file]
        with self._pausing:
            if self.paused or self.ended:
                (index,) = self.folder.glob(f"*{INDEX_SUFFIX}")
                purge(index, to=file)

    def close(self) -> None:
        """End at a transaction's end, or at once where that does not come or nobody follows."""
        if self._thread is None:
            return
        self._closing.set()
        self._receiver.stop(at_once=not self._follow)
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self._receiver.stop(at_once=True)
            self._thread.join()
        self._thread = self.failed = None

    def _note(self, far: Far) -> None:
        self.far = far

    def _took(self, count: int) -> bool:
        self._cut = self._room.took(count)
        return self._cut

    def _made(self) -> Receiver:
        return Receiver(
            self._begin,
            self.folder,
            follow=self._follow,
            retain=self._kept,
            on_progress=self._note,
            every=_REPORT_SECONDS,
            full=self._took,
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
                    self.paused = self._cut = False
                self._receiver.run()
                self._there = True
                if not (self._follow or self._cut):
                    self.ended = True
                    return
                self._receiver = self._made()  # which `close` stops before it is run, or after that
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.failed = error


@dataclass(frozen=True)
class _Kept(Retention):
    """Files go that the lake has whole: those before the one in ``place``."""

    place: list[str] = field(default_factory=list)

    def apply(self, index: LogIndex, folder: WritableStore) -> list[str]:  # noqa: ARG002 - its base's
        """Purge what goes; gives the names."""
        going = [name for name in self.place if name in index.names[1:]]
        return index.purge(to=going[0]) if going else []
