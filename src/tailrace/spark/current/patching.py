"""When a table's changes are kept separately from its files, and the state that results.

The rows of a bucket are the rows of its file that are not deleted, and rows of tails. Tails are
files of newer rows, of any buckets. Each batch adds one, and small tails are compacted into larger
ones, so that there are few. Once a share of the table's rows is deleted or in tails, the jobs of
`tailrace.spark.current.jobs` rewrite its buckets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.spark.current.patch import PatchJob
from tailrace.spark.manifest.manifest import Current, DataFile
from tailrace.spark.parquet import hidden

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.current.patch import Patched
    from tailrace.spark.current.plan import TablePlan

    State = tuple[Current, tuple[str | None, ...]]


@dataclass(frozen=True)
class Patches:
    """Limits. A table of fewer than ``least`` bytes in memory is rewritten, which costs little.

    One ``share``-th of a table's rows may be deleted or in tails. So many tails of about a size,
    ``together``, become one. A job takes at most about ``changes`` bytes of changes, and looks for
    their keys in ``table`` bytes of rows, both as they are in memory.
    """

    least: int = 64 << 20
    share: int = 10
    together: int = 4
    changes: int = 32 << 20
    table: int = 4 << 30


DEFAULT_PATCHES: Final = Patches()


def parts(plan: TablePlan, before: State | None, limits: Patches | None) -> int:
    """How many jobs keep a table's changes separately; 0 where its buckets are rewritten."""
    if limits is None or before is None or plan.base is None or not plan.pieces:
        return 0
    current = before[0]
    if plan.reshaped or plan.partial or plan.memory - plan.fresh < limits.least:
        return 0
    stale = sum(hidden.count(file.hidden) for file in current.data)
    newer = sum(file.rows for file in current.tails)
    if (max(stale, newer) + plan.changed) * limits.share > current.rows:
        return 0
    wanted = 1
    while wanted < plan.buckets and (
        wanted * limits.changes < plan.fresh or wanted * limits.table < plan.memory
    ):
        wanted *= 2
    return wanted


def jobs(
    plan: TablePlan,
    before: State,
    count: int,
    spills: Mapping[int, Sequence[str]],
    limits: Patches,
    out: Path,
) -> list[PatchJob]:
    """The jobs that keep a table's changes separately from its files, ``count`` or fewer."""
    if plan.base is None:
        return []
    base, current = plan.base, before[0]
    taken = swallowed(current.tails, plan.changed, limits.together)
    found = []
    for part in range(count):
        cut = tuple(spills.get(part, ()))
        if count > 1 and not cut and not taken:
            continue
        files = [file for file in (*current.files[part::count], *current.tails) if file is not None]
        found.append(
            PatchJob(
                plan.target,
                base.only(base.paths[part::count], base.tails),
                plan.pieces if count == 1 else (),
                cut,
                part,
                count,
                taken,
                out.with_name(f"{out.name}-{part}.parquet"),
                _key_bytes(plan, files) + plan.fresh // count,
            )
        )
    return found


def _key_bytes(plan: TablePlan, files: Sequence[DataFile]) -> int:
    """About the bytes that the key takes in files."""
    return sum(file.size for file in files) * len(plan.target.key) // len(plan.target.columns)


def swallowed(tails: Sequence[DataFile], rows: int, together: int) -> int:
    """How many of the last tails become one with a new one of so many rows."""
    taken = 0
    while True:
        level = _level(rows, together)
        run = 0
        for tail in reversed(tails[: len(tails) - taken]):
            if _level(tail.live, together) > level:
                break
            run += 1
        if run < together - 1:
            return taken
        rows += sum(tail.live for tail in tails[len(tails) - taken - run : len(tails) - taken])
        taken += run


def _level(rows: int, together: int) -> int:
    level = 0
    while rows >= together:
        rows //= together
        level += 1
    return level


def patched(before: State, jobs: Sequence[PatchJob], results: Sequence[Patched]) -> State:
    """A table's files after its jobs, and their paths; files with all rows deleted are left out.

    None of the results is a failure.
    """
    current, paths = before
    kept = len(current.places) - max((job.swallowed for job in jobs), default=0)
    placed = [
        _without(file, path, results)
        for file, path in zip(current.places[:kept], paths[:kept], strict=True)
    ]
    count = len(current.files)
    fresh = [
        (DataFile("", result.rows, result.size, result.memory), result.path)
        for result in results
        if result.path is not None
    ]
    tails = [(file, path) for file, path in placed[count:] if file is not None] + fresh
    current = replace(
        current,
        files=tuple(file for file, _ in placed[:count]),
        tails=tuple(file for file, _ in tails),
        unseen=current.unseen + sum(result.unseen for result in results),
    )
    return current, (*(path for _, path in placed[:count]), *(path for _, path in tails))


def _without(
    file: DataFile | None, path: str | None, results: Sequence[Patched]
) -> tuple[DataFile | None, str | None]:
    """A file with all its rows that are hidden now; none where no row counts any more."""
    if file is None or path is None:
        return None, None
    more = [result.hidden[path] for result in results if path in result.hidden]
    if not more:
        return file, path
    now = replace(file, hidden=hidden.joined([file.hidden, *more]))
    return (now, path) if now.live else (None, None)
