"""Filters of whole transactions: the first event decides for all events to the last."""

from __future__ import annotations

from tailrace.events import Event, IncidentEvent
from tailrace.handlers.base import Handler, Outcome
from tailrace.transactions import BoundaryParser


class GroupFilter(Handler):
    """The base of filters that drop whole transactions, including their GTID event.

    `keeps` decides at a transaction's first event (its GTID event, where it has one). Events that
    belong to no transaction always pass (format descriptions, ROTATE, STOP, …), and so do
    incidents. The result follows the grammar of transactions.
    """

    def __init__(self) -> None:
        self.at_start()

    def at_start(self) -> None:
        """Start without an open transaction."""
        self._parser = BoundaryParser()
        self._keep = True

    def keeps(self, first: Event) -> bool:
        """Whether the transaction that starts with this event passes."""
        raise NotImplementedError

    def on_event(self, event: Event) -> Outcome:
        """Pass or drop an event with its transaction."""
        if event.inner_index is None:
            parser = self._parser
            began = not parser.inside
            parser.feed(event)
            if parser.control:
                return event
            if began:
                self._keep = self.keeps(event)
        return event if self._keep or isinstance(event, IncidentEvent) else None
