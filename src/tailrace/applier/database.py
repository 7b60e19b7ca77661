"""Databases that SQLAlchemy reaches, such as PostgreSQL and SQLite, as a target of rows.

A table is created before its first row, with the columns that the log says it has; columns that are
added later are added. Definitions are executed as far as they have an effect on rows: DROP, RENAME
and TRUNCATE TABLE. What would change the rows of a table otherwise is rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tailrace.applier.target import Conflicts, Progress, Target
from tailrace.errors import (
    ConnectionLost,
    SchemaError,
    ServerError,
    TailraceError,
    UsageError,
    ValueRejected,
)
from tailrace.extras import importing
from tailrace.generators.event import context_of
from tailrace.generators.log_context import QueryContext
from tailrace.gtid import GtidList, GtidSet
from tailrace.log.readable import rows_not_logged
from tailrace.position import Position
from tailrace.schema.clauses import PutColumn, ShowColumn
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
)
from tailrace.schema.foreign_keys import ForeignKey
from tailrace.schema.hidden import UniqueKey
from tailrace.sql.logged import effects_of

with importing("apply", "applying to this database"):
    import sqlalchemy as sa
    from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
    from sqlalchemy.types import UserDefinedType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.applier.transaction import Transaction
    from tailrace.generators import ModifiedTable, RowBatch, StatementQuery
    from tailrace.schema.clauses import Clause

_BYTES: Final = ("blob", "binary", "geometry", "point", "polygon", "linestring", "collection")
_ROWS: Final = 500
"""Rows of one statement."""


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
"""The types of PostgreSQL. What is not here is TEXT, or BYTEA for bytes."""
_SQLITE: Final = {
    **{name: "INTEGER" for name in _POSTGRESQL if "INT" in _POSTGRESQL[name] and name != "time"},
    "float": "REAL",
    "double": "REAL",
}
"""The types of SQLite. What is not here is TEXT, or BLOB for bytes: no number is rounded."""
_HAS_DEFAULT: Final = re.compile(r"\bDEFAULT\b(?!\s+NULL\b)", re.IGNORECASE)
_DATES: Final = frozenset({"date", "datetime", "timestamp"})
_ZONED: Final = frozenset({"timestamp"})


@dataclass(frozen=True, slots=True)
class _Rows:
    table: ModifiedTable
    operation: str
    before: list[Mapping[str, Any]]
    after: list[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Definition:
    """The effects of a definition on tables: (``drop``, table), (``rename``, table, new)."""

    effects: tuple[tuple[str, ...], ...]


class DatabaseTarget(Target):
    """A database that SQLAlchemy reaches, by its URL."""

    def __init__(self, url: str, *, channel: str, table: str, conflicts: Conflicts) -> None:
        try:
            self._engine = sa.create_engine(url)
        except (SQLAlchemyError, ImportError) as error:
            raise UsageError(f"{url!r:.80} is no database to apply to: {error}") from error
        self._conflicts = conflicts
        self._channel = channel
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._types = _SQLITE if self._is_sqlite else _POSTGRESQL
        self.name = self._engine.url.render_as_string(hide_password=True)
        self._known: dict[ModifiedTable, sa.Table] = {}
        database, _, name = table.partition(".")
        self._applied = sa.Table(
            f"{database}.{name}" if self._is_sqlite else name,
            sa.MetaData(),
            sa.Column("channel", sa.Text, primary_key=True),
            sa.Column("log_file", sa.Text),
            sa.Column("log_pos", sa.BigInteger),
            sa.Column("resume_file", sa.Text),
            sa.Column("resume_pos", sa.BigInteger),
            sa.Column("mysql_gtids", sa.Text),
            sa.Column("mariadb_gtids", sa.Text),
            schema=None if self._is_sqlite else database,
        )
        try:
            self._connection = self._engine.connect()
            self._open(database)
        except DBAPIError as error:
            self._engine.dispose()
            raise self._told(error) from error
        except BaseException:
            self._engine.dispose()
            raise

    def _open(self, database: str) -> None:
        if not self._is_sqlite:
            number = int.from_bytes(self._channel.encode()[:7], "big")
            locked = self._connection.scalar(sa.select(sa.func.pg_try_advisory_lock(number)))
            if not locked:
                raise UsageError(
                    f"{self.name}: another applier has the channel {self._channel!r}: end it, or"
                    " give this one a channel of its own"
                )
            self._connection.execute(sa.schema.CreateSchema(database, if_not_exists=True))
        self._applied.create(self._connection, checkfirst=True)
        found = self._connection.execute(
            sa.select(self._applied).where(self._applied.c.channel == self._channel)
        ).first()
        if found is None:
            self._connection.execute(self._applied.insert().values(channel=self._channel))
        self._connection.commit()
        given = {} if found is None else dict(found._mapping)  # noqa: SLF001 - its public name
        self._progress = Progress(
            _position(given.get("log_file"), given.get("log_pos")),
            _position(given.get("resume_file"), given.get("resume_pos")),
            GtidSet.parse(given.get("mysql_gtids") or ""),
            GtidList.parse(given.get("mariadb_gtids") or ""),
        )

    @property
    def progress(self) -> Progress:
        """As the table of positions says."""
        return self._progress

    def close(self) -> None:
        """Close the connection; what was not committed is rolled back."""
        self._connection.close()
        self._engine.dispose()

    # --- what it makes of events -----------------------------------------------------------------

    def rows(self, event: RowBatch) -> tuple[Any, int] | None:
        """The rows' images."""
        before, after = list(event.before_images or ()), list(event.after_images or ())
        made = _Rows(event.table, event.operation, before, after)
        return made, 64 * (len(before) + len(after)) * (1 + len(event.table.columns))

    def statement(self, event: StatementQuery, _blocks: bytes | None) -> tuple[Any, int] | None:
        """The effects of a definition on tables.

        Raises StatementChange for a statement that changes rows, SchemaError for a definition that
        changes a table in a way that the rows after it do not show.
        """
        context = context_of(event)
        if not isinstance(context, QueryContext):
            raise SchemaError(f"{self.name}: only statements of a log can be applied")
        if event.is_row_statement:
            raise rows_not_logged(context.event)
        found: list[tuple[str, ...]] = []
        for effect in effects_of(context.event):
            match effect:
                case DropTable():
                    found.append(("drop", *effect.name.key))
                case Truncate():
                    found.append(("truncate", *effect.name.key))
                case RenameTo():
                    found.append(("rename", *effect.old.key, *effect.new.key))
                case AlterTable() if all(map(_shows_in_rows, effect.clauses)) and not (
                    _HAS_DEFAULT.search(event.query_string)
                ):
                    pass
                case CreateTable() | CreateLike() | Temporary() | PutDatabase():
                    pass
                case DropDatabase():
                    found.append(("drop database", effect.database))
                case _:
                    at = context.event
                    raise SchemaError(
                        f"this definition cannot be applied to {self._engine.dialect.name}:"
                        f" {' '.join(event.query_string.split())[:200]!r}: change the table there"
                        f" yourself, and continue after it (--start {at.file}:"
                        f"{at.end_offset})"
                    ).at(at.file, at.offset, at.name)
        return (_Definition(tuple(found)), 64) if found else None

    # --- applying --------------------------------------------------------------------------------

    def apply(self, transactions: Sequence[Transaction]) -> None:
        """Apply transactions, with the row of the channel: together, as one of the database's.

        If one fails, they are applied one by one, so that those before it are kept.
        """
        self.applied = 0
        try:
            for each in transactions:
                self._execute(each)
            self._connection.commit()
        except (DBAPIError, TailraceError):
            self._connection.rollback()
            self._known.clear()
        else:
            self.applied = len(transactions)
            return
        for each in transactions:
            try:
                self._execute(each)
                self._connection.commit()
                self.applied += 1
            except DBAPIError as error:
                self._connection.rollback()
                self._known.clear()
                advice = ""
                if isinstance(error, IntegrityError):
                    advice = (
                        ": the target's rows are not those of the source; conflicts=skip leaves"
                        " them, conflicts=overwrite replaces them (--conflicts)"
                    )
                raise self._told(error, f": in {each.name}{advice}") from error
            except BaseException:
                self._connection.rollback()
                raise

    def _told(self, error: DBAPIError, more: str = "") -> ServerError | ConnectionLost:
        text = " ".join(str(error.orig).split())[:500]
        if error.connection_invalidated:
            return ConnectionLost(f"{self.name}: {text}")
        return ServerError(f"{self.name}: {text}{more}", code=0)

    def _execute(self, transaction: Transaction) -> None:
        for committed, item in transaction.items:
            if not (committed or transaction.rolled_back):
                continue
            if transaction.rolled_back:
                continue
            if isinstance(item, _Definition):
                for effect in item.effects:
                    self._define(*effect)
            else:
                self._change(item)
        values: dict[str, Any] = {}
        for prefix, position in (("log", transaction.position), ("resume", transaction.resume)):
            if position is not None and position.file:
                values |= {f"{prefix}_file": position.file, f"{prefix}_pos": position.offset}
        if transaction.gtids is not None:
            values[f"{transaction.gtids.flavour.value}_gtids"] = str(transaction.gtids)
        if values:
            applied = self._applied
            self._connection.execute(
                applied.update().where(applied.c.channel == self._channel).values(**values)
            )

    def _define(self, what: str, database: str, *names: str) -> None:
        self._known.clear()
        connection = self._connection
        quote = self._engine.dialect.identifier_preparer.quote_identifier
        if what == "drop database":
            inspector = sa.inspect(connection)
            if self._is_sqlite:
                for name in inspector.get_table_names():
                    if name.startswith(f"{database}."):
                        connection.execute(sa.text(f"DROP TABLE {quote(name)}"))
            else:
                connection.execute(sa.text(f"DROP SCHEMA IF EXISTS {quote(database)} CASCADE"))
            return
        place = self._place(database, names[0])
        if not sa.inspect(connection).has_table(place[1], schema=place[0]):
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

    def _place(self, database: str, name: str) -> tuple[str | None, str]:
        """Schema and name of a table."""
        return (None, f"{database}.{name}") if self._is_sqlite else (database, name)

    # --- rows ------------------------------------------------------------------------------------

    def _table(self, told: ModifiedTable) -> sa.Table:
        found = self._known.get(told)
        if found is not None:
            return found
        schema, name = self._place(told.database, told.name)
        if not all(column.name for column in told.columns):
            raise SchemaError(f"{told.database}.{told.name}: the names of its columns are unknown")
        found = sa.Table(
            name,
            sa.MetaData(),
            *(
                sa.Column(
                    column.name,
                    _Declared(self._type(column.type)),
                    primary_key=column.name in told.primary_key,
                    autoincrement=False,
                )
                for column in told.columns
            ),
            schema=schema,
        )
        connection = self._connection
        inspector = sa.inspect(connection)
        if not inspector.has_table(name, schema=schema):
            if schema is not None:
                connection.execute(sa.schema.CreateSchema(schema, if_not_exists=True))
            found.create(connection)
        else:
            there = {column["name"] for column in inspector.get_columns(name, schema=schema)}
            quote = self._engine.dialect.identifier_preparer.quote_identifier
            full = ".".join(quote(each) for each in (schema, name) if each)
            for column in found.columns:
                if column.name not in there:
                    kind = column.type.compile(self._engine.dialect)
                    added = f"ALTER TABLE {full} ADD COLUMN {quote(column.name)} {kind}"
                    connection.execute(sa.text(added))
        self._known[told] = found
        return found

    def _type(self, declared: str) -> str:
        found = self._types.get(_kind(declared))
        if found is not None:
            return found
        if _kind(declared).endswith(_BYTES):
            return "BLOB" if self._is_sqlite else "BYTEA"
        return "TEXT"

    def _values(
        self, table: sa.Table, told: ModifiedTable, image: Mapping[str, Any]
    ) -> dict[str, Any]:
        types = {column.name: _kind(column.type) for column in told.columns}
        try:
            return {
                key: self._value(value, types[key], is_text=_is_text(table, key))
                for key, value in image.items()
            }
        except ValueRejected as error:
            raise ValueRejected(
                f"{told.database}.{told.name}: {error}; leave the table out (--exclude)"
            ) from None

    def _value(self, value: Any, kind: str, *, is_text: bool) -> Any:
        """A value as the database takes it: none is changed, but in its form."""
        if value is None:
            return None
        if isinstance(value, (bytes, memoryview)):
            if is_text:
                raise ValueRejected("bytes that are no text")
            return bytes(value)
        if self._is_sqlite:
            exact = isinstance(value, (int, float)) and kind in _SQLITE
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
        table = self._table(rows.table)
        if rows.operation == "insert":
            values = [self._values(table, rows.table, each) for each in rows.after]
            self._insert(table, rows.table, values)
            return
        for number, before in enumerate(rows.before):
            old = self._values(table, rows.table, before)
            where = self._where(table, rows.table, old)
            if rows.operation == "delete":
                found = self._one(table.delete().where(where))
            else:
                new = self._values(table, rows.table, rows.after[number])
                found = self._one(table.update().where(where).values(**new))
                if not found and self._conflicts == "overwrite":
                    self._insert(table, rows.table, [old | new])
                    continue
            if not found and self._conflicts == "stop":
                raise ServerError(
                    f"{self.name}: the row to {rows.operation} is not in"
                    f" {rows.table.database}.{rows.table.name}: the target's rows are not those of"
                    " the source; conflicts=skip leaves them, conflicts=overwrite replaces them"
                    " (--conflicts)",
                    code=0,
                )

    def _one(self, statement: Any) -> int:
        if self._conflicts == "stop":
            return int(self._connection.execute(statement).rowcount)
        try:
            with self._connection.begin_nested():
                return int(self._connection.execute(statement).rowcount)
        except IntegrityError:
            return 0

    def _insert(self, table: sa.Table, told: ModifiedTable, values: list[dict[str, Any]]) -> None:
        if self._conflicts == "stop" or not told.primary_key:
            for at in range(0, len(values), _ROWS):
                self._connection.execute(table.insert(), values[at : at + _ROWS])
            return
        for each in values:
            if self._conflicts == "overwrite":
                self._one(table.delete().where(self._where(table, told, each)))
            self._one(table.insert().values(**each))

    def _where(self, table: sa.Table, told: ModifiedTable, image: Mapping[str, Any]) -> Any:
        """The condition that finds a row: by its key, else by all its columns, one row of them."""
        if told.primary_key:
            missing = [name for name in told.primary_key if name not in image]
            if missing:
                raise SchemaError(f"{told.database}.{told.name}: the row image lacks {missing}")
            return sa.and_(*(table.c[name] == image[name] for name in told.primary_key))
        row: sa.ColumnClause[Any] = sa.literal_column("rowid" if self._is_sqlite else "ctid")
        same = (table.c[name].is_not_distinct_from(value) for name, value in image.items())
        return row.in_(sa.select(row).select_from(table).where(sa.and_(*same)).limit(1))


def _shows_in_rows(clause: Clause) -> bool:
    """Whether a clause leaves the rows as they are, but for a new column that is NULL in all."""
    if isinstance(clause, PutColumn):
        column = clause.column
        return clause.old is None and column.nullable and not column.generated
    return isinstance(clause, (ForeignKey, ShowColumn, UniqueKey))


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
