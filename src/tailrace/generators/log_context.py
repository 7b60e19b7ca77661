"""What a log tells of each change: the contexts that stand on its events."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tailrace.constants import EventFlag, Flavour, QueryFlag, RowsFlag
from tailrace.errors import EventDecodeError, UnsupportedType, ValueRejected
from tailrace.events import (
    ExecuteLoadQueryEvent,
    GtidEvent,
    IntVarEvent,
    MariadbGtidEvent,
    QueryEvent,
    RandEvent,
    UserVarEvent,
)
from tailrace.events.mariadb import MariadbGtidFlag
from tailrace.events.status_vars import StatusVariable
from tailrace.events.transaction import XaPrepareEvent, XidEvent
from tailrace.events.variables import IntVarKind, UserVarType
from tailrace.generators.event import Context
from tailrace.generators.row import ModifiedTable, RowsContext, TableColumn
from tailrace.generators.statement import UserVariable
from tailrace.generators.transaction import GlobalTransactionId
from tailrace.position import Position
from tailrace.schema.classify import classify
from tailrace.schema.session import session_of_event
from tailrace.transaction.statements import xa_name
from tailrace.values.charsets import charset_of, collation_name, decode, encode
from tailrace.values.decimals import number_text
from tailrace.values.schema import Logical
from tailrace.values.sql_type import sql_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal

    from tailrace.events import Event, LoadBlockEvent
    from tailrace.events.transaction import XaName
    from tailrace.log.changes import Change, Logged
    from tailrace.values.row import Row
    from tailrace.values.schema import TableSchema

_V: Final = StatusVariable
_VECTOR: Final = "vector"
_NO_FOREIGN_KEY_CHECKS: Final = int(RowsFlag.NO_FOREIGN_KEY_CHECKS)
_RELAXED_UNIQUE_CHECKS: Final = int(RowsFlag.RELAXED_UNIQUE_CHECKS)


class LogContext(Context):
    """What a log's event tells: ``READERS`` has a function for each accessor that it tells."""

    __slots__ = ("event", "transaction")

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __init__(self, event: Event, transaction: int) -> None:
        self.event = event
        self.transaction = transaction

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__mro__[1:]:
            cls.READERS = {**getattr(base, "READERS", {}), **cls.READERS}

    def read(self, accessor: str) -> Any:
        """The value of an accessor; None for one that a log cannot tell."""
        reader = self.READERS.get(accessor)
        return None if reader is None else reader(self)


def _position(context: LogContext) -> Position | None:
    event = context.event
    if event.file is None or event.offset is None:
        return None
    return Position(event.file, event.offset)


def _timestamp(context: LogContext) -> int:
    event = context.event
    return event.timestamp_us if isinstance(event, QueryEvent) else event.timestamp * 1_000_000


LogContext.READERS = {
    "position": _position,
    "timestamp": _timestamp,
    "server_id": lambda context: context.event.header.server_id,
    "local_transaction_id": lambda context: context.transaction,
}


@dataclass(slots=True)
class Originals:
    """All events of a log's transaction, in their order, for who copies what was not changed.

    ``offered`` counts the changes that were offered of it so far. They are not all that it has if
    it is not ``is_whole``: others were rolled back.
    """

    events: list[Event]
    offered: int = 0
    is_whole: bool = True


class HeadContext(LogContext):
    """What is known when a transaction starts: ``event`` is its first.

    ``originals`` are all of its events; None if some are not offered, since they are of tables that
    are not wanted, and if it is too large to be held. ``last`` is the event that was read last.
    """

    __slots__ = ("last", "originals")

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "xa": lambda context: xa_of(context.event, context.last),
        "transactional_tables": lambda context: _table_sorts(context.event)[0],
        "non_transactional_tables": lambda context: _table_sorts(context.event)[1],
    }

    def __init__(
        self,
        event: Event,
        transaction: int,
        last: Event | None = None,
        originals: Originals | None = None,
    ) -> None:
        self.event = event
        self.transaction = transaction
        self.last = last
        self.originals = originals


