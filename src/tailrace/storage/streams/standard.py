"""Standard input, and whatever else comes through a pipe."""

from __future__ import annotations

import os
import sys

from tailrace.storage.streams.base import told
from tailrace.storage.streams.forward import ForwardInput


class _Pipe:
    def __init__(self, handle: int, name: str) -> None:
        self._handle = handle
        self._name = name

    def read(self, count: int, /) -> bytes:
        with told(self._name):
            return os.read(self._handle, count)


class StandardInput(ForwardInput):
    """A pipe's bytes, as they come; of a handle given, or this process's own. It is left open."""

    name = "standard input"

    def __init__(self, handle: int | None = None) -> None:
        handle = sys.stdin.fileno() if handle is None else handle
        super().__init__(_Pipe(handle, self.name))
