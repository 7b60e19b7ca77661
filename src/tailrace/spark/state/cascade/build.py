"""Carrying out what foreign keys did in a batch: which jobs, and what became of the changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from tailrace.spark.state.cascade.jobs import FindJob, PlayJob, Rows, find, play
from tailrace.spark.state.current.flat import Target
from tailrace.spark.state.current.plan import plan_table
from tailrace.spark.state.current.timeline import lives
from tailrace.spark.state.failure import Failure, RejectedError, all_done, attempt

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tailrace.spark.manifest.making import Making
    from tailrace.spark.runtime.tasks import Runner
    from tailrace.spark.state.cascade.keys import Link
    from tailrace.spark.state.changelog import ChangeFile
    from tailrace.spark.state.current.rows import Base
    from tailrace.spark.state.source_changes import SourceChanges

_ROUNDS: Final = 1 << 12
"""Rounds that a batch may take: one for each table along a chain of keys, or row of a tree."""


class CarriedOut(NamedTuple):
    """The files of changes of the tables that foreign keys changed, by name, and those that failed.

    The files have the logged changes and the new ones, in order.
    """

    files: Mapping[str, Sequence[ChangeFile]]
    failed: Mapping[str, Failure]


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
    work = _Work(source, quiet, run, to)
    failed = _follows(links, unread)
    files: dict[str, Sequence[ChangeFile]] = {}
    for number, some in enumerate(_together([each for each in links if each.child not in failed])):
        causes = (file.operations for each in some for file in source.files.get(each.parent, ()))
        if not any(each["update"] or each["delete"] for each in causes):
            continue
        made = attempt(partial(work.make, some), folder / str(number))
        if isinstance(made, Failure):
            failed |= {each.child: replace(made, rejected=False) for each in some}
        else:
            files |= made
    return CarriedOut(files, failed)


def _follows(links: Sequence[Link], unread: Mapping[str, str]) -> dict[str, Failure]:
    """The tables whose foreign keys need changes of tables that are not all there."""
    found: dict[str, Failure] = {}
    waiting = list(unread)
    while waiting:
        name = waiting.pop()
        why = unread.get(name, "it is set aside")
        for link in links:
            if link.parent == name and link.child not in unread and link.child not in found:
                waiting.append(link.child)
                found[link.child] = Failure(
                    f"its foreign key {link.sql} needs the changes of {name}: {why}", (name,)
                )
    return found


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


class _Work:
    """Carries out the foreign keys of one source."""

    def __init__(
        self, source: SourceChanges, quiet: Sequence[str], run: Runner, to: Making
    ) -> None:
        self.source, self._quiet, self._run, self._to = source, tuple(quiet), run, to
        self._lives = lives(source.committed, source.keyed, source.changes, source.wanted)

    def make(self, links: Sequence[Link], folder: Path) -> Mapping[str, Sequence[ChangeFile]]:
        """What becomes of the changes of the tables of some links. Raises `RejectedError`."""
        source = self.source
        children = dict.fromkeys(each.child for each in links)
        known = {child: found for child in children if (found := self._rows(child, links))}
        links = [each for each in links if each.child in known]  # others have no rows
        if not links:
            return {}
        rows = {child: found for child, (found, _) in known.items()}
        causes = tuple(
            (each, tuple(source.files.get(each, ())))
            for each in dict.fromkeys(link.parent for link in links)
        )
        job = PlayJob(
            source.source, tuple(links), causes, (), self._quiet, folder, self._to, source.shard
        )
        for number in range(_ROUNDS):
            job = replace(job, tables=tuple(rows.values()), folder=folder / str(number))
            (played,) = all_done(self._run, play, [job], RejectedError)
            if not played.missing:
                return played.files
            jobs = [
                (name, FindJob(base, rows[name].target, wanted, folder / f"found-{number}"))
                for name, wanted in played.missing.items()
                for base in _one_by_one(known[name][1])
            ]
            results = all_done(self._run, find, [each for _, each in jobs], RejectedError)
            for name, wanted in played.missing.items():
                paths = [
                    path
                    for (one, _), path in zip(jobs, results, strict=True)
                    if one == name and path is not None
                ]
                before = rows[name]
                rows[name] = replace(
                    before, found=(*before.found, *paths), asked=(*before.asked, *wanted)
                )
        raise RejectedError(f"the batch's foreign keys take more than {_ROUNDS} rounds")

    def _rows(self, name: str, links: Sequence[Link]) -> tuple[Rows, Base | None] | None:
        """A table whose rows may change, and those that it has; None where it has none.

        Raises `RejectedError` where its rows cannot be told.
        """
        life = self._lives.get(name)
        source = self.source
        if life is None:
            return None
        plan = plan_table(life, source, source.committed)
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
        rows = Rows(name, some, target.columns, plan.pieces, plan.partial, files)
        return rows, plan.base


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
