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

import json
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.spark.lake.folder import INNER, generation_of
from tailrace.spark.lake.steps import Content
from tailrace.spark.lake.tables import Tables
from tailrace.spark.manifest.damage import reading_file
from tailrace.spark.manifest.json_file import read_json
from tailrace.spark.manifest.names import check_plain
from tailrace.spark.manifest.on_disk import to_disk, write_new_file
from tailrace.spark.manifest.paths import committed, within
from tailrace.spark.parquet.file import file_schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tailrace.spark.lake.steps import Step

COMMON_METADATA: Final = "_common_metadata"
"""Spark takes the schema of a folder from this file, where its data files' schemas differ."""
_KEPT_VERSIONS: Final = 2
_NOTED: Final = ".gone.json"

_Gone = tuple[str, str, str]
"""A table, and a data file by its part and name, or the folder of a batch and no name."""


class ParquetTables(Tables):
    """A part of a table is one of the lake's: ``shop.orders.current``. No others write to it."""

    def __init__(self, path: Path) -> None:
        self.top = path
        self._inner = path / INNER
        self._versions = self._inner / "versions"
        self._tables = self._inner / "tables"
        self._linking: Path | None = None
        self._coming: dict[str, dict[str, Step]] = {}

    def open(self, generation: int, staging: Path) -> None:
        """Move the folders away in which other processes make the next link ``now``: then they have
        none to replace it with.
        """
        for left in self._inner.glob("now.*"):
            if generation_of(left) < generation:
                left.replace(staging / left.name)
                shutil.rmtree(staging / left.name)  # NFS renames what is open, wherever that is
        self._linking = self._inner / f"now.{generation:010}"
        self._linking.mkdir()
        for folder in (self._versions, self._tables):
            folder.mkdir(exist_ok=True)

    def close(self) -> None:
        """Remove that folder of this process's."""
        if self._linking is not None:
            shutil.rmtree(self._linking, ignore_errors=True)

    def name(self, folder: str, part: str) -> str:
        """The part's name after that of the table, which has one dot only."""
        self._check_link(folder)
        return f"{folder}.{part}"

    def changelogs(self) -> tuple[str, str, str]:
        """Folders in that of the table."""
        return f"{self._tables}/", ".", "/changelog"

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
        """Have a step done by `show`: a table that is not the batch's then stays as it was.

        Raises `PipelineError` if readers see the batch already, and not in this table.
        """
        name, part = _split(step.table)
        self._check_link(name)
        shown = committed(self._inner)
        if batch > shown:
            self._coming.setdefault(name, {})[part] = step
        elif int(self._tables_of(shown).get(name, "0")) < batch:
            raise PipelineError(
                f"{self.top / name} was left out of batch {batch}, which is in the lake: recreate"
                " the lake"
            )
        return None

    def check_shown(self, version: int, prepared: int) -> None:
        """Raise where ``now`` does not lead to a version that the journal knows as the last one."""
        shown = committed(self._inner)
        if shown != version and (shown != prepared or not prepared):
            raise PipelineError(
                f"{self._inner / 'now'} leads to version {shown}, and the journal has version "
                f"{version}: bring back what was removed, or create a new lake"
            )

    def show(self, batch: int) -> None:
        """Make the batch's version, and let ``now`` lead to it, in one step.

        What that version has no more is noted first: `clean` removes it.
        """
        shown = committed(self._inner)
        coming, self._coming = self._coming, {}
        if batch <= shown or self._linking is None:
            return
        number, before = f"{batch:06}", self._tables_of(shown)
        version = within(self.top, self._versions / number)
        version.mkdir(exist_ok=True)
        fresh = [self.top, self._inner, self._versions, self._tables, version]
        gone: list[_Gone] = []
        for name, steps in coming.items():
            known = None
            table = within(self.top, self._tables / name)
            if name in before:
                known = table / before[name]
                gone += [(name, *each) for each in _gone(known, steps)]
            fresh += [table, *_make(table / number, steps, known, self._linking)]
        for name, of_table in (before | dict.fromkeys(coming, number)).items():
            _link(f"../../tables/{name}/{of_table}", version / name)
            if not os.path.lexists(self.top / name):
                _link(f"{INNER}/now/{name}", self.top / name)
        note = self._linking / _NOTED
        write_new_file(note, [json.dumps(gone)])
        note.replace(self._versions / f"{number}{_NOTED}")
        to_disk(fresh)
        link = self._linking / "now"
        link.unlink(missing_ok=True)
        link.symlink_to(f"versions/{number}")
        link.replace(self._inner / "now")
        to_disk([self._inner])

    def _tables_of(self, version: int) -> dict[str, str]:
        """The names of a version's tables, and of their folders; none of version 0."""
        found: dict[str, str] = {}
        folder = within(self.top, self._versions / f"{version:06}")
        for link in folder.iterdir() if version else ():
            name, number = link.readlink().parts[-2:]
            if not number.isdigit() or name != link.name:
                raise PipelineError(f"{link} leads to no folder of a table")
            found[name] = number
        return found

    def clean(self, batch: int) -> None:
        """Remove the versions before the last two, and what was noted to be gone by then."""
        there = {path.name: path for path in self._versions.iterdir()}
        known = sorted(int(name) for name in there if name.isdigit() and int(name) <= batch)
        kept = known[-_KEPT_VERSIONS:]
        for name, path in sorted(there.items()) if kept else ():
            number, noted, _ = name.partition(_NOTED)
            if not number.isdigit() or int(number) > kept[0]:
                continue
            if noted:
                with reading_file(path, "what a version has no more"):
                    gone = [self._gone_path(*each) for each in read_json(path)]
                for each in gone:
                    each.unlink() if each.is_file() else shutil.rmtree(each, ignore_errors=True)
                path.unlink()
            elif name != f"{kept[0]:06}":
                shutil.rmtree(path, ignore_errors=True)

    def _gone_path(self, table: str, folder: str, name: str) -> Path:
        place = self._tables / check_plain(table, "a table") / check_plain(folder, "a folder")
        if not name and folder.isdigit():
            return within(self.top, place)
        return within(self.top, place) / check_plain(name, "a file")


