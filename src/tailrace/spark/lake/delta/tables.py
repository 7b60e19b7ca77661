"""Tables of a lake as Delta tables, folders below the lake's own."""

from __future__ import annotations

import json
import math
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from tailrace.errors import LakeChanged, PipelineError, UsageError
from tailrace.spark.lake.delta import log
from tailrace.spark.lake.delta.files import DeltaFiles, commit_actions, entry, remove_vectors
from tailrace.spark.lake.delta.statistics import statistics
from tailrace.spark.lake.delta.vectors import Vector, read, unique, write
from tailrace.spark.lake.steps import APPLICATION, MARK, Content
from tailrace.spark.manifest.json_file import read_json
from tailrace.spark.manifest.paths import within
from tailrace.spark.parquet.deleted import joined

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from tailrace.spark.lake.delta.files import Action
    from tailrace.spark.lake.delta.vectors import Descriptor
    from tailrace.spark.lake.steps import Step
    from tailrace.spark.parquet.deleted import DeletedRows

_FEATURES: Final = frozenset(
    {
        "appendOnly",
        "invariants",
        "timestampNtz",
        "changeDataFeed",
        log.VECTORS,
        "vacuumProtocolCheck",
        "v2Checkpoint",
    }
)
"""What others may give a table without it mattering to a writer of whole files."""
_CONFIGURATION: Final = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
_WITH_VECTORS: Final = {"delta.enableDeletionVectors": "true"}
_CHECKPOINT: Final = 20
_ENCODED: Final = re.compile("%[0-9A-Fa-f]{2}")
_VACUUM_SECONDS: Final = 600.0
_VECTOR_SECONDS: Final = 3600.0

_Stamp = tuple[tuple[int, int, int], tuple[int, int, int] | None]


