"""A consumer of generators that writes a binary log (MWL#120, "Generators and consumers")."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import EventType, Flavour, QueryFlag
from tailrace.errors import UnsupportedType
from tailrace.events import (
    ExecuteLoadQueryEvent,
    IntVarEvent,
    LoadBlockEvent,
    RandEvent,
    StatusVariable,
    UserVarEvent,
)
from tailrace.events.load import DuplicateHandling
from tailrace.events.variables import IntVarKind, UserVarType
from tailrace.generators import RowConsumer
from tailrace.generators.event import context_of
from tailrace.generators.log_context import (
    EndContext,
    HeadContext,
    LogContext,
)
from tailrace.schema.table import Table
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.transaction.statements import without_start_transaction
from tailrace.values.charsets import charset_of, collation_id, default_collation, encode
from tailrace.values.decimals import decimal_packer, unscaled
from tailrace.values.encode import RowImage
from tailrace.writing.transaction import Standing

if TYPE_CHECKING:
    from tailrace.generators import (
        ModifiedTable,
        ReplicationEvent,
        RowBatch,
        StatementLoadDataBlock,
        StatementLoadQuery,
        StatementQuery,
        StatementStart,
        TransactionCommit,
        TransactionStart,
        UserVariable,
    )
    from tailrace.generators.log_context import Originals
    from tailrace.writing.log import LogWriter
    from tailrace.writing.transaction import TransactionWriter

_V = StatusVariable
_MICROSECOND: Final = 1_000_000


@dataclass(slots=True)
class _Copied:
    """A log's transaction that may be copied, and what was told of it so far."""

    originals: Originals
    told: list[tuple[type[ReplicationEvent], LogContext]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return self.originals.is_whole and len(self.told) == self.originals.offered


class LogConsumer(RowConsumer):
    """Writes what it is told of into a log that `tailrace.create` or `append` opened.

    Transactions keep their times, server ids and GTIDs; with ``gtids=False`` the log numbers them,
    and those that have none, unless ``anonymous`` is set. Statements have the context of their
    session, LOAD DATA its file. A transaction is in the log when ``trx_commit`` returns. One of a
    log of the same flavour, of which it was told all and nothing was changed, is copied: its
    events have the same bytes (`LogWriter.write_transaction`), unless the log is written with
    ``compress`` or another ``image`` than full. An XA transaction becomes one that
    was committed at once; of MySQL, an empty one has the GTID of its XA PREPARE. What was rolled
    back is not written, nor what it did to tables without transactions (see the guide, "Rollbacks
    and XA").

    Raises what `LogWriter.transaction` and `Table` raise: GtidError for GTIDs of the other flavour,
    SchemaError for columns whose definition is unknown, ValueRejected for rows that lack columns
    (``binlog_row_image``) if the log's ``image`` is full.
    """

    def __init__(self, log: LogWriter, *, gtids: bool = True, anonymous: bool = False) -> None:
        self._log = log
        self._gtids = gtids
        plain = not log.options.compress and log.options.image is RowImage.FULL
        self._copies = gtids and plain
        self._anonymous = anonymous
        self._copied: dict[int, _Copied] = {}
        self._open: dict[int, TransactionWriter] = {}
        self._last: dict[int, Any] = {}
        """A definition of MariaDB: if rows follow, it is that of a CREATE TABLE ... SELECT, and is
        not committed by itself.
        """
        self._starts: dict[int, str | None] = {}
        self._tables: dict[ModifiedTable, Table] = {}
        self._block = 0

    def trx_start(self, event: TransactionStart, /) -> None:
        """Nothing is written yet."""
        context = context_of(event)
        if (
            self._copies
            and isinstance(context, HeadContext)
            and context.originals is not None
            and event.xa is None
            and context.event.form.flavour is self._log.flavour
            and (self._anonymous or getattr(context.event, "gtid", None) is not None)
        ):
            self._copied[event.local_transaction_id] = _Copied(context.originals)

    def _is_copied(self, event: Any) -> bool:
        """Whether a change waits for its transaction's end, where it may be copied."""
        copied = self._copied.get(event.local_transaction_id)
        if copied is None:
            return False
        context = context_of(event)
        if isinstance(context, LogContext):
            copied.told.append((type(event), context))
            return True
        self._write_out(event.local_transaction_id)
        return False

    def _write_out(self, number: int) -> None:
        """Write the changes of a transaction that is not copied."""
        copied = self._copied.pop(number, None)
        for kind, context in copied.told if copied is not None else ():
            getattr(LogConsumer, kind.name)(self, kind(context))

    def _transaction(self, event: Any) -> TransactionWriter:
        """The transaction of an event, at its time; it begins in the log with its first change."""
        definition = self._last.pop(event.local_transaction_id, None)
        if definition is not None:
            self._query(definition, alone=None if event.name == "trx_commit" else False)
        found = self._open.get(event.local_transaction_id)
        seconds = None if event.timestamp is None else event.timestamp // _MICROSECOND
        if found is None:
            found = self._open[event.local_transaction_id] = self._log.transaction(
                server_id=event.server_id, timestamp=seconds, gtid_at_commit=self._gtids
            )
        elif seconds is not None:
            found.timestamp = seconds
        return found

    def trx_commit(self, event: TransactionCommit, /) -> None:
        """Write the transaction."""
        copied = self._copied.get(event.local_transaction_id)
        if copied is not None and copied.is_whole and isinstance(context_of(event), EndContext):
            del self._copied[event.local_transaction_id]
            self._log.write_transaction(copied.originals.events)
            return
        self._write_out(event.local_transaction_id)
        writer = self._transaction(event)
        del self._open[event.local_transaction_id]
        self._starts.pop(event.local_transaction_id, None)
        prepared = event.prepared_transaction_id
        if self._gtids and prepared is not None and self._log.flavour is Flavour.MYSQL:
            self._log.transaction(
                str(prepared), server_id=writer.server_id, timestamp=writer.timestamp
            ).commit()
        gtid = event.global_transaction_id if self._gtids else None
        writer.commit(
            None if gtid is None else str(gtid), original_commit_timestamp=event.commit_timestamp
        )

    def stmt_start(self, event: StatementStart, /) -> None:
        """The text of a statement that was logged as rows goes with its rows."""
        if self._is_copied(event):
            return
        self._starts[event.local_transaction_id] = event.rows_query

    def stmt_query(self, event: StatementQuery, /) -> None:
        """Write a statement, and what it reads from its session."""
        if self._is_copied(event):
            return
        sql = event.query_bytes
        if without_start_transaction(sql) is not None:
            self._query(event, alone=False)
        elif self._log.flavour is Flavour.MARIADB and Standing.of(event.query_string).alone:
            self._last[event.local_transaction_id] = event.keep()
        else:
            self._query(event)

    def _query(self, event: StatementQuery, *, alone: bool | None = None) -> None:
        writer = self._before(event)
        writer.query(
            event.query_bytes,
            event.current_database or "",
            status=self._status(event),
            error_code=event.error_code or 0,
            exec_time=event.execution_time or 0,
            alone=alone,
            thread_id=event.connection_id,
            uses_temporary_tables=bool(event.uses_temporary_tables),
            uses_database=event.uses_current_database is not False,
        )

    def stmt_load_data_block(self, event: StatementLoadDataBlock, /) -> None:
        """Write a block of a file."""
        if self._is_copied(event):
            return
        first = event.file_id != self._block
        self._block = event.file_id
        self._transaction(event).event(
            LoadBlockEvent.make(
                type=EventType.BEGIN_LOAD_QUERY if first else EventType.APPEND_BLOCK,
                file_id=event.file_id,
                data=event.block,
                **self._header(event),
            )
        )

    def stmt_load_query(self, event: StatementLoadQuery, /) -> None:
        """Write the LOAD DATA over the blocks."""
        if self._is_copied(event):
            return
        writer = self._before(event)
        self._block = 0
        start, end = event.file_name_at
        writer.event(
            ExecuteLoadQueryEvent.make(
                sql=event.query_bytes,
                database=event.current_database or "",
                status={**self._log.dialect.status, **self._status(event)},
                thread_id=event.connection_id or 0,
                exec_time=event.execution_time or 0,
                error_code=event.error_code or 0,
                file_id=event.file_id,
                name_start=start,
                name_end=end,
                duplicates=DuplicateHandling[(event.duplicates or "error").upper()],
                **self._header(event),
            )
        )

    def row_batch(self, event: RowBatch, /) -> None:
        """Write rows."""
        if self._is_copied(event):
            return
        writer, table = self._transaction(event), self._table(event.table)
        writer.set_checks(
            foreign_keys=not event.disable_foreign_key_checks,
            unique=not event.disable_unique_checks,
        )
        statement = self._starts.pop(event.local_transaction_id, None)
        before, after = event.before_images or [], event.after_images or []
        if event.operation == "insert":
            writer.insert(table, after, statement=statement)
        elif event.operation == "update":
            writer.update(table, before, after, statement=statement)
        else:
            writer.delete(table, before, statement=statement)

    def _header(self, event: ReplicationEvent) -> dict[str, Any]:
        return {
            "server_id": self._log.server_id if event.server_id is None else event.server_id,
            "timestamp": (event.timestamp or 0) // _MICROSECOND,
            "form": self._log.dialect.form,
        }

    def _table(self, table: ModifiedTable) -> Table:
        known = self._tables.get(table)
        if known is None:
            known = self._tables[table] = table_of(
                table, self._log.flavour, self._log.server_version
            )
        return known

    def _before(self, event: StatementQuery) -> TransactionWriter:
        """Write the events before a statement; gives its transaction."""
        writer, header = self._transaction(event), self._header(event)
        if event.last_insert_id is not None:
            kind = IntVarKind.LAST_INSERT_ID
            writer.event(IntVarEvent.make(kind=kind, value=event.last_insert_id, **header))
        if event.insert_id is not None:
            kind = IntVarKind.INSERT_ID
            writer.event(IntVarEvent.make(kind=kind, value=event.insert_id, **header))
        if event.random_seeds is not None:
            first, second = event.random_seeds
            writer.event(RandEvent.make(seed1=first, seed2=second, **header))
        for variable in event.user_variables:
            writer.event(self._user_variable(variable, header))
        return writer

    def _user_variable(self, variable: UserVariable, header: dict[str, Any]) -> UserVarEvent:
        given: dict[str, Any] = {"variable": variable.name, "value": variable.value}
        if isinstance(variable.value, int):
            given["unsigned"] = variable.unsigned
        elif isinstance(variable.value, Decimal):
            given |= {"value": _packed(variable.value), "value_type": UserVarType.DECIMAL}
        if variable.collation is not None:
            given["collation"] = number = collation_id(variable.collation, self._log.flavour)
            if isinstance(variable.value, str) and number is not None:
                given["value"] = encode(charset_of(number), variable.value)
        return UserVarEvent.make(**given, **header)

    def _status(self, event: StatementQuery) -> dict[StatusVariable, Any]:
        flavour = self._log.flavour
        mariadb = flavour is Flavour.MARIADB
        flags = (
            QueryFlag.AUTO_IS_NULL * bool(event.auto_is_null)
            | QueryFlag.NO_FOREIGN_KEY_CHECKS * (event.foreign_key_checks is False)
            | QueryFlag.RELAXED_UNIQUE_CHECKS * (event.unique_checks is False)
        )
        if mariadb:
            flags |= (
                QueryFlag.NO_CHECK_CONSTRAINTS * (event.check_constraint_checks is False)
                | QueryFlag.EXPLICIT_DEFAULTS_FOR_TIMESTAMP
                * (event.explicit_defaults_for_timestamp is not False)
                | QueryFlag.IF_EXISTS * bool(event.if_exists)
                | QueryFlag.INSERT_HISTORY * bool(event.inserts_history)
            )
        found: dict[StatusVariable, Any] = {_V.FLAGS2: flags}
        for code, name in _AS_THEY_ARE.items():
            value = getattr(event, name)
            if value is not None and not (mariadb and code in _OF_MYSQL):
                found[code] = int(value) if isinstance(value, bool) else value
        if fraction := (event.timestamp or 0) % _MICROSECOND:
            found[_V.HRNOW if mariadb else _V.MICROSECONDS] = fraction
        increment, offset = event.auto_increment_increment, event.auto_increment_offset
        if increment is not None or offset is not None:
            found[_V.AUTO_INCREMENT] = (increment or 1, offset or 1)
        if event.character_set_client is not None:
            found[_V.CHARSET] = (
                default_collation(event.character_set_client, flavour),
                collation_id(event.collation_connection or "", flavour),
                collation_id(event.collation_server or "", flavour),
            )
        for code, name in _COLLATIONS.items():
            collation = getattr(event, name)
            if collation is not None:
                found[code] = collation_id(collation, flavour)
        if event.character_set_collations:
            found[_V.CHARACTER_SET_COLLATIONS] = tuple(
                (default_collation(charset, flavour), collation_id(collation, flavour))
                for charset, collation in event.character_set_collations
            )
        return found


_AS_THEY_ARE: Final = {
    _V.SQL_MODE: "sql_mode",
    _V.TIME_ZONE: "time_zone",
    _V.LC_TIME_NAMES: "lc_time_names",
    _V.TABLE_MAP_FOR_UPDATE: "table_map_for_update",
    _V.INVOKER: "invoker",
    _V.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: "explicit_defaults_for_timestamp",
    _V.SQL_REQUIRE_PRIMARY_KEY: "sql_require_primary_key",
    _V.DEFAULT_TABLE_ENCRYPTION: "default_table_encryption",
}
_OF_MYSQL: Final = frozenset(
    {
        _V.EXPLICIT_DEFAULTS_FOR_TIMESTAMP,
        _V.SQL_REQUIRE_PRIMARY_KEY,
        _V.DEFAULT_TABLE_ENCRYPTION,
    }
)
_COLLATIONS: Final = {
    _V.CHARSET_DATABASE: "collation_database",
    _V.DEFAULT_COLLATION_FOR_UTF8MB4: "default_collation_for_utf8mb4",
}


def table_of(table: ModifiedTable, flavour: Flavour, server_version: str) -> Table:
    """The table to write to, of one that an event names. Raises SchemaError, UnsupportedType."""
    parts = []
    for column in table.columns:
        if not column.type:
            raise UnsupportedType(
                f"{table.database}.{table.name}: the type of the column {column.name} is unknown"
            )
        charset = "" if column.charset is None else f" character set {column.charset}"
        null = "null" if column.nullable else "not null"
        parts.append(f"{quoted_name(column.name)} {column.type}{charset} {null}")
    if table.primary_key:
        parts.append(f"primary key ({', '.join(map(quoted_name, table.primary_key))})")
    name = quoted_table(table.database, table.name)
    return Table.parse(
        f"create table {name} ({', '.join(parts)})", flavour=flavour, server_version=server_version
    )


def _packed(number: Decimal) -> bytes:
    """A DECIMAL with its digits before it."""
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    packed = decimal_packer(precision, scale)(unscaled(number, precision, scale))
    return bytes([precision, scale]) + packed
