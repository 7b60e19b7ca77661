"""What clients cost: one that has not logged in no thread, and at most 64 KiB of memory; those that
have, together, what `Limits.packets` says.

``python -m tools.campaign logins --size full`` tries a million connections.
"""

import socket
import ssl
from contextlib import ExitStack, suppress

import pymysql
import pytest

from tailrace.wire.handshake import Capability, TlsRequest
from tailrace.wire.packets import LARGEST, frame
from tests.waiting import DEADLINE, wait_for
from tools.campaign import logins
from tools.campaign.logins import PASSWORD, Served

pytestmark = pytest.mark.slow
COUNT = 200
HEAD = (31 << 10).to_bytes(3, "little")
"""Of the largest packet that is read, which then does not become complete."""


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_a_client_that_has_not_logged_in_holds_no_thread_and_at_most_64_kib(
    tmp_path, certificate, encrypted
):
    authority, cert, key = certificate
    served = Served(tmp_path, seconds=DEADLINE, cert=cert, key=key)
    context = ssl.create_default_context(cafile=authority)
    request = frame(TlsRequest(int(Capability.SSL | Capability.PROTOCOL_41)).encode(), 1)
    with ExitStack() as stack:
        stack.callback(served.close)

        def attach(count):
            for _ in range(count):
                sock = socket.create_connection(("127.0.0.1", served.port), DEADLINE)
                stack.callback(sock.close)
                sock.recv(1000)
                if encrypted:
                    sock.sendall(request)
                    sock = context.wrap_socket(sock, server_hostname="localhost")
                    stack.callback(sock.close)
                number = 2 if encrypted else 1
                sock.sendall(HEAD + bytes([number]) + bytes(30 << 10))

        attach(20)  # what the first ones need once
        wait_for(lambda: served.figure()[2] == 20)
        size, threads, _ = served.figure()
        attach(COUNT)
        wait_for(lambda: served.figure()[2] == 20 + COUNT)
        grown, now, _ = served.figure()
        assert now == threads
        assert (grown - size) / COUNT < 64 << 10


def test_mutated_logins_are_rejected_cleanly_and_harm_nobody():
    report = logins.run(logins.SIZES["small"], seed=20)
    assert not report.failures
    assert report.tried == logins.SIZES["small"]
    assert report.dumps > 1
    outcomes = report.outcomes
    assert outcomes["error 1043"] > 100
    assert sum(number for what, number in outcomes.items() if what.startswith("logged in")) > 50


def test_all_clients_that_have_logged_in_share_one_limit(tmp_path):
    """Each may send a large packet, which then does not become complete."""
    served = Served(tmp_path, seconds=DEADLINE)
    piece = b"\xff\xff\xff\0" + bytes(LARGEST)
    account = {"host": "127.0.0.1", "user": "mysql_native_password", "password": PASSWORD}
    with ExitStack() as stack:
        stack.callback(served.close)

        def attach():
            client = pymysql.connect(port=served.port, **account)
            stack.callback(client._force_close)
            return client._sock

        first = attach()
        size, _, _ = served.figure()
        first.sendall(piece * 3)
        for _ in range(7):
            with suppress(OSError):  # it is the one that is disconnected
                attach().sendall(piece * 3)
        wait_for(lambda: served.figure()[2] < 8)
        assert served.figure()[0] - size < 200 << 20
        with pymysql.connect(port=served.port, **account) as client:
            client.ping(reconnect=False)
