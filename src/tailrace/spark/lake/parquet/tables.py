"""Tables of a lake as folders of Parquet files, of which each version of the lake has its own.

    lake/
      shop.orders -> _tailrace/now/shop.orders         what people read
      _tailrace/
        tables/shop.orders/current/part-….parquet      data files, which stay where they are
        tables/shop.orders/000003/current/part-….parquet -> ../../current/part-….parquet
        versions/000004/shop.orders -> ../../tables/shop.orders/000003
        now -> versions/000004                         what readers see
        now.0123456789/                                where a process makes what it moves elsewhere

A batch makes a folder of its number for each table that it changes, with links to the table's data
files, and a version, with links to the folders of all tables. Then the link ``now`` is replaced: so
readers see the batch in all tables at once. docs/design/lake.md says what readers see.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark.lake.folder import INNER, generation_of
from tailrace.spark.lake.tables import Content, Tables
from tailrace.spark.manifest.names import made_by
from tailrace.spark.manifest.on_disk import committed, to_disk, within
from tailrace.spark.parquet.file import file_schema

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from tailrace.spark.lake.tables import Step

COMMON_METADATA: Final = "_common_metadata"
"""Spark takes the schema of a folder from this file, where its data files' schemas differ."""
_KEPT_VERSIONS: Final = 2
_SPARE: Final = ".spare"
"""After a part's name: a folder of links that no version has any more. The next one is made of it,
as most of its links are the same."""


class ParquetTables(Tables):
    """A part of a table is one of the lake's: ``shop.orders.current``. No others write to it."""

    def __init__(self, path: Path) -> None:
        self.top = path
        self._inner = path / INNER
        self._versions = self._inner / "versions"
        self._tables = self._inner / "tables"
        self._generation = 0
        self._coming: dict[str, list[Path] | None] = {}
        """What `commit` made of each table, or None of one that is left out of the batch."""

    @property
    def _own(self) -> Path:
        """Where this process makes folders and links before it moves them to their places."""
        return self._inner / f"now.{self._generation:010}"

    def open(self, generation: int, staging: Path) -> None:
        """Move the folders of other processes away: then they have nothing to move anywhere, and
        change nothing that this process makes.
        """
        for left in self._inner.glob("now.*"):
            if generation_of(left) < generation:
                left.replace(staging / left.name)
                _remove(staging / left.name)  # NFS renames what is open, wherever that is
        self._generation = generation
        self._own.mkdir()
        for folder in (self._versions, self._tables):
            folder.mkdir(exist_ok=True)

    def close(self) -> None:
        """Remove that folder of this process's."""
        if self._generation:
            shutil.rmtree(self._own, ignore_errors=True)

    def name(self, folder: str, part: str) -> str:
        """The part's name after that of the table, which has one dot only."""
        return f"{folder}.{part}"

    def check_new(self, table: str) -> None:
        """Raise `PipelineError` where something else is in the place of the table's link."""
        self._check_link(_split(table)[0])

    def folder(self, table: str) -> Path:
        """The folder of the table's data files, those of older versions included."""
        name, part = _split(table)
        return within(self.top, self._tables / name / part)

    def mark(self, table: str) -> str | None:  # noqa: ARG002 - others have
        """None: there are no commits but ours."""
        return None

    def content(self, table: str, mark: str | None = None) -> Content | None:  # noqa: ARG002 - as above
        """The data files in the table's folder, those of older versions included."""
        self._check_link(_split(table)[0])
        try:
            with os.scandir(self.folder(table)) as entries:
                files = {each.name for each in entries if each.is_file(follow_symlinks=False)}
        except FileNotFoundError:
            return None
        return Content("", frozenset(files), {})

    def _check_link(self, name: str) -> None:
        shown = self.top / name
        if not shown.is_symlink() and shown.exists():
            raise PipelineError(f"{shown} is in the way: move it elsewhere")

    def commit(self, step: Step, batch: int, *, overrule: bool = False) -> str | None:  # noqa: ARG002 - as above
        """Make the table's folder, which `show` puts into the version: each step its part of it.

        A table one of whose steps fails is left out of the batch, with all of them. Raises
        `PipelineError` where readers see the batch already, and the table was left out.
        """
        name, part = _split(step.table)
        shown = committed(self._inner)
        known = _number(self._version(shown) / name)
        if batch <= shown:
            if known < batch:
                raise PipelineError(f"{self.top / name} was left out of batch {batch}")
            return None
        self._check_link(name)
        made = self._coming.get(name, [])
        if made is not None:
            self._coming[name] = None
            table = within(self.top, self._tables / name)
            place, draft = table / f"{batch:06}", self._own / name
            if made:
                place.replace(draft)
            else:
                table.mkdir(exist_ok=True)
                self._take_away(place)
                _remove(draft)
                draft.mkdir()
            fresh = self._make(draft / part, step, table, known)
            draft.replace(place)
            self._coming[name] = [*made, table, place, *(place / part / each for each in fresh)]
        return None

    def _make(self, folder: Path, step: Step, table: Path, known: int) -> list[str]:
        """Make a part's folder; gives what of it is to be brought to disk."""
        data, part, files = self.folder(step.table), folder.name, {*step.adds, *step.stays}
        for name in files:
            if (data / name).is_symlink() or not (data / name).is_file():
                raise PipelineError(f"its file {data / name} is gone: bring it back")
        if not files:
            return []
        with suppress(FileNotFoundError):
            (table / f"{part}{_SPARE}").replace(folder)
        for name in files - _good_links(folder, files):
            (folder / name).symlink_to(f"../../{part}/{name}")
        if not (step.differ or (table / f"{known:06}" / part / COMMON_METADATA).exists()):
            return [""]
        pq.write_metadata(file_schema(step.schema), folder / COMMON_METADATA)
        return ["", COMMON_METADATA]

    def _take_away(self, path: Path) -> None:
        """Remove what is in a place, as only a process that still has its own folder can."""
        gone = self._own / "gone"
        with suppress(FileNotFoundError):
            path.replace(gone)
        _remove(gone)

    def check_shown(self, version: int, prepared: int) -> None:
        """Raise where ``now`` does not lead to a version that the journal knows as the last one."""
        shown = committed(self._inner)
        if shown != version and (shown != prepared or not prepared):
            raise PipelineError(
                f"{self._inner / 'now'} leads to version {shown}, and the journal has version "
                f"{version}: bring back what was removed, or create a new lake"
            )

    def show(self, batch: int) -> None:
        """Link the tables' folders in the batch's version, and let ``now`` lead to it."""
        shown = committed(self._inner)
        coming, self._coming = self._coming, {}
        if batch <= shown:
            return
        made = {name: paths for name, paths in coming.items() if paths is not None}
        version, draft = self._versions / f"{batch:06}", self._own / "version"
        _remove(draft)
        draft.mkdir()
        for name, number in (self._tables_of(shown) | dict.fromkeys(made, batch)).items():
            (draft / name).symlink_to(f"../../tables/{name}/{number:06}")
            if not os.path.lexists(self.top / name):
                (self.top / name).symlink_to(f"{INNER}/now/{name}")
        self._take_away(version)
        draft.replace(version)
        fresh = [self.top, self._inner, self._versions, self._tables, version]
        to_disk({*fresh, *(path for paths in made.values() for path in paths)})
        link = self._own / "now"
        link.unlink(missing_ok=True)
        link.symlink_to(f"versions/{batch:06}")
        link.replace(self._inner / "now")
        to_disk([self._inner])

    def _version(self, number: int) -> Path:
        return within(self.top, self._versions / f"{number:06}")

    def _tables_of(self, version: int) -> dict[str, int]:
        """The names of a version's tables, and the numbers of their folders; none of version 0."""
        links = self._version(version).iterdir() if version else ()
        return {link.name: _number(link) for link in links}

    def clean(self, batch: int) -> None:
        """Remove the versions before the last two, and what no other has of the tables in them."""
        there = sorted(
            (int(name), path)
            for path in self._versions.iterdir()
            if (name := path.name.partition(".")[0]).isdecimal() and int(name) <= batch
        )
        kept = sorted({number for number, _ in there})[-_KEPT_VERSIONS:]
        for number, path in there:
            if number < kept[0]:
                with suppress(OSError, PipelineError):  # one that is damaged: the table's next does
                    self._clean_tables(number, kept)
                _remove(path)

    def _clean_tables(self, version: int, kept: Collection[int]) -> None:
        """Remove what a version has of tables, and those that are kept have not."""
        keeping = [self._tables_of(each) for each in kept]
        for name, number in self._tables_of(version).items():
            numbers = {each[name] for each in keeping if name in each}
            if numbers and number not in numbers:
                with suppress(OSError, PipelineError):
                    _clean_table(within(self.top, self._tables / name), numbers)


