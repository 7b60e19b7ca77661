"""Data files as Iceberg's manifests list them, with the figures that a Parquet footer has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, StringType

from tailrace.spark.lake.iceberg.schema import BACK

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table.metadata import TableMetadata


_COUNTS: Final = MetricsMode(MetricModeTypes.COUNTS)
_TEXTS: Final = (StringType, BinaryType)
"""No bounds of these: Parquet leaves out those of a row group with a value over 4,096 bytes, and
pyiceberg then takes the other groups' as those of the file. Readers would skip rows that fit.
"""


class DataFiles:
    """Makes entries of files in the columns of one schema, which files call by names of their own.

    pyiceberg's own way (`parquet_file_to_data_file`) works out the columns again for each file.
    """

    def __init__(self, metadata: TableMetadata, schema: Schema) -> None:
        self.schema = schema
        fields = [
            field.model_copy(update={"name": BACK.get(field.name, (field.name,))[0]})
            for field in schema.fields
        ]
        called = Schema(*fields, schema_id=schema.schema_id)
        self._plan = {
            number: replace(each, mode=_COUNTS) if isinstance(each.iceberg_type, _TEXTS) else each
            for number, each in compute_statistics_plan(called, metadata.properties).items()
        }
        self._columns = parquet_path_to_id_mapping(called)

    def entry(self, path: Path, uri: str) -> DataFile:
        """The file at ``path``, which the table knows as ``uri``. Raises OSError."""
        found = data_file_statistics_from_parquet_metadata(
            pq.read_metadata(path), self._plan, self._columns
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=uri,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            file_size_in_bytes=path.stat().st_size,
            sort_order_id=None,
            spec_id=0,
            equality_ids=None,
            key_metadata=None,
            **found.to_serialized_dict(),
        )
