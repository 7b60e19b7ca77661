"""Addresses to listen at: what ``HOST:PORT`` means, and the socket there."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


def address_of(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[IPV6]:PORT`` or ``*:PORT`` (all addresses).

    Raises UsageError.
    """
    if not isinstance(text, str):
        raise UsageError(f"the address to listen at is the text HOST:PORT, not {text!r}")
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    plain = not text.startswith("[")
    if not colon or not host or (plain and ":" in host) or not port.isascii() or not port.isdigit():
        raise UsageError(f"the address to listen at is HOST:PORT, not {text[:80]!r}")
    if int(port) > 65535:
        raise UsageError(f"a port is at most 65535, not {port[:20]}")
    return "" if host == "*" else host, int(port)


def check_host(host: str, port: int) -> None:
    """Raise UsageError for a host that is no address and cannot be resolved."""
    with _listens(host, port):
        _resolved(host, port)


def listening(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens there; without a host at all addresses of both families.

    Port 0 is a free one; ``backlog`` is how many clients may wait. Raises UsageError.
    """
    with _listens(host, port):
        family, address = _resolved(host, port)
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
            )
        return socket.create_server(address, family=family, backlog=backlog)


@contextmanager
def _listens(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot listen at {host or '*'}:{port}: {reason}") from error


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return found[0][0], found[0][4]
