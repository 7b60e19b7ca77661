"""Encrypted logs of both flavours: the dump is in clear, as their servers send it."""

from __future__ import annotations

import pytest

from tailrace.replication.source.series import ServedLogs
from tests.replication.source.dumping import asked, ours, shown, theirs
from tests.storage.encryption.conftest import KINDS, start, write_some


@pytest.fixture(scope="module", params=KINDS)
def encrypting(request, tmp_path_factory):
    server, keyring = start(request.param, tmp_path_factory.mktemp("server"))
    write_some(server)
    server.rotate()
    server.execute("INSERT INTO d.t VALUES (2000000, 'last', 'x')")
    server.settle()
    yield server, keyring
    server.stop()


def test_encrypted_logs_are_sent_as_their_server_sends_them(encrypting):
    server, keyring = encrypting
    logs = ServedLogs(server.data, keyring=keyring)
    second = server.binlogs()[-1].name
    flags = 3 if server.flavour == "mariadb" else 1
    for request in (asked(flags=flags), asked(file=second, flags=flags)):
        expected = theirs(server, request)
        got = ours(logs, request, server_id=server.server_id)
        assert shown(got) == shown(expected)
        assert got == expected
    events = theirs(server, asked(file=second, flags=flags))
    end = int.from_bytes(events[6][14:18], "little")
    middle = asked(file=second, position=end, flags=flags)
    assert ours(logs, middle, server_id=server.server_id) == theirs(server, middle)
    logs.close()
