"""Which catalogue a lake's Iceberg tables are in, and in which folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.update import (
    _apply_table_update,
    _TableMetadataUpdateContext,
    _update_table_metadata_log,
)
from pyiceberg.utils.config import Config
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from tailrace.errors import PipelineError, UsageError
from tailrace.printable import first_line
from tailrace.spark.lake.iceberg.paths import local, location
from tailrace.spark.manifest.on_disk import OWN_CATALOG, lake_path, to_disk
from tailrace.storage.local import missing_folders

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

NAME: Final = "lake"
"""What a lake's own catalogue is called; a reader has to give that."""
_TABLE: Final = "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
_PLACE: Final = f"SELECT metadata_location FROM iceberg_tables {_TABLE}"  # noqa: S608 - ours alone
_MOVE: Final = (
    "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? "  # noqa: S608
    f"{_TABLE} AND metadata_location = ?"
)


@dataclass(frozen=True)
class Place:
    """A catalogue; the folder below which its tables are; and where the lake's own things are.

    ``namespace`` is that of all tables, or empty: each is in one of its database's name then.
    ``made`` are the files and folders that were made just now for a lake's own catalogue.
    """

    catalog: Catalog
    top: Path
    folder: Path
    namespace: str = ""
    made: tuple[Path, ...] = ()


def place(into: str | Path) -> Place:
    """The place that ``into`` names: CATALOG.SCHEMA, or a folder with a catalogue of its own.

    CATALOG is one of pyiceberg's configuration (``.pyiceberg.yaml``, ``PYICEBERG_CATALOG__…``).
    Raises UsageError, and `PipelineError` where the catalogue cannot be had.
    """
    if (known := named(into)) is not None:
        return known
    path = lake_path(into).absolute()
    location(path)
    made = tuple(missing_folders(path / OWN_CATALOG))
    try:
        if path.is_dir() and not (path / "_tailrace").exists() and any(path.iterdir()):
            raise PipelineError(
                f"{path} is not empty and no lake: give a new or empty folder for --into"
            )
        (path / "_tailrace").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineError(f"the lake {path} cannot be written: {error}") from error
    catalog = own_catalog(path)
    catalog.gathers = True
    return Place(catalog, path, path, made=made)


def named(into: str | Path) -> Place | None:
    """The place that CATALOG.SCHEMA names; None for anything else.

    Raises UsageError, and `PipelineError` where the catalogue cannot be had.
    """
    name, _, namespace = str(into).partition(".")
    if not namespace or "/" in str(into) or name not in Config().get_known_catalogs():
        return None
    try:
        catalog = load_catalog(name)
    except Exception as error:  # what a catalogue raises depends on its kind
        raise PipelineError(f"the catalogue {name} cannot be had: {first_line(error)}") from error
    warehouse = urlsplit(catalog.properties.get("warehouse", ""))
    if warehouse.scheme not in {"", "file"} or not warehouse.path:
        raise UsageError(
            f"the catalogue {name} has its tables in {warehouse.geturl() or 'no known place'}: a "
            "mirror's tasks write data files by path, so give a catalogue whose warehouse is a "
            "folder"
        )
    top = local(catalog.properties["warehouse"])
    return Place(catalog, top, top / f"_tailrace.{namespace}", namespace)


def own_catalog(path: Path) -> OwnCatalog:
    """The catalogue of a lake's own, for readers too: its tables are ``database.table``.

    Raises `PipelineError` where it cannot be read.
    """
    where = lake_path(path).absolute()
    uri = URL.create("sqlite", database=str(where / OWN_CATALOG)).render_as_string()
    try:
        return OwnCatalog(NAME, uri=uri, warehouse=location(where))
    except SQLAlchemyError as error:
        raise PipelineError(
            f"{where / OWN_CATALOG} cannot be read as the lake's catalogue: {first_line(error)}"
        ) from error


