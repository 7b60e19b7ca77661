"""Events whose bodies are left as they are: of unknown types, and of types that say nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.events.base import REQUIRED, Event
from tailrace.events.build import binary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription


class RawEvent(Event):
    """An event whose body is ``data``, and no more is known of it."""

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
    """An event of a type that has no class: made of ``type`` and ``data``, passed on as it is.

    A context reads such types only where it is told to (``DecodeContext(unknown="opaque")``).
    """

    __slots__ = ()


class UnknownIgnorableEvent(OpaqueEvent):
    """One that the format itself lets a reader pass over. Whoever reads on counts it."""

    __slots__ = ()
