"""How far a run of ``tailrace mirror`` is: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
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
"""Phases that are counted in bytes of log."""
_LINE_SECONDS: Final = 5.0
"""Where there is no terminal, a line of progress so often at most."""


@contextmanager
def progress_shown() -> Iterator[Progress]:
    """A progress bar on a terminal, lines elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield _Lines().tell
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


class _Lines:
    """Progress as lines, for a file or a pipe."""

    def __init__(self) -> None:
        self._phase = ""
        self._next = 0.0

    def tell(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase == self._phase and now < self._next:
            return
        fresh = phase != self._phase
        self._phase, self._next = phase, now + _LINE_SECONDS
        if phase in _COUNTED:
            say(f"{PHASES[phase]}: {size(done)} of {size(total)}")
        elif fresh:
            say(PHASES.get(phase, phase))
