"""``tailrace receive``: byte-identical copies of servers' logs, updated as the logs grow."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter

from tailrace.cli.options import (  # cyclopts reads them
    READING,
    FileName,
    Follow,
    Plugins,
    SkipTornTail,
)
from tailrace.cli.output import (
    cut_to_width,
    live_on_stderr,
    log_said,
    output_to,
    say,
    say_error,
    standard_output,
)
from tailrace.cli.signals import on_signals
from tailrace.cli.sources import NO_SERVER, parsed
from tailrace.durations import seconds_of
from tailrace.errors import TailraceError, UsageError
from tailrace.live.scheme import names_server
from tailrace.printable import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.live.url import Source
    from tailrace.replication.progress import Progress
    from tailrace.replication.receiver import Receiver


_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=((?:mysql|mariadb):.*)", re.DOTALL)
_ODD: Final = re.compile(r"[^A-Za-z0-9.-]+")
_LOOK_SECONDS: Final = 0.2
_FAILED: Final = 2

_COPY: Final = Group("Copy", sort_key=0)

Servers = Annotated[
    str,
    Parameter(
        name="server",
        help="Servers: ``mysql://user@host:3306/`` (or ``mariadb://``), or ``NAME=URL``. "
        "``?start=now`` sets where a new copy begins.",
    ),
]


def receive(
    *sources: Servers,
    into: Annotated[
        FileName,
        Parameter(
            name="--into",
            metavar="FOLDER",
            group=_COPY,
            help="The folder of the copy, or an object store's (``s3://bucket/folder``). With "
            "several servers, or one with a NAME, each has a folder in it: ``NAME`` or "
            "``HOST_PORT``.",
        ),
    ],
    retain: Annotated[
        str | None,
        Parameter(
            name="--retain",
            metavar="AMOUNT",
            group=_COPY,
            help="Delete old files of the copy, by age (``30d``, ``12h``) or size (``500GB``); "
            "never the last one.",
        ),
    ] = None,
    sync: Annotated[
        str,
        Parameter(
            name="--sync",
            metavar="WHEN",
            group=_COPY,
            help="When to sync what was received, to disk or into the object store: after all that "
            "arrived together (``group``, default), after each ``transaction``, or at an interval, "
            "such as ``50ms`` or ``2s``.",
        ),
    ] = "group",
    layers: Annotated[
        tuple[str, ...],
        Parameter(
            name="--layers",
            metavar="NAME",
            group=_COPY,
            negative=(),
            help="How to pack the copy's files: with ``zstd``, a file that is complete becomes "
            "FILE.zst. Give several layers by several options, the lowest first.",
        ),
    ] = (),
    encrypt: Annotated[
        bool,
        Parameter(
            name="--encrypt",
            group=_COPY,
            negative=(),
            help="Encrypt the copy as MySQL does, with a key of ``--keyring``.",
        ),
    ] = False,
    keyring: Annotated[
        FileName | None,
        Parameter(
            name="--keyring",
            metavar="FILE",
            group=_COPY,
            help="The file with the keys of an encrypted copy: of MySQL's component_keyring_file "
            "or keyring_file, or Tailrace's own.",
        ),
    ] = None,
    key_id: Annotated[
        str | None,
        Parameter(
            name="--key-id",
            metavar="NAME",
            group=_COPY,
            help="The key to use, if the keyring has several.",
        ),
    ] = None,
    follow: Follow = False,
    progress: Annotated[
        str,
        Parameter(
            name="--progress",
            metavar="TIME",
            group=READING,
            help="How often to print a line of progress: ``10s`` by default. (A terminal shows it "
            "all the time.)",
        ),
    ] = "10s",
    plugin: Plugins = (),
    skip_torn_tail: SkipTornTail = False,
) -> int:
    """Keep byte-identical copies of servers' binary logs, file by file, with their index."""
    from tailrace.observers import find  # noqa: PLC0415 - with pymysql: for this command only
    from tailrace.replication.receiver import Receiver  # noqa: PLC0415 - as above

    if not sources:
        raise UsageError("give a server to receive from: mysql://user@host:3306/")
    every = seconds_of(progress, "--progress", least=0.001)
    places = _places(sources, into, follow=follow, skip_torn_tail=skip_torn_tail)
    with display([place.name for place in places], every) as shown:
        jobs = [
            _Job(
                place.name,
                Receiver(
                    place.source,
                    place.folder,
                    sync=sync,
                    encrypt=encrypt,
                    keyring=keyring,
                    key_id=key_id,
                    layers=layers or None,
                    retain=retain,
                    observers=find(plugin),
                    follow=follow,
                    on_progress=partial(shown.report, number),
                    every=shown.every,
                ),
            )
            for number, place in enumerate(places)
        ]
        status = _run(jobs, shown, alone=len(jobs) == 1)
    output = output_to(standard_output())
    for job in jobs:
        if job.done is not None:
            output.line((summary(job.name, job.done, job.receiver.purged), ""))
    output.close()
    if any(job.failed is not None for job in jobs):
        return _FAILED
    return status


# --- the jobs ------------------------------------------------------------------------------------


class _Job:
    """A receiver in its own thread."""

    def __init__(self, name: str, receiver: Receiver) -> None:
        self.name = name
        self.receiver = receiver
        self.done: Progress | None = None
        self.failed: Exception | None = None
        self.ended = Event()
        self.thread = Thread(target=self._run, name=f"receive-{name}", daemon=True)

    def _run(self) -> None:
        try:
            self.done = self.receiver.run()
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self.failed = error
        finally:
            self.ended.set()


