"""When a receiver syncs what it wrote: by transaction, by group, or by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES: Final = 32 << 20
"""The most bytes of a group, so that the wait for its acknowledgement is limited."""
MOST_SECONDS: Final = 0.5
"""The longest time of a group, even if more and more arrives."""


@dataclass(frozen=True, slots=True)
class SyncPolicy:
    """``group``: everything that arrived together is synced at once. ``transaction``: each
    transaction is synced separately. ``time``: every ``seconds``, if something was written.
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
        """Whether ``size`` bytes, the first written ``seconds`` ago, have to be synced now.

        ``waiting`` says whether more has arrived already. By ``transaction``, each transaction is
        synced as it is written, and the rest is a part of one.
        """
        if self.by == "transaction":
            return False
        if self.by == "time":
            return seconds >= self.seconds
        return size >= MOST_BYTES or seconds >= self.seconds or not waiting()
