"""Making the current state of all tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tailrace.spark.state.built import Built, failed
from tailrace.spark.state.current.jobs import Unit, make
from tailrace.spark.state.current.patching import PatchedTable, parts
from tailrace.spark.state.current.plan import has_begun, plan_table
from tailrace.spark.state.current.timeline import lives
from tailrace.spark.state.failure import Failure, attempt, rejection
from tailrace.spark.state.source_changes import SourceTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.current.patching import Patches
    from tailrace.spark.state.current.timeline import Life
    from tailrace.spark.state.source_changes import SourceChanges


def build(
    sources: Sequence[SourceChanges],
    run: Runner,
    folder: Path,
    patches: Patches | None = None,
) -> dict[SourceTable, Built]:
    """The current states of the sources' tables, each after its source's splits.

    ``run`` runs jobs, in tasks or here; ``folder`` is there and takes what is cut. With ``patches``
    changes may be kept separately from a table's files. A table that is not in the result no longer
    exists.
    """
    built: dict[SourceTable, Built] = {}
    units: dict[SourceTable, Unit] = {}
    begun: dict[SourceTable, tuple[SourceChanges, Life]] = {}
    for source in sources:
        found = lives(source.committed, source.keyed, source.changes, source.wanted)
        plan = partial(_unit, source=source, patches=patches)
        for name, life in found.items():
            if name in source.aside | source.strangers:
                continue
            table = SourceTable(source.source, name)
            names = (life.base, *(segment.table for segment in life.segments))
            cause = source.lacking(names, life.had)
            if cause is not None:
                built[table] = _last(source, name, life, cause)
                continue
            if has_begun(life, source.keyed, source.committed):
                begun[table] = source, life
            unit = attempt(partial(plan, name), life)
            if isinstance(unit, Failure):
                built[table] = failed(unit)
            elif unit is not None:
                units[table] = unit
    built |= make(units, run, folder)
    for table in built.keys() & begun.keys():
        if (reason := built[table].rows.refused) is not None:
            source, life = begun[table]
            last = _last(source, table.name, life, cause := rejection(reason))
            built[table] = last if last.moved else replace(built[table], failed=cause)
    return built


def _unit(name: str, life: Life, source: SourceChanges, patches: Patches | None) -> Unit | None:
    """How a table is made; None where it does not exist, or nothing tells its columns."""
    plan = plan_table(life, source, source.committed, shard=source.shard)
    if plan is None:
        return None
    out = partial(source.out, "current", name, plan.target.columns)
    if patches is not None and (count := parts(plan, patches)):
        return PatchedTable(plan, out, count, patches)
    return Unit(plan, out)


def _last(source: SourceChanges, name: str, life: Life, cause: Failure) -> Built:
    """A table that cannot be made, with the last state that it had under another name, unless that
    one stands still.
    """
    base = None if life.base == name or life.base in source.aside else life.base
    before = None if base is None else source.committed.get(base)
    if before is None or before[0].refused is not None:
        return failed(cause)
    return Built(*before, failed=cause, moved=True)
