"""The server's rows of a table, by ranges of the key, in the lake's types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.errors import PipelineError
from tailrace.live.driver import SSCursor
from tailrace.schema.tokens import quoted_table
from tailrace.spark.verify.values import expression, from_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tailrace.live.connect import ServerConnection
    from tailrace.snapshot.columns import ServerColumn
    from tailrace.snapshot.key_ranges import KeyRange
    from tailrace.spark.verify.values import Values

_BATCH: Final = 20_000
_BATCH_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class ServerTable:
    """What is compared of a table: columns with the lake's types, and the key's names."""

    database: str
    table: str
    columns: tuple[ServerColumn, ...]
    types: tuple[pa.DataType, ...]
    key: tuple[str, ...]


def rows(
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
