"""The proxy that connections are broken with, against a plain echoing server."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.waiting import DEADLINE
from tools.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that gives back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):
            while piece := connection.recv(1 << 16):
                connection.sendall(piece)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), DEADLINE)


def _read(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (piece := connection.recv(1 << 20)):
        found += piece
    return found


def test_it_passes_bytes_both_ways_and_fins(echo: int) -> None:
    data = bytes(range(256)) * 40_000
    with Proxy(echo) as proxy, _connect(proxy) as client:
        sender = threading.Thread(target=lambda: client.sendall(data))
        sender.start()
        assert _read(client, len(data)) == data
        sender.join()
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        assert proxy.counts.from_client == proxy.counts.from_server == len(data)


def test_cut_resets_or_ends_all_connections(echo: int) -> None:
    with Proxy(lambda: echo) as proxy:
        with _connect(proxy) as first, _connect(proxy) as second:
            for client in (first, second):
                client.sendall(b"here")
                assert _read(client, 4) == b"here"
            assert proxy.cut() == 2
            for client in (first, second):
                with pytest.raises(ConnectionResetError):
                    client.recv(1)
        with _connect(proxy) as client:
            client.sendall(b"anew")
            assert _read(client, 4) == b"anew"
            assert proxy.cut(reset=False) == 1
            assert client.recv(1) == b""
        assert proxy.counts.cuts == 3


def test_cut_after_lets_that_many_bytes_pass(echo: int) -> None:
    data = bytes(range(256)) * 4_000
    with Proxy(echo) as proxy, _connect(proxy) as client:
        done = proxy.cut_after(700_001)
        sender = threading.Thread(target=lambda: _send(client, data))
        sender.start()
        found = b""
        with suppress(ConnectionResetError):  # what we still send is answered so
            while piece := client.recv(1 << 20):
                found += piece
        assert found == data[:700_001]
        assert done.wait(DEADLINE)
        sender.join()


def _send(client: socket.socket, data: bytes) -> None:
    with suppress(ConnectionError):
        client.sendall(data)


def test_stall_keeps_connections_and_passes_nothing_until_it_goes_on(echo: int) -> None:
    with Proxy(echo) as proxy, _connect(proxy) as held:
        held.sendall(b"1")
        assert _read(held, 1) == b"1"
        assert proxy.stall() == 1
        held.sendall(b"held")
        with _connect(proxy) as fresh:
            fresh.sendall(b"free")
            assert _read(fresh, 4) == b"free"
            proxy.stall(new=True)
            with _connect(proxy) as late:
                late.sendall(b"late")
                for silent in (held, fresh, late):
                    silent.settimeout(0.05)
                    with pytest.raises(TimeoutError):
                        silent.recv(1)
                    silent.settimeout(DEADLINE)
                proxy.go_on()
                assert _read(held, 4) == b"held"
                assert _read(late, 4) == b"late"


def test_refuse_resets_connections_until_it_goes_on(echo: int) -> None:
    with Proxy(echo) as proxy:
        proxy.refuse()
        with pytest.raises(ConnectionResetError), _connect(proxy) as client:
            client.recv(1)
        proxy.go_on()
        with _connect(proxy) as client:
            client.sendall(b"back")
            assert _read(client, 4) == b"back"
        assert proxy.counts.refused == 1


def test_close_ends_all_and_may_be_called_again(echo: int) -> None:
    proxy = Proxy(echo)
    with _connect(proxy) as client:
        proxy.close()
        proxy.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        _connect(proxy)
    with pytest.raises(RuntimeError):
        proxy.cut()
