"""What lakes of all formats have on disk: one writer at a time, and folders for what it writes."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from tailrace.closing import Closing
from tailrace.errors import PipelineError
from tailrace.spark.lake.claim import FOLDER as CLAIMS
from tailrace.spark.lake.claim import Claim
from tailrace.spark.manifest.document import other_layout
from tailrace.spark.manifest.journal import FOLDER, Journal
from tailrace.spark.manifest.manifest import Manifest
from tailrace.spark.manifest.on_disk import LocalObjects, committed, within
from tailrace.storage.local import missing_folders
from tailrace.values.surrogates import has_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

INNER: Final = "_tailrace"
SOURCES: Final = "sources"
_INNER: Final = (FOLDER, CLAIMS, "tables", "versions", "staging", SOURCES)
_BEFORE: Final = ("batches", "versions")
"""Where lakes before layout 4 had a manifest for each batch."""
AGAIN: Final = ".again"
"""After a server's name: the folder into which a run receives its log once more, for itself."""


class LakeFolder(Closing):
    """A lake's folder opened by the one process that writes to it; a context manager.

    Raises `PipelineError` where the folder is something else, another process has it open, or the
    file system lacks what a lake needs.
    """

    def __init__(self, path: Path, *, made: Sequence[Path] = ()) -> None:
        """``made`` are files and folders that were made for the lake just now."""
        self.path = path
        self._inner = path / INNER
        self._made = made if path.exists() else missing_folders(path)
        objects = LocalObjects(self._inner)
        self._claim = Claim(objects, str(path))
        self._journal = Journal(objects, check=self.check_owner)
        self.manifest = Manifest()
        self.sources = self._inner / SOURCES
        """A folder for the logs of servers; what is in it stays."""

    def __enter__(self) -> Self:
        try:
            self._open()
        except OSError as error:
            self.close()
            raise failed(self.path, error) from error
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Remove what this run wrote and did not commit, and let others write.

        Of a lake in which nothing was ever committed no folder is left, unless it has a server's
        logs. Raises `PipelineError` if another process has taken over the lake.
        """
        if not self._claim.generation:
            return
        try:
            shutil.rmtree(self.staging, ignore_errors=True)
            self._claim.check()
        finally:
            self._claim.release()
        if not self.manifest.version:
            self._remove_empty()

    def _remove_empty(self) -> None:
        """Remove the folders of a lake that has nothing."""
        folders = [self._inner / name for name in _INNER]
        with suppress(OSError):  # what is not empty stays, and what is above it
            for folder in (*self.sources.glob("*"), self.sources, *folders):
                if folder.name == CLAIMS:
                    for left in folder.glob("released-*"):
                        left.unlink()
                if folder.exists():
                    folder.rmdir()
            self._inner.rmdir()
            for path in self._made:
                path.rmdir() if path.is_dir() else path.unlink()

    @property
    def _number(self) -> str:
        """The claim's generation, at the end of the names of what is this process's own."""
        return f"{self._claim.generation:010}"

    @property
    def staging(self) -> Path:
        """A folder for what this run writes; what is in it and not committed goes away."""
        return self._inner / "staging" / self._number

    def _take_sources(self) -> None:
        """Take over the folder of servers' logs: a copy, if the process that has it may still run.

        That process may write into its own, whose lock it holds.
        """
        found = [self._inner / SOURCES, *self._inner.glob(f"{SOURCES}.*")]
        latest = within(self._inner, max(found, key=generation_of))
        self.sources = latest
        if self._claim.rival and latest.exists():
            copy = shutil.copytree(latest, self.staging / SOURCES, symlinks=True)
            self.check_owner()
            self.sources = copy.replace(self._inner / f"{SOURCES}.{self._number}")
        for folder in found:
            if folder.name != self.sources.name:
                shutil.rmtree(folder, ignore_errors=True)
        for left in self.sources.glob(f"*{AGAIN}"):
            shutil.rmtree(left, ignore_errors=True)

    def _open(self) -> None:
        if has_surrogates(str(self.path)):
            raise PipelineError(f"{self.path}: a lake's path must be UTF-8")
        if self.path.exists() and not self._inner.exists() and any(self.path.iterdir()):
            raise PipelineError(
                f"{self.path} is not empty and no lake: give a new or empty folder for --into"
            )
        self._inner.mkdir(parents=True, exist_ok=True)
        within(self.path, self._inner)
        for name in _INNER:
            within(self._inner, self._inner / name)
        check_layout(self.path, self._inner)
        self._claim.take()
        for left in self._inner.glob("staging/*"):
            if generation_of(left) < self._claim.generation:
                shutil.rmtree(left, ignore_errors=True)
        (self._inner / "lock").unlink(missing_ok=True)  # of lakes before there were claims
        self.staging.mkdir(parents=True)
        self._take_sources()
        self._recover()
        self._claim.rival = None

    def check_owner(self) -> None:
        """Raise `PipelineError` if another process has taken over the lake."""
        self._claim.check()

    @abstractmethod
    def _recover(self) -> None:
        """Take up what is committed, finish what was prepared, and remove what was not."""

    def discard(self) -> None:
        """Drop what is in staging."""
        shutil.rmtree(self.staging, ignore_errors=True)
        self.staging.mkdir(parents=True, exist_ok=True)


def generation_of(path: Path) -> int:
    """The generation at the end of a name; 0 without one."""
    number = path.name.rpartition(".")[2]
    return int(number) if number.isdigit() else 0


def read_committed(path: Path) -> Manifest:
    """What is committed to a lake, which may be written to; an empty manifest before the first
    batch. Raises `PipelineError`, OSError, also where what is read was removed meanwhile.
    """
    inner = path / INNER
    journal = Journal(LocalObjects(within(path, inner)))
    within(inner, inner / FOLDER)
    check_layout(path, inner)
    journal.read(committed(inner) or None)
    return journal.manifest


def check_layout(lake: object, inner: Path) -> None:
    """Raises `PipelineError` for a lake of layout 3 or an older one, which has no journal, and for
    one of Parquet of layout 4, whose versions have the data files.
    """
    batches, versions = (any(inner.glob(f"{each}/*/manifest.json")) for each in _BEFORE)
    if batches or (versions and not any(inner.glob(f"{FOLDER}/*"))):
        raise other_layout(lake, "3 or an older one")
    if any(inner.glob("versions/*")) and not (inner / "tables").is_dir():
        raise other_layout(lake, "4")


def failed(path: Path, error: OSError) -> PipelineError:
    where = f" ({error.filename})" if error.filename else ""
    return PipelineError(f"the lake {path} cannot be written: {error.strerror or error}{where}")
