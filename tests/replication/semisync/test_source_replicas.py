"""The semi-synchronous source with real replicas, which attach to `tailrace.serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pymysql
import pytest

import tailrace
from tailrace.constants import Flavour
from tailrace.events.description import STANDARD_VERSIONS
from tailrace.replication.semisync.source import SemisyncSource
from tests.replication.source.conftest import PASSWORD
from tests.replication.source.test_replicas import attach
from tests.waiting import DEADLINE, ended, in_thread, wait_for

if TYPE_CHECKING:
    from tools.servers import Server

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TABLE = "create table shop.orders (id int primary key, name varchar(40))"
REPLICAS = {
    "mysql-9.7": {
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
        "plugin-load-add": "semisync_replica.so",
        "rpl_semi_sync_replica_enabled": "ON",
    },
    "mariadb-11.8": {"rpl_semi_sync_slave_enabled": "ON"},
}


class Chain(NamedTuple):
    semisync: SemisyncSource
    log: tailrace.writing.LogWriter
    replica: Server
    table: tailrace.Table
    port: int

    def connect(self):
        """A client of the source."""
        return pymysql.connect(host="127.0.0.1", port=self.port, user="repl", password=PASSWORD)

    def commit(self, first, last):
        for number in range(first, last):
            with self.log.transaction() as transaction:
                transaction.insert(self.table, [(number, f"row {number}")])

    def attached(self):
        wait_for(lambda: self.semisync.status.clients == 1, "the replica")

    def ids(self):
        return [row[0] for row in self.replica.query("SELECT id FROM shop.orders ORDER BY id")]


@pytest.fixture(params=[("mysql-9.7", True), ("mariadb-11.8", False)], ids=str)
def chain(request, tmp_path, fresh_server, certificate):
    """A program's log, served to a replica that asks for semi-synchronous replication."""
    name, tls = request.param
    authority, cert, key = certificate
    flavour = name.partition("-")[0]
    mysql = flavour == "mysql"
    semisync = SemisyncSource(timeout=DEADLINE)
    table = tailrace.Table.parse(
        TABLE, flavour=flavour, server_version=STANDARD_VERSIONS[Flavour(flavour)]
    )
    uuid = {"server_uuid": UUID} if mysql else {}
    with (
        tailrace.create(
            tmp_path / "binlog.000001", flavour=flavour, server_id=7, observers=[semisync], **uuid
        ) as log,
        tailrace.serve(
            tmp_path,
            server_id=7,
            user="repl",
            password=PASSWORD,
            observers=[semisync],
            **uuid,
            **({"gtid_mode": True} if mysql else {}),
            **({"tls_cert": cert, "tls_key": key} if tls else {}),
        ) as source,
    ):
        replica = fresh_server(name, REPLICAS[name], server_id=22)
        attach(replica, source.port, authority if tls else None)
        made = Chain(semisync, log, replica, table, source.port)
        made.attached()
        with log.transaction() as transaction:
            transaction.query("create database shop", database="shop")
        with log.transaction() as transaction:
            transaction.query(TABLE, database="shop")
        yield made
        replica.query("STOP REPLICA" if mysql else "STOP SLAVE")


def test_every_commit_that_returned_is_on_the_replica(chain):
    """With several threads; the counters are those of MySQL's status variables."""
    ended(*[in_thread(chain.commit, first, first + 50) for first in (100, 200, 300, 400)])
    status = chain.semisync.status
    assert (status.clients, status.status, status.no_times) == (1, True, 0)
    assert (status.yes_tx, status.no_tx, status.wait_sessions) == (202, 0, 0)
    (state,) = chain.semisync.replicas
    assert (state.server_id, state.user) == (22, "repl")
    assert state.acknowledged == chain.log.position
    expected = [number for first in (100, 200, 300, 400) for number in range(first, first + 50)]
    wait_for(lambda: chain.ids() == expected, "the rows")
    shown = dict(chain.replica.query("SHOW GLOBAL STATUS LIKE 'rpl_semi_sync_%_status'"))
    assert "ON" in shown.values(), shown
    with chain.connect() as client, client.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Rpl_semi_sync_source_%'")
        status = dict(cursor.fetchall())
        cursor.execute("SELECT @@global.rpl_semi_sync_source_timeout")
        assert cursor.fetchone() == (DEADLINE * 1000,)
    assert status["Rpl_semi_sync_source_yes_tx"] == "202"
    assert status["Rpl_semi_sync_source_status"] == "ON"
    assert len(status) == 14
