"""Statements stored on disk, to be read from the last to the first."""

from __future__ import annotations

import pickle
import tempfile
from typing import TYPE_CHECKING, Final

from tailrace.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tailrace.sql.statement import RowStatements, Statement

_BLOCK: Final = 1 << 20
"""Characters of SQL that are held in memory before they are written."""


class Backwards(Closing):
    """A stack of statements: the last one pushed is the first one returned.

    A megabyte of it is in memory. The rest is in a temporary file, which is deleted at close.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._file = tempfile.TemporaryFile(prefix="tailrace-undo-", dir=folder)  # noqa: SIM115
        self._blocks: list[int] = []
        self._held: list[Statement | RowStatements] = []
        self._size = 0

    def push(self, statement: Statement | RowStatements) -> None:
        """Put a statement on top."""
        self._held.append(statement)
        self._size += statement.size + 64
        if self._size > _BLOCK:
            self._write()

    def extend(self, statements: Iterable[Statement | RowStatements]) -> None:
        """Put several statements on top, in order."""
        for statement in statements:
            self.push(statement)

    def _write(self) -> None:
        self._blocks.append(self._file.tell())
        pickle.dump(self._held, self._file, pickle.HIGHEST_PROTOCOL)
        self._held = []
        self._size = 0

    def __iter__(self) -> Iterator[Statement | RowStatements]:
        """From the top; each statement is removed."""
        while True:
            while self._held:
                yield self._held.pop()
            if not self._blocks:
                return
            start = self._blocks.pop()
            self._file.seek(start)
            self._held = pickle.load(self._file)  # noqa: S301 - our own file
            self._file.seek(start)

    def close(self) -> None:
        """Release the file and its content."""
        self._file.close()
