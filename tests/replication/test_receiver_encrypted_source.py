"""Copies of servers that encrypt their logs: they send them in clear, and so the copy is."""

from __future__ import annotations

from contextlib import closing

import pytest

import tailrace
from tailrace.replication.receiver import Receiver
from tailrace.storage.file import LogFile
from tailrace.storage.keyring import make
from tailrace.storage.keyring import open as open_keyring
from tests.replication.conftest import url_of
from tests.storage.encryption.conftest import KINDS, start, write_some
from tests.waiting import wait_for


@pytest.fixture(scope="module", params=KINDS)
def encrypting(request, tmp_path_factory):
    """A server that encrypts its logs, and its keyring."""
    server, keyring = start(request.param, tmp_path_factory.mktemp("server"))
    write_some(server)
    server.rotate()
    server.execute("INSERT INTO d.t VALUES (2000000, 'last', 'x')")
    yield server, keyring
    server.stop()


def plain(path, keyring):
    """What the log of an encrypting server holds."""
    file = LogFile.at(path, open_keyring(keyring))
    with closing(file.open()) as stream:
        raw = b""
        while piece := stream.read(1 << 20):
            raw += piece
    return raw


@pytest.mark.parametrize("encrypt", [False, True])
def test_the_plain_bytes_are_the_source_s(encrypting, tmp_path, encrypt):
    server, keyring = encrypting
    settings = {}
    if encrypt:
        settings = {"encrypt": True, "keyring": make(tmp_path / "keys", "copy").path}
    for _ in range(2):
        Receiver(url_of(server), tmp_path / "copy", follow=False, **settings).run()
        server.execute("INSERT INTO d.t (id, a) SELECT MAX(id) + 1, 'more' FROM d.t")

    def found(log):
        copied = tmp_path / "copy" / log.name
        return plain(copied, settings["keyring"]) if encrypt else copied.read_bytes()

    def is_as_the_source_s():  # MariaDB at rest still writes a BINLOG_CHECKPOINT
        Receiver(url_of(server), tmp_path / "copy", follow=False, **settings).run()
        return all(found(log) == plain(log, keyring) for log in server.binlogs())

    wait_for(is_as_the_source_s)
    for log in server.binlogs():
        copied = tmp_path / "copy" / log.name
        events = tailrace.open(str(copied), keyring=settings.get("keyring"))
        assert b"\xfebin" + b"".join(event.encode() for event in events) == found(log)
