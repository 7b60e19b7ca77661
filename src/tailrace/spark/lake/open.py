"""Opening a lake of any format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.spark.lake.folder import INNER, check_layout
from tailrace.spark.lake.formats import locate
from tailrace.spark.lake.lake import Lake
from tailrace.spark.lake.reading import folder_of
from tailrace.spark.manifest.journal import FOLDER
from tailrace.spark.manifest.paths import OWN_CATALOG, lake_path

if TYPE_CHECKING:
    from pathlib import Path


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


def open_store(into: str | Path, format: str = "parquet") -> Lake:  # noqa: A002 - the lake's word
    """The lake ``into``, to be entered as a context manager. Raises as `locate`."""
    found = locate(into, format)
    return Lake(found.folder, format, found.tables, label=str(into), made=found.made)
