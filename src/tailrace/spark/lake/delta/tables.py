"""Tables of a lake as Delta tables, folders below the lake's own."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltalake.exceptions import DeltaError

from tailrace.errors import LakeChanged, PipelineError, UsageError
from tailrace.spark.lake.delta import log
from tailrace.spark.lake.delta.statistics import statistics
from tailrace.spark.lake.delta.table import Table, mark_of, version_of
from tailrace.spark.lake.delta.vectors import Vector, read, unique, write
from tailrace.spark.lake.tables import APPLICATION, MARK, Content, Tables
from tailrace.spark.manifest.on_disk import to_disk, within
from tailrace.spark.parquet.deleted import joined

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tailrace.spark.lake.delta.checkpoint import Action
    from tailrace.spark.lake.delta.vectors import Descriptor
    from tailrace.spark.lake.tables import Step

_CONFIGURATION: Final = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
_WITH_VECTORS: Final = {"delta.enableDeletionVectors": "true"}
_ENCODED: Final = re.compile("%[0-9A-Fa-f]{2}")


class DeltaTables(Tables):
    """Delta tables in the folders of a lake.

    A commit may go between those of others: it is then repeated after theirs. Raises
    `PipelineError`, and UsageError for a folder that delta-rs cannot read: it takes ``a%20b`` for
    ``a b``.
    """

    def __init__(self, path: Path) -> None:
        if found := _ENCODED.search(str(path)):
            raise UsageError(
                f"{path} has {found[0]!r} in its path, which delta-rs takes for another character: "
                "choose another folder for the lake"
            )
        self.top = path
        self._tables: dict[str, Table] = {}
        self._committed: set[Path] = set()
        """Folders of commits whose names may not be on disk."""

    def name(self, folder: str, part: str) -> str:
        """The folder of a part: the table's for its current state, else with the part's name."""
        return folder if part == "current" else f"{folder}_{part}"

    def folder(self, table: str) -> Path:
        """The table's folder; its data files are right in it."""
        return self.top / table

    def mark(self, table: str) -> str | None:
        """As `Table.mark`."""
        return self._now(table).mark

    def content(self, table: str, mark: str | None = None) -> Content | None:
        """The table's version; its files' paths, below its folder or whole; deleted rows."""
        found = self._now(table)
        now = found.mark
        if found.delta is None or now is None:
            return None
        files = found.files(mark)
        deleted = {
            path: Vector.of(vector, found.folder)
            for path, vector in files.items()
            if vector is not None
        }
        columns = {field.name: field.name for field in found.delta.schema().fields}
        return Content(mark or now, frozenset(files), deleted, columns)

    def commit(self, step: Step, batch: int, *, overrule: bool = False) -> str | None:
        """A version of the table with the step's files, columns, and the batch's number."""
        while True:
            table = self._now(step.table)
            self._committed.add(table.log)
            if table.delta is None or table.batch >= batch:
                self._committed.add(table.folder)
            if table.batch >= batch:
                return table.last_mark()
            if not (overrule or step.base is None or table.is_at(step.base)):
                raise LakeChanged(
                    f"others have written to {table.folder}: it had version "
                    f"{version_of(step.base)}, and has {table.version}"
                )
            version = table.version + 1
            actions = _actions(table, step, batch)
            if log.write_version(table.folder, version, actions):
                table.took(version, batch, actions)
                break
        # The commit is made; tidying is due again after the next one.
        with suppress(PipelineError, OSError, DeltaError):
            if table.is_untidy(version):
                self.tidy(step.table)
        return mark_of(version, batch)

    def has(self, table: str, batch: int) -> bool:
        """Whether the table's log has the batch, or a later one."""
        return self._now(table).batch >= batch

    def show(self, batch: int) -> None:  # noqa: ARG002 - as others
        """Bring the commits' names to disk, all at once, before the batch is noted as done.

        Also those of tables that had taken the batch: who made that commit may have been killed.
        """
        to_disk(filter(Path.is_dir, self._committed))
        self._committed.clear()

    def check(self, table: str) -> None:
        """Raise `PipelineError` where others have made of the table what we do not write."""
        self._now(table).check()

    def tidy(self, table: str) -> None:
        """As `Table.tidy`."""
        before = time.time()
        self._now(table).tidy(before)

    def _now(self, table: str) -> Table:
        """The table as it is now."""
        folder = self.folder(table)
        within(self.top, folder / log.LOG)
        found = self._tables.get(table)
        if found is None or not found.look():
            found = self._tables[table] = Table(folder)
        return found


