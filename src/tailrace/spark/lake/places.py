"""Where a batch's files go: the lake's table that has each part of a table, and its folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tailrace.spark.manifest.making import ANY_TABLE, ChangelogFolders
from tailrace.spark.manifest.names import Folders, folded
from tailrace.spark.parquet.shapes import merged, plain_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from tailrace.spark.lake.tables import Tables
    from tailrace.spark.manifest.making import Making
    from tailrace.spark.manifest.manifest import Manifest, TableState
    from tailrace.spark.parquet.file import DataFolder
    from tailrace.table_name import TableName


@dataclass
class Places:
    """The tables and folders of a batch, the same at every call, and the histories' columns."""

    tables: Tables
    before: Manifest
    making: Making
    shapes: dict[str, pa.Schema] = field(default_factory=dict)
    """The columns of histories, by table, with those of the files to come."""
    folders: set[Path] = field(default_factory=set)
    """Those that take files of jobs."""
    _names: dict[tuple[TableName, str], str] = field(default_factory=dict)
    _noted: set[Path] = field(default_factory=set)

    @cached_property
    def own(self) -> Folders:
        """The folder names of tables."""
        return Folders(self.before.tables.values())

    @cached_property
    def _taken(self) -> set[str]:
        tables = self.before.tables.values()
        return {folded(name) for state in tables for name in state.parts.values()}

    def name(self, table: TableName, part: str) -> str:
        """The lake's table that has a part; a new one's name is one that no other has."""
        found = self._names.get((table, part))
        if found is None:
            known = (each.parts.get(part) for each in self._states(table))
            found = next((each for each in known if each is not None), None)
        if found is None:
            states = self._states(table)
            own = next((each.folder for each in states), None) or self.own.of(*table)
            found = self.tables.name(own, part)
            while folded(found) in self._taken:
                found += "_"
            self.tables.check_new(found)
            self._taken.add(folded(found))
        self._names[table, part] = found
        return found

    def folder(self, table: TableName, part: str, columns: pa.Schema) -> DataFolder:
        """Where a job puts rows of a table that has these columns. Raises `PipelineError`."""
        found = self.making.folder(self.tables.folder(self.name(table, part)))
        self.folders.add(found.path)
        return replace(found, names=self.names(table, part, columns))

    def names(self, table: TableName, part: str, columns: pa.Schema) -> Mapping[str, str]:
        """What a part's files call these columns of the table, where not the same.

        A history's versions have the columns that the table had while they were valid, and a name
        that was reused (DROP and CREATE, or ALTER to another type) stands for two types. As in a
        changelog, values stay under the name while its type is wide enough; otherwise they go to a
        column whose name has the type, ``price__string`` (`tailrace.spark.parquet.shapes`). The
        same columns always get the same names.
        """
        if part != "history":
            return {}
        name = self.name(table, part)
        known = (each.shapes.get(part) for each in self._states(table))
        shape = self.shapes.get(name) or next((each for each in known if each is not None), None)
        self.shapes[name], names = merged(shape, plain_schema(columns))
        return names

    def changelogs(self, staging: Path | None) -> ChangelogFolders:
        """Where tasks put changelog files; in staging, if there is to be no changelog."""
        if staging is not None:
            return ChangelogFolders(replace(self.making, top=staging))
        pattern = self.tables.folder(self.tables.name(ANY_TABLE, "changelog"))
        return ChangelogFolders(self.making, str(pattern.relative_to(self.tables.top)))

    def note(self) -> None:
        """Note the folders that are to take files; before these are written."""
        if fresh := self.folders - self._noted:
            self.making.note(sorted(fresh))
            self._noted |= fresh

    def _states(self, table: TableName) -> Iterator[TableState]:
        """What the lake has of a table, of all its sources."""
        for key in (str(table), *(f"{source}/{table}" for source in self.before.sources)):
            if (state := self.before.tables.get(key)) is not None and state.full_name == table:
                yield state
