"""Snapshots of an Iceberg table, made of the files that come and those that go.

https://iceberg.apache.org/spec/#manifests. pyiceberg's own producers copy all of a table's metadata
several times for each snapshot, keep manifests that list nothing any more, and know no delete files
(docs/design/formats.md). Here one manifest a content is written, and what it lists is remembered.
"""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    _inherit_from_manifest,
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

from tailrace.spark.lake.iceberg.avro import CODEC, DataWriter, DeletesWriter, ListWriter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

_TOGETHER: Final = 10
"""So many manifests of about one size become one."""


class Manifests:
    """What the manifests of a table list. A manifest never changes: each is read once, and those
    that are written here never.
    """

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._entries: dict[str, list[ManifestEntry]] = {}
        self._lists: dict[int, list[ManifestFile]] = {}

    def all(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of a snapshot, newest first."""
        known = self._lists.get(snapshot.snapshot_id)
        if known is None:
            known = self._lists[snapshot.snapshot_id] = snapshot.manifests(self._io)
        return known

    def written(self, snapshot: Snapshot, manifests: list[ManifestFile]) -> None:
        """A snapshot that was just made."""
        self._lists[snapshot.snapshot_id] = manifests

    def listed(self, manifest: ManifestFile, entries: Iterable[ManifestEntry]) -> None:
        """What a manifest lists that was just written, as whoever reads it finds it."""
        self._entries[manifest.manifest_path] = [
            _inherit_from_manifest(each, manifest)
            for each in entries
            if each.status is not ManifestEntryStatus.DELETED
        ]

    def of(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot that list files which are part of the table, newest first."""
        if snapshot is None:
            return []
        return [each for each in self.all(snapshot) if _lists_any(each)]

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The files in a manifest that are part of the table."""
        known = self._entries.get(manifest.manifest_path)
        if known is None:
            known = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            self._entries[manifest.manifest_path] = known
        return known

    def paths(self, snapshot: Snapshot | None) -> Iterator[str]:
        """The files that are part of the table at a snapshot."""
        for manifest in self.of(snapshot):
            yield from (each.data_file.file_path for each in self.entries(manifest))

    def keep(self, snapshots: Iterable[Snapshot], current: Snapshot | None) -> None:
        """Forget other snapshots, and what only manifests of others than the current one list."""
        numbers = {each.snapshot_id for each in snapshots}
        self._lists = {each: found for each, found in self._lists.items() if each in numbers}
        paths = {each.manifest_path for each in self.of(current)}
        self._entries = {path: found for path, found in self._entries.items() if path in paths}


class Snapshots:
    """The new snapshots of one commit to a table, each based on the one before.

    They are ``made``; ``updates`` are what the commit has to apply, ``written`` the paths of the
    metadata files that were written for it, ``added`` those of the files that come. Raises OSError,
    and CommitFailedException where a file that is to go is not there.
    """

    def __init__(self, table: Table, schema: Schema, manifests: Manifests) -> None:
        metadata = table.metadata
        self.updates: list[TableUpdate] = []
        self.current = metadata.current_snapshot()
        self._table = table
        self._schema = schema
        self._manifests = manifests
        self._there = manifests.of(self.current)
        self._sequence = metadata.next_sequence_number() - 1
        self.made: list[Snapshot] = []
        self.written: list[str] = []
        self.added: set[str] = set()

    def add(
        self,
        operation: Operation,
        adds: Sequence[DataFile],
        gone: Collection[str],
        properties: Mapping[str, str],
    ) -> None:
        """One more snapshot, in which files come, and those with the paths ``gone`` go."""
        self._sequence += 1
        metadata = self._table.metadata
        number = metadata.new_snapshot_id()
        work = _Work(self._table, self._schema, number, self.written)
        kept, leaving = self._take(work, gone)
        self.added.update(each.file_path for each in adds)
        for each in adds:
            work.put(
                metadata.default_spec_id, _entry(ManifestEntryStatus.ADDED, number, None, each)
            )
        self._merge(work, kept)
        fresh = work.manifests()
        manifests = [*(manifest for manifest, _ in fresh), *kept]
        parent = self.current
        path = work.location(f"snap-{number}-0-{uuid.uuid4()}.avro")
        with ListWriter(
            self._table.io.new_output(path),
            number,
            None if parent is None else parent.snapshot_id,
            self._sequence,
            CODEC,
        ) as writer:
            writer.add_manifests(manifests)
        for manifest in manifests:  # as who reads the list finds them
            if manifest.sequence_number == UNASSIGNED_SEQ:
                manifest.sequence_number = self._sequence
            if manifest.min_sequence_number == UNASSIGNED_SEQ:
                manifest.min_sequence_number = self._sequence
        for manifest, entries in fresh:
            self._manifests.listed(manifest, entries)
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": number,
                "parent-snapshot-id": None if parent is None else parent.snapshot_id,
                "manifest-list": path,
                "sequence-number": self._sequence,
                "summary": self._summary(operation, adds, leaving, properties),
                "schema-id": self._schema.schema_id,
            }
        )
        self.updates += [
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(
                {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": number}
            ),
        ]
        self.made.append(snapshot)
        self.current = snapshot
        self._manifests.written(snapshot, manifests)
        self._there = self._manifests.of(snapshot)

    def _take(
        self, work: _Work, gone: Collection[str]
    ) -> tuple[list[ManifestFile], list[DataFile]]:
        """Take files out of the manifests that list them; those that stay, and what was taken."""
        kept: list[ManifestFile] = []
        leaving: list[DataFile] = []
        left = set(gone)
        for manifest in self._there:
            entries = self._manifests.entries(manifest) if left else []
            found = [each for each in entries if each.data_file.file_path in left]
            if not found:
                kept.append(manifest)
                continue
            left.difference_update(each.data_file.file_path for each in found)
            leaving += [each.data_file for each in found]
            for each in entries:
                status = ManifestEntryStatus.EXISTING
                if each.data_file.file_path in gone:
                    status = ManifestEntryStatus.DELETED
                work.again(manifest, each, status)
        if left:
            raise CommitFailedException(f"a file that is to go is not in the table: {min(left)}")
        return kept, leaving

    def _merge(self, work: _Work, kept: list[ManifestFile]) -> None:
        """Take small manifests into those that are written, once there are many."""
        for (content, spec), count in work.counts().items():
            like = [
                each
                for each in kept
                if each.content == content
                and each.partition_spec_id == spec
                and _tier(_live(each)) == _tier(count)
            ]
            if len(like) + 1 < _TOGETHER:
                continue
            for manifest in like:
                kept.remove(manifest)
                for each in self._manifests.entries(manifest):
                    work.again(manifest, each, ManifestEntryStatus.EXISTING)

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


class _Work:
    """The manifests of a snapshot in the making: one a content and partition spec."""

    def __init__(self, table: Table, schema: Schema, number: int, written: list[str]) -> None:
        self._table = table
        self._schema = schema
        self._number = number
        self._written = written
        self._name = uuid.uuid4()
        self._provider = table.location_provider()
        self._entries: dict[tuple[ManifestContent, int], list[ManifestEntry]] = {}

    def location(self, name: str) -> str:
        """Where a file of metadata is to be; noted as written."""
        path = self._provider.new_metadata_location(name)
        self._written.append(path)
        return path

    def put(self, spec: int, entry: ManifestEntry) -> None:
        data = entry.data_file.content == DataFileContent.DATA
        content = ManifestContent.DATA if data else ManifestContent.DELETES
        self._entries.setdefault((content, spec), []).append(entry)

    def again(
        self, manifest: ManifestFile, entry: ManifestEntry, status: ManifestEntryStatus
    ) -> None:
        """An entry of a manifest that is rewritten; if deleted, then by this snapshot."""
        number = entry.snapshot_id
        if status is ManifestEntryStatus.DELETED:
            number = self._number
        self.put(
            manifest.partition_spec_id,
            ManifestEntry.from_args(
                status=status,
                snapshot_id=number,
                sequence_number=entry.sequence_number,
                file_sequence_number=entry.file_sequence_number,
                data_file=entry.data_file,
            ),
        )

    def counts(self) -> dict[tuple[ManifestContent, int], int]:
        """How many files each of the manifests will list."""
        return {
            key: sum(each.status is not ManifestEntryStatus.DELETED for each in entries)
            for key, entries in self._entries.items()
        }

    def manifests(self) -> list[tuple[ManifestFile, list[ManifestEntry]]]:
        """Write them; each with what it lists."""
        return [
            (self._manifest(number, content, spec, entries), entries)
            for number, ((content, spec), entries) in enumerate(self._entries.items())
        ]

    def _manifest(
        self, number: int, content: ManifestContent, spec: int, entries: list[ManifestEntry]
    ) -> ManifestFile:
        kind = DataWriter if content is ManifestContent.DATA else DeletesWriter
        path = self.location(f"{self._name}-m{number}.avro")
        with kind(
            self._table.metadata.specs()[spec],
            self._schema,
            self._table.io.new_output(path),
            self._number,
            CODEC,
        ) as writer:
            for each in entries:
                writer.add_entry(each)
        return writer.to_manifest_file()


def _entry(
    status: ManifestEntryStatus, snapshot: int, sequence: int | None, file: DataFile
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot,
        sequence_number=sequence,
        file_sequence_number=sequence,
        data_file=file,
    )


def _lists_any(manifest: ManifestFile) -> bool:
    return bool(manifest.has_added_files() or manifest.has_existing_files())


def _live(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _tier(count: int) -> int:
    return int(math.log10(max(count, 1)))
