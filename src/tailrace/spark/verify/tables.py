"""Which tables are compared, and by which columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.live.driver import ER, err
from tailrace.live.tables import has_rows, tables_of
from tailrace.schema.tokens import quoted_table
from tailrace.snapshot.columns import columns_of
from tailrace.spark.manifest.status import INCOMPLETE
from tailrace.spark.verify.server import ServerTable

if TYPE_CHECKING:
    from tailrace.live.connect import ServerConnection
    from tailrace.spark.manifest.manifest import Manifest, TableState
    from tailrace.spark.manifest.status import Status
    from tailrace.table_filter import TableFilter

_DENIED: Final = frozenset({ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR})


@dataclass(frozen=True)
class Candidate:
    """A table to compare, or ``reason`` why it differs as a whole or (not ``compared``) cannot be.

    ``state`` is the lake's, None where it has no such table.
    """

    name: str
    state: TableState | None = None
    table: ServerTable | None = None
    reason: str | None = None
    compared: bool = True
    notes: tuple[str, ...] = ()
    incomplete: bool = False


def candidates(
    connection: ServerConnection,
    manifest: Manifest,
    source: str,
    asked: TableFilter,
) -> list[Candidate]:
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
            found.append(_candidate(connection, states[name]))
        elif has_rows(connection, table):
            found.append(Candidate(name, reason="it is not in the lake"))
    found += [
        _unseen(connection, name, state)
        for name, state in states.items()
        if name not in there and asked(state.database, state.table)
    ]
    return sorted(found, key=lambda each: each.name)


def _unseen(connection: ServerConnection, name: str, state: TableState) -> Candidate:
    """A table that the server does not list: it has none, or the account may not know of it."""
    quoted = quoted_table(state.database, state.table)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {quoted} LIMIT 0")  # noqa: S608 - quoted
    except err.MySQLError as error:
        if error.args and error.args[0] in _DENIED:
            reason = "the account lacks the privilege SELECT on it"
            return Candidate(name, state, reason=reason, compared=False)
    if (aside := state.set_aside) is not None:
        return Candidate(name, state, reason=_set_aside(aside), compared=False)
    reason = "it is not on the server"
    return Candidate(name, state, reason=reason, compared=state.current is not None)


def _set_aside(status: Status) -> str:
    since = status.since or "the log's begin"
    return f"it is set aside in the lake since {since}: {status.reason}"


def _candidate(connection: ServerConnection, state: TableState) -> Candidate:
    """A table that both have."""
    name = str(state.full_name)
    current = state.current
    if (aside := state.set_aside) is not None:
        return Candidate(name, state, reason=_set_aside(aside), compared=False)
    if current is None:
        reason = "the lake keeps no current state of it"
        return Candidate(name, state, reason=reason, compared=False)
    if current.refused is not None:
        reason = f"the lake has no current state of it: {current.refused}"
        return Candidate(name, state, reason=reason, compared=False)
    if (status := state.status(INCOMPLETE)) is not None:
        reason = f"it is incomplete in the lake: {status.reason}"
        return Candidate(name, state, reason=reason, compared=False, incomplete=True)
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
        return Candidate(name, state, reason="; ".join(unlike), notes=notes)
    table = ServerTable(
        state.database,
        state.table,
        tuple(server[each] for each in lake.names),
        tuple(lake.types),
        current.key,
    )
    return Candidate(name, state, table, notes=notes)
