"""Triggers must not fire for rows of the log: what they did for a row is in the log, too.

A trigger that is created in the log exists only when it is needed (`Triggers`): it is created
before statements that the log has instead of rows, and at the end. It is dropped before rows of its
table.

A session cannot switch off the triggers that the target has (MariaDB's
``slave_run_triggers_for_rbr`` and MySQL's rules for replicas apply to row events, not to
statements). So before the first row of each table there is a statement that fails if the table has
a trigger (`Guard`). Clients stop at it, and its transaction is rolled back when they disconnect.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import EventDecodeError, SchemaError, ValueRejected
from tailrace.schema.classify import leading_words
from tailrace.schema.ddl import CreateTable, DropDatabase, DropTable
from tailrace.schema.tokens import (
    Kind,
    NotUnderstoodError,
    SqlMode,
    TokenCursor,
    quoted_table,
    tokenize,
)
from tailrace.sql.logged import client_charset, effects_in, pair, renaming
from tailrace.sql.settings import of_rows
from tailrace.sql.statement import Statement
from tailrace.sql.text import encoded, string
from tailrace.table_name import TableName
from tailrace.values.charsets import as_logged, decode, is_exact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tailrace.events import QueryEvent
    from tailrace.log.changes import Change
    from tailrace.schema.ddl import Effect
    from tailrace.sql.settings import Settings


OVERRIDE: Final = "@tailrace_without_triggers"
"""The user variable that confirms that no trigger will fire, if MySQL does not show them."""
_GRANTEE: Final = "REPLACE(grantee, '''', '') = CURRENT_USER()"
_GRANTED: Final = "privilege_type = 'TRIGGER'"


class Guard:
    """Gives the guards of the tables seen so far. ``flavour`` is that of the server that executes
    them (None: of the log).
    """

    def __init__(self, flavour: Flavour | None = None) -> None:
        self._flavour = flavour
        self._guarded: dict[TableName, tuple[Flavour, Settings]] = {}

    def before_rows(self, change: Change) -> Iterator[Statement]:
        """The guard before rows of a table, in their transaction; nothing if it was given
        before.
        """
        if self.meet(change):
            table = change.schema.full_name
            flavour, settings = self._guarded[table]
            yield Statement(guard(table, flavour), settings, change.group)

    def meet(self, change: Change) -> bool:
        """Add the table of a change; returns whether it is new."""
        table = change.schema.full_name
        if table in self._guarded:
            return False
        self.add(table, self._flavour or change.event.form.flavour)
        return True

    def add(self, table: TableName, flavour: Flavour) -> None:
        """Add a table whose guard is in place already, or that needs one."""
        self._guarded[table] = flavour, of_rows(flavour, 0, lenient=False)

    @property
    def tables(self) -> Collection[TableName]:
        """The tables that were added."""
        return self._guarded.keys()

    def all(self) -> Iterator[Statement]:
        """The guards of all tables that were added, outside of transactions."""
        for table, (flavour, settings) in self._guarded.items():
            yield Statement(guard(table, flavour), settings, None, alone=True)

    def forget(self) -> None:
        """Forget all tables: a statement may have created triggers or renamed tables."""
        self._guarded.clear()


def guard(table: TableName, flavour: Flavour) -> str:
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


def _may_see(table: TableName) -> str:
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


_WHY = "delayed until here: it must not fire for rows that are in the log"


@dataclass(slots=True)
class _Trigger:
    """A trigger; ``start`` and ``end`` delimit its table's name in the bytes of the text."""

    statement: Statement
    table: TableName
    start: int
    end: int
    in_place: bool = False

    def moved(self, table: TableName) -> None:
        """Its table was renamed. Raises SchemaError for a name that its character set lacks."""
        raw, charset = encoded(self.statement.sql), _charset(self.statement)
        try:
            name = as_logged(charset, f"{quoted_table(*table)} ")
        except ValueRejected:
            raise SchemaError(
                f"the table of a trigger was renamed to {table}, which cannot be written in the"
                f" trigger's character set {charset}: leave the trigger out (--exclude the table),"
                f" and create it yourself: {self.statement.text:.200}"
            ) from None
        raw = raw[: self.start] + name + raw[self.end :]
        self.statement = replace(
            self.statement,
            sql=raw.decode("utf-8", "surrogateescape"),
            charset=client_charset(charset, raw),
        )
        self.end = self.start + len(name)
        self.table = table


