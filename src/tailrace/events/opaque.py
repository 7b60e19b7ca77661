"""Events whose bodies are kept as they are: of types that are unknown, void or too old."""

from __future__ import annotations

from typing import ClassVar

from tailrace.constants import EventType
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


class IgnorableEvent(RawEvent, types=(EventType.IGNORABLE,)):
    """IGNORABLE (28): has no meaning; ``data`` is its body."""

    __slots__ = ()

    FIELDS = ()


class ObsoleteEvent(
    RawEvent,
    types=(
        EventType.START_V3,
        EventType.LOAD,
        EventType.SLAVE,
        EventType.CREATE_FILE,
        EventType.EXEC_LOAD,
        EventType.NEW_LOAD,
    ),
):
    """An event of MySQL before 5.0: only its name is known, and its bytes are kept."""

    __slots__ = ()
