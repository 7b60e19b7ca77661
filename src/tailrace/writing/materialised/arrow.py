"""Arrow IPC as a format of materialised events, for rows (MWL#120: "other formats alongside").

The record batches are those of the change record (docs/change-record.md), with the local id of the
transaction and the accessors that the record does not have. An Arrow stream has one schema, so
where the table changes the next stream follows.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from tailrace.constants import Flavour
from tailrace.errors import (
    BadMagic,
    EventDecodeError,
    SchemaError,
    TruncatedEvent,
    UnsupportedType,
    UsageError,
)
from tailrace.events import FormatDescription
from tailrace.extras import importing
from tailrace.generators.event import KeptContext, Place, context_of, put_in
from tailrace.generators.formats import MaterialisedFormat, MaterialisedWriter, reading
from tailrace.generators.generator import Change, Offer
from tailrace.generators.log_context import LogRowsContext
from tailrace.generators.row import (
    KINDS,
    OPERATIONS,
    ModifiedTable,
    RowBatch,
    RowEvent,
    RowsContext,
    TableColumn,
)
from tailrace.generators.statement import StatementEvent, StatementQuery
from tailrace.generators.transaction import (
    GlobalTransactionId,
    TransactionCommit,
    TransactionRollback,
    TransactionStart,
)
from tailrace.log.reader import TransactionHead
from tailrace.log_name import file_number
from tailrace.position import Position, sequence
from tailrace.storage.spill import SpilledObjects
from tailrace.values.schema import TableSchema
from tailrace.writing.consumer import table_of

with importing("columns", "the format arrow"):
    import pyarrow as pa

    from tailrace.columns import arrays
    from tailrace.columns.objects import arrow_value, object_value, odd_value
    from tailrace.columns.read.pool import Pool
    from tailrace.columns.read.rows_events import batches_of
    from tailrace.columns.read.table import TableDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.generators.event import ReplicationEvent
    from tailrace.generators.formats import Output, Source
    from tailrace.log.changes import Change as LogChange

_Types = tuple[tuple[str, "pa.DataType"], ...]
_IMAGES: Final = ("before", "after")
_SETS: Final = ("read_set", "write_set")
_KINDS: Final[dict[str, type[RowEvent]]] = {
    kind.name: kind for kinds in KINDS.values() for kind in kinds
}
_IN_RECORD: Final = frozenset(
    {
        *("table", "modified_tables", "operation", "position", "timestamp", "server_id"),
        *("local_transaction_id", "read_set", "write_set"),
        *("before_image", "after_image", "before_images", "after_images"),
    }
)
"""Accessors that the change record has; the others are columns of their own."""
_TRANSACTION: Final = "_transaction"
_KNOWN: Final = frozenset({*(field.name for field in arrays.METADATA_FIELDS), _TRANSACTION})
_EVENT: Final = b"tailrace.event"
_TABLE: Final = b"tailrace.modified_table"
_MOST_HELD: Final = 64 << 20
_MOST_ROWS: Final = 1 << 14
_MOST_BYTES: Final = 8 << 20
"""Bytes of a log's events that are decoded together."""
_SHARED: Final = (ModifiedTable, TableSchema, TransactionHead, FormatDescription)
_READ_BY_KERNEL: Final = frozenset(
    {"before_image", "after_image", "before_images", "after_images", "read_set", "write_set"}
)
_OF_A_VALUE: Final = 64
"""Bytes that a held value takes, roughly."""
_PIECE: Final = 4 << 20
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"
"""The end mark of an Arrow stream."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH: Final = frozenset({"operation", "before_images", "after_images"})


class ArrowFormat(MaterialisedFormat):
    """The rows of a stream in Arrow's IPC streaming format.

    It holds the rows of transactions that were committed, and their accessors; a transaction is
    written at its commit, one that has not ended is left out. It has no statements: those that
    change no rows (DDL) are left out, others are a UsageError, and so is what is rolled back. Of a
    transaction, readers get its id across servers, else the accessors of its rows.
    """

    name: ClassVar[str] = "arrow"

    def writer(self, output: Output) -> _ArrowWriter:
        """What writes Arrow streams to an output. Needs the extra ``columns``."""
        return _ArrowWriter(output)

    def reader(self, source: Source) -> _ArrowReader:
        """What reads them."""
        return _ArrowReader(source)


class _Kept(KeptContext, RowsContext):
    """Rows that changed together, kept."""

    __slots__ = ()

    @property
    def operation(self) -> Literal["insert", "update", "delete"]:
        found: Literal["insert", "update", "delete"] = self.read("operation")
        return found

    def rows(self) -> Iterator[KeptContext]:
        values = {name: self.read(name) for name in self.extra}
        for before, after in zip(*_images(values), strict=True):
            row = {**values, "before_image": before, "after_image": after}
            yield KeptContext(
                {
                    name: value
                    for name, value in row.items()
                    if name not in _BATCH and (value is not None or name not in _IN_RECORD)
                }
            )


class _Columns(TableDecoder):
    """A table's columns in Arrow. Raises UnsupportedType for a type that none is."""

    def __init__(self, schema: TableSchema, pool: Pool) -> None:
        super().__init__(schema, "", pool)
        self.image: pa.StructType = self.columns.image

    def arrays(
        self, which: str, images: Sequence[Any], raw: list[list[tuple[str, str]]]
    ) -> pa.Array:
        """The images as a struct; ``raw`` gets what no column can hold."""
        children = []
        for column, plan in self.asked:
            name = column.name
            values: list[Any] = []
            for number, image in enumerate(images):
                value = None if image is None else image.get(name)
                odd = None
                if value is not None:
                    value, odd = arrow_value(value, plan)
                if odd is not None:
                    raw[number].append((f"{which}.{name}", odd))
                values.append(value)
            children.append(pa.array(values, plan.type))
        mask = pa.array([image is None for image in images], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(self.image), mask=mask)

    def present(self, values: dict[str, Any]) -> dict[str, bytes] | None:
        """The bitmaps of the columns that an event's images have; None if they have all."""
        sets = {"before": values.get("read_set"), "after": values.get("write_set")}
        if all(names is None or len(names) == len(self.asked) for names in sets.values()):
            return None
        size = (len(self.asked) + 7) // 8
        return {
            which: sum(1 << c.index for c, _ in self.asked if c.name in (names or ())).to_bytes(
                size, "little"
            )
            for which, names in sets.items()
        }


