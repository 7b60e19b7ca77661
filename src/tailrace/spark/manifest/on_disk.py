"""Files of a lake that are to outlive a crash, in folders to which others may be able to write."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FEW: Final = 4
"""Fewer files are brought to disk sooner than threads are started."""


def write_file(path: Path, pieces: Iterable[str]) -> None:
    """Write a file in one step: whoever reads it meets all of it, or what was there before.

    It is on disk then; its name is when its folder is (`to_disk`). A link at its place is replaced,
    and not followed. Raises OSError.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    write_new_file(temporary, pieces)
    temporary.replace(path)


def write_new_file(path: Path, pieces: Iterable[str]) -> None:
    """Write a file in the place of whatever has its name, links included. Raises OSError."""
    path.unlink(missing_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


def add_to_file(path: Path, text: str) -> None:
    """Add text to a file's end, on disk. Raises OSError, also where the file is a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o666), "a", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def to_disk(paths: Iterable[Path]) -> None:
    """Have the system write files and folders out; it does many at once faster than one by one."""
    wanted = list(paths)
    if len(wanted) < _FEW:
        for path in wanted:
            _sync(path)
        return
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_sync, wanted))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
