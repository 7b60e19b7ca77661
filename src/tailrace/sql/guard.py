"""Guards against triggers of the tables that statements change: they stop before one can fire.

What a trigger did for a logged row is in the log, too, so it must not do it again. A session cannot
switch triggers off (MariaDB's ``slave_run_triggers_for_rbr`` and MySQL's rules for replicas apply
to row events, not to statements). So before the first row of each table there is a statement that
fails if the table has a trigger. Clients stop at it, and its transaction is rolled back when they
disconnect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.sql.settings import of_rows
from tailrace.sql.statement import Statement
from tailrace.sql.text import string

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tailrace.log.changes import Change
    from tailrace.sql.definitions import Table
    from tailrace.sql.settings import Settings

OVERRIDE: Final = "@tailrace_without_triggers"
"""The user variable that confirms that no trigger will fire, if MySQL does not show them."""
_GRANTEE: Final = "REPLACE(grantee, '''', '') = CURRENT_USER()"
_GRANTED: Final = "privilege_type = 'TRIGGER'"


class Guard:
    """Gives the guards of the tables seen so far."""

    def __init__(self) -> None:
        self._guarded: dict[Table, tuple[Flavour, Settings]] = {}

    def before_rows(self, change: Change) -> Iterator[Statement]:
        """The guard before rows of a table, in their transaction; nothing if it was given
        before.
        """
        if self.meet(change):
            table = change.schema.database, change.schema.table
            flavour, settings = self._guarded[table]
            yield Statement(guard(table, flavour), settings, change.group)

    def meet(self, change: Change) -> bool:
        """Add the table of a change; returns whether it is new."""
        table = change.schema.database, change.schema.table
        if table in self._guarded:
            return False
        self.add(table, change.event.form.flavour)
        return True

    def add(self, table: Table, flavour: Flavour) -> None:
        """Add a table whose guard is in place already, or that needs one."""
        self._guarded[table] = flavour, of_rows(flavour, 0, lenient=False)

    @property
    def tables(self) -> Collection[Table]:
        """The tables that were added."""
        return self._guarded.keys()

    def all(self) -> Iterator[Statement]:
        """The guards of all tables that were added, outside of transactions."""
        for table, (flavour, settings) in self._guarded.items():
            yield Statement(guard(table, flavour), settings, None, alone=True)

    def forget(self) -> None:
        """Forget all tables: a statement may have created triggers or renamed tables."""
        self._guarded.clear()


def guard(table: Table, flavour: Flavour) -> str:
    """A statement that fails with a reason if a table has a trigger; else it changes nothing.

    It sets ``sql_mode`` to its current value, or to an invalid text. MariaDB shows a table's
    triggers to all who may use the table, MySQL only to those with the TRIGGER privilege. Without
    it the statement also fails, unless the user confirms that there are none (`OVERRIDE`).
    """
    database, name = table
    # No comma: the servers quote an invalid mode only up to a comma.
    found = f"drop the triggers of {database}.{name} first: what they did is in the log"
    seen = (
        "EXISTS (SELECT 1 FROM information_schema.triggers "  # noqa: S608 - literals of our own
        f"WHERE event_object_schema = {string(database)} AND event_object_table = {string(name)})"
    )
    cases = f"WHEN {seen} THEN {string(found)}"
    if flavour is Flavour.MYSQL:
        hidden = (
            f"no privilege to see triggers of {database}.{name}: "
            f"GRANT TRIGGER or SET {OVERRIDE} = 1"
        )
        cases += f" WHEN {OVERRIDE} IS NULL AND NOT {_may_see(table)} THEN {string(hidden)}"
    return f"SET @@session.sql_mode = CASE {cases} ELSE @@session.sql_mode END"


def _may_see(table: Table) -> str:
    """Whether the session's account has TRIGGER on a table (privileges from roles are not
    shown).
    """
    database, name = map(string, table)
    on_table = f"table_schema = {database} AND table_name = {name}"
    places = {
        "user_privileges": "",
        "schema_privileges": f" AND {database} LIKE table_schema",
        "table_privileges": f" AND {on_table}",
    }
    return "({})".format(
        " OR ".join(
            f"EXISTS (SELECT 1 FROM information_schema.{place} "  # noqa: S608 - literals of our own
            f"WHERE {_GRANTED} AND {_GRANTEE}{where})"
            for place, where in places.items()
        )
    )
