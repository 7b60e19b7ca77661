"""Tables of a lake as Iceberg tables, in a catalogue of the lake's own or one of the user's."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from tailrace.errors import LakeChanged, PipelineError
from tailrace.printable import first_line
from tailrace.spark.lake.iceberg.catalog import OwnCatalog
from tailrace.spark.lake.iceberg.commit import BATCH, check, commit
from tailrace.spark.lake.iceberg.paths import local, location
from tailrace.spark.lake.iceberg.schema import BACK, allowed, evolved
from tailrace.spark.lake.iceberg.state import Memory, marked
from tailrace.spark.lake.iceberg.tidy import AGE, AGE_MS, MOST, SNAPSHOTS
from tailrace.spark.lake.tables import Content, Tables
from tailrace.spark.manifest.on_disk import to_disk, within

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from tailrace.spark.lake.tables import Step

_PROPERTIES: Final = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
    AGE: str(AGE_MS),
    SNAPSHOTS: str(MOST),
    BATCH: "0",
}
# Which of our columns have no statistics is known (`parquet`), and no news at each commit.
logging.getLogger("pyiceberg.io.pyarrow").addFilter(
    lambda record: not record.getMessage().startswith("PyArrow statistics missing")
)
_PLACES: Final = ("write.data.path", "write.metadata.path")
"""Properties that have writers put files elsewhere."""
_TRIES: Final = 20
_PAUSE: Final = 0.05


class IcebergTables(Tables):
    """Iceberg tables; names are the catalogue's, with dots.

    Their data files are written by path, so the tables are in folders that this machine has: below
    ``top``. They are in ``namespace``, or in one of their database's name. What pyiceberg raises is
    the caller's to translate (`lake.tables.Tables`).
    """

    def __init__(self, catalog: Catalog, top: Path, namespace: str = "") -> None:
        self._catalog = catalog
        self._own = catalog if isinstance(catalog, OwnCatalog) else None
        self._namespace = namespace
        self.top = top
        self._memory: dict[str, Memory] = {}

    def name(self, folder: str, part: str) -> str:
        """Database and table; or, in a namespace that was given, a table named after both."""
        name = folder
        if self._namespace:
            name = f"{self._namespace}.{name.replace('.', '_')}"
        return name if part == "current" else f"{name}_{part}"

    def check_new(self, table: str) -> None:
        """Raise `PipelineError` where the catalogue has a table of that name, not Tailrace's."""
        if (found := self._load(table)) is not None and found.properties.get(BATCH) != "0":
            raise PipelineError(
                f"a table {table} is there already, and is not this lake's: drop or rename it, or "
                "leave the source's out with --tables"
            )

    def folder(self, table: str) -> Path:
        """The folder of the table's data files."""
        return self.top / table / "data"

    def mark(self, table: str) -> str | None:
        """The number of the table's current snapshot; empty before the first."""
        found = self._load(table)
        return None if found is None else marked(found.metadata.current_snapshot())

    def content(self, table: str, mark: str | None = None) -> Content | None:
        """The table's snapshot; its files, relative to its folder or whole; deleted rows."""
        found = self._load(table)
        if found is None:
            return None
        state = self._remembered(table, found).state(found, mark)
        now = marked(found.metadata.current_snapshot()) if mark is None else mark
        columns = {BACK.get(each.name, each.name): each.name for each in found.schema().fields}
        return Content(now, frozenset(state.files), state.deleted, columns)

    def check(self, table: str) -> None:
        """Raise `PipelineError` where others have made of the table what we do not write."""
        if (found := self._load(table)) is not None:
            check(table, found.metadata)

    def commit(self, step: Step, batch: int, *, overrule: bool = False) -> str | None:
        """A snapshot of the table with the step's files, its columns and its batch."""
        error: Exception | None = None
        for attempt in range(_TRIES):
            try:
                table = self._load(step.table) or self._create(step)
                if _batch(table) >= batch:
                    return _taken(table)
                now = marked(table.metadata.current_snapshot())
                if step.base not in {None, now} and not overrule:
                    raise LakeChanged(
                        f"others have written to {step.table}: its snapshot was {step.base}, and "
                        f"is {now}"
                    )
                return commit(table, self._remembered(step.table, table), step, batch)
            except (CommitFailedException, TableAlreadyExistsError) as failure:
                error = failure  # another writer was first: try again after its commit
                time.sleep(_PAUSE * attempt)
        raise PipelineError(
            f"table {step.table} cannot be committed to: {first_line(error) if error else None}"
        ) from error

    def settle(self) -> bool:
        """Have the lake's own catalogue publish the commits that it gathered."""
        return self._own is None or self._own.publish()

    def forget(self) -> None:
        """Have it forget them."""
        if self._own is not None:
            self._own.forget()

    def has(self, table: str, batch: int) -> bool:
        """Whether the table's properties have the batch, or a later one."""
        found = self._load(table)
        gathered = self._own is not None and table in self._own.coming
        return found is not None and not gathered and _batch(found) >= batch

    def _create(self, step: Step) -> Table:
        name = tuple(step.table.split("."))
        with contextlib.suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(name[:-1])
        return self._catalog.create_table(
            name,
            evolved(None, 0, allowed(step.schema)),
            location=location(self.top / step.table),
            properties=_PROPERTIES,
        )

    def _load(self, table: str) -> Table | None:
        try:
            found = self._catalog.load_table(tuple(table.split(".")))
        except NoSuchTableError:
            return None
        if BATCH in found.properties:
            self._check_place(table, found)
        return found

    def _check_place(self, name: str, table: Table) -> None:
        """Raises `PipelineError` where a table of ours would be written to elsewhere."""
        here, place = self.top / name, local(table.location())
        if place != here and place.resolve() != here.resolve():
            raise PipelineError(f"table {name} is at {table.location()} and not in {here}")
        for folder in ("data", "metadata"):
            within(self.top, here / folder)
        if moved := [each for each in _PLACES if each in table.properties]:
            raise PipelineError(
                f"table {name} was given the property {moved[0]}: drop it, since Tailrace writes "
                f"to {here} only"
            )

    def _remembered(self, name: str, table: Table) -> Memory:
        known = self._memory.get(name)
        if known is None:
            sync = to_disk if self._own is None else self._own.to_disk
            known = self._memory[name] = Memory(table.io, self.top / name, sync)
        return known


def _batch(table: Table) -> int:
    """The last batch that a table has taken; 0 before the first."""
    return int(table.properties.get(BATCH, "0"))


def _taken(table: Table) -> str | None:
    """The mark of the last snapshot that is ours; None if it is expired."""
    for snapshot in reversed(table.metadata.snapshots):
        if snapshot.summary is not None and BATCH in snapshot.summary.additional_properties:
            return marked(snapshot)
    return marked(None) if not table.metadata.snapshots else None
