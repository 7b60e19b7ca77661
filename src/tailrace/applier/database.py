"""Databases that SQLAlchemy reaches, such as PostgreSQL and SQLite, as a target of rows.

A table is created before its first row, with the columns that the log says it has. Definitions are
carried out as far as they have an effect on rows (`tailrace.applier.definitions`), and views
(`tailrace.applier.views`). What is not sure to have the same effect is rejected.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from tailrace.applier.definitions import Altering, OldColumn, TableStep, old_columns
from tailrace.applier.file_lock import FileLock
from tailrace.applier.target import (
    CONFLICT,
    LOCK_SECONDS,
    Conflicts,
    Progress,
    Target,
    channel_taken,
    is_about,
    place_of,
    progress_missing,
)
from tailrace.applier.transaction import in_transaction
from tailrace.constants import Flavour
from tailrace.errors import (
    ConnectionLost,
    EventDecodeError,
    SchemaError,
    ServerError,
    TailraceError,
    UnsupportedType,
    UsageError,
    ValueRejected,
)
from tailrace.extras import importing
from tailrace.generators import ModifiedTable, TableColumn
from tailrace.generators.event import context_of
from tailrace.generators.log_context import LogRowsContext, QueryContext
from tailrace.gtid import GtidList, GtidSet
from tailrace.log.readable import rows_not_logged
from tailrace.position import Position
from tailrace.schema.catalogue import Catalogue
from tailrace.schema.catalogue_json import from_json, to_json
from tailrace.schema.clauses import moves_rows
from tailrace.schema.ddl import (
    AlterTable,
    CreateLike,
    CreateTable,
    DropDatabase,
    DropTable,
    PutDatabase,
    RenameTo,
    Temporary,
    Truncate,
    Unclear,
)
from tailrace.schema.defaults import Session
from tailrace.schema.session import session_of_event
from tailrace.schema.tables import TableState
from tailrace.schema.tokens import tokenize
from tailrace.values.floats import float32_json
from tailrace.values.json_diff import JsonDiffs
from tailrace.values.schema import ColumnDefinition, TableDefinition

with importing("apply", "applying to this database"):
    import sqlalchemy as sa
    from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
    from sqlalchemy.types import UserDefinedType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tailrace.applier.transaction import Transaction
    from tailrace.events import Event, QueryEvent
    from tailrace.generators import RowBatch, StatementQuery
    from tailrace.values.schema import TableSchema

_TEXT: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"}
    | {"uuid", "inet4", "inet6", "vector"}
)
_BYTES: Final = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry"}
)
_ROWS: Final = 500
"""Rows of one statement."""
_LOCK_TIMEOUT: Final = "55P03"
"""PostgreSQL's SQLSTATE for a lock that another has."""
_UNIQUE: Final = "23505"
"""PostgreSQL's SQLSTATE for a key that exists already."""
_SQLITE_UNIQUE: Final = frozenset({"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"})


class _Declared(UserDefinedType[Any]):
    """A type that takes its values as their text."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_given: Any) -> str:
        """Its name in a definition."""
        return self.name


_POSTGRESQL: Final = {
    "tinyint": "SMALLINT",
    "smallint": "SMALLINT",
    "smallint unsigned": "INTEGER",
    "mediumint": "INTEGER",
    "int": "INTEGER",
    "int unsigned": "BIGINT",
    "bigint": "BIGINT",
    "bigint unsigned": "NUMERIC(20)",
    "bit": "NUMERIC(20)",
    "year": "SMALLINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "decimal": "NUMERIC",
    "date": "DATE",
    "datetime": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "time": "INTERVAL",
}
"""The types of PostgreSQL. Others are TEXT, or BYTEA for bytes."""
_SQLITE: Final = {
    **{name: "INTEGER" for name in _POSTGRESQL if "INT" in _POSTGRESQL[name] and name != "time"},
    "float": "REAL",
    "double": "REAL",
}
"""The types of SQLite. Others are TEXT, or BLOB for bytes: no number is rounded."""
_VIEW: Final = re.compile(rb"\bVIEW\b", re.IGNORECASE)
_DATES: Final = frozenset({"date", "datetime", "timestamp"})
_ZONED: Final = frozenset({"timestamp"})


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a table. ``left_out`` are columns that the target need not have: those that MariaDB
    generates, as its log has their values in inserts only. ``lacking`` are these, and all whose
    definition is unknown. ``is_named`` is False if the columns' names are unknown.
    """

    table: ModifiedTable
    left_out: frozenset[str]
    lacking: frozenset[str]
    operation: str
    before: list[Mapping[str, Any]]
    after: list[Mapping[str, Any]]
    definitions: Catalogue
    is_named: bool


@dataclass(frozen=True, slots=True)
class _Definition:
    """The effects of a definition on tables: (``drop``, table), (``rename``, table, new), and what
    it does to columns.
    """

    effects: tuple[tuple[str, ...] | _Altered | _View, ...]
    sql: str
    end: str
    """The position after it, from which the rest can be applied."""
    definitions: Catalogue


