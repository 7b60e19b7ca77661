"""The files of a Delta table with all that its log says of them: for who takes them out again.

delta-rs tells the files, and not their deletion vectors' places nor their statistics as they were
written, which a commit that changes a vector has to repeat.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark.lake.delta import vectors
from tailrace.spark.lake.delta.log import LOG
from tailrace.spark.manifest.json_file import LARGEST, check_size, parse
from tailrace.spark.manifest.paths import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from deltalake import DeltaTable

Action = dict[str, Any]

_CHECKPOINTS: Final = f"{'[0-9]' * 20}.checkpoint.parquet"


def checkpoint(folder: Path, version: int) -> Path:
    """The checkpoint of a version of the table in a folder, if it is one file."""
    return folder / LOG / f"{version:020}.checkpoint.parquet"


def entry(folder: Path, version: int) -> Path:
    """The commit of a version of the table in a folder."""
    return folder / LOG / f"{version:020}.json"


def commit_actions(folder: Path, version: int) -> Iterator[Action]:
    """The actions of a commit. Raises FileNotFoundError, and what damage raises."""
    content = read_plain(entry(folder, version), LARGEST)
    check_size(content)
    for line in io.BytesIO(content):
        if line.strip():
            yield parse(line)


class _Gone(Exception):
    """Commits that a version takes are not there any more."""


class DeltaFiles:
    """The files of a table in a folder, as of the version that was asked for last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = -1
        self._adds: dict[str, Action] = {}

    def now(self, table: DeltaTable) -> Mapping[str, Action]:
        """The ``add`` action of each file of the table, by its path."""
        try:
            self._at(table.version())
        except _Gone:
            table.create_checkpoint()  # one of a kind that is read here
            self._at(table.version())
        return self._adds

    def at(self, version: int) -> Mapping[str, Action]:
        """The same of a version; raises `PipelineError` where its log is not all there."""
        try:
            self._at(version)
        except _Gone:
            raise PipelineError(
                f"{self._folder} has no log of its version {version} any more"
            ) from None
        return self._adds

    def _at(self, version: int) -> None:
        try:
            if not self._has_all(version):
                self._begin(version)
            for number in range(self._version + 1, version + 1):
                for action in commit_actions(self._folder, number):
                    self._take(action)
            self._version = version
        except Exception:
            self._version = -1
            raise

    def _has_all(self, version: int) -> bool:
        """Whether all commits since the one that is known are there."""
        return 0 <= self._version <= version and self._has_commits(self._version, version)

    def _has_commits(self, version: int, end: int) -> bool:
        """Whether the commits after a version, up to another one, are there."""
        numbers = range(version + 1, end + 1)
        return all(entry(self._folder, number).exists() for number in numbers)

    def _begin(self, version: int) -> None:
        """Take up the last checkpoint before a version, or the table's begin.

        Raises `_Gone` where the commits since then are not all there.
        """
        self._adds, self._version = {}, -1
        every = (self._folder / LOG).glob(_CHECKPOINTS)
        last = max((n for each in every if (n := int(each.name[:20])) <= version), default=-1)
        if not self._has_commits(last, version):
            raise _Gone
        if last < 0:
            return
        rows = pq.read_table(checkpoint(self._folder, last), columns=["add"]).column("add")
        for add in rows.to_pylist():
            if add is not None:
                for name in ("partitionValues", "tags"):
                    if add.get(name) is not None:
                        add[name] = dict(add[name])
                self._take({"add": add})
        self._version = last

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


def remove_vectors(folder: Path, version: int, before: float) -> None:
    """Remove files of deletion vectors, last written ``before`` a time, that the checkpoint of a
    version does not know any more.

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
        for each in folder.glob(vectors.ANY_FILE):
            if each not in used and each.stat().st_mtime < before:
                each.unlink(missing_ok=True)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"{folder} cannot be tidied: {error}") from error
