"""Lines of text with colours on a terminal, and tables; plain text anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

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


class Output(Protocol):
    """Where lines go."""

    def line(self, *pieces: Piece) -> None:
        """Write one line."""

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table; columns whose cells are all numbers stand to the right."""

    def close(self) -> None:
        """Write out what is left."""


class PlainOutput:
    """Text for files and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held: list[str] = []
        self._size = 0

    def line(self, *pieces: Piece) -> None:
        text = "".join(text for text, _ in pieces)
        self._held.append(text)
        self._size += len(text)
        if self._size > _BUFFERED:
            self.close()

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
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


class TerminalOutput:
    """Coloured text, by rich."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, *pieces: Piece) -> None:
        from rich.text import Text  # noqa: PLC0415 - only terminals need rich

        text = Text()
        for piece, role in pieces:
            text.append(piece, STYLES.get(role, ""))
        self._console.print(text, soft_wrap=True)

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from rich.table import Table  # noqa: PLC0415 - only terminals need rich

        table = Table(title=title, title_justify="left", title_style="bold")
        for header, to_right in zip(headers, numeric(headers, rows), strict=True):
            table.add_column(
                header,
                justify="right" if to_right else "left",
                no_wrap=to_right,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def close(self) -> None:
        pass


def output_to(stream: TextIO) -> Output:
    """The output that suits a stream: colours on a terminal only."""
    if not stream.isatty():
        return PlainOutput(stream)
    from rich.console import Console  # noqa: PLC0415 - only terminals need rich

    return TerminalOutput(Console(file=stream, highlight=False, markup=False, emoji=False))


def numeric(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns hold nothing but numbers."""
    return [
        bool(rows) and all(row[index][:1].isdigit() or row[index] in {"", "-"} for row in rows)
        for index in range(len(headers))
    ]


def printable(text: str) -> str:
    """Text of a log for a terminal: control characters but line ends and tabs are escaped."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in "\n\t"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def size(count: int) -> str:
    """Bytes for people: ``512 B``, ``1.5 kB``, ``3.2 MB``."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value:.1f} PB"
