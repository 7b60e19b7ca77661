"""An event of a type that is not known, but that its header marks as ignorable."""

from __future__ import annotations

from tailrace.events.base import Event


class UnknownIgnorableEvent(Event):
    """An event that the format itself lets a reader pass over. Whoever reads on counts it."""

    __slots__ = ()

    FIELDS = ("size",)

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body)
