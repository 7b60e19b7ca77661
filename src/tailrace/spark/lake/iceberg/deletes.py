"""Deleted rows of an Iceberg table, kept separately from its data files: position delete files.

https://iceberg.apache.org/spec/#position-delete-files. Such a file names data files and rows of
theirs. Each batch writes one, for all data files that it deletes rows of; it takes up those written
before that have no more rows than itself, so a table has few, and a row number is written again
some times only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from tailrace.errors import PipelineError
from tailrace.spark.lake.iceberg.paths import local

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry

    from tailrace.spark.parquet.deleted import Rows

_PATH: Final = 2147483546
_POSITION: Final = 2147483545
_FIELD: Final = b"PARQUET:field_id"
_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD: str(_PATH).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD: str(_POSITION).encode()}),
    ]
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
        sort_order_id=None,
        spec_id=0,
        equality_ids=None,
        key_metadata=None,
    )


def _long(value: Any) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)


def read_deletes(io: FileIO, file: DataFile) -> dict[str, Rows]:
    """The rows that a delete file names, ascending, by data file's path.

    Raises `PipelineError` for a file that pyarrow cannot read.
    """
    try:
        with io.new_input(file.file_path).open() as stream:
            table = pq.read_table(stream, columns=["file_path", "pos"])
        paths = table["file_path"].combine_chunks().dictionary_encode()
        positions = table["pos"].combine_chunks().to_numpy()
    except (OSError, KeyError, pa.ArrowException) as error:
        raise PipelineError(f"the delete file {file.file_path} cannot be read: {error}") from error
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
        found = []
        for each in self.deletes:
            try:
                only = [("file_path", "==", self.file)]
                table = pq.read_table(local(each), columns=["pos"], filters=only)
            except (OSError, pa.ArrowException) as error:
                raise PipelineError(f"the delete file {each} cannot be read: {error}") from error
            found.append(table["pos"].to_numpy())
        return np.unique(np.concatenate(found))


class Deletes:
    """The delete files of one table, each read once."""

    def __init__(self) -> None:
        self._read: dict[str, Mapping[str, Rows]] = {}

    def written(self, file: DataFile, rows: Mapping[str, Rows]) -> None:
        """A delete file that was just written."""
        self._read[file.file_path] = rows

    def rows(self, io: FileIO, file: DataFile) -> Mapping[str, Rows]:
        """As `read_deletes`."""
        found = self._read.get(file.file_path)
        if found is None:
            found = self._read[file.file_path] = read_deletes(io, file)
        return found

    def applying(
        self, io: FileIO, entries: Iterable[ManifestEntry], files: Mapping[str, int]
    ) -> dict[str, dict[str, Rows]]:
        """What delete files delete, by their paths; others than these are forgotten.

        ``files`` are the table's data files, by path, with their sequence numbers: a delete file
        means those that were there when it came.
        """
        found: dict[str, dict[str, Rows]] = {}
        for entry in entries:
            number = entry.sequence_number or 0
            found[entry.data_file.file_path] = {
                path: rows
                for path, rows in self.rows(io, entry.data_file).items()
                if files.get(path, number + 1) <= number
            }
        self._read = {path: rows for path, rows in self._read.items() if path in found}
        return found


def union(rows: list[Rows]) -> Rows:
    """All row numbers in any of some sets, ascending."""
    return rows[0] if len(rows) == 1 else np.unique(np.concatenate(rows))


def joined(parts: Iterable[Mapping[str, Rows]]) -> dict[str, Rows]:
    """The rows that any part names, by data file."""
    found: dict[str, list[Rows]] = {}
    for part in parts:
        for path, rows in part.items():
            found.setdefault(path, []).append(rows)
    return {path: union(each) for path, each in found.items()}


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
    return joined(parts), gone
