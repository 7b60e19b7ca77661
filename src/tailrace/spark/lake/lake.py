"""A lake: each batch goes into all of its tables exactly once.

    lake/
      shop.orders/ …                       the tables, as their format has them
      _tailrace/
        journal/000005.jsonl               a batch, prepared: what it does and what is known then
        journal/000005.done.jsonl          all tables have it
        making.json                        files that were moved into tables for a batch to be
        staging/  sources/  claims/        as in every lake

Files go into the tables' folders first, where no one sees them. Then the batch is *prepared*: all
that it does is put into the journal. From there it will be done, by this process or by the next
one: each table takes its part in a commit of its own that holds the batch's number too, and a table
that has the number already is passed over. Then the journal says that it is done.
docs/design/formats.md says what readers see.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.errors import LakeChanged, PipelineError
from tailrace.spark.lake.asides import Asides, points, since, waiting
from tailrace.spark.lake.folder import LakeFolder, failed
from tailrace.spark.lake.plan import completed, plan
from tailrace.spark.lake.reclaim import look, reclaim
from tailrace.spark.lake.steps import steps_json, steps_of, whole_json
from tailrace.spark.lake.tables import deleted_by_path
from tailrace.spark.manifest.damage import reading, reading_file
from tailrace.spark.manifest.json_file import read_json
from tailrace.spark.manifest.lazy_tables import lazy
from tailrace.spark.manifest.manifest import check_format
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.manifest.names import version_of
from tailrace.spark.manifest.on_disk import to_disk, write_file
from tailrace.spark.manifest.paths import within
from tailrace.spark.manifest.status import SET_ASIDE
from tailrace.spark.parquet.footer import make_plain, renamed
from tailrace.spark.state.failure import check_writable, failure
from tailrace.storage.local import missing_folders

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tailrace.spark.lake.made import Made
    from tailrace.spark.lake.plan import Move
    from tailrace.spark.lake.steps import Step
    from tailrace.spark.lake.tables import Tables
    from tailrace.spark.manifest.manifest import DataFile, Manifest, TableState
    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.failure import Failure

_TRIES: Final = 3
"""How many times tables are made ours again when others keep writing to them."""


class Lake(LakeFolder):
    """A lake, as those who write batches see it."""

    def __init__(
        self, path: Path, name: str, tables: Tables, *, label: str, made: Sequence[Path] = ()
    ) -> None:
        super().__init__(path, made=made)
        self._format = name
        self._tables = tables
        self.label = label
        self._retried: frozenset[str] = frozenset()
        self._keys: Collection[str] | None = None

    def close(self) -> None:
        """As `LakeFolder.close`."""
        try:
            self._tables.close()
        finally:
            super().close()

    def _recover(self) -> None:
        if self._format != "parquet":
            if any(self._inner.glob("versions/*")):
                raise PipelineError(f"{self.label} is a lake of parquet: give --format parquet")
            with contextlib.suppress(OSError):  # `format_of` takes it for a lake of parquet
                (self._inner / "versions").rmdir()
        self._tables.open(self._claim.generation, self.staging)
        self._read()
        check_format(self.label, self.manifest, self._format)
        self._tables.check_shown(self.manifest.version, self._journal.prepared)
        self._fence()
        for left in self._inner.glob("*.tmp"):
            left.unlink(missing_ok=True)
        self._undo()
        if self._journal.prepared:
            manifest, steps = self._journal.coming(steps_of)
            check_format(self.label, manifest, self._format)
            with contextlib.suppress(LakeChanged):  # then it is made again, after what others did
                self._finish(manifest, steps)
        self._clean()

    @property
    def _making(self) -> Path:
        return self._inner / "making.json"

    def refresh(
        self, run: Runner, retried: Collection[str] = (), keys: Collection[str] | None = None
    ) -> dict[str, Failure]:
        """Notice what others did to the tables, and have files of ours made of theirs, in tasks.

        Tables are looked at by ``keys``, by default all; of those that stand still only ``retried``
        ones. Where one of some fails all are looked at: it may be the lake that is damaged.

        The tables of which that cannot be, by key. Raises `PipelineError` where it can be of none,
        LakeChanged where others do not stop.
        """
        self.check_owner()
        failed: dict[str, Exception] = {}
        self._retried, self._keys = frozenset(retried), keys
        for left in reversed(range(_TRIES)):
            shutil.rmtree(self.staging / "reclaim", ignore_errors=True)
            looked = look(self._tables, self.manifest, failed, self._retried, keys)
            if failed and keys is not None:
                return self.refresh(run, retried)
            found = reclaim(
                self._tables, self.staging, self.manifest, looked, failed, run, self._retried
            )
            if found is None:
                self._take_marks(looked[0], failed)
                break
            manifest, steps, moves = found
            try:
                self._commit(manifest, steps, moves)
            except LakeChanged:
                if not left:
                    raise
        return {key: failure(error) for key, error in failed.items()}

    def _take_marks(self, marks: Mapping[str, str | None], failed: Collection[str]) -> None:
        """Let tables have new marks that are as they were."""
        states = (self.manifest.tables[key] for key in failed)
        out = {name for state in states for name in state.parts.values()}
        known = {name: mark for name, mark in marks.items() if name not in out and mark is not None}
        self.manifest = _with_marks(self.manifest, known, self._keys)

    def current_paths(self, key: str) -> tuple[str | None, ...]:
        """Where the files of a committed current state are: by bucket, then tails."""
        current = self.manifest.tables[key].current
        return self._paths(key, "current", () if current is None else current.places)

    def deleted(self, key: str) -> Mapping[str, DeletedRows]:
        """The deleted rows of the files of a table's current state that have any, by path."""
        table = self.manifest.tables[key].parts.get("current")
        return {} if table is None else deleted_by_path(self._tables, table)

    def history_paths(self, key: str) -> tuple[str | None, ...]:
        """Where the files of a committed history's open versions are."""
        history = self.manifest.tables[key].history
        return self._paths(key, "history", () if history is None else history.places)

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
        made = replace(made, asides=made.asides_of(self.manifest))
        failed: dict[str, Exception] = {}
        marks, altered = look(self._tables, self.manifest, failed, self._retried, self._keys)
        asides = made.asides_of(self.manifest)
        for key, error in failed.items():
            asides.fail_state(key, self.manifest.tables[key], failure(error))
        altered = [
            each
            for each in altered
            if not all(asides.stands(key, each.part) for key in each.states)
        ]
        if altered:
            raise LakeChanged(
                f"{self.label}: others have written to {altered[0].table} while a batch was made "
                "for it: nothing of the batch is in the lake; run again"
            )
        manifest, batch = plan(self._tables, self.staging, self.manifest, made)
        steps = [replace(step, base=marks.get(step.table)) for step in batch.steps]
        # who finds that others were first can take the batch back as long as no table has it
        steps.sort(key=lambda step: step.base is None)
        self._commit(manifest, steps, batch.moves)
        self._clean_after()
        return self.manifest

    def _commit(self, manifest: Manifest, steps: Sequence[Step], moves: Sequence[Move]) -> None:
        if self._journal.prepared:
            raise PipelineError(f"{self.label}: a batch before was not finished: open it again")
        try:
            manifest, steps = self._place(manifest, steps, moves)
            self._journal.prepare(manifest, steps_json(steps))
            self._finish(manifest, steps)
        except OSError as error:
            raise failed(self.path, error) from error

    def _place(
        self, manifest: Manifest, steps: Sequence[Step], moves: Sequence[Move]
    ) -> tuple[Manifest, Sequence[Step]]:
        """Bring files into the tables' folders, on disk.

        The manifest and the steps of a batch, in which tables are set aside, as they were before,
        whose files cannot be brought there.
        """
        if not moves:
            return manifest, steps
        content = {"version": manifest.version, "files": [str(move.target) for move in moves]}
        write_file(self._making, [json.dumps(content)])
        to_disk([self._inner])
        by_folder: dict[Path, list[Move]] = {}
        for move in moves:
            by_folder.setdefault(move.target.parent, []).append(move)
        failed: dict[Path, Failure] = {}
        grown = {each.parent for folder in by_folder for each in missing_folders(folder)}
        for folder, some in by_folder.items():
            try:
                within(self._tables.top, folder)
                for move in some:
                    self._move(move)
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                failed[folder] = failure(error)
        placed = [move.target for move in moves if move.target.parent not in failed]
        placed += [folder for folder in by_folder if folder not in failed]
        to_disk([*placed, *filter(Path.is_dir, grown)])
        if not failed:
            return manifest, steps
        check_writable(self.staging)
        return self._without(manifest, steps, failed)

    def _move(self, move: Move) -> None:
        move.target.parent.mkdir(parents=True, exist_ok=True)
        if self.staging not in move.source.parents:
            move.target.unlink(missing_ok=True)
            move.target.hardlink_to(move.source)
            return
        source = move.source
        if move.names:
            source = renamed(source, move.names, images=move.images)
        if self._format != "parquet":
            make_plain(source)
        source.replace(move.target)

    def _without(
        self, manifest: Manifest, steps: Sequence[Step], failed: Mapping[Path, Failure]
    ) -> tuple[Manifest, Sequence[Step]]:
        """A batch without the tables whose folders failed: they are as they were before."""
        before = self.manifest
        asides = Asides(before, manifest.options.keep)
        tables = dict(manifest.tables)
        gone: set[str] = set()
        for key, state in manifest.tables.items():
            folders = {self._tables.folder(name): name for name in state.parts.values()}
            cause = next((failed[each] for each in folders if each in failed), None)
            if cause is None:
                continue
            gone.update(folders.values())
            asides.fail_state(key, state, cause)
            nothing = replace(state, changelog=(), current=None, history=None, parts={}, shapes={})
            tables[key] = asides.marked(key, before.tables.get(key, nothing))
        known = points(before, manifest.sources, tables.values(), manifest.points)
        manifest = replace(manifest, tables=tables, points=known)
        return manifest, [step for step in steps if step.table not in gone]

    def _finish(self, manifest: Manifest, steps: Sequence[Step]) -> None:
        """Do what a prepared batch does, as far as it is not done, and call it the last one.

        A table that cannot take its part is set aside: its steps are kept, and done once it is
        taken up again (`take_rest`). The batch's outcome says so: whoever finds the batch prepared
        tries these steps once more.
        Raises LakeChanged where others were first in the first of its tables: the batch is then
        rolled back, as if it had never been. In a later table they are overruled, which is an
        error that says so, with the batch done.
        """
        overruled: list[str] = []
        left = _waiting(manifest)
        failed: dict[str, Exception] = {}
        marks: dict[str, str | None] = {}
        taken = 0

        def take(step: Step, *, overrule: bool) -> None:
            nonlocal taken
            try:
                mark = self._take(step, manifest.version, overrule=overrule)
            except LakeChanged:
                raise
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                failure(error)
                if not step.only_marks:  # a table that cannot be marked stands still as it is
                    failed[step.table] = error
                return
            taken += 1
            if not step.only_marks or (step.base is not None and not overrule):
                marks[step.table] = mark  # else its rows may be others' by now

        altered = lazy(manifest.tables).altered(self.manifest.tables)
        steps = completed(steps, manifest, altered)
        for step in steps:
            if step.table in left:
                continue
            changed: LakeChanged | None = None
            try:
                take(step, overrule=False)
            except LakeChanged as error:
                changed = error
            if changed is None:
                continue
            if not taken and not failed and not self._claim.rival:  # it may bring it to a table
                self._withdraw()
                raise changed
            take(step, overrule=True)
            if step.table not in failed:
                overruled.append(str(changed))
        if failed:
            manifest = self._leave(manifest, steps, failed)
        manifest = _with_marks(manifest, marks, altered)
        self._tables.show(manifest.version)
        self._journal.done(manifest)
        self.manifest = manifest
        self._making.unlink(missing_ok=True)
        if overruled:
            raise PipelineError(
                f"{self.label}: batch {manifest.version} is in the lake, and has overruled what "
                f"others committed at the same moment ({'; '.join(overruled)}): it is still to be "
                "read there by time travel; do it again"
            )

    def _take(self, step: Step, batch: int, *, overrule: bool) -> str | None:
        """Have a table take its step: the table's mark since."""
        if step.only_marks and self._tables.mark(step.table) is None:
            raise PipelineError(f"table {step.table} in {self._tables.top} is gone: restore it")
        return self._tables.commit(step, batch, overrule=overrule)

    def _leave(
        self, manifest: Manifest, steps: Sequence[Step], failed: Mapping[str, Exception]
    ) -> Manifest:
        """Set the tables aside that could not take their part, and keep what they are to do.

        Raises the error where no other table of the lake can be read: then it is not a table's.
        """
        version = manifest.version
        others = {name for state in manifest.tables.values() for name in state.parts.values()}
        for name in sorted(others - failed.keys() - _waiting(manifest)):
            with contextlib.suppress(PipelineError):
                self._tables.content(name)
                break
        else:
            raise next(iter(failed.values()))
        check_writable(self._inner)
        tables = dict(manifest.tables)
        for key, state in manifest.tables.items():
            causes = [failed[name] for name in state.parts.values() if name in failed]
            if causes:
                at = since(manifest.sources.get(state.source))
                cause = failure(causes[0])
                names = failed.keys() & state.parts.values()
                if manifest.options.lists_files:
                    names = set()  # its next step lists all files (`TableBatch`)
                rest = whole_json([step for step in steps if step.table in names])
                fresh = waiting(state, manifest.options.keep, version, cause, at)
                tables[key] = replace(fresh, rest=tuple(rest))
        found = replace(manifest, tables=tables)
        known = points(self.manifest, found.sources, tables.values(), found.points)
        return replace(found, points=known)

    def take_rest(self, keys: Collection[str]) -> dict[str, Failure]:
        """Do what a batch before was to do to tables that were set aside; those that fail again.

        Nothing of it is in the manifest on disk: they are still set aside.
        """
        failed: dict[str, Failure] = {}
        for key in keys:
            state = self.manifest.tables[key]
            status = state.set_aside
            if status is None or not status.batch:
                continue
            marks: dict[str, str | None] = {}
            try:
                lists_files = self.manifest.options.lists_files
                for step in () if lists_files else self._rest(key, state, status.batch):
                    marks[step.table] = self._take(step, status.batch, overrule=True)
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                failed[key] = failure(error)
            else:
                state = state.with_status(SET_ASIDE, replace(status, batch=0))
                tables = lazy(self.manifest.tables).updated({key: state})
                self.manifest = replace(self.manifest, tables=tables)
            self.manifest = _with_marks(self.manifest, marks, [key])
        return failed

    @staticmethod
    def _rest(key: str, state: TableState, batch: int) -> list[Step]:
        """The steps that a table has not taken yet. Raises `PipelineError`."""
        what = f"the pending changes of batch {batch} to {key}"
        if not state.rest:  # earlier builds had it in a file
            raise PipelineError(f"{what} are not in the lake's journal: recreate the lake")
        with reading(what):
            return steps_of(list(state.rest))

    def _withdraw(self) -> None:
        """Roll back a batch that no table has."""
        self._journal.withdraw()
        self.manifest = self._journal.manifest
        self._undo()

    def _undo(self) -> None:
        """Remove the files of a batch that was never prepared."""
        if not self._making.exists():
            return
        with reading_file(self._making, "what a batch was to bring"):
            content = read_json(self._making)
            version, files = int(content["version"]), [Path(each) for each in content["files"]]
            for file in files:
                self._check_made(file, version)
        uncommitted = self.manifest.version < version <= self.manifest.next  # later: not ours
        if uncommitted and version != self._journal.prepared:
            for file in files:
                file.unlink(missing_ok=True)
        if not self._journal.prepared:
            self._making.unlink()

    def _check_made(self, file: Path, version: int) -> None:
        """Raises ValueError, `PipelineError` for what is no data file of a batch of the lake."""
        if version_of(file.name) != version:
            raise ValueError(f"{str(file)[:100]!r} is no file of batch {version}")
        within(self._tables.top, file.parent)

    def _clean(self) -> None:
        self._journal.clean()
        self._tables.clean(self.manifest.version)


def _with_marks(
    manifest: Manifest, marks: Mapping[str, str | None], keys: Iterable[str] | None
) -> Manifest:
    """The manifest with the marks of its tables, by key; None is one that is not known."""
    fresh: dict[str, TableState] = {}
    for key in manifest.keys_of_tables(keys):
        state = manifest.tables[key]
        now = dict(state.marks)
        for part, name in state.parts.items():
            if part != "changelog" and name in marks:  # others may write to a changelog
                now.pop(part, None)
                now |= {part: mark} if (mark := marks[name]) is not None else {}
        if now != state.marks:
            fresh[key] = replace(state, marks=now)
    return replace(manifest, tables=lazy(manifest.tables).updated(fresh)) if fresh else manifest


def _waiting(manifest: Manifest) -> set[str]:
    """The lake's tables that have not taken a batch yet."""
    return {
        name
        for _, state in with_status(manifest.tables)
        if (status := state.set_aside) is not None and status.batch
        for name in state.parts.values()
    }
