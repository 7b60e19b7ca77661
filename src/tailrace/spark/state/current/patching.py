"""When a table's changes are kept separately from its files, and the state that results.

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

from tailrace.spark.parquet.deleted import NO_ROWS, joined
from tailrace.spark.state.current.jobs import NOTHING
from tailrace.spark.state.current.patch import PatchJob
from tailrace.spark.state.current.rows import ROW_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tailrace.spark.manifest.manifest import DataFile, TableRows
    from tailrace.spark.parquet.deleted import Rows
    from tailrace.spark.parquet.file import DataFolder
    from tailrace.spark.state.built import State
    from tailrace.spark.state.current.jobs import Done, Written
    from tailrace.spark.state.current.plan import TablePlan


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


def parts(plan: TablePlan, before: State | None, limits: Patches | None) -> int:
    """How many jobs keep a table's changes separately; 0 where its buckets are rewritten."""
    if limits is None or before is None or plan.base is None or not plan.pieces:
        return 0
    current = before[0]
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


def jobs(
    plan: TablePlan,
    before: State,
    count: int,
    spills: Mapping[int, Sequence[str]],
    limits: Patches,
    out: DataFolder,
) -> list[PatchJob]:
    """The jobs that keep a table's changes separately from its files, ``count`` or fewer."""
    if plan.base is None:
        return []
    base, current = plan.base, before[0]
    taken = swallowed(current.tails, plan.changed, limits)
    worn = _worn(current, plan.fresh, limits)
    found = []
    for part in range(count):
        cut = tuple(spills.get(part, ()))
        if count > 1 and not cut and not taken:
            continue
        files = [file for file in (*current.files[part::count], *current.tails) if file is not None]
        due = [bucket for bucket in worn if bucket % count == part]
        rewrites = tuple(path for each in due if (path := base.paths[each]) is not None)
        found.append(
            PatchJob(
                plan.target,
                base.only(base.paths[part::count], base.tails),
                plan.pieces if count == 1 else (),
                cut,
                False,
                out,
                part,
                count,
                taken,
                _key_bytes(plan, files) + plan.fresh // count + sum(worn[bucket] for bucket in due),
                rewrites,
            )
        )
    return found


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


def patched(
    before: State, taken: int, results: Sequence[Done]
) -> tuple[TableRows, tuple[str | None, ...], dict[str, Rows]]:
    """A table's files after its jobs, their paths, and the rows of them that are deleted now.

    Files with all rows deleted are left out. ``taken`` are the tails that went into new ones.
    """
    deleted: dict[str, Rows] = {}
    for result in results:
        for path, rows in result.deleted.items():
            deleted[path] = joined(deleted.get(path, NO_ROWS), rows)
    rewritten = {path: new for result in results for path, new in result.rewritten.items()}
    current, paths = before
    kept = len(current.places) - taken
    placed = [
        rewritten[path] if path in rewritten else _without(file, path, deleted)
        for file, path in zip(current.places[:kept], paths[:kept], strict=True)
    ]
    count = len(current.files)
    fresh = [result.open for result in results]
    tails = [(file, path) for file, path in (*placed[count:], *fresh) if file is not None]
    current = replace(
        current,
        files=tuple(file for file, _ in placed[:count]),
        tails=tuple(file for file, _ in tails),
        unseen=current.unseen + sum(result.unseen for result in results),
    )
    found = (*(path for _, path in placed[:count]), *(path for _, path in tails))
    return current, found, {path: deleted[path] for path in found if path in deleted}


def _without(file: DataFile | None, path: str | None, deleted: Mapping[str, Rows]) -> Written:
    """A file without the rows that are deleted now; none where none is left."""
    if file is None or path is None or path not in deleted:
        return file, path
    count = file.deleted + len(deleted[path])
    now = replace(file, deleted=count, spent=file.spent + _vector_bytes(file.rows, count))
    return (now, path) if now.live else NOTHING


def _vector_bytes(rows: int, deleted: int) -> int:
    """About the bytes of a file's deletion vector: two for each row, or a bit for each of all."""
    return _VECTOR_HEAD + min(2 * deleted, rows >> 3)
