"""All that can be done to a file that is being written, at random, and what it then holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tailrace.storage.streams.base import RandomOutput


def change(
    chance: random.Random, output: RandomOutput, wanted: bytearray, most: int, sizes: Sequence[int]
) -> None:
    """One cut, one update, or (in ``most`` - 2 of ``most`` cases) a write of one of these sizes, to
    the file and to the bytes that it then is to hold.
    """
    match chance.randrange(most):
        case 0:
            at = chance.randrange(len(wanted) + 1)
            del wanted[at:]
            output.truncate(at)
        case 1 if wanted:
            at = chance.randrange(len(wanted))
            data = chance.randbytes(min(chance.randrange(1, 50), len(wanted) - at))
            wanted[at : at + len(data)] = data
            output.update(at, data)
        case _:
            data = chance.randbytes(chance.choice(sizes))
            wanted += data
            output.write(data)
