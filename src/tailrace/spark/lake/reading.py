"""A lake for those who only read it, while another process writes to it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.errors import PipelineError
from tailrace.spark.lake.folder import INNER, check_layout, folder_of
from tailrace.spark.lake.iceberg.paths import data_file
from tailrace.spark.lake.lake import open_store
from tailrace.spark.manifest.journal import FOLDER, Journal
from tailrace.spark.manifest.on_disk import LocalObjects, committed, within
from tailrace.spark.parquet.deleted import NO_ROWS, without
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.record.types import SHARD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from tailrace.spark.lake.tables import Content, Tables
    from tailrace.spark.manifest.manifest import Manifest, TableState
    from tailrace.spark.parquet.deleted import DeletedRows

_TRIES: Final = 20


@dataclass(frozen=True)
class LakeFile:
    """A data file of a table, and which of its rows are deleted."""

    path: str
    deleted: DeletedRows | None = None

    def is_there(self) -> bool:
        """Whether it can still be read: a table's maintenance may have removed it."""
        try:
            if self.deleted is not None:
                self.deleted.read()
        except PipelineError:
            return False
        return Path(self.path).is_file()

    def rows(self, columns: Sequence[str], shard: str | None = None) -> Iterator[pa.Table]:
        """The live rows, a row group at a time; of a ``shard`` alone where one is given.

        Raises `PipelineError`, FileNotFoundError.
        """
        if not Path(self.path).is_file():
            raise FileNotFoundError(self.path)
        gone = NO_ROWS if self.deleted is None else self.deleted.read()
        first = 0
        for group in row_groups(self.path, columns if shard is None else [*columns, SHARD]):
            rows = without(group, first, gone)
            first += group.num_rows
            if shard is not None:
                rows = rows.filter(pc.equal(rows.column(SHARD).cast(pa.string()), shard))
            yield rows


@dataclass(frozen=True)
class LakeView:
    """A committed version of a lake: what its manifest says, and where data files are.

    ``lake`` is what the user calls it, ``path`` the folder that holds ``_tailrace``. Files may go
    away while the lake is written to: then they are not found, and it is to be opened again.
    """

    lake: str
    path: Path
    manifest: Manifest

    @staticmethod
    def is_there(lake: str | Path) -> bool:
        """Whether anything was committed to the lake yet."""
        return bool(_committed(lake, folder_of(lake)).version)

    @classmethod
    def open(cls, lake: str | Path) -> LakeView:
        """The version that is committed now; no lock is taken. Raises `PipelineError`."""
        path = folder_of(lake)
        manifest = _committed(lake, path)
        if not manifest.version:
            raise PipelineError(
                f"{lake}: there is no lake here, or it has no batch yet: give the folder that you"
                " gave to tailrace mirror --into"
            )
        return cls(str(lake), path, manifest)

    def current(self, table: TableState) -> list[LakeFile]:
        """The files of a table's current state, as its format's own readers find them.

        Raises `PipelineError` where the table cannot be read.
        """
        if table.current is None or table.current.refused is not None:
            return []
        part, tables = table.parts["current"], self._tables
        if self.manifest.options.lists_files:
            return list(self._listed(part, [file.name for file in table.current.data]).values())
        now = tables.content(part)
        return [] if now is None else list(_files(tables.folder(part), now).values())

    def kept(
        self, table: TableState, files: Collection[str], mark: str | None
    ) -> dict[str, LakeFile] | None:
        """Files of a table's current state, in this or an earlier version, by their names.

        ``mark`` is that of Delta's or Iceberg's table in that version; None if it is no longer
        known which rows were deleted. A file that is gone since is among them, and cannot be read.
        """
        if not files:
            return {}
        tables, part = self._tables, table.parts["current"]
        if self.manifest.options.lists_files:
            return self._listed(part, files)
        try:
            then = tables.content(part, mark)
        except PipelineError:
            return None
        if then is None or then.files != frozenset(files):
            return None
        return _files(tables.folder(part), then)

    def _listed(self, part: str, names: Iterable[str]) -> dict[str, LakeFile]:
        """The files that the manifest lists, in a folder to which others may be able to write."""
        folder = self._tables.folder(part)
        return {name: LakeFile(str(within(self.path, folder / name))) for name in names}

    @property
    def _tables(self) -> Tables:
        return open_store(self.lake, self.manifest.options.format).tables


def _files(folder: Path, now: Content) -> dict[str, LakeFile]:
    """The data files of a table in a folder, by name."""
    return {
        name: LakeFile(data_file(folder, name), now.deleted.get(name)) for name in sorted(now.files)
    }


def _committed(lake: str | Path, path: Path) -> Manifest:
    """What is committed to a lake, which may be written to: it is read again where something was
    removed meanwhile. An empty manifest before the first batch. Raises `PipelineError`.
    """
    inner = path / INNER
    for left in reversed(range(_TRIES)):
        seen = _stamp(inner)
        try:
            journal = Journal(LocalObjects(within(path, inner)))
            within(inner, inner / FOLDER)
            check_layout(path, inner)
            journal.read(committed(inner) or None)
        except (PipelineError, OSError) as error:
            if left and seen != _stamp(inner):
                continue
            if isinstance(error, OSError):
                raise PipelineError(f"the lake {lake} cannot be read: {error}") from error
            raise
        return journal.manifest
    raise AssertionError


def _stamp(inner: Path) -> tuple[str, frozenset[str]]:
    """What is not the same once another batch is committed."""
    shown, names = "", frozenset[str]()
    with suppress(OSError):
        names = frozenset(each.name for each in (inner / FOLDER).iterdir())
    with suppress(OSError):
        shown = str((inner / "now").readlink())
    return shown, names
