"""A lake on a file system: versions of which one is seen, and the one step from each to the next.

    lake/
      shop.orders -> _tailrace/now/shop.orders        what people read
      _tailrace/
        now -> versions/000004                        the committed version: this link is the commit
        versions/000004/manifest.json
        versions/000004/shop.orders/changelog/...     data files, hard links of those of 000003
        versions/000004/shop.orders/current/...
        staging/                                      what a run has written so far
      sources/                                      logs received from servers (spark.servers)
        lock

A version is built whole beside the one that is seen; then the link ``now`` is replaced, which is
one atomic step for all tables. A crash before it leaves the old version, one after it the new one,
and what is left over is removed by the next run. docs/design/lake.md says what readers see.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tailrace.errors import PipelineError
from tailrace.spark.lake.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

_INNER: Final = "_tailrace"
_KEPT_VERSIONS: Final = 2


@dataclass
class TableFiles:
    """A table's files in a version to be: file name to where the file is now.

    ``extra`` has the contents of small files that go beside a changelog's.
    """

    changelog: dict[str, Path] = field(default_factory=dict)
    current: dict[str, Path] = field(default_factory=dict)
    extra: dict[str, bytes] = field(default_factory=dict)


class Lake:
    """A lake opened by the one process that writes to it; a context manager.

    Raises `PipelineError` where the folder is something else, another process has it open, or the
    file system lacks what a lake needs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inner = path / _INNER
        self._lock: int | None = None
        self.manifest = Manifest()

    def __enter__(self) -> Self:
        try:
            self._open()
        except OSError as error:
            self._unlock()
            raise _failed(self.path, error) from error
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)
        self._unlock()

    @property
    def staging(self) -> Path:
        """A folder for what this run writes; what is in it and not committed goes away."""
        return self._inner / "staging" / str(os.getpid())

    @property
    def sources(self) -> Path:
        """A folder for the logs of servers; what is in it stays."""
        return self._inner / "sources"

    def folder(self, table: str) -> Path:
        """The folder of a table in the committed version."""
        return self._version(self.manifest.version) / table

    def _open(self) -> None:
        if self.path.exists() and not self._inner.exists() and any(self.path.iterdir()):
            raise PipelineError(
                f"{self.path} is not empty and no lake: give a new or empty folder for --into"
            )
        (self._inner / "versions").mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._inner / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._lock, 20, 0).decode("ascii", "replace").strip()
            raise PipelineError(
                f"{self.path} is being written to by another process ({owner}): wait for it to end"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        now = self._inner / "now"
        if now.is_symlink():
            self.manifest = Manifest.read(self._inner / now.readlink())
        self._clean()
        self.staging.mkdir(parents=True)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _clean(self) -> None:
        """Remove what a run left over that did not come to its end, and versions too old."""
        shutil.rmtree(self._inner / "staging", ignore_errors=True)
        kept = range(self.manifest.version - _KEPT_VERSIONS + 1, self.manifest.version + 1)
        for folder in (self._inner / "versions").iterdir():
            if not folder.name.isdigit() or int(folder.name) not in kept:
                shutil.rmtree(folder, ignore_errors=True)
        for link in self.path.iterdir():
            if link.is_symlink() and link.readlink().parts[0] == _INNER and not link.exists():
                link.unlink()

    def _version(self, number: int) -> Path:
        return self._inner / "versions" / f"{number:06}"

    def commit(self, manifest: Manifest, tables: dict[str, TableFiles]) -> None:
        """Make a version seen: ``manifest``'s, with the tables' files by folder name.

        Files of the staging folder are moved into it, those of the committed version linked.
        """
        folder = self._version(manifest.version)
        try:
            fresh = [folder, *self._build(folder, tables)]
            manifest.write(folder)
            _to_disk([*fresh, folder / "manifest.json", folder.parent])
            for table in tables:
                link = self.path / table
                if not link.is_symlink():
                    link.symlink_to(Path(_INNER, "now", table))
            _to_disk([self.path])
            self._show(folder)
        except OSError as error:
            raise _failed(self.path, error) from error
        self.manifest = manifest
        self._clean_after()

    def _build(self, folder: Path, tables: dict[str, TableFiles]) -> list[Path]:
        """Put a version's files in place; the new files and all folders, to be brought to disk."""
        fresh: list[Path] = []
        folder.mkdir()
        for table, files in tables.items():
            top = folder / table
            top.mkdir()
            fresh.append(top)
            for name, members in (("changelog", files.changelog), ("current", files.current)):
                if not members:
                    continue
                inner = top / name
                inner.mkdir()
                fresh.append(inner)
                for member, source in members.items():
                    target = inner / member
                    if self.staging in source.parents:
                        source.replace(target)
                        fresh.append(target)
                    else:
                        target.hardlink_to(source)
            for member, content in files.extra.items():
                target = top / "changelog" / member
                target.write_bytes(content)
                fresh.append(target)
        return fresh

    def _show(self, folder: Path) -> None:
        """The commit: replace the link in one step."""
        link = self._inner / f"now.{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(Path("versions", folder.name))
        link.replace(self._inner / "now")
        _to_disk([self._inner])

    def _clean_after(self) -> None:
        try:
            self._clean()
            self.staging.mkdir(parents=True)
        except OSError:  # the commit is done: what is left over is the next run's to remove
            return


def _to_disk(paths: Iterable[Path]) -> None:
    """Have the system write files and folders out; it does many at once faster than one by one."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _failed(path: Path, error: OSError) -> PipelineError:
    where = f" ({error.filename})" if error.filename else ""
    return PipelineError(f"the lake {path} cannot be written: {error.strerror or error}{where}")