class OwnCatalog(SqlCatalog):
    """pyiceberg's, which reads each metadata file once, and copies none: they never change.

    A batch asks for a table some times, and SQLAlchemy's objects of rows cost more than one value.
    With ``gathers`` commits are in the database once they are published, all in one transaction:
    SQLite waits for the disk several times in each.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self.gathers = False
        self._tables: dict[str, Table] = {}
        self.coming: dict[str, tuple[str, Table]] = {}
        """The tables of gathered commits, and where their metadata was before."""
        self._written: set[Path] = set()

    def load_table(self, identifier: str | Identifier) -> Table:
        name = self.identifier_to_tuple(identifier)
        called = ".".join(name)
        if called in self.coming:
            return self._copy(self.coming[called][1])
        known = self._tables.get(called)
        if known is not None:
            with self.engine.connect() as connection:
                place = connection.exec_driver_sql(_PLACE, self._row(name)).scalar()
            if place == known.metadata_location:
                return self._copy(known)
        found = self._tables[called] = super().load_table(identifier)
        return found

    def _row(self, name: Identifier) -> tuple[str, str, str]:
        return self.name, ".".join(name[:-1]), name[-1]

    def _copy(self, table: Table) -> Table:
        return Table(table.name(), table.metadata, table.metadata_location, table.io, self)

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is None:
            return super()._update_and_stage_table(None, table_identifier, requirements, updates)
        metadata, place = current_table.metadata, current_table.metadata_location
        for requirement in requirements:
            requirement.validate(metadata)
        context = _TableMetadataUpdateContext()
        for update in updates:
            metadata = _apply_table_update(update, metadata, context)
        metadata = _update_table_metadata_log(
            metadata, place, current_table.metadata.last_updated_ms
        )
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location(
            self._parse_metadata_version(place) + 1
        )
        return StagedTable(table_identifier, metadata, location, current_table.io, self)

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        """On disk before the database says that it is the table's: this is so at once."""
        SqlCatalog._write_metadata(metadata, io, metadata_path)  # noqa: SLF001 - what it extends
        path = local(metadata_path)
        to_disk([path, path.parent])

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        if not self.gathers:
            return super().commit_table(table, requirements, updates)
        name = ".".join(table.name())
        try:
            known = self.load_table(table.name())
        except NoSuchTableError as error:
            raise CommitFailedException(f"{name} was dropped") from error
        staged = self._update_and_stage_table(known, table.name(), requirements, updates)
        place = staged.metadata_location
        SqlCatalog._write_metadata(staged.metadata, staged.io, place)  # noqa: SLF001 - as above
        self.to_disk([local(place), local(place).parent])
        before, _ = self.coming.get(name, (known.metadata_location, known))
        self.coming[name] = before, staged
        return CommitTableResponse(metadata=staged.metadata, **{"metadata-location": place})

    def to_disk(self, paths: Iterable[Path]) -> None:
        """Bring files of a commit and their folders to disk before it is published."""
        self._written.update(paths)

    def publish(self) -> bool:
        """Make the gathered commits the tables' last ones. If others have written to one of the
        tables meanwhile, it makes none so, but does `forget`, and returns False.

        Raises `PipelineError` where the catalogue cannot be written.
        """
        coming, self.coming = self.coming, {}
        written, self._written = self._written, set()
        to_disk(each for each in written if each.exists())  # a try that failed has removed its own
        moves = [
            (table.metadata_location, before, *self._row(table.name()), before)
            for before, table in coming.values()
        ]
        try:
            with self.engine.connect() as connection:
                if done := all(connection.exec_driver_sql(_MOVE, each).rowcount for each in moves):
                    connection.commit()
        except SQLAlchemyError as error:
            raise PipelineError(
                f"the catalogue {self.engine.url.database} cannot be written: {first_line(error)}"
            ) from error
        if done:
            self._tables |= {name: self._copy(table) for name, (_, table) in coming.items()}
        else:
            self._written = written
            self.forget()
        return done

    def forget(self) -> None:
        """Forget the gathered commits, and remove their files."""
        for path in self._written:
            if path.is_file():
                path.unlink()
        self._written.clear()
        self.coming.clear()
