"""A server for the tests of a file, and what its receiver's folder must be like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace.replication.receiver import Receiver
from tests.live.certificates import Authority
from tests.storage.objects.conftest import bucket, s3_server  # noqa: F401 - fixtures
from tests.waiting import DEADLINE, ended, in_thread
from tools.servers import ONE_OF_EACH

if TYPE_CHECKING:
    from pathlib import Path

    from tools.servers import Server


def url_of(server, options=""):
    scheme = "mysql" if server.flavour == "mysql" else "mariadb"
    return f"{scheme}://root@127.0.0.1:{server.port}/{options}"


def run(source, folder, options="", **settings):
    """What a receiver has done that copies what is there."""
    return Receiver(url_of(source, options), folder, follow=False, **settings).run()


def rotate(server):
    """Go on in a new file, at rest."""
    server.rotate()
    server.settle()


def end_of(server):
    """File and size of the source's log now."""
    last = server.binlogs()[-1]
    return last.name, last.stat().st_size


def same(server, folder, first=0):
    """Whether the copy has the server's files from the number ``first`` on, byte by byte."""
    logs = server.binlogs()[first:]
    for log in logs:
        assert (folder / log.name).read_bytes() == log.read_bytes(), log.name
    listed = (server.data / "binlog.index").read_text().splitlines()[first:]
    assert (folder / "binlog.index").read_text().splitlines() == listed
    others = {"binlog.index", "receiver.json", "receiver.lock"}
    assert {path.name for path in folder.iterdir()} == others | {log.name for log in logs}


class Running:
    """A receiver in a thread."""

    def __init__(self, receiver):
        self.receiver = receiver
        self.run = in_thread(receiver.run)

    @property
    def error(self):
        return self.run.exception() if self.run.done() else None

    def has(self, server):
        """Whether the copy is where the source is."""
        place = self.receiver.position
        assert not self.error, self.error
        return place is not None and (place.file, place.offset) == end_of(server)

    def stop(self, **how):
        self.receiver.stop(**how)
        return ended(self.run)[0]


@pytest.fixture
def receiving():
    """receiving(server, folder, ...) runs a receiver in a thread; it ends with the test."""
    runs = []

    def start(server, folder, *, options="", **settings):
        runs.append(Running(Receiver(url_of(server, options), folder, follow=True, **settings)))
        return runs[-1]

    yield start
    for each in runs:
        each.receiver.stop(at_once=True)
        each.run.exception(DEADLINE)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "copy"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The authority's certificate, a server's and its key."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    return (authority.ca, *authority.issue("localhost", "localhost", "127.0.0.1"))


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def of_the_file(request, fresh_server) -> Server:
    """Each server in turn, one for the tests of the file."""
    made = fresh_server(request.param)
    made.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    made.execute("CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB) ENGINE=InnoDB")
    made.settle()
    return made


@pytest.fixture
def source(of_the_file) -> Server:
    """The file's server with a log of its own for each test: a copy of all there is is short."""
    rotate(of_the_file)
    of_the_file.execute(f"PURGE BINARY LOGS TO '{of_the_file.binlogs()[-1].name}'")
    return of_the_file


def insert(server, sizes):
    """A transaction for each size."""
    for size in sizes:
        server.execute("INSERT INTO d.t (b) VALUES (%s)", (b"x" * size,))
