"""Who we are to a source: server id and UUID, kept over reconnections."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
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


def reported_host() -> str:
    """What this process registers as its host: ``tailrace-PLACE-PID``.

    A source keeps it as long as it takes the connection for one that lives, and so says to a
    process that is started again that the one before it was ours (`is_left_over`).
    """
    return f"tailrace-{_place()}-{os.getpid()}"


def is_left_over(host: str) -> bool:
    """Whether a replica of this host is a process of this machine and user that has ended."""
    name, _, rest = host.partition("-")
    place, _, number = rest.partition("-")
    if name != "tailrace" or place != _place() or not (number.isascii() and number.isdigit()):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _place() -> str:
    """Machine, user and the space in which process ids mean something, as 16 hex digits."""
    parts = [socket.gethostname(), str(getattr(os, "getuid", lambda: "")())]
    with suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text("ascii", "replace"))
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def free_server_id(taken: Container[int]) -> int:
    """A random server id of the upper half that is not among those taken."""
    while (chosen := _UPPER + secrets.randbelow(_LAST - _UPPER)) in taken:
        pass
    return chosen
