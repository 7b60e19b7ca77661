"""One commit to an Iceberg table: a step's files, deleted rows, columns and batch, all at once."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
)

from tailrace.errors import PipelineError
from tailrace.spark.lake.iceberg.files import by_file, taken_up, write_deletes
from tailrace.spark.lake.iceberg.paths import local
from tailrace.spark.lake.iceberg.snapshot import Snapshots
from tailrace.spark.lake.iceberg.state import State, data_folder, marked
from tailrace.spark.lake.iceberg.tidy import left_by, outdated
from tailrace.spark.lake.tables import MARK, unread_deletes

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from tailrace.spark.lake.iceberg.state import Memory
    from tailrace.spark.lake.tables import Step

BATCH: Final = "tailrace.batch"
"""The property of a table, and of its snapshots, that has the number of the last batch."""


def commit(table: Table, memory: Memory, step: Step, batch: int) -> str:
    """Make a step seen, as the table is now; its mark after that. Raises OSError, `PipelineError`,

    and CommitFailedException where another writer was first: nothing is done then.
    """
    metadata = table.metadata
    check(step.table, metadata)
    files, updates = memory.data_files(metadata, step)
    # of a table that only grows all files stay, and there may be very many
    state = memory.state(table) if step.goes is not None or step.merges else State()
    top, folder = data_folder(table), memory.folder / "data"
    properties = {BATCH: str(batch), **step.properties}  # of the snapshots
    snapshots = Snapshots(table, files.schema, memory)
    try:
        adds, gone = step.changes(state.files)
        deletes, needless = _deletes(table, memory, step, batch, (state, adds, gone))
        come = [*(files.entry(folder / name, top + name) for name in sorted(adds)), *deletes]
        go = {state.files[name].file_path for name in gone} | set(needless)
        if come or go:
            snapshots.add(come, go, properties)
        merges = step.merged(state.files, state.touched)
        for merge in merges:
            whole = files.entry(folder / merge.target, top + merge.target)
            parts = {state.files[name].file_path for name in merge.sources}
            snapshots.add([whole], parts, properties, replaces=True)
        mark = step.properties.get(MARK)
        own = {BATCH: str(batch), **({MARK: mark} if mark else {})}
        updates += [*snapshots.updates, SetPropertiesUpdate(updates=own)]
        if mark == "" and MARK in metadata.properties:
            updates.append(RemovePropertiesUpdate(removals=[MARK]))
        _apply(table, memory, snapshots, updates)
    except CommitFailedException:
        snapshots.discard()
        for each in deletes:
            local(each.file_path).unlink(missing_ok=True)
        raise
    for merge in step.merges:
        if merge not in merges and merge.target not in state.files:
            (folder / merge.target).unlink(missing_ok=True)
    return marked(snapshots.current)


def check(name: str, metadata: TableMetadata) -> None:
    """Raise `PipelineError` where others have made of the table what we do not write."""
    if metadata.format_version != 2:
        raise PipelineError(
            f"table {name} was given format version {metadata.format_version}, and Tailrace writes "
            "version 2: create a new lake"
        )
    if metadata.spec().fields:
        raise PipelineError(f"table {name} was partitioned by others: create a new lake")


def _deletes(
    table: Table,
    memory: Memory,
    step: Step,
    batch: int,
    change: tuple[State, Collection[str], Collection[str]],
) -> tuple[list[DataFile], list[str]]:
    """The delete file that comes, and the paths of those that go.

    With them exactly the rows are deleted that were so at the step's base, and those of the step.
    """
    state, adds, gone = change
    top = data_folder(table)
    live = {top + name for name in (set(state.files) - set(gone)) | set(adds)}
    fresh = {top + name: rows for name, rows in step.deletes.items()}
    now = marked(table.metadata.current_snapshot())
    if step.goes is None or step.base is None or step.base == now:
        fresh, needless = taken_up(fresh, state.applying, live)
    else:  # others have written since: what they deleted is live, and what they dropped deleted
        if "" in state.deleted:
            raise unread_deletes(step.table)
        wanted = {top + name for name in step.deleted} & live
        then = memory.state(table, step.base) if wanted else State()
        before = by_file(then.applying.values())
        fresh = by_file([fresh, {path: rows for path, rows in before.items() if path in wanted}])
        needless = list(state.applying)
    if not fresh:
        return [], needless
    name = f"deletes-{batch:06}-{uuid4().hex[:8]}.parquet"  # no other process writes it
    path = memory.folder / "data" / name
    made = write_deletes(path, top + name, fresh)
    memory.to_disk([path, path.parent])
    memory.wrote_deletes(made, fresh)
    return [made], needless


def _apply(table: Table, memory: Memory, snapshots: Snapshots, updates: list[TableUpdate]) -> None:
    """Commit, and let snapshots go that are too old."""
    metadata, now = table.metadata, int(time.time() * 1000)
    current = metadata.current_snapshot()
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate(
            {"ref": MAIN_BRANCH, "snapshot-id": None if current is None else current.snapshot_id}
        ),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
    )
    memory.leftovers.keep(snapshots.added)
    with suppress(OSError):  # the next commit removes them
        memory.leftovers.remove(table.io, metadata, now)
    if old := outdated(metadata, now, len(snapshots.made)):
        memory.leftovers.note(left_by(table, memory, old, snapshots.added))
        updates.append(
            RemoveSnapshotsUpdate.model_validate(
                {"snapshot-ids": [each.snapshot_id for each in old[:-1]]}
            )
        )
    memory.to_disk(local(each) for each in snapshots.written)
    table._do_commit(tuple(updates), requirements)  # noqa: SLF001 - as its transactions do
    memory.keep(table.metadata)
