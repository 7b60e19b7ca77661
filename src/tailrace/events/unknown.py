"""Events whose bodies are not decoded: of unknown types, and of types without content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.events.base import REQUIRED, Event
from tailrace.events.build import binary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription


class RawEvent(Event):
    """An event whose body is ``data``; nothing more is known about it."""

    __slots__ = ()

    FIELDS: ClassVar[tuple[str, ...]] = ("size",)
    MADE_OF: ClassVar[Mapping[str, Any]] = {"data": REQUIRED}

    def write_body(self, _form: FormatDescription, /) -> bytes:
        """The data."""
        return binary(self.data, "data")

    @property
    def data(self) -> bytes:
        """The body."""
        return self.body

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
