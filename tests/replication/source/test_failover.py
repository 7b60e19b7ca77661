"""The source of a chain changes, and replicas that follow it by GTID notice nothing."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pymysql
import pytest

from tailrace.replication.receiver import Receiver
from tests.replication.conftest import url_of
from tests.replication.source.test_replicas import attach, status
from tests.waiting import DEADLINE, wait_for
from tests.wire.test_traffic import COMMON

pytestmark = pytest.mark.slow
RECONNECTS = {0, 1053, 2003, 2013}
UPDATES = {"mysql": {"log_replica_updates": True}, "mariadb": {"log_slave_updates": True}}


@contextmanager
def copied(source, folder):
    """A receiver of a source's logs, in a thread."""
    receiver = Receiver(url_of(source, "?start=oldest"), str(folder), follow=True)
    thread = threading.Thread(target=receiver.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: any(folder.glob("binlog.*[0-9]")))
        yield
    finally:
        receiver.stop(at_once=True)
        thread.join(DEADLINE)


def follow(server, source):
    """One server follows another directly, by GTID."""
    if server.flavour == "mysql":
        server.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port},"
            " SOURCE_USER='root', SOURCE_SSL=0, SOURCE_AUTO_POSITION=1"
        )
        server.execute("START REPLICA")
    else:
        server.execute(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={source.port},"
            " MASTER_USER='root', MASTER_SSL=0, MASTER_USE_GTID=slave_pos"
        )
        server.execute("START SLAVE")


def promote(server):
    """It follows nobody any more."""
    word = "REPLICA" if server.flavour == "mysql" else "SLAVE"
    server.execute(f"STOP {word}")
    server.execute(f"RESET {word} ALL")


def work(server, count):
    for number in range(count):
        server.execute("INSERT INTO shop.t (n) VALUES (%s), (%s)", (number, -number))


def equal(server, other):
    wanted = server.query("CHECKSUM TABLE shop.t")

    def same():
        shown = status(other)
        assert not shown["Last_SQL_Error"], shown["Last_SQL_Error"]
        assert int(shown["Last_IO_Errno"]) in RECONNECTS, shown["Last_IO_Error"]
        try:
            return other.query("CHECKSUM TABLE shop.t") == wanted
        except pymysql.Error:
            return False

    wait_for(same)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_replicas_by_gtid_notice_nothing_when_the_source_changes(
    fresh_server, serve, tmp_path, name
):
    """Issue 20, failover: source → tailrace → replica, and another source takes over."""
    flavour = name.partition("-")[0]
    options = COMMON[flavour] | UPDATES[flavour]
    first = fresh_server(name, options, server_id=1)
    second = fresh_server(name, options, server_id=2)
    replica = fresh_server(name, options, server_id=71)
    first.execute("CREATE DATABASE shop")
    first.execute("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, n INT) ENGINE=InnoDB")
    follow(second, first)
    with copied(first, tmp_path / "first"):
        server = serve(tmp_path / "first")
        attach(replica, server.port)
        work(first, 30)
        equal(first, second)
        equal(first, replica)
        first.kill()
        promote(second)
        work(second, 10)
    with copied(second, tmp_path / "second"):
        server.close()  # and at once, under the same port, server id and UUID:
        again = serve(tmp_path / "second", listen=f"127.0.0.1:{server.port}")
        work(second, 20)
        second.rotate()
        work(second, 20)
        equal(second, replica)
        running = "Replica_IO_Running" if flavour == "mysql" else "Slave_IO_Running"
        assert status(replica)[running] == "Yes"
        assert sum(each.transmit is not None for each in again.sessions) == 1
    word = "REPLICA" if flavour == "mysql" else "SLAVE"
    replica.execute(f"STOP {word}")
