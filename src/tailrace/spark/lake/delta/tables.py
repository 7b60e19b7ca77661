"""Tables of a lake as Delta tables, folders below the lake's own."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deltalake.exceptions import DeltaError

from tailrace.errors import LakeChanged, PipelineError, UsageError
from tailrace.spark.lake.delta.actions import actions_of
from tailrace.spark.lake.delta.log import LOG, write_version
from tailrace.spark.lake.delta.table import Table, mark_of, version_of
from tailrace.spark.lake.tables import Content, Tables
from tailrace.spark.manifest.on_disk import to_disk, within

if TYPE_CHECKING:
    from tailrace.spark.lake.tables import Step

_ENCODED: Final = re.compile("%[0-9A-Fa-f]{2}")


class DeltaTables(Tables):
    """Delta tables in the folders of a lake.

    A commit may go between those of others: it is then repeated after theirs. Raises
    `PipelineError`, and UsageError for a folder that delta-rs cannot read: it takes ``a%20b`` for
    ``a b``.
    """

    def __init__(self, path: Path) -> None:
        if found := _ENCODED.search(str(path)):
            raise UsageError(
                f"{path} has {found[0]!r} in its path, which delta-rs takes for another character: "
                "choose another folder for the lake"
            )
        self.top = path
        self._tables: dict[str, Table] = {}
        self._committed: set[Path] = set()
        """Folders of commits whose names may not be on disk."""

    def name(self, folder: str, part: str) -> str:
        """The folder of a part: the table's for its current state, else with the part's name."""
        return folder if part == "current" else f"{folder}_{part}"

    def folder(self, table: str) -> Path:
        """The table's folder; its data files are right in it."""
        return self.top / table

    def mark(self, table: str) -> str | None:
        """As `Table.mark`."""
        return self._now(table).mark

    def content(self, table: str, mark: str | None = None) -> Content | None:
        """The table's version; its files' paths, below its folder or whole; deleted rows."""
        found = self._now(table)
        now = found.mark
        if found.delta is None or now is None:
            return None
        files = found.files(mark)
        deleted = {path: vector for path, vector in files.items() if vector is not None}
        columns = {field.name: field.name for field in found.delta.schema().fields}
        return Content(mark or now, frozenset(files), deleted, columns)

    def commit(self, step: Step, batch: int, *, overrule: bool = False) -> str | None:
        """A version of the table with the step's files, columns, and the batch's number."""
        while True:
            table = self._now(step.table)
            self._committed.add(table.log)
            if table.delta is None or table.batch >= batch:
                self._committed.add(table.folder)
            if table.batch >= batch:
                return table.last_mark()
            if not (overrule or step.base is None or table.is_at(step.base)):
                raise LakeChanged(
                    f"others have written to {table.folder}: it had version "
                    f"{version_of(step.base)}, and has {table.version}"
                )
            version = table.version + 1
            actions = actions_of(step, batch, table)
            if write_version(table.folder, version, actions):
                table.took(version, batch, actions)
                break
        # The commit is made; tidying is due again after the next one.
        with suppress(PipelineError, OSError, DeltaError):
            if table.is_untidy(version):
                table.tidy()
        return mark_of(version, batch)

    def has(self, table: str, batch: int) -> bool:
        """Whether the table's log has the batch, or a later one."""
        return self._now(table).batch >= batch

    def show(self, batch: int) -> None:  # noqa: ARG002 - as others
        """Bring the commits' names to disk, all at once, before the batch is noted as done.

        Also those of tables that had taken the batch: who made that commit may have been killed.
        """
        to_disk(filter(Path.is_dir, self._committed))
        self._committed.clear()

    def check(self, table: str) -> None:
        """Raise `PipelineError` where others have made of the table what we do not write."""
        self._now(table).check()

    def _now(self, table: str) -> Table:
        """The table as it is now."""
        folder = self.folder(table)
        within(self.top, folder / LOG)
        found = self._tables.get(table)
        if found is None or not found.look():
            found = self._tables[table] = Table(folder)
        return found
