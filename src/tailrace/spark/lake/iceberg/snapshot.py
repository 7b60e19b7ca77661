"""Snapshots of an Iceberg table, made of the files that come and those that go.

https://iceberg.apache.org/spec/#manifests. pyiceberg's own producers copy all of a table's metadata
several times for each snapshot, keep manifests that list nothing any more, and know no delete files
(docs/design/formats.md). Here one manifest a content is written, and what it lists is remembered.
Its writers derive the schema, its JSON and the writer again for each Avro file, which took a third
of a small commit: here that is worked out once.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestListWriterV2,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyiceberg.avro.writer import Writer
    from pyiceberg.io import OutputFile
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from tailrace.spark.lake.iceberg.state import Memory

    Listed = list[tuple[ManifestEntryStatus, ManifestEntry]]

_TOGETHER: Final = 10
"""So many manifests of about one size become one."""
_CODEC: Final = "deflate"
_HEADER: Final = construct_writer(META_SCHEMA)
_SCHEMA_KEY: Final = "avro.schema"
_ENTRY: Final = "manifest_entry"
_MANIFEST: Final = "manifest_file"


class Snapshots:
    """The new snapshots of one commit to a table, each based on the one before.

    They are ``made``; ``updates`` are what the commit has to apply, ``written`` the paths of the
    metadata files that were written for it, ``added`` those of the files that come. Raises OSError,
    and CommitFailedException where a file that is to go is not there.
    """

    def __init__(self, table: Table, schema: Schema, memory: Memory) -> None:
        self.updates: list[TableUpdate] = []
        self.current = table.metadata.current_snapshot()
        self.made: list[Snapshot] = []
        self.written: list[str] = []
        self.added: set[str] = set()
        self._table = table
        self._schema = schema
        self._memory = memory
        self._provider = table.location_provider()
        self._sequence = table.metadata.next_sequence_number() - 1
        self._number = 0
        self._listed: dict[tuple[ManifestContent, int], Listed] = {}
        """What the next snapshot's manifests list: one a content and partition spec."""

    def add(
        self,
        adds: Sequence[DataFile],
        gone: Collection[str],
        properties: Mapping[str, str],
        *,
        replaces: bool = False,
    ) -> None:
        """One more snapshot, in which files come, and those with the paths ``gone`` go.

        If it ``replaces`` files, the table has the same rows afterwards.
        """
        self._sequence += 1
        self._number = self._table.metadata.new_snapshot_id()
        self._listed = {}
        kept, leaving = self._take(gone)
        self.added.update(each.file_path for each in adds)
        added = ManifestEntryStatus.ADDED
        for each in adds:
            entry = ManifestEntry.from_args(status=added, snapshot_id=self._number, data_file=each)
            self._put(self._table.metadata.default_spec_id, added, entry)
        self._merge(kept)
        fresh = [
            (self._manifest(number, content, spec, listed), listed)
            for number, ((content, spec), listed) in enumerate(self._listed.items())
        ]
        manifests = [*(manifest for manifest, _ in fresh), *kept]
        parent = None if self.current is None else self.current.snapshot_id
        path = self._location(f"snap-{self._number}-0-{uuid.uuid4()}.avro")
        output = self._table.io.new_output(path)
        with _ListWriter(output, self._number, parent, self._sequence, _CODEC) as writer:
            writer.add_manifests(manifests)
        operation = Operation.OVERWRITE if adds else Operation.DELETE
        if replaces:
            operation = Operation.REPLACE
        elif not gone and all(each.content == DataFileContent.DATA for each in adds):
            operation = Operation.APPEND
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self._number,
                "parent-snapshot-id": parent,
                "manifest-list": path,
                "sequence-number": self._sequence,
                "summary": self._summary(operation, adds, leaving, properties),
                "schema-id": self._schema.schema_id,
            }
        )
        branch = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH}
        self.updates += [
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate({**branch, "snapshot-id": self._number}),
        ]
        self.made.append(snapshot)
        self.current = snapshot
        self._memory.wrote(snapshot, manifests, fresh)

    def _take(self, gone: Collection[str]) -> tuple[list[ManifestFile], list[DataFile]]:
        """Take files out of the manifests that list them; those that stay, and what was taken."""
        kept: list[ManifestFile] = []
        leaving: list[DataFile] = []
        left = set(gone)
        for manifest in self._memory.live(self.current):
            entries = list(self._memory.entries(manifest)) if left else []
            found = {path for each in entries if (path := each.data_file.file_path) in left}
            if not found:
                kept.append(manifest)
                continue
            left -= found
            for each in entries:
                status = ManifestEntryStatus.EXISTING
                if each.data_file.file_path in found:
                    status = ManifestEntryStatus.DELETED
                    leaving.append(each.data_file)
                self._put(manifest.partition_spec_id, status, each)
        if left:
            raise CommitFailedException(f"a file that is to go is not in the table: {min(left)}")
        return kept, leaving

    def _merge(self, kept: list[ManifestFile]) -> None:
        """Take small manifests into those that are written, once there are many."""
        for (content, spec), listed in self._listed.items():
            tier = _tier(sum(status is not ManifestEntryStatus.DELETED for status, _ in listed))
            like = [
                each
                for each in kept
                if each.content == content
                and each.partition_spec_id == spec
                and _tier((each.added_files_count or 0) + (each.existing_files_count or 0)) == tier
            ]
            if len(like) + 1 < _TOGETHER:
                continue
            for manifest in like:
                kept.remove(manifest)
                for each in self._memory.entries(manifest):
                    listed.append((ManifestEntryStatus.EXISTING, each))

    def _put(self, spec: int, status: ManifestEntryStatus, entry: ManifestEntry) -> None:
        """List a file, as an entry has it now, in one of the next manifests."""
        data = entry.data_file.content == DataFileContent.DATA
        content = ManifestContent.DATA if data else ManifestContent.DELETES
        self._listed.setdefault((content, spec), []).append((status, entry))

    def _manifest(
        self, number: int, content: ManifestContent, spec: int, listed: Listed
    ) -> ManifestFile:
        """Write a manifest."""
        kind = _DataWriter if content is ManifestContent.DATA else _DeletesWriter
        output = self._table.io.new_output(self._location(f"{uuid.uuid4()}-m{number}.avro"))
        specs = self._table.metadata.specs()
        with kind(specs[spec], self._schema, output, self._number, _CODEC) as writer:
            put = {
                ManifestEntryStatus.ADDED: writer.add,
                ManifestEntryStatus.EXISTING: writer.existing,
                ManifestEntryStatus.DELETED: writer.delete,
            }
            for status, each in listed:
                put[status](each)
        found = writer.to_manifest_file()
        found.sequence_number = self._sequence  # as who reads the list finds it
        if found.min_sequence_number == UNASSIGNED_SEQ:
            found.min_sequence_number = self._sequence
        return found

    def _location(self, name: str) -> str:
        """Where a file of metadata is to be; noted as written."""
        path = self._provider.new_metadata_location(name)
        self.written.append(path)
        return path

    def _summary(
        self,
        operation: Operation,
        adds: Iterable[DataFile],
        leaving: Iterable[DataFile],
        properties: Mapping[str, str],
    ) -> Summary:
        found = SnapshotSummaryCollector()
        for each in adds:
            found.add_file(each, self._schema)
        for each in leaving:
            found.remove_file(each, self._schema)
        # pyiceberg counts no totals for a replacement
        summary = Summary(Operation.OVERWRITE, **found.build(), **properties)
        before = None if self.current is None else self.current.summary
        counted = update_snapshot_summaries(
            summary, None if before is None else before.additional_properties
        )
        return Summary(operation, **counted.additional_properties)

    def discard(self) -> None:
        """Remove what was written, of a commit that did not take place."""
        for path in self.written:
            self._table.io.delete(path)


