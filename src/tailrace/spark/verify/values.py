"""The rows of both sides in the types of the lake, by column; and rows as numbers.

A server's rows are read by ranges of the key, with its values as SELECT prints them. Both sides of
a comparison come to the same Arrow arrays here: the server's text is cast to the type that the
lake's column has. What no typed column holds (zero dates) is kept separately as a text, as in the
lake's ``_raw``. The rules of types are those of docs/types.md.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.columns.charsets import without_surrogates
from tailrace.errors import EventDecodeError, PipelineError, ValueRejected
from tailrace.live.driver import SSCursor
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.spark.state.current import raw
from tailrace.spark.state.current.rows import RAW
from tailrace.values.temporal import given_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tailrace.live.connect import ServerConnection
    from tailrace.snapshot.columns import ServerColumn
    from tailrace.snapshot.key_ranges import KeyRange

Words = np.ndarray[Any, np.dtype[np.uint64]]

_BATCH: Final = 20_000
_BATCH_BYTES: Final = 8 << 20
_WORD: Final = np.dtype("<u8")
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_NAMED: Final = frozenset({"enum", "set"})
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - as wall clocks show it
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class ServerTable:
    """What is compared of a table: columns with the lake's types, and the key's names."""

    database: str
    table: str
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

    Raises `PipelineError`, naming the column, for a value that the lake's type cannot hold.
    """
    wanted = ", ".join(
        expression(column.name, column.type, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    )
    name = quoted_table(table.database, table.table)
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
                    found.append(from_server(cells, kind))
                except PipelineError as error:
                    raise PipelineError(
                        f"column {column.name} ({column.type} on the server): {error}"
                    ) from error
            yield found
    with connection.cursor() as cursor:
        cursor.execute("COMMIT")


def expression(name: str, declared: str, lake: pa.DataType) -> str:
    """What to SELECT of a column so that its text says all of the value.

    ``declared`` is its type in information_schema (``data_type``).
    """
    column = quoted_name(name)
    if declared == "bit" or (declared in _NAMED and not pa.types.is_string(lake)):
        return f"{column} + 0"
    if declared == "float":  # printed with six digits as it is
        return f"{column} + 0e0"
    if declared in _TEXTS and pa.types.is_binary(lake):
        return f"CAST({column} AS BINARY)"
    return column


def from_server(cells: Sequence[bytes | None], lake: pa.DataType) -> Values:
    """A column that the server sent, in the lake's type.

    Raises `PipelineError` for a value that the lake's type cannot hold.
    """
    data = pa.array(cells, pa.binary())
    try:
        if pa.types.is_binary(lake) or pa.types.is_list(lake):
            return Values(data)
        if pa.types.is_duration(lake):
            times = data.cast(pa.string()).to_pylist()
            micros = [None if each is None else given_time(each, 6) for each in times]
            return Values(pa.array(micros, pa.int64()).cast(lake))
        if pa.types.is_string(lake):
            return _text(data)
        text = data.cast(pa.string())
        if pa.types.is_temporal(lake):
            return _moments(text, lake)
        if pa.types.is_float32(lake):
            text = text.cast(pa.float64())
        return Values(text.cast(lake))
    except (pa.ArrowException, EventDecodeError, ValueRejected) as error:
        raise PipelineError(f"the lake's type {lake} cannot hold it: {error}") from error


def _text(data: pa.BinaryArray) -> Values:
    """Text as utf8mb4; what holds surrogates, which UTF-8 has not, stays as ``_raw`` has it."""
    odd: dict[int, str] = {}
    typed = without_surrogates(data, odd)
    if not odd:
        return Values(typed)
    return Values(typed, pa.array([odd.get(row) for row in range(len(data))], pa.string()))


def _moments(text: pa.StringArray, lake: pa.DataType) -> Values:
    """Dates and times of day on them; those that the calendar lacks stay texts, so the year 0."""
    plain = pa.date32() if pa.types.is_date(lake) else pa.timestamp("us")
    typed = texts = None
    if not pc.any(pc.starts_with(text, "0000")).as_py():
        with suppress(pa.ArrowInvalid):
            typed = text.cast(plain)
    if typed is None:
        read: Callable[[str], int] = _day if pa.types.is_date(lake) else _moment
        numbers: list[int | None] = []
        left: list[str | None] = []
        for value in text.to_pylist():
            try:
                numbers.append(None if value is None else read(value))
                left.append(None)
            except ValueError:
                numbers.append(None)
                left.append(value)
        whole = pa.int32() if pa.types.is_date(lake) else pa.int64()
        typed, texts = pa.array(numbers, whole).cast(plain), pa.array(left, pa.string())
    if typed.type != lake:
        typed = typed.cast(pa.int64()).cast(lake)
    return Values(typed, texts)


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal() - _EPOCH.toordinal()


def _moment(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND


def from_lake(rows: pa.Table, columns: Sequence[str]) -> list[Values]:
    """Columns of rows that were read from the lake."""
    texts: dict[str, pa.Array] = {}
    if RAW in rows.schema.names:
        texts = raw.texts(rows.column(RAW))
    found = []
    for name in columns:
        column = rows.column(name)
        typed = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if pa.types.is_dictionary(typed.type):
            typed = typed.dictionary_decode()
        if pa.types.is_list(typed.type):
            typed = _vectors(typed)
        found.append(Values(typed, texts.get(name)))
    return found


def _vectors(lists: pa.ListArray) -> pa.BinaryArray:
    """Lists of 32-bit floats as the bytes that servers send of a VECTOR."""
    values = [
        None if value is None else np.array(value, "<f4").tobytes() for value in lists.to_pylist()
    ]
    return pa.array(values, pa.binary())


def checksums(columns: Sequence[Values]) -> Words:
    """A 64-bit checksum of each row's values; NULL, no bytes and 0 are told apart.

    The same values give the same on every machine. -0.0 is 0.0.
    """
    words: list[Words] = []
    for values in columns:
        texts = pa.nulls(len(values.typed), pa.string()) if values.texts is None else values.texts
        for array in (values.typed, texts):
            words += [array.is_valid().to_numpy(zero_copy_only=False).astype(_WORD), *_words(array)]
    rows = memoryview(np.stack(words, axis=1).tobytes())
    return _digests(rows, np.arange(len(rows) + 1, step=_WORD.itemsize * len(words)))


def _words(array: pa.Array) -> list[Words]:
    """Numbers of 64 bits that stand for each value; those of a NULL are 0."""
    kind = array.type
    if pa.types.is_null(kind):
        return []
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        if array.null_count == len(array):
            return [np.zeros(len(array), _WORD)]
        offsets = np.frombuffer(array.buffers()[1] or b"", np.int32)[array.offset :]
        digests = _digests(memoryview(array.buffers()[2] or b""), offsets[: len(array) + 1])
        return [np.where(array.is_valid().to_numpy(zero_copy_only=False), digests, _WORD.type(0))]
    if pa.types.is_decimal(kind):
        filled, size = array.fill_null(0), kind.bit_width // 64
        words = np.frombuffer(filled.buffers()[1], _WORD)[size * filled.offset :]
        return [*words[: size * len(filled)].reshape(-1, size).T]
    if pa.types.is_floating(kind):
        floats = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return [(floats + 0.0).view(_WORD)]
    if pa.types.is_date(kind):
        array = array.cast(pa.int32())
    whole = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return [whole.astype(np.int64).view(_WORD)]


def _digests(data: memoryview, offsets: np.ndarray[Any, Any]) -> Words:
    """A digest of the bytes between each two offsets."""
    ends = offsets.tolist()
    found = [
        blake2b(data[start:end], digest_size=_WORD.itemsize).digest()
        for start, end in pairwise(ends)
    ]
    return np.frombuffer(b"".join(found), _WORD)
