"""Carrying out what foreign keys did in a batch: which jobs, and what became of the changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.spark.state.cascade.jobs import FindJob, PlayJob, Rows, find, play
from tailrace.spark.state.current.flat import Target
from tailrace.spark.state.current.plan import plan_table
from tailrace.spark.state.current.timeline import lives
from tailrace.spark.state.failure import Failure, RejectedError, attempt, failure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.manifest.making import Making
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.cascade.jobs import Played
    from tailrace.spark.state.cascade.keys import Link
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.current.pieces import Base
    from tailrace.spark.state.source_changes import SourceChanges

_ROUNDS: Final = 1 << 12
"""Rounds that a batch may take: one for each table along a chain of keys, or row of a tree."""


@dataclass(frozen=True)
class CarriedOut:
    """The files of changes of the tables that foreign keys changed, by name, and those that failed.

    The files have the logged changes and the new ones, in order.
    """

    files: Mapping[str, Sequence[ChangeFile]] = field(default_factory=dict)
    failed: Mapping[str, Failure] = field(default_factory=dict)


def carry_out(
    source: SourceChanges,
    links: Sequence[Link],
    quiet: Sequence[str],
    unread: Mapping[str, str],
    run: Runner,
    folder: Path,
    to: Making,
) -> CarriedOut:
    """Carry out the foreign keys of a source in a batch.

    ``quiet`` are files of the rows whose change does nothing to others (`read_split`), ``unread``
    tables of which not all changes are there, and why; changes go where ``to`` gives. The rest is
    as of `tailrace.spark.state.current.build.build`.
    """
    work = _Work(source, tuple(quiet), run, to)
    failed = dict(_follows(links, unread))
    links = [each for each in links if each.child not in failed]
    files: dict[str, Sequence[ChangeFile]] = {}
    for number, some in enumerate(_together(links)):
        causes = (file.operations for each in some for file in source.files.get(each.parent, ()))
        if not any(each["update"] or each["delete"] for each in causes):
            continue
        try:
            made = work.make(some, folder / str(number))
        except Exception as error:  # noqa: BLE001 - `failure` raises what is not its own
            made = failure(error)
        if isinstance(made, Failure):
            failed |= {each.child: replace(made, rejected=False) for each in some}
        else:
            files |= made
    return CarriedOut(files, failed)


def _follows(links: Sequence[Link], unread: Mapping[str, str]) -> Iterator[tuple[str, Failure]]:
    """The tables whose foreign keys need changes of tables that are not all there."""
    waiting = list(unread)
    found = set(unread)
    while waiting:
        name = waiting.pop()
        for link in links:
            if link.parent == name and link.child not in found:
                found.add(link.child)
                waiting.append(link.child)
                why = unread.get(name, "it is set aside")
                yield (
                    link.child,
                    Failure(
                        f"its foreign key {link.sql} needs the changes of {name}: {why}", (name,)
                    ),
                )


def _together(links: Sequence[Link]) -> list[list[Link]]:
    """The links, those together that have tables in common, directly or not."""
    groups: list[tuple[set[str], list[Link]]] = []
    for link in links:
        names, mine = {link.child, link.parent}, [link]
        for group in [each for each in groups if each[0] & names]:
            groups.remove(group)
            names |= group[0]
            mine = group[1] + mine
        groups.append((names, mine))
    return [mine for _, mine in groups]


@dataclass
class _Work:
    """Carries out the foreign keys of one source."""

    source: SourceChanges
    quiet: tuple[str, ...]
    run: Runner
    to: Making

    def __post_init__(self) -> None:
        source = self.source
        self._lives = lives(source.committed, source.keyed, source.changes, source.wanted)

    def make(
        self, links: Sequence[Link], folder: Path
    ) -> dict[str, Sequence[ChangeFile]] | Failure:
        """What becomes of the changes of the tables of some links."""
        known = {
            child: self._rows(child, links) for child in dict.fromkeys(each.child for each in links)
        }
        rows = {child: found[0] for child, found in known.items() if found is not None}
        bases = {child: found[1] for child, found in known.items() if found is not None}
        links = [each for each in links if each.child in rows]  # others have no rows
        if not links:
            return {}
        names = dict.fromkeys(each.parent for each in links)
        causes = tuple((each, tuple(self.source.files.get(each, ()))) for each in names)
        for number in range(_ROUNDS):
            job = PlayJob(
                self.source.source,
                tuple(links),
                causes,
                tuple(rows.values()),
                self.quiet,
                folder / str(number),
                self.to,
                self.source.shard,
            )
            (played,) = self.run(partial(attempt, play), [job])
            if isinstance(played, Failure):
                return played
            if not played.missing:
                return dict(played.files)
            failed = self._find(played, rows, bases, folder / f"found-{number}")
            if failed is not None:
                return failed
        raise RejectedError(f"the batch's foreign keys take more than {_ROUNDS} rounds")

    def _find(
        self,
        played: Played,
        rows: dict[str, Rows],
        bases: Mapping[str, Base | None],
        folder: Path,
    ) -> Failure | None:
        """Look for the rows that were missing."""
        jobs: list[tuple[str, FindJob]] = []
        for name, wanted in played.missing.items():
            for base in _one_by_one(bases[name]):
                out = folder / f"{len(jobs)}.arrow"
                jobs.append((name, FindJob(base, rows[name].target, wanted, out)))
        results = self.run(partial(attempt, find), [job for _, job in jobs])
        found: dict[str, list[str]] = {}
        for (name, _), result in zip(jobs, results, strict=True):
            if isinstance(result, Failure):
                return result
            if result is not None:
                found.setdefault(name, []).append(result)
        for name, wanted in played.missing.items():
            known = rows[name]
            rows[name] = replace(
                known,
                found=(*known.found, *found.get(name, ())),
                asked=(*known.asked, *wanted),
            )
        return None

    def _rows(self, name: str, links: Sequence[Link]) -> tuple[Rows, Base | None] | None:
        """A table whose rows may change, and those that it has; None where it has none.

        Raises `RejectedError` where its rows cannot be told.
        """
        life = self._lives.get(name)
        source = self.source
        if life is None:
            return None
        plan = plan_table(life, source.keyed, source.committed, given=source.keys)
        if plan is None:
            return None
        target = plan.target
        wanted = [each for link in links if link.child == name for each in link.columns]
        wanted += [each for link in links if link.parent == name for each in link.referenced]
        by_fold = {each.casefold(): each for each in target.columns.names}
        if strange := [each for each in wanted if each.casefold() not in by_fold]:
            raise RejectedError(f"{name}: its foreign keys need {strange[0]}, which is not logged")
        if own := [each for each in wanted if each not in target.columns.names]:
            raise RejectedError(
                f"{name}: its column {own[0]} is called {by_fold[own[0].casefold()]} in the log"
            )
        tracked = dict.fromkeys((*target.key, *wanted))
        some = Target(
            pa.schema([target.columns.field(each) for each in tracked]), target.key, target.given
        )
        files = tuple(source.files.get(name, ()))
        names = files[-1].names if files else "log"
        rows = Rows(name, some, target.columns, plan.pieces, plan.partial, files, names)
        if plan.base is None or life.base is None:
            return rows, None
        return rows, replace(plan.base, deleted=source.deleted(life.base))


def _one_by_one(base: Base | None) -> Iterator[Base]:
    """A base's files, each as one."""
    if base is None:
        return
    yield from (base.only((path,)) for path in base.paths if path is not None)
    yield from (base.only((), (path,)) for path in base.tails)


def parents(links: Iterable[Link], children: Collection[str]) -> set[str]:
    """The tables whose changes it takes to carry out the keys of some, themselves not."""
    found = set(children)
    while more := {each.parent for each in links if each.child in found} - found:
        found |= more
    return found - set(children)
