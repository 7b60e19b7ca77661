"""Events with a fixed part whose size is in the format description (facts sheet 1.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.errors import EventEncodeError, LogError
from tailrace.events.base import Event
from tailrace.events.build import Builder, binary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.events.description import FormatDescription
    from tailrace.events.fields import Cursor


class FixedPartEvent(Event):
    """An event whose fixed part may be longer than the known one, if a newer server wrote it.

    ``fixed_rest`` holds the bytes after the known part; no server writes any yet. For `make`, it
    has
    the length that the format says, and is zeros by default.
    """

    __slots__ = ("fixed_rest",)

    MADE_OF: ClassVar[Mapping[str, Any]] = {"fixed_rest": b""}

    fixed_rest: bytes

    def _read_rest(self, cursor: Cursor, form: FormatDescription) -> None:
        """Take it at the cursor's position. Raises EventDecodeError."""
        extra = form.extra_post_header(self.header.type) if form.differs else 0
        self.fixed_rest = cursor.take(extra, "the post-header") if extra else b""

    def _write_rest(self, out: Builder, form: FormatDescription) -> None:
        """Write it. Raises EventEncodeError."""
        try:
            extra = form.extra_post_header(self.header.type) if form.differs else 0
        except LogError as error:
            raise EventEncodeError(f"form: {error.message}") from None
        rest = binary(self.fixed_rest, "fixed_rest")
        if rest and len(rest) != extra:
            raise EventEncodeError(f"fixed_rest: {len(rest)} bytes where the form has {extra}")
        out.raw(rest or bytes(extra), "fixed_rest")
