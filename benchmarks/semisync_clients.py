"""Clients that commit as fast as a server lets them: python -m benchmarks.semisync_clients …

PORT CLIENTS SECONDS. Each inserts rows of one statement, committed by itself; the packet is made
beforehand and its answer's first byte looked at, so that clients cost next to nothing. Prints how
many commits returned, the seconds, and the median and the 99th percentile of the time that one
took, in microseconds.
"""

from __future__ import annotations

import select
import statistics
import sys
import time
from typing import TYPE_CHECKING

import pymysql

from tailrace.wire.packets import frame

if TYPE_CHECKING:
    import socket

_COM_QUERY = b"\x03"
STATEMENT = b"INSERT INTO bench.t (v) VALUES (REPEAT('x', 100))"


Commits = tuple[float, float, float]
"""Commits a second, and the median and the 99th percentile of their times, in microseconds."""


def said(took: list[float], seconds: float) -> str:
    """What is printed of commits that took so long each, in ``seconds`` altogether."""
    late = sorted(took)[len(took) * 99 // 100]
    return f"{len(took)} {seconds} {1e6 * statistics.median(took)} {1e6 * late}"


def main(port: int, clients: int, seconds: float) -> None:
    """Run them, and print."""
    connections = [
        pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)
        for _ in range(clients)
    ]
    packet = frame(_COM_QUERY + STATEMENT)
    sockets: dict[int, socket.socket] = {}
    sent: dict[int, float] = {}
    poll = select.epoll()
    for connection in connections:
        sock: socket.socket = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001
        sockets[sock.fileno()] = sock
        poll.register(sock, select.EPOLLIN)
    took: list[float] = []
    start = now = time.perf_counter()
    for number, sock in sockets.items():
        sent[number] = now
        sock.sendall(packet)
    while sent:
        for number, _ in poll.poll(60):
            answer = sockets[number].recv(4096)
            if len(answer) < 5 or answer[4]:
                raise RuntimeError(f"the server answered {answer!r}")
            now = time.perf_counter()
            took.append(now - sent.pop(number))
            if now - start < seconds:
                sent[number] = now
                sockets[number].sendall(packet)
    print(said(took, now - start))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