def _table_sorts(
    first: Event, last: Event | None = None, *, has_rows: bool = False
) -> tuple[bool | None, bool | None]:
    """Whether tables with transactions took part, and ones without: as far as the log tells.

    MariaDB flags a transaction that can be rolled back. Both servers end one that changed tables
    with transactions by XID, and one that changed only others by COMMIT (facts sheet, section 9),
    and so one with a statement that changed nothing.
    """
    if isinstance(first, MariadbGtidEvent):
        if first.flags & MariadbGtidFlag.DDL:
            return None, None
        if first.flags & MariadbGtidFlag.TRANSACTIONAL:
            return True, False
    if isinstance(last, XidEvent):
        return True, None
    if has_rows and isinstance(last, QueryEvent) and last.sql_bytes == b"COMMIT":
        return None, True
    return None, None


class EndContext(LogContext):
    """What is known when a transaction was decided: ``event`` is its last, ``first`` its first.

    ``gtid`` and ``prepared`` are texts, ``savepoint`` is of a ROLLBACK TO. ``has_rows``: some of
    its changes are rows.
    """

    __slots__ = ("first", "gtid", "has_rows", "prepared", "savepoint")

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "xa": lambda context: (
            None if context.savepoint is not None else xa_of(context.first, context.event)
        ),
        "savepoint": lambda context: context.savepoint,
        "global_transaction_id": lambda context: _global_id(context.gtid),
        "prepared_transaction_id": lambda context: _global_id(context.prepared),
        "transactional_tables": lambda context: _table_sorts(
            context.first, context.event, has_rows=context.has_rows
        )[0],
        "non_transactional_tables": lambda context: _table_sorts(
            context.first, context.event, has_rows=context.has_rows
        )[1],
        "commit_timestamp": lambda context: _of_gtid(context, "commit_timestamp"),
        "immediate_commit_timestamp": lambda context: _of_gtid(
            context, "immediate_commit_timestamp"
        ),
        "last_committed": lambda context: _of_gtid(context, "last_committed"),
        "sequence_number": lambda context: _of_gtid(context, "sequence_number"),
        "group_commit_id": lambda context: (
            context.first.commit_id if isinstance(context.first, MariadbGtidEvent) else None
        ),
    }

    def __init__(
        self,
        event: Event,
        transaction: int,
        *,
        first: Event,
        gtid: str | None = None,
        prepared: str | None = None,
        savepoint: str | None = None,
        has_rows: bool = False,
    ) -> None:
        self.event = event
        self.transaction = transaction
        self.first = first
        self.has_rows = has_rows
        self.gtid = gtid
        self.prepared = prepared
        self.savepoint = savepoint


def _global_id(gtid: str | None) -> GlobalTransactionId | None:
    return None if gtid is None else GlobalTransactionId.of(gtid)


def _of_gtid(context: EndContext, name: str) -> int | None:
    first = context.first
    value: int | None = getattr(first, name) if isinstance(first, GtidEvent) else None
    return value


class StatementEdgeContext(LogContext):
    """Where a statement starts or ends: ``rows_query`` is its text, if it was logged as rows."""

    __slots__ = ("rows_query",)

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "rows_query": lambda context: context.rows_query,
        "current_database": lambda context: (
            context.event.database if isinstance(context.event, QueryEvent) else None
        ),
        "error_code": lambda context: (
            context.event.error_code if isinstance(context.event, QueryEvent) else None
        ),
    }

    def __init__(self, event: Event, transaction: int, rows_query: str | None = None) -> None:
        super().__init__(event, transaction)
        self.rows_query = rows_query