def _split(table: str) -> tuple[str, str]:
    """The names of the source's table and of the part."""
    name, _, part = table.rpartition(".")
    return name, part


def _number(link: Path) -> int:
    """The number of the folder to which a version's link to a table leads; 0 without a link."""
    try:
        target, head = str(link.readlink()), f"../../tables/{link.name}/"
        number = int(target.removeprefix(head))
        if target == f"{head}{number:06}":
            return number
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        pass
    raise PipelineError(f"{link} leads to no folder of a table: bring back what was there")


def _good_links(folder: Path, files: Collection[str]) -> set[str]:
    """Make a part's folder of a spare one, if there is one: the files to which it has links."""
    if not _is_folder(folder):
        folder.unlink(missing_ok=True)
        folder.mkdir()
    there = set()
    for each in folder.iterdir():
        with suppress(OSError):
            if each.name in files and str(each.readlink()) == f"../../{folder.name}/{each.name}":
                there.add(each.name)
                continue
        _remove(each)
    return there


def _clean_table(table: Path, numbers: Collection[int]) -> None:
    """Remove a table's folders of batches before the last one of ``numbers``, and its data files,
    but for what the folders of these have. Later files are of a batch that is still to be done.
    """
    kept = [table / f"{number:06}" for number in numbers]
    if not all(map(_is_folder, kept)):  # it is not known what they had
        return
    for folder in filter(_is_folder, sorted(table.iterdir())):  # numbers first: no link dangles
        name = folder.name
        if name.isdecimal():
            if int(name) < max(numbers) and folder not in kept:
                for part in folder.iterdir():
                    spare = table / f"{part.name}{_SPARE}"
                    _remove(part) if os.path.lexists(spare) else part.replace(spare)
                folder.rmdir()
        elif folder.suffix != _SPARE:
            files = {each.name for at in kept for each in at.glob(f"{name}/*")}
            for file in folder.iterdir():
                made = made_by(file.name)
                if made is not None and made[0] <= max(numbers) and file.name not in files:
                    file.unlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _remove(path: Path) -> None:
    """Remove a folder, a file or a link, if it is there."""
    if _is_folder(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
