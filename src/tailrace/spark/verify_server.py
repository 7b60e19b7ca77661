"""The server's side of a comparison: its tables, ranges of their keys, and the rows of a range."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import MalformedPacket, PipelineError
from tailrace.live.driver import ServerAnswer, SSCursor
from tailrace.live.tables import connected
from tailrace.schema.tokens import quoted_name, quoted_table
from tailrace.spark.verify_values import expression, from_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from tailrace.live.connect import ServerConnection
    from tailrace.live.url import Source
    from tailrace.spark.verify_values import Values

_BATCH: Final = 20_000
_BATCH_BYTES: Final = 8 << 20
_NUMBERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
_MOMENTS: Final = frozenset({"date", "datetime", "timestamp"})
_TEXTS: Final = frozenset({"char", "varchar"})
_BYTES: Final = frozenset({"binary", "varbinary"})
_ORDERED: Final = _NUMBERS | _MOMENTS | _TEXTS | _BYTES
"""Types whose values come back from a statement's text with the same order."""
_SETTINGS: Final = (
    "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",  # else MySQL rejects such a date as a bound
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION net_write_timeout = 3600",
)


@dataclass(frozen=True)
class ServerColumn:
    """A column, as information_schema has it: ``type`` is its ``data_type``."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class ServerTable:
    """What is compared of a table: columns with the lake's types, and the key's names."""

    database: str
    table: str
    columns: tuple[ServerColumn, ...]
    types: tuple[pa.DataType, ...]
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its full name, quoted."""
        return quoted_table(self.database, self.table)

    @property
    def ordered(self) -> tuple[ServerColumn, ...]:
        """The columns of the key, from its first on, by which ranges can be cut."""
        found: list[ServerColumn] = []
        for name in self.key:
            column = next(each for each in self.columns if each.name == name)
            if column.type not in _ORDERED or column.nullable:
                break
            found.append(column)
        return tuple(found)


KeyBound = tuple[str, ...]
"""A key's leading values, as SQL."""


@dataclass(frozen=True)
class Range:
    """Rows whose key is above ``low`` and not above ``high``; None is no bound."""

    number: int
    low: KeyBound | None = None
    high: KeyBound | None = None

    def where(self, columns: Sequence[ServerColumn]) -> str:
        """The condition; empty where there is none."""
        parts = []
        if self.low is not None:
            parts.append(_above(columns, self.low))
        if self.high is not None:
            parts.append(f"NOT {_above(columns, self.high)}")
        return f" WHERE {' AND '.join(parts)}" if parts else ""


def _above(columns: Sequence[ServerColumn], bound: KeyBound) -> str:
    """(a, b) > bound, written so that servers go by the index."""
    name, value = quoted_name(columns[0].name), bound[0]
    if len(bound) == 1:
        return f"({name} > {value})"
    inner = _above(columns[1:], bound[1:])
    return f"({name} >= {value} AND ({name} > {value} OR {inner}))"


@contextmanager
def reading(source: Source) -> Iterator[ServerConnection]:
    """A connection that gives bytes as the server sends them. Raises what `connect` raises."""
    with connected(source) as connection:
        with connection.cursor() as cursor:
            for statement in _SETTINGS:
                cursor.execute(statement)
        plain: Any = connection
        plain.decoders, plain.use_unicode = {}, False
        plain._read_timeout = None  # noqa: SLF001 - a large range may be long in coming
        yield connection


def columns_of(connection: ServerConnection, database: str, table: str) -> list[ServerColumn]:
    """The columns of a table, none where there is no such table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (database, table),
        )
        rows: Any = cursor.fetchall()
    found = ServerAnswer(rows, 3, server=connection.name, asked="information_schema.columns")
    return [
        ServerColumn(found.text(0, row), found.text(1, row).lower(), found.text(2, row) == "YES")
        for row in range(len(found))
    ]


def ranges(connection: ServerConnection, table: ServerTable, size: int) -> list[Range]:
    """Cut a table into ranges of the key with about ``size`` rows each."""
    columns = table.ordered
    if not columns:
        return [Range(0)]
    names = ", ".join(quoted_name(column.name) for column in columns)
    found: list[Range] = []
    low: KeyBound | None = None
    while True:
        where = Range(0, low).where(columns)
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {names} FROM {table.name}{where} ORDER BY {names} "  # noqa: S608 - quoted
                f"LIMIT 1 OFFSET {size - 1}"
            )
            row: Any = cursor.fetchone()
        if row is None:
            return [*found, Range(len(found), low)]
        if len(row) != len(columns) or None in row:
            raise MalformedPacket(f"{connection.name}: {table.name} has no such key: {row!r:.80}")
        high = tuple(_literal(value, column) for value, column in zip(row, columns, strict=True))
        found.append(Range(len(found), low, high))
        low = high


def _literal(value: bytes, column: ServerColumn) -> str:
    if column.type in _NUMBERS:
        return value.decode("ascii")
    if column.type in _MOMENTS:
        return f"'{value.decode('ascii')}'"
    return f"{'_utf8mb4 ' if column.type in _TEXTS else ''}X'{value.hex()}'"


def rows(connection: ServerConnection, table: ServerTable, part: Range) -> Iterator[list[Values]]:
    """The rows of a range, by column, some MiB or one row at a time, all as of one moment.

    Raises `PipelineError`, naming the column, for a value that the lake's type cannot hold.
    """
    wanted = ", ".join(
        expression(column.name, column.type, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    )
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(f"SELECT {wanted} FROM {table.name}{part.where(table.ordered)}")  # noqa: S608 - quoted
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