def _tier(count: int) -> int:
    return int(math.log10(max(count, 1)))


@cache
def _form(name: str) -> tuple[Writer, str]:
    """What writes records of a name, and their schema as JSON; files have no partitions."""
    schema = MANIFEST_LIST_FILE_SCHEMAS[2]
    if name == _ENTRY:
        file = data_file_with_partition(partition_type=StructType(), format_version=2)
        schema = manifest_entry_schema_with_data_file(format_version=2, data_file=file)
    avro = AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)
    return construct_writer(schema), json.dumps(avro)


class _AvroFile(AvroOutputFile[Any]):
    def __init__(self, output_file: OutputFile, name: str, metadata: dict[str, str]) -> None:
        self.output_file = output_file
        self.sync_bytes = os.urandom(SYNC_SIZE)
        self.writer, schema = _form(name)
        self.metadata = {**metadata, _SCHEMA_KEY: schema, AVRO_CODEC_KEY: _CODEC}

    def _write_header(self) -> None:
        header = AvroFileHeader(MAGIC, self.metadata, self.sync_bytes)
        _HEADER.write(self.encoder, header)


class _DataWriter(ManifestWriterV2):
    """Writes a manifest of data files."""

    def new_writer(self) -> AvroOutputFile[Any]:
        """The Avro file."""
        if self._spec.fields:  # of others' files, before the table's partitions were dropped
            return super().new_writer()
        return _AvroFile(self._output_file, _ENTRY, self._meta)


class _DeletesWriter(_DataWriter):
    """Writes a manifest of delete files, which pyiceberg has no writer for."""

    def content(self) -> ManifestContent:
        """What it lists."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _ListWriter(ManifestListWriterV2):
    """Writes a manifest list."""

    def __enter__(self) -> Self:
        self._writer = _AvroFile(self._output_file, _MANIFEST, self._meta)
        self._writer.__enter__()
        return self
