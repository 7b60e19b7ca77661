"""The data that is written to a stream under test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

_SIZES: Final = (1, 2, 3, 5, 15, 16, 17, 100, 511, 512, 513, 4095, 4096, 4097, 9001)


def _any_bytes(chance: Random) -> list[bytes]:
    pieces = []
    for _ in range(chance.randint(1, 30)):
        size = chance.choice(_SIZES)
        pieces.append(chance.choice((bytes(size), chance.randbytes(size))))
    return pieces


@dataclass(frozen=True, slots=True)
class Content:
    """Makes the pieces that a stream is given, one for each `write`.

    ``free``: the stream accepts any bytes, and any part of them can be read, changed and cut off.
    Otherwise it accepts only whole pieces of this kind: reading and cuts start at the start of a
    piece, and nothing is changed.
    """

    pieces: Callable[[Random], list[bytes]]
    free: bool = True

    def starts(self, pieces: list[bytes]) -> list[int]:
        """The offsets where reading may begin."""
        ends = [0]
        for piece in pieces:
            ends.append(ends[-1] + len(piece))
        return list(range(ends[-1] + 1)) if self.free else ends


ANY_BYTES: Final = Content(_any_bytes)
