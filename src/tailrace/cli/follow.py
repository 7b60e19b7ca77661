"""``tailrace log --follow``: output is written at once, and a signal ends it cleanly."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

from tailrace.cli.lines import write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.log.reader import Reader

_BLOCK: Final = 512
"""Maximum lines that are written together."""
_SIZE: Final = 1 << 20
"""Maximum characters that are written together."""
_STATUS: Final = {signal.SIGINT: 130, signal.SIGTERM: 0}
"""The command's status if a signal ended it."""


class LineOutput:
    """Writes lines in blocks; `flush` writes what is buffered."""

    def __init__(self, out: TextIO) -> None:
        self._out_to = out
        self._write = out.write
        self._flush = out.flush
        self._block: list[str] = []
        self._size = 0

    def take(self, lines: Iterable[str | Iterator[str] | memoryview]) -> None:
        """Write lines, some in pieces; lines before an error are written, too.

        Bytes are lines with their line ends, in UTF-8.
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
        """Write out everything so far, so that a reader sees it now."""
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
    """Whether a signal ended the command, and its status in that case."""

    status = 0


@contextmanager
def until_stopped(reader: Reader) -> Iterator[Ending]:
    """Let Ctrl-C and SIGTERM end a reader that follows, at a transaction's end.

    A second signal ends the process in the default way. Does nothing for other readers.
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
