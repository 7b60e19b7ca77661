"""Our identity for a source: server id and UUID, the same after each reconnection."""

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
"""The lowest server id that we choose: people and tools use small ones."""
_LAST: Final = (1 << 32) - 1


@dataclass(slots=True)
class Identity:
    """Server id and UUID of this reader. ``server_id`` None: the first session sets it.

    It takes the id that the source's options give, else a free one. An id that is set is ours
    already: a session does not check whether another replica has it.
    """

    server_id: int | None = None
    uuid: str = field(default_factory=lambda: str(uuid4()))


def reported_host() -> str:
    """The host name that this process registers: ``tailrace-PLACE-PID``.

    A source lists it as long as it takes the connection to be alive. From it, a restarted process
    knows that the connection was its predecessor's (`is_left_over`).
    """
    return f"tailrace-{_place()}-{os.getpid()}"


def is_left_over(host: str) -> bool:
    """Whether this host name is of a process of this machine and user that has ended."""
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
    """A hash of machine, user and the namespace of process ids, as 16 hex digits."""
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