class _Read:
    """The columns of an Arrow stream's batches."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = arrays.table_of(schema).columns

    def names(self, bits: bytes | None) -> tuple[str, ...]:
        """The columns that an image has, by its bitmap; all without one."""
        number = -1 if bits is None else int.from_bytes(bits, "little")
        return tuple(column.name for column in self._columns if number >> column.index & 1)

    def images(
        self, which: str, found: pa.StructArray, raw: Sequence[Any], names: tuple[str, ...]
    ) -> list[Any] | None:
        """The images of rows that are all of one event; None if they have none."""
        if found.null_count == len(found):
            return None
        images: list[dict[str, Any]] = [{} for _ in raw]
        for column, array in zip(self._columns, found.flatten(), strict=True):
            name, key = column.name, f"{which}.{column.name}"
            if name not in names:
                continue
            for image, value, odd in zip(images, array.to_pylist(), raw, strict=True):
                if value is not None:
                    image[name] = object_value(value, column)
                else:
                    text = next((text for at, text in odd or () if at == key), None)
                    image[name] = None if text is None else odd_value(text, array.type)
        return images


class _Row(NamedTuple):
    """A row that is not written yet, with the values of its event."""

    values: dict[str, Any]
    before: Any
    after: Any
    gtid: str | None
    sequence: int


class _Event(NamedTuple):
    """A rows event of a log that is not written yet, with the values of its event but images."""

    values: dict[str, Any]
    change: LogChange
    gtid: str | None


class _Stream:
    """Rows of one kind of events and one table, which make an Arrow stream."""

    def __init__(self, name: str, table: ModifiedTable, columns: _Columns, others: _Types) -> None:
        self._columns = columns
        self._others = others
        own = columns.schema
        fields = [
            *list(own)[:-2],
            pa.field(_TRANSACTION, pa.int64(), nullable=False),
            *(pa.field(key, kind) for key, kind in others),
            *list(own)[-2:],
        ]
        metadata = {**own.metadata, _EVENT: name.encode(), _TABLE: json.dumps(table).encode()}
        self.schema = pa.schema(fields, metadata=metadata)

    def batches(self, rows: Sequence[_Event]) -> Iterator[pa.RecordBatch]:
        """Events of a log as record batches, by the kernel."""
        events = [(each.change.event, each.change.first) for each in rows]
        file = events[0][0].file or ""
        number = file_number(file) or 0
        begins = {
            sequence(number, event.offset or 0, first): each
            for (event, first), each in zip(events, rows, strict=True)
        }
        now = rows[0]
        for batch in batches_of(self._columns, events, file):
            of = [now := begins.get(int(each), now) for each in batch.column("_seq").to_pylist()]
            values = {
                "_gtid": [each.gtid for each in of],
                _TRANSACTION: [each.values["local_transaction_id"] or 0 for each in of],
                **{key: [each.values[key] for each in of] for key, _ in self._others},
            }
            made = []
            for field in self.schema:
                if field.name not in values:
                    made.append(batch.column(field.name))
                elif field.name == "_gtid":
                    made.append(pa.array(values["_gtid"], pa.string()).dictionary_encode())
                else:
                    made.append(pa.array(values[field.name], field.type))
            yield pa.RecordBatch.from_arrays(made, schema=self.schema)

    def batch(self, rows: Sequence[_Row]) -> pa.RecordBatch:
        """Rows as a record batch."""
        schema, table, columns = self.schema, self._columns.table, self._columns
        count = len(rows)
        raw: list[list[tuple[str, str]]] = [[] for _ in rows]
        images = [
            columns.arrays(which, [getattr(r, which) for r in rows], raw) for which in _IMAGES
        ]
        operations = arrays.OPERATIONS.to_pylist()
        values = [row.values for row in rows]
        places = [each["position"] or Position("", 0) for each in values]

        def column(name: str, of: list[Any]) -> pa.Array:
            return pa.array(of, schema.field(name).type)

        def texts(of: list[Any]) -> pa.Array:
            return pa.array(of, pa.string()).dictionary_encode()

        made = [
            pa.DictionaryArray.from_arrays(
                pa.array([operations.index(each["operation"]) for each in values], pa.int8()),
                arrays.OPERATIONS,
            ),
            arrays.constant(table.database, count),
            arrays.constant(table.table, count),
            column("_ts", [each["timestamp"] or 0 for each in values]),
            texts([row.gtid for row in rows]),
            texts([place.file for place in places]),
            column("_pos", [place.offset for place in places]),
            column("_seq", [Decimal(row.sequence) for row in rows]),
            column("_server_id", [each["server_id"] or 0 for each in values]),
            column("_present", [columns.present(each) for each in values]),
            column("_raw", [found or None for found in raw]),
            column(_TRANSACTION, [each["local_transaction_id"] or 0 for each in values]),
            *(column(key, [each[key] for each in values]) for key, _ in self._others),
            *images,
        ]
        return pa.RecordBatch.from_arrays(made, schema=schema)


class _ArrowWriter(MaterialisedWriter):
    def __init__(self, output: Output) -> None:
        self._output = output
        self._held: SpilledObjects[tuple[str, dict[str, Any], LogChange | None]]
        self._held = SpilledObjects(_MOST_HELD, shared=_SHARED)
        self._is_open = False
        self._columns: dict[tuple[ModifiedTable, TableSchema | None], _Columns] = {}
        self._key: tuple[Any, ...] = ()
        self._stream: _Stream | None = None
        self._written: pa.RecordBatchStreamWriter | None = None
        self._rows: list[_Row] = []
        self._events: list[_Event] = []
        self._size = 0
        self._pool = Pool()
        self._place = (0, 0, -1)
        self._closed = False

    def event(self, event: ReplicationEvent) -> None:
        if event.is_rolled_back or event.name == TransactionRollback.name:
            raise UsageError(
                f"{event.name}: Arrow holds no event that is rolled back: materialise without"
                " rollbacks"
            )
        if isinstance(event, RowEvent) and event.name in _KINDS:
            context = context_of(event)
            change = None
            if not isinstance(context, LogRowsContext) or context.change.event.file is None:
                values = event.values()
                values["operation"] = OPERATIONS.get(event.name) or values["operation"]
                size = _OF_A_VALUE * len(event.table.columns) * len(_images(values)[0])
            else:
                change = context.change
                names = (each for each in event.accessors if each not in _READ_BY_KERNEL)
                values = {name: context.read(name) for name in names}
                size = change.event.header.length
            _types(event.name, values)
            self._held.append((event.name, values, change), size)
        elif isinstance(event, TransactionStart):
            self._held.clear()
            self._is_open = True
        elif isinstance(event, TransactionCommit):
            gtid = event.global_transaction_id
            self._add(None if gtid is None else str(gtid))
            self._is_open = False
        elif isinstance(event, StatementQuery) and event.is_row_statement:
            raise UsageError(
                f"{event.name}: Arrow holds rows, and this change was logged as its statement"
            )
        elif not isinstance(event, StatementEvent):
            raise UsageError(f"{event.name}: Arrow holds events of rows")

    def _add(self, gtid: str | None) -> None:
        """Add the rows that are held."""
        for name, values, change in self._held:
            table, schema = values["table"], None if change is None else change.schema
            columns = self._columns.get((table, schema))
            if columns is None:
                columns = _Columns(_schema_of(table) if schema is None else schema, self._pool)
                self._columns[table, schema] = columns
            key = (name, columns, _types(name, values))
            if key != self._key:
                self._end_stream()
                self._key, self._stream = key, _Stream(name, table, columns, key[2])
            if change is not None:
                self._add_event(_Event(values, change, gtid))
                continue
            for before, after in zip(*_images(values), strict=True):
                number = self._number(values["position"])
                self._rows.append(_Row(values, before, after, gtid, number))
            if len(self._rows) >= _MOST_ROWS:
                self.flush()
        self._held.clear()

    def _add_event(self, event: _Event) -> None:
        if self._events and self._events[-1].change.event.file != event.change.event.file:
            self.flush()
        self._events.append(event)
        self._size += event.change.event.header.length
        if self._size >= _MOST_BYTES:
            self.flush()

    def _number(self, at: Position | None) -> int:
        """The row's ``_seq``: rows of one event, and those without a position, are counted."""
        file, offset = (0, 0) if at is None else (file_number(at.file) or 0, at.offset)
        number = self._place[2] + 1 if self._place[:2] == (file, offset) else 0
        self._place = file, offset, number
        return sequence(file, offset, number)

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        events, self._events, self._size = self._events, [], 0
        if self._stream is None or not (rows or events):
            return
        if self._written is None:
            self._written = pa.ipc.new_stream(_Sink(self._output), self._stream.schema)
        for batch in self._stream.batches(events) if events else (self._stream.batch(rows),):
            self._written.write_batch(batch)

    def _end_stream(self) -> None:
        self.flush()
        if self._written is not None:
            self._written.close()
            self._written = None

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._is_open:  # events by themselves
            self._add(None)
        self._held.close()
        self._end_stream()


