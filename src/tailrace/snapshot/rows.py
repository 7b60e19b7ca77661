"""The rows of a range of a server's table, by column, as the Arrow types that the reader wants.

A value is what SELECT prints of it, cast to the type. What no typed column holds (zero dates) is
kept separately as a text. The rules of types are those of docs/types.md.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.charsets import without_surrogates
from tailrace.errors import EventDecodeError, PipelineError, ValueRejected
from tailrace.live.driver import SSCursor
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.values.temporal import given_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tailrace.live.connect import ServerConnection
    from tailrace.snapshot.columns import ServerColumn
    from tailrace.snapshot.key_ranges import KeyRange
    from tailrace.table_name import TableName

_BATCH: Final = 20_000
_BATCH_BYTES: Final = 8 << 20
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_NAMED: Final = frozenset({"enum", "set"})
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - as wall clocks show it
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class ServerTable:
    """What is read of a table: columns, each with the type it is wanted in, and the key's names."""

    name: TableName
    columns: tuple[ServerColumn, ...]
    types: tuple[pa.DataType, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Values:
    """A column's values, and the text of each value that the type cannot hold."""

    typed: pa.Array
    texts: pa.Array | None = None

    def shown(self, row: int) -> str | None:
        """A value for a person; None for NULL."""
        if self.texts is not None and self.texts[row].is_valid:
            return str(self.texts[row])
        cell = self.typed[row]
        if not cell.is_valid:
            return None
        try:
            value = cell.as_py()
        except (ValueError, OverflowError):  # a year that Python's dates do not have
            return str(cell.cast(pa.string()))
        if isinstance(value, timedelta):
            return f"{value // _MICROSECOND} us"
        return value.hex() if isinstance(value, bytes) else str(value)


def server_rows(
    connection: ServerConnection, table: ServerTable, part: KeyRange
) -> Iterator[list[Values]]:
    """The rows of a range, by column, some MiB or one row at a time, all as of one moment.

    Raises `PipelineError`, naming the column, for a value that the wanted type cannot hold.
    """
    wanted = ", ".join(
        _expression(column.name, column.type, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    )
    name = quoted_table(*table.name)
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(f"SELECT {wanted} FROM {name}{part.clause}")  # noqa: S608 - quoted
        while batch := connection.parsed_rows(cursor, _BATCH, _BATCH_BYTES):
            found = []
            for cells, column, kind in zip(
                zip(*batch, strict=True), table.columns, table.types, strict=True
            ):
                try:
                    found.append(_cast(cells, kind))
                except (pa.ArrowException, EventDecodeError, ValueRejected) as error:
                    raise PipelineError(
                        f"column {column.name} ({column.type} on the server): the lake's type"
                        f" {kind} cannot hold it: {error}"
                    ) from error
            yield found
    with connection.cursor() as cursor:
        cursor.execute("COMMIT")


def _expression(name: str, declared: str, wanted: pa.DataType) -> str:
    """What to SELECT of a column so that its text says all of the value.

    ``declared`` is its type in information_schema (``data_type``).
    """
    column = quoted_name(name)
    if declared == "bit" or (declared in _NAMED and not pa.types.is_string(wanted)):
        return f"{column} + 0"
    if declared == "float":  # printed with six digits as it is
        return f"{column} + 0e0"
    if declared in _TEXTS and pa.types.is_binary(wanted):
        return f"CAST({column} AS BINARY)"
    return column


def _cast(cells: Sequence[bytes | None], wanted: pa.DataType) -> Values:
    """A column that the server sent, in a type."""
    data = pa.array(cells, pa.binary())
    if pa.types.is_binary(wanted) or pa.types.is_list(wanted):
        return Values(data)
    if pa.types.is_duration(wanted):
        times = data.cast(pa.string()).to_pylist()
        micros = [None if each is None else given_time(each, 6) for each in times]
        return Values(pa.array(micros, pa.int64()).cast(wanted))
    if pa.types.is_string(wanted):
        return _text(data)
    text = data.cast(pa.string())
    if pa.types.is_temporal(wanted):
        return _moments(text, wanted)
    if pa.types.is_float32(wanted):
        text = text.cast(pa.float64())
    return Values(text.cast(wanted))


def _text(data: pa.BinaryArray) -> Values:
    """Text as utf8mb4; what holds surrogates, which UTF-8 has not, stays as ``_raw`` has it."""
    odd: dict[int, str] = {}
    typed = without_surrogates(data, odd)
    if not odd:
        return Values(typed)
    return Values(typed, pa.array([odd.get(row) for row in range(len(data))], pa.string()))


def _moments(text: pa.StringArray, wanted: pa.DataType) -> Values:
    """Dates and times of day on them; those that the calendar lacks stay texts, so the year 0."""
    plain = pa.date32() if pa.types.is_date(wanted) else pa.timestamp("us")
    typed = texts = None
    if not pc.any(pc.starts_with(text, "0000")).as_py():
        with suppress(pa.ArrowInvalid):
            typed = text.cast(plain)
    if typed is None:
        read: Callable[[str], int] = _day if pa.types.is_date(wanted) else _moment
        numbers: list[int | None] = []
        left: list[str | None] = []
        for value in text.to_pylist():
            try:
                numbers.append(None if value is None else read(value))
                left.append(None)
            except ValueError:
                numbers.append(None)
                left.append(value)
        whole = pa.int32() if pa.types.is_date(wanted) else pa.int64()
        typed, texts = pa.array(numbers, whole).cast(plain), pa.array(left, pa.string())
    if typed.type != wanted:
        typed = typed.cast(pa.int64()).cast(wanted)
    return Values(typed, texts)


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal() - _EPOCH.toordinal()


def _moment(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
