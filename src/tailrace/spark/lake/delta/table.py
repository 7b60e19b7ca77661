"""One Delta table in a folder: as it was when looked at last, and what need not be read again."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tailrace.errors import PipelineError
from tailrace.spark.lake.delta.log import (
    LAST,
    LOG,
    VECTORS,
    WRITER_FEATURES,
    Files,
    entry,
    last_checkpoint,
    read_actions,
    read_checkpoint,
)
from tailrace.spark.lake.delta.vectors import ANY_FILE, Vector
from tailrace.spark.lake.tables import APPLICATION
from tailrace.spark.manifest.damage import DAMAGE
from tailrace.spark.manifest.json_file import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.lake.delta.log import Action

_OTHERS: Final = {"changeDataFeed", "vacuumProtocolCheck", "v2Checkpoint"}
"""What others may give a table without it mattering to a writer of whole files."""
_DEFINING: Final = {"metaData", "protocol"}
_CHECKPOINT: Final = 20
_VACUUM_SECONDS: Final = 600.0
_VECTOR_SECONDS: Final = 3600.0
_Identity = tuple[int, int, int]


class Table:
    """The table in a folder; ``delta`` is None, and all of it empty, where there is none.

    ``version`` is the number of its last commit, -1 before the first; ``batch`` that of the last
    batch that it has taken, 0 before the first. Commits of ours that change neither columns nor
    properties are not in ``delta``, which takes most of a small commit's time (`took`).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / LOG
        self.delta: DeltaTable | None = None
        self.version, self.batch = -1, 0
        if self.log.is_dir():
            with suppress(TableNotFoundError):
                self.delta = DeltaTable(str(folder))
        self._note()
        self._files = Files(self.log)
        self._checkpointed = -1
        self._tidied = -math.inf

    def _note(self) -> None:
        """Note what ``delta`` has."""
        if self.delta is not None:
            self.version = self.delta.version()
            self.batch = self.delta.transaction_version(APPLICATION) or 0
        self._stamp = _stamp(self.log, self.version)

    def took(self, version: int, batch: int, actions: Sequence[Action]) -> None:
        """Take up a commit of ours; one that the log has to be read for is left to `look`."""
        if self.delta is None or any(each.keys() & _DEFINING for each in actions):
            return
        self.version, self.batch = version, batch
        self._stamp = _stamp(self.log, version)
        self._files.took(version, actions)

    def look(self) -> bool:
        """Take up what was written since the last look.

        False where the folder had no table, or it was restored or recreated: its version may be an
        older one.
        """
        if self.delta is None:
            return False
        now = _stamp(self.log, self.version)
        if now is not None and now == self._stamp:
            return True
        if self._stamp and self._stamp[0] != _identity(entry(self.log, self.version)):
            return False
        try:
            self.delta.update_incremental()
        except TableNotFoundError:
            return False
        self._note()
        return True

    @property
    def mark(self) -> str | None:
        """Its version and batch, None without a table: one that was restored from a copy, and to
        which others wrote since, may have a version of that number again.
        """
        return None if self.delta is None else mark_of(self.version, self.batch)

    def is_at(self, mark: str) -> bool:
        """Whether it has a mark. Those of earlier builds have no batch."""
        _, _, batch = mark.partition(":")
        return self.version == version_of(mark) and (not batch or self.batch == int(batch))

    def files(self, mark: str | None = None) -> Mapping[str, Vector | None]:
        """The deletion vector of each data file, by its path, now or at a mark.

        Raises `PipelineError` where the log of that is not all there.
        """
        if mark is not None and not self.is_at(mark):
            return Files(self.log).at(version_of(mark))
        return {} if self.delta is None else self._files.at(self.version)

    def last_mark(self) -> str | None:
        """The mark of its last version that is ours; None if that commit is gone."""
        with suppress(FileNotFoundError):
            for version in range(self.version, -1, -1):
                for each in list(read_actions(entry(self.log, version))):
                    if (txn := each.get("txn", {})).get("appId") == APPLICATION:
                        return mark_of(version, txn["version"])
        return None

    def check(self) -> None:
        """Raise `PipelineError` where others have made of it what we do not write."""
        if self.delta is None:
            return
        features = set(self.delta.protocol().writer_features or ())
        if unknown := features - {*WRITER_FEATURES, VECTORS} - _OTHERS:
            raise PipelineError(
                f"{self.folder} was given the table feature {min(unknown)}, which Tailrace does "
                "not write: drop the feature, or create a new lake"
            )
        if self.delta.metadata().partition_columns:
            raise PipelineError(f"{self.folder} was partitioned by others: create a new lake")

    def is_untidy(self, version: int) -> bool:
        """Whether ``version``, which was just committed, is many after the last checkpoint."""
        if version - self._checkpointed >= _CHECKPOINT:
            with suppress(FileNotFoundError):
                self._checkpointed = int(read_json(self.log / LAST)["version"])
        return version - self._checkpointed >= _CHECKPOINT

    def tidy(self) -> None:
        """A checkpoint; files that were replaced long enough ago, and old log entries, go."""
        if self.delta is None:
            return
        now, before = time.monotonic(), time.time()  # others may write vectors from here on
        self.delta.update_incremental()
        self._note()
        self.delta.create_checkpoint()
        if now - self._tidied > _VACUUM_SECONDS:
            self._tidied = now
            self.delta.cleanup_metadata()
            self.delta.vacuum(dry_run=False)
            _remove_vectors(self.folder, self.delta.version(), before - _VECTOR_SECONDS)


def mark_of(version: int, batch: int) -> str:
    """The mark (`Table.mark`) of a version that took a batch."""
    return f"{version}:{batch}"


def version_of(mark: str) -> int:
    """The version of a mark. Raises ValueError."""
    return int(mark.partition(":")[0])


def _stamp(folder: Path, version: int) -> tuple[_Identity, _Identity | None] | None:
    """What stays the same as long as the log in a folder has no newer version than this.

    None where it has one, or may have one. Listing the log, as delta-rs does, takes as much longer
    as it has versions. Who removes a version's file first makes a checkpoint of a newer version,
    and notes it in ``_last_checkpoint``.
    """
    if _identity(entry(folder, version + 1)) is not None:
        return None
    known = _identity(entry(folder, version))
    return None if known is None else (known, _identity(folder / LAST))


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _remove_vectors(folder: Path, version: int, before: float) -> None:
    """Remove files of deletion vectors, last written ``before`` a time, that the checkpoint of a
    version does not know any more.

    It has the files of the table, and those that were taken out of it not long ago. Raises
    `PipelineError`.
    """
    used: set[Path | None] = set()
    try:
        _, files = last_checkpoint(folder / LOG, version)
        for action in read_checkpoint(files, "add.deletionVector", "remove.deletionVector"):
            for each in action.values():
                if (found := each.get("deletionVector")) is not None:
                    used.add(Vector.of(found, folder).place())
        for each in folder.glob(ANY_FILE):
            if each not in used and each.stat().st_mtime < before:
                each.unlink(missing_ok=True)
    except (OSError, *DAMAGE) as error:
        raise PipelineError(f"{folder} cannot be tidied: {error}") from error
