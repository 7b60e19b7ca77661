"""The output of ``tailrace mirror``: a bar or a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.output import cut_to_width, lines_of, live_on_stderr, say
from tailrace.printable import counted, printable, size

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tailrace.spark.input.lag import SourceMoment
    from tailrace.spark.manifest.manifest import Status
    from tailrace.spark.mirror.report import Moment, SkippedStatements, TableReport

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
        task = bar.add_task(PHASES["read"], total=None)

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
        self._started = 0.0

    def tell(self, phase: str, done: int, total: int) -> None:
        """Set the progress; see `tailrace.spark.mirror`."""
        with self._lock:
            if self._now is None:
                self._started = time.monotonic()
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
                seconds = time.monotonic() - self._started
                if self._now is not None and seconds >= self._every:
                    say(f"{_text(*self._now)}, for {seconds:.0f} s")


def _text(phase: str, done: int, total: int) -> str:
    name = PHASES.get(phase, phase)
    if phase in _COUNTED:
        return f"{name}: {size(done)} of {size(total)}"
    return f"{name}: {done:,} of {total:,}" if total > 1 else name


_MOST_TABLES: Final = 20
"""Maximum tables on a terminal: those that changed last."""
_MOST_NAMES: Final = 5
_OPERATIONS: Final = ("insert", "update", "delete")


def notes(table: TableReport) -> list[str]:
    """Notes on a table for the user, one per line."""
    name = table.name
    if table.set_aside is not None:
        rest = "; its rows since then are not read, and not counted here" if table.unread else ""
        return [aside(name, table.set_aside) + rest]
    if table.refused and not table.dropped:
        return [f"{name}: no current state: {table.refused}"]
    return [f"{name}: {note}" for note in table.notes]


def aside(name: str, status: Status) -> str:
    """The line for a table that is set aside."""
    since = status.since or "the log's begin"
    reason = status.reason.removeprefix(f"{name}: ")
    return f"{name}: set aside since {since}: {reason}; {status.needs}"


def standing(names: Collection[str]) -> str:
    """The line at each trigger while tables are set aside."""
    count = f"{len(names)} tables are" if len(names) > 1 else "1 table is"
    more = ", ..." if len(names) > _MOST_NAMES else ""
    return f"{count} set aside: {', '.join(sorted(names)[:_MOST_NAMES])}{more}"


def held(source: str, place: str) -> str:
    """The line for a source that waits."""
    return (
        f"{source}: an XA transaction is prepared at {place} and in doubt: everything "
        "after it waits for its XA COMMIT or XA ROLLBACK"
    )


def left_out(source: str, skipped: SkippedStatements) -> str:
    """The line for a source of which changes are missing."""
    return (
        f"{source}: {counted(skipped.count, 'change')} that were logged as statements were skipped,"
        f" and the lake does not have what they changed; the first is {printable(skipped.first)};"
        " set binlog_format=ROW on the source, compare by tailrace verify, and create a new lake"
        " if tables differ"
    )


class _Told:
    """Remembers the lines that were printed, so that each is printed once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def fresh(self, moment: Moment) -> list[str]:
        """The new lines for a moment."""
        lines = [held(each.name, each.held) for each in moment.sources if each.held is not None]
        lines += [aside(name, status) for name, status in moment.set_aside.items()]
        if moment.report is not None:
            lines += [left_out(*each) for each in moment.report.skipped.items()]
            for table in moment.report.tables:
                lines += notes(table) if table.set_aside is None else []
        new = [line for line in lines if line not in self._said]
        self._said = set(lines)
        return new


class _Counted:
    """Changes of each table since the start."""

    def __init__(self) -> None:
        self.changes: dict[str, dict[str, int]] = {}
        self.rows: dict[str, int | None] = {}
        self.latest: dict[str, int] = {}

    def add(self, moment: Moment) -> int:
        """Count a batch; returns its changes."""
        if moment.report is None:
            return 0
        for table in moment.report.tables:
            self.rows[table.name] = table.rows
            known = self.changes.setdefault(table.name, {})
            for operation, count in table.changes.items():
                known[operation] = known.get(operation, 0) + count
            if table.changes:
                self.latest[table.name] = moment.batches
        return moment.report.changes


