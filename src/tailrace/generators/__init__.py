"""Stacked event generators and their consumers (MWL#120).

`EventStream` reads a source and tells consumers of its changes: transactions, statements, rows.
A consumer derives from `TransactionConsumer`, `StatementConsumer` or `RowConsumer`, and registers
with the generator of that level.
"""

from tailrace.generators.consumer import Consumer, Registration
from tailrace.generators.event import (
    OUT_OF_BUFFER,
    Accessor,
    Context,
    KeptContext,
    ReplicationEvent,
    accessor,
)
from tailrace.generators.formats import MaterialisedFormat, MaterialisedReader, MaterialisedWriter
from tailrace.generators.generator import Change, Counts, Generator, Offer
from tailrace.generators.materialise import (
    Action,
    Filter,
    MaterialisedStream,
    Materialiser,
    Record,
    UndeclaredEvent,
    de_materialise,
    injected,
    register_record,
)
from tailrace.generators.row import (
    ModifiedTable,
    RowBatch,
    RowConsumer,
    RowDelete,
    RowEvent,
    RowGenerator,
    RowsContext,
    RowUpdate,
    RowWrite,
    TableColumn,
)
from tailrace.generators.source import EventReader, EventSource
from tailrace.generators.stack import Stack
from tailrace.generators.statement import (
    StatementConsumer,
    StatementEnd,
    StatementEvent,
    StatementGenerator,
    StatementLoadDataBlock,
    StatementLoadQuery,
    StatementQuery,
    StatementStart,
    UserVariable,
)
from tailrace.generators.stream import EventStream
from tailrace.generators.transaction import (
    GlobalTransactionId,
    TransactionCommit,
    TransactionConsumer,
    TransactionEvent,
    TransactionGenerator,
    TransactionRollback,
    TransactionStart,
)

__all__ = [
    "OUT_OF_BUFFER",
    "Accessor",
    "Action",
    "Change",
    "Consumer",
    "Context",
    "Counts",
    "EventReader",
    "EventSource",
    "EventStream",
    "Filter",
    "Generator",
    "GlobalTransactionId",
    "KeptContext",
    "MaterialisedFormat",
    "MaterialisedReader",
    "MaterialisedStream",
    "MaterialisedWriter",
    "Materialiser",
    "ModifiedTable",
    "Offer",
    "Record",
    "Registration",
    "ReplicationEvent",
    "RowBatch",
    "RowConsumer",
    "RowDelete",
    "RowEvent",
    "RowGenerator",
    "RowUpdate",
    "RowWrite",
    "RowsContext",
    "Stack",
    "StatementConsumer",
    "StatementEnd",
    "StatementEvent",
    "StatementGenerator",
    "StatementLoadDataBlock",
    "StatementLoadQuery",
    "StatementQuery",
    "StatementStart",
    "TableColumn",
    "TransactionCommit",
    "TransactionConsumer",
    "TransactionEvent",
    "TransactionGenerator",
    "TransactionRollback",
    "TransactionStart",
    "UndeclaredEvent",
    "UserVariable",
    "accessor",
    "de_materialise",
    "injected",
    "register_record",
]
