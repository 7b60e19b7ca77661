"""The command line's output: lines with colours and tables on a terminal, plain text elsewhere; and
lines on stderr.

All output except SQL, which is a script, passes through here and is escaped here
(`tailrace.printable`): names, values and servers' messages may contain anything.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from tailrace.constants import LARGE
from tailrace.printable import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

Piece = tuple[str, str]
"""Text and its role: a key of `STYLES`, empty for none."""

STYLES: Final = {
    "file": "bold",
    "place": "cyan",
    "gtid": "magenta",
    "time": "green",
    "insert": "bold green",
    "update": "bold yellow",
    "delete": "bold red",
    "column": "blue",
    "quiet": "dim",
    "alarm": "bold red",
}
_BUFFERED: Final = 1 << 16
LINE: Final = 160
"""The most characters of a line of an error."""
_PAUSE: Final = re.compile(r"(?<=[:;.]) ")
_NAMED: Final = 3
"""How many tables a line names."""
_BLOCK: Final = 512
"""Maximum lines that are written together."""


class Output(Protocol):
    """The destination of lines."""

    def line(self, *pieces: Piece) -> None:
        """Write one line."""

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table; columns with only numbers are right-aligned."""

    def close(self) -> None:
        """Write out what is buffered."""


class PlainOutput:
    """Text for files and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held: list[str] = []
        self._size = 0
        self.skip = 0
        """The number of lines to leave out next: they are already written."""

    def bytes(self, data: memoryview) -> None:
        """Write lines that are printable and in UTF-8."""
        self.close()
        write_bytes(self._stream, data)

    def line(self, *pieces: Piece) -> None:
        if self.skip:
            self.skip -= 1
            return
        text = printable("".join(text for text, _ in pieces), keep="\t")
        self._held.append(text)
        self._size += len(text)
        if self._size > _BUFFERED:
            self.close()

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        headers, *rows = [[printable(cell) for cell in row] for row in (headers, *rows)]
        right = numeric(headers, rows)
        widths = [max(len(row[index]) for row in (headers, *rows)) for index in range(len(headers))]
        self.line((title, ""))
        for row in (headers, *rows):
            cells = [
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ]
            self.line(("  " + "  ".join(cells).rstrip(), ""))

    def close(self) -> None:
        if self._held:
            self._stream.write("\n".join(self._held) + "\n")
            self._held.clear()
            self._size = 0


def write_bytes(out: TextIO, data: memoryview) -> None:
    """Write text that is already UTF-8, without encoding it again."""
    buffer = getattr(out, "buffer", None)
    if buffer is None:
        out.write(str(data, "utf-8"))
        return
    out.flush()
    while data:
        data = data[buffer.write(data) :]


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
                if len(line) > LARGE:
                    self._out()
                    for at in range(0, len(line), LARGE):
                        self._write(line[at : at + LARGE])
                    self._write("\n")
                    del line  # before the next is made
                    continue
                block.append(line)
                self._size += len(line)
                if len(block) == _BLOCK or self._size > LARGE:
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


class TerminalOutput:
    """Coloured text, by rich."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, *pieces: Piece) -> None:
        from rich.text import Text  # noqa: PLC0415 - only terminals need rich

        text = Text()
        for piece, role in pieces:
            text.append(printable(piece, keep="\t"), STYLES.get(role, ""))
        self._console.print(text, soft_wrap=True)

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from rich.table import Table  # noqa: PLC0415 - only terminals need rich

        table = Table(title=lines_of(title), title_justify="left", title_style="bold")
        for header, to_right in zip(headers, numeric(headers, rows), strict=True):
            table.add_column(
                lines_of(header),
                justify="right" if to_right else "left",
                no_wrap=to_right,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*map(lines_of, row))
        self._console.print(table)

    def close(self) -> None:
        pass


