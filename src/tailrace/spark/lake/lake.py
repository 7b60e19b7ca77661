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
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Self

from tailrace.closing import Closing
from tailrace.errors import LakeChanged, PipelineError, UsageError
from tailrace.extras import missing
from tailrace.spark.lake.asides import points, set_aside, since, waiting
from tailrace.spark.lake.claim import FOLDER as CLAIMS
from tailrace.spark.lake.claim import Claim
from tailrace.spark.lake.folder import (
    AGAIN,
    INNER,
    SOURCES,
    check_layout,
    folders_of_logs,
    generation_of,
)
from tailrace.spark.lake.parquet.tables import ParquetTables
from tailrace.spark.lake.plan import Places, completed, plan
from tailrace.spark.lake.reclaim import look, reclaim
from tailrace.spark.lake.tables import deleted_by_path, paths_of, steps_json, steps_of, whole_json
from tailrace.spark.manifest.damage import reading, reading_file
from tailrace.spark.manifest.journal import FINISH, FOLDER, WITHDRAW, Journal
from tailrace.spark.manifest.json_file import read_json
from tailrace.spark.manifest.making import Making
from tailrace.spark.manifest.manifest import SET_ASIDE, Manifest, check_format
from tailrace.spark.manifest.on_disk import LocalObjects, lake_path, to_disk, within
from tailrace.spark.runtime.tasks import in_turn
from tailrace.spark.state.failure import check_writable, failure
from tailrace.storage.local import missing_folders
from tailrace.values.surrogates import has_surrogates

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.lake.plan import Made
    from tailrace.spark.lake.tables import Step, Tables
    from tailrace.spark.manifest.manifest import TableState
    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.failure import Failure

_FOLDERS: Final = (FOLDER, CLAIMS, "tables", "versions", "staging", SOURCES)
_TRIES: Final = 3
"""How many times tables are made ours again when others keep writing to them."""


def open_store(into: str | Path, format: str = "parquet") -> Lake:  # noqa: A002 - the lake's word
    """The lake ``into``: a folder; of Iceberg also CATALOG.SCHEMA, a catalogue of pyiceberg's
    configuration and a namespace in it, where the catalogue's warehouse is a folder.

    Whoever writes to it enters it as a context manager; others read its ``tables``.
    Raises UsageError, and `PipelineError` where the format's package is missing or the catalogue
    cannot be had.
    """
    match format:
        case "parquet":
            path = lake_path(into).absolute()  # tasks may be in another folder
            return Lake(path, format, ParquetTables(path), label=str(into))
        case "delta":
            _need("delta", "deltalake")
            from tailrace.spark.lake.delta.tables import DeltaTables  # noqa: PLC0415 - an extra's

            path = lake_path(into).absolute()
            return Lake(path, format, DeltaTables(path), label=str(into))
        case "iceberg":
            _need("iceberg", "pyiceberg")
            from tailrace.spark.lake.iceberg.catalog import place  # noqa: PLC0415 - an extra's
            from tailrace.spark.lake.iceberg.tables import IcebergTables  # noqa: PLC0415 - an extra's

            found = place(into)
            tables = IcebergTables(found.catalog, found.top, found.namespace)
            return Lake(found.folder, format, tables, label=str(into), made=found.made)
    raise UsageError(f"a lake's format is parquet, delta or iceberg, and not {format!r}")


def _need(extra: str, package: str) -> None:
    if find_spec(package) is None:
        raise missing(extra, package, f"a lake of the format {extra}")


