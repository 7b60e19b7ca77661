"""The columns of a table, from the server's ``information_schema``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.live.driver import ServerAnswer

if TYPE_CHECKING:
    from tailrace.live.connect import ServerConnection


@dataclass(frozen=True)
class ServerColumn:
    """A column: ``type`` is its ``data_type``; only text has a character set and a collation."""

    name: str
    type: str
    nullable: bool
    charset: str | None = None
    collation: str | None = None


def columns_of(connection: ServerConnection, database: str, table: str) -> list[ServerColumn]:
    """The columns of a table; an empty list if the table does not exist."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, data_type, is_nullable, character_set_name, collation_name "
            "FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (database, table),
        )
        rows: Any = cursor.fetchall()
    found = ServerAnswer(rows, 5, server=connection.name, asked="information_schema.columns")
    return [
        ServerColumn(
            found.text(0, row),
            found.text(1, row).lower(),
            found.text(2, row) == "YES",
            found.text_or_none(3, row),
            found.text_or_none(4, row),
        )
        for row in range(len(found))
    ]
