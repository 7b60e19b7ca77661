"""A proxy that keeps what passes: what real replicas and tools say to real sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.wire.packets import payloads
from tools.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator


class Talk:
    """What was said on one connection."""

    def __init__(self) -> None:
        self.from_client = bytearray()
        self.from_server = bytearray()

    def commands(self) -> list[bytes]:
        """Payloads that begin a sequence: the client's commands and acknowledgements."""
        return [raw for sequence, raw in _whole(bytes(self.from_client)) if sequence == 0]

    def records(self) -> list[bytes]:
        """Payloads of the server that begin with an OK byte."""
        return [raw for _, raw in _whole(bytes(self.from_server)) if raw[:1] == b"\0"]


def _whole(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """The packets up to one that is still on its way."""
    at = 0
    while at + 4 <= len(raw) and at + 4 + int.from_bytes(raw[at : at + 3], "little") <= len(raw):
        at += 4 + int.from_bytes(raw[at : at + 3], "little")
    return payloads(raw[:at])


class Recorder(Proxy):
    """A `Talk` of each connection is in ``talks``."""

    def __init__(self, target: int) -> None:
        self.talks: list[Talk] = []
        super().__init__(target)

    def note(self, connection: int, piece: bytes, *, from_server: bool) -> None:
        if connection == len(self.talks):
            self.talks.append(Talk())
        talk = self.talks[connection]
        kept = talk.from_server if from_server else talk.from_client
        kept += piece
