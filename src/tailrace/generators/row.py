"""The row generator, on the statement generator (MWL#120 `rpl_event_row_base`,
`rpl_event_consumer_row`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from tailrace.generators.event import Accessor, Context, ReplicationEvent, accessor
from tailrace.generators.generator import Change, Generator
from tailrace.generators.statement import StatementConsumer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tailrace.generators.consumer import Consumer
    from tailrace.generators.generator import Offer


Operation = Literal["insert", "update", "delete"]
"""What was done to rows."""


class TableColumn(NamedTuple):
    """A column: its name, its type in SQL (``varchar(20)``; "" if unknown), whether it may be NULL,
    and its character set (None for columns that are no text).
    """

    name: str
    type: str
    nullable: bool
    charset: str | None = None


class ModifiedTable(NamedTuple):
    """A table that rows are changed in. ``primary_key`` has column names; () if unknown."""

    database: str
    name: str
    columns: tuple[TableColumn, ...]
    primary_key: tuple[str, ...] = ()


class RowEvent(ReplicationEvent):
    """The base of the events of the row generator.

    Images are mappings of column names to Python values. A column that an image does not have
    (``binlog_row_image=MINIMAL``) is not in it; the read set has the columns of the image before,
    the write set those of the image after.
    """

    __slots__ = ()

    local_transaction_id: Accessor[int] = accessor("As in `TransactionEvent`.")
    table: Accessor[ModifiedTable] = accessor("The table of the row.")
    modified_tables: Accessor[tuple[ModifiedTable, ...]] = accessor(
        "The tables that the event changes: of a log, the one of the row."
    )
    write_can_replace: Accessor[bool | None] = accessor(
        "The flag ROW_WRITE_CAN_REPLACE (REPLACE); None in logs."
    )
    ignore_dup_key: Accessor[bool | None] = accessor(
        "The flag ROW_IGNORE_DUP_KEY (INSERT IGNORE); None in logs."
    )
    ignore_no_key: Accessor[bool | None] = accessor("The flag ROW_IGNORE_NO_KEY; None in logs.")
    disable_foreign_key_checks: Accessor[bool | None] = accessor(
        "The flag ROW_DISABLE_FOREIGN_KEY_CHECKS (foreign_key_checks=0)."
    )
    disable_unique_checks: Accessor[bool | None] = accessor(
        "The flag ROW_DISABLE_UNIQUE_KEY_CHECKS (unique_checks=0)."
    )


class RowWrite(RowEvent):
    """A row was inserted."""

    __slots__ = ()
    name: ClassVar[str] = "row_write"

    write_set: Accessor[tuple[str, ...]] = accessor("The columns of the row after.")
    after_image: Accessor[Mapping[str, Any]] = accessor("The row after.")


class RowUpdate(RowEvent):
    """A row was updated."""

    __slots__ = ()
    name: ClassVar[str] = "row_update"

    read_set: Accessor[tuple[str, ...]] = accessor("The columns of the row before.")
    write_set: Accessor[tuple[str, ...]] = accessor("The columns of the row after.")
    before_image: Accessor[Mapping[str, Any]] = accessor("The row before.")
    after_image: Accessor[Mapping[str, Any]] = accessor("The row after.")


class RowDelete(RowEvent):
    """A row was deleted."""

    __slots__ = ()
    name: ClassVar[str] = "row_delete"

    read_set: Accessor[tuple[str, ...]] = accessor("The columns of the row before.")
    before_image: Accessor[Mapping[str, Any]] = accessor("The row before.")


class RowBatch(RowEvent):
    """Rows of one table that changed in one way, together: an addition to the worklog.

    ``before_images`` and ``after_images`` are lists of mappings, one for each row (None for an
    insert, or a delete).
    """

    __slots__ = ()
    name: ClassVar[str] = "row_batch"
    is_batch: ClassVar[bool] = True

    operation: Accessor[Operation] = accessor("What was done.")
    read_set: Accessor[tuple[str, ...] | None] = accessor("The columns of the rows before.")
    write_set: Accessor[tuple[str, ...] | None] = accessor("The columns of the rows after.")
    before_images: Accessor[list[Mapping[str, Any]] | None] = accessor("The rows before.")
    after_images: Accessor[list[Mapping[str, Any]] | None] = accessor("The rows after.")


class RowsContext(Context):
    """What a source gives for `Change.ROWS`: rows of one table that changed in one way.

    Its ``read`` gives the accessors of `RowBatch`.
    """

    __slots__ = ()
    is_rows: ClassVar[bool] = True

    @property
    @abstractmethod
    def operation(self) -> Operation:
        """What was done to the rows; known without decoding them."""

    @abstractmethod
    def rows(self) -> Iterable[Context]:
        """A context for each row, with the accessors of its event; read once, in order."""


class RowConsumer(StatementConsumer, interface=True):
    """What is told of rows, of statements that were not logged as rows, and of transactions."""

    def row_write(self, event: RowWrite, /) -> object:
        """A row was inserted."""

    def row_update(self, event: RowUpdate, /) -> object:
        """A row was updated."""

    def row_delete(self, event: RowDelete, /) -> object:
        """A row was deleted."""

    def row_batch(self, event: RowBatch, /) -> object:
        """Rows that changed together. With this method the three others are not called."""


KINDS: Final[dict[Operation, tuple[type[Any], ...]]] = {
    "insert": (RowBatch, RowWrite),
    "update": (RowBatch, RowUpdate),
    "delete": (RowBatch, RowDelete),
}
"""The events of rows that changed in one way: as a batch, and one by one."""
OPERATIONS: Final[dict[str, Operation]] = {
    each.name: operation for operation, (_, each) in KINDS.items()
}
"""What was done to the row of an event, by the event's name."""


_WITHOUT_ROWS: Final = frozenset({Change.STATEMENT_START, Change.STATEMENT_END})


class RowGenerator(Generator):
    """Gives changed rows; defers DDL and what was logged as statements."""

    name: ClassVar[str] = "row"
    stands_on: ClassVar[str] = "statement"
    interface: ClassVar[type[Consumer]] = RowConsumer

    def kinds(self, offer: Offer) -> tuple[type[ReplicationEvent], ...]:
        """Rows: as a batch, or one by one."""
        context: Any = offer.context
        return KINDS[context.operation] if context.is_rows else ()

    def always(self, change: str, /) -> tuple[type[ReplicationEvent], ...] | None:
        """None for what has no rows."""
        return () if change in _WITHOUT_ROWS else None

    def events(self, offer: Offer, kind: type[ReplicationEvent]) -> Iterator[ReplicationEvent]:
        """The batch, or an event for each row."""
        context: Any = offer.context
        return (kind(each) for each in ((context,) if kind is RowBatch else context.rows()))
