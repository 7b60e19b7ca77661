"""When a receiver syncs what it wrote: by transaction, by group, or by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES: Final = 32 << 20
"""A group has no more: whoever waits for its acknowledgement is not to wait for ever."""
MOST_SECONDS: Final = 0.5
"""Nor does it take longer, while more and more arrives."""


@dataclass(frozen=True, slots=True)
class SyncPolicy:
    """``group``: all that arrived together is synced at once. ``transaction``: each by itself.
    ``time``: every ``seconds``, if something was written.
    """

    by: Literal["group", "transaction", "time"]
    seconds: float = MOST_SECONDS

    @classmethod
    def of(cls, given: str | float) -> Self:
        """``group``, ``transaction``, or seconds. Raises UsageError."""
        if given == "group":
            return cls("group")
        if given == "transaction":
            return cls("transaction")
        try:
            seconds = float(given)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= 86400:
            raise UsageError(
                f"sync: {given!r} is neither 'group' nor 'transaction', nor a number of seconds"
            )
        return cls("time", seconds)

    def is_due(self, waiting: Callable[[], bool], size: int, seconds: float) -> bool:
        """Whether ``size`` bytes, the first written so long ago, are to be synced now.

        ``waiting`` says whether more has arrived already. By ``transaction`` each is synced as it
        is written, and what is left is part of one.
        """
        if self.by == "transaction":
            return False
        if self.by == "time":
            return seconds >= self.seconds
        return size >= MOST_BYTES or seconds >= self.seconds or not waiting()
