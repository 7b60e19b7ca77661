"""Rows events in the making, as a transaction's cache holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.constants import HEADER_SIZE, RowsFlag

_FLAGS_AT: Final = HEADER_SIZE + 6


@dataclass(slots=True)
class RowsChunk:
    """Whole rows events in cache form; ``last`` is where the last of them begins."""

    data: bytearray | memoryview
    count: int
    last: int

    def end_statement(self) -> None:
        """Mark the last event as the statement's last."""
        self.data[self.last + _FLAGS_AT] |= RowsFlag.STMT_END
