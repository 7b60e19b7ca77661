"""Filters rows by their table."""

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
    """Passes the rows of tables that match a pattern, and drops the rows of all others.

    A pattern is ``database.table`` with ``*`` and ``?``; one without a dot is a table in any
    database. ``only`` may be a filter that was built from both arguments. ``without`` lists
    patterns of tables whose rows are dropped. Statements are not parsed: all of them pass,
    including DDL and rows that were logged as statements. With ``statements`` false, only
    statements that control transactions pass. The rules of `RowsFilter` apply.
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
        """Decide by database and table; the decision is cached per table map body."""
        known = self._known.get(event.body)
        if known is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            known = self._known[event.body] = self._wants(event.database, event.table)
        return known

    def wants_rows(self, event: RowsEvent, /) -> bool:
        """Decide by the table."""
        return self.wants_map(event.table_map)

    def on_query(self, event: QueryEvent) -> Outcome:
        """Pass the statement, or only where it controls a transaction."""
        controls = self._statements or (
            not isinstance(event, ExecuteLoadQueryEvent)
            and classify(event.sql) is StatementKind.CONTROL
        )
        return self.on_event(event) if controls else self.leave_out(event)

    def _part_of_statement(self, event: Event) -> Outcome:
        """The events that precede a statement pass if the statement does."""
        return self.on_event(event) if self._statements else None

    on_int_var = on_rand = on_user_var = on_load_block = on_delete_file = _part_of_statement
