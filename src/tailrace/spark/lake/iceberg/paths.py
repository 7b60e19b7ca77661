"""Files on this machine as Iceberg calls them: ``file://`` and the path, as it is.

Iceberg's locations look like URLs and are none: its readers (Java's Hadoop, pyiceberg) take what
follows the scheme for the path, and decode no ``%20``. So nothing is encoded here either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tailrace.errors import PipelineError, UsageError

_SCHEME: Final = "file:"
_TAKEN: Final = "?#"


def location(path: Path) -> str:
    """What Iceberg calls a file or folder.

    Raises UsageError for a path with a character that its readers stop at.
    """
    text = str(path.absolute())
    if odd := [each for each in text if each in _TAKEN or not each.isprintable()]:
        raise UsageError(
            f"{text!r} has the character {odd[0]!r}, at which Iceberg's readers end a path: choose "
            "another folder for the lake"
        )
    return f"{_SCHEME}//{text}"


def local(text: str) -> Path:
    """The file or folder that a location is; raises `PipelineError` for one elsewhere."""
    path = text.removeprefix(_SCHEME)
    if path.startswith("//"):
        path = "/" + path.lstrip("/") if path.startswith("///") else ""
    if not path.startswith("/") or "\0" in path:
        raise PipelineError(f"{text[:100]!r} is no file of this machine")
    return Path(path)


def data_file(folder: Path, name: str) -> str:
    """The path of a data file of the table in a folder: others may name theirs by a whole location.

    Raises `PipelineError` for one elsewhere.
    """
    return str(local(name) if name.startswith(_SCHEME) else folder / name)
