"""The output of ``tailrace receive``: a line per server on a terminal, lines elsewhere."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

from tailrace.cli.lines import cut_to_width, live_on_stderr, say, size
from tailrace.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.replication.progress import Progress

_TERMINAL_SECONDS: Final = 0.5
_LOGGER: Final = logging.getLogger("tailrace")


class Display(Protocol):
    """The output for progress and lines; any thread may call it."""

    every: float
    """Seconds between two reports."""

    def report(self, number: int, progress: Progress) -> None:
        """The progress of the server with that number."""

    def line(self, text: str) -> None:
        """A permanent line."""


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


@contextmanager
def display(names: Sequence[str], every: float) -> Iterator[Display]:
    """The display for stderr; it also shows what is logged meanwhile."""
    if not sys.stderr.isatty():
        with _logged(shown := _Lines(names, every)):
            yield shown
        return
    with live_on_stderr() as live:
        terminal = _Terminal(names, live)
        with _logged(terminal):
            yield terminal


class _Handler(logging.Handler):
    def __init__(self, shown: Display) -> None:
        super().__init__(logging.INFO)
        self._shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._shown.line(one_line(record.getMessage()))
        except Exception:  # noqa: BLE001 - as the handlers of logging do: a warning ends nothing
            self.handleError(record)


@contextmanager
def _logged(shown: Display) -> Iterator[None]:
    handler, level, propagate = _Handler(shown), _LOGGER.level, _LOGGER.propagate
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False  # it would be printed twice
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(level)
        _LOGGER.propagate = propagate


def _line(progress: Progress) -> str:
    """Position, rate, lag, last GTID."""
    if progress.position is None:
        return "connected" if progress.connected else "connecting"
    pieces = [str(progress.position), f"{size(int(progress.rate))}/s", _lag(progress)]
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
