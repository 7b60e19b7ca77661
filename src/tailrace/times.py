"""Times in logs: microseconds UTC since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Time:
    """A time in a log: microseconds UTC."""

    microseconds: int

    @classmethod
    def of(cls, moment: datetime) -> Self:
        """The time of a datetime that has a zone."""
        return cls((moment - _EPOCH) // timedelta(microseconds=1))

    def __str__(self) -> str:
        return (_EPOCH + timedelta(microseconds=self.microseconds)).isoformat()


def time_text(microseconds: int) -> str:
    """UTC, with microseconds if there are any."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # no real clock shows such a time
        return f"{microseconds} µs"
    return moment.isoformat(" ").removesuffix("+00:00")
