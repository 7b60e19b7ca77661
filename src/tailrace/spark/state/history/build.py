"""Making the histories of all tables: stages, plans, jobs, and what the jobs gave."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import replace
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.manifest.manifest import DataFile, TableRows
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.built import Built, ClosedFile, failed, unsupported
from tailrace.spark.state.current.build import NO_KEYS, cut_all, grouped, table_changes
from tailrace.spark.state.current.conform import RefusedError
from tailrace.spark.state.current.given import keyed
from tailrace.spark.state.current.plan import plan_table
from tailrace.spark.state.failure import Failure, failure
from tailrace.spark.state.history.jobs import HISTORY_FIELDS, End, VersionsJob, versions_all
from tailrace.spark.state.history.stages import stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.built import State
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.current.build import SourceChanges
    from tailrace.spark.state.current.lineage import Life
    from tailrace.spark.state.current.plan import TablePlan
    from tailrace.spark.state.history.jobs import Bucket, Written
    from tailrace.spark.state.history.stages import Stage


_OURS = tuple(field.name for field in HISTORY_FIELDS)
_STAMP = "_valid_from"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def build_history(
    sources: Sequence[SourceChanges],
    run: Runner,
    folder: Path,
    keys: Mapping[str, tuple[str, ...]] = NO_KEYS,
) -> dict[str, Built]:
    """The histories of the sources' tables, each after its source's splits.

    As `tailrace.spark.state.rows.build.build`; a table that was dropped keeps its history.
    """
    built: dict[str, Built] = {}
    for number, source in enumerate(sources):
        files = keyed(source.files, keys)
        found = stages(source.histories, files, table_changes(source.splits), source.wanted)
        place = folder / str(number)
        place.mkdir()
        made = _Run(source, files, keys, run, place).make(found)
        names = {stage.table for stage in found if source.wanted(stage.table)}
        for name in names - source.aside - source.strangers:
            mine = {s: made[s] for s in found if s.table == name and s in made}
            known = source.histories.get(name)
            cause = next((each.failed for each in mine.values() if each.failed is not None), None)
            if cause is not None and known is None and cause.origins and _is_over(mine):
                continue  # a table that is set aside had the name for a moment
            if cause is not None:
                built[name] = failed(cause)
            elif mine:
                built[name] = _together(known, mine)
            elif known is not None:
                built[name] = Built(*known)
    return built


def _is_over(mine: Mapping[Stage, Built]) -> bool:
    """Whether no table has the name any more."""
    return next(reversed([*mine])).high is not None


def _together(before: State | None, mine: dict[Stage, Built]) -> Built:
    """A table's history out of its stages; the last stage's rows are open unless it has an end."""
    made = list(mine.values())
    left = next(reversed(mine)).high is None
    last = made[-1].rows
    known = before[0] if before is not None else None
    columns = last.columns
    if last.refused is not None and known is not None:
        columns = known.columns  # its closed files have them
    paths = made[-1].paths if left else (None,) * len(made[-1].paths)
    gaps = dict.fromkeys((*(known.gaps if known is not None else ()), *_gaps(mine)))
    history = TableRows(
        columns,
        last.key,
        last.files if left else (None,) * len(last.files),
        last.refused if left else None,  # the rejected rows are gone
        last.unseen,
        last.notes,
        last.unlogged,
        last.added,
        closed=known.closed if known is not None else (),
        gaps=tuple(gaps),
    )
    closed = tuple(each for stage in made for each in stage.closed)
    return Built(history, paths, closed, sum(stage.seconds for stage in made))


def _gaps(mine: Mapping[Stage, Built]) -> Iterator[str]:
    """The messages about stages without versions, where the table was recreated since."""
    following = [made.rows.refused for made in mine.values()][1:]
    for (stage, made), later in zip_longest(mine.items(), following):
        if made.rows.refused is not None and later is None and stage.end is not None:
            until = _EPOCH + dt.timedelta(microseconds=stage.end.micros)
            yield f"not all versions until {until:%Y-%m-%d %H:%M:%S.%f} UTC: {made.rows.refused}"


class _Run:
    """Makes the stages of one source."""

    def __init__(
        self,
        source: SourceChanges,
        files: Mapping[str, Sequence[ChangeFile]],
        keys: Mapping[str, tuple[str, ...]],
        run: Runner,
        folder: Path,
    ) -> None:
        self._source = source
        self._files = files
        self._keys = keys
        self._run = run
        self._folder = folder
        self._made: dict[Stage, Built] = {}

    def make(self, found: Sequence[Stage]) -> dict[Stage, Built]:
        """All of them, side by side those that need not wait for each other.

        A stage of which nothing is known, neither rows nor columns, is not in the result.
        """
        for depth, wave in groupby(sorted(found, key=lambda each: each.depth), lambda s: s.depth):
            place = self._folder / str(depth)
            place.mkdir()
            self._wave(list(wave), place)
        return self._made

    def _wave(self, wave: Sequence[Stage], folder: Path) -> None:
        plans: dict[str, TablePlan] = {}
        named: dict[str, Stage] = {}
        for number, stage in enumerate(wave):
            if (cause := self._cannot(stage)) is not None:
                self._made[stage] = failed(cause)
                continue
            try:
                plan = self._plan(stage, stage.life)
                begun = self._kept(stage, plan) if plan is not None else self._empty(stage)
            except RefusedError as error:
                self._made[stage] = unsupported(str(error))
                continue
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                self._made[stage] = failed(failure(error))
                continue
            if plan is not None:
                plans[str(number)], named[str(number)] = plan, stage
            if begun is not None:
                self._made[stage] = begun
        self._work(plans, named, folder)
        made = self._made
        self._stop([each for each in wave if each in made and made[each].rows.refused], folder)

    def _cannot(self, stage: Stage) -> Failure | None:
        """Why a stage cannot be made: a table is set aside, or a stage before has failed."""
        names = (stage.table, stage.base, stage.after.table if stage.after is not None else None)
        cause = self._source.lacking(names)
        had = stage.unknown if stage.after is None else stage.after.base
        cause = cause or self._source.outdated(had)
        if cause is not None:
            return cause
        for other in (stage.after, stage.emptied):
            before = self._made.get(other) if other is not None else None
            if before is not None and before.failed is not None:
                return before.failed
        return None

    def _rows(self, stage: Stage) -> State | None:
        """What a stage begins with."""
        if stage.after is not None:
            before = self._made.get(stage.after)
            return (before.rows, before.paths) if before is not None else None
        if stage.base is not None:
            history, paths = self._source.histories[stage.base]
            gone = not history.key and history.refused is None
            return None if gone else (history, paths)
        return None

    def _plan(self, stage: Stage, life: Life) -> TablePlan | None:
        rows = self._rows(stage)
        plan = plan_table(
            life,
            self._files,
            {"": rows} if rows is not None else {},
            given=self._keys,
            shard=self._source.shard,
            ours=_OURS,
        )
        if plan is None or plan.base is None:
            return plan
        return replace(plan, base=replace(plan.base, stamp=_STAMP))

    def _kept(self, stage: Stage, plan: TablePlan) -> Built:
        """A stage with the files that stay, if any."""
        rows = self._rows(stage)
        files: tuple[DataFile | None, ...] = (None,) * plan.buckets
        paths: tuple[str | None, ...] = (None,) * plan.buckets
        if rows is not None and len(rows[1]) == plan.buckets and not plan.reshaped:
            files, paths = rows[0].files, rows[1]
        unseen = rows[0].unseen if rows is not None else 0
        target = plan.target
        return Built(
            TableRows(
                target.columns,
                target.key,
                files,
                None,
                unseen,
                plan.notes,
                plan.unlogged,
                plan.added,
            ),
            paths,
        )

    def _empty(self, stage: Stage) -> Built | None:
        """A stage without rows, in the columns that its table had before."""
        before = self._made.get(stage.emptied) if stage.emptied is not None else None
        if before is None or before.rows.refused:
            return None
        return Built(replace(before.rows, files=(None,), unseen=0), (None,))

    def _work(
        self, plans: Mapping[str, TablePlan], named: Mapping[str, Stage], folder: Path
    ) -> None:
        spills = cut_all(plans, self._run, folder, every=True)
        jobs: list[tuple[Stage, int, VersionsJob]] = []
        sizes: list[int] = []
        for number, plan in plans.items():
            stage, spilled = named[number], spills.get(number, {})
            if isinstance(spilled, Failure):
                self._made[stage] = failed(spilled)
                continue
            if isinstance(spilled, str):
                self._made[stage] = unsupported(spilled)
                continue
            for bucket in range(plan.buckets):
                name = f"{number}-{bucket}"
                cut = tuple(spilled.get(bucket, ()))
                try:
                    job = _job(plan, stage.end, bucket, cut, folder / name)
                except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                    self._made[stage] = failed(failure(error))
                    break
                if job is not None:
                    jobs.append((stage, bucket, job))
                    sizes.append(plan.memory // plan.buckets)
        results = self._run_all([job for _, _, job in jobs], sizes)
        for (stage, bucket, _), result in zip(jobs, results, strict=True):
            self._made[stage] = _with(self._made[stage], bucket, result)

    def _stop(self, refused: Sequence[Stage], folder: Path) -> None:
        """End the versions that stages began with whose changes cannot be carried out.

        They end with the first of these changes.
        """
        jobs: list[tuple[Stage, VersionsJob]] = []
        sizes: list[int] = []
        for number, stage in enumerate(refused):
            try:
                plan = self._plan(stage, stage.begun)
                base = plan.base if plan is not None else None
                if plan is None or base is None or not any(base.paths):
                    continue
                end = End(stage.altered_at or self._first_change(stage))
            except RefusedError:  # not even that can be told
                continue
            except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
                self._made[stage] = failed(failure(error))
                continue
            for bucket, path in enumerate(base.paths):
                outputs = _outputs(folder / f"stopped-{number}-{bucket}")
                job = VersionsJob(plan.target, base.only([path]), (), (), False, end, *outputs)
                jobs.append((stage, job))
                sizes.append(plan.memory // len(base.paths))
        results = self._run_all([job for _, job in jobs], sizes)
        for (stage, job), result in zip(jobs, results, strict=True):
            made = self._made[stage]
            if isinstance(result, Failure) or made.failed is not None:
                cause = result if isinstance(result, Failure) else made.failed
                self._made[stage] = replace(made, failed=cause)
                continue
            closed = (*made.closed, *_closed(result, job.target.columns))
            self._made[stage] = replace(made, closed=closed)

    def _first_change(self, stage: Stage) -> int:
        """When the first change of a stage was committed, in microseconds UTC."""
        low = pa.scalar(decimal.Decimal(stage.low), pa.decimal128(38, 0))
        times = (
            rows.filter(pc.greater_equal(rows.column("_seq"), low)).column("_ts")
            for file in self._files[stage.table]
            if file.last >= stage.low
            for rows in row_groups(file.path, ["_seq", "_ts"])
        )
        first = next(each[0] for each in times if len(each))
        micros: int = first.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).as_py()
        return micros

    def _run_all(self, jobs: Sequence[VersionsJob], sizes: Sequence[int]) -> list[Bucket | Failure]:
        groups = grouped(list(zip(jobs, sizes, strict=True)))
        return [each for group in self._run(versions_all, groups) for each in group]


def _job(
    plan: TablePlan, end: End | None, bucket: int, spills: tuple[str, ...], out: Path
) -> VersionsJob | None:
    """The job for a bucket; None where what there is of it stays."""
    base = plan.base
    if base is not None and len(base.paths) == plan.buckets:
        base = replace(base, paths=(base.paths[bucket],))
    elif plan.buckets > 1:  # its rows are in the spills
        base = None
    there = base is not None and any(path is not None for path in base.paths)
    pieces = plan.pieces if plan.buckets == 1 else ()
    rewritten = there and (plan.reshaped or end is not None)
    if not (pieces or spills or rewritten):
        return None
    return VersionsJob(plan.target, base, pieces, spills, plan.partial, end, *_outputs(out))


def _outputs(out: Path) -> tuple[Path, Path]:
    """The files of open and of closed versions."""
    return out.with_name(f"{out.name}.parquet"), out.with_name(f"{out.name}.closed.parquet")


def _with(made: Built, bucket: int, result: Bucket | Failure) -> Built:
    """The stage with a bucket's new files."""
    if made.failed is not None:
        return made
    if isinstance(result, Failure):
        return failed(result)
    current = made.rows
    if result.refused is not None or current.refused is not None:
        return unsupported(current.refused or result.refused or "")
    files = (*current.files[:bucket], _file(result.open), *current.files[bucket + 1 :])
    paths = (*made.paths[:bucket], result.open.path, *made.paths[bucket + 1 :])
    current = replace(current, files=files, unseen=current.unseen + result.unseen)
    closed = (*made.closed, *_closed(result, current.columns))
    return Built(current, paths, closed, made.seconds + result.seconds)


def _closed(result: Bucket, columns: pa.Schema) -> tuple[ClosedFile, ...]:
    file, path = _file(result.closed), result.closed.path
    return () if file is None or path is None else (ClosedFile(file, path, columns),)


def _file(written: Written) -> DataFile | None:
    if written.path is None:
        return None
    return DataFile("", written.rows, written.size, written.memory)
