"""Which tables are compared, and by which columns."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tailrace.errors import ServerError
from tailrace.live.tables import has_rows, is_known, tables_of
from tailrace.snapshot.columns import columns_of
from tailrace.snapshot.rows import ServerTable
from tailrace.spark.manifest.manifest import INCOMPLETE
from tailrace.spark.verify.differences import NOWHERE, Differences, Reading

if TYPE_CHECKING:
    from tailrace.live.connect import ServerConnection
    from tailrace.snapshot.key_ranges import KeyRange
    from tailrace.spark.manifest.manifest import Status, TableState
    from tailrace.spark.verify.lag import LakeOfServer
    from tailrace.table_filter import TableFilter
    from tailrace.table_name import TableName


@dataclass
class ComparedTable:
    """A table to compare, or ``reason`` why it differs as a whole or (not ``compared``) cannot be.

    ``lake`` is its state there, None where the lake has no such table; ``server`` is what is read
    of it. The rest is what was read so far: ``found`` is None until the table was compared.
    """

    name: TableName
    lake: TableState | None = None
    server: ServerTable | None = None
    reason: str | None = None
    compared: bool = True
    notes: tuple[str, ...] = ()
    incomplete: bool = False
    parts: list[KeyRange] = field(default_factory=list)
    slices: int = 1
    readings: list[Reading] = field(default_factory=list)
    found: Differences | None = None
    undecided: int = 0
    stale: bool = False
    unread: bool = False
    done: bool = False

    @property
    def clean(self) -> bool:
        """Nothing is left to look at again."""
        if self.done or not self.compared:
            return True
        return not (self.reason or (self.found and self.found.slices))

    def doubtful(self) -> list[KeyRange]:
        """The ranges to read: all, or those in which keys differ where all such keys are in one."""
        if self.found is None or self.found.ranges[NOWHERE]:
            return self.parts
        return [part for part in self.parts if self.found.ranges[part.number]]

    def renew(self, now: ComparedTable) -> None:
        """Begin a round, with the table as it is ``now``."""
        if now.server is None or now.server != self.server:
            self.found = None
        self.lake, self.server, self.reason = now.lake, now.server, now.reason
        self.compared, self.notes, self.incomplete = now.compared, now.notes, now.incomplete


def compared_tables(
    connection: ServerConnection, lake: LakeOfServer, asked: TableFilter
) -> list[ComparedTable]:
    """All tables of a server that are in the lake or should be there, by name."""
    mirrored, states = lake.view.manifest.options.tables, lake.tables()
    found = []
    there = {each for each in tables_of(connection) if mirrored(*each) or each in states}
    for name in filter(lambda each: asked(*each), sorted(states.keys() | there, key=str)):
        if name not in there:
            found.append(_unseen(connection, states[name]))
        elif name in states:
            found.append(_compared(connection, states[name]))
        elif has_rows(connection, name):
            found.append(ComparedTable(name, reason="it is not in the lake"))
    return found


def _unseen(connection: ServerConnection, state: TableState) -> ComparedTable:
    """A table that the server does not list: it has none, or the account may not know of it."""
    alone = partial(ComparedTable, state.full_name, state)
    with suppress(ServerError):
        if not is_known(connection, state.full_name):
            return alone(reason="the account lacks the privilege SELECT on it", compared=False)
    if (aside := state.set_aside) is not None:
        return alone(reason=_set_aside(aside), compared=False)
    return alone(reason="it is not on the server", compared=state.current is not None)


def _set_aside(status: Status) -> str:
    since = status.since or "the log's begin"
    return f"it is set aside in the lake since {since}: {status.reason}"


def _compared(connection: ServerConnection, state: TableState) -> ComparedTable:
    """A table that both have."""
    current, status = state.current, state.status(INCOMPLETE)
    alone = partial(ComparedTable, state.full_name, state, compared=False)
    if (aside := state.set_aside) is not None:
        return alone(reason=_set_aside(aside))
    if current is None:
        return alone(reason="the lake keeps no current state of it")
    if current.refused is not None:
        return alone(reason=f"the lake has no current state of it: {current.refused}")
    if status is not None:
        return alone(reason=f"it is incomplete in the lake: {status.reason}", incomplete=True)
    server = {each.name: each for each in columns_of(connection, state.database, state.table)}
    lake = current.columns
    left_out = [each for each in current.unlogged if each in server]
    added = [name for name, _, _ in current.added if name in server]
    notes = tuple(f"column {each} is not in the log, and so not compared" for each in left_out)
    notes += tuple(
        f"column {each} comes into the lake with the first row that has it, and is not compared"
        for each in added
    )
    unlike = [f"column {each} is not on the server" for each in lake.names if each not in server]
    unlike += [
        f"column {each} is not in the lake"
        for each in server
        if each not in {*lake.names, *left_out, *added}
    ]
    if unlike:
        return alone(reason="; ".join(unlike), compared=True, notes=notes)
    columns = tuple(server[each] for each in lake.names)
    table = ServerTable(state.full_name, columns, tuple(lake.types), current.key)
    return alone(table, compared=True, notes=notes)
