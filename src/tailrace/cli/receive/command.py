"""``tailrace receive``: byte-identical copies of servers' logs, updated as the logs grow."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from tailrace.cli.lines import output_to
from tailrace.cli.options import KeyringFile, SkipTornTail, standard_output
from tailrace.cli.receive.progress import display, summary
from tailrace.cli.servers import parsed
from tailrace.errors import TailraceError, UsageError
from tailrace.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tailrace.cli.receive.progress import Display
    from tailrace.live.url import Source
    from tailrace.replication.progress import Progress
    from tailrace.replication.receiver import Receiver

_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=((?:mysql|mariadb):.*)", re.DOTALL)
_ODD: Final = re.compile(r"[^A-Za-z0-9.-]+")
_LOOK_SECONDS: Final = 0.2
_INTERRUPTED: Final = 130
_FAILED: Final = 2

Servers = Annotated[
    str,
    Parameter(
        name="source",
        help="Servers: ``mysql://user@host:3306/`` (or ``mariadb://``), or ``NAME=URL``. "
        "``?start=now`` and ``?position=FILE:4`` set where a new copy begins.",
    ),
]
Into = Annotated[
    str,
    Parameter(
        name="--into",
        help="The folder of the copy, or an object store's (``s3://bucket/folder``). With several "
        "servers, or one with a NAME, each has a folder in it: ``NAME`` or ``HOST_PORT``.",
    ),
]


def receive(
    *sources: Servers,
    into: Into,
    encrypt: Annotated[
        bool,
        Parameter(
            name="--encrypt",
            negative=(),
            help="Encrypt the copy as MySQL does, with a key of ``--keyring``.",
        ),
    ] = False,
    keyring: KeyringFile = None,
    key_id: Annotated[
        str | None,
        Parameter(name="--key-id", help="The key to use, if the keyring has several."),
    ] = None,
    retain: Annotated[
        str | None,
        Parameter(
            name="--retain",
            help="Purge old files by age (``30d``, ``12h``) or size (``500GB``); never the last.",
        ),
    ] = None,
    sync: Annotated[
        str,
        Parameter(
            name="--sync",
            help="When received events are synced to disk: after all that arrived together "
            "(``group``, default), after each ``transaction``, or at an interval in seconds.",
        ),
    ] = "group",
    plugin: Annotated[
        tuple[str, ...],
        Parameter(
            name="--plugin",
            negative=(),
            help="An observer by its entry point's name, like ``semisync.replica``.",
        ),
    ] = (),
    skip_torn_tail: SkipTornTail = False,
    until: Annotated[
        Literal["now"] | None,
        Parameter(name="--until", help="``now``: end at the source's present end."),
    ] = None,
    every: Annotated[
        float,
        Parameter(name="--every", help="Seconds between lines of progress; not for a terminal."),
    ] = 10.0,
) -> int:
    """Keep byte-identical copies of servers' binary logs, file by file, with their index.

    After a stop or a kill, it resumes at the exact byte. Ctrl-C and SIGTERM end it at a
    transaction's end, a second one at once. If a connection breaks, it reconnects for a minute, or
    for the time of ``?retry=SECONDS``. With that, it also waits for a source that is not there at
    the start.
    """
    from tailrace.observers import find  # noqa: PLC0415 - with pymysql: for this command only
    from tailrace.replication.receiver import Receiver  # noqa: PLC0415 - as above

    if not sources:
        raise UsageError("give a server to receive from: mysql://user@host:3306/")
    if not every > 0:
        raise UsageError(f"--every {every}: give a number of seconds")
    places = _places(sources, into, skip_torn_tail=skip_torn_tail)
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
                    retain=retain,
                    observers=find(plugin),
                    follow=until is None,
                    on_progress=_reporter(shown, number),
                    every=shown.every,
                ),
            )
            for number, place in enumerate(places)
        ]
        signalled = _run(jobs, shown, alone=len(jobs) == 1)
    output = output_to(standard_output())
    for job in jobs:
        if job.done is not None:
            output.line((summary(job.name, job.done, job.receiver.purged), ""))
    output.close()
    if any(job.failed is not None for job in jobs):
        return _FAILED
    return _INTERRUPTED if signalled == signal.SIGINT else 0


def _reporter(shown: Display, number: int) -> Callable[[Progress], None]:
    return lambda progress: shown.report(number, progress)


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
    """Run all to their ends; returns the number of the signal that ended them, 0 for none."""
    with _signals(jobs) as got:
        for job in jobs:
            job.thread.start()
        left = list(jobs)
        while left:
            for job in left:
                job.ended.wait(_LOOK_SECONDS)
            for job in [job for job in left if job.ended.is_set()]:
                left.remove(job)
                _tell(job, shown, alone=alone)
    return got[0] if got else 0


def _tell(job: _Job, shown: Display, *, alone: bool) -> None:
    """Report why a receiver failed; an error that is not a TailraceError is a bug, and is
    raised.
    """
    error = job.failed
    if error is None:
        return
    if not isinstance(error, TailraceError):
        raise error
    text = one_line(str(error))
    shown.line(text if alone else f"{job.name}: {text}")


@contextmanager
def _signals(jobs: Sequence[_Job]) -> Iterator[list[int]]:
    """SIGTERM and SIGINT stop the receivers, a second one at once; gives the received signals."""
    got: list[int] = []

    def stop(number: int, _frame: object) -> None:
        got.append(number)
        for job in jobs:
            job.receiver.stop(at_once=len(got) > 1)

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- where to ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    source: Source
    folder: str


def _places(given: Sequence[str], into: str, *, skip_torn_tail: bool) -> list[_Place]:
    """A folder for each server. Raises UsageError if two would have the same one."""
    if not into.strip():
        raise UsageError("--into is empty: give a folder")
    found: list[_Place] = []
    for each in given:
        match = _NAMED.fullmatch(each)
        url = match[2] if match else each
        source = parsed(url, skip_torn_tail=skip_torn_tail)
        name = match[1] if match else _ODD.sub("_", str(source.hosts[0]).strip("[]")).strip("_")
        inside = match is not None or len(given) > 1
        folder = f"{into.rstrip('/')}/{name}" if inside else into
        if any(place.folder == folder for place in found):
            raise UsageError(f"{folder}: two sources would have this folder; name them: NAME=URL")
        found.append(_Place(name, source, folder))
    return found
