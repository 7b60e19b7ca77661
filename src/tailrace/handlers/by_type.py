"""Filters events by their type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import UsageError
from tailrace.events import Event, RowsEvent, RowsQueryEvent, TableMapEvent
from tailrace.handlers.base import open_payload
from tailrace.handlers.rows_filter import RowsFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events import (
        AnnotateRowsEvent,
        GtidEvent,
        MariadbGtidEvent,
        TransactionPayloadEvent,
    )
    from tailrace.handlers.base import Outcome

Kind = int | type[Event]
"""A type code (`EventType`), or a class that stands for all its events."""


class ByType(RowsFilter):
    """Passes ``only`` the events of these types, or all ``without`` these.

    Types are codes or classes of events. Where rows are left out, the rules of `RowsFilter` apply.
    Beyond that, the result need not be a valid log: if BEGIN is left out, it has no BEGIN. A
    payload passes where any event in it is left, unless ``without`` names its type.
    """

    def __init__(self, only: Iterable[Kind] | None = None, *, without: Iterable[Kind] = ()) -> None:
        super().__init__()
        self._only = None if only is None else tuple(only)
        self._without = tuple(without)
        self._known: dict[tuple[int, type[Event]], bool] = {}
        for kind in (*(self._only or ()), *self._without):
            if not isinstance(kind, int) and not (
                isinstance(kind, type) and issubclass(kind, Event)
            ):
                raise UsageError(f"not a type of events: {kind!r}")

    def passes(self, event: Event) -> bool:
        """Whether an event's type is wanted."""
        key = event.header.type, type(event)
        known = self._known.get(key)
        if known is None:
            known = self._only is None or _among(event, self._only)
            known = known and not _among(event, self._without)
            self._known[key] = known
        return known

    def wants_map(self, event: TableMapEvent, /) -> bool:
        """Decide by the type."""
        return self.passes(event)

    def wants_rows(self, event: RowsEvent, /) -> bool:
        """Decide by the type."""
        return self.passes(event)

    def on_rows_query(self, event: RowsQueryEvent) -> Outcome:
        """Hold until rows pass, if the type is wanted."""
        return super().on_rows_query(event) if self.passes(event) else None

    def on_annotate_rows(self, event: AnnotateRowsEvent) -> Outcome:
        """Hold until rows pass, if the type is wanted."""
        return super().on_annotate_rows(event) if self.passes(event) else None

    def on_gtid(self, event: GtidEvent) -> Outcome:
        """Decide by the type."""
        return super().on_gtid(event) if self.passes(event) else self._flush()

    def on_mariadb_gtid(self, event: MariadbGtidEvent) -> Outcome:
        """Decide by the type."""
        return super().on_mariadb_gtid(event) if self.passes(event) else self._flush()

    def on_transaction_payload(self, event: TransactionPayloadEvent) -> Outcome:
        """Decide by what is left in it, unless its own type is to be left out."""
        return self._flush() if _among(event, self._without) else open_payload(self, event)

    def on_event(self, event: Event) -> Outcome:
        """Decide by the type."""
        return super().on_event(event) if self.passes(event) else self._flush()


def _among(event: Event, kinds: Iterable[Kind]) -> bool:
    return any(
        event.header.type == kind if isinstance(kind, int) else isinstance(event, kind)
        for kind in kinds
    )