class Triggers:
    """The triggers that the log created so far, by database and name, in their order."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Trigger] = {}

    def take(self, statement: Statement, event: QueryEvent) -> Iterator[Statement]:
        """Process a statement of the log; gives what to execute instead of it."""
        first = (*leading_words(event.sql, 1), "")[0]
        if first in {"CREATE", "DROP"} and "trigger" in event.sql.casefold():
            try:
                cursor = TokenCursor(
                    tokenize(_text(statement), event.form.flavour, _mode(statement)),
                    lowers_names=event.form.lowers_names,
                )
                taken = self._create if first == "CREATE" else self._drop
                if taken(cursor, statement, event.database):
                    return
            except NotUnderstoodError:
                pass  # it is executed in its place
        yield statement
        if self._known:
            for effect in effects_in(event):
                self._follow(effect)

    def _create(self, cursor: TokenCursor, statement: Statement, database: str) -> bool:
        """Delay a CREATE TRIGGER; False if it is something else."""
        if not _after_trigger(cursor):
            return False
        cursor.accept("IF", "NOT", "EXISTS")
        owner, name = cursor.qualified()
        while cursor.token.key != "ON":
            if cursor.next().kind is Kind.END:
                return False
        cursor.next()
        start = cursor.token.start
        other, table = cursor.qualified()
        held = replace(statement, group=None, alone=True, note=_WHY)
        text, charset = _text(statement), _charset(statement)
        self._known[owner or database, name] = _Trigger(
            held,
            TableName(other or database, table),
            len(as_logged(charset, text[:start])),
            len(as_logged(charset, text[: cursor.token.start])),
        )
        return True

    def _drop(self, cursor: TokenCursor, _statement: Statement, database: str) -> bool:
        """Forget a trigger that was not created yet; False if it must really be dropped."""
        if not _after_trigger(cursor):
            return False
        cursor.accept("IF", "EXISTS")
        owner, name = cursor.qualified()
        known = self._known.pop((owner or database, name), None)
        return known is not None and not known.in_place

    def _follow(self, effect: Effect) -> None:
        """Renamed tables keep their triggers, dropped tables lose them."""
        moved = renaming(effect)
        gone: list[tuple[str, str]] = []
        if moved is not None:
            for trigger in self._known.values():
                if trigger.table == moved[0]:
                    trigger.moved(moved[1])
        elif isinstance(effect, DropDatabase):
            gone = [key for key in self._known if key[0] == effect.database]
        elif isinstance(effect, DropTable) or (
            isinstance(effect, CreateTable) and not effect.unless_exists
        ):
            table = pair(effect.name)
            gone = [key for key, trigger in self._known.items() if trigger.table == table]
        for key in gone:
            del self._known[key]

    @property
    def in_place(self) -> bool:
        """Whether a trigger must be dropped before rows of its table."""
        return any(trigger.in_place for trigger in self._known.values())

    def before_rows(self, table: TableName) -> Iterator[Statement]:
        """Rows of a table follow: its triggers must not exist."""
        for (database, name), trigger in self._known.items():
            if trigger.in_place and trigger.table == table:
                trigger.in_place = False
                text = f"DROP TRIGGER {quoted_table(database, name)}"
                yield Statement(text, (), None, alone=True, note="rows that it changed follow")

    def before_statement(self) -> Iterator[Statement]:
        """A statement that changes rows follows, or the end: all triggers must exist."""
        for trigger in self._known.values():
            if not trigger.in_place:
                trigger.in_place = True
                yield trigger.statement


def _after_trigger(cursor: TokenCursor) -> bool:
    """Move past the word TRIGGER of ``CREATE ... TRIGGER``; False if it is something else."""
    cursor.next()
    while cursor.token.kind is not Kind.END:
        key = cursor.next().key
        if key == "TRIGGER":
            return True
        if key in {"TABLE", "PROCEDURE", "FUNCTION", "EVENT", "VIEW", "PACKAGE", "BEGIN", "AS"}:
            return False
    return False


def _charset(statement: Statement) -> str:
    """The character set of a logged statement's bytes."""
    return dict(statement.settings).get("character_set_client", "utf8mb4")


def _text(statement: Statement) -> str:
    """A logged statement as its server read it. Raises NotUnderstoodError if its character set
    would write it in other bytes: then it is not known where a name in it begins.
    """
    raw, charset = encoded(statement.sql), _charset(statement)
    with suppress(EventDecodeError):
        text = decode(charset, raw)
        if is_exact(charset, text, raw):
            return text
    raise NotUnderstoodError(f"a statement is not in its character set {charset}")


def _mode(statement: Statement) -> SqlMode:
    """The bits of the statement's ``sql_mode`` that affect its parsing."""
    value = dict(statement.settings).get("sql_mode", "0")
    return SqlMode(int(value) & sum(SqlMode)) if value.isdecimal() else SqlMode.NONE