class Lake(Closing):
    """A lake in a folder, which one process at a time enters to write batches; a context manager.

    Raises `PipelineError` where the folder is something else, another process has it open, or the
    file system lacks what a lake needs.
    """

    def __init__(
        self, path: Path, name: str, tables: Tables, *, label: str, made: Sequence[Path] = ()
    ) -> None:
        """``made`` are files and folders that were made for the lake just now."""
        self.path = path
        self.tables = tables
        self.label = label
        self._format = name
        self._inner = path / INNER
        self._made = made if path.exists() else missing_folders(path)
        objects = LocalObjects(self._inner)
        self._claim = Claim(objects, str(path))
        self._journal = Journal(objects, check=self._claim.check)
        self.manifest = Manifest()
        self.sources = self._inner / SOURCES
        """A folder for the logs of servers; what is in it stays."""
        self._retried: frozenset[str] = frozenset()
        self._keys: Collection[str] | None = None
        self._places: Places | None = None
        self._recovered = False
        """Whether it is known what was committed and prepared: before that nothing is removed."""
        self._tried = 0
        """The last batch that may be prepared: if an error came of that, the journal tells."""

    # --- opening and closing ---------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Claim the lake, take up what is committed, finish what was prepared, and remove what was
        not.
        """
        try:
            self._check_folder()
            self._claim.take()
            for left in self._inner.glob("staging/*"):
                if generation_of(left) < self._claim.generation:
                    shutil.rmtree(left, ignore_errors=True)
            (self._inner / "lock").unlink(missing_ok=True)  # of lakes before there were claims
            self.staging.mkdir(parents=True)
            self._take_sources()
            if self._format != "parquet":
                self._remove_versions()
            self.tables.open(self._claim.generation, self.staging)
            self._journal.read()
            self.manifest = self._journal.manifest
            self._claim.check()  # whoever takes over from here on knows the next batch's number
            check_format(self.label, self.manifest, self._format)
            self.tables.check_shown(self.manifest.version, self._journal.prepared)
            if self._claim.rival and not self._journal.prepared:
                self._journal.fence()  # the process before may be about to prepare a batch
                self.manifest = self._journal.manifest
            for left in self._inner.glob("*.tmp"):
                left.unlink(missing_ok=True)
            self._undo()
            if self._journal.prepared:
                manifest, steps = self._journal.coming(steps_of)
                check_format(self.label, manifest, self._format)
                with contextlib.suppress(LakeChanged):  # then it is made again, after others' work
                    self._finish(manifest, steps)
            self._clean()
            self._recovered = True
            self._claim.rival = None
        except OSError as error:
            self.close()
            raise self._unwritable(error) from error
        except BaseException:
            self.close()
            raise
        return self

    def _check_folder(self) -> None:
        if has_surrogates(str(self.path)):
            raise PipelineError(f"{self.path}: a lake's path must be UTF-8")
        if self.path.exists() and not self._inner.exists() and any(self.path.iterdir()):
            raise PipelineError(
                f"{self.path} is not empty and no lake: give a new or empty folder for --into"
            )
        self._inner.mkdir(parents=True, exist_ok=True)
        within(self.path, self._inner)
        for name in _FOLDERS:
            within(self._inner, self._inner / name)
        check_layout(self.path, self._inner)

    def _remove_versions(self) -> None:
        """Remove the empty folder for which `format_of` takes a lake for one of Parquet."""
        versions = self._inner / "versions"
        if any(self._inner.glob("versions/*")):
            raise PipelineError(f"{self.label} is a lake of parquet: give --format parquet")
        with contextlib.suppress(OSError):
            versions.rmdir()

    def _take_sources(self) -> None:
        """Take over the folder of servers' logs: a copy, if the process that has it may still run.

        That process may write into its own, whose lock it holds.
        """
        found = folders_of_logs(self._inner)
        latest = self.sources = within(self._inner, found[0])
        if self._claim.rival and latest.exists():
            copy = shutil.copytree(latest, self.staging / SOURCES, symlinks=True)
            self._claim.check()
            self.sources = copy.replace(self._inner / f"{SOURCES}.{self.staging.name}")
        for folder in found:
            if folder.name != self.sources.name:
                shutil.rmtree(folder, ignore_errors=True)
        for left in self.sources.glob(f"*{AGAIN}"):
            shutil.rmtree(left, ignore_errors=True)

    def close(self) -> None:
        """Remove what this run wrote and did not commit, and let others write.

        Of a lake in which nothing was ever committed no folder is left, unless it has a server's
        logs. Raises `PipelineError` if another process has taken over the lake.
        """
        try:
            if self._recovered:
                with contextlib.suppress(PipelineError, OSError):  # the next writer does it
                    self.begin()
            self.tables.close()
        finally:
            if self._claim.generation:
                self._release()

    def _release(self) -> None:
        try:
            shutil.rmtree(self.staging, ignore_errors=True)
            self._claim.check()
        finally:
            self._claim.release()
        if self.manifest.version:
            return
        with contextlib.suppress(OSError):  # what is not empty stays, and what is above it
            folders = [self._inner / name for name in _FOLDERS]
            for folder in (*self.sources.glob("*"), self.sources, *folders):
                if folder.name == CLAIMS:
                    for left in folder.glob("released-*"):
                        left.unlink()
                if folder.exists():
                    folder.rmdir()
            self._inner.rmdir()
            for path in self._made:
                path.rmdir() if path.is_dir() else path.unlink()

    def _unwritable(self, error: OSError) -> PipelineError:
        where = f" ({error.filename})" if error.filename else ""
        why = error.strerror or error
        return PipelineError(f"the lake {self.path} cannot be written: {why}{where}")

    @property
    def staging(self) -> Path:
        """A folder for what this run writes; what is in it and not committed goes away."""
        return self._inner / "staging" / f"{self._claim.generation:010}"

    def discard(self) -> None:
        """Drop what is in staging."""
        shutil.rmtree(self.staging, ignore_errors=True)
        self.staging.mkdir(parents=True, exist_ok=True)

    # --- batches ---------------------------------------------------------------------------------

    @property
    def _making(self) -> Making:
        batch, plain = self.manifest.next, self._format != "parquet"
        return Making(self.tables.top, self._inner, batch, self._claim.generation, plain)

    @property
    def places(self) -> Places:
        """Where the files of the next batch go."""
        if self._places is None or self._places.making.batch != self.manifest.next:
            self._places = Places(self.tables, self.manifest, self._making)
        return self._places

    def begin(self) -> Places:
        """Begin the next batch, with nothing of one before that was not committed."""
        self._claim.check()
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
        self._claim.check()
        failed: dict[str, Exception] = {}
        self._retried, self._keys = frozenset(retried), keys
        for left in reversed(range(_TRIES)):
            shutil.rmtree(self.staging / "reclaim", ignore_errors=True)
            marks, altered = look(self.tables, self.manifest, failed, self._retried, keys)
            if failed and keys is not None:
                return self.refresh(run, retried)
            if altered:
                self.begin()
            found = reclaim(self.places, self.staging, altered, marks, failed, run, self._retried)
            if found is None:  # tables that are as they were have new marks
                states = (self.manifest.tables[key] for key in failed)
                out = {name for state in states for name in state.parts.values()}
                fresh = {k: mark for k, mark in marks.items() if k not in out and mark is not None}
                self.manifest = _with_marks(self.manifest, fresh, keys)
                break
            try:
                self._commit(*found)
            except LakeChanged:
                if not left:
                    raise
        return {key: failure(error) for key, error in failed.items()}

    def paths(self, key: str, part: str) -> tuple[str | None, ...]:
        """As `paths_of`, of a table of the last batch."""
        return paths_of(self.tables, self.manifest.tables[key], part)

    def deleted(self, key: str) -> Mapping[str, DeletedRows]:
        """The deleted rows of the files of a table's current state that have any, by path."""
        table = self.manifest.tables[key].parts.get("current")
        return {} if table is None else deleted_by_path(self.tables, table)

    def commit(self, made: Made, run: Runner = in_turn) -> Manifest:
        """Make a batch seen, in all tables; ``run`` runs what is still to be copied.

        Raises LakeChanged, with nothing of it in the lake, where others wrote to the tables since
        `refresh`.
        """
        failed: dict[str, Exception] = {}
        marks, altered = look(self.tables, self.manifest, failed, self._retried, self._keys)
        for key, error in failed.items():
            made.asides.fail_state(key, self.manifest.tables[key], failure(error))
        for part in altered:
            if not all(made.asides.stands(key, part.part) for key in part.states):
                raise LakeChanged(
                    f"{self.label}: others have written to {part.table} while a batch was made for "
                    "it: nothing of the batch is in the lake; run again"
                )
        manifest, steps = plan(self.places, self.manifest, made, run)
        steps = [replace(step, base=marks.get(step.table)) for step in steps]
        # who finds that others were first can take the batch back as long as no table has it
        steps.sort(key=lambda step: step.base is None)
        self._commit(manifest, steps, made.written)
        self._claim.check()
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
                self.tables.folder(step.table) / name
                for step in steps
                for name in (*step.adds, *(each.target for each in step.merges))
            }
            unlisted = {each.parent for each in {*written} - new}
            folders = self.places.folders - {each.parent for each in new} | unlisted
            self.places.making.sweep(folders, new)
            above = {folder for each in new for folder in each.parents}
            to_disk([*new, *(each for each in above if each.is_relative_to(self.tables.top))])
            self._tried = manifest.version
            self._journal.prepare(manifest, steps_json(steps))
            self._finish(manifest, steps)
        except OSError as error:
            raise self._unwritable(error) from error

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
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                failure(error)  # as LakeChanged
                if not step.only_marks:  # a table that cannot be marked stands still as it is
                    failed[step.table] = error
                return
            if not step.only_marks or (step.base is not None and not overrule):
                marks[step.table] = mark  # else its rows may be others' by now

        altered = manifest.altered(self.manifest)
        steps = completed(steps, manifest, altered)
        while True:
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
                    and not any(self.tables.has(each.table, manifest.version) for each in steps)
                    and self._journal.decide(WITHDRAW) == WITHDRAW
                ):
                    self._withdraw()
                    raise changed
                overruled[step.table] = str(changed)
                take(step)
            if self.tables.settle():
                break  # else others were first, and no table has a step
        if failed:
            manifest = self._leave(manifest, steps, failed)
        manifest = _with_marks(manifest, marks, altered)
        self.tables.show(manifest.version)
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
        if step.only_marks and self.tables.mark(step.table) is None:
            raise PipelineError(f"table {step.table} in {self.tables.top} is gone: restore it")
        return self.tables.commit(step, batch, overrule=overrule)

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
                self.tables.content(name)
                break
        else:
            raise next(iter(failed.values()))
        check_writable(self._inner)
        tables = dict(manifest.tables)
        for key, state in manifest.tables.items():
            if names := [name for name in state.parts.values() if name in failed]:
                at = since(manifest.sources.get(state.source))
                cause = failure(failed[names[0]])
                if manifest.options.lists_files:
                    names = []  # its next step lists all files (`TableBatch`)
                rest = whole_json(step for step in steps if step.table in names)
                fresh = waiting(state, manifest.options.keep, version, cause, at)
                tables[key] = replace(fresh, rest=tuple(rest))
        known = points(self.manifest, manifest.sources, tables.values(), manifest.points)
        return replace(manifest, tables=tables, points=known)

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
                while True:
                    for step in steps:
                        marks[step.table] = self._take(step, status.batch, overrule=True)
                    if self.tables.settle():
                        break
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                self.tables.forget()
                failed[key] = failure(error)
            else:
                state = state.with_status(SET_ASIDE, replace(status, batch=0))
                self.manifest = _with_marks(self.manifest.updated({key: state}), marks, [key])
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
        self.tables.forget()
        self._undo()

    def _undo(self) -> None:
        """Remove the files of batches that were never prepared, and the notes of them."""
        found: dict[int, set[Path]] = {}
        notes = self._making.notes()
        for note in notes:
            with reading_file(note, "where the files of a batch are"):
                content = read_json(note)
                folders = [
                    within(self.tables.top, self.tables.top / each) for each in content["folders"]
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
        self.tables.clean(self.manifest.version)


def _with_marks(
    manifest: Manifest, marks: Mapping[str, str | None], keys: Iterable[str] | None
) -> Manifest:
    """The manifest with the marks of its tables, by key; None is one that is not known."""
    fresh: dict[str, TableState] = {}
    for key in manifest.keys_of_tables(keys):
        state = manifest.tables[key]
        parts = {part: name for part, name in state.parts.items() if name in marks}
        parts.pop("changelog", None)  # others may write to that
        known = {**state.marks, **{part: marks[name] for part, name in parts.items()}}
        now = {part: mark for part, mark in known.items() if mark is not None}
        if now != state.marks:
            fresh[key] = replace(state, marks=now)
    return manifest.updated(fresh) if fresh else manifest


def _waiting(manifest: Manifest) -> set[str]:
    """The lake's tables that have not taken a batch yet."""
    return {
        name
        for key, status in set_aside(manifest).items()
        if status.batch
        for name in manifest.tables[key].parts.values()
    }
