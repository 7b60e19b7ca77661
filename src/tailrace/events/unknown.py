"""Events whose bodies are not decoded: of unknown types, and of types without content."""

from __future__ import annotations

from typing import ClassVar

from tailrace.events.base import Event
from tailrace.events.layout import tail


class RawEvent(Event):
    """An event whose body is ``data``; nothing more is known about it."""

    FIELDS: ClassVar[tuple[str, ...]] = ("size",)

    data: bytes = tail()

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body)


class OpaqueEvent(RawEvent):
    """An event of a type without a class: made of ``type`` and ``data``, passed on unchanged.

    A context decodes such types only on request (``DecodeContext(unknown="opaque")``).
    """

    __slots__ = ()


class UnknownIgnorableEvent(OpaqueEvent):
    """An unknown event that the format allows a reader to skip. The reader counts it."""

    __slots__ = ()
