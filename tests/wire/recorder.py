"""A TCP forwarder that keeps what passes: what real replicas and tools say to real sources."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from tailrace.wire.packets import payloads

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


class Recorder:
    """Listens on ``port`` and forwards to a server's; a `Talk` of each connection in ``talks``."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.talks: list[Talk] = []

    def __enter__(self) -> Self:
        self._start(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(60)

    def _start(self, run, *given) -> None:
        thread = threading.Thread(target=run, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        with suppress(OSError):  # of the closed listener
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                talk = Talk()
                self.talks.append(talk)
                self._start(self._pass_on, client, server, talk.from_client)
                self._start(self._pass_on, server, client, talk.from_server)

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                kept += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
