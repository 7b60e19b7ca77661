"""Renames databases and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.constants import HEADER_SIZE
from tailrace.events import QueryEvent, RowsEvent, StatusVariable, TableMapEvent
from tailrace.handlers.base import AnyEvent, Handler, Outcome, placed

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT: Final = 4096
_UPDATED: Final = StatusVariable.UPDATED_DB_NAMES


class Rename(Handler):
    """Renames databases and tables, as ``mysqlbinlog --rewrite-db`` does.

    ``databases`` maps names to names, ``tables`` maps (database, table) to (database, table) and
    takes precedence; both use the names in the log. What changes: table maps (rows events point to
    the changed one), and in statements the default database and the names of updated databases. A
    name in a statement's text stays as it is. Names are compared byte by byte. Payloads are opened
    and rebuilt. A filter by table sees the new names if it comes after this handler, and the old
    ones if it comes before.
    """

    opens_payloads = True

    def __init__(
        self,
        databases: Mapping[str, str] | None = None,
        tables: Mapping[tuple[str, str], tuple[str, str]] | None = None,
    ) -> None:
        self._databases = dict(databases or {})
        self._tables = dict(tables or {})
        self.at_start()

    def at_start(self) -> None:
        self._maps: dict[int, tuple[TableMapEvent, TableMapEvent]] = {}
        self._bodies: dict[bytes, bytes] = {}

    def _renamed(self, event: TableMapEvent) -> TableMapEvent:
        """The table map under its new name; the same one where that is the old name."""
        known = self._maps.get(event.table_id)
        if known is not None and known[0] is event:
            return known[1]
        body = self._bodies.get(event.body)
        if body is None:
            body = self._new_body(event)
            if len(self._bodies) >= _KEPT:
                self._bodies.clear()
            self._bodies[event.body] = body
        renamed = event if body == event.body else _with_body(event, body)
        if len(self._maps) >= _KEPT:
            self._maps.clear()
        self._maps[event.table_id] = event, renamed
        return renamed

    def _new_body(self, event: TableMapEvent) -> bytes:
        old = event.database, event.table
        new = self._tables.get(old) or (self._databases.get(old[0], old[0]), old[1])
        return event.body if new == old else event.replace(database=new[0], table=new[1]).body

    def on_table_map(self, event: TableMapEvent) -> Outcome:
        return self._renamed(event)

    def on_rows(self, event: RowsEvent) -> Outcome:
        """Pass the same rows, with the table map under its new name."""
        if event.is_dummy:
            return event
        old = event.table_map
        new = self._renamed(old)
        if new is old:
            return event
        moved = _with_body(event, event.body)
        moved.checksum = event.checksum
        moved._table_map = new  # noqa: SLF001 - a slot set by the context, not part of the body
        return moved

    def on_query(self, event: QueryEvent) -> Outcome:
        changes: dict[str, Any] = {}
        if event.database in self._databases:
            changes["database"] = self._databases[event.database]
        updated = event.status_value(_UPDATED)
        if updated and not self._databases.keys().isdisjoint(updated):
            names = tuple(self._databases.get(name, name) for name in updated)
            said = event.status_variables
            changes["status"] = replace(said, values={**said.values, _UPDATED: names})
        return placed(event.replace(**changes), event) if changes else event


def _with_body(event: AnyEvent, body: bytes) -> AnyEvent:
    """An event with another body, at the same position; without a checksum."""
    header = event.header
    if body != event.body:
        header = header.resized(HEADER_SIZE + len(body))
    made = type(event)(header, body)
    made.form = event.form
    return placed(made, event)
