"""Resuming after a break: the pauses, and checks that it is still the same log. No I/O."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tailrace.errors import LogReset

if TYPE_CHECKING:
    from tailrace.live.chunks import Expected

LONGEST_PAUSE: Final = 30.0
_FIRST_PAUSE: Final = 0.2
U32_END: Final = 1 << 32
"""A dump can be requested only from offsets below this."""


class Pauses:
    """How long to wait before each attempt to connect: first not at all, then longer each time.

    Each pause is twice the one before, up to `LONGEST_PAUSE`, less a random part of up to a half,
    so that many readers of a restarted server do not reconnect at once. Call `reset` when data has
    come.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def reset(self) -> None:
        """The next attempt is made at once."""
        self._next = 0.0

    def next(self) -> float:
        """Seconds before the next attempt."""
        pause = self._next
        self._next = min(max(2 * pause, _FIRST_PAUSE), LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1)  # noqa: S311 - no secret


def stamp(description: bytes) -> bytes:
    """The part of a format description event that does not depend on how it is sent.

    It is all but ``log_pos``, flags, ``created`` and the checksum, which senders change (facts
    sheet 4.7): the second in which the file was created, the server, its version.
    """
    return description[:13] + description[19:71] + description[75:-4]


def check_same_file(before: bytes, now: bytes, file: str, source: str) -> None:
    """Raise LogReset where two format description events are not of the same file."""
    if stamp(before) != stamp(now):
        raise LogReset(
            f"{source}: {file} is not the file that was read before: its logs were reset or"
            " replaced. Copy the data again"
        )


def check_same_server(expected: Expected, uuid: str | None, source: str) -> None:
    """Raise LogReset where another server answers."""
    if expected.uuid is not None and uuid is not None and expected.uuid != uuid:
        raise LogReset(
            f"{source} has the server UUID {uuid}, but its logs were read from {expected.uuid}"
            " before: another server answers, and its positions differ. Resume by GTID, or copy the"
            " data again"
        )
