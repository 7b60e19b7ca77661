"""Servers that encrypt their logs: they send them in clear, so copies and our dumps are clear, too."""

import pytest

from tailrace.replication.receiver import Receiver
from tailrace.replication.source.series import ServedLogs
from tailrace.storage.keyring import open as open_keyring
from tests.replication.conftest import url_of
from tests.replication.source.dumping import asked, ours, shown, theirs
from tests.storage.encryption.conftest import plain, start, write_some
from tests.waiting import wait_for


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8 aes_ctr"])
def encrypting(request, tmp_path_factory):
    """A server that encrypts its logs, and its keyring."""
    server, keyring = start(request.param, tmp_path_factory.mktemp("server"))
    write_some(server)
    server.rotate()
    server.execute("INSERT INTO d.t VALUES (2000000, 'last', 'x')")
    server.settle()
    yield server, keyring
    server.stop()


def test_the_plain_bytes_are_the_source_s(encrypting, tmp_path):
    server, keyring = encrypting
    ring = open_keyring(keyring)
    for _ in range(2):
        Receiver(url_of(server), tmp_path, follow=False).run()
        server.execute("INSERT INTO d.t (id, a) SELECT MAX(id) + 1, 'more' FROM d.t")

    def is_as_the_source_s():  # MariaDB at rest still writes a BINLOG_CHECKPOINT
        Receiver(url_of(server), tmp_path, follow=False).run()
        logs = server.binlogs()
        return all((tmp_path / log.name).read_bytes() == plain(log, ring) for log in logs)

    wait_for(is_as_the_source_s)


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