class _Sink(io.RawIOBase):
    """The output as a file, for Arrow."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._output(bytes(data))
        return len(data)


class _Raw(io.RawIOBase):
    """A source as a file that may give less than it is asked for."""

    def __init__(self, source: Any) -> None:
        self._read = reading(source)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Input:
    """A source as a file, for Arrow, which takes a file's end for a stream's: ``last`` tells."""

    closed = False

    def __init__(self, source: Any) -> None:
        self._file = io.BufferedReader(_Raw(source))
        self.last = b""

    @property
    def is_over(self) -> bool:
        return not self._file.peek(1)

    def read(self, count: int = -1) -> bytes:
        pieces = [self._file.read(min(count, _PIECE))]
        left = count - len(pieces[0])
        while left > 0 and pieces[-1]:  # a damaged length reserves no memory
            pieces.append(self._file.read(min(left, _PIECE)))
            left -= len(pieces[-1])
        data = b"".join(pieces)
        self.last = (self.last + data[-len(_END) :])[-len(_END) :]
        return data


_Run = tuple[str, GlobalTransactionId | None, Place, _Kept]
"""The rows of one event: the event's name, its GTID and transaction, and the rows."""


class _ArrowReader:
    def __init__(self, source: Source) -> None:
        self._input = _Input(source)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The record batches of all streams."""
        while not self._input.is_over:
            with pa.ipc.open_stream(self._input) as stream:
                if not {_EVENT, _TABLE} <= (stream.schema.metadata or {}).keys():
                    raise BadMagic("an Arrow stream, but not one of materialised rows")
                for batch in stream:
                    batch.validate(full=True)
                    yield batch
            if self._input.last != _END:
                raise TruncatedEvent("the Arrow stream ends without its end mark: it was cut off")

    def _runs(self) -> Iterator[_Run]:
        """The rows of one event each. Raises LogError for what is no such stream, or damaged."""
        try:
            for batch in self._batches():
                yield from _runs_of(batch)
        except (pa.ArrowException, OSError) as error:
            raise EventDecodeError(f"the Arrow stream is damaged: {error}") from None
        except (LookupError, ValueError, TypeError, ArithmeticError) as error:
            raise EventDecodeError(
                f"the Arrow stream has not the columns of materialised rows: {error!r:.100}"
            ) from None

    def offers(self) -> Iterator[Offer]:
        now: tuple[int, GlobalTransactionId | None] | None = None
        for _, gtid, place, rows in self._runs():
            if (place.transaction, gtid) != now:
                if now is not None:
                    yield _end(*now)
                now = place.transaction, gtid
                yield Offer(Change.START, KeptContext(_of(now[0])), now[0])
            yield Offer(Change.ROWS, rows, place.transaction)
        if now is not None:
            yield _end(*now)

    def events(self) -> Iterator[ReplicationEvent]:
        for name, _, place, rows in self._runs():
            kind = _KINDS[name]
            for context in [rows] if kind is RowBatch else rows.rows():
                event = kind(context)
                put_in(event, place)
                yield event


def _runs_of(
    batch: pa.RecordBatch,
) -> Iterator[_Run]:
    metadata = batch.schema.metadata
    name = metadata[_EVENT].decode()
    if name not in _KINDS:
        raise EventDecodeError(f"Arrow's rows of the unknown event {name:.60}")
    table = _table_of(metadata[_TABLE])
    columns = _Read(batch.schema)
    images = [batch.column(which) for which in _IMAGES]
    own = {key for key in batch.schema.names if key not in _IMAGES}
    heads = batch.select(sorted(own - {"_seq"})).to_pylist()
    numbers = batch.column("_seq").to_pylist()
    start = 0
    for end in range(1, len(heads) + 1):
        if end < len(heads) and _continues(heads, numbers, end):
            continue
        head = heads[start]
        raw = [each["_raw"] for each in heads[start:end]]
        values = _values(head, table)
        for which, image, names in zip(_IMAGES, images, _SETS, strict=True):
            has = columns.names((head["_present"] or {}).get(which))
            rows = columns.images(which, image.slice(start, end - start), raw, has)
            values[f"{which}_images"] = rows
            values[names] = None if rows is None else has
        if values["operation"] not in OPERATIONS.values():
            raise EventDecodeError(f"Arrow's rows with the operation {values['operation']!r:.60}")
        said = head["_gtid"]
        gtid = None if said is None else GlobalTransactionId.of(said)
        yield name, gtid, Place(head[_TRANSACTION], rolled_back=False), _Kept(values)
        start = end


def _continues(heads: Sequence[Any], numbers: Sequence[Decimal], at: int) -> bool:
    """Whether a row is of the same event as the row before it."""
    before, head = heads[at - 1], heads[at]
    return int(numbers[at]) == int(numbers[at - 1]) + 1 and all(
        before[key] == head[key] for key in head if key != "_raw"
    )


def _end(transaction: int, gtid: GlobalTransactionId | None) -> Offer:
    context = KeptContext({**_of(transaction), "global_transaction_id": gtid})
    return Offer(Change.COMMIT, context, transaction)


def _of(transaction: int) -> dict[str, Any]:
    return {"local_transaction_id": transaction}


def _values(head: dict[str, Any], table: ModifiedTable) -> dict[str, Any]:
    """The accessors of an event, without its images, by what the record has of its first row."""
    return {
        **{key: value for key, value in head.items() if key not in _KNOWN},
        "table": table,
        "modified_tables": (table,),
        "operation": head["_op"],
        "position": Position(head["_file"], head["_pos"]) if head["_file"] else None,
        "timestamp": (head["_ts"] - _EPOCH) // timedelta(microseconds=1) or None,
        "server_id": head["_server_id"] or None,
        "local_transaction_id": head[_TRANSACTION],
    }


def _images(values: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The images of an event's rows, None where a row has none."""
    if "before_images" in values or "after_images" in values:
        before, after = values["before_images"], values["after_images"]
    else:
        before, after = (
            None if (image := values.get(f"{which}_image")) is None else [image]
            for which in _IMAGES
        )
    none = [None] * len(before if after is None else after)
    return none if before is None else before, none if after is None else after


def _types(name: str, values: dict[str, Any]) -> _Types:
    """The accessors that the record does not have, with their types. Raises UsageError."""
    found = []
    for key, value in values.items():
        if key not in _IN_RECORD:
            try:
                found.append((key, pa.scalar(value).type))
            except pa.ArrowException:
                raise UsageError(
                    f"{name}.{key}: a value of class {type(value).__qualname__} is none of Arrow's"
                ) from None
    return tuple(found)


def _table_of(data: bytes) -> ModifiedTable:
    database, name, columns, key = json.loads(data)
    return ModifiedTable(database, name, tuple(TableColumn(*each) for each in columns), tuple(key))


def _schema_of(table: ModifiedTable) -> TableSchema:
    """The columns of a table that an event names, of either flavour. Raises SchemaError."""
    try:
        return table_of(table, Flavour.MYSQL, "9.7.0").schema
    except (SchemaError, UnsupportedType):
        return table_of(table, Flavour.MARIADB, "11.8.3-MariaDB").schema
