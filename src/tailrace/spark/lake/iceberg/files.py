"""The files of an Iceberg table as its manifests list them: data files, and position delete files.

https://iceberg.apache.org/spec/#position-delete-files. A delete file names data files and rows of
theirs. Each batch writes one, for all data files that it deletes rows of; it takes up those written
before that have no more rows than itself, so a table has few, and a row number is written again
some times only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
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

from tailrace.errors import PipelineError
from tailrace.spark.lake.iceberg.paths import local
from tailrace.spark.lake.iceberg.schema import BACK
from tailrace.spark.parquet.deleted import joined

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from pyiceberg.table.metadata import TableMetadata

    from tailrace.spark.parquet.deleted import Rows

_COUNTS: Final = MetricsMode(MetricModeTypes.COUNTS)
_TEXTS: Final = (StringType, BinaryType)
"""No bounds of these: Parquet leaves out those of a row group with a value over 4,096 bytes, and
pyiceberg then takes the other groups' as those of the file. Readers would skip rows that fit.
"""
_PATH: Final = 2147483546
_POSITION: Final = 2147483545
_FIELD: Final = b"PARQUET:field_id"
_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD: str(_PATH).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD: str(_POSITION).encode()}),
    ]
)


class DataFiles:
    """Makes entries of files in the columns of one schema, which files call by names of their own.

    pyiceberg's own way (`parquet_file_to_data_file`) works out the columns again for each file.
    """

    def __init__(self, metadata: TableMetadata, schema: Schema) -> None:
        self.schema = schema
        fields = [
            field.model_copy(update={"name": BACK.get(field.name, field.name)})
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
            **found.to_serialized_dict(),
        )


def write_deletes(path: Path, uri: str, rows: Mapping[str, Rows]) -> DataFile:
    """A delete file at ``path``, which tables know as ``uri``: ``rows`` of data files, by path.

    Raises OSError.
    """
    names = sorted(rows)
    counts = [len(rows[name]) for name in names]
    places = np.repeat(np.arange(len(names), dtype=np.int32), counts)
    found = np.concatenate([rows[name] for name in names])
    table = pa.Table.from_arrays(
        [
            pa.DictionaryArray.from_arrays(pa.array(places), pa.array(names)).cast(pa.string()),
            pa.array(found, pa.int64()),
        ],
        schema=_SCHEMA,
    )
    pq.write_table(
        table,
        path,
        compression="zstd",
        use_dictionary=["file_path"],
        column_encoding={"pos": "DELTA_BINARY_PACKED"},
        store_schema=False,
    )
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(found),
        file_size_in_bytes=path.stat().st_size,
        lower_bounds={_PATH: names[0].encode(), _POSITION: _long(found.min())},
        upper_bounds={_PATH: names[-1].encode(), _POSITION: _long(found.max())},
    )


def _long(value: Any) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)


def _read(path: str, columns: list[str], **how: Any) -> pa.Table:
    """Raises `PipelineError` for a file that pyarrow cannot read."""
    try:
        return pq.read_table(local(path), columns=columns, partitioning=None, **how)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise PipelineError(f"the delete file {path} cannot be read: {error}") from error


def read_deletes(path: str) -> dict[str, Rows]:
    """The rows that a delete file names, ascending, by data file's path. Raises `PipelineError`."""
    table = _read(path, ["file_path", "pos"])
    paths = table["file_path"].combine_chunks().dictionary_encode()
    positions = table["pos"].to_numpy()
    if isinstance(paths, pa.ChunkedArray):
        paths = paths.combine_chunks()
    places = paths.indices.to_numpy(zero_copy_only=False)
    return {
        name: np.unique(positions[places == place])
        for place, name in enumerate(paths.dictionary.to_pylist())
    }


@dataclass(frozen=True)
class PositionDeletes:
    """The deleted rows of a data file (`parquet.deleted.DeletedRows`), by its delete files."""

    file: str
    deletes: tuple[str, ...]
    count: int = field(compare=False)

    def read(self) -> Rows:
        """Their numbers. Raises `PipelineError`."""
        only = [("file_path", "==", self.file)]
        parts = [_read(each, ["pos"], filters=only)["pos"].to_numpy() for each in self.deletes]
        return np.unique(np.concatenate(parts))


def by_file(parts: Iterable[Mapping[str, Rows]]) -> dict[str, Rows]:
    """The rows that any part names, by data file."""
    found: dict[str, list[Rows]] = {}
    for part in parts:
        for path, rows in part.items():
            found.setdefault(path, []).append(rows)
    return {path: joined(*each) for path, each in found.items()}


def taken_up(
    fresh: Mapping[str, Rows], there: Mapping[str, Mapping[str, Rows]], live: Collection[str]
) -> tuple[dict[str, Rows], list[str]]:
    """What a new delete file is to have, and which it makes needless, of those that are ``there``.

    ``live`` are the data files that there will be. The new one takes up each that has no more rows
    than itself, from the smallest on. One that deletes nothing any more goes anyway.
    """
    parts = [fresh]
    count = sum(map(len, fresh.values()))
    alive = {
        path: {name: rows for name, rows in content.items() if name in live}
        for path, content in there.items()
    }
    sizes = {path: sum(map(len, content.values())) for path, content in alive.items()}
    gone = [path for path, size in sizes.items() if not size]
    for size, path in sorted((size, path) for path, size in sizes.items() if size):
        if size > count:
            break
        count += size
        gone.append(path)
        parts.append(alive[path])
    return by_file(parts), gone
