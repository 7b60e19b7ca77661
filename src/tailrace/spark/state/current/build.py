"""Making the current state of all tables: plans, jobs, and what the jobs gave."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tailrace.spark.manifest.manifest import DataFile, TableRows
from tailrace.spark.state.built import Built, failed, unsupported
from tailrace.spark.state.current.conform import RefusedError
from tailrace.spark.state.current.given import keyed
from tailrace.spark.state.current.jobs import CutJob, FoldJob, cut, fold_all
from tailrace.spark.state.current.lineage import lives
from tailrace.spark.state.current.patch import patch
from tailrace.spark.state.current.patching import DEFAULT_PATCHES, jobs, parts, patched
from tailrace.spark.state.current.plan import has_begun, plan_table
from tailrace.spark.state.failure import Failure, attempt, failure, rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.columns import Split, TableChange
    from tailrace.spark.parquet.deleted import DeletedRows
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.built import State
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.current.jobs import Folded
    from tailrace.spark.state.current.lineage import Life
    from tailrace.spark.state.current.patch import Patched, PatchJob
    from tailrace.spark.state.current.patching import Patches
    from tailrace.spark.state.current.pieces import Base, Piece
    from tailrace.spark.state.current.plan import TablePlan


NO_KEYS: Final[Mapping[str, tuple[str, ...]]] = {}
_GROUP_BYTES: Final = 16 << 20
_GROUP_JOBS: Final = 8


Job = TypeVar("Job")
Worked = TypeVar("Worked")


def table_changes(splits: Sequence[Split]) -> list[TableChange]:
    """What statements in the splits did to tables, in order; those before a split are left out."""
    found = [
        change
        for split in splits
        for change in split.changes
        if split.start <= change.offset < split.end
    ]
    return sorted(found, key=lambda change: change.seq)


@dataclass(frozen=True)
class SourceChanges:
    """What a run found of one source.

    ``files`` are the changelog files of its ``splits`` by table, in log order; ``wanted`` tells the
    tables whose rows are read, by name; ``committed`` are the current states of its tables before,
    with the paths of their files, ``deleted`` gives the deleted rows of one by path, and
    ``histories`` has their histories, with the paths of the files of open versions. With ``shard``
    rows have a column ``_source`` of that value. Tables that are
    ``aside`` are not worked on, nor ``strangers``, whose rows from before the splits are not read.
    Tables that are ``restarted`` were aside so far: the splits begin with the statement that
    empties, drops, recreates or renames each of them.
    """

    splits: Sequence[Split]
    files: Mapping[str, Sequence[ChangeFile]]
    committed: Mapping[str, State]
    histories: Mapping[str, State] = field(default_factory=dict)
    shard: str | None = None
    aside: frozenset[str] = frozenset()
    strangers: frozenset[str] = frozenset()
    restarted: frozenset[str] = frozenset()
    wanted: Callable[[str], bool] = lambda _: True
    deleted: Callable[[str], Mapping[str, DeletedRows]] = lambda _: {}

    def lacking(self, names: Iterable[str | None]) -> Failure | None:
        """The failure of a table that has rows of the tables ``names``, where these are missing."""
        given = list(dict.fromkeys(name for name in names if name is not None))
        if found := tuple(name for name in given if name in self.aside):
            return Failure(f"it has rows of {', '.join(found)}, which is set aside", found)
        if found := tuple(name for name in given if name in self.strangers):
            return Failure(
                f"it has rows of {', '.join(found)} from before it was set aside (RENAME TABLE), "
                "and to read these again takes the log from the lake's begin on"
            )
        return None

    def outdated(self, before: str | None) -> Failure | None:
        """The failure of a table that had the name ``before``, of a restarted one: RENAME TABLE
        alone does not bring its rows back.
        """
        if before is None or before not in self.restarted:
            return None
        return rejection(f"it has rows of {before}, which is set aside", (before,))


def build(
    sources: Sequence[SourceChanges],
    run: Runner,
    folder: Path,
    keys: Mapping[str, tuple[str, ...]] = NO_KEYS,
    patches: Patches | None = None,
) -> dict[str, Built]:
    """The current states of the sources' tables, each after its source's splits.

    ``run`` runs jobs, in tasks or here; ``folder`` is there and takes the new files; ``keys`` are
    those that a user gave, by table. With ``patches`` changes may be kept separately from a table's
    files. A table that is not in the result no longer exists.
    """
    built: dict[str, Built] = {}
    plans: dict[str, TablePlan] = {}
    begins: dict[str, State | None] = {}
    counts: dict[str, int] = {}
    ended: dict[str, tuple[SourceChanges, Life]] = {}  # if these are rejected
    for source in sources:
        files = keyed(source.files, keys)
        found = lives(source.committed, files, table_changes(source.splits), source.wanted)
        for name, life in found.items():
            if name in source.aside | source.strangers:
                continue
            cause = source.lacking(_names(life)) or source.outdated(life.had)
            if cause is not None:
                built[name] = _last(source, name, life, cause)
                continue
            before = _before(source, life)
            if has_begun(life, files, source.committed):
                ended[name] = source, life
            try:
                plan = plan_table(life, files, source.committed, given=keys, shard=source.shard)
                plan = _with_deleted(plan, source, life)
                count = parts(plan, before, patches) if plan is not None else 0
            except RefusedError as error:
                built[name] = unsupported(str(error))
                continue
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                built[name] = failed(failure(error))
                continue
            if plan is not None:
                plans[name] = plan
                begins[name] = before
                if count:
                    counts[name] = count
    built |= _Making(plans, begins, counts, run, folder, patches).make()
    for name in built.keys() & ended.keys():
        if (reason := built[name].rows.refused) is not None:
            last = _last(ended[name][0], name, ended[name][1], rejection(reason))
            built[name] = last if last.moved else replace(built[name], failed=last.failed)
    return built


def with_a_begin(source: SourceChanges, keys: Mapping[str, tuple[str, ...]] = NO_KEYS) -> set[str]:
    """The tables that had a history (`has_begun`)."""
    files = keyed(source.files, keys)
    found = lives(source.histories, files, table_changes(source.splits), source.wanted)
    return {name for name, life in found.items() if has_begun(life, files, source.histories)}


def _names(life: Life) -> Iterator[str | None]:
    """The tables whose rows it has."""
    yield life.base
    for segment in life.segments:
        yield segment.table


def _last(source: SourceChanges, name: str, life: Life, cause: Failure) -> Built:
    """A table that cannot be made, with the last state that it had under another name, unless that
    one stands still.
    """
    base = None if life.base == name or life.base in source.aside else life.base
    before = None if base is None else source.committed.get(base)
    if before is None or before[0].refused is not None:
        return failed(cause)
    return Built(*before, failed=cause, moved=True)


def _with_deleted(plan: TablePlan | None, source: SourceChanges, life: Life) -> TablePlan | None:
    """The plan with the deleted rows of its base's files, which only tables with any have."""
    before = _before(source, life)
    if plan is None or plan.base is None or before is None or life.base is None:
        return plan
    if not any(file.deleted for file in before[0].data):
        return plan
    return replace(plan, base=replace(plan.base, deleted=source.deleted(life.base)))


