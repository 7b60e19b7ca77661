"""Opening a lake of any format: where it is, and its tables."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tailrace.errors import UsageError
from tailrace.extras import missing
from tailrace.spark.lake.folder import INNER, check_layout
from tailrace.spark.lake.lake import Lake
from tailrace.spark.lake.parquet.tables import ParquetTables
from tailrace.spark.manifest.journal import FOLDER
from tailrace.spark.manifest.on_disk import OWN_CATALOG, lake_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.spark.lake.tables import Tables


def open_store(into: str | Path, format: str = "parquet") -> Lake:  # noqa: A002 - the lake's word
    """The lake ``into``, to be entered as a context manager. Raises as `locate`."""
    found = locate(into, format)
    return Lake(found.folder, format, found.tables, label=str(into), made=found.made)


@dataclass(frozen=True)
class Located:
    """The ``folder`` that has a lake's ``_tailrace``; ``made`` was made of it just now."""

    folder: Path
    tables: Tables
    made: Sequence[Path] = ()


def locate(into: str | Path, format: str) -> Located:  # noqa: A002 - the lake's word
    """The lake ``into``: a folder; of Iceberg also CATALOG.SCHEMA, a catalogue of pyiceberg's
    configuration and a namespace in it, where the catalogue's warehouse is a folder.

    Raises UsageError, and `PipelineError` where the format's package is missing or the catalogue
    cannot be had.
    """
    match format:
        case "parquet":
            path = lake_path(into).absolute()  # tasks may be in another folder
            return Located(path, ParquetTables(path))
        case "delta":
            _need("delta", "deltalake")
            from tailrace.spark.lake.delta.tables import DeltaTables  # noqa: PLC0415 - an extra's

            path = lake_path(into).absolute()
            return Located(path, DeltaTables(path))
        case "iceberg":
            _need("iceberg", "pyiceberg")
            from tailrace.spark.lake.iceberg.catalog import place  # noqa: PLC0415 - an extra's
            from tailrace.spark.lake.iceberg.tables import IcebergTables  # noqa: PLC0415 - an extra's

            found = place(into)
            tables = IcebergTables(found.catalog, found.top, found.namespace)
            return Located(found.folder, tables, found.made)
    raise UsageError(f"a lake's format is parquet, delta or iceberg, and not {format!r}")


def _need(extra: str, package: str) -> None:
    if find_spec(package) is None:
        raise missing(extra, package, f"a lake of the format {extra}")


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
