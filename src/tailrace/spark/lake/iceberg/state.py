"""What an Iceberg table has at a snapshot: data files, and the rows of theirs that are deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFileContent, FileFormat

from tailrace.errors import PipelineError
from tailrace.spark.lake.iceberg.deletes import Deletes, PositionDeletes, joined
from tailrace.spark.lake.iceberg.files import DataFiles
from tailrace.spark.lake.iceberg.names import MAPPING
from tailrace.spark.lake.iceberg.schema import schema_updates
from tailrace.spark.lake.iceberg.snapshot import Manifests
from tailrace.spark.lake.iceberg.tidy import Leftovers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from uuid import UUID

    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from tailrace.spark.lake.steps import Step
    from tailrace.spark.parquet.deleted import Rows


@dataclass(frozen=True)
class State:
    """Data files by name in the table's folder (others by path), at a snapshot.

    ``applying`` is what each delete file deletes: rows by the data file's path; ``deleted`` says by
    name which delete files a data file has. ``known`` is False where rows are deleted in a way that
    Tailrace does not read.
    """

    snapshot: int | None = None
    files: Mapping[str, DataFile] = field(default_factory=dict)
    applying: Mapping[str, Mapping[str, Rows]] = field(default_factory=dict)
    deleted: Mapping[str, PositionDeletes] = field(default_factory=dict)
    known: bool = True

    @property
    def touched(self) -> set[str]:
        """Data files that may have deleted rows."""
        return set(self.deleted if self.known else self.files)


class Memory:
    """What is remembered of a table between commits, for none of it is read twice.

    ``folder`` is the table's. Raises OSError, and `PipelineError` where a file cannot be read.
    """

    def __init__(self, io: FileIO, folder: Path) -> None:
        self.folder = folder
        self.manifests = Manifests(io)
        self.leftovers = Leftovers(folder)
        self._deletes = Deletes()
        self._state: State | None = None
        self._files: DataFiles | None = None
        self._fits: tuple[UUID, int, str | None, pa.Schema] | None = None

    def schema(self, metadata: TableMetadata, step: Step) -> tuple[Schema, list[TableUpdate]]:
        """The schema of the table after a step, and what gives it that (`schema_updates`)."""
        named = metadata.properties.get(MAPPING)
        now = (metadata.table_uuid, metadata.current_schema_id, named, step.schema)
        if self._fits == now:
            return metadata.schema(), []
        schema, updates = schema_updates(metadata, step.schema)
        self._fits = None if updates else now
        return schema, updates

    def data_files(self, metadata: TableMetadata, schema: Schema) -> DataFiles:
        """What makes entries of data files in the columns of a schema."""
        if self._files is None or self._files.schema != schema:
            self._files = DataFiles(metadata, schema)
        return self._files

    def state(self, table: Table) -> State:
        """What the table has now."""
        snapshot = table.metadata.current_snapshot()
        number = None if snapshot is None else snapshot.snapshot_id
        if self._state is None or self._state.snapshot != number:
            self._state = self._state_at(table, snapshot, self._deletes)
        return self._state

    def state_at(self, table: Table, mark: str) -> State:
        """What the table had at a mark (`marked`). Raises `PipelineError` if that is expired."""
        if mark == marked(table.metadata.current_snapshot()):
            return self.state(table)
        found = (each for each in table.metadata.snapshots if marked(each) == mark)
        snapshot = next(found, None)
        if snapshot is None and mark != marked(None):
            raise PipelineError(f"{self.folder} has no snapshot {mark} any more")
        return self._state_at(table, snapshot, Deletes())

    def _state_at(self, table: Table, snapshot: Snapshot | None, known: Deletes) -> State:
        top = data_folder(table)
        files: dict[str, DataFile] = {}
        numbers: dict[str, int] = {}
        deletes: list[Any] = []
        for manifest in self.manifests.of(snapshot):
            for entry in self.manifests.entries(manifest):
                path = entry.data_file.file_path
                if entry.data_file.content == DataFileContent.DATA:
                    files[path.removeprefix(top)] = entry.data_file
                    numbers[path] = entry.sequence_number or 0
                else:
                    deletes.append(entry)
        read = [each for each in deletes if _is_read(each.data_file)]
        applying = known.applying(table.io, read, numbers)
        deleted = {
            path.removeprefix(top): PositionDeletes(
                path, tuple(sorted(each for each in applying if path in applying[each])), len(rows)
            )
            for path, rows in joined(applying.values()).items()
        }
        number = None if snapshot is None else snapshot.snapshot_id
        return State(number, files, applying, deleted, len(read) == len(deletes))

    def written(self, file: DataFile, rows: Mapping[str, Rows]) -> None:
        """A delete file that was just written, with the rows that it names."""
        self._deletes.written(file, rows)


def marked(snapshot: Snapshot | None) -> str:
    """The mark of a table (`lake.steps.Content`) that has a snapshot, or none yet."""
    return "" if snapshot is None else str(snapshot.snapshot_id)


def data_folder(table: Table) -> str:
    """What the paths of the table's data files begin with."""
    return f"{table.location()}/data/"


def _is_read(file: DataFile) -> bool:
    return bool(
        file.content == DataFileContent.POSITION_DELETES and file.file_format == FileFormat.PARQUET
    )
