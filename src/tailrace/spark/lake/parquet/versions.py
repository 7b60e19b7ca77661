"""A lake on a file system: versions of which one is seen, and the one step from each to the next.

    lake/
      shop.orders -> _tailrace/now/shop.orders        what people read
      _tailrace/
        now -> versions/000004                        the committed version: this link is the commit
        versions/000004/shop.orders/changelog/...     data files, hard links of those of 000003
        versions/000004/shop.orders/current/...
        journal/000004.jsonl                          what the version's manifest is (`Journal`)
        staging/                                      what a run has written so far
        sources/                                      logs received from servers (`ServerLog`)
        claims/                                       who writes to the lake (`claim`)
        now.0123456789/                               where that process makes the next link

A version is built whole next to the one that is seen, and put into the journal; then the link
``now`` is replaced, which is one atomic step for all tables. A crash before it leaves the old
version, one after it the new one: the next run has the journal say so, and removes what is left
over. docs/design/lake.md says what readers see.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError
from tailrace.spark.lake.folder import INNER, LakeFolder, failed
from tailrace.spark.manifest.manifest import check_format
from tailrace.spark.manifest.on_disk import to_disk
from tailrace.spark.manifest.paths import committed, within

if TYPE_CHECKING:
    from tailrace.spark.lake.table_files import TableFiles
    from tailrace.spark.manifest.manifest import Manifest

_KEPT_VERSIONS: Final = 2


class Lake(LakeFolder):
    """A lake of versions, as `LakeFolder` opens it."""

    def folder(self, table: str) -> Path:
        """The folder of a table in the committed version."""
        version = self._version(self.manifest.version)
        return within(version, version / table)

    def _recover(self) -> None:
        (self._inner / "versions").mkdir(exist_ok=True)
        for left in self._before("now.*"):  # its process cannot replace the link any more
            left.replace(self.staging / left.name)
            shutil.rmtree(
                self.staging / left.name
            )  # NFS renames what it has opened, wherever that is
        self._linking.mkdir()
        self._read()
        self._fence()
        shown = committed(self._inner)
        if self._journal.prepared:
            coming, _ = self._journal.coming(list)
            check_format(str(self.path), coming, "parquet")
            if shown == coming.version:
                self._journal.done(coming)
            else:
                self._journal.withdraw()
            self.manifest = self._journal.manifest
        check_format(str(self.path), self.manifest, "parquet")
        if shown != self.manifest.version:
            raise PipelineError(
                f"{self._inner / 'now'} leads to version {shown}, and the journal has version "
                f"{self.manifest.version}: bring back what was removed, or create a new lake"
            )
        self._clean()

    def _clean(self) -> None:
        self._journal.clean()
        folders = {each.name: each for each in (self._inner / "versions").iterdir()}
        there = (int(name) for name in folders if name.isdigit())
        known = sorted(number for number in there if number <= self.manifest.next)
        kept = [number for number in known if number <= self.manifest.version][-_KEPT_VERSIONS:]
        for name, folder in folders.items():
            if not name.isdigit() or int(name) in {*known} - {*kept}:  # others are not ours
                shutil.rmtree(folder, ignore_errors=True)
        for link in self.path.iterdir():
            if link.is_symlink() and link.readlink().parts[0] == INNER and not link.exists():
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
            to_disk([*fresh, folder.parent])
            for table in tables:
                link = self.path / table
                if not link.is_symlink() and not link.exists():  # else its table is set aside
                    link.symlink_to(Path(INNER, "now", table))
            to_disk([self.path])
            self._journal.prepare(manifest, [])
            self._show(folder)
        except OSError as error:
            raise failed(self.path, error) from error
        self.manifest = manifest
        self._journal.done(manifest)
        self._clean_after()

    def _show(self, folder: Path) -> None:
        """Let ``now`` point to a version's folder, in one step."""
        link = self._linking / "now"
        link.unlink(missing_ok=True)
        link.symlink_to(folder.relative_to(self._inner))
        link.replace(self._inner / "now")
        to_disk([self._inner])

    def _build(self, folder: Path, tables: dict[str, TableFiles]) -> list[Path]:
        """Put a version's files in place; the new files and all folders, to be brought to disk."""
        fresh: list[Path] = []
        folder.mkdir()
        for table, files in tables.items():
            top = folder / table
            top.mkdir()
            fresh.append(top)
            for name, members in (
                ("changelog", files.changelog),
                ("current", files.current),
                ("history", files.history),
            ):
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
                target = top / member
                target.write_bytes(content)
                fresh.append(target)
        return fresh
