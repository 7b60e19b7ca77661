"""A lake: each batch goes into all of its tables exactly once.

    lake/
      shop.orders/ …                       the tables, as their format has them
      _tailrace/
        journal/000005.jsonl               a batch, prepared: what it does and what is known then
        journal/000005.done.jsonl          all tables have it
        making.….json                      folders that have files of a batch in the making
        staging/  sources/  claims/        as in every lake

Tasks put files into the tables' folders first, where no one sees them. Then the batch is
*prepared*: all that it does is put into the journal. From there it will be done, by this process or
by the next one: each table takes its part in a commit of its own that holds the batch's number too,
and a table that has the number already is passed over. Then the journal says that it is done.
docs/design/formats.md says what readers see.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace.errors import LakeChanged, PipelineError
from tailrace.spark.lake.asides import points, since, waiting
from tailrace.spark.lake.folder import LakeFolder, failed
from tailrace.spark.lake.places import Places
from tailrace.spark.lake.plan import completed, plan
from tailrace.spark.lake.reclaim import look, reclaim
from tailrace.spark.lake.steps import steps_json, steps_of, whole_json
from tailrace.spark.lake.tables import deleted_by_path, paths_of
from tailrace.spark.manifest.damage import reading, reading_file
from tailrace.spark.manifest.journal import FINISH, WITHDRAW
from tailrace.spark.manifest.json_file import read_json
from tailrace.spark.manifest.making import Making
from tailrace.spark.manifest.manifest import SET_ASIDE, check_format
from tailrace.spark.manifest.manifest_json import with_status
from tailrace.spark.manifest.on_disk import to_disk, within
from tailrace.spark.runtime.tasks import in_turn
from tailrace.spark.state.failure import check_writable, failure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.lake.plan import Made
    from tailrace.spark.lake.steps import Step
    from tailrace.spark.lake.tables import Tables
    from tailrace.spark.manifest.manifest import Manifest, TableState
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
        self._places: Places | None = None
        self._recovered = False
        """Whether it is known what was committed and prepared: before that nothing is removed."""
        self._tried = 0
        """The last batch that may be prepared: if an error came of that, the journal tells."""

    def close(self) -> None:
        """As `LakeFolder.close`."""
        try:
            if self._recovered:
                with contextlib.suppress(PipelineError, OSError):  # the next writer does it
                    self.begin()
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
        self._journal.read()
        self.manifest = self._journal.manifest
        self.check_owner()  # whoever takes over from here on knows the next batch's number, too
        check_format(self.label, self.manifest, self._format)
        self._tables.check_shown(self.manifest.version, self._journal.prepared)
        if self._claim.rival and not self._journal.prepared:
            self._journal.fence()  # the process before may be about to prepare a batch
            self.manifest = self._journal.manifest
        for left in self._inner.glob("*.tmp"):
            left.unlink(missing_ok=True)
        self._undo()
        if self._journal.prepared:
            manifest, steps = self._journal.coming(steps_of)
            check_format(self.label, manifest, self._format)
            with contextlib.suppress(LakeChanged):  # then it is made again, after what others did
                self._finish(manifest, steps)
        self._clean()
        self._recovered = True

    @property
    def _making(self) -> Making:
        batch, plain = self.manifest.next, self._format != "parquet"
        return Making(self._tables.top, self._inner, batch, self._claim.generation, plain)

    @property
    def places(self) -> Places:
        """Where the files of the next batch go."""
        if self._places is None or self._places.making.batch != self.manifest.next:
            self._places = Places(self._tables, self.manifest, self._making)
        return self._places

    def begin(self) -> Places:
        """Begin the next batch, with nothing of one before that was not committed."""
        self.check_owner()
        self._undo()
        self._places = None
        return self.places

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
            if looked[1]:
                self.begin()
            found = reclaim(self.places, self.staging, looked, failed, run, self._retried)
            if found is None:
                self._take_marks(looked[0], failed)
                break
            try:
                self._commit(*found)
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

    def paths(self, key: str, part: str) -> tuple[str | None, ...]:
        """As `paths_of`, of a table of the last batch."""
        return paths_of(self._tables, self.manifest.tables[key], part)

    def deleted(self, key: str) -> Mapping[str, DeletedRows]:
        """The deleted rows of the files of a table's current state that have any, by path."""
        table = self.manifest.tables[key].parts.get("current")
        return {} if table is None else deleted_by_path(self._tables, table)

    def commit(self, made: Made, run: Runner = in_turn) -> Manifest:
        """Make a batch seen, in all tables; ``run`` runs what is still to be copied.

        Raises LakeChanged, with nothing of it in the lake, where others wrote to the tables since
        `refresh`.
        """
        failed: dict[str, Exception] = {}
        marks, altered = look(self._tables, self.manifest, failed, self._retried, self._keys)
        asides = made.asides
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
        places = self.places
        manifest, steps = plan(places, self.manifest, made, run)
        steps = [replace(step, base=marks.get(step.table)) for step in steps]
        # who finds that others were first can take the batch back as long as no table has it
        steps.sort(key=lambda step: step.base is None)
        self._commit(manifest, steps, made.written)
        self.check_owner()
        with contextlib.suppress(OSError):  # what is left over is the next run's to remove
            self.discard()
            self._clean()
        return self.manifest

    def _commit(
        self, manifest: Manifest, steps: Sequence[Step], written: Collection[Path] = ()
    ) -> None:
        """Commit a batch, without those files of it that came into no table."""
        if self._journal.prepared:
            raise PipelineError(f"{self.label}: a batch before was not finished: open it again")
        try:
            new = {
                self._tables.folder(step.table) / name
                for step in steps
                for name in (*step.adds, *(each.target for each in step.merges))
            }
            unlisted = {each.parent for each in {*written} - new}
            folders = self.places.folders - {each.parent for each in new} | unlisted
            self.places.making.sweep(folders, new)
            above = {folder for each in new for folder in each.parents}
            to_disk([*new, *(each for each in above if each.is_relative_to(self._tables.top))])
            self._tried = manifest.version
            self._journal.prepare(manifest, steps_json(steps))
            self._finish(manifest, steps)
        except OSError as error:
            raise failed(self.path, error) from error

    def _finish(self, manifest: Manifest, steps: Sequence[Step]) -> None:
        """Do what a prepared batch does, as far as it is not done, and call it the last one.

        A table that cannot take its part is set aside: its steps are kept, and done once it is
        taken up again (`take_rest`). The batch's outcome says so: whoever finds the batch prepared
        tries these steps once more.
        Raises LakeChanged where others were first in a table, and no table has the batch: the batch
        is then rolled back, as if it had never been. Else they are overruled, which is an error
        that says so, with the batch done. A rival might still bring the batch to a table, or roll
        it back: so it is decided first that it is to be finished.
        """
        decided = self._journal.decision
        if self._claim.rival:
            decided = self._journal.decide(FINISH)
        if decided == WITHDRAW:
            self._withdraw()
            raise LakeChanged(f"{self.label}: the process before has rolled its batch back")
        overruled: dict[str, str] = {}
        left = _waiting(manifest)
        failed: dict[str, Exception] = {}
        marks: dict[str, str | None] = {}

        def take(step: Step) -> None:
            overrule = step.table in overruled
            try:
                mark = self._take(step, manifest.version, overrule=overrule)
            except LakeChanged:
                raise
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                failure(error)
                if not step.only_marks:  # a table that cannot be marked stands still as it is
                    failed[step.table] = error
                return
            if not step.only_marks or (step.base is not None and not overrule):
                marks[step.table] = mark  # else its rows may be others' by now

        altered = manifest.altered(self.manifest)
        steps = completed(steps, manifest, altered)
        settled = False
        while not settled:
            marks.clear()
            for step in steps:
                if step.table in left or step.table in failed:
                    continue
                try:
                    take(step)
                except LakeChanged as error:
                    changed = error
                else:
                    continue
                if (
                    decided is None
                    and not failed
                    and not any(self._tables.has(each.table, manifest.version) for each in steps)
                    and self._journal.decide(WITHDRAW) == WITHDRAW
                ):
                    self._withdraw()
                    raise changed
                overruled[step.table] = str(changed)
                take(step)
            settled = self._tables.settle()  # else others were first, and no table has a step
        if failed:
            manifest = self._leave(manifest, steps, failed)
        manifest = _with_marks(manifest, marks, altered)
        self._tables.show(manifest.version)
        self._journal.done(manifest)
        self.manifest = manifest
        for note in self._making.notes():
            note.unlink(missing_ok=True)
        if why := [overruled[table] for table in overruled if table not in failed]:
            raise PipelineError(
                f"{self.label}: batch {manifest.version} is in the lake, and has overruled what "
                f"others committed at the same moment ({'; '.join(why)}): it is still to be "
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
                steps = [] if lists_files else self._rest(key, state, status.batch)
                settled = False
                while not settled:
                    for step in steps:
                        marks[step.table] = self._take(step, status.batch, overrule=True)
                    settled = self._tables.settle()
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                self._tables.forget()
                marks = {}
                failed[key] = failure(error)
            else:
                state = state.with_status(SET_ASIDE, replace(status, batch=0))
                self.manifest = self.manifest.updated({key: state})
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
        self._tried = 0
        self._tables.forget()
        self._undo()

    def _undo(self) -> None:
        """Remove the files of batches that were never prepared, and the notes of them."""
        found: dict[int, set[Path]] = {}
        notes = self._making.notes()
        for note in notes:
            with reading_file(note, "where the files of a batch are"):
                content = read_json(note)
                folders = [
                    within(self._tables.top, self._tables.top / each) for each in content["folders"]
                ]
                found.setdefault(int(content["version"]), set()).update(folders)
        if found.keys() & {self._journal.prepared, self._tried}:  # `_finish` removes the notes
            return
        for version, places in found.items():
            if self.manifest.version < version <= self.manifest.next:  # later: not ours
                replace(self._making, batch=version).sweep(places)
        for note in notes:
            note.unlink(missing_ok=True)

    def _clean(self) -> None:
        """Remove what a run left over that did not come to its end, and what is too old."""
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
    return manifest.updated(fresh) if fresh else manifest


def _waiting(manifest: Manifest) -> set[str]:
    """The lake's tables that have not taken a batch yet."""
    return {
        name
        for _, state in with_status(manifest.tables)
        if (status := state.set_aside) is not None and status.batch
        for name in state.parts.values()
    }
