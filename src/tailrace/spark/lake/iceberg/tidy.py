"""Removes what commits to an Iceberg table leave over: old snapshots, and their files.

All of a table's snapshots are in its metadata, which each commit rewrites; so few are kept.
pyiceberg takes snapshots out of the metadata and leaves their files. They are removed here, an hour
after the snapshot that they belong to was replaced, so that its readers can finish. Until then they
are listed in a file next to the table's folders, the table's leftovers.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import ManifestEntryStatus

from tailrace.errors import PipelineError
from tailrace.spark.lake.iceberg.paths import local
from tailrace.spark.manifest import json_file as m
from tailrace.spark.manifest.damage import DAMAGE
from tailrace.spark.manifest.json_file import LARGEST, parse
from tailrace.spark.manifest.on_disk import add_to_file, read_plain, within, write_file

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from tailrace.spark.lake.iceberg.state import Memory

SNAPSHOTS: Final = "tailrace.max-snapshots"
"""A table's property: how many snapshots it keeps at most."""
AGE: Final = "history.expire.max-snapshot-age-ms"
"""A table's property: snapshots that are older go, and files that were replaced longer ago."""
MOST: Final = 100
AGE_MS: Final = 3_600_000
NAME: Final = "_leftovers.jsonl"
_MAIN: Final = "main"
_BATCH: Final = 32
"""So many snapshots' leftovers are removed at a time."""


@dataclass(frozen=True)
class Left:
    """Files that no snapshot from number ``since`` on uses; replaced at ``at``, in milliseconds."""

    at: int
    since: int
    files: tuple[str, ...]


_NUMBER: Final = m.required(m.WHOLE)
_LEFT: Final = m.instance(Left, {"at": _NUMBER, "since": _NUMBER, "files": m.required(m.TEXTS)})


def outdated(metadata: TableMetadata, now: int, coming: int = 0) -> list[Snapshot]:
    """The snapshots that are to go, oldest first, and the one after them, which stays.

    ``now`` is in milliseconds; ``coming`` are the snapshots that are about to be added.

    A table with branches, tags, or a snapshot that was rolled back is left to its owner, since
    others may read what looks old.
    """
    line = _line(metadata)
    if set(metadata.refs) != {_MAIN} or len(line) != len(metadata.snapshots):
        return []
    limit = now - _number(metadata, AGE, AGE_MS)
    count = min(len(line) + coming - _number(metadata, SNAPSHOTS, MOST), len(line) - 1)
    while count < len(line) - 1 and line[max(count, 0)].timestamp_ms < limit:
        count = max(count, 0) + 1
    return line[: count + 1] if count > 0 else []


def _number(metadata: TableMetadata, name: str, default: int) -> int:
    text = metadata.properties.get(name, str(default))
    try:
        return int(text)
    except ValueError as error:
        raise PipelineError(
            f"the table {metadata.location} has the property {name}={text}: set a whole number"
        ) from error


def _line(metadata: TableMetadata) -> list[Snapshot]:
    """The current snapshot's ancestors and itself, oldest first."""
    known = {each.snapshot_id: each for each in metadata.snapshots}
    found: list[Snapshot] = []
    number = metadata.current_snapshot_id
    while number is not None and number in known:
        found.append(known[number])
        number = known[number].parent_snapshot_id
    return found[::-1]


def left_by(
    table: Table, memory: Memory, snapshots: Sequence[Snapshot], added: Collection[str]
) -> list[Left]:
    """What removed snapshots leave over: all but the last of some that follow each other.

    A file that a user's commit took out is in use again if a batch overruled that commit: files of
    the current snapshot, and those that are ``added`` now, stay.
    """
    found = []
    used: set[str] = set()
    for old, new in pairwise(snapshots):
        here = {each.manifest_path: each for each in memory.manifests(new)}
        gone = [
            each.manifest_path for each in memory.manifests(old) if each.manifest_path not in here
        ]
        for manifest in here.values():
            if manifest.added_snapshot_id != new.snapshot_id or not manifest.deleted_files_count:
                continue
            if not used:
                live = memory.entries(*memory.live(table.metadata.current_snapshot()))
                used = {*added, *(each.data_file.file_path for each in live)}
            gone += [
                entry.data_file.file_path
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                if entry.status is ManifestEntryStatus.DELETED
                and entry.snapshot_id == new.snapshot_id
                and entry.data_file.file_path not in used
            ]
        files = (old.manifest_list, *gone)
        found.append(Left(new.timestamp_ms, new.sequence_number or 0, files))
    return found


class Leftovers:
    """The files of a table that are to be removed, kept in a file, so that no run forgets them.

    Raises OSError, and `PipelineError` where the file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._left: list[Left] = []
        self._fresh = True
        try:
            content = read_plain(self._path, LARGEST)
        except FileNotFoundError:
            return
        for line in io.BytesIO(content):
            with contextlib.suppress(*DAMAGE):  # a line that a process that died began to write
                self._left.append(_LEFT.load(parse(line)))

    def note(self, left: Sequence[Left]) -> None:
        """Note files, before the snapshots that need them go."""
        if not left:
            return
        self._left += left
        add_to_file(self._path, "".join(map(_json_line, left)))

    def keep(self, files: Collection[str]) -> None:
        """These are in use again."""
        wanted = set(files)
        if any(not wanted.isdisjoint(each.files) for each in self._left):
            self._left = [
                replace(each, files=tuple(name for name in each.files if name not in wanted))
                for each in self._left
            ]
            self._write()

    def remove(self, io: FileIO, metadata: TableMetadata, now: int) -> int:
        """Remove the files whose time has come; how many."""
        limit = now - _number(metadata, AGE, AGE_MS)
        oldest = min((each.sequence_number or 0 for each in metadata.snapshots), default=0)
        due = [each for each in self._left if each.at < limit and each.since <= oldest]
        if len(due) < (1 if self._fresh else _BATCH):
            return 0
        self._fresh = False
        count = 0
        for path in (path for each in due for path in each.files):
            # somebody else has removed it; who may write to the lake could name others' files here
            with contextlib.suppress(OSError, PipelineError):
                within(self._path.parent, local(path).parent)
                io.delete(path)
                count += 1
        self._left = [each for each in self._left if each.at >= limit or each.since > oldest]
        self._write()
        return count

    def _write(self) -> None:
        write_file(self._path, map(_json_line, self._left))


def _json_line(left: Left) -> str:
    return f"\n{json.dumps(_LEFT.dump(left))}"
