"""A receiver's progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.position import Position


@dataclass(frozen=True, slots=True)
class Progress:
    """``position`` is where the copy ends, ``gtid`` the last transaction in it.

    ``received`` counts bytes since the receiver started, ``seconds`` is the time since then.
    ``rate`` is in bytes a second since the last report; in the final report (``done``), over the
    whole time. ``lag_bytes`` and ``lag_seconds`` say how far the source is ahead, None if that is
    unknown.
    """

    name: str
    position: Position | None
    gtid: str | None
    received: int
    seconds: float
    rate: float
    lag_bytes: int | None
    lag_seconds: float | None
    reconnects: int = 0
    connected: bool = True
    done: bool = False