class DeltaTables:
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
        self._open: dict[str, DeltaTable] = {}
        self._seen: dict[str, _Stamp | None] = {}
        self._paths: dict[str, tuple[int, frozenset[str]]] = {}
        self._tidied: dict[str, float] = {}
        self._logs: dict[str, DeltaFiles] = {}

    def name(self, folder: str, part: str) -> str:
        """The folder of a part: the table's for its current state, else with the part's name."""
        return folder if part == "current" else f"{folder}_{part}"

    def folder(self, table: str) -> Path:
        """The table's folder; its data files are right in it."""
        return self.top / table

    def mark(self, table: str) -> str | None:
        """The table's version, and the last batch that it has: a table that was restored from a
        copy, and to which others wrote since, may have a version of that number again.
        """
        found = self._now(table)
        return None if found is None else _mark(found)

    def content(self, table: str, mark: str | None = None) -> Content | None:
        """The table's version; its files' paths, below its folder or whole; deleted rows."""
        found = self._now(table)
        if found is None:
            return None
        now = _mark(found)
        if mark is not None and mark != now:
            adds = DeltaFiles(self.folder(table)).at(_version(mark))
            return Content(mark, frozenset(adds), self._deleted(table, adds))
        adds = self._log(table).now(found) if _has_vectors(found) else {}
        columns = {field.name: field.name for field in found.schema().fields}
        return Content(now, self._files(table, found), self._deleted(table, adds), columns)

    def _files(self, name: str, table: DeltaTable) -> frozenset[str]:
        version, files = self._paths.get(name, (-1, frozenset[str]()))
        if version != table.version():
            paths = pa.table(table.get_add_actions())["path"].to_pylist()
            files = frozenset(unquote(path) for path in paths)
            self._paths[name] = table.version(), files
        return files

    def _deleted(self, table: str, adds: Mapping[str, Action]) -> dict[str, DeletedRows]:
        """The rows that deletion vectors delete, by file."""
        folder = self.folder(table)
        return {
            path: Vector.of(vector, folder)
            for path, add in adds.items()
            if (vector := add.get("deletionVector")) is not None
        }

    def _log(self, table: str) -> DeltaFiles:
        return self._logs.setdefault(table, DeltaFiles(self.folder(table)))

    def commit(self, step: Step, batch: int, *, overrule: bool = False) -> str | None:
        """A version of the table with the step's files, columns, and the batch's number."""
        while True:
            table = self._now(step.table)
            if table is not None and (table.transaction_version(APPLICATION) or 0) >= batch:
                return self._taken(step.table, table)
            if not (overrule or step.base is None or _is_at(table, step.base)):
                raise LakeChanged(
                    f"others have written to {self.folder(step.table)}: it had version "
                    f"{_version(step.base)}, and has {None if table is None else table.version()}"
                )
            version = 0 if table is None else table.version() + 1
            actions = self._actions(table, step, batch)
            if log.write_version(self.folder(step.table), version, actions):
                break
        if version - self._checkpoint(step.table) >= _CHECKPOINT:
            # The commit is made; tidying is due again after the next one.
            with suppress(PipelineError, OSError, DeltaError):
                self.tidy(step.table)
        return f"{version}:{batch}"

    def _taken(self, name: str, table: DeltaTable) -> str | None:
        """The last version that is ours; None if its commit is gone."""
        for version in range(table.version(), -1, -1):
            try:
                actions = list(commit_actions(self.folder(name), version))
            except FileNotFoundError:
                return None
            for each in actions:
                if (txn := each.get("txn", {})).get("appId") == APPLICATION:
                    return f"{version}:{txn['version']}"
        return None

    def _checkpoint(self, table: str) -> int:
        """The version of the table's last checkpoint; -1 before the first."""
        try:
            content = read_json(self.folder(table) / log.LOG / log.LAST)
            return int(content["version"])
        except FileNotFoundError:
            return -1

    def _actions(self, table: DeltaTable | None, step: Step, batch: int) -> list[dict[str, Any]]:
        there: Collection[str] = ()
        if table is not None and (step.goes is not None or step.merges):
            there = self._files(step.table, table)  # else all stay, and there may be very many
        adds, gone = step.changes(there)
        known: Mapping[str, Action] = {}
        if table is not None and (step.deletes or _has_vectors(table)):
            known = self._log(step.table).now(table)
        wanted = self._vectors(table, step, batch, known)
        altered = {
            name
            for name in {*step.stays, *wanted} - adds
            if unique(_vector(known, name)) != unique(wanted.get(name))
        }
        touched = {name for name in known if _vector(known, name) is not None}
        return [
            log.commit_info(
                "WRITE" if step.goes is None else "MERGE",
                isBlindAppend=step.goes is None,
                tailrace=step.properties,
            ),
            log.transaction(APPLICATION, batch),
            *self._about(step, table, vectors=bool(wanted)),
            *(log.remove(name, _vector(known, name)) for name in sorted(gone | altered)),
            *(self._add(step.table, name, wanted.get(name)) for name in sorted(adds)),
            *(
                log.add_again(self._with_figures(step.table, name, known[name]), wanted.get(name))
                for name in sorted(altered)
            ),
            *self._merges(step, there, touched),
        ]

    def _vectors(
        self, table: DeltaTable | None, step: Step, batch: int, now: Mapping[str, Action]
    ) -> dict[str, Descriptor]:
        """The vectors of the files that a step adds and keeps; new ones where it deletes rows."""
        folder, before = self.folder(step.table), now
        overrules = step.base is not None and not _is_at(table, step.base)
        if overrules and step.base is not None and step.deleted:
            before = DeltaFiles(folder).at(_version(step.base))
        found = {
            name: vector
            for name in step.deleted.intersection(step.stays)
            if (vector := _vector(before, name)) is not None
        }
        for vector in found.values() if overrules else ():
            read(vector, folder)  # it may be gone
        fresh = {}
        for name, rows in step.deletes.items():
            known = found.get(name)
            fresh[name] = rows if known is None else joined(read(known, folder), rows)
        number = "" if table is None else table.metadata().id
        return found | write(fresh, folder, f"{number}/{step.table}/{batch}")

    def _add(
        self, table: str, name: str, vector: Descriptor | None = None, *, changes: bool = True
    ) -> Action:
        path = self.folder(table) / name
        size = path.stat().st_size
        return log.add(name, size, statistics(path), vector, changes=changes)

    def _with_figures(self, table: str, name: str, known: Action) -> Action:
        """An action that has the file's figures, which checkpoints may leave out."""
        if known.get("stats"):
            return known
        return {**known, "stats": statistics(self.folder(table) / name)}

    def _merges(
        self, step: Step, there: Collection[str], touched: Collection[str]
    ) -> Iterator[Action]:
        """Files with the rows of others come, and those go: for readers nothing changes."""
        for merge in step.merged(there, touched):
            yield from (log.remove(name, changes=False) for name in merge.sources)
            yield self._add(step.table, merge.target, changes=False)

    def _about(
        self, step: Step, table: DeltaTable | None, *, vectors: bool
    ) -> Iterator[dict[str, Any]]:
        """What readers must know, and the columns, where these are not what the table has."""
        more = _WITH_VECTORS if vectors else {}
        if table is None:
            yield log.protocol(log.READER_FEATURES, log.WRITER_FEATURES, vectors=vectors)
            yield log.metadata(log.schema_string(step.schema), {**_CONFIGURATION, **more})
            return
        self._check(step.table, table)
        if vectors and not _has_vectors(table):
            now = table.protocol()
            reader, writer = now.reader_features or (), now.writer_features or ()
            yield log.protocol(reader, writer, vectors=True)
        columns = _changed(table, step.schema)
        known = table.metadata()
        configuration = {**known.configuration, **more}
        if MARK in step.properties:
            configuration.pop(MARK, None)
            configuration |= {MARK: mark} if (mark := step.properties[MARK]) else {}
        if columns is not None or configuration != known.configuration:
            schema = columns or table.schema().to_json()
            yield log.metadata(
                schema,
                configuration,
                id=str(known.id),
                createdTime=known.created_time,
                name=known.name,
                description=known.description,
            )

    def check(self, table: str) -> None:
        """Raise `PipelineError` where others have made of the table what we do not write."""
        if (found := self._now(table)) is not None:
            self._check(table, found)

    def _check(self, name: str, table: DeltaTable) -> None:
        """Whether others have made of the table what we do not write."""
        where = self.folder(name)
        features = set(table.protocol().writer_features or ())
        if unknown := features - _FEATURES:
            raise PipelineError(
                f"{where} was given the table feature {min(unknown)}, which Tailrace does not "
                "write: drop the feature, or create a new lake"
            )
        if table.metadata().partition_columns:
            raise PipelineError(f"{where} was partitioned by others: create a new lake")

    def tidy(self, table: str) -> None:
        """A checkpoint; files that were replaced long enough ago, and old log entries, go."""
        # This process may be paused from here on, while another one writes vectors.
        before = time.time() - _VECTOR_SECONDS
        found = self._now(table)
        if found is None:
            return
        now = time.monotonic()
        found.create_checkpoint()
        if now - self._tidied.get(table, -math.inf) > _VACUUM_SECONDS:
            self._tidied[table] = now
            found.cleanup_metadata()
            found.vacuum(dry_run=False)
            remove_vectors(self.folder(table), found.version(), before)

    def _forget(self, table: str) -> None:
        """The next look reads the table's log from its begin."""
        for known in (self._open, self._seen, self._paths, self._logs):
            known.pop(table, None)

    def _now(self, table: str) -> DeltaTable | None:
        """The table as it is now; None where there is none yet."""
        folder = self.folder(table)
        within(self.top, folder / log.LOG)
        try:
            if (found := self._open.get(table)) is None:
                if not (folder / log.LOG).is_dir():
                    return None
                found = self._open[table] = DeltaTable(str(folder))
            else:
                seen, now = self._seen.get(table), _stamp(folder, found.version())
                if now is not None and now == seen:
                    return found
                if seen is None or seen[0] == _identity(entry(folder, found.version())):
                    found.update_incremental()
                else:  # the folder was restored or recreated: its version may be an older one
                    self._forget(table)
                    return self._now(table)
        except TableNotFoundError:
            return None
        self._seen[table] = _stamp(folder, found.version())
        return found


