"""The claim of the one process that writes to a lake, and the end of the claim before it.

A claim (`storage.objects.claims`) describes its process. Where that runs on this host, nobody else
can write to the lake. If it has ended, was stopped (SIGSTOP) or is on another host, the next
process takes the lake over. Nothing depends on the answer but who may try: a process that was taken
over notices it after its next put, before it does anything else (docs/design/lake.md).
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import LakeTakenOver, PipelineError, StorageError
from tailrace.storage.objects import claims
from tailrace.storage.objects.bucket import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.storage.objects.bucket import Objects

FOLDER: Final = "claims"
_TRIES: Final = 20
_LARGEST: Final = 4096
"""Bytes of a token."""
_OWNER: Final = re.compile(rf"{claims.OWNER}([0-9]{{10}})")
_RELEASED: Final = re.compile(r"released-([0-9]{10})")
"""What a process leaves when it ends: the next generation is higher."""
_OPEN: Final[set[bytes]] = set()
"""The tokens of the claims that this process holds."""
_log: Final = logging.getLogger("tailrace.spark")


class Claim:
    """A process's claim to a lake, which is called ``lake``. Raises `PipelineError`."""

    def __init__(self, objects: Objects, lake: str) -> None:
        self._objects = objects
        self._lake = lake
        self._token = b""
        self.generation = 0
        """The number of the claim; 0 without one."""
        self.rival: tuple[int, bytes] | None = None
        """The claim of a process that had the lake before, if that may still run."""

    def take(self) -> None:
        """Claim the lake, and end the claims of processes that do not write to it any more."""
        tried: list[bytes] = []
        try:
            with self._storage_errors():
                for _ in range(_TRIES):
                    before, released = self._owners(), self._released()  # `release`, reversed
                    self.rival = None
                    for generation, token in before.items():
                        self._check_ended(generation, token)
                    self._token = _token(self.rival)
                    generation = claims.next_generation(max([*before, *released], default=0))
                    tried.append(self._token)
                    _OPEN.add(self._token)  # other threads see at once whose it is
                    if not claims.take(self._objects, FOLDER, generation, self._token):
                        continue
                    if self._owners().keys() == {*before, generation}:
                        break
                    claims.release(self._objects, FOLDER, [generation])  # others came meanwhile
                else:
                    raise PipelineError(
                        f"other processes keep claiming the lake {self._lake}: run again"
                    )
                claims.release(self._objects, FOLDER, before)
                if released:
                    self._objects.remove(*(_released_key(each) for each in released))
                self.generation = generation
        finally:
            _OPEN.difference_update(tried[:-1] if self.generation else tried)
        for each in before.items():
            may_run = self.rival == each
            _log.log(
                logging.WARNING if may_run else logging.INFO,
                "%s: taking over from another process (%s), which %s",
                *(self._lake, _called(*each)),
                "is stopped or on another host" if may_run else "has ended",
            )

    def check(self) -> None:
        """Raise `PipelineError` if another process has taken over the lake. One request."""
        with self._storage_errors():
            if claims.owns(self._objects, FOLDER, self.generation, self._token):
                return
            owners = self._owners()
        latest = max(owners, default=0)
        by = _called(latest, owners[latest]) if owners else "and has since ended"
        raise LakeTakenOver(
            f"another process has taken over the lake {self._lake} ({by}). This process, with"
            f" generation {self.generation}, stops; its uncommitted work is discarded"
        )

    def release(self) -> None:
        """Let others claim the lake.

        With a `rival` the claim stays, as that of a process that has ended: the next has it, too.
        """
        _OPEN.discard(self._token)
        generation, self.generation = self.generation, 0
        with self._storage_errors():
            if not self.rival and claims.owns(self._objects, FOLDER, generation, self._token):
                self._objects.put(_released_key(generation), b"")
                claims.release(self._objects, FOLDER, [generation])

    def _owners(self) -> dict[int, bytes]:
        """The tokens of all claims."""
        found = {}
        for name in self._objects.list(FOLDER).objects:
            if match := _OWNER.fullmatch(name):
                with suppress(NoSuchObject):  # it was released meanwhile
                    found[int(match[1])] = bytes(
                        self._objects.read(f"{FOLDER}/{name}", 0, _LARGEST)[0]
                    )
        return found

    def _released(self) -> list[int]:
        """The generations of processes that have ended."""
        names = self._objects.list(FOLDER).objects
        return [int(match[1]) for name in names if (match := _RELEASED.fullmatch(name))]

    def _check_ended(self, generation: int, token: bytes) -> None:
        """Raise `PipelineError` if a claim's process runs; it is a rival if that is not known."""
        runs = _runs(token, is_open=token in _OPEN)
        if runs:
            raise PipelineError(
                f"{self._lake} is being written to by another process "
                f"({_called(generation, token)}): stop it, or wait for it to end"
            )
        if runs is None:
            self.rival = generation, token
        elif (rival := _rival_of(token)) and _runs(rival[1], is_open=False) is not False:
            self.rival = rival  # its owner may have ended before it had ended the rival's batch

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            raise PipelineError(f"cannot claim the lake {self._lake}: {error}") from error


def _token(rival: tuple[int, bytes] | None) -> bytes:
    """A token of this process, with the claim of its rival."""
    what = _process() | {"token": token_hex(8)}
    if rival is not None:
        known = {name: each for name, each in _parsed(rival[1]).items() if name != "rival"}
        what["rival"] = [rival[0], json.dumps(known)]
    return json.dumps(what).encode()


def _rival_of(token: bytes) -> tuple[int, bytes] | None:
    """The claim of the rival of a token's process."""
    try:
        number, text = _parsed(token)["rival"]
        return int(number), str(text).encode()
    except (KeyError, TypeError, ValueError):
        return None


def _released_key(generation: int) -> str:
    return f"{FOLDER}/released-{generation:010}"


def _process() -> dict[str, Any]:
    """What a claim says of the process that has it."""
    system, started = "", ""
    with suppress(OSError):  # no Linux
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        system = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
        started = _state(os.getpid())[1]
    return {"host": socket.gethostname(), "pid": os.getpid(), "system": system, "started": started}


def _state(pid: int) -> tuple[str, str]:
    """A process's state, one letter, and when it was started. Raises OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return fields[0], fields[19]


def _runs(token: bytes, *, is_open: bool) -> bool | None:
    """Whether the process of a claim runs; None if it was stopped, or that cannot be known here."""
    known = _parsed(token)
    ours = _process()
    if not ours["system"] or known.get("system") != ours["system"]:
        return None
    pid = known["pid"]
    if pid == ours["pid"] and known.get("started") == ours["started"]:
        return is_open
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    try:
        state, started = _state(pid)
    except OSError:
        return True
    if started != known.get("started") or state in "ZX":
        return False
    return None if state in "Tt" else True


def _parsed(token: bytes) -> dict[str, Any]:
    """What a token says; nothing where it is damaged."""
    try:
        found = json.loads(token)
        return found if type(found["pid"]) is int and found["pid"] > 0 else {}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _called(generation: int, token: bytes) -> str:
    """A claim in a message."""
    known = _parsed(token)
    host = str(known.get("host", "unknown"))[:100]
    return f"generation {generation}, host {host}, pid {known.get('pid', 'unknown')}"
