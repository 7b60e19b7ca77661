"""What `tailrace.changes` returns: batches that tell where to resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.log.events import gtids_at
from tailrace.log.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from tailrace.gtid import GtidState
    from tailrace.position import Position
    from tailrace.transports import Transport


class Batch:
    """A record batch of one table's changes, which also tells the table and where to resume.

    All that a `pyarrow.RecordBatch` has it has, too (``num_rows``, ``column``, ``schema``,
    ``to_pylist``, ``to_pandas``); pyarrow, pandas, polars and DuckDB take it as one
    (``__arrow_c_array__``, ``__arrow_c_stream__``). ``record_batch`` is the record batch itself,
    for functions such as ``pyarrow.Table.from_batches`` that take no other object.

    ``table`` is ``database.table``. ``position`` is where to resume once this batch and those
    before it were dealt with: the end of a transaction whose rows were all given by then. No later
    batch has rows before it. Reading from it may repeat rows of this batch.
    """

    __slots__ = ("position", "record_batch")

    def __init__(self, record_batch: pa.RecordBatch, position: Position) -> None:
        self.record_batch = record_batch
        self.position = position

    @property
    def table(self) -> str:
        """The table's name, as ``database.table``."""
        return table_named(self.record_batch.schema)

    def __getattr__(self, name: str) -> Any:
        if name in Batch.__slots__:  # it is being made, or unpickled
            raise AttributeError(name)
        return getattr(self.record_batch, name)

    def equals(self, other: object, *, check_metadata: bool = False) -> bool:
        """Whether another batch, or record batch, has the same rows."""
        batch = other.record_batch if isinstance(other, Batch) else other
        return bool(self.record_batch.equals(batch, check_metadata=check_metadata))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Batch, pa.RecordBatch)):
            return NotImplemented
        return self.equals(other)

    __hash__ = None  # type: ignore[assignment]  # it is compared by content

    def __len__(self) -> int:
        return int(self.record_batch.num_rows)

    def __getitem__(self, key: Any) -> Any:
        return self.record_batch[key]

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.record_batch.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.record_batch.__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.record_batch, self.position)

    def __repr__(self) -> str:
        return f"<Batch of {self.table}: {self.num_rows} rows, position {self.position}>"


def table_named(schema: pa.Schema) -> str:
    """The ``database.table`` of a batch's schema."""
    name: bytes = schema.metadata[b"tailrace.table"]
    return name.decode()


class Marked:
    """A generator of batches, with None wherever all batches of what was decoded have been given.

    ``resume`` says where to resume then.
    """

    def __init__(
        self,
        batches: Generator[pa.RecordBatch | None],
        resume: Callable[[], Position],
        transport: Transport,
        begin: Position,
    ) -> None:
        self.batches = batches
        self.resume = resume
        self.transport = transport
        self.position = begin

    def __iter__(self) -> Iterator[Batch]:
        """The batches; one is held back until it is known whether it is the last of its part."""
        # At most one batch, to which nothing else refers once it is given.
        held: list[pa.RecordBatch] = []
        try:
            for batch in self.batches:
                if held:
                    position = self.resume() if batch is None else self.position
                    yield Batch(held.pop(), position)
                if batch is None:
                    self.position = self.resume()
                else:
                    held.append(batch)
                del batch
        except Exception:
            if held:  # what came before an error is given
                yield Batch(held.pop(), self.position)
            raise
        finally:
            self.batches.close()
        if held:
            yield Batch(held.pop(), self.position)


class Parts:
    """The parts of what is read, one after the other; ``now`` is the one that is being read."""

    def __init__(self, parts: Sequence[Marked]) -> None:
        self._parts = parts
        self.now = parts[0]

    def __iter__(self) -> Iterator[Batch]:
        for part in self._parts:
            self.now = part
            yield from part


class Batches(Results[Batch]):
    """The batches of `tailrace.changes`, made while one iterates."""

    def __init__(
        self,
        parts: Parts,
        batches: Iterator[Batch],
        stop: Callable[[], None],
        skipped: Callable[[], int],
    ) -> None:
        self._parts = parts
        self._skipped = skipped
        self._first: Batch | None = None  # of a stream, which was not taken yet
        super().__init__(batches, stop)

    def _next(self) -> Batch:
        first, self._first = self._first, None
        return super()._next() if first is None or self._is_closed else first

    @property
    def position(self) -> Position:
        """Where to resume after all that was taken: the end of the last transaction whose rows were
        all given. Every ``start`` takes it, and its text.
        """
        return self._parts.now.position

    @property
    def gtids(self) -> GtidState | None:
        """The GTIDs after which to resume, those at ``position``; None if the log does not list
        them. The log's file is read up to the position to find them.
        """
        part = self._parts.now
        return gtids_at(part.transport, part.position) if part.position.file else None

    @property
    def skipped_statements(self) -> int:
        """Statements that changed rows, and were passed over with ``statements="skip"``."""
        return self._skipped()

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """The same as record batches."""
        return (batch.record_batch for batch in self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The batches as one stream (the PyCapsule interface), read while the consumer takes them.

        A stream has one schema. UsageError for a batch of another table, or with other columns:
        select one table, or use `tailrace.table`, which joins the versions of its columns.

        A stream of which no batch was taken takes none: DuckDB asks for one to see the schema, and
        for another to read.
        """
        self._first = next(self, None)
        schema = pa.schema([]) if self._first is None else self._first.schema

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in self:
                if batch.table != table_named(schema):
                    raise UsageError(
                        f"a stream is of one table, and here are rows of {table_named(schema)} and"
                        f" {batch.table}: select one, as tables={table_named(schema)!r}"
                    )
                if batch.schema != schema:
                    raise UsageError(
                        f"the columns of {batch.table} change in this log: tailrace.table gives one"
                        " table with all of them"
                    )
                yield batch.record_batch

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        return reader.__arrow_c_stream__(requested_schema)