def _mark(table: DeltaTable) -> str:
    return f"{table.version()}:{table.transaction_version(APPLICATION) or 0}"


def _is_at(table: DeltaTable | None, mark: str) -> bool:
    """Whether a table has a mark. Those of earlier builds have no batch."""
    number, _, batch = mark.partition(":")
    if table is None or table.version() != int(number):
        return False
    return not batch or (table.transaction_version(APPLICATION) or 0) == int(batch)


def _version(mark: str) -> int:
    """The version of a mark. Raises ValueError."""
    return int(mark.partition(":")[0])


def _vector(adds: Mapping[str, Action], name: str) -> Descriptor | None:
    """The descriptor of a file's deletion vector, if it has one."""
    found: Descriptor | None = adds.get(name, {}).get("deletionVector")
    return found


def _stamp(folder: Path, version: int) -> _Stamp | None:
    """What stays the same as long as the table in a folder has no newer version than this.

    None where it has one, or may have one. Listing the log, as delta-rs does, takes as much longer
    as it has versions. Who removes a version's file first makes a checkpoint of a newer version,
    and notes it in ``_last_checkpoint``.
    """
    if _identity(entry(folder, version + 1)) is not None:
        return None
    known = _identity(entry(folder, version))
    return None if known is None else (known, _identity(folder / log.LOG / log.LAST))


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _has_vectors(table: DeltaTable) -> bool:
    return log.VECTORS in (table.protocol().reader_features or ())


def _changed(table: DeltaTable, columns: pa.Schema) -> str | None:
    """The schema for a table that has other columns now; None where it has these.

    What others have noted at columns that stay is kept.
    """
    known = {field["name"]: field for field in json.loads(table.schema().to_json())["fields"]}
    wanted = json.loads(log.schema_string(columns))
    same = list(known) == columns.names
    for field in wanted["fields"]:
        old = known.get(field["name"])
        if old is None or _bare(old["type"]) != _bare(field["type"]):
            same = False
        else:
            field["metadata"] = old["metadata"]
    return None if same else json.dumps(wanted)


def _bare(kind: Any) -> Any:
    """A type without what is noted at its members."""
    if isinstance(kind, dict) and kind["type"] == "struct":
        return [(each["name"], _bare(each["type"])) for each in kind["fields"]]
    return kind
