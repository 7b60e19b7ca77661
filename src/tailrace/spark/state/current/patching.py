"""A table whose changes are kept separately from its files: a tail of new rows, and deleted rows.

A fold writes a bucket again; here the rows that changed are found by their keys, and no
other column of the files is read. docs/design/amplification.md has what that saves.

The rows of a bucket are the rows of its file that are not deleted, and rows of tails. Tails are
files of newer rows, of any buckets. Each batch adds one or replaces the last, and small tails are
compacted into larger ones, so that there are few. Once a share of the table's rows is deleted or in
tails, the jobs of `tailrace.spark.state.current.jobs` rewrite its buckets.

A batch that deletes rows of a file writes the file's deletion vector, which has all its deleted
rows. Once its vectors have taken as many bytes as a bucket's file, it is rewritten without these
rows: so both together cost at most twice what the best moment would, for any sequence of batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.spark.manifest.manifest import DataFile
from tailrace.spark.parquet.deleted import NO_ROWS, joined, without
from tailrace.spark.parquet.footer import row_groups
from tailrace.spark.state.built import Built
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.finding import find
from tailrace.spark.state.current.fold import alive, as_entries, key_columns, merge
from tailrace.spark.state.current.jobs import NOTHING, Done, Unit, Work, gathered
from tailrace.spark.state.current.keys import buckets
from tailrace.spark.state.current.rows import ROW_GROUP, empty_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.spark.manifest.manifest import TableRows
    from tailrace.spark.parquet.deleted import Rows
    from tailrace.spark.state.built import State
    from tailrace.spark.state.current.jobs import Spills, Written
    from tailrace.spark.state.current.plan import TablePlan
    from tailrace.spark.state.current.rows import Base


@dataclass(frozen=True)
class Patches:
    """Limits. A table of fewer than ``least`` bytes in memory is rewritten, which costs little.

    One ``share``-th of a table's rows may be in tails, or deleted. So many tails of about a size,
    ``together``, become one; a tail of fewer than ``small`` bytes is always taken into the next, so
    that a single change meets one file and one tail. A file is rewritten once its deletion
    vectors have taken ``worn`` times its own bytes. A batch rewrites one such file, and more
    while they have at most ``spread`` times the bytes of its changes. A job takes at most about
    ``changes`` bytes of changes, and looks for their keys in ``table`` bytes of rows, both as they
    are in memory.
    """

    least: int = 256 << 10
    share: int = 10
    together: int = 4
    small: int = 16 << 10
    worn: float = 1
    spread: int = 8
    changes: int = 32 << 20
    table: int = 4 << 30


DEFAULT_PATCHES: Final = Patches()
_VECTOR_HEAD: Final = 40


def parts(plan: TablePlan, limits: Patches) -> int:
    """How many jobs keep a table's changes separately; 0 where its buckets are rewritten."""
    if plan.before is None or plan.base is None or not plan.pieces:
        return 0
    current, _ = plan.before
    if plan.reshaped or plan.partial or plan.memory - plan.fresh < limits.least:
        return 0
    stale = sum(file.deleted for file in current.data)
    newer = sum(file.rows for file in current.tails)
    if (max(stale, newer) + plan.changed) * limits.share > current.rows:
        return 0
    searched = _searched_share(current.data, plan.changed) * plan.memory
    wanted = 1
    while wanted < plan.buckets and (
        wanted * limits.changes < plan.fresh or wanted * limits.table < searched
    ):
        wanted *= 2
    return wanted


@dataclass(frozen=True)
class PatchedTable(Unit):
    """A table whose changes are kept separately from its files, by jobs for ``count`` parts."""

    count: int
    limits: Patches

    @property
    def to_cut(self) -> TablePlan:
        return replace(self.plan, base=None, buckets=self.count)

    def size(self, job: Work) -> int:
        return job.reads

    @property
    def _state(self) -> State:
        begun = self.kept(tails=True)
        return begun.rows, begun.paths

    def jobs(self, spills: Spills) -> dict[int, Work]:
        plan, base, (current, _) = self.plan, self.plan.base, self._state
        if base is None:
            return {}
        count, taken = self.count, swallowed(current.tails, plan.changed, self.limits)
        worn = _worn(current, plan.fresh, self.limits)
        found: dict[int, Work] = {}
        for part in range(count):
            cut = tuple(spills.get(part, ()))
            if count > 1 and not cut and not taken:
                continue
            places = (*current.files[part::count], *current.tails)
            files = [file for file in places if file is not None]
            mine = [path if at % count == part else None for at, path in enumerate(base.paths)]
            due = [bucket for bucket in worn if bucket % count == part]
            size = _key_bytes(plan, files) + plan.fresh // count + sum(worn[each] for each in due)
            found[part] = PatchJob(
                plan.target,
                base.only(mine, base.tails),
                plan.pieces if count == 1 else (),
                cut,
                False,
                self.out(),
                part,
                count,
                base.tails[len(base.tails) - taken :],
                size,
                tuple(path for each in due if (path := base.paths[each]) is not None),
            )
        return found

    def built(self, results: Mapping[int, Done]) -> Built:
        """The state after the jobs. Files with all rows deleted are left out."""
        done = [*results.values()]
        current, paths = self._state
        deleted: dict[str, Rows] = {}
        for result in done:
            for path, rows in result.deleted.items():
                deleted[path] = joined(deleted.get(path, NO_ROWS), rows)
        rewritten = {path: new for result in done for path, new in result.rewritten.items()}
        kept = len(current.places) - swallowed(current.tails, self.plan.changed, self.limits)
        placed = [
            rewritten[path] if path in rewritten else _without(file, path, deleted)
            for file, path in zip(current.places[:kept], paths[:kept], strict=True)
        ]
        count = len(current.files)
        fresh = [result.open for result in done]
        tails = [(file, path) for file, path in (*placed[count:], *fresh) if file is not None]
        state = replace(
            current,
            files=tuple(file for file, _ in placed[:count]),
            tails=tuple(file for file, _ in tails),
            unseen=current.unseen + sum(result.unseen for result in done),
        )
        found = (*(path for _, path in placed[:count]), *(path for _, path in tails))
        gone = {path: deleted[path] for path in found if path in deleted}
        return Built(state, found, seconds=sum(each.seconds for each in done), deleted=gone)


