"""What a server's own ``mysqlbinlog`` says was changed: counts, and statements on tables."""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.servers import Server

_AT: Final = re.compile(rb"# at (\d+)")
_CHANGE: Final = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `(.+)`\.`(.+)`")
_OPERATIONS: Final = {b"INSERT INTO": "insert", b"UPDATE": "update", b"DELETE FROM": "delete"}
_XA: Final = re.compile(rb"XA (START|PREPARE|COMMIT|ROLLBACK) (X'[^/]*)", re.IGNORECASE)
_SAVEPOINT: Final = re.compile(rb"SAVEPOINT `?(\w+)`?", re.IGNORECASE)
_ROLLBACK_TO: Final = re.compile(rb"ROLLBACK (?:WORK )?TO (?:SAVEPOINT )?`?(\w+)`?", re.IGNORECASE)
_DEFINES: Final = re.compile(
    rb"(CREATE|ALTER|DROP|RENAME|TRUNCATE)\b(?:.*?\b(VIEW|DATABASE)\b)?", re.IGNORECASE
)
_WORD: Final = re.compile(rb"\w+")

Change = tuple[str, str]
"""A table's full name, and the operation."""


@dataclass
class Logged:
    """``changes`` counts what was committed; ``statements`` are (word, file, offset) by table.

    Tables of statements are told by their own name, of whatever database. ``unread`` tables have
    columns (GEOMETRY) that mysqlbinlog does not read, so that it ends at an event's first row.
    """

    changes: Counter[Change] = field(default_factory=Counter)
    statements: dict[str, list[tuple[str, str, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    unread: set[str] = field(default_factory=set)


def logged(server: Server) -> Logged:
    """What all of a server's logs say."""
    found = _Reading()
    for path in server.binlogs():
        argv = [*server.prefix.binlog_tool(), "-v", "--base64-output=DECODE-ROWS", str(path)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            if process.stdout is None:
                raise RuntimeError("mysqlbinlog has no pipe")
            found.read(path, process.stdout)
        if process.returncode:
            raise RuntimeError(f"mysqlbinlog ended with {process.returncode} at {path}")
    return found.logged


class _Reading:
    """Counts by transaction: what one takes back is not counted."""

    def __init__(self) -> None:
        self.logged = Logged()
        self._open: list[Change] = []
        self._xa: bytes | None = None
        self._prepared: dict[bytes, list[Change]] = {}
        self._savepoints: dict[bytes, int] = {}

    def read(self, path: Path, lines: Iterable[bytes]) -> None:
        offset = 0
        for line in lines:
            if line.startswith(b"###"):
                if change := _CHANGE.match(line):
                    table = f"{change[2].decode()}.{change[3].decode()}"
                    self._open.append((table, _OPERATIONS[change[1]]))
                elif b"!! Don't know how to handle" in line and self._open:
                    self.logged.unread.add(self._open[-1][0])
            elif at := _AT.match(line):
                offset = int(at[1])
            elif not line.startswith((b"#", b"SET ", b"/*!")):
                self._statement(line, path.name, offset)

    def _statement(self, line: bytes, file: str, offset: int) -> None:
        word = line[:24].upper()
        if ended := _XA.match(line):
            self._xa_statement(ended[1].upper(), ended[2].strip())
        elif target := _ROLLBACK_TO.match(line):
            del self._open[self._savepoints[target[1].lower()] :]
        elif savepoint := _SAVEPOINT.match(line):
            self._savepoints[savepoint[1].lower()] = len(self._open)
        elif word.startswith(b"ROLLBACK"):
            self._end(committed=False)
        elif word.startswith(b"COMMIT"):
            self._end(committed=True)
        elif (defines := _DEFINES.match(line)) and defines[2] is None:
            place = (defines[1].decode().upper(), file, offset)
            for name in set(_WORD.findall(line)):
                self.logged.statements[name.decode()].append(place)

    def _xa_statement(self, word: bytes, name: bytes) -> None:
        if word == b"START":
            self._xa = name
        elif word == b"PREPARE":
            self._prepared[name] = self._open
            self._open = []
            self._savepoints.clear()
        elif word == b"COMMIT":
            if b"ONE PHASE" in name.upper():
                self._end(committed=True)
            else:
                self.logged.changes.update(self._prepared.pop(name))
        else:
            del self._prepared[name]

    def _end(self, *, committed: bool) -> None:
        if committed:
            self.logged.changes.update(self._open)
        self._open = []
        self._savepoints.clear()
