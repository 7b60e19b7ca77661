"""A lake of tables (Delta, Iceberg): each batch goes into all of them exactly once.

    lake/
      shop.orders/ …                       the tables, as their format has them
      _tailrace/
        now -> batches/000004              the last batch that all tables have
        batches/000005/manifest.json       the next, prepared: what it does and what is known then
        batches/000005/steps.json
        making.json                        files that were moved into tables for a batch to be
        staging/  sources/  lock           as in every lake

Files go into the tables' folders first, where no one sees them. Then the batch is *prepared*: a
folder with all that it does, renamed into place. From there it will be done, by this process or by
the next one: each table takes its part in a commit of its own that holds the batch's number too,
and a table that has the number already is passed over. Then ``now`` is replaced.
docs/design/formats.md says what readers see.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from json import JSONEncoder
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import LakeChanged, PipelineError
from tailrace.spark.lake.damage import Guarded, reading_file
from tailrace.spark.lake.files import make_plain, renamed
from tailrace.spark.lake.folder import LakeFolder, failed
from tailrace.spark.lake.json_file import read_json
from tailrace.spark.lake.manifest import Manifest, check_format
from tailrace.spark.lake.names import version_of
from tailrace.spark.lake.on_disk import to_disk, write_file
from tailrace.spark.lake.paths import within
from tailrace.spark.lake.reclaim import altered, marked, reclaim
from tailrace.spark.lake.steps import hidden_of, read_steps, write_steps
from tailrace.spark.lake.table_batch import plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.spark.lake.assemble import Made
    from tailrace.spark.lake.manifest import DataFile
    from tailrace.spark.lake.steps import Step, Tables
    from tailrace.spark.lake.table_batch import Move

_KEPT: Final = 2
"""Batches whose folders stay."""
_TRIES: Final = 3
"""How often tables are made ours again that others go on to write to."""


class TableStore(LakeFolder):
    """A lake of tables, as those who write batches see it."""

    def __init__(
        self, path: Path, name: str, tables: Tables, *, label: str, made: Sequence[Path] = ()
    ) -> None:
        super().__init__(path, made=made)
        self._format = name
        self._tables = Guarded(tables)
        self.label = label

    def _recover(self) -> None:
        if any(self._inner.glob("versions/*")):
            raise PipelineError(f"{self.label} is a lake of parquet: give --format parquet")
        (self._inner / "batches").mkdir(exist_ok=True)
        self.manifest = self._now()
        check_format(self.label, self.manifest, self._format)
        self._undo()
        if (prepared := self._batch(self.manifest.version + 1)).exists():
            with contextlib.suppress(LakeChanged):  # then it is made again, upon what others did
                self._finish(prepared)
        self._clean()

    def _batch(self, number: int) -> Path:
        return self._inner / "batches" / f"{number:06}"

    @property
    def _making(self) -> Path:
        return self._inner / "making.json"

    def refresh(self) -> None:
        """Notice what others did to the tables, and make files of ours of theirs.

        Raises `PipelineError` where that cannot be, LakeChanged where they do not stop.
        """
        for left in reversed(range(_TRIES)):
            found = reclaim(self._tables, self.staging, self.manifest)
            if found is None:
                return
            manifest, steps, moves = found
            try:
                self._commit(manifest, steps, moves)
            except LakeChanged:
                if not left:
                    raise
                self.discard()

    def current_paths(self, key: str) -> tuple[str | None, ...]:
        """Where the files of a committed current state are: by bucket, then tails."""
        current = self.manifest.tables[key].current
        return self._paths(key, "current", () if current is None else current.places)

    def history_paths(self, key: str) -> tuple[str | None, ...]:
        """Where the files of a committed history's open versions are."""
        history = self.manifest.tables[key].history
        return self._paths(key, "history", () if history is None else history.open)

    def _paths(
        self, key: str, part: str, files: Iterable[DataFile | None]
    ) -> tuple[str | None, ...]:
        table = self.manifest.tables[key].parts.get(part)
        if table is None:
            return tuple(None for _ in files)
        folder = self._tables.folder(table)
        return tuple(None if file is None else str(folder / file.name) for file in files)

    def commit(self, made: Made) -> Manifest:
        """Make a batch seen, in all tables.

        Raises LakeChanged, with nothing of it in the lake, where others wrote to the tables since
        `refresh`.
        """
        marks = marked(self._tables, self.manifest)
        if (table := altered(self._tables, self.manifest)) is not None:
            raise LakeChanged(
                f"{self.label}: others have written to {table} while a batch was made for it: "
                "nothing of the batch is in the lake; run again"
            )
        manifest, batch = plan(self._tables, self.staging, self.manifest, made, self._format)
        steps = [replace(step, base=marks.get(step.table)) for step in batch.steps]
        # who finds that others were first can take the batch back as long as no table has it
        steps.sort(key=lambda step: step.base is None)
        self._commit(manifest, steps, batch.moves)
        return self.manifest

    def _commit(self, manifest: Manifest, steps: Sequence[Step], moves: Sequence[Move]) -> None:
        prepared = self._batch(manifest.version)
        if prepared.exists():
            raise PipelineError(f"{self.label}: a batch before was not finished: open it again")
        try:
            self._place(manifest.version, moves)
            temporary = prepared.with_suffix(".tmp")
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            manifest.write(temporary)
            write_steps(temporary, steps)
            to_disk([*temporary.iterdir(), temporary])
            temporary.rename(prepared)
            to_disk([prepared.parent])
            self._finish(prepared)
        except OSError as error:
            raise failed(self.path, error) from error
        self._clean_after()

    def _place(self, version: int, moves: Sequence[Move]) -> None:
        """Bring files into the tables' folders, on disk."""
        if not moves:
            return
        for folder in {move.target.parent for move in moves}:
            within(self._tables.top, folder)
        content = {"version": version, "files": [str(move.target) for move in moves]}
        write_file(self._making, JSONEncoder().iterencode(content))
        to_disk([self._inner])
        for move in moves:
            move.target.parent.mkdir(parents=True, exist_ok=True)
            if self.staging not in move.source.parents:
                move.target.unlink(missing_ok=True)
                move.target.hardlink_to(move.source)
                continue
            source = move.source
            if move.names:
                source = renamed(source, move.names, images=move.images)
            make_plain(source)
            source.replace(move.target)
        folders = {move.target.parent for move in moves}
        to_disk([*(move.target for move in moves), *folders])

    def _finish(self, prepared: Path) -> None:
        """Do what a prepared batch does, as far as it is not done, and call it the last one.

        Raises LakeChanged where others were first in the first of its tables: the batch is taken
        back then, and as if it had never been. In a later table they are overruled, which is an
        error that says so, with the batch done.
        """
        manifest = Manifest.take_up(prepared)
        overruled: list[str] = []
        for number, step in enumerate(read_steps(prepared)):
            wanted = replace(step, hidden=hidden_of(manifest, step.table))
            try:
                self._tables.commit(wanted, manifest.version)
            except LakeChanged as error:
                if number == 0:
                    self._withdraw(prepared)
                    raise
                self._tables.commit(replace(wanted, base=None), manifest.version)
                overruled.append(str(error))
        self._show(prepared)
        self.manifest = manifest
        self._making.unlink(missing_ok=True)
        if overruled:
            raise PipelineError(
                f"{self.label}: batch {manifest.version} is in the lake, and has overruled what "
                f"others committed at the same moment ({'; '.join(overruled)}): it is still to be "
                "read there by time travel; do it again"
            )

    def _withdraw(self, prepared: Path) -> None:
        """Take back a batch that no table has."""
        gone = prepared.with_suffix(".tmp")
        shutil.rmtree(gone, ignore_errors=True)
        prepared.rename(gone)
        to_disk([prepared.parent])
        self._undo()
        shutil.rmtree(gone)

    def _undo(self) -> None:
        """Remove the files of a batch that was never prepared."""
        if not self._making.exists():
            return
        with reading_file(self._making, "what a batch was to bring"):
            content = read_json(self._making)
            version, files = int(content["version"]), [Path(each) for each in content["files"]]
            for file in files:
                self._check_made(file, version)
        if version > self.manifest.version and not self._batch(version).exists():
            for file in files:
                file.unlink(missing_ok=True)
        if not self._batch(self.manifest.version + 1).exists():
            self._making.unlink()

    def _check_made(self, file: Path, version: int) -> None:
        """Raises ValueError, `PipelineError` for what is no data file of a batch of the lake."""
        if version_of(file.name) != version:
            raise ValueError(f"{str(file)[:100]!r} is no file of batch {version}")
        within(self._tables.top, file.parent)

    def _clean(self) -> None:
        shutil.rmtree(self._inner / "staging", ignore_errors=True)
        for left in (*self._inner.glob("*.tmp"), *self._inner.glob("now.*")):
            left.unlink(missing_ok=True)
        for folder in (self._inner / "batches").iterdir():
            if not folder.name.isdigit() or int(folder.name) <= self.manifest.version - _KEPT:
                shutil.rmtree(folder, ignore_errors=True)
