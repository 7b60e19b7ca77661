"""Opening a lake of any format."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tailrace.errors import UsageError
from tailrace.extras import missing
from tailrace.spark.lake.folder import INNER, check_layout
from tailrace.spark.lake.parquet.store import ParquetStore
from tailrace.spark.lake.reading import folder_of
from tailrace.spark.lake.table_store import TableStore
from tailrace.spark.manifest.journal import FOLDER
from tailrace.spark.manifest.paths import OWN_CATALOG, lake_path

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.spark.lake.protocol import LakeStore


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


def open_store(into: str | Path, format: str = "parquet") -> LakeStore:  # noqa: A002
    """The lake ``into``, to be entered as a context manager.

    ``into`` is a folder; of Iceberg also CATALOG.SCHEMA, a catalogue of pyiceberg's configuration
    and a namespace in it, where the catalogue's warehouse is a folder. Raises UsageError, and
    `PipelineError` where the format's package is missing or the catalogue cannot be had.
    """
    match format:
        case "parquet":
            return ParquetStore(lake_path(into).absolute())  # tasks may be in another folder
        case "delta":
            _need("delta", "deltalake")
            from tailrace.spark.lake.delta.tables import DeltaTables  # noqa: PLC0415 - an extra's

            path = lake_path(into).absolute()
            return TableStore(path, format, DeltaTables(path), label=str(into))
        case "iceberg":
            _need("iceberg", "pyiceberg")
            from tailrace.spark.lake.iceberg.catalog import place  # noqa: PLC0415
            from tailrace.spark.lake.iceberg.tables import IcebergTables  # noqa: PLC0415 - an extra's

            found = place(into)
            tables = IcebergTables(found.catalog, found.top, found.namespace)
            return TableStore(found.folder, format, tables, label=str(into), made=found.made)
    raise UsageError(f"a lake's format is parquet, delta or iceberg, and not {format!r}")


def _need(extra: str, package: str) -> None:
    if find_spec(package) is None:
        raise missing(extra, package, f"a lake of the format {extra}")