def _worn(current: TableRows, fresh: int, limits: Patches) -> dict[int, int]:
    """The buckets whose files this batch rewrites, and these files' bytes. The files whose deleted
    rows have cost the most, in proportion, come first.
    """
    found = [
        (file.spent / max(file.size, 1), bucket, file)
        for bucket, file in enumerate(current.files)
        if file is not None and file.spent > limits.worn * file.size
    ]
    chosen: dict[int, int] = {}
    room = fresh * limits.spread
    for _, bucket, file in sorted(found, key=lambda each: each[:2], reverse=True):
        if chosen and file.memory > room:
            break
        chosen[bucket] = file.size
        room -= file.memory
    return chosen


def _key_bytes(plan: TablePlan, files: Sequence[DataFile]) -> int:
    """About the bytes that are read of the key in files."""
    size = sum(file.size for file in files) * len(plan.target.key) // len(plan.target.columns)
    return int(size * _searched_share(files, plan.changed))


def _searched_share(files: Iterable[DataFile], changes: int) -> float:
    """About the share of the row groups that may have the keys of changes (`finding`), at most."""
    groups = sum(-(-file.rows // ROW_GROUP) for file in files)
    return min(1.0, changes / max(groups, 1))


def swallowed(tails: Sequence[DataFile], rows: int, limits: Patches) -> int:
    """How many of the last tails become one with a new one of so many rows."""
    taken = 0
    while rest := tails[: len(tails) - taken]:
        level = _level(rows, limits.together)
        levels = (_level(tail.live, limits.together) for tail in reversed(rest))
        run = next((number for number, each in enumerate(levels) if each > level), len(rest))
        if run < limits.together - 1:
            run = int(rest[-1].size < limits.small)
        if not run:
            break
        rows += sum(tail.live for tail in rest[-run:])
        taken += run
    return taken


def _level(rows: int, together: int) -> int:
    level = 0
    while rows >= together:
        rows //= together
        level += 1
    return level


def _without(file: DataFile | None, path: str | None, deleted: Mapping[str, Rows]) -> Written:
    """A file without the rows that are deleted now; none where none is left."""
    if file is None or path is None or path not in deleted:
        return file, path
    count = file.deleted + len(deleted[path])
    vector = _VECTOR_HEAD + min(2 * count, file.rows >> 3)  # two bytes a row, or a bit of all
    now = replace(file, deleted=count, spent=file.spent + vector)
    return (now, path) if now.live else NOTHING


@dataclass(frozen=True)
class PatchJob(Work):
    """Keep changes separately from the files of ``base``, in a file of their own.

    They are those of keys of one of some ``parts``, and the base has the bucket files of such keys;
    its tails are all that there are. The rows of the tails ``swallowed`` go into the new
    one. Bucket files in ``rewrites`` are written again without their deleted rows. It reads about
    ``size`` bytes: of most files keys alone.
    """

    base: Base
    part: int
    parts: int
    swallowed: tuple[str, ...]
    size: int
    rewrites: tuple[str, ...]

    @property
    def reads(self) -> int:
        return self.size

    def do(self) -> Done:
        """Find the rows that changed, and write the new ones. Raises `RejectedError`."""
        target, key = self.target, self.target.key
        fresh = as_entries(empty_rows(target))
        for _, tables in self.entries():  # they have the target's key
            fresh = gathered(fresh, tables, target)
        texts = [each for each in map(raw.beside, key) if each in fresh.schema.names]
        found, known = find(self.base, fresh.select([*key, *texts]), target)
        rows, unseen = alive(merge([as_entries(known), fresh], target))
        more = self._swallowed_rows(found)
        rows = pa.concat_tables([rows, *more], promote_options="default")
        tail = self.write(rows, self.out) if rows.num_rows else NOTHING
        rewritten = {path: self._rewritten(path, found) for path in self.rewrites}
        over = {*self.swallowed, *rewritten}
        gone = {path: each for path, each in found.items() if path not in over}
        return Done(tail, unseen=unseen, deleted=gone, rewritten=rewritten)

    def _swallowed_rows(self, found: Mapping[str, Rows]) -> Iterator[pa.Table]:
        """The live rows of the tails that go into the new one, of keys in the job's part."""
        for rows in self.base.only((), self.swallowed).rows(self.target, found):
            if self.parts == 1:
                yield rows
                continue
            places = buckets(key_columns([rows], self.target.key), self.parts)
            yield rows.filter(pa.array(places == self.part))

    def _rewritten(self, path: str, found: Mapping[str, Rows]) -> Written:
        """Write a bucket's file again, without its deleted rows, a row group at a time."""
        gone = self.base.gone(path, found)
        out = self.out.file("part", bounded=self.target.key)
        first = count = memory = 0
        for group in row_groups(path):
            kept = without(group, first, gone)
            first += group.num_rows
            count += kept.num_rows
            memory += kept.nbytes
            if kept.num_rows:
                out.write(kept.replace_schema_metadata())
        return (DataFile("", count, out.close(), memory), str(out.path)) if count else NOTHING
