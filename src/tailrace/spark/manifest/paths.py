"""Paths in a lake's folder, to which others may be able to write: where they lead, and to what."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError, StorageError, UsageError
from tailrace.storage.file import local_path

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

OWN_CATALOG: Final = "catalog.db"
"""The file of an Iceberg lake's own catalogue, in SQLite."""
_VERSION: Final = re.compile("versions/([0-9]{6,18})")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A URL's begin; made a path it has one slash left."""


def lake_path(lake: str | Path) -> Path:
    """The folder that a caller names as a lake: a path, or a ``file:`` URL.

    Raises UsageError for a URL of anything else, which as a path would be a folder ``s3:``.
    """
    text = str(lake)
    match = _URL.match(text)
    try:
        if match is None or match[1].lower() == "file":
            return local_path(text)
    except StorageError as error:
        raise UsageError(str(error)) from error
    raise UsageError(
        f"{text}: a lake is a folder that driver and tasks share as a file system, and cannot be "
        f"in {match[1]}: yet: give a folder's path"
    )


def committed(inner: Path) -> int:
    """The committed version of a Parquet lake, to which ``now`` leads; 0 without that link.

    Raises OSError, and `PipelineError` where it leads elsewhere.
    """
    now = inner / "now"
    if not now.is_symlink():
        return 0
    target = now.readlink()
    if (found := _VERSION.fullmatch(str(target))) is None:
        raise PipelineError(f"{now} leads to {target}, which is no version of the lake")
    within(inner, inner / target)
    return int(found[1])


def within(top: Path, path: Path) -> Path:
    """The path, if it leads below ``top``, links followed; raises `PipelineError` if not.

    Whoever may write to a lake's folder could have others write or remove files elsewhere by links.
    """
    place, (head, below, rest) = str(top), str(path).partition(f"{top}/")
    if (
        below
        and not head
        and not any(
            part == ".." or os.path.islink(place := f"{place}/{part}")  # noqa: PTH114 - is quicker
            for part in rest.split("/")
        )
    ):
        return path  # to resolve both takes longer
    try:
        inside = path.resolve().is_relative_to(top.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise PipelineError(f"{path} leads nowhere: {error}") from error
    if not inside:
        raise PipelineError(
            f"{path} leads to {path.resolve()}, outside of {top}: put the folder itself there, or "
            "create a new lake"
        )
    return path


def open_plain(path: Path) -> BinaryIO:
    """A file to read; raises OSError, and `PipelineError` for a pipe or a device: it never ends."""
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")  # noqa: PTH123, SIM115 - returned
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise PipelineError(f"{path} is no file")
    return file


def read_plain(path: Path, most: int) -> bytes:
    """A file's content; raises as `open_plain`, and `PipelineError` if it is larger."""
    with open_plain(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise PipelineError(f"{path} is larger than {most >> 20} MiB, and so none of Tailrace's")
    return content
