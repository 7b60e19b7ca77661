"""Opening a lake of any format."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tailrace.errors import UsageError
from tailrace.extras import missing
from tailrace.spark.lake.lake import Lake
from tailrace.spark.lake.parquet.tables import ParquetTables
from tailrace.spark.manifest.paths import lake_path

if TYPE_CHECKING:
    from pathlib import Path


def open_store(into: str | Path, format: str = "parquet") -> Lake:  # noqa: A002 - the lake's word
    """The lake ``into``: a folder; of Iceberg also CATALOG.SCHEMA, a catalogue of pyiceberg's
    configuration and a namespace in it, where the catalogue's warehouse is a folder.

    Whoever writes to it enters it as a context manager; others read its ``tables``.
    Raises UsageError, and `PipelineError` where the format's package is missing or the catalogue
    cannot be had.
    """
    match format:
        case "parquet":
            path = lake_path(into).absolute()  # tasks may be in another folder
            return Lake(path, format, ParquetTables(path), label=str(into))
        case "delta":
            _need("delta", "deltalake")
            from tailrace.spark.lake.delta.tables import DeltaTables  # noqa: PLC0415 - an extra's

            path = lake_path(into).absolute()
            return Lake(path, format, DeltaTables(path), label=str(into))
        case "iceberg":
            _need("iceberg", "pyiceberg")
            from tailrace.spark.lake.iceberg.catalog import place  # noqa: PLC0415 - an extra's
            from tailrace.spark.lake.iceberg.tables import IcebergTables  # noqa: PLC0415 - an extra's

            found = place(into)
            tables = IcebergTables(found.catalog, found.top, found.namespace)
            return Lake(found.folder, format, tables, label=str(into), made=found.made)
    raise UsageError(f"a lake's format is parquet, delta or iceberg, and not {format!r}")


def _need(extra: str, package: str) -> None:
    if find_spec(package) is None:
        raise missing(extra, package, f"a lake of the format {extra}")
