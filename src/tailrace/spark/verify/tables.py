"""Which tables are compared, and by which columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace.live.driver import ER, err
from tailrace.live.tables import has_rows, tables_of
from tailrace.schema.tokens import quoted_table
from tailrace.snapshot.columns import columns_of
from tailrace.spark.manifest.manifest import INCOMPLETE
from tailrace.spark.verify.differences import NOWHERE, Differences, Reading
from tailrace.spark.verify.values import ServerTable

if TYPE_CHECKING:
    from tailrace.live.connect import ServerConnection
    from tailrace.snapshot.key_ranges import KeyRange
    from tailrace.spark.manifest.manifest import Manifest, Status, TableState
    from tailrace.table_filter import TableFilter

_DENIED: Final = frozenset({ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR})


@dataclass
class ComparedTable:
    """A table to compare, or ``reason`` why it differs as a whole or (not ``compared``) cannot be.

    ``lake`` is its state there, None where the lake has no such table; ``server`` is what is read
    of it. The rest is what was read so far: ``found`` is None until the table was compared.
    """

    name: str
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
    connection: ServerConnection,
    manifest: Manifest,
    source: str,
    asked: TableFilter,
) -> list[ComparedTable]:
    """All tables of a source that are in the lake or should be there, by name."""
    mirrored = manifest.options.tables
    states = {
        str(state.full_name): state
        for state in manifest.tables.values()
        if state.source == source and not state.dropped
    }
    there = {
        str(table): table
        for table in tables_of(connection)
        if (mirrored(*table) or str(table) in states) and asked(*table)
    }
    found = []
    for name, table in there.items():
        if name in states:
            found.append(_compared(connection, states[name]))
        elif has_rows(connection, table):
            found.append(ComparedTable(name, reason="it is not in the lake"))
    found += [
        _unseen(connection, name, state)
        for name, state in states.items()
        if name not in there and asked(state.database, state.table)
    ]
    return sorted(found, key=lambda each: each.name)


def _unseen(connection: ServerConnection, name: str, state: TableState) -> ComparedTable:
    """A table that the server does not list: it has none, or the account may not know of it."""
    quoted = quoted_table(state.database, state.table)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {quoted} LIMIT 0")  # noqa: S608 - quoted
    except err.MySQLError as error:
        if error.args and error.args[0] in _DENIED:
            reason = "the account lacks the privilege SELECT on it"
            return ComparedTable(name, state, reason=reason, compared=False)
    if (aside := state.set_aside) is not None:
        return ComparedTable(name, state, reason=_set_aside(aside), compared=False)
    reason = "it is not on the server"
    return ComparedTable(name, state, reason=reason, compared=state.current is not None)


def _set_aside(status: Status) -> str:
    since = status.since or "the log's begin"
    return f"it is set aside in the lake since {since}: {status.reason}"


def _compared(connection: ServerConnection, state: TableState) -> ComparedTable:
    """A table that both have."""
    name, current, status = str(state.full_name), state.current, state.status(INCOMPLETE)
    alone = partial(ComparedTable, name, state, compared=False)
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
        return ComparedTable(name, state, reason="; ".join(unlike), notes=notes)
    table = ServerTable(
        state.database,
        state.table,
        tuple(server[each] for each in lake.names),
        tuple(lake.types),
        current.key,
    )
    return ComparedTable(name, state, table, notes=notes)