def _actions(table: Table, step: Step, batch: int) -> list[Action]:
    known: Mapping[str, Descriptor | None] = {}
    if step.goes is not None or step.merges or step.deletes:
        known = table.files()  # else all stay, and there may be very many
    adds, gone = step.changes(known)
    wanted = _vectors(table, step, batch, known)
    altered = {
        name
        for name in {*step.stays, *wanted} - adds
        if unique(known.get(name)) != unique(wanted.get(name))
    }
    touched = {name for name, vector in known.items() if vector is not None}
    return [
        log.commit_info(
            "WRITE" if step.goes is None else "MERGE",
            isBlindAppend=step.goes is None,
            tailrace=step.properties,
        ),
        log.transaction(APPLICATION, batch),
        *_about(step, table, vectors=bool(wanted)),
        *(log.remove(name, known.get(name)) for name in sorted(gone | altered)),
        *(_add(table, name, wanted.get(name)) for name in sorted(adds)),
        *(_add(table, name, wanted.get(name)) for name in sorted(altered)),
        *_merges(table, step, known, touched),
    ]


def _vectors(
    table: Table, step: Step, batch: int, now: Mapping[str, Descriptor | None]
) -> dict[str, Descriptor]:
    """The vectors of the files that a step adds and keeps; new ones where it deletes rows."""
    before = now
    overrules = step.base is not None and not table.is_at(step.base)
    if overrules and step.deleted:
        before = table.files(step.base)
    found = {
        name: vector
        for name in step.deleted.intersection(step.stays)
        if (vector := before.get(name)) is not None
    }
    for vector in found.values() if overrules else ():
        read(vector, table.folder)  # it may be gone
    fresh = {}
    for name, rows in step.deletes.items():
        known = found.get(name)
        fresh[name] = rows if known is None else joined(read(known, table.folder), rows)
    number = "" if table.delta is None else table.delta.metadata().id
    return found | write(fresh, table.folder, f"{number}/{step.table}/{batch}")


def _add(
    table: Table, name: str, vector: Descriptor | None = None, *, changes: bool = True
) -> Action:
    """The action that makes a file part of the table, or gives it another vector."""
    path = table.folder / name
    figures = statistics(path, tight=vector is None)
    return log.add(name, path.stat(), figures, vector, changes=changes)


def _merges(
    table: Table, step: Step, there: Collection[str], touched: Collection[str]
) -> Iterator[Action]:
    """Files with the rows of others come, and those go: for readers nothing changes."""
    for merge in step.merged(there, touched):
        yield from (log.remove(name, changes=False) for name in merge.sources)
        yield _add(table, merge.target, changes=False)


def _about(step: Step, table: Table, *, vectors: bool) -> Iterator[dict[str, Any]]:
    """What readers must know, and the columns, where these are not what the table has."""
    more = _WITH_VECTORS if vectors else {}
    if table.delta is None:
        yield log.protocol(log.READER_FEATURES, log.WRITER_FEATURES, vectors=vectors)
        yield log.metadata(log.schema_string(step.schema), {**_CONFIGURATION, **more})
        return
    table.check()
    now = table.delta.protocol()
    if vectors and log.VECTORS not in (now.reader_features or ()):
        yield log.protocol(now.reader_features or (), now.writer_features or (), vectors=True)
    there, known = table.delta.schema(), table.delta.metadata()
    schema = log.schema_string(step.schema, there)
    configuration = {**known.configuration, **more}
    if MARK in step.properties:
        configuration.pop(MARK, None)
        configuration |= {MARK: mark} if (mark := step.properties[MARK]) else {}
    if schema != there.to_json() or configuration != known.configuration:
        yield log.metadata(
            schema,
            configuration,
            id=str(known.id),
            createdTime=known.created_time,
            name=known.name,
            description=known.description,
        )
