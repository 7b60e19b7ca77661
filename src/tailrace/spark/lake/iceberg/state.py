"""What an Iceberg table has at a snapshot, and what is known of it between commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestEntryStatus,
    _inherit_from_manifest,
)

from tailrace.errors import PipelineError
from tailrace.spark.lake.iceberg.files import DataFiles, PositionDeletes, by_file, read_deletes
from tailrace.spark.lake.iceberg.schema import MAPPING, schema_updates
from tailrace.spark.lake.iceberg.tidy import Leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from uuid import UUID

    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from tailrace.spark.lake.iceberg.snapshot import Listed
    from tailrace.spark.lake.tables import Step
    from tailrace.spark.parquet.deleted import Rows

_READ: Final = (DataFileContent.POSITION_DELETES, FileFormat.PARQUET)
"""The delete files whose rows are read."""


@dataclass(frozen=True)
class State:
    """Data files by name in the table's folder (others by path), at a snapshot.

    ``applying`` is what each delete file deletes: rows by the data file's path; ``deleted`` says by
    name which delete files a data file has. An empty name stands for delete files that Tailrace
    does not read.
    """

    files: Mapping[str, DataFile] = field(default_factory=dict)
    applying: Mapping[str, Mapping[str, Rows]] = field(default_factory=dict)
    deleted: Mapping[str, PositionDeletes] = field(default_factory=dict)

    @property
    def touched(self) -> set[str]:
        """Data files that may have deleted rows."""
        return set(self.files if "" in self.deleted else self.deleted)


class Memory:
    """What is known of a table between commits.

    Manifests, their lists and delete files never change: each is read once, and those that are
    written here never. ``folder`` is the table's; ``to_disk`` brings files to disk before readers
    see their commit. Raises OSError, and `PipelineError` where a file cannot be read.
    """

    def __init__(self, io: FileIO, folder: Path, to_disk: Callable[[Iterable[Path]], None]) -> None:
        self.folder = folder
        self.to_disk = to_disk
        self.leftovers = Leftovers(folder)
        self._io = io
        self._lists: dict[int, list[ManifestFile]] = {}
        self._entries: dict[str, list[ManifestEntry]] = {}
        self._deletes: dict[str, Mapping[str, Rows]] = {}
        self._state: tuple[str, State] | None = None
        self._files: tuple[tuple[UUID, int, str | None, pa.Schema], DataFiles] | None = None

    def data_files(
        self, metadata: TableMetadata, step: Step
    ) -> tuple[DataFiles, list[TableUpdate]]:
        """What makes entries of data files in the columns that the table has after a step, and what
        gives it these columns (`schema_updates`).
        """
        named = metadata.properties.get(MAPPING)
        now = (metadata.table_uuid, metadata.current_schema_id, named, step.schema)
        if self._files is not None and self._files[0] == now:
            return self._files[1], []
        schema, updates = schema_updates(metadata, step.schema)
        files = DataFiles(metadata, schema)
        self._files = None if updates else (now, files)
        return files, updates

    def state(self, table: Table, mark: str | None = None) -> State:
        """What the table has now, or had at a mark (`marked`).

        Raises `PipelineError` if that is expired.
        """
        snapshot = table.metadata.current_snapshot()
        now = marked(snapshot)
        if mark is not None and mark != now:
            snapshot = next((each for each in table.snapshots() if marked(each) == mark), None)
            if snapshot is None and mark != marked(None):
                raise PipelineError(f"{self.folder} has no snapshot {mark} any more")
            return self._read(table, snapshot)
        if self._state is None or self._state[0] != now:
            self._state = now, self._read(table, snapshot)
            known = self._state[1].applying
            self._deletes = {path: rows for path, rows in self._deletes.items() if path in known}
        return self._state[1]

    def _read(self, table: Table, snapshot: Snapshot | None) -> State:
        top = data_folder(table)
        files: dict[str, DataFile] = {}
        numbers: dict[str, int] = {}
        deletes: list[ManifestEntry] = []
        deleted: dict[str, PositionDeletes] = {}
        for entry in self.entries(*self.live(snapshot)):
            file = entry.data_file
            if file.content == DataFileContent.DATA:
                files[file.file_path.removeprefix(top)] = file
                numbers[file.file_path] = entry.sequence_number or 0
            elif (file.content, file.file_format) == _READ:
                deletes.append(entry)
            else:
                deleted[""] = PositionDeletes("", (), 0)
        applying = {each.data_file.file_path: self._applying(each, numbers) for each in deletes}
        for path, rows in by_file(applying.values()).items():
            own = tuple(sorted(each for each in applying if path in applying[each]))
            deleted[path.removeprefix(top)] = PositionDeletes(path, own, len(rows))
        return State(files, applying, deleted)

    def _applying(self, entry: ManifestEntry, numbers: Mapping[str, int]) -> dict[str, Rows]:
        """What a delete file deletes: it means the data files that were there when it came.

        ``numbers`` are the sequence numbers of the table's data files, by path.
        """
        path, number = entry.data_file.file_path, entry.sequence_number or 0
        if path not in self._deletes:
            self._deletes[path] = read_deletes(path)
        return {
            file: rows
            for file, rows in self._deletes[path].items()
            if numbers.get(file, number + 1) <= number
        }

    def manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of a snapshot, newest first."""
        if snapshot.snapshot_id not in self._lists:
            self._lists[snapshot.snapshot_id] = snapshot.manifests(self._io)
        return self._lists[snapshot.snapshot_id]

    def live(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """Those that list files which are part of the table."""
        every = [] if snapshot is None else self.manifests(snapshot)
        return [each for each in every if each.has_added_files() or each.has_existing_files()]

    def entries(self, *manifests: ManifestFile) -> Iterator[ManifestEntry]:
        """The files in manifests that are part of the table."""
        for each in manifests:
            path = each.manifest_path
            if path not in self._entries:
                self._entries[path] = each.fetch_manifest_entry(self._io, discard_deleted=True)
            yield from self._entries[path]

    def wrote_deletes(self, file: DataFile, rows: Mapping[str, Rows]) -> None:
        """A delete file that was just written, with the rows that it names."""
        self._deletes[file.file_path] = rows

    def wrote(
        self,
        snapshot: Snapshot,
        manifests: list[ManifestFile],
        fresh: Iterable[tuple[ManifestFile, Listed]],
    ) -> None:
        """A snapshot that was just written, and what its ``fresh`` manifests list."""
        self._lists[snapshot.snapshot_id] = manifests
        for manifest, listed in fresh:
            self._entries[manifest.manifest_path] = [
                _inherit_from_manifest(each, manifest)
                for status, each in listed
                if status is not ManifestEntryStatus.DELETED
            ]

    def keep(self, metadata: TableMetadata) -> None:
        """Forget other snapshots, and what only manifests of others than the current one list."""
        numbers = {each.snapshot_id for each in metadata.snapshots}
        self._lists = {each: found for each, found in self._lists.items() if each in numbers}
        paths = {each.manifest_path for each in self.live(metadata.current_snapshot())}
        self._entries = {path: found for path, found in self._entries.items() if path in paths}


def marked(snapshot: Snapshot | None) -> str:
    """The mark of a table (`lake.tables.Content`) that has a snapshot, or none yet."""
    return "" if snapshot is None else str(snapshot.snapshot_id)


def data_folder(table: Table) -> str:
    """What the paths of the table's data files begin with."""
    return f"{table.location()}/data/"
