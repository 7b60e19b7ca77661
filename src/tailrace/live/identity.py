"""Who we are to a source: server id and UUID, kept over reconnections."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Container

_UPPER: Final = 1 << 31
"""Server ids from here on are ours to choose: people and tools take small ones."""
_LAST: Final = (1 << 32) - 1


@dataclass(slots=True)
class Identity:
    """``server_id`` None: the first session chooses one that is free, or takes the one given.

    One that is there is ours from before: a session does not ask who else may have it.
    """

    server_id: int | None = None
    uuid: str = field(default_factory=lambda: str(uuid4()))


def free_server_id(taken: Container[int]) -> int:
    """A random server id of the upper half that is not among those taken."""
    while (chosen := _UPPER + secrets.randbelow(_LAST - _UPPER)) in taken:
        pass
    return chosen