def output_to(stream: TextIO) -> Output:
    """The output that suits a stream: colours on a terminal only."""
    if not stream.isatty():
        return PlainOutput(stream)
    from rich.console import Console  # noqa: PLC0415 - only terminals need rich

    return TerminalOutput(Console(file=stream, highlight=False, markup=False, emoji=False))


def lines_of(*lines: str) -> Text:
    """Lines for a terminal, as rich text without markup."""
    from rich.text import Text  # noqa: PLC0415 - only terminals need rich

    return Text("\n".join(map(printable, lines)))


def cut_to_width(*lines: str) -> Text:
    """Lines for a live display: text beyond the terminal's width is cut off."""
    text = lines_of(*lines)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def say(text: str, above: Live | None = None) -> None:
    """Write a line to stderr, above the live display if there is one."""
    if above is not None:
        above.console.print(lines_of(f"tailrace: {text}"), soft_wrap=True)
        return
    sys.stdout.flush()
    print(f"tailrace: {printable(text)}", file=sys.stderr)  # noqa: T201 - the command line's own voice


def say_error(text: str, say: Callable[[str], None] = say) -> None:
    """Write an error on one line, or a long one on several: what is wrong, and what to do."""
    for number, line in enumerate(folded(one_line(text))):
        say(f"  {line}" if number else line)


def folded(text: str, most: int = LINE - len("tailrace:   ")) -> list[str]:
    """A text in lines of limited length, which end after a colon, semicolon or full stop.

    If there is none of these, a line ends between words. A longer word is a line of its own.
    """
    lines = []
    while len(text) > most:
        ends = [found.start() for found in _PAUSE.finditer(text, 0, most + 1)]
        end = max(ends, default=0) or text.rfind(" ", 0, most + 1)
        if end <= 0:
            end = text.find(" ")
            if end < 0:
                break
        lines.append(text[:end])
        text = text[end + 1 :]
    return [*lines, text]


def say_names(names: Mapping[str, str]) -> None:
    """Write a line about the column names of tables; ``names`` is by table (`Reader.names`)."""
    tables: dict[str, list[str]] = {}
    for table, text in names.items():
        tables.setdefault(text, []).append(table)
    lines = []
    for text, of in tables.items():
        several = f"{len(of)} tables ({', '.join(of[:_NAMED])}{', ...' * (len(of) > _NAMED)})"
        lines.append(f"{of[0] if len(of) == 1 else several}: {text}")
    if lines:
        say("; ".join(lines))


def live_on_stderr() -> Live:
    """A live display on stderr, for a terminal."""
    from rich.console import Console  # noqa: PLC0415 - only terminals need rich
    from rich.live import Live  # noqa: PLC0415 - as above

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    return Live(console=console, transient=True, auto_refresh=True)


class LogLines(logging.Handler):
    """Prints what Tailrace and libraries log, as lines."""

    def __init__(self, level: int, line: Callable[[str], None]) -> None:
        super().__init__(level)
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._line(one_line(record.getMessage()))
        except Exception:  # noqa: BLE001 - as the handlers of logging do: a warning ends nothing
            self.handleError(record)


@contextmanager
def warnings_said() -> Iterator[None]:
    """Print logged warnings as lines; otherwise logging would write them to stderr unescaped."""
    handler = LogLines(logging.WARNING, say)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


@contextmanager
def log_said(line: Callable[[str], None]) -> Iterator[None]:
    """Print all that Tailrace logs from INFO on by ``line``, and none of it a second time."""
    logger = logging.getLogger("tailrace")
    handler, level, propagate = LogLines(logging.INFO, line), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def numeric(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns contain only numbers."""
    return [
        bool(rows) and all(row[index][:1].isdigit() or row[index] in {"", "-"} for row in rows)
        for index in range(len(headers))
    ]


def standard_output() -> TextIO:
    """Stdout in UTF-8; characters that cannot be encoded are escaped."""
    out: Any = sys.stdout
    if hasattr(out, "reconfigure"):
        out.reconfigure(encoding="utf-8", errors="backslashreplace")
    stream: TextIO = out
    return stream
