"""Where transactions end in a log that arrives in chunks.

A GTID event begins a transaction, so everything before it is complete. Only the events after the
last GTID event in a chunk have to be decoded, and only if the end of a transaction is asked for.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tailrace.constants import GTID_TYPES
from tailrace.errors import LogError
from tailrace.events import DecodeContext, GtidEvent, MariadbGtidEvent
from tailrace.events.walk import event_length
from tailrace.transactions import Boundary, BoundaryParser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.events import FormatDescription

_log: Final = logging.getLogger("tailrace.receiver")
_TYPE_AT: Final = 4
_ENDS: Final = frozenset({Boundary.END, Boundary.OUTSIDE})


class TransactionEnds:
    """Finds transactions in one file after another: `begin` each, then `note` or `cut` its chunks.

    ``begun`` is the offset in the file at which the last transaction begins: its GTID event, or the
    first event in a log without GTID events.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._name = ""
        self._gtid = b""
        self._parser = BoundaryParser()
        self._context = DecodeContext(unknown="opaque")

    def begin(self, name: str, form: FormatDescription, begun: int) -> None:
        """A file begins or is resumed; its last transaction begins at ``begun``."""
        self._name = name
        self.begun = begun
        self._parser = BoundaryParser()
        self._context = DecodeContext(form, form.checksum_algorithm, unknown="opaque")

    @property
    def inside(self) -> bool:
        """Whether the events fed to `cut` and `feed` end inside a transaction."""
        return self._parser.inside

    @property
    def gtid(self) -> str | None:
        """The last GTID that was seen; None if the log has none."""
        if not self._gtid:
            return None
        try:
            event = self._context.decode(self._gtid, verify_checksum=False)
            found = event.gtid if isinstance(event, (GtidEvent, MariadbGtidEvent)) else None
        except LogError:  # it is copied unchanged; readers of the copy get the error
            return None
        return None if found is None else str(found)

    def note(self, offset: int, data: memoryview, starts: Sequence[int]) -> None:
        """Look for the last GTID event of a chunk, at ``offset`` of the file, and no further."""
        for start in reversed(starts):
            if data[start + _TYPE_AT] in GTID_TYPES:
                self._begins(offset, data, start)
                return

    def cut(self, offset: int, data: memoryview, starts: Sequence[int]) -> list[int]:
        """Offsets in a chunk at which a transaction has ended, ascending."""
        groups = [start for start in starts if data[start + _TYPE_AT] in GTID_TYPES]
        ends = [start for start in groups if start]
        first = 0
        if groups:
            first = groups[-1]
            self._begins(offset, data, first)
            self._parser = BoundaryParser()
        for start in starts:
            if start >= first:
                end = start + event_length(data, start)
                if self.feed(data[start:end], offset + start):
                    ends.append(end)
        return ends

    def feed(self, raw: bytes | memoryview, offset: int) -> bool:
        """Feed one event; whether it ends a transaction, or is outside of any.

        True also for an event that cannot be decoded: a copy of bytes can end anywhere, and its
        receiver does not reject them.
        """
        try:
            event = self._context.decode(raw, file=self._name, offset=offset, verify_checksum=False)
            return self._parser.feed(event) in _ENDS
        except LogError as error:
            self._parser = BoundaryParser()
            _log.warning("the end of a transaction could not be determined: %s", error)
            return True

    def go_over(self, events: Iterable[tuple[int, bytes]]) -> None:
        """Feed the events from ``begun`` on up to where `cut` will resume: (offset, bytes)."""
        self._parser = BoundaryParser()
        for offset, raw in events:
            self.feed(raw, offset)

    def _begins(self, offset: int, data: memoryview, start: int) -> None:
        self.begun = offset + start
        self._gtid = bytes(data[start : start + event_length(data, start)])
