"""Notes of where the files of batches in the making are: `_tailrace/making.*.json`, small ones.

Whoever puts the first file of a batch into a folder notes the folder before. Once the batch is in
the lake the notes go; of one that never will be, its files go too.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from tailrace.spark.manifest.names import folder_name, made_by
from tailrace.spark.manifest.on_disk import within, write_file
from tailrace.spark.parquet.file import DataFolder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from tailrace.table_name import TableName

ANY_TABLE: Final = "<database>.<table>"
"""A table's own name in the folder that `Making.changelogs` has."""


@dataclass(frozen=True)
class Making:
    """A batch in the making: its number, its process's generation, and the lake in folder ``top``.

    ``inner`` is the lake's own folder. ``plain`` is as in `DataFolder`. ``changelogs`` is, below
    ``top``, the folder of the changelog of a table whose own name is `ANY_TABLE`. It travels with
    jobs.
    """

    top: Path
    inner: Path
    batch: int
    generation: int
    plain: bool
    changelogs: str = ANY_TABLE

    def folder(self, path: Path) -> DataFolder:
        """A table's folder. Raises `PipelineError` for one outside the lake."""
        return DataFolder(within(self.top, path), self.batch, self.generation, self.plain)

    def changelog(self, table: TableName) -> DataFolder:
        """The folder of a table's changelog. Raises `PipelineError` for one outside the lake."""
        database, name = folder_name(*table).split(".")
        path = self.changelogs.replace("<database>", database).replace("<table>", name)
        return self.folder(self.top / path)

    def note(self, folders: Iterable[Path]) -> None:
        """Note that files of the batch go into folders."""
        places = [str(each.relative_to(self.top)) for each in folders]
        content = {"version": self.batch, "folders": places}
        name = f"making.{self.generation}.{token_hex(6)}.json"
        write_file(self.inner / name, [json.dumps(content)])

    def notes(self) -> list[Path]:
        """The notes of this process and of those before it."""
        ours = self.generation
        found = self.inner.glob("making.*.json")  # earlier builds' names have no generation
        return [each for each in found if all(int(n) <= ours for n in each.name.split(".")[1:-2])]

    def sweep(self, folders: Iterable[Path], kept: Collection[Path] = ()) -> None:
        """Remove the batch's files from folders, but for some; no file of a later process.

        A folder that cannot be read, or written to, stays as it is.
        """
        for folder in folders:
            with suppress(OSError):
                for path in folder.iterdir():
                    batch, generation = made_by(path.name) or (0, None)
                    ours = generation is not None and generation <= self.generation
                    if ours and batch == self.batch and path not in kept:
                        path.unlink()
                folder.rmdir()  # if it is empty
                folder.parent.rmdir()
