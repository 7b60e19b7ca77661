"""Builds transactions from the events that pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.handlers.base import Handler, Outcome
from tailrace.transactions import Transaction, TransactionAssembler

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events import Event


class Assembler(Handler):
    """Gives each transaction to ``to`` as a whole, when its last event arrives (`Transaction`).

    Its ``kind`` says how it ended: commit, rollback, XA prepare, DDL, MariaDB's standalone group. A
    transaction that the log does not end, or that a crash cut short, is given with ``complete``
    false: at the log's end, or at the point where the crash is detected. Events are passed on; with
    ``consume``, events that belong to a transaction are not. Control events are always passed on.
    One transaction is held in memory at a time.
    """

    def __init__(self, to: Callable[[Transaction], object], *, consume: bool = False) -> None:
        self._to = to
        self._consume = consume
        self.at_start()

    def at_start(self) -> None:
        """Start without an open transaction."""
        self._assembler = TransactionAssembler()
        self._inside = False

    def on_event(self, event: Event) -> Outcome:
        """Add the event to its transaction."""
        if event.inner_index is None:
            done = self._assembler.feed(event)
            if done is not None:
                self._to(done)
            self._inside = not self._assembler.control
        return None if self._consume and self._inside else event

    def at_end(self) -> Outcome:
        """Give the transaction that has no end."""
        left = self._assembler.finish()
        if left is not None:
            self._to(left)
        return None
