"""Transactions out of the events that pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.handlers.base import Handler, Outcome
from tailrace.transactions import Transaction, TransactionAssembler

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.events import Event


class Assembler(Handler):
    """Gives each transaction to ``to`` when its last event comes, whole (`Transaction`).

    Its ``kind`` says how it ended: commit, rollback, XA prepare, DDL, MariaDB's standalone group.
    One that the log does not end, or that a crash cut short, is given with ``complete`` false:
    at the log's end, or where the crash shows. Events are passed on, or with ``consume`` all that
    belong to a transaction are not; control events always are. One transaction is held at a time.
    """

    def __init__(self, to: Callable[[Transaction], object], *, consume: bool = False) -> None:
        self._to = to
        self._consume = consume
        self.at_start()

    def at_start(self) -> None:
        """No transaction has begun."""
        self._assembler = TransactionAssembler()
        self._inside = False

    def on_event(self, event: Event) -> Outcome:
        """Take it in."""
        if event.inner_index is None:
            done = self._assembler.feed(event)
            if done is not None:
                self._to(done)
            self._inside = not self._assembler.control
        return None if self._consume and self._inside else event

    def at_end(self) -> Outcome:
        """Give what has no end."""
        left = self._assembler.finish()
        if left is not None:
            self._to(left)
        return None
