"""A lake's folder: where it is, which layout and format it has, and the numbers in its names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.spark.manifest.document import other_layout
from tailrace.spark.manifest.journal import FOLDER
from tailrace.spark.manifest.on_disk import OWN_CATALOG, lake_path

if TYPE_CHECKING:
    from pathlib import Path

INNER: Final = "_tailrace"
SOURCES: Final = "sources"
_BEFORE: Final = ("batches", "versions")
"""Where lakes before layout 4 had a manifest for each batch."""
AGAIN: Final = ".again"
"""After a server's name: the folder into which a run receives its log once more, for itself."""


def folder_of(lake: str | Path) -> Path:
    """The folder that has a lake's ``_tailrace``; of Iceberg's also by CATALOG.SCHEMA."""
    path = lake_path(lake)
    if path.exists() or "/" in str(lake) or "." not in str(lake):
        return path
    try:
        from tailrace.spark.lake.iceberg.catalog import named  # noqa: PLC0415 - an extra's
    except ImportError:
        return path
    found = named(lake)
    return path if found is None else found.folder


def format_of(into: str | Path) -> str | None:
    """The format of the lake ``into``; None where none was created there.

    Raises UsageError, and `PipelineError` for a lake of an older layout.
    """
    path = folder_of(into)
    inner = path / INNER
    check_layout(into, inner)
    if _filled(inner / "versions") or ((inner / "versions").is_dir() and _filled(inner / FOLDER)):
        return "parquet"
    if not _filled(inner / FOLDER):
        return None
    own = (path / OWN_CATALOG).exists()
    return "iceberg" if own or path != lake_path(into) else "delta"


def _filled(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def check_layout(lake: object, inner: Path) -> None:
    """Raises `PipelineError` for a lake of layout 3 or an older one, which has no journal, and for
    one of Parquet of layout 4, whose versions have the data files.
    """
    batches, versions = (any(inner.glob(f"{each}/*/manifest.json")) for each in _BEFORE)
    if batches or (versions and not any(inner.glob(f"{FOLDER}/*"))):
        raise other_layout(lake, "3 or an older one")
    if any(inner.glob("versions/*")) and not (inner / "tables").is_dir():
        raise other_layout(lake, "4")


def folders_of_logs(inner: Path) -> list[Path]:
    """The folders in a lake's ``_tailrace`` for servers' logs: the one in use is the first."""
    found = [inner / SOURCES, *inner.glob(f"{SOURCES}.*")]
    return sorted(found, key=generation_of, reverse=True)


def generation_of(path: Path) -> int:
    """The generation at the end of a name; 0 without one."""
    number = path.name.rpartition(".")[2]
    return int(number) if number.isdigit() else 0