class QueryContext(LogContext):
    """A statement, and the events before it that say what it reads from its session."""

    __slots__ = ("before", "event")

    event: QueryEvent

    def __init__(self, item: Logged, transaction: int) -> None:
        super().__init__(item.event, transaction)
        self.before = item.before

    def of_event(self, event: QueryEvent) -> QueryContext:
        """A copy of this context, with another statement in place of its own."""
        made = copy(self)
        made.event = event
        return made


def _status(code: StatusVariable) -> Callable[[QueryContext], Any]:
    return lambda context: context.event.status_value(code)


def _boolean(code: StatusVariable) -> Callable[[QueryContext], bool | None]:
    def read(context: QueryContext) -> bool | None:
        value = context.event.status_value(code)
        return None if value is None else bool(value)

    return read


def _flag(mask: int, *, off: bool = False) -> Callable[[QueryContext], bool | None]:
    def read(context: QueryContext) -> bool | None:
        flags = context.event.status_value(_V.FLAGS2)
        return None if flags is None else bool(flags & mask) is not off

    return read


def _mariadb(read: Callable[[QueryContext], bool | None]) -> Callable[[QueryContext], bool | None]:
    """A flag that only MariaDB has."""
    return lambda context: read(context) if context.event.form.flavour is Flavour.MARIADB else None


def _charset(number: int) -> Callable[[QueryContext], str | None]:
    def read(context: QueryContext) -> str | None:
        ids = context.event.status_value(_V.CHARSET)
        if ids is None:
            return None
        if number == 0:
            return charset_of(ids[0])
        return collation_name(ids[number], context.event.form.flavour)

    return read


def _collation(code: StatusVariable) -> Callable[[QueryContext], str | None]:
    def read(context: QueryContext) -> str | None:
        found = context.event.status_value(code)
        return None if found is None else collation_name(found, context.event.form.flavour)

    return read


def _part(code: StatusVariable, number: int) -> Callable[[QueryContext], int | None]:
    def read(context: QueryContext) -> int | None:
        found = context.event.status_value(code)
        return None if found is None else found[number]

    return read


def _query_string(context: QueryContext) -> str:
    _, text = session_of_event(context.event, context.event.form.flavour)
    return text or context.event.sql


def _integer(kind: IntVarKind) -> Callable[[QueryContext], int | None]:
    def read(context: QueryContext) -> int | None:
        for event in context.before:
            if isinstance(event, IntVarEvent) and event.kind is kind:
                return event.value
        return None

    return read


def _seeds(context: QueryContext) -> tuple[int, int] | None:
    for event in context.before:
        if isinstance(event, RandEvent):
            return event.seed1, event.seed2
    return None


def _user_variables(context: QueryContext) -> tuple[UserVariable, ...]:
    return tuple(_user_variable(each) for each in context.before if isinstance(each, UserVarEvent))


def _user_variable(event: UserVarEvent) -> UserVariable:
    value: Any = event.value
    collation = None
    match event.value_type:
        case UserVarType.STRING:
            charset = charset_of(event.collation or 0)
            collation = collation_name(event.collation or 0, event.form.flavour)
            if charset != "binary":
                with suppress(EventDecodeError, ValueRejected):
                    text = decode(charset, value)
                    value = text if encode(charset, text) == value else value
        case UserVarType.DECIMAL:
            value = Decimal(number_text(value[2:], value[0], value[1]))
        case None | UserVarType.INT | UserVarType.REAL:
            pass
        case _:
            raise UnsupportedType(f"user variable {event.variable} of type {event.value_type}").at(
                event.file, event.offset, event.name
            )
    return UserVariable(event.variable, value, collation, event.unsigned)


def _collations(context: QueryContext) -> tuple[tuple[str, str], ...]:
    pairs = context.event.status_value(_V.CHARACTER_SET_COLLATIONS) or ()
    flavour = context.event.form.flavour
    return tuple((charset_of(charset), collation_name(to, flavour)) for charset, to in pairs)