@dataclass(frozen=True, slots=True)
class _View:
    """A view is dropped, if it exists, and created if it has a query. ``reads`` are its tables,
    ``reason`` is why it cannot be created.
    """

    database: str = ""
    name: str = ""
    query: str = ""
    replaces: bool = True
    reads: tuple[tuple[ModifiedTable, frozenset[str]], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Altered:
    """The steps of an ALTER TABLE; ``reason`` is why it cannot be done, if the table exists."""

    database: str
    name: str
    steps: tuple[TableStep, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of the target. ``keys`` are the columns of its unique keys, ``generated`` those that
    the target computes.
    """

    told: ModifiedTable
    table: sa.Table
    keys: tuple[tuple[str, ...], ...]
    generated: frozenset[str]
    not_written: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.told.database}.{self.told.name}"


class DatabaseTarget(Target):
    """A database that SQLAlchemy reaches, by its URL."""

    def __init__(self, url: str, *, channel: str, table: str, conflicts: Conflicts) -> None:
        try:
            self._engine = sa.create_engine(url)
        except (SQLAlchemyError, ImportError) as error:
            raise UsageError(f"{url!r:.80} is no database to apply to: {error}") from error
        if self._engine.dialect.name not in {"sqlite", "postgresql"}:
            raise UsageError(
                f"{url!r:.80}: changes are applied to MySQL, MariaDB (mysql://), PostgreSQL and"
                f" SQLite, and not to {self._engine.dialect.name}"
            )
        self._conflicts = conflicts
        self._channel = channel
        self.place = database, name = place_of(table, channel)
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._types = _SQLITE if self._is_sqlite else _POSTGRESQL
        self.name = self._engine.url.render_as_string(hide_password=True)
        self._flavour = Flavour.MYSQL
        self._catalogue = Catalogue()
        self._now = self._executed = self._saved = self._catalogue.copy()
        self._by_rows: dict[tuple[str, str], ModifiedTable] = {}
        self._known: dict[tuple[ModifiedTable, frozenset[str]], _Table] = {}
        self._applied = sa.Table(
            f"{database}.{name}" if self._is_sqlite else name,
            sa.MetaData(),
            sa.Column("channel", sa.Text, primary_key=True),
            sa.Column("log_file", sa.Text),
            sa.Column("log_pos", sa.BigInteger),
            sa.Column("resume_file", sa.Text),
            sa.Column("resume_pos", sa.BigInteger),
            sa.Column("log_mark", sa.Text),
            sa.Column("mysql_gtids", sa.Text),
            sa.Column("mariadb_gtids", sa.Text),
            schema=None if self._is_sqlite else database,
        )
        self._definitions = sa.Table(
            f"{self._applied.name}_definitions",
            sa.MetaData(),
            sa.Column("channel", sa.Text, primary_key=True),
            sa.Column("definitions", sa.Text),
            schema=self._applied.schema,
        )
        self._lock: FileLock | None = None
        if self._is_sqlite:
            _prepare_sqlite(self._engine)
        try:
            self._connection = self._engine.connect()
        except DBAPIError as error:
            self._engine.dispose()
            raise self._told(error) from error
        try:
            self._open(database)
        except DBAPIError as error:
            self.close()
            raise self._told(error) from error
        except BaseException:
            self.close()
            raise

    def _open(self, database: str) -> None:
        if not self._take_lock():
            raise channel_taken(self.name, self._channel)
        if not self._is_sqlite:
            self._connection.execute(sa.schema.CreateSchema(database, if_not_exists=True))
        given = self._row_of(self._applied)
        position = _position(given.get("log_file"), given.get("log_pos"))
        kept = self._row_of(self._definitions).get("definitions")
        self._connection.commit()
        definitions = None
        if kept is not None and position is not None:
            after = Position(position.file, position.offset + 1)
            definitions = from_json(json.loads(kept)).as_of(after)
        self._progress = Progress(
            position,
            _position(given.get("resume_file"), given.get("resume_pos")),
            GtidSet.parse(given.get("mysql_gtids") or ""),
            GtidList.parse(given.get("mariadb_gtids") or ""),
            definitions=definitions,
            mark=given.get("log_mark"),
        )

    def _row_of(self, table: sa.Table) -> dict[str, Any]:
        """The channel's row of a table; both are created if they do not exist."""
        table.create(self._connection, checkfirst=True)
        found = self._connection.execute(
            sa.select(table).where(table.c.channel == self._channel)
        ).first()
        if found is None:
            self._connection.execute(table.insert().values(channel=self._channel))
        return {} if found is None else dict(found._mapping)  # noqa: SLF001 - its public name

    def _take_lock(self) -> bool:
        """Take the channel: PostgreSQL's session has it, or a file alongside SQLite's."""
        file = self._engine.url.database
        if self._is_sqlite:
            if file in {None, "", ":memory:"}:
                return True  # nobody else reaches it
            self._lock = FileLock(str(file), self._channel)
            return self._lock.take(LOCK_SECONDS)
        digest = sha256(f"tailrace apply {self._channel}".encode()).digest()
        number = int.from_bytes(digest[:8], "big", signed=True)
        connection = self._connection
        connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
        try:
            connection.execute(sa.select(sa.func.pg_advisory_lock(number)))
        except DBAPIError as error:
            if _state(error) != _LOCK_TIMEOUT:
                raise
            return False
        connection.commit()
        return True

    @property
    def progress(self) -> Progress:
        """As the table of positions says."""
        return self._progress

    def start(self, resume: Position, mark: str | None, *, forgets: bool) -> None:
        """In the table of positions."""
        row = self._applied.update().where(self._applied.c.channel == self._channel)
        row = row.values(resume_file=resume.file, resume_pos=resume.offset, log_mark=mark)
        if forgets:
            row = row.values(log_file=None, log_pos=None)
        try:
            self._note(row)
            self._connection.commit()
        except DBAPIError as error:
            raise self._told(error) from error

    def check(self) -> None:
        """By a statement that does nothing; nobody ends SQLite."""
        if not self._is_sqlite:
            try:
                self._connection.execute(sa.select(1))
                self._connection.rollback()
            except DBAPIError as error:
                raise self._told(error) from error

    def close(self) -> None:
        """Close the connection; what was not committed is rolled back."""
        with suppress(DBAPIError):
            self._connection.close()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()

    # --- what it makes of events -----------------------------------------------------------------

    def begin(self, definitions: Catalogue) -> None:
        """Take in the source's tables."""
        self._catalogue, self._now = definitions, definitions.copy()
        self._by_rows.clear()

    def rows(self, event: RowBatch) -> Iterable[tuple[Any, int]]:
        """The rows' images."""
        before, after = list(event.before_images or ()), list(event.after_images or ())
        left_out: frozenset[str] = frozenset()
        lacking = left_out
        is_named = all(column.name for column in event.table.columns)
        context = context_of(event)
        if isinstance(context, LogRowsContext):
            change = context.change
            self._learn(event.table, change.schema, change.event)
            is_named = change.schema.names_from != "none"
            if change.event.form.flavour is Flavour.MARIADB:
                columns = change.schema.columns
                left_out = frozenset(each.name for each in columns if each.generated)
                lacking = frozenset(
                    each.name for each in columns if each.may_be_lacking is not False
                )
        told = event.table, left_out, lacking, event.operation
        made = _Rows(*told, before, after, self._now, is_named)
        return [(made, 64 * (len(before) + len(after)) * (1 + len(event.table.columns)))]

    def _learn(self, told: ModifiedTable, schema: TableSchema, at: Event) -> None:
        """A table is as its rows say, if that is not what the statements say."""
        key = told.database, told.name
        if schema.names_from == "none" or self._by_rows.get(key) == told:
            return
        self._by_rows[key] = told
        self._catalogue.settle(Position(at.file or "", at.offset or 0))
        known = self._catalogue.logged(key)
        defined = () if known is None else known.definition.columns
        if [(each.name, each.declared) for each in defined] != [each[:2] for each in told.columns]:
            self._catalogue.put(key, _state_of(told, schema))
            self._now = self._catalogue.copy()

    def statement(self, event: StatementQuery, _blocks: bytes | None) -> tuple[Any, int] | None:
        """The effects of a definition on tables.

        Raises StatementChange for a statement that changes rows, SchemaError for a definition that
        changes a table in a way that the rows after it do not show.
        """
        context = context_of(event)
        if not isinstance(context, QueryContext):
            raise SchemaError(f"{self.name}: only statements of a log can be applied")
        if is_about(self.place, context.event):
            return None
        if event.is_row_statement:
            raise rows_not_logged(
                context.event,
                f"{self._engine.dialect.name} is applied rows only: change it there yourself, and"
                " continue after its transaction (--start)",
            )
        at = context.event
        self._flavour = at.form.flavour
        end = f"{at.file}:{at.end_offset}"
        self._catalogue.settle(Position(at.file or "", at.offset or 0))
        none = _Definition((), event.query_string, end, self._now)
        found: list[tuple[str, ...] | _Altered | _View] = []
        try:
            found += self._views(at)
        except SchemaError as error:
            found.append(_View(reason=error.message))
        effects = self._catalogue.effects_of(at, at.form.flavour)
        for effect in effects:
            match effect:
                case DropTable():
                    found.append(("drop", *effect.name.key))
                case Truncate():
                    found.append(("truncate", *effect.name.key))
                case RenameTo():
                    found.append(("rename", *effect.old.key, *effect.new.key))
                case AlterTable() if moves_rows(effect.clauses) is None:
                    found.append(self._altered(event, at, effect))
                case CreateTable() | CreateLike() | Temporary() | PutDatabase():
                    pass
                case DropDatabase():
                    found.append(("drop database", effect.database))
                case _:
                    why = effect.reason if isinstance(effect, Unclear) else "rows come or go"
                    raise self._rejected(none, why).at(at.file, at.offset, at.name)
        if self._catalogue.apply_event(at, at.form.flavour, effects):
            self._now = self._catalogue.copy()
            self._by_rows.clear()
        elif not found:
            return None
        return replace(none, effects=tuple(found), definitions=self._now), 64

    def _rejected(self, definition: _Definition, why: str, more: str = "") -> SchemaError:
        text = " ".join(definition.sql.split())
        return SchemaError(
            f"this definition cannot be applied to {self._engine.dialect.name}: {text[:200]!r}"
            f" ({why}): change it there yourself, and continue after it"
            f" (--start {definition.end}){more}"
        )

    def _altered(self, event: StatementQuery, at: QueryEvent, effect: AlterTable) -> _Altered:
        database, table = effect.name.key
        session, sql = session_of_event(at, at.form.flavour)
        if session is None:
            return _Altered(database, table, ())
        altering = Altering(
            effect.clauses,
            tokenize(sql, session.flavour, session.sql_mode),
            session,
            event.sql_mode or 0,
            self._before(database, table),
            database,
            table,
            Session(event.timestamp or 0, event.time_zone, event.explicit_defaults_for_timestamp),
            self._collation(database, table, session.default_collation),
            self._is_sqlite,
        )
        try:
            return _Altered(database, table, tuple(altering.steps()))
        except SchemaError as error:
            return _Altered(database, table, (), error.message)

    def _collation(self, database: str, table: str, server: int | None) -> int | None:
        """A table's default collation, as far as the log has it."""
        state = self._catalogue.logged((database, table))
        if state is not None and state.collation is not None:
            return state.collation
        return self._catalogue.collation_of(database, server)

    def _views(self, at: QueryEvent) -> Iterator[_View]:
        """The views that a statement creates or drops. Raises SchemaError for one that means
        something else in the target.
        """
        if not _VIEW.search(at.sql_bytes):
            return
        session, sql = session_of_event(at, at.form.flavour)
        if session is None:
            return
        from tailrace.applier.views import parse_view, translated  # noqa: PLC0415 - with sqlglot

        view = parse_view(sql, at.database, session)
        if view is None:
            return
        if not view.query:
            yield from (_View(*name) for name in view.names)
            return
        query, reads = translated(view, at.database, self._columns_of, is_sqlite=self._is_sqlite)
        tables = tuple(self._told_of(*name) for name in reads)
        yield _View(*view.names[0], query, not view.lenient, tables)

    def _columns_of(self, name: tuple[str, str]) -> dict[str, tuple[str, str]] | None:
        if self._catalogue.logged(name) is None:
            return None
        told, left_out = self._told_of(*name)
        return {
            each.name.casefold(): (each.name, each.type)
            for each in told.columns
            if each.name not in left_out
        }

    def _told_of(self, database: str, table: str) -> tuple[ModifiedTable, frozenset[str]]:
        """A table as its next rows will tell of it, and the columns that are not in the target."""
        state = self._catalogue.logged((database, table))
        if state is None:
            return ModifiedTable(database, table, ()), frozenset()
        defined = state.definition
        generated = frozenset(each.name for each in defined.columns if each.generated)
        left_out = generated if self._flavour is Flavour.MARIADB else frozenset()
        columns = (TableColumn(each.name, each.declared, each.nullable) for each in defined.columns)
        return ModifiedTable(database, table, tuple(columns), defined.primary_key), left_out

    def _before(self, database: str, table: str) -> dict[str, OldColumn] | None:
        """A table's columns as the log had them last: in its rows, or its definition."""
        state = self._catalogue.logged((database, table))
        return None if state is None else old_columns(state.definition.columns)

    # --- applying --------------------------------------------------------------------------------

    def apply(self, transactions: Sequence[Transaction]) -> None:
        """Apply transactions, with the row of the channel: together, as one of the database's.

        If one fails, they are applied one by one, so that those before it are kept.
        """
        self.applied = 0
        try:
            for each in transactions:
                self._execute(each)
            self._commit()
        except (SQLAlchemyError, TailraceError) as error:
            self._roll_back()
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                raise self._told(error) from error  # it may be committed; and the channel is free
        else:
            self.applied = len(transactions)
            return
        for each in transactions:
            try:
                self._execute(each)
                self._commit()
                self.applied += 1
            except SQLAlchemyError as error:
                self._roll_back()
                advice = CONFLICT if _is_unique(error) and self._conflicts == "stop" else ""
                raise self._told(error, f": in {each.name}{advice}") from error
            except TailraceError as error:
                self._roll_back()
                raise in_transaction(error, each) from error

    def _commit(self) -> None:
        """Commit what was executed, with the definitions after it."""
        if self._executed is not self._saved:
            kept, text = self._definitions, json.dumps(to_json(self._executed))
            row = kept.update().where(kept.c.channel == self._channel)
            self._note(row.values(definitions=text))
        self._connection.commit()
        self._saved = self._executed

    def _roll_back(self) -> None:
        self._connection.rollback()
        self._known.clear()
        self._executed = self._saved

    def _told(self, error: SQLAlchemyError, more: str = "") -> ServerError | ConnectionLost:
        text = " ".join(str(getattr(error, "orig", error)).split())[:500]
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return ConnectionLost(f"{self.name}: {text}")
        return ServerError(f"{self.name}: {text}{more}", code=0)

    def _execute(self, transaction: Transaction) -> None:
        for committed, item in transaction.items:
            if not (committed or transaction.rolled_back):
                continue
            if transaction.rolled_back:
                continue
            self._executed = item.definitions
            if isinstance(item, _Definition):
                self._carry_out(item)
            else:
                self._change(item)
        values: dict[str, Any] = {}
        for prefix, position in (("log", transaction.position), ("resume", transaction.resume)):
            if position is not None and position.file:
                values |= {f"{prefix}_file": position.file, f"{prefix}_pos": position.offset}
        if transaction.resume is not None:
            values["log_mark"] = transaction.mark
        if transaction.gtids is not None:
            values[f"{transaction.gtids.flavour.value}_gtids"] = str(transaction.gtids)
        if values:
            applied = self._applied
            self._note(applied.update().where(applied.c.channel == self._channel).values(**values))

    def _note(self, row: sa.Update) -> None:
        """Update the row of the channel. Raises ServerError, before anything is committed, if it is
        not there: what is applied would be applied again.
        """
        if self._connection.execute(row).rowcount != 1:
            raise progress_missing(self.name, f"the row {self._channel!r} of {row.table}")

    def _carry_out(self, definition: _Definition) -> None:
        """Execute what a definition does. Raises SchemaError if the database cannot."""
        try:
            for effect in definition.effects:
                if isinstance(effect, _Altered):
                    self._alter(effect)
                elif isinstance(effect, _View):
                    self._put_view(effect)
                else:
                    self._define(*effect)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            text = " ".join(str(error.orig).split())[:500]
            raise self._rejected(definition, text) from error
        except SchemaError as error:
            views = any(isinstance(each, _View) for each in definition.effects)
            more = ", or leave all views out (--exclude VIEW)" if views else ""
            raise self._rejected(definition, error.message, more) from error

    def _define(self, what: str, database: str, *names: str) -> None:
        self._known.clear()
        connection = self._connection
        quote = self._engine.dialect.identifier_preparer.quote_identifier
        if what == "drop database":
            inspector = sa.inspect(connection)
            if self._is_sqlite:
                for name in inspector.get_view_names():
                    if name.startswith(f"{database}."):
                        connection.execute(sa.text(f"DROP VIEW {quote(name)}"))
                for name in inspector.get_table_names():
                    if name.startswith(f"{database}."):
                        connection.execute(sa.text(f"DROP TABLE {quote(name)}"))
            else:
                connection.execute(sa.text(f"DROP SCHEMA IF EXISTS {quote(database)} CASCADE"))
            return
        place = self._place(database, names[0])
        if not self._has_table(*place):
            return
        table = ".".join(quote(each) for each in place if each)
        if what == "drop":
            connection.execute(sa.text(f"DROP TABLE {table}"))
        elif what == "truncate":
            connection.execute(sa.text(f"DELETE FROM {table}"))  # noqa: S608 - quoted
        else:
            schema, name = self._place(names[1], names[2])
            if schema != place[0]:
                quoted = quote(str(schema))
                connection.execute(sa.text(f"ALTER TABLE {table} SET SCHEMA {quoted}"))
                table = f"{quoted}.{quote(place[1])}"
            connection.execute(sa.text(f"ALTER TABLE {table} RENAME TO {quote(name)}"))

    def _put_view(self, view: _View) -> None:
        if view.reason:
            raise SchemaError(view.reason)
        schema, name = self._place(view.database, view.name)
        connection = self._connection
        quote = self._engine.dialect.identifier_preparer.quote_identifier
        full = ".".join(quote(each) for each in (schema, name) if each)
        there = name in sa.inspect(connection).get_view_names(schema)
        if there and view.query and not view.replaces:
            return
        if there:
            connection.exec_driver_sql(f"DROP VIEW {full}")
        if view.query:
            for told, left_out in view.reads:
                self._table(told, left_out)
            if schema is not None:
                connection.execute(sa.schema.CreateSchema(schema, if_not_exists=True))
            query = view.query if self._is_sqlite else view.query.replace("%", "%%")
            connection.exec_driver_sql(f"CREATE VIEW {full} AS {query}")

    def _alter(self, altered: _Altered) -> None:
        """Carry out an ALTER TABLE. A table that is not there has no rows: it will be created as it
        is then.
        """
        schema, name = self._place(altered.database, altered.name)
        if not self._has_table(schema, name):
            return
        if altered.reason:
            raise SchemaError(altered.reason)
        self._known.clear()
        for step in altered.steps:
            if step.what == "rename table":
                self._define("rename", altered.database, altered.name, step.column, step.new)
            else:
                self._step(altered, step)

    def _step(self, altered: _Altered, step: TableStep) -> None:
        schema, name = self._place(altered.database, altered.name)
        connection = self._connection
        quote = self._engine.dialect.identifier_preparer.quote_identifier
        full = ".".join(quote(each) for each in (schema, name) if each)
        there = {
            column["name"].casefold(): column
            for column in sa.inspect(connection).get_columns(name, schema=schema)
        }
        column = there.get(step.column.casefold())
        if step.what == "add":
            if column is not None and step.lenient:
                return
            kind = self._type_of(altered, step.column, step.declared[1])
            if column is None:
                added = f"ALTER TABLE {full} ADD COLUMN {quote(step.column)} {kind}"
                connection.exec_driver_sql(added)
            if step.value is not None:
                self._fill(altered, step, only_null=False)
            return
        if column is None:
            if step.lenient or step.what == "drop":
                return
            raise SchemaError(f"the column {step.column} is not in {self.name}")
        called = quote(column["name"])
        if step.what == "drop":
            connection.exec_driver_sql(f"ALTER TABLE {full} DROP COLUMN {called}")
        elif step.what == "rename" and column["name"] != step.new:
            connection.exec_driver_sql(
                f"ALTER TABLE {full} RENAME COLUMN {called} TO {quote(step.new)}"
            )
        elif step.what == "fill":
            self._fill(altered, step, only_null=True)
        elif step.what == "convert":
            self._convert(altered, step, full, column)

    def _fill(self, altered: _Altered, step: TableStep, *, only_null: bool) -> None:
        """Give all rows the value of a column, or those that have NULL."""
        schema, name = self._place(altered.database, altered.name)
        kind = self._type_of(altered, step.column, step.declared[1])
        table = sa.table(name, sa.column(step.column, _Declared(kind)), schema=schema)
        column = table.c[step.column]
        try:
            value = self._value(step.value, _kind(step.declared[1]), is_text=kind == "TEXT")
        except ValueRejected as error:
            where = f"{altered.database}.{altered.name}.{step.column}"
            raise ValueRejected(f"{where}: {error}; leave the table out (--exclude)") from None
        update = table.update().values({column: value})
        self._connection.execute(update.where(column.is_(None)) if only_null else update)

    def _convert(self, altered: _Altered, step: TableStep, full: str, column: Any) -> None:
        """Give a column another type, and its values the form that they have in that."""
        old, new = (self._type_of(altered, step.column, each) for each in step.declared)
        execute = self._connection.exec_driver_sql
        quote = self._engine.dialect.identifier_preparer.quote_identifier
        called = quote(column["name"])
        expression = (step.expression or "{c}").format(c=called)
        if old == new:
            if step.expression is not None:
                execute(f"UPDATE {full} SET {called} = {expression}")  # noqa: S608 - quoted
            return
        if not self._is_sqlite:
            using = f"({expression})::{new}"
            execute(f"ALTER TABLE {full} ALTER COLUMN {called} TYPE {new} USING {using}")
            return
        if column.get("primary_key"):
            raise SchemaError(
                f"MODIFY {step.column} from {step.declared[0]} to {step.declared[1]}: SQLite cannot"
                " change the type of a column of the primary key"
            )
        between = quote(f"{column['name']} as {new}")
        execute(f"ALTER TABLE {full} ADD COLUMN {between} {new}")
        execute(f"UPDATE {full} SET {between} = {expression}")  # noqa: S608 - quoted
        execute(f"ALTER TABLE {full} DROP COLUMN {called}")
        execute(f"ALTER TABLE {full} RENAME COLUMN {between} TO {called}")

    def _place(self, database: str, name: str) -> tuple[str | None, str]:
        """Schema and name of a table. Raises SchemaError for one that would be another's, too."""
        if not self._is_sqlite:
            return database, name
        if "." in database:
            raise SchemaError(
                f"`{database}`.`{name}`: in SQLite tables are called DATABASE.TABLE, so that a"
                " database has no point in its name: leave it out (--exclude)"
            )
        return None, f"{database}.{name}"

    def _has_table(self, schema: str | None, name: str) -> bool:
        """Whether there is a table of this very name. Raises SchemaError for one that SQLite does
        not tell from it.
        """
        inspector = sa.inspect(self._connection)
        if not self._is_sqlite:
            return inspector.has_table(name, schema=schema)
        names = inspector.get_table_names()
        for each in names if name not in names else ():
            if each.encode().lower() == name.encode().lower():  # of ASCII's letters only
                raise SchemaError(
                    f"{name}: the target has {each}, and SQLite takes capital letters for small"
                    " ones: leave one of the two out (--exclude)"
                )
        return name in names

    # --- rows ------------------------------------------------------------------------------------

    def _table(self, told: ModifiedTable, left_out: frozenset[str]) -> _Table:
        found = self._known.get((told, left_out))
        if found is None:
            found = self._known[told, left_out] = self._find(told, left_out)
        return found

    def _find(self, told: ModifiedTable, left_out: frozenset[str]) -> _Table:
        """The target's table, created or with the columns added that it lacks."""
        schema, name = self._place(told.database, told.name)
        connection = self._connection
        inspector = sa.inspect(connection)
        exists = self._has_table(schema, name)
        columns = inspector.get_columns(name, schema=schema) if exists else []
        there = {column["name"]: column for column in columns}
        left_out -= there.keys()
        table = sa.Table(
            name,
            sa.MetaData(),
            *(
                sa.Column(
                    column.name,
                    _Declared(self._type(told, column)),
                    primary_key=column.name in told.primary_key,
                    autoincrement=False,
                )
                for column in told.columns
                if column.name not in left_out
            ),
            schema=schema,
        )
        if not exists:
            if schema is not None:
                connection.execute(sa.schema.CreateSchema(schema, if_not_exists=True))
            table.create(connection)
            return _Table(told, table, (told.primary_key,), frozenset(), left_out)
        quote = self._engine.dialect.identifier_preparer.quote_identifier
        full = ".".join(quote(each) for each in (schema, name) if each)
        for column in table.columns:
            if column.name not in there:
                kind = column.type.compile(self._engine.dialect)
                added = f"ALTER TABLE {full} ADD COLUMN {quote(column.name)} {kind}"
                connection.execute(sa.text(added))
        generated = frozenset(name for name, column in there.items() if "computed" in column)
        keys = dict.fromkeys((told.primary_key, *_unique_keys(inspector, name, schema)))
        known = tuple(key for key in keys if key and all(each in table.c for each in key))
        return _Table(told, table, known, generated, generated | left_out)

    def _type(self, told: ModifiedTable, column: TableColumn) -> str:
        return self._type_of(told, column.name, column.type)

    def _type_of(self, told: ModifiedTable | _Altered, column: str, declared: str) -> str:
        kind = _kind(declared)
        found = self._types.get(kind)
        if found is not None:
            return found
        if kind in _TEXT or kind in _POSTGRESQL:
            return "TEXT"
        if kind in _BYTES:
            return "BLOB" if self._is_sqlite else "BYTEA"
        raise UnsupportedType(
            f"{told.database}.{told.name}.{column}: the type {declared or '?'} is not one"
            f" that is applied to {self._engine.dialect.name}: leave the table out (--exclude)"
        )

    def _values(self, known: _Table, image: Mapping[str, Any]) -> dict[str, Any]:
        """The values of an image as the database takes them, without those that it computes."""
        types = {column.name: _kind(column.type) for column in known.told.columns}
        table = known.table
        try:
            return {
                key: self._value(value, types[key], is_text=_is_text(table, key))
                for key, value in image.items()
                if key not in known.not_written
            }
        except ValueRejected as error:
            raise ValueRejected(f"{known.name}: {error}; leave the table out (--exclude)") from None

    def _value(self, value: Any, kind: str, *, is_text: bool) -> Any:
        """A value as the database takes it: none is changed, but in its form."""
        if value is None or isinstance(value, JsonDiffs):
            return value
        if kind == "vector":
            return f"[{', '.join(map(float32_json, value))}]"
        if isinstance(value, (bytes, memoryview)):
            if is_text:
                raise ValueRejected("bytes that are no text")
            return bytes(value)
        if self._is_sqlite:
            exact = isinstance(value, (int, float)) and kind in _SQLITE
            if isinstance(value, Decimal):
                return f"{value:f}"
            return value if exact else str(value)
        if isinstance(value, (int, float, Decimal)):
            return value
        text = str(value)
        if "\0" in text:
            raise ValueRejected("a text with a zero byte, which PostgreSQL cannot hold")
        if kind in _DATES and (text.startswith("0000") or "-00" in text):
            raise ValueRejected(f"{text} is no date of PostgreSQL's")
        return f"{text}+00" if kind in _ZONED else text

    def _change(self, rows: _Rows) -> None:
        if not rows.is_named:
            raise SchemaError(
                f"{rows.table.database}.{rows.table.name}: the names of its columns are unknown, as"
                " neither the log has them (binlog_row_metadata=FULL) nor its CREATE TABLE was"
                " read: give a schema (--schema FILE), or leave the table out (--exclude)"
            )
        known = self._table(rows.table, rows.left_out)
        if rows.operation == "insert":
            values = [self._values(known, each) for each in rows.after]
            self._insert(known, values)
            return
        for number, before in enumerate(rows.before):
            old = self._values(known, before)
            where = self._where(known, old)
            if rows.operation == "delete":
                found = self._one(known.table.delete().where(where))
            else:
                new = self._values(known, rows.after[number])
                _check_logged(known, rows, before, rows.after[number])
                found = self._update(known, where, old, new)
            if not found and self._conflicts == "stop":
                raise self._missing(known, rows.operation)

    def _missing(self, known: _Table, operation: str) -> ServerError:
        return ServerError(
            f"{self.name}: the row to {operation} is not in {known.name}{CONFLICT}", code=0
        )

    def _one(self, statement: Any) -> int | None:
        """Execute a statement; gives the number of rows, None if a key of theirs is there already.

        Raises the database's error for anything else that is wrong, and for that if the applier
        stops at conflicts.
        """
        if self._conflicts == "stop":
            return int(self._connection.execute(statement).rowcount)
        try:
            with self._connection.begin_nested():
                return int(self._connection.execute(statement).rowcount)
        except IntegrityError as error:
            if not _is_unique(error):
                raise
            return None

    def _update(
        self, known: _Table, where: Any, old: dict[str, Any], new: dict[str, Any]
    ) -> int | None:
        table = known.table
        diffs = [name for name, value in new.items() if isinstance(value, JsonDiffs)]
        if diffs:
            columns = (sa.cast(table.c[name], sa.Text) for name in diffs)
            documents = self._connection.execute(sa.select(*columns).where(where)).first()
            if documents is None:
                return self._update_missing(known, old, new, diffs)
            try:
                for name, document in zip(diffs, documents, strict=True):
                    new[name] = str(new[name].apply(document or ""))
            except EventDecodeError:  # the row has another document
                return self._update_missing(known, old, new, diffs)
        if not new:
            return 1  # only generated columns differ
        update = table.update().where(where).values(**new)
        found = self._one(update)
        if found is None and self._conflicts == "overwrite":
            with self._connection.begin_nested():
                for condition in _same_key(known, old | new):
                    self._connection.execute(table.delete().where(condition, sa.not_(where)))
                return int(self._connection.execute(update).rowcount)
        if found == 0:
            return self._update_missing(known, old, new, [])
        return found

    def _update_missing(
        self, known: _Table, old: dict[str, Any], new: dict[str, Any], diffs: list[str]
    ) -> int:
        """The row to update is not there: insert it, where conflicts are overwritten."""
        if self._conflicts == "overwrite":
            self._put(
                known, {name: value for name, value in (old | new).items() if name not in diffs}
            )
            return 1
        return 0

    def _insert(self, known: _Table, values: list[dict[str, Any]]) -> None:
        self._check_whole(known, values[0])
        insert = known.table.insert()
        for at in range(0, len(values), _ROWS):
            some = values[at : at + _ROWS]
            if self._conflicts == "stop":
                self._connection.execute(insert, some)
                continue
            try:
                with self._connection.begin_nested():
                    self._connection.execute(insert, some)
            except IntegrityError as error:
                if not _is_unique(error):
                    raise
            else:
                continue
            for each in some:
                if self._conflicts == "overwrite":
                    self._put(known, each)
                else:
                    self._one(insert.values(**each))

    def _put(self, known: _Table, values: dict[str, Any]) -> None:
        """Insert a row in place of all that have one of its keys."""
        self._check_whole(known, values)
        with self._connection.begin_nested():
            for condition in _same_key(known, values):
                self._connection.execute(known.table.delete().where(condition))
            self._connection.execute(known.table.insert().values(**values))

    @staticmethod
    def _check_whole(known: _Table, values: Mapping[str, Any]) -> None:
        """Only a whole row can be inserted: what else would be in it is unknown here."""
        lacks = [name for name in known.table.c.keys() if name not in values]  # noqa: SIM118
        lacks = [name for name in lacks if name not in known.not_written]
        if lacks:
            raise SchemaError(
                f"{known.name}: the log's row image lacks the values of {', '.join(lacks)}, as"
                " binlog_row_image (or binlog_row_value_options) is not FULL: a row without them"
                " cannot be inserted; leave the table out (--exclude)"
            )

    def _where(self, known: _Table, image: Mapping[str, Any]) -> Any:
        """The condition that finds a row: by its key, else by all its columns, one row of them."""
        table, key = known.table, known.told.primary_key
        if key:
            missing = [name for name in key if name not in image]
            if missing:
                raise SchemaError(
                    f"{known.name}: the log's row image lacks {', '.join(missing)}, which its key"
                    " has: leave the table out (--exclude)"
                )
            return sa.and_(*(table.c[name] == image[name] for name in key))
        row: sa.ColumnClause[Any] = sa.literal_column("rowid" if self._is_sqlite else "ctid")
        same = (table.c[name].is_not_distinct_from(value) for name, value in image.items())
        return row.in_(sa.select(row).select_from(table).where(sa.and_(*same)).limit(1))


def _check_logged(known: _Table, rows: _Rows, *images: Iterable[str]) -> None:
    """Raise SchemaError where an update's images lack a value that may have changed, and the target
    does not compute it.
    """
    if not rows.lacking:
        return
    lacks = rows.lacking.intersection(known.table.c.keys()) - known.not_written
    if lacks := lacks.difference(*images):
        is_known = lacks <= rows.left_out
        why = (
            "which MariaDB generates: create these columns as generated ones in the target, or drop"
            " them there"
            if is_known
            else "which MariaDB may generate, as its CREATE TABLE was not read: give a schema"
            " (--schema FILE), or leave the table out (--exclude)"
        )
        raise SchemaError(
            f"{known.name}: the log's update lacks the values of {', '.join(sorted(lacks))}, {why}"
        )


def _same_key(known: _Table, values: Mapping[str, Any]) -> Iterator[Any]:
    """The conditions for rows that have one of the keys of a row."""
    for key in known.keys:
        if all(values.get(name) is not None for name in key):
            yield sa.and_(*(known.table.c[name] == values[name] for name in key))


def _unique_keys(
    inspector: sa.Inspector, name: str, schema: str | None
) -> Iterator[tuple[str, ...]]:
    """The columns of a table's unique keys. One over expressions, or over some rows only, is not
    among them: a row that has its key is rejected.
    """
    yield tuple(inspector.get_pk_constraint(name, schema=schema)["constrained_columns"])
    for constraint in inspector.get_unique_constraints(name, schema=schema):
        yield tuple(constraint["column_names"])
    for index in inspector.get_indexes(name, schema=schema):
        partial = any(key.endswith("_where") for key in index.get("dialect_options", {}))
        columns = [each for each in index["column_names"] if each is not None]
        if index["unique"] and not partial and len(columns) == len(index["column_names"]):
            yield tuple(columns)


def _state(error: SQLAlchemyError) -> str | None:
    """The SQLSTATE of an error, where the driver has it."""
    driver = getattr(error, "orig", None)
    found = getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)
    return None if found is None else str(found)


def _is_unique(error: SQLAlchemyError) -> bool:
    """Whether a row has a key that exists already: of all violations, the only conflict."""
    name = getattr(getattr(error, "orig", None), "sqlite_errorname", None)
    return name in _SQLITE_UNIQUE or _state(error) == _UNIQUE


def _prepare_sqlite(engine: sa.Engine) -> None:
    """Let transactions of SQLite begin where SQLAlchemy says so, and its foreign keys have effect.

    The driver begins one before a change only, so a savepoint before it would be a transaction.
    """

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _state_of(told: ModifiedTable, schema: TableSchema) -> TableState:
    """A table's definition, as far as its rows tell it."""
    columns = (
        ColumnDefinition(
            told_column.name,
            told_column.type,
            column.unsigned,
            column.collation,
            column.members,
            column.logical,
            column.nullable,
            generated=None if column.may_be_lacking is None else column.generated,
        )
        for told_column, column in zip(told.columns, schema.columns, strict=True)
    )
    return TableState(TableDefinition(told.database, told.name, tuple(columns), told.primary_key))


def _kind(declared: str) -> str:
    """A type as the tables of types have it: without length, and unsigned where that matters."""
    word = declared.partition("(")[0].split(" ")[0]
    unsigned = f"{word} unsigned"
    return unsigned if declared.endswith(" unsigned") and unsigned in _POSTGRESQL else word


def _is_text(table: sa.Table, key: str) -> bool:
    kind = table.c[key].type
    return isinstance(kind, _Declared) and kind.name == "TEXT"


def _position(file: str | None, offset: int | None) -> Position | None:
    return None if file is None or offset is None else Position(file, offset)