def _run(jobs: Sequence[_Job], shown: Display, *, alone: bool) -> int:
    """Run all to their ends; returns the command's status.

    SIGTERM and SIGINT stop the receivers, a second one at once.
    """

    def stop() -> None:
        for job in jobs:
            job.receiver.stop(at_once=len(ending.numbers) > 1)

    with on_signals(stop, second="stop") as ending:
        for job in jobs:
            job.thread.start()
        left = list(jobs)
        while left:
            for job in left:
                job.ended.wait(_LOOK_SECONDS)
            for job in [job for job in left if job.ended.is_set()]:
                left.remove(job)
                _tell(job, shown, alone=alone)
    return ending.status


def _tell(job: _Job, shown: Display, *, alone: bool) -> None:
    """Report why a receiver failed; an error that is not a TailraceError is a bug, and is
    raised.
    """
    error = job.failed
    if error is None:
        return
    if not isinstance(error, TailraceError):
        raise error
    say_error(str(error) if alone else f"{job.name}: {error}", shown.line)


# --- where to ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    source: Source
    folder: str


def _places(given: Sequence[str], into: str, *, follow: bool, skip_torn_tail: bool) -> list[_Place]:
    """A folder for each server. Raises UsageError if two would have the same one."""
    if not into.strip():
        raise UsageError("--into is empty: give a folder")
    found: list[_Place] = []
    for each in given:
        match = _NAMED.fullmatch(each)
        url = match[2] if match else each
        if not names_server(url):
            raise UsageError(NO_SERVER.format(each))
        source = parsed(url, follow=follow, skip_torn_tail=skip_torn_tail)
        name = match[1] if match else _ODD.sub("_", str(source.hosts[0]).strip("[]")).strip("_")
        inside = match is not None or len(given) > 1
        folder = f"{into.rstrip('/')}/{name}" if inside else into
        if any(place.folder == folder for place in found):
            raise UsageError(f"{folder}: two sources would have this folder; name them: NAME=URL")
        found.append(_Place(name, source, folder))
    return found


# --- the output ----------------------------------------------------------------------------------

_TERMINAL_SECONDS: Final = 0.5


class _Lines:
    """For a pipe or a file: a line for each report, on stderr."""

    def __init__(self, names: Sequence[str], every: float) -> None:
        self._names = names
        self.every = every

    def report(self, number: int, progress: Progress) -> None:
        if not progress.done:
            say(f"{self._names[number]}: {_line(progress)}")

    def line(self, text: str) -> None:
        say(text)


class _Terminal:
    """One live line per server; permanent lines are printed above."""

    every = _TERMINAL_SECONDS

    def __init__(self, names: Sequence[str], live: Any) -> None:
        self._names = names
        self._lines = [f"{name}: connecting" for name in names]
        self._live = live
        self._lock = Lock()
        self._show()

    def report(self, number: int, progress: Progress) -> None:
        with self._lock:
            self._lines[number] = f"{self._names[number]}: {_line(progress)}"
            self._show()

    def line(self, text: str) -> None:
        say(text, self._live)

    def _show(self) -> None:
        self._live.update(cut_to_width(*self._lines))


Display = _Lines | _Terminal
"""The output for progress and lines; any thread may call it. ``every``: seconds between reports."""


@contextmanager
def display(names: Sequence[str], every: float) -> Iterator[Display]:
    """The display for stderr; it also shows what is logged meanwhile."""
    if not sys.stderr.isatty():
        with log_said((shown := _Lines(names, every)).line):
            yield shown
        return
    with live_on_stderr() as live:
        terminal = _Terminal(names, live)
        with log_said(terminal.line):
            yield terminal


def _line(progress: Progress) -> str:
    """Position, rate, lag, time until the sync, last GTID."""
    if progress.position is None:
        return "connected" if progress.connected else "connecting"
    pieces = [str(progress.position), f"{size(int(progress.rate))}/s", _lag(progress)]
    if progress.sync_seconds is not None:
        pieces.append(f"synced in {progress.sync_seconds * 1000:.0f} ms")
    if progress.gtid:
        pieces.append(progress.gtid)
    if progress.reconnects:
        pieces.append(f"{progress.reconnects} reconnections")
    if not progress.connected:
        pieces.append("not connected")
    return "  ".join(pieces)


def _lag(progress: Progress) -> str:
    count, seconds = progress.lag_bytes, progress.lag_seconds
    if count == 0 and not seconds:
        return "up to date"
    pieces = []
    if seconds is not None:
        pieces.append(_time(seconds))
    if count is not None:
        pieces.append(size(count))
    return f"{', '.join(pieces)} behind" if pieces else "lag unknown"


def _time(seconds: float) -> str:
    """``1.2 s``, ``3 min``, ``5.1 h``, ``2.0 d``."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} d"


def summary(name: str, progress: Progress, purged: Sequence[str]) -> str:
    """The result, in one line."""
    where = "nothing yet" if progress.position is None else f"up to {progress.position}"
    text = f"{name}: {size(progress.received)} received in {progress.seconds:.1f} s, {where}"
    if progress.gtid:
        text += f" ({progress.gtid})"
    if purged:
        text += f"; {len(purged)} files purged ({purged[0]} to {purged[-1]})"
    return text