QueryContext.READERS = {
    **LogContext.READERS,
    "current_database": lambda context: context.event.database or None,
    "uses_current_database": lambda context: (
        not (context.event.header.flags & EventFlag.SUPPRESS_USE)
    ),
    "query_string": _query_string,
    "query_bytes": lambda context: bytes(context.event.sql_bytes),
    "error_code": lambda context: context.event.error_code,
    "connection_id": lambda context: context.event.thread_id,
    "execution_time": lambda context: context.event.exec_time,
    "sql_mode": _status(_V.SQL_MODE),
    "character_set_client": _charset(0),
    "collation_connection": _charset(1),
    "collation_server": _charset(2),
    "collation_database": _collation(_V.CHARSET_DATABASE),
    "lc_time_names": _status(_V.LC_TIME_NAMES),
    "time_zone": _status(_V.TIME_ZONE),
    "auto_increment_increment": _part(_V.AUTO_INCREMENT, 0),
    "auto_increment_offset": _part(_V.AUTO_INCREMENT, 1),
    "uses_auto_increment": lambda context: _integer(IntVarKind.INSERT_ID)(context) is not None,
    "last_insert_id": _integer(IntVarKind.LAST_INSERT_ID),
    "insert_id": _integer(IntVarKind.INSERT_ID),
    "random_seeds": _seeds,
    "user_variables": _user_variables,
    "uses_temporary_tables": lambda context: bool(
        context.event.header.flags & EventFlag.THREAD_SPECIFIC
    ),
    "table_map_for_update": _status(_V.TABLE_MAP_FOR_UPDATE),
    "foreign_key_checks": _flag(QueryFlag.NO_FOREIGN_KEY_CHECKS, off=True),
    "unique_checks": _flag(QueryFlag.RELAXED_UNIQUE_CHECKS, off=True),
    "auto_is_null": _flag(QueryFlag.AUTO_IS_NULL),
    "check_constraint_checks": _mariadb(_flag(QueryFlag.NO_CHECK_CONSTRAINTS, off=True)),
    "if_exists": _mariadb(_flag(QueryFlag.IF_EXISTS)),
    "inserts_history": _mariadb(_flag(QueryFlag.INSERT_HISTORY)),
    "invoker": _status(_V.INVOKER),
    "explicit_defaults_for_timestamp": lambda context: context.event.explicit_timestamps,
    "default_collation_for_utf8mb4": _collation(_V.DEFAULT_COLLATION_FOR_UTF8MB4),
    "sql_require_primary_key": _boolean(_V.SQL_REQUIRE_PRIMARY_KEY),
    "default_table_encryption": _boolean(_V.DEFAULT_TABLE_ENCRYPTION),
    "character_set_collations": _collations,
    "is_row_statement": lambda context: classify(context.event.sql).changes_rows,
}


class LoadQueryContext(QueryContext):
    """A LOAD DATA statement."""

    __slots__ = ()

    event: ExecuteLoadQueryEvent

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "file_id": lambda context: context.event.file_id,
        "file_name_at": lambda context: (context.event.name_start, context.event.name_end),
        "duplicates": lambda context: context.event.duplicates.name.lower(),
    }


class BlockContext(LogContext):
    """A block of the file of a LOAD DATA."""

    __slots__ = ()

    event: LoadBlockEvent

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "file_id": lambda context: context.event.file_id,
        "block": lambda context: bytes(context.event.data),
    }


class OtherContext(LogContext):
    """An event of a class that another package added: its type code, and its body's bytes."""

    __slots__ = ()

    READERS: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "type_code": lambda context: context.event.header.type,
        "body": lambda context: bytes(context.event.body),
    }