def _before(source: SourceChanges, life: Life) -> State | None:
    return source.committed[life.base] if life.base is not None else None


class _Making:
    """Makes the current states of tables by their plans, from the states that they begin with.

    ``counts`` has the tables whose changes are kept separately from their files, and the number of
    parts.
    """

    def __init__(
        self,
        plans: Mapping[str, TablePlan],
        begins: Mapping[str, State | None],
        counts: Mapping[str, int],
        run: Runner,
        folder: Path,
        patches: Patches | None,
    ) -> None:
        self._plans = plans
        self._begins = begins
        self._run = run
        self._folder = folder
        self._limits = patches or DEFAULT_PATCHES
        self._parts = counts
        self._built: dict[str, Built] = {}

    def make(self) -> dict[str, Built]:
        """All of them."""
        cut = {
            name: plan if name not in self._parts else _changes_of(plan, self._parts[name])
            for name, plan in self._plans.items()
        }
        spills: dict[str, dict[int, list[str]]] = {}
        for name, found in cut_all(cut, self._run, self._folder).items():
            if isinstance(found, str):
                self._built[name] = unsupported(found)
            elif isinstance(found, Failure):
                self._built[name] = failed(found)
            else:
                spills[name] = found
        rest = [name for name in self._plans if name not in self._built]
        for name in rest:
            patch = name in self._parts
            self._built[name] = _kept(self._plans[name], self._begins[name], patch=patch)
        self._patch([name for name in rest if name in self._parts], spills)
        self._fold([name for name in rest if name not in self._parts], spills)
        return self._built

    def _guarded(self, name: str, work: Callable[[], Worked]) -> Worked | None:
        """What is worked out for a table; None where that fails, as its result says then."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
            self._built[name] = failed(failure(error))
            return None

    def _patch(
        self, names: Sequence[str], spills: Mapping[str, Mapping[int, Sequence[str]]]
    ) -> None:
        made: dict[str, list[PatchJob]] = {}
        for name in names:
            built, cut = self._built[name], spills.get(name, {})
            out = self._folder / f"tail-{len(made)}"
            state, count = (built.rows, built.paths), self._parts[name]
            plan = self._plans[name]
            work = partial(jobs, plan, state, count, cut, self._limits, out)
            if (found := self._guarded(name, work)) is not None:
                made[name] = found
        every = [job for each in made.values() for job in each]
        results = iter(self._run(partial(attempt, patch), every))
        for name, each in made.items():
            done = [next(results) for _ in each]
            work_up = partial(_with_patches, self._built[name], each, done)
            if (built_up := self._guarded(name, work_up)) is not None:
                self._built[name] = built_up

    def _fold(
        self, names: Sequence[str], spills: Mapping[str, Mapping[int, Sequence[str]]]
    ) -> None:
        made: list[tuple[str, int, FoldJob]] = []
        for name in names:
            plan, spilled = self._plans[name], spills.get(name, {})
            for bucket in range(plan.buckets):
                out = self._folder / f"{len(made)}.parquet"
                cut = tuple(spilled.get(bucket, ()))
                job = self._guarded(name, partial(_job, plan, bucket, cut, out))
                if job is not None:
                    made.append((name, bucket, job))
        sizes = {name: self._plans[name].memory // self._plans[name].buckets for name in names}
        groups = grouped([(job, sizes[name]) for name, _, job in made])
        results = [folded for group in self._run(fold_all, groups) for folded in group]
        for (name, bucket, _), result in zip(made, results, strict=True):
            self._built[name] = _with(self._built[name], bucket, result)


def _changes_of(plan: TablePlan, count: int) -> TablePlan:
    """The plan of its changes alone, in so many buckets."""
    return replace(plan, base=None, buckets=count)


def grouped(jobs: Sequence[tuple[Job, int]]) -> list[tuple[Job, ...]]:
    """Put small jobs together: a task costs some time of its own. In order, each with its size."""
    groups: list[tuple[Job, ...]] = []
    room = 0
    for job, size in jobs:
        if groups and size <= room and len(groups[-1]) < _GROUP_JOBS:
            groups[-1] = (*groups[-1], job)
            room -= size
        else:
            groups.append((job,))
            room = _GROUP_BYTES - size
    return groups


def cut_all(
    plans: Mapping[str, TablePlan], run: Runner, folder: Path, *, every: bool = False
) -> dict[str, dict[int, list[str]] | str | Failure]:
    """Cut the changes of tables with several buckets; spill files by bucket, or why there are none.

    ``every`` keeps every change, and not only the last of each key.
    """
    jobs: list[tuple[str, CutJob]] = []
    for name, plan in plans.items():
        if plan.buckets == 1:
            continue
        for source in _to_cut(plan):
            spill = folder / "spill" / str(len(jobs))
            job = CutJob(plan.target, source, plan.buckets, plan.partial, spill, every)
            jobs.append((name, job))
    spills: dict[str, dict[int, list[str]] | str | Failure] = {}
    results = run(partial(attempt, cut), [job for _, job in jobs])
    for (name, _), result in zip(jobs, results, strict=True):
        known = spills.setdefault(name, {})
        if not isinstance(known, dict):
            continue
        if not isinstance(result, dict):
            spills[name] = result
            continue
        for bucket, paths in result.items():
            known.setdefault(bucket, []).extend(paths)
    return spills


def _to_cut(plan: TablePlan) -> Iterator[Piece | Base]:
    """What has rows or changes of several buckets, in order: each file is a source by itself."""
    base = plan.base
    if base is not None and (plan.pieces or plan.reshaped):
        paths = base.paths if len(base.paths) != plan.buckets else ()
        for path in (*paths, *base.tails):
            if path is not None:
                yield base.only((path,))
    yield from plan.pieces


def _job(plan: TablePlan, bucket: int, spills: tuple[str, ...], out: Path) -> FoldJob | None:
    """The job for a bucket; None where what is committed of it stays."""
    base = plan.base
    if plan.buckets == 1:
        if base is not None and not plan.pieces and not plan.reshaped:
            return None
        return FoldJob(plan.target, base, plan.pieces, (), plan.partial, out)
    if base is not None and len(base.paths) == plan.buckets:
        base = base.only((base.paths[bucket],))
        if not spills and (not plan.reshaped or base.paths == (None,)):
            return None
    elif not spills:
        return None
    else:
        base = None
    return FoldJob(plan.target, base, (), spills, plan.partial, out)


def _kept(plan: TablePlan, before: State | None, *, patch: bool) -> Built:
    """A table's state with the files that stay, if any; tails do if nothing is folded."""
    files: tuple[DataFile | None, ...] = (None,) * plan.buckets
    paths: tuple[str | None, ...] = (None,) * plan.buckets
    tails: tuple[DataFile, ...] = ()
    unseen = 0
    if before is not None:
        known, unseen = before[0], before[0].unseen
        if len(known.files) == plan.buckets and not plan.reshaped:
            files, paths = known.files, before[1][: plan.buckets]
            if patch or not plan.pieces:
                tails, paths = known.tails, before[1]
    target = plan.target
    current = TableRows(
        target.columns,
        target.key,
        files,
        None,
        unseen,
        plan.notes,
        plan.unlogged,
        plan.added,
        tails,
    )
    return Built(current, paths)


def _with_patches(
    built: Built, jobs: Sequence[PatchJob], results: Sequence[Patched | Failure]
) -> Built:
    """The state with the tails and deleted rows that jobs have made for its files."""
    done: list[Patched] = []
    for result in results:
        if isinstance(result, Failure):
            return failed(result)
        if result.refused is not None:
            return unsupported(result.refused)
        done.append(result)
    current, paths, deleted = patched((built.rows, built.paths), jobs, done)
    return Built(current, paths, seconds=sum(result.seconds for result in done), deleted=deleted)


def _with(built: Built, bucket: int, result: Folded | Failure) -> Built:
    """The state with a bucket's new file."""
    if built.failed is not None:
        return built
    if isinstance(result, Failure):
        return failed(result)
    current = built.rows
    if result.refused is not None or current.refused is not None:
        return unsupported(current.refused or result.refused or "")
    file = DataFile("", result.rows, result.size, result.memory)
    files = (*current.files[:bucket], file, *current.files[bucket + 1 :])
    paths = (*built.paths[:bucket], result.path, *built.paths[bucket + 1 :])
    current = replace(current, files=files, unseen=current.unseen + result.unseen)
    return Built(current, paths, seconds=built.seconds + result.seconds)