def _split(table: str) -> tuple[str, str]:
    """The names of the source's table and of the part."""
    name, _, part = table.rpartition(".")
    return name, part


def _link(target: str, link: Path) -> None:
    """Make a link, in the place of another one."""
    try:
        link.symlink_to(target)
    except FileExistsError:
        if str(link.readlink()) != target:
            link.unlink()
            link.symlink_to(target)


def _make(
    folder: Path, steps: Mapping[str, Step], before: Path | None, linking: Path
) -> list[Path]:
    """Make a table's folder, for the one ``before``; gives what is to be brought to disk."""
    folder.mkdir(exist_ok=True)
    found = [folder]
    for part, step in steps.items():
        if not (files := {*step.adds, *step.stays}):
            continue
        inner = folder / part
        inner.mkdir(exist_ok=True)
        found.append(inner)
        for file in files:
            _link(f"../../{part}/{file}", inner / file)
        if step.differ or (before is not None and (before / part / COMMON_METADATA).exists()):
            draft = linking / COMMON_METADATA
            pq.write_metadata(file_schema(step.schema), draft)
            found.append(draft.replace(inner / COMMON_METADATA))
    return found


def _gone(before: Path, steps: Mapping[str, Step]) -> list[tuple[str, str]]:
    """What is gone once a table's steps are done: data files, and its folder."""
    found = [(before.name, "")]
    for part, step in steps.items():
        with suppress(FileNotFoundError):
            known = {each.name for each in (before / part).iterdir()} - {COMMON_METADATA}
            found += [(part, each) for each in sorted(known.difference(step.adds, step.stays))]
    return found
