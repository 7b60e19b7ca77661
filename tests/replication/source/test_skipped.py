"""What replicas ask a source to leave out: by name rejected, or without effect, as with a server."""

import pytest

from tailrace.wire.commands import DumpFlag
from tests.replication.source.test_replicas import attach, errors
from tests.waiting import wait_for
from tests.wire.test_traffic import COMMON

pytestmark = pytest.mark.slow


def test_mariadb_replicas_filter_events_that_are_marked_for_skipping(serve, fresh_server):
    """``SET skip_replication=1`` is error 1193, as of old servers: the replica leaves them out."""
    name = "mariadb-11.8"
    primary = fresh_server(name, server_id=1)
    primary.execute("CREATE DATABASE shop")
    primary.execute("CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=InnoDB")
    for number in range(6):
        primary.execute(f"SET skip_replication = {number % 2}")
        primary.execute(f"INSERT INTO shop.t VALUES ({number})")
    primary.execute("SET skip_replication = 0")
    primary.execute("CREATE DATABASE done")
    primary.execute("CREATE USER repl IDENTIFIED BY 'gehaim'")
    primary.execute("GRANT REPLICATION SLAVE ON *.* TO repl")
    primary.settle()
    server = serve(primary.data / "binlog.index")
    found = []
    for port in (server.port, primary.port):
        replica = fresh_server(
            name, {"replicate-events-marked-for-skip": "FILTER_ON_MASTER"}, server_id=71
        )
        attach(replica, port)
        wait_for(
            lambda replica=replica: ("done",) in replica.query("SHOW DATABASES"),
            lambda replica=replica: str(errors(replica)),
        )
        assert not errors(replica)
        found.append(replica.query("SELECT id FROM shop.t ORDER BY id"))
        replica.stop()
    assert found == [[(0,), (2,), (4,)]] * 2


def test_mysql_replicas_that_leave_tagged_gtids_out_of_their_set(serve, fresh_server):
    """SKIP_TAGGED_GTIDS, to a source before 8.3: the replica gets what it does not have."""
    primary = fresh_server("mysql-9.7", COMMON["mysql"], server_id=1)
    replica = fresh_server("mysql-9.7", COMMON["mysql"], server_id=71)
    replica.execute("SET gtid_next = 'AUTOMATIC:blue'")
    replica.execute("CREATE DATABASE its_own")
    replica.execute("SET gtid_next = 'AUTOMATIC'")
    primary.execute("CREATE DATABASE shop")
    primary.settle()
    server = serve(primary.data / "binlog.index", server_version="8.0.36")
    attach(replica, server.port)
    wait_for(lambda: ("shop",) in replica.query("SHOW DATABASES"), lambda: str(errors(replica)))
    (request,) = [each.transmit.request for each in server.sessions if each.transmit]
    assert request.flags & DumpFlag.SKIP_TAGGED_GTIDS
    assert not request.gtids
