"""Rows by their table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.events import (
    Event,
    ExecuteLoadQueryEvent,
    QueryEvent,
    RowsEvent,
    TableMapEvent,
)
from tailrace.handlers.rows_filter import RowsFilter
from tailrace.schema.classify import StatementKind, classify
from tailrace.table_filter import TableFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.handlers.base import Outcome

_CACHED: Final = 4096


class ByTable(RowsFilter):
    """Lets pass the rows of tables that match a pattern, and leaves out all others'.

    A pattern is ``database.table`` with ``*`` and ``?``; one without a point is a table in any
    database; ``only`` may be a filter that was made of both. ``without`` are patterns of tables
    whose rows are left out. Statements are not looked into: all pass, DDL and rows that were logged
    as statements; with ``statements`` false only those that control transactions do. The rules of
    `RowsFilter` hold.
    """

    def __init__(
        self,
        only: str | Sequence[str] | TableFilter | None = None,
        *,
        without: str | Sequence[str] = (),
        statements: bool = True,
    ) -> None:
        super().__init__()
        self._wants = TableFilter.of(only, without)
        self._statements = statements
        self._known: dict[bytes, bool] = {}

    def wants_map(self, event: TableMapEvent, /) -> bool:
        """By database and table; decided once for the same bytes."""
        known = self._known.get(event.body)
        if known is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            known = self._known[event.body] = self._wants(event.database, event.table)
        return known

    def wants_rows(self, event: RowsEvent, /) -> bool:
        """By the table."""
        return self.wants_map(event.table_map)

    def on_query(self, event: QueryEvent) -> Outcome:
        """Passes, or only where it controls a transaction."""
        controls = self._statements or (
            not isinstance(event, ExecuteLoadQueryEvent)
            and classify(event.sql) is StatementKind.CONTROL
        )
        return self.on_event(event) if controls else self.leave_out(event)

    def _part_of_statement(self, event: Event) -> Outcome:
        """What comes before a statement passes with it, or not."""
        return self.on_event(event) if self._statements else None

    on_int_var = on_rand = on_user_var = on_load_block = on_delete_file = _part_of_statement
