"""``tailrace log --follow``: what is printed is written at once, and a signal ends it well."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

from tailrace.cli.lines import write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.reader import Reader

_BLOCK: Final = 512
"""Lines that are written together, at most."""
_SIZE: Final = 1 << 20
"""Characters that are written together, at most."""
_STATUS: Final = {signal.SIGINT: 130, signal.SIGTERM: 0}
"""The command's status where a signal ended it."""


class LineOutput:
    """Lines on their way out, in blocks; `flush` writes what is there."""

    def __init__(self, out: TextIO) -> None:
        self._out_to = out
        self._write = out.write
        self._flush = out.flush
        self._block: list[str] = []
        self._size = 0

    def take(self, lines: Iterable[str | Iterator[str] | memoryview]) -> None:
        """Write lines, some in pieces; those that were made before an error, too.

        Bytes are lines with their ends, in UTF-8.
        """
        block = self._block
        try:
            for line in lines:
                if isinstance(line, memoryview):
                    self._out()
                    write_bytes(self._out_to, line)
                    continue
                if not isinstance(line, str):
                    self._out()
                    for piece in line:
                        self._write(piece)
                    self._write("\n")
                    continue
                if len(line) > _SIZE:
                    self._out()
                    for at in range(0, len(line), _SIZE):
                        self._write(line[at : at + _SIZE])
                    self._write("\n")
                    del line  # before the next is made
                    continue
                block.append(line)
                self._size += len(line)
                if len(block) == _BLOCK or self._size > _SIZE:
                    self._out()
        finally:
            self._out()

    def flush(self) -> None:
        """Write out what was taken, for whoever reads it now."""
        self._out()
        self._flush()

    def _out(self) -> None:
        if self._block:
            self._block.append("")
            text = "\n".join(self._block)
            self._block.clear()
            self._size = 0
            self._write(text)


class Ending:
    """Whether a signal ended what ran, and the status that the command has then."""

    status = 0


@contextmanager
def until_stopped(reader: Reader) -> Iterator[Ending]:
    """Let Ctrl-C and SIGTERM end a reader that follows, at a transaction's end.

    A second one ends the process as it otherwise would. Does nothing for other readers.
    """
    ending = Ending()
    if not reader.follow:
        yield ending
        return
    before: dict[int, Any] = {}

    def put_back() -> None:
        while before:
            signal.signal(*before.popitem())

    def stop(number: int, _frame: object) -> None:
        put_back()
        ending.status = _STATUS[signal.Signals(number)]
        reader.stop()

    for number in _STATUS:
        before[number] = signal.signal(number, stop)
    try:
        yield ending
    finally:
        put_back()