class LogRowsContext(LogContext, RowsContext):
    """Rows of one rows event."""

    __slots__ = ("__dict__", "change")

    def __init__(self, change: Change, transaction: int) -> None:
        super().__init__(change.event, transaction)
        self.change = change

    @property
    def operation(self) -> Literal["insert", "update", "delete"]:
        """The rows event's kind."""
        return self.change.event.kind

    def rows(self) -> Iterator[Context]:
        """The rows of the event, each decoded when it is read."""
        for row in self.change.rows():
            yield LogRowContext(self, row)

    @cached_property
    def images(self) -> tuple[list[dict[str, Any]] | None, list[dict[str, Any]] | None]:
        """All rows, before and after."""
        before: list[dict[str, Any]] = []
        after: list[dict[str, Any]] = []
        for row in self.change.rows():
            if row.before is not None:
                before.append(row.before.as_dict())
            if row.after is not None:
                after.append(row.after.as_dict())
        kind = self.operation
        return None if kind == "insert" else before, None if kind == "delete" else after

    def columns(self, present: bytes | None) -> tuple[str, ...] | None:
        """The names of the columns in an image, by its bitmap."""
        if present is None:
            return None
        bits = int.from_bytes(present, "little")
        return tuple(
            column.name for column in self.change.schema.columns if bits >> column.index & 1
        )


def _table_of(schema: TableSchema) -> ModifiedTable:
    return ModifiedTable(
        schema.database,
        schema.table,
        tuple(
            TableColumn(
                column.name,
                sql_type(column),
                column.nullable,
                None if column.logical is not Logical.TEXT else column.charset,
            )
            for column in schema.columns
        ),
        tuple(schema.columns[index].name for index in schema.primary_key),
    )


table_of: Final = lru_cache(maxsize=4096)(_table_of)
"""What events tell of a table."""


@lru_cache(maxsize=256)
def _with_dimensions(table: ModifiedTable, dimensions: tuple[int | None, ...]) -> ModifiedTable:
    columns = (
        column if count is None else column._replace(type=f"{_VECTOR}({count})")
        for column, count in zip(table.columns, dimensions, strict=True)
    )
    return table._replace(columns=tuple(columns))


def _table(context: LogRowsContext) -> ModifiedTable:
    """The table of an event: only its table map has the dimensions of a VECTOR."""
    found = table_of(context.change.schema)
    if any(column.type == _VECTOR for column in found.columns):
        specs = context.change.event.table_map.columns
        return _with_dimensions(found, tuple(each.dimensions for each in specs))
    return found


_ROW_EVENT: Final[dict[str, Callable[[Any], Any]]] = {
    "table": _table,
    "modified_tables": lambda context: (_table(context),),
    "disable_foreign_key_checks": lambda context: bool(
        context.change.event.flags & _NO_FOREIGN_KEY_CHECKS
    ),
    "disable_unique_checks": lambda context: bool(
        context.change.event.flags & _RELAXED_UNIQUE_CHECKS
    ),
    "read_set": lambda context: context.columns(context.change.event.present_before),
    "write_set": lambda context: context.columns(context.change.event.present_after),
}
LogRowsContext.READERS = {
    **LogContext.READERS,
    **_ROW_EVENT,
    "operation": lambda context: context.operation,
    "before_images": lambda context: context.images[0],
    "after_images": lambda context: context.images[1],
}


class LogRowContext(Context):
    """One row of a rows event."""

    __slots__ = ("_of", "_row")

    def __init__(self, of: LogRowsContext, row: Row) -> None:
        self._of = of
        self._row = row

    def read(self, accessor: str) -> Any:
        """The row's images; all else is its event's."""
        if accessor == "after_image":
            after = self._row.after
            return None if after is None else after.as_dict()
        if accessor == "before_image":
            before = self._row.before
            return None if before is None else before.as_dict()
        return self._of.read(accessor)


def xa_of(first: Event, last: Event | None = None) -> XaName | None:
    """The name of an XA transaction, by its first event or its last."""
    if isinstance(first, MariadbGtidEvent) and first.xid is not None:
        return first.xid
    if isinstance(last, XaPrepareEvent):
        return last.xid
    said = None if last is None else xa_name(last)
    return None if said is None else said[1]
