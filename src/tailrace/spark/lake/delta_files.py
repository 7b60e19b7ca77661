"""The files of a Delta table with all that its log says of them: for who takes them out again.

delta-rs tells the files, and not their deletion vectors' places nor their statistics as they were
written, which a commit that changes a vector has to repeat.
"""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark.lake import vectors
from tailrace.spark.lake.delta_log import LAST, LOG
from tailrace.spark.manifest.json_file import LARGEST, check_size, parse, read_json
from tailrace.spark.manifest.paths import read_plain
from tailrace.spark.parquet import hidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from deltalake import DeltaTable

Action = dict[str, Any]

_OLD_SECONDS: Final = 3600.0


def checkpoint(folder: Path, version: int) -> Path:
    """The checkpoint of a version of the table in a folder, if it is one file."""
    return folder / LOG / f"{version:020}.checkpoint.parquet"


class DeltaFiles:
    """The files of a table in a folder, as of the version that was asked for last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = -1
        self._adds: dict[str, Action] = {}
        self._deleted: dict[str, tuple[str, str]] = {}

    def at(self, table: DeltaTable) -> Mapping[str, Action]:
        """The ``add`` action of each file of the table, by its path."""
        version = table.version()
        try:
            if not self._has_all(version):
                self._begin(table)
            for number in range(self._version + 1, version + 1):
                for action in self._commit(number):
                    self._take(action)
            self._version = version
        except Exception:
            self._version = -1
            raise
        return self._adds

    def deleted(self, table: DeltaTable) -> dict[str, str]:
        """The deleted rows of each file that has any, by its path (`parquet.hidden`)."""
        found: dict[str, tuple[str, str]] = {}
        for path, action in self.at(table).items():
            if (vector := action.get("deletionVector")) is None:
                continue
            known = self._deleted.get(path)
            name = vectors.unique(vector)
            if known is None or known[0] != name:
                known = (name, hidden.dump(vectors.read(vector, self._folder)))
            found[path] = known
        self._deleted = found
        return {path: text for path, (_, text) in found.items()}

    def _has_all(self, version: int) -> bool:
        """Whether all commits since the one that is known are there."""
        known = 0 <= self._version <= version
        return known and all(
            self._path(number).exists() for number in range(self._version + 1, version + 1)
        )

    def _begin(self, table: DeltaTable) -> None:
        """Take up the last checkpoint, or the table's begin."""
        self._adds, self._version = {}, -1
        last = self._last()
        if last is None and self._path(0).exists():
            return
        if last is None or not self._has_all_from(last, table.version()):
            table.create_checkpoint()  # one of a kind that is read here
            last = table.version()
        rows = pq.read_table(checkpoint(self._folder, last), columns=["add"]).column("add")
        for add in rows.to_pylist():
            if add is not None:
                for name in ("partitionValues", "tags"):
                    if add.get(name) is not None:
                        add[name] = dict(add[name])
                self._take({"add": add})
        self._version = last

    def _has_all_from(self, version: int, end: int) -> bool:
        if not checkpoint(self._folder, version).exists() or version > end:
            return False
        return all(self._path(number).exists() for number in range(version + 1, end + 1))

    def _last(self) -> int | None:
        try:
            return int(read_json(self._folder / LOG / LAST)["version"])
        except FileNotFoundError:
            return None

    def _path(self, version: int) -> Path:
        return self._folder / LOG / f"{version:020}.json"

    def _commit(self, version: int) -> Iterator[Action]:
        content = read_plain(self._path(version), LARGEST)
        check_size(content)
        for line in io.BytesIO(content):
            if line.strip():
                yield parse(line)

    def _take(self, action: Action) -> None:
        """An action of a commit. A commit may take a file out and add it with another vector."""
        if (add := action.get("add")) is not None:
            self._adds[unquote(add["path"])] = add
        elif (gone := action.get("remove")) is not None:
            path = unquote(gone["path"])
            known = self._adds.get(path)
            of_it = known is not None and vectors.unique(
                known.get("deletionVector")
            ) == vectors.unique(gone.get("deletionVector"))
            if of_it:
                del self._adds[path]


def remove_vectors(folder: Path, version: int) -> None:
    """Remove files of deletion vectors that the checkpoint of a version does not know any more.

    It has the files of the table, and those that were taken out of it not long ago. Raises
    `PipelineError`.
    """
    path = checkpoint(folder, version)
    used: set[Path] = set()
    try:
        actions = pq.read_table(path, columns=["add", "remove"])
        for name in ("add", "remove"):
            column = actions.column(name).filter(actions.column(name).is_valid())
            found = pc.struct_field(column, "deletionVector").drop_null().to_pylist()
            used |= {vectors.place(each, folder) for each in found if each["storageType"] != "i"}
        before = time.time() - _OLD_SECONDS
        for each in folder.glob(vectors.ANY_FILE):
            if each not in used and each.stat().st_mtime < before:
                each.unlink(missing_ok=True)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"{folder} cannot be tidied: {error}") from error
