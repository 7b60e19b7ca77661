"""A log file on disk, and a series of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from tailrace.constants import ENCRYPTED_MAGIC, MAGIC
from tailrace.errors import StorageError

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_NUMBERED: Final = re.compile(r"(.+)\.(\d+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that holds a log: its path, its own name (as events and positions give it), bytes."""

    path: str
    name: str
    size: int

    @classmethod
    def at(cls, path: Path) -> Self:
        """The file at a path. Raises StorageError."""
        try:
            return cls(str(path), path.name, path.stat().st_size)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from None

    @property
    def base(self) -> str:
        """The name without its numeric suffix, ``binlog`` of ``binlog.000003``."""
        match = _NUMBERED.fullmatch(self.name)
        return match[1] if match else self.name

    @property
    def number(self) -> int | None:
        """The numeric suffix, None without one."""
        match = _NUMBERED.fullmatch(self.name)
        return int(match[2]) if match else None


@dataclass(frozen=True, slots=True)
class LogSeries:
    """The files of one server's log, in order, without a hole."""

    name: str
    files: tuple[LogFile, ...]


def local_path(source: str | Path) -> Path:
    """The path that a source names: a path, or a ``file:`` URL. Raises StorageError."""
    text = str(source)
    if not _SCHEME.match(text):
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme.lower() != "file":
        raise StorageError(
            f"{text}: logs are read from files and folders (a path, or file:///path)"
        )
    if parts.netloc not in {"", "localhost"}:
        raise StorageError(f"{text}: a file URL names no host: file:///{parts.path.lstrip('/')}")
    return Path(unquote(parts.path))


def begins_as_log(path: Path) -> bool:
    """Whether a file begins with the magic number of a log, encrypted or not.

    One that may not be read counts as none unless it is named like one: that raises StorageError.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) in {MAGIC, ENCRYPTED_MAGIC}
    except OSError as error:
        if not _NUMBERED.fullmatch(path.name):
            return False
        raise StorageError(f"{path}: {error.strerror}") from None