class _Lines:
    """For a pipe or a file: a line at intervals, on stderr."""

    def __init__(self) -> None:
        self._next = 0.0
        self._told = _Told()
        self._changes = 0
        self.steps = Steps()

    def progress(self, phase: str, done: int, total: int) -> None:
        self.steps.tell(phase, done, total)

    def moment(self, moment: Moment) -> None:
        self.steps.over()
        self.steps.aloud = False  # later, only long batches are reported
        for line in self._told.fresh(moment):
            say(line)
        self._changes += moment.report.changes if moment.report is not None else 0
        now = time.monotonic()
        if (
            now < self._next or not moment.sources
        ):  # there are none before the first one is connected
            return
        self._next = now + LINE_SECONDS
        for source in moment.sources:
            say(f"{_line(source)}  {size(int(moment.rate))}/s  {counted(self._changes, 'change')}")
        if moment.set_aside:
            say(standing(moment.set_aside))

    def line(self, text: str) -> None:
        say(text)


class _Terminal:
    """A live line for each source and a live row for each table; permanent lines are above."""

    def __init__(self, into: str, live: Any) -> None:
        self._into = into
        self._live = live
        self._told = _Told()
        self._counted = _Counted()
        self._lock = Lock()
        self._phase = "starting"
        self._moment: Moment | None = None
        self._show()

    def progress(self, phase: str, done: int, total: int) -> None:
        del done, total
        with self._lock:
            text = PHASES.get(phase, phase)
            if text != self._phase:
                self._phase = text
                self._show()

    def moment(self, moment: Moment) -> None:
        for line in self._told.fresh(moment):
            self.line(line)
        with self._lock:
            self._counted.add(moment)
            self._moment = moment
            self._phase = "waiting"
            self._show()

    def line(self, text: str) -> None:
        say(text, self._live)

    def _show(self) -> None:
        from rich.console import Group  # noqa: PLC0415 - only terminals need rich
        from rich.table import Table  # noqa: PLC0415 - as above

        moment = self._moment
        title = f"{self._into}: {self._phase}"
        if moment is not None:
            title = (
                f"{self._into}: {moment.batches:,} {'batch' if moment.batches == 1 else 'batches'}"
                + (f", the last took {moment.seconds:.1f} s" if moment.report else "")
                + f", {size(int(moment.rate))}/s, {self._phase}"
            )
        lines = [title, *(_line(each) for each in (moment.sources if moment else ()))]
        if moment is not None and moment.set_aside:
            lines.append(standing(moment.set_aside))
        text = cut_to_width(*lines)
        if not self._counted.rows:
            self._live.update(text)
            return
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("table")
        for header in ("inserts", "updates", "deletes", "rows"):
            table.add_column(header, justify="right")
        counted = self._counted
        names = sorted(counted.rows, key=lambda name: (-counted.latest.get(name, 0), name))
        for name in names[:_MOST_TABLES]:
            changes = counted.changes.get(name, {})
            rows = counted.rows[name]
            table.add_row(
                lines_of(name),
                *(f"{changes.get(each, 0):,}" for each in _OPERATIONS),
                "-" if rows is None else f"{rows:,}",
            )
        parts: list[Any] = [text, table]
        if len(names) > _MOST_TABLES:
            parts.append(lines_of(f"and {len(names) - _MOST_TABLES} more"))
        self._live.update(Group(*parts))


Display = _Lines | _Terminal
"""The output of a mirror that follows; any thread may call it."""


@contextmanager
def display(into: str) -> Iterator[Display]:
    """The display for stderr."""
    if not sys.stderr.isatty():
        lines = _Lines()
        with lines.steps.told():
            yield lines
        return
    with live_on_stderr() as live:
        yield _Terminal(into, live)


def _line(source: SourceMoment) -> str:
    """Position and lag."""
    pieces = [f"{source.name}: {source.position or 'nothing yet'}"]
    if source.lag_bytes or source.lag_seconds:
        pieces.append(f"{source.lag_seconds:.1f} s, {size(source.lag_bytes)} behind")
    elif source.full:
        pieces.append("more is received once the lake has this: the disk has no room for all")
    elif source.connected:
        pieces.append("up to date")
    if source.gtid:
        pieces.append(source.gtid)
    if not source.connected:
        pieces.append("not connected")
    return "  ".join(pieces)
