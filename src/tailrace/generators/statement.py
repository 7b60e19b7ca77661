"""The statement generator, on the transaction generator (MWL#120 `rpl_event_statement_base`,
`rpl_event_consumer_statement`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from tailrace.generators.event import Accessor, ReplicationEvent, accessor
from tailrace.generators.generator import Change, Generator
from tailrace.generators.transaction import TransactionConsumer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.generators.consumer import Consumer
    from tailrace.generators.generator import Offer


class UserVariable(NamedTuple):
    """A user variable that a statement reads.

    ``value`` is None for NULL, a number, text, or a Decimal; bytes for a string that is binary, not
    well-formed, or one of two spellings of its text (sjis: a backslash). ``collation`` is the name
    of a string's collation.
    """

    name: str
    value: Any
    collation: str | None = None
    unsigned: bool = False


class StatementEvent(ReplicationEvent):
    """The base of the events of the statement generator."""

    __slots__ = ()

    local_transaction_id: Accessor[int] = accessor("As in `TransactionEvent`.")
    current_database: Accessor[str | None] = accessor(
        "The session's default database; None if it has none, or if the log does not tell (for a"
        " statement that was logged as rows)."
    )


class StatementStart(StatementEvent):
    """A statement starts.

    A statement that was logged as rows has a start and an end, too: around the rows events up to
    the one that is flagged as its last.
    """

    __slots__ = ()
    name: ClassVar[str] = "stmt_start"

    rows_query: Accessor[str | None] = accessor(
        "The text of a statement that was logged as rows, if the server logged it as well"
        " (binlog_rows_query_log_events, binlog_annotate_row_events)."
    )


class StatementEnd(StatementEvent):
    """A statement ends."""

    __slots__ = ()
    name: ClassVar[str] = "stmt_end"

    error_code: Accessor[int | None] = accessor(
        "The error with which it ended on the server, 0 for none; None for rows: the log does not"
        " tell."
    )


class StatementQuery(StatementEvent):
    """A statement, and what it reads from its session. What the log does not tell is None."""

    __slots__ = ()
    name: ClassVar[str] = "stmt_query"

    query_string: Accessor[str] = accessor("The statement, in the client's character set.")
    uses_current_database: Accessor[bool | None] = accessor(
        "Whether it is executed in the current database, which must exist then (not the flag"
        " SUPPRESS_USE)."
    )
    query_bytes: Accessor[bytes] = accessor("Its bytes, as they were sent.")
    error_code: Accessor[int | None] = accessor(
        "The error that it ended with on the server; a replica expects the same one."
    )
    connection_id: Accessor[int | None] = accessor("The session's id (pseudo_thread_id).")
    sql_mode: Accessor[int | None] = accessor("The bits of sql_mode.")
    character_set_client: Accessor[str | None] = accessor("The name of the character set.")
    collation_connection: Accessor[str | None] = accessor("The name of the collation.")
    collation_server: Accessor[str | None] = accessor("The name of the collation.")
    collation_database: Accessor[str | None] = accessor(
        "The name of the default database's collation, where it was logged (MariaDB, LOAD DATA)."
    )
    lc_time_names: Accessor[int | None] = accessor(
        "The number of the locale of day and month names; None is en_US."
    )
    time_zone: Accessor[str | None] = accessor(
        "The session's time zone; None if the statement does not use it."
    )
    auto_increment_increment: Accessor[int | None] = accessor("The variable; None is 1.")
    auto_increment_offset: Accessor[int | None] = accessor("The variable; None is 1.")
    uses_auto_increment: Accessor[bool | None] = accessor(
        "Whether it generates values of an AUTO_INCREMENT column."
    )
    last_insert_id: Accessor[int | None] = accessor("What LAST_INSERT_ID() gives, if it is used.")
    insert_id: Accessor[int | None] = accessor("The first value that AUTO_INCREMENT generates.")
    random_seeds: Accessor[tuple[int, int] | None] = accessor("The seeds of RAND(), if it is used.")
    user_variables: Accessor[tuple[UserVariable, ...]] = accessor("Those that it reads.")
    uses_temporary_tables: Accessor[bool | None] = accessor(
        "Whether it uses temporary tables, which only its own session has."
    )
    table_map_for_update: Accessor[int | None] = accessor(
        "A bit for each table of a multi-table UPDATE that is changed."
    )
    foreign_key_checks: Accessor[bool | None] = accessor("The flag STMT_FOREIGN_KEY_CHECKS.")
    unique_checks: Accessor[bool | None] = accessor("The flag STMT_UNIQUE_KEY_CHECKS.")
    auto_is_null: Accessor[bool | None] = accessor("The flag STMT_AUTO_IS_NULL.")
    check_constraint_checks: Accessor[bool | None] = accessor("The variable (MariaDB).")
    if_exists: Accessor[bool | None] = accessor("The variable ``sql_if_exists`` (MariaDB).")
    inserts_history: Accessor[bool | None] = accessor(
        "The variable ``system_versioning_insert_history`` (MariaDB)."
    )
    execution_time: Accessor[int | None] = accessor("How long it took, in seconds.")
    invoker: Accessor[tuple[str, str] | None] = accessor(
        "User and host who is the definer of what it creates, if not the session's user."
    )
    explicit_defaults_for_timestamp: Accessor[bool | None] = accessor("The variable.")
    default_collation_for_utf8mb4: Accessor[str | None] = accessor("The variable (MySQL).")
    sql_require_primary_key: Accessor[bool | None] = accessor("The variable (MySQL).")
    default_table_encryption: Accessor[bool | None] = accessor("The variable (MySQL).")
    character_set_collations: Accessor[tuple[tuple[str, str], ...]] = accessor(
        "Character sets whose default collation was changed (MariaDB)."
    )
    is_row_statement: Accessor[bool | None] = accessor(
        "Whether it changes rows (as DML does, and not DDL), so that its changes are not in the log"
        " as rows."
    )


class StatementLoadQuery(StatementQuery):
    """A LOAD DATA statement, after the blocks of its file."""

    __slots__ = ()
    name: ClassVar[str] = "stmt_load_query"

    file_id: Accessor[int] = accessor("The number that the blocks of its file have.")
    file_name_at: Accessor[tuple[int, int]] = accessor(
        "Start and end, in the bytes of the statement, of ``'file' [REPLACE|IGNORE] INTO``: whoever"
        " executes it puts the file's own name there."
    )
    duplicates: Accessor[str | None] = accessor("``error``, ``ignore`` or ``replace``.")


class StatementLoadDataBlock(StatementEvent):
    """A block of the file of a LOAD DATA."""

    __slots__ = ()
    name: ClassVar[str] = "stmt_load_data_block"

    file_id: Accessor[int] = accessor("The number that all blocks of a file have.")
    block: Accessor[bytes] = accessor("The bytes of the file that follow those before.")


class StatementConsumer(TransactionConsumer, interface=True):
    """What is told of statements, and of transactions."""

    def stmt_start(self, event: StatementStart, /) -> object:
        """A statement starts, also one that was logged as rows."""

    def stmt_end(self, event: StatementEnd, /) -> object:
        """A statement ends, also one that was logged as rows."""

    def stmt_query(self, event: StatementQuery, /) -> object:
        """A statement is executed: DDL, or a change that was logged as its statement."""

    def stmt_load_data_block(self, event: StatementLoadDataBlock, /) -> object:
        """A block of the file of a LOAD DATA that was logged as its statement."""

    def stmt_load_query(self, event: StatementLoadQuery, /) -> object:
        """The statement over these blocks. Without this method it goes to `stmt_query`."""


KINDS: Final[dict[str, tuple[type[Any], ...]]] = {
    Change.STATEMENT_START: (StatementStart,),
    Change.STATEMENT_END: (StatementEnd,),
    Change.STATEMENT: (StatementQuery,),
    Change.LOAD_DATA_BLOCK: (StatementLoadDataBlock,),
    Change.LOAD_DATA: (StatementLoadQuery,),
}
"""The events of each change."""


class StatementGenerator(Generator):
    """Gives changes that were logged as statements; defers transaction control."""

    name: ClassVar[str] = "statement"
    stands_on: ClassVar[str] = "transaction"
    interface: ClassVar[type[Consumer]] = StatementConsumer

    def kinds(self, offer: Offer) -> tuple[type[ReplicationEvent], ...]:
        """Statements, their starts and ends, and LOAD DATA."""
        return KINDS.get(offer.change, ())

    def always(self, change: str, /) -> tuple[type[ReplicationEvent], ...]:
        """The same."""
        return KINDS.get(change, ())

    def events(self, offer: Offer, kind: type[ReplicationEvent]) -> Iterator[ReplicationEvent]:
        """One event for each change."""
        yield kind(offer.context)
