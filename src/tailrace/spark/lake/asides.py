"""Which tables are set aside while a batch is made: those that were before, and those that fail.

A table that fails stays as it was before the batch, in the parts that cannot continue; what they
lack since then is read again when the table is taken up (`tailrace.spark.mirror.retry`).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tailrace.log_name import file_number
from tailrace.position import Position
from tailrace.spark.manifest.manifest import SET_ASIDE, Status
from tailrace.spark.manifest.manifest_json import with_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.spark.manifest.manifest import Manifest, SourceState, TableState
    from tailrace.spark.state.failure import Failure
    from tailrace.table_name import TableName

NEEDS_NAMES = "its server is asked, and it is then taken up by itself"
NEEDS_A_LAKE = "it keeps its last state: create a new lake, or leave it out (--exclude)"
STATES = frozenset({"current", "history"})


@dataclass(frozen=True)
class Aside:
    """A table of a source that is set aside."""

    source: str
    name: TableName
    status: Status


def set_aside(manifest: Manifest) -> dict[str, Status]:
    """The tables that are set aside, by key."""
    return {
        key: status
        for key, state in with_status(manifest.tables)
        if (status := state.set_aside) is not None
    }


def since(state: SourceState | None) -> str:
    """A source's position as text; empty before its begin."""
    return "" if state is None else str(state.position)


def in_order(since: str) -> tuple[int, str, int]:
    """What sorts positions as text (`since`)."""
    if not since:
        return -1, "", 0
    at = Position.parse(since)
    return file_number(at.file) or 0, at.file, at.offset


def stands_at(state: TableState, place: str) -> bool:
    """Whether a table is set aside, and has nothing past a place: one that failed before it stays
    there.
    """
    status = state.set_aside
    return status is not None and min(status.parts.values(), key=in_order) == place


def needs(name: str) -> str:
    """What a table that is set aside needs."""
    return f"remove the cause, then: tailrace mirror ... --retry-tables {shlex.quote(name)}"


@dataclass
class Asides:
    """The tables that are set aside, by key; ``keep`` is what the lake has of each table.

    ``before`` is the lake's manifest, whose tables stay set aside but for ``retried`` ones; these
    still are afterwards, from the position ``reached`` on, if that is not the source's last one.
    """

    before: Manifest
    keep: tuple[str, ...]
    retried: frozenset[str] = frozenset()
    reached: str = ""
    tables: dict[str, Aside] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    """Those of which nothing went wrong now, and the log does not tell what they became."""

    def __post_init__(self) -> None:
        for key, status in set_aside(self.before).items():
            if key not in self.retried:
                state = self.before.tables[key]
                aside = Aside(state.source, state.full_name, status)
                known = self.tables.setdefault(key, aside)
                if status.batch and not known.status.batch:  # its steps wait since
                    waits = replace(known.status, batch=status.batch)
                    self.tables[key] = replace(known, status=waits)

    def fail(
        self,
        key: str,
        source: str,
        name: TableName,
        cause: Failure,
        *,
        all: bool,  # noqa: A002
    ) -> None:
        """Set a table aside, in all its parts or (not ``all``) in those made of its changelog.

        Parts that stand still already do so since they did; so do those of a table that was to be
        taken up.
        """
        wanted = self.keep if all else tuple(part for part in self.keep if part in STATES)
        now = since(self.before.sources.get(source))
        known = self.tables.get(key)
        old = known.status if known is not None else None
        if old is None and key in self.retried:
            old = self.before.tables[key].set_aside
        old = old or Status(SET_ASIDE, "", now)
        first = self._moved(cause) or old
        parts = dict.fromkeys(wanted, now) | first.parts
        reason = cause.reason if str(name) in cause.reason else f"{name}: {cause.reason}"
        origins = tuple(dict.fromkeys((*old.origins, *cause.origins)))
        wanting = NEEDS_NAMES if cause.unnamed else cause.needs or needs(key)
        ended = cause.rejected and "changelog" not in parts
        if cause.rejected and not ended:  # a statement alone does not bring a changelog back
            wanting = NEEDS_A_LAKE
        status = Status(
            SET_ASIDE, reason, first.since, wanting, parts, origins, old.batch, cause.unnamed, ended
        )
        self.tables[key] = Aside(source, name, status)

    def _moved(self, cause: Failure) -> Status | None:
        """The status of the table whose last state one has that a statement renamed."""
        states = map(self.before.tables.get, cause.origins if cause.rejected else ())
        found = (state.set_aside for state in states if state is not None)
        return next((each for each in found if each is not None), None)

    def fail_state(self, key: str, state: TableState, cause: Failure, *, all: bool = True) -> None:  # noqa: A002
        """As `fail`, of a table that the lake has."""
        self.fail(key, state.source, state.full_name, cause, all=all)

    def stands(self, key: str, part: str) -> bool:
        """Whether a part of a table stands still."""
        found = self.tables.get(key)
        return found is not None and part in found.status.parts

    def unread(self, source: str) -> frozenset[TableName]:
        """Those of a source whose rows are not read."""
        return frozenset(
            each.name
            for each in self.tables.values()
            if each.source == source and not each.status.reads(self.keep)
        )

    def marked(self, key: str, state: TableState) -> TableState:
        """A table's state, with whether it is set aside."""
        if (found := self.tables.get(key)) is not None:
            return state.with_status(SET_ASIDE, found.status)
        old = self.before.tables[key].set_aside if key in self.retried else None
        if old is None or not self.reached:
            return state.with_status(SET_ASIDE, None)
        parts = {part: max(at, self.reached, key=in_order) for part, at in old.parts.items()}
        return state.with_status(SET_ASIDE, replace(old, since=self.reached, parts=parts, batch=0))


def points(
    before: Manifest,
    sources: Mapping[str, SourceState],
    tables: Iterable[TableState],
    more: Mapping[str, Mapping[str, SourceState]],
) -> dict[str, dict[str, SourceState]]:
    """The positions since which tables stand still, with what is known there.

    ``sources`` are how far the lake has each source after the batch; ``more`` are positions of
    which that is known besides, as in a manifest.
    """
    found: dict[str, dict[str, SourceState]] = {}
    for state in tables:
        status = state.set_aside
        for at in status.parts.values() if status is not None else ():
            known = before.points.get(state.source, {}).get(at)
            known = known or more.get(state.source, {}).get(at)
            for each in (before.sources.get(state.source), sources.get(state.source)):
                if known is None and since(each) == at:
                    known = each
            if at and known is not None:
                found.setdefault(state.source, {})[at] = known
    return found


def waiting(
    state: TableState, keep: Iterable[str], number: int, cause: Failure, at: str
) -> TableState:
    """A table that has not taken all of a batch which is prepared: it has the rest to come."""
    name = str(state.full_name)
    reason = cause.reason if name in cause.reason else f"{name}: {cause.reason}"
    status = state.set_aside or Status(SET_ASIDE, reason, at, needs(name))
    parts = dict.fromkeys(keep, at) | status.parts
    return state.with_status(SET_ASIDE, replace(status, reason=reason, parts=parts, batch=number))
