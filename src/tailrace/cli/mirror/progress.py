"""The progress of ``tailrace mirror``: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from tailrace.cli.lines import say, size
from tailrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[str, int, int], None]

PHASES: Final = {
    "receive": "receiving logs",
    "start": "starting Spark",
    "read": "reading logs",
    "current": "making current tables",
    "commit": "committing",
}
_COUNTED: Final = frozenset({"read", "receive"})
"""Phases whose progress is counted in bytes of log."""
LINE_SECONDS: Final = 10.0
"""Seconds between lines of progress without a terminal."""


@contextmanager
def progress_shown() -> Iterator[Progress]:
    """A progress bar on a terminal, lines elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        steps = Steps()
        with steps.told():
            yield steps.tell
        return
    from rich.console import Console  # noqa: PLC0415 - only terminals need rich
    from rich.progress import (  # noqa: PLC0415 - as above
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True, markup=False, emoji=False),
        transient=True,
    )
    with bar:
        task = bar.add_task(PHASES["start"], total=None)

        def tell(phase: str, done: int, total: int) -> None:
            if phase in _COUNTED:
                bar.update(task, description=PHASES[phase], completed=done, total=total)
            else:
                bar.update(task, description=printable(PHASES.get(phase, phase)))

        yield tell


class Steps:
    """The steps of a batch, as lines for a file or a pipe; any thread may call it.

    With ``aloud`` each step is printed when it begins. `told` prints the progress of a batch that
    takes longer than ``every`` seconds, at this interval, even if a step reports nothing meanwhile.
    """

    def __init__(self, every: float = LINE_SECONDS) -> None:
        self.aloud = True
        self._every = every
        self._lock = Lock()
        self._now: tuple[str, int, int] | None = None
        self._begun = 0.0

    def tell(self, phase: str, done: int, total: int) -> None:
        """Set the progress; see `tailrace.spark.mirror`."""
        with self._lock:
            if self._now is None:
                self._begun = time.monotonic()
            fresh = self._now is None or self._now[0] != phase
            self._now = phase, done, total
            if fresh and self.aloud:
                say(_text(*self._now))

    def over(self) -> None:
        """The batch is done."""
        with self._lock:
            self._now = None

    @contextmanager
    def told(self) -> Iterator[None]:
        """Let a thread report a long batch."""
        ended = Event()
        thread = Thread(target=self._run, args=(ended,), name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _run(self, ended: Event) -> None:
        while not ended.wait(self._every):
            with self._lock:
                seconds = time.monotonic() - self._begun
                if self._now is not None and seconds >= self._every:
                    say(f"{_text(*self._now)}, for {seconds:.0f} s")


def _text(phase: str, done: int, total: int) -> str:
    name = PHASES.get(phase, phase)
    if phase in _COUNTED:
        return f"{name}: {size(done)} of {size(total)}"
    return f"{name}: {done:,} of {total:,}" if total > 1 else name
